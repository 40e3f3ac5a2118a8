"""The dodo.py that `coppice init` writes."""

from pipeline.dodo import DOIT_CONFIG, task_runs  # noqa: F401
