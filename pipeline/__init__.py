"""Coppice: the build graph for searches that spend real money.

core, store, machine, git, lean, models and ledger are what kinds are built of; steps, tree, proof and mcts are the
kinds of run; build and commands run them; views show them.  `cli` is where it starts, `kinds` lists the kinds.
This module is imported before it is known whether anything is to be done, and imports nothing."""

__version__ = "0.1.0"
