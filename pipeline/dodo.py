"""Names for a project's dodo.py to import: `from pipeline.dodo import DOIT_CONFIG, task_runs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

# Tells our commands, which doit finds as plugins, that this project is theirs.
DOIT_CONFIG = {"coppice": True}


def task_runs() -> NoReturn:
    """Refuse: reached only when doit's stock commands load the tasks."""
    from doit.exceptions import InvalidDodoFile

    raise InvalidDodoFile(
        "these are tasks of Coppice's, which this doit does not know to be so: either dodo.py has a DOIT_CONFIG of its"
        " own after the one of pipeline.dodo, or coppice is not installed beside this doit; then install it there,"
        " `pip install PATH` with the path of its checkout"
    )


def foreign_tasks(namespace: Mapping[str, object]) -> list[str]:
    """List tasks that a dodo.py has beside ours: our commands build what is in specs/, and nothing else."""
    from doit import task_params

    others = {name: made for name, made in namespace.items() if name.startswith("task_") and callable(made)}
    return [name for name, made in others.items() if made not in (task_runs, task_params)]
