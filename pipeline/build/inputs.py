"""What targets read of each other is what its maker wrote: whatever was put in its place since is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from pipeline.build.logs import log_path, note
from pipeline.build.staging import Staging, put_in_place
from pipeline.core.graph import Graph, Target
from pipeline.edge.files import Files
from pipeline.edge.job import StageFailed
from pipeline.edge.receipts import Receipts
from pipeline.edge.store import Store


class Inputs:
    """`made`: what is in outputs, as their makers recorded it; those of earlier builds are looked up when asked for."""

    def __init__(
        self, graph: Graph, files: Files, receipts: Mapping[str, Receipts], stores: Mapping[str, Store]
    ) -> None:
        self._graph, self._files, self._receipts, self._stores = graph, files, receipts, stores
        self.made: dict[str, str | None] = {}
        self._mending = Lock()

    def content(self, path: str, seen: str | None) -> str | None:
        """sha256 of an input that may be used, None when there is nothing.  `seen`: what it was when it was last used;
        that it was made so was looked at then."""
        found = self._files.content(path)
        if found == seen and path not in self.made:
            return found
        recorded = self._recorded(path)
        if recorded is None or found == recorded:
            return found
        with self._mending:
            if self._files.content(path) != recorded:
                self._mend(path, recorded)
        return recorded

    def _recorded(self, path: str) -> str | None:
        """None for what no target makes."""
        if path not in self.made:
            maker = self._maker(path)
            receipt = maker and self._receipts[maker.run].receipt(maker.name)
            self.made |= receipt.outputs if receipt else {}
            self.made.setdefault(path)
        return self.made[path]

    def _maker(self, path: str) -> Target | None:
        i = self._graph.writer.get(path)
        return None if i is None else self._graph.targets[i]

    def _mend(self, path: str, recorded: str) -> None:
        """Only what is wrong is written: others may be reading the rest."""
        maker = self._maker(path)
        assert maker is not None
        with Staging(maker, own_folder=False) as staged:
            at = maker.outputs.index(path)
            if not self._recalled(maker, at, recorded, staged.paths):
                staged.drop()
                raise StageFailed(f"{path} was changed by something else after {maker.name} made it; build again", 1)
            put_in_place(staged.paths[at], path)
            staged.drop()
        self._files.wrote(path, recorded)
        note(log_path(maker), f"{path} was changed by something else; what was made is in its place again")

    def _recalled(self, maker: Target, at: int, recorded: str, paths: Sequence[str]) -> bool:
        receipt, store = self._receipts[maker.run].receipt(maker.name), self._stores[maker.run]
        if receipt is None or (result := store.get(receipt.key)) is None:
            return False
        return result.contents[at : at + 1] == (recorded,) and store.take(receipt.key, result, paths)
