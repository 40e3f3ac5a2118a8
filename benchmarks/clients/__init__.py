"""Real clients as coders of a small search, against a server that answers by a script.

installed  clients from the registries, each in a folder of its own
recipes    what a spec says of each client
searched   the small search: its repository, its spec, the command line, and what came of it"""
