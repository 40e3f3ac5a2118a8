"""RunRecords: records of a run, each read on demand; unreliable ones count as missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any

from pipeline.store.files import read_bytes
from pipeline.tree.rules.positions import ROOT, EvalSlot, NodePlace, RunLayout, places_of, slots_of
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, check_rows
from pipeline.tree.run.records import Record, load_if_intact
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of

EMPTY_SHA = sha256(b"").hexdigest()


class RunRecords:
    """The records of a run.  `config`: the run's, as its plan has it.  `without`: paths of unreliable records."""

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
        """The promotions of the depths that are done: none after the one at which the search stopped."""
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
        return None if path in self.without else load_if_intact(path)

    def content(self, path: str) -> bytes | None:
        try:
            return None if path in self.without else read_bytes(path)
        except FileNotFoundError:
            return None

    def sha(self, path: str) -> str | None:
        """The hash of a file, kept: the records of children name their ancestors' ideas."""
        if path not in self._shas:
            content = self.content(path)
            self._shas[path] = None if content is None else sha256(content).hexdigest()
        return self._shas[path]

    def ideas(self, place: NodePlace) -> list[str]:
        """The files of a node's ideas that are not empty, in the order of the slots."""
        paths = [self.at.idea(EvalSlot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        return [path for path in paths if self.sha(path) not in (None, EMPTY_SHA)]

    def rows_of(self, where: NodePlace | EvalSlot) -> CheckedRows | None:
        """The rows of a node's or a candidate's CSV."""
        content = self.content(self.at.csv(where))
        if not content or not self.expected_rows:
            return None
        return check_rows(sheet_of(self.config, content), self.expected_rows.first_blocks(self.stopped_after(where)))

    def stopped_after(self, where: NodePlace | EvalSlot) -> int:
        """The number of blocks of a candidate that the cascade stopped; 0 of any other."""
        sweep = self.record(self.at.of_eval(where, "sweep.json")) if isinstance(where, EvalSlot) else None
        return int((sweep or {}).get("stopped_after", 0))

    def baseline(self, place: NodePlace) -> CheckedRows | None:
        """The rows of a node, kept: many candidates are compared with it."""
        if place not in self._baselines:
            self._baselines[place] = self.rows_of(place)
        return self._baselines[place]

    @cached_property
    def expected_rows(self) -> ExpectedRows | None:
        root = self.content(self.at.csv(ROOT))
        return None if root is None else expected_by_sheet(self.config, sheet_of(self.config, root))
