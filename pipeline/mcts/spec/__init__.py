"""Spec of an mcts run: its records and its scenarios. Pure; imports search and the readers of specs.

model  MctsSpec, Scenario, GuideNames, and the fields of rules by key; keys of a scenario: their table, rules,
       readers"""
