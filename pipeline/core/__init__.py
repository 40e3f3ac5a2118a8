"""Pure parts that everything stands on: the graph of targets, recipes, freshness, what may start.

Pure: no I/O, no clock, no randomness.  Imports the standard library and of ours errors alone.

graph      targets, the files between them, patterns of paths, rooms; leavings that are no part of a change
recipe     what a target's result depends on, and its key
freshness  freshness of a target, the reasons when it is stale, and the target above that is the cause
schedule   what may start now
outcome    records that views show: how a target went, what a build would do, what a gc dropped
templates  texts with {braces}: parsed, filled in, quoted for a shell
text       text for people: one bounded line, numbers, lists, durations
projection a run as numbers and blocks, for every screen; and changes of it
cages      words of a spec about the cage of a command
journal    policies that are asked and told; their journals, resumed and replayed"""
