"""The kind `tree`: a beam search over code states, idea -> implement -> sweep -> score -> promote.

These modules are its front, which `pipeline/kinds.py` asks of any kind.  They are not pure, and may import all folders
below; the rest of the package imports only them.  Order of the folders, each importing only earlier ones:
rules <- spec <- targets <- run <- report <- front.  rules, spec and targets are pure.

read       the keys of `kind: tree` into a TreeSpec; options of `coppice tree` that stand for keys
plan       a TreeSpec into targets, for all slots that a search can have
stages     the stages by name: what targets do
describe   a target in words; the most that the whole search may cost
follow     the coordinator: the one writer of events.jsonl, manifest.json, refs; which worktrees stay
advance    a search one depth at a time, for `coppice tree` and `coppice advance`
accounts   explain and replay: one decision explained, all decisions made again
view       what there is to see of a search, for the screens: its projection, details, how it came about
prompt     the prompts of one evaluation: those that were sent, or the one that a role would get now
retry      evaluations that failed, done again by choice: which, and what that costs
holdout    the holdout: its question, its targets, the stage that answers
branches   the winning chain as branches in the user's repository
steer      ideas that people give, and their answers to manual roles
calibrate  the table of `coppice calibrate`: ideas x numbers of blocks x effects, and its warnings
rules      pure: everything that decides
spec       pure: the records of a spec and their readers
targets    pure: the targets of a search, part by part
run        the work of targets: records, git, commands, roles, verdicts, promotion
report     reports from the records: manifest, summary, replay, validation"""
