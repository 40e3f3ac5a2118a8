"""Screens for people that follow a run: the page that is served, the terminal, and a recorded run as a show.

Not pure: clock, terminal, files, processes, sockets.  Reads what builds have recorded and writes nothing of a run;
steering goes through the commands.  All draw the JSON of projections (`core/projection`) and judge nothing.

feed      a run's projection as it changes, in this process or in one of its own
access    who may ask the server for what: hosts, origins, tokens, paths; what is told to nobody; decides, does nothing
stream    what a server keeps of a run, and the responses that send it on
server    the server of `coppice dashboard`
show      a recorded run, played at its times
terminal  `coppice watch` on a full screen, by textual"""
