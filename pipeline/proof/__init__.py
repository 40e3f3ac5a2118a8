"""The kind `proof`: goals of a bank are proved by several strategies, scheduled by a bandit.

The modules here are the front that every kind has; not pure. It may import all folders below, which import in this
order: schedule (pure), spec, run, workers. No folder imports the front, and no other kind is imported.

read          YAML -> ProofSpec; options and variables in place of keys, and the specs made from them
plan          spec -> targets; those of a pursuit
stages        table of what targets do, and the short stages: check the bank, check the proofs, write the report
search_stage  the stages that search: `prove` a bank, `pursue` open goals of the ledger; seeds of samples
describe      target -> words for people
follow        follower of a build: the lines at its end
accounts      explain and replay
report        results.json, results.csv, proofs.lean; results.html and its blocks
view          what there is to see: goals, strategies, one goal; what is not recorded yet from the ledger
records       records of a run on disk: samples and their attempts, the search
spec          records of a spec
schedule      which strategy is tried next on which goal, and its journal; pure
run           one attempt, and the loop that carries out the schedule
workers       workers of strategies: the table, `micro` and its search"""
