"""Views for people, during and after a build: text, terminal, SVG, JSON, JUnit.

Not pure: clock, terminal, threads.  Imports core alone, but for `junit`, which writes its file whole by store.files.
Reads records and writes nothing upstream.  pages/ is pure.

events     events of a build, and a reporter that remembers all of them
lines      outcomes, failures and totals as lines of text; the end of a log; texts cut to the columns of a terminal
blocks     blocks that runs of all kinds have: what is at work, failures, past builds, one target; a run's state
reporters  the reporters of `coppice run`: console, executed-only, json, zero
junit      JUnit XML
layout     places of the boxes and arrows of a graph
progress   progress of a build, and how long the rest will take
live       the display on a terminal, redrawn in place
graph      a graph as text and as SVG
answers    answers to `why`, `info` and `plan`: why targets are stale, their details, what a build would do
snapshot   a run as lines of text, from the JSON of its projection
pages      parts of HTML pages"""
