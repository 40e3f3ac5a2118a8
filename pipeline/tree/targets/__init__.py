"""Targets of a search, part by part; `plan.py` puts them in order.  Pure: functions of the spec.

May import: core, tree.rules, tree.spec.model.  Golden plans in the tests hold every name, path and parameter.

builder  common parts of targets: ports, limits, parameters, the brief for prompts; the configuration of a run
depths   the run and its depths: root, protection, ideas, candidates, nodes, promotion, report
sweeps   measuring and scoring: tests, checks, sweeps, the cascade, the holdout"""
