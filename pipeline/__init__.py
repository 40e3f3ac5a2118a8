"""Coppice: the build graph for searches that spend real money."""

__version__ = "0.1.0"
