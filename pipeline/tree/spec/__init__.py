"""The spec of a search: its records, and the readers of its keys.  Pure.

Readers take an `Item` of `pipeline.spec`, open no file, and name file:line in every mistake.  May import: core, errors,
spec, the readers of plain values, trust, tree.rules.

model  the spec's records, from TreeSpec down
roles  `roles:`, who has ideas, plans, codes and reviews, and the keys of each backend
sweep  `sweep:`, `tests:`, `cascade:`, `holdout:`: what is measured, and on which part of the data; `checks:` and
       `protect:`: what must be right before the sweep, and what no candidate may touch
score  `metrics:`, `score:` and `blocks:`"""
