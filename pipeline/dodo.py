"""All that a project's dodo.py needs: `from pipeline.dodo import DOIT_CONFIG, task_runs`."""

from __future__ import annotations

from typing import NoReturn

# Tells our commands, which doit finds as plugins, that this project is theirs.
DOIT_CONFIG = {"coppice": True}


def task_runs() -> NoReturn:
    """Reached only when doit's stock commands load the tasks, that is without our plugins."""
    from doit.exceptions import InvalidDodoFile

    raise InvalidDodoFile("the plugins of coppice are not installed beside this doit; `pip install coppice` there")
