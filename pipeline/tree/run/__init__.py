"""Work of a search while it runs: its stages and their records.  Not pure: files, git, processes, models.

May import: machine, store, git, models, core, trust, tree.rules, tree.spec.model.  From the ground up:

records    JSON records, scores and evaluations in them, the event log
seal       the seal of the holdout: hidden from commands, every opening recorded
run_repo   the run's git repository: commits made again from recorded patches, checkouts, what is kept at the end
protect    protected files: recorded once, watched around every command
command    running a command of the spec in a clean checkout
answers    answers for a judge apart, copied from where a candidate wrote them
canary     data cut off, and whether earlier decisions change
measure    the stages test, checks, sweep, row and gather
verdicts   the stages score, pair, weigh, settle, cascade and join
noise      noise of the measurements, for `coppice calibrate`
prompting  what prompts are made of: records, files, the brief
asker      asking a role: what was answered and paid for is not asked again; the stages that get ideas
implement  the stages that implement an idea: planner, coder and reviewer, or a person
nodes      the stages root, given, start and node: the root's results from a file, the records of nodes to come
decisions  the stages assign, wave, admit and promote: who may spend, where the money does not suffice for all at
           once; the table of all stages that decide
prompts/   the default prompts of the roles (Markdown, package data)"""
