"""Everything that people look at while and after a build: text, terminal, SVG, JSON, JUnit.

Not pure: clock, terminal, threads.  Imports core and no other package of ours; reads records and writes nothing
upstream.  `junit` alone writes a file, whole, like an output.  pages/ is pure.

events     what a build tells reporters, and a reporter that remembers all of it
lines      outcomes, failures and totals as lines of text; the end of a log
reporters  the reporters of `coppice run`: console, executed-only, json, zero
junit      JUnit XML
layout     where the boxes and edges of a graph go
progress   how far a build has come, and how long it will still take
live       the display on a terminal, redrawn in place
graph      a graph as text and as SVG
plan       what a build would do, as a table and as JSON
why        why targets are stale, in words
pages      what HTML pages are made of"""
