"""RunRecords: the records of a run, each read when it is asked for; what must not be believed counts as missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any

from pipeline.tree.rules.positions import ROOT, EvalSlot, NodePlace, RunLayout, places_of, slots_of
from pipeline.tree.rules.results import CheckedRows, ExpectedRows, check_rows
from pipeline.tree.run.records import Record, load_if_whole, read_bytes
from pipeline.tree.run.verdicts import expected_by_csv, sheet_of, stopped_after

EMPTY_SHA = sha256(b"").hexdigest()


class RunRecords:
    """`config`: the run's, as a plan has it.  `without`: paths of records that are not as they were written."""

    def __init__(self, run: str, config: Mapping[str, Any], without: frozenset[str] = frozenset()) -> None:
        self.run, self.at, self.config, self.without = run, RunLayout(run), config, without
        self._shas: dict[str, str | None] = {}
        self._baselines: dict[NodePlace, CheckedRows | None] = {}
        self._cascades: dict[int, Record | None] = {}

    @property
    def depths(self) -> range:
        return range(self.config["max_depth"])

    @cached_property
    def assignments(self) -> dict[int, Record]:
        return {d: found for d in self.depths if (found := self.record(self.at.of_depth(d, "assigned.json")))}

    @cached_property
    def promotions(self) -> dict[int, Record]:
        """Of the depths that are done: none after the one at which the search stopped."""
        done: dict[int, Record] = {}
        for depth in self.depths:
            found = self.record(self.at.of_depth(depth, "promoted.json"))
            if found is None:
                break
            done[depth] = found
            if found["stop_reason"]:
                break
        return done

    def cascade(self, depth: int) -> Record | None:
        if depth not in self._cascades:
            self._cascades[depth] = self.config["cascade"] and self.record(self.at.of_depth(depth, "cascade.json"))
        return self._cascades[depth]

    def places(self, depth: int) -> tuple[NodePlace, ...]:
        return places_of(depth, self.config["beam_width"])

    def all_places(self) -> Iterator[NodePlace]:
        for depth in range(self.config["max_depth"] + 1):
            yield from self.places(depth)

    def slots(self, depth: int) -> tuple[EvalSlot, ...]:
        return slots_of(depth, self.config["beam_width"], self.config["ideas_per_node"])

    def all_slots(self) -> Iterator[EvalSlot]:
        for depth in self.depths:
            yield from self.slots(depth)

    def record(self, path: str) -> Record | None:
        return None if path in self.without else load_if_whole(path)

    def content(self, path: str) -> bytes | None:
        try:
            return None if path in self.without else read_bytes(path)
        except FileNotFoundError:
            return None

    def sha(self, path: str) -> str | None:
        """Of a file that may be asked for again: the children's records name their ancestors' ideas."""
        if path not in self._shas:
            content = self.content(path)
            self._shas[path] = None if content is None else sha256(content).hexdigest()
        return self._shas[path]

    def ideas(self, place: NodePlace) -> list[str]:
        """Files with a text in them, in the order of the slots."""
        paths = [self.at.idea(EvalSlot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        return [path for path in paths if self.sha(path) not in (None, EMPTY_SHA)]

    def rows_of(self, where: NodePlace | EvalSlot) -> CheckedRows | None:
        """The rows of a node's or a candidate's CSV."""
        content, first = self.content(self.at.csv(where)), self.stopped_after(where)
        return (
            check_rows(sheet_of(self.config, content), self.expected_rows.first_blocks(first))
            if content and self.expected_rows
            else None
        )

    def stopped_after(self, where: NodePlace | EvalSlot) -> int:
        """The number of blocks of a candidate that the cascade stopped; 0 of any other."""
        sweep = self.record(self.at.of_eval(where, "sweep.json")) if isinstance(where, EvalSlot) else None
        return stopped_after(sweep or {})

    def baseline(self, place: NodePlace) -> CheckedRows | None:
        """The same of a node, to which many are compared."""
        if place not in self._baselines:
            self._baselines[place] = self.rows_of(place)
        return self._baselines[place]

    @cached_property
    def expected_rows(self) -> ExpectedRows | None:
        root = self.content(self.at.csv(ROOT))
        return None if root is None else expected_by_csv(self.config, root)
