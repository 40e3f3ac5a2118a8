"""Lean: what one may ask of it, and what it answers.

Pure, and imports nothing of ours; what talks to a Lean is below: repl/, then toolchain/, dojo/ and backends/, each of
which may import those before it.

model       theorems, states, errors, sessions; the key of a goal
repl/       our REPL: processes of Lean, shared by sessions
toolchain/  the Leans there are: one from npm, the machine's own; the REPL compiled for them
dojo/       theorems of a repository, by LeanDojo
backends/   the Lean that a run has chosen"""
