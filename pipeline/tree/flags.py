"""FLAGS: options of `coppice tree` that stand for keys of the spec, read as `read` reads them."""

from __future__ import annotations

from pipeline.spec import Item
from pipeline.spec_fields import Reader, choice
from pipeline.tree.read import PARALLEL_BACKENDS, SPEC

OTHER_NAMES = {"threadpool": "threads"}  # on the command line alone


def _backend(item: Item, what: str) -> str:
    name: str = choice([*PARALLEL_BACKENDS, *OTHER_NAMES])(item, what)
    return OTHER_NAMES.get(name, name)


FLAGS = tuple(
    field._replace(read=Reader(_backend, {})) if field.key == "parallel_backend" else field for field in SPEC.flags
)
