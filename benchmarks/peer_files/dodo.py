"""Stock doit: the same graph with Python actions; `nothing` loads it and builds nothing."""

from action import digest
from expand import expand

DOIT_CONFIG = {"default_tasks": ["t"], "verbosity": 0, "reporter": "zero"}


def task_t():
    for step, name, inputs, output in expand():
        yield {
            "name": f"{step}.{name}",
            "actions": [(digest, [inputs, [output]])],
            "file_dep": inputs,
            "targets": [output],
        }


def task_nothing():
    return {"actions": []}
