"""Screens for people that follow a run: what changes in it, and the page that is served.

Not pure: files, processes, sockets.  Reads what builds have recorded and writes nothing of a run; steering goes through
the commands.

feed    a run's projection as it changes, in this process or in one of its own
access  who may ask the server for what: hosts, origins, tokens, paths; decides, and does nothing
stream  what a server keeps of a run, and the responses that send it on
server  the server of `coppice dashboard`"""
