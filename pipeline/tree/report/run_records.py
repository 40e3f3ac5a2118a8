"""RunRecords: records of a run, each read on demand; unreliable ones count as missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from hashlib import sha256
from typing import Any

from pipeline.store.files import read_bytes
from pipeline.tree.rules.positions import ROOT, EvalSlot, NodePlace, RunLayout
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, check_rows
from pipeline.tree.run.records import Record, load_if_intact
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import shape_of

EMPTY_SHA = sha256(b"").hexdigest()


class RunRecords:
    """The records of a run.  `config`: the run's, as its plan has it.  `without`: paths of unreliable records."""

    def __init__(self, run: str, config: Mapping[str, Any], without: frozenset[str] = frozenset()) -> None:
        self.run, self.at, self.config, self.without = run, RunLayout(run), config, without
        self.shape = shape_of(config)
        # many children name their ancestors' ideas, and are compared with the same node
        self.sha, self.baseline, self.cascade = cache(self._sha), cache(self._baseline), cache(self._cascade)

    @cached_property
    def assignments(self) -> dict[int, Record]:
        return {d: found for d in self.shape.depths if (found := self.record(self.at.of_depth(d, "assigned.json")))}

    @cached_property
    def promotions(self) -> dict[int, Record]:
        """The promotions of the depths that are done: none after the one at which the search stopped."""
        done: dict[int, Record] = {}
        for depth in self.shape.depths:
            found = self.record(self.at.of_depth(depth, "promoted.json"))
            if found is None:
                break
            done[depth] = found
            if found["stop_reason"]:
                break
        return done

    def _cascade(self, depth: int) -> Record | None:
        return self.record(self.at.of_depth(depth, "cascade.json")) if self.config["cascade"] else None

    def record(self, path: str) -> Record | None:
        return None if path in self.without else load_if_intact(path)

    def content(self, path: str) -> bytes | None:
        try:
            return None if path in self.without else read_bytes(path)
        except FileNotFoundError:
            return None

    def _sha(self, path: str) -> str | None:
        content = self.content(path)
        return None if content is None else sha256(content).hexdigest()

    def ideas(self, place: NodePlace) -> list[str]:
        """The files of a node's ideas that are not empty, in the order of the slots."""
        paths = [self.at.idea(EvalSlot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        return [path for path in paths if self.sha(path) not in (None, EMPTY_SHA)]

    def stopped_after(self, slot: EvalSlot) -> int:
        """The number of blocks of a candidate that the cascade stopped; 0 of any other."""
        return int((self.record(self.at.of_eval(slot, "sweep.json")) or {}).get("stopped_after", 0))

    def _baseline(self, place: NodePlace) -> CheckedRows | None:
        """The rows of a node."""
        content, wanted = self.content(self.at.csv(place)), self.expected_rows
        return check_rows(sheet_of(self.config, content), wanted) if content and wanted else None

    @cached_property
    def expected_rows(self) -> ExpectedRows | None:
        root = self.content(self.at.csv(ROOT))
        return None if root is None else expected_by_sheet(self.config, sheet_of(self.config, root))
