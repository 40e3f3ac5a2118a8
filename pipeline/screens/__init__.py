"""Screens for people that follow a run: what changes in it, and the page that is served.

Not pure: files, processes, sockets, clock, terminal.  Reads what builds have recorded and writes nothing of a run;
steering goes through the commands.  All draw the JSON of projections (`core/projection`), which a feed gives: nothing
here counts or judges.

feed      a run's projection as it changes, in this process or in one of its own
access    who may ask the server for what: hosts, origins, tokens, paths; decides, and does nothing
server    the server of `coppice dashboard`
show      a recorded run, played at its times
terminal  `coppice watch` on a full screen, by textual"""
