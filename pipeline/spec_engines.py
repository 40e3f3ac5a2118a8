"""Keys of a spec that say where its targets are made: `engine:`, and a mapping for each engine.

They are no part of any recipe: the same spec has the same results wherever it runs."""

from __future__ import annotations

from typing import Any

from pipeline import spec_fields as fields
from pipeline.core.graph import ENGINES, MOST_ORDERS, SLURM, THREADS
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader, Values, quoted


def _words(item: Item, what: str) -> list[str]:
    return [each.text(what) for each in (item.items(what) if item.is_list else [item])]


RESOURCES = FieldTable(
    Field("partition", fields.TEXT, "`--partition`", without="Slurm's default"),
    Field("time", fields.SECONDS, "`--time`, the most that a job may take: `90m`, `2h`", without="the partition's"),
    Field("memory", fields.SIZES["memory"], "`--mem`: `4 GB`", without="the partition's"),
    Field("cpus", fields.count(1, 100_000), "`--cpus-per-task`", without="1"),
    Field("gpus", fields.count(1, 10_000), "`--gpus`", without="none"),
    Field("extra", Reader(_words, fields.TEXTS), "further options of `sbatch`: `[--qos=long, --exclude=n7]`", []),
)  # fmt: skip


def _resources(item: Item, what: str) -> dict[str, dict[str, Any]]:
    return {name: RESOURCES.read(each, f"{what}: {name}").as_dict() for name, each in item.pairs(what)}


SLURM_KEYS = FieldTable(
    *RESOURCES,
    Field("account", fields.TEXT, "`--account`", without="Slurm's default"),
    Field("resources", Reader(_resources, fields.object_of(RESOURCES.schema)), default={}, help=
          "the keys above by step, or by stage of a search: `{sweep: {cpus: 8}}`"),
    Field("jobs", fields.count(1, 10_000), "jobs at once, with those that wait; `-n` says another number", MOST_ORDERS),
    Field("array", fields.BOOLEAN, "jobs that are handed in together are one array", True),
    Field("python", fields.FOLDER, "the Python that runs Coppice on the nodes", without="the coordinator's"),
)  # fmt: skip


def _slurm(item: Item, what: str) -> dict[str, Any]:
    return SLURM_KEYS.read(item, what).as_dict()


ENGINE_FIELDS = (
    Field("engine", fields.choice(ENGINES), default=THREADS, help=
          f"where what costs is made: {quoted(ENGINES)}: [cluster.md](cluster.md)"),
    Field("slurm", Reader(_slurm, SLURM_KEYS.schema), without="what Slurm does by itself", help=
          "how jobs are handed in to Slurm, under `engine: slurm` or with `--engine slurm`: "
          "[cluster.md](cluster.md#keys)"),
)  # fmt: skip


def read_engine(values: Values) -> dict[str, Any]:
    """The engine of a run and its settings, plain enough to be frozen with the plan."""
    return {"engine": values["engine"], SLURM: values["slurm"] or {}, "line": values.at("engine").line}
