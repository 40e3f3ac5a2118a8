"""The build, as doit sees it: every spec in specs/ becomes tasks named after it."""

from pipeline.dodo import DOIT_CONFIG, task_runs  # noqa: F401
