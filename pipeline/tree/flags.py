"""FLAGS: options of `coppice tree` that stand for keys of the spec, read as `read` reads them."""

from __future__ import annotations

from pipeline.spec import Item
from pipeline.spec_fields import Field, Reader, choice
from pipeline.tree.read import PARALLEL_BACKENDS, SPEC

OTHER_NAMES = {"threadpool": "threads"}


def _backend(item: Item, what: str) -> str:
    name: str = choice([*PARALLEL_BACKENDS, *OTHER_NAMES])(item, what)
    return OTHER_NAMES.get(name, name)


def _flag(field: Field) -> Field:
    """The command line knows other names too."""
    return field._replace(read=Reader(_backend, {})) if field.key == "parallel_backend" else field


FLAGS = tuple(map(_flag, SPEC.flags))
