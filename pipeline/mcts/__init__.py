"""The kind `mcts`: Monte-Carlo tree search for proofs, by one controller or by many.

The modules here are the front that every kind has; not pure. It may import all folders below, which import in this
order: search (pure), spec, report (pure). No folder imports the front, and no other kind is imported.

read          YAML -> MctsSpec; options of `coppice mcts`, and the spec that they make
plan          spec -> targets
stages        table of what targets do, and the short stages: rows, goals, shares of the ledger, comparison
search_stage  the stage that searches for the proof of one goal
run           one theorem on a Lean: the evaluator, sessions, the loop of asking and telling
describe      target -> words for people
follow        follower of a build: the lines at its end, and the end of kept journals
accounts      explain and replay
view          what there is to see: the comparison, searches, one search, one goal
spec          records of a spec, and its scenarios; pure
search        the policies, their tree, trace and journal; priors and rewards; pure
report        comparison of scenarios as a record, a table and a page; pure"""
