"""What the targets of a search do while it runs.  Not pure: files, git, processes, models.

May import: machine, store, git, models, core, trust, tree.rules, tree.spec.model.  From the ground up:

records    JSON records, the event log, and how scores and evaluations are spelt in them
run_repo   the run's git repository: commits made again from recorded patches, checkouts
protect    what no candidate may change: recorded once, watched around every command
seal       what is held out: hidden from commands, every opening written down
command    runs a command of the spec in a clean checkout
canary     cuts data off and looks whether earlier decisions change
measure    the stages test, checks, sweep, row and gather
verdicts   the stages score, pair, weigh, settle, cascade and join
noise      differences that mean nothing, for `coppice calibrate`
ideas      asking a role, and the stage that comes by one idea
implement  the stages that make an idea real: planner, coder and reviewer, or a person
nodes      the stages root, start and node; the records of the nodes to come
decisions  the stages assign and promote, and the table of all stages that decide
prompts/   the default prompts of the roles (Markdown, package data)"""
