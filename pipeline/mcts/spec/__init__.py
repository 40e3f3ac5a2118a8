"""Spec of an mcts run: its records and its scenarios. Pure; imports search and the readers of specs.

model     MctsSpec, Scenario, Guides
scenario  keys of a scenario: their table, rules and readers"""
