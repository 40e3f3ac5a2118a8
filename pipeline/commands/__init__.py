"""The command line: one command a file, or a few small ones of one subject together.

Not pure.  May import everything but the insides of kinds, which it reaches by `kinds` alone.  The only importer of
doit's command line.  `main` and `exits` and `selection` import no doit: some questions are answered without.

main           the entry of `coppice` once there is something to do
exits          exit codes, and the one line that says what is wrong
command        the base of all commands, and doit's command line with ours
selection      the runs and targets that the words of a command line mean
flags          flags that stand for keys of a spec
build          a build from words to exit code, with all its reporters
run            run
doit_commands  list, info, clean, forget, ignore; and those of doit that mean nothing here
help           help
questions      why, plan, graph, explain, replay, prompt, log
searches       advance, calibrate, holdout, retry
tree           tree, branches
steer          pause, resume, idea, answer
screens        report, dashboard, watch; how any feed comes to a terminal
upkeep         init, schema, gc
doctor         doctor
starters       what a first search over code measures, and the files that `init --kind tree` writes for it
proofs         bank, bg, mcts, stats"""
