"""The targets of a search, part by part; `plan.py` puts them in order.  Pure: functions of the spec.

May import: core, tree.rules, tree.spec.model.  Golden plans in the tests hold every name, path and parameter.

builder  what all targets have in common: ports, limits, parameters
depths   the run and its depths: root, protection, ideas, candidates, nodes, promotion, report
sweeps   what measures and scores: tests, checks, sweeps, the cascade, the holdout"""
