"""What Coppice recorded to the end, read from its receipts, and what the fuzz damaged since."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from benchmarks.fuzz.oracle import Truth, sha
from benchmarks.fuzz.world import World
from pipeline.store import receipts
from pipeline.store.receipts import DONE, FORGOTTEN, ReceiptLine

parsed = lru_cache(10_000)(receipts.parse_line)  # the same lines are read after every start


class Kept(NamedTuple):
    """A result that must not be made again while the store has it."""

    key: str
    contents: tuple[str, ...]


class Said(NamedTuple):
    """What the receipts say, as they are now: by target the last one; and the targets that are to be made anew."""

    last: dict[str, dict[str, Any]]
    forgotten: set[str]


class Memory:
    def __init__(self) -> None:
        self.recorded: dict[str, Kept] = {}  # by identity
        self.identity: dict[str, str] = {}  # by key
        self.lost: set[str] = set()  # keys whose store entry was damaged
        self.damaged: set[str] = set()  # contents of damaged objects
        self._seen: set[bytes] = set()

    def may_execute(self, world: World, name: str, truth: Truth, said: Said) -> bool:
        kept, last = self.recorded.get(truth.identity), said.last.get(name)
        if kept is None or name in said.forgotten:
            return True
        # of outputs that were renamed an older receipt may be all that is left: it speaks of other files
        is_told = last and last["key"] == kept.key and {*dict(last["outputs"])} == {*truth.outputs}
        is_fresh = is_told and not last["unsettled"] and world.intact(truth)
        return kept.key in self.lost and not is_fresh

    def learn(self, world: World, states: list[dict[str, Truth]]) -> int:
        """Take in the receipts written since the last look; how many targets they say are finished."""
        finished = 0
        for raw, line in lines(world):
            if raw in self._seen:
                continue
            self._seen.add(raw)
            if line.event == DONE and not line.fields["unsettled"]:
                finished += 1
                self._finished(world, line, states)
        return finished

    def _finished(self, world: World, line: ReceiptLine, states: list[dict[str, Truth]]) -> None:
        world.counts["recalls"] += line.fields["how"] == "recalled"
        identities = _identities(line, states)
        kept = Kept(line.fields["key"], tuple(dict(line.fields["outputs"]).values()))
        if not identities and len(states) == 1:  # else some of what it saw was old and some new
            world.find("receipt", f"{line.target}: inputs or outputs that it never had: {line.fields}")
        if len(identities) == 1:  # else it was edited meanwhile, and which of the two it saw cannot be told
            self._record(world, line.target, identities.pop(), kept)
        if line.fields["how"] == "built":
            self._check_stored(world, line.target, kept)

    def _record(self, world: World, target: str, identity: str, kept: Kept) -> None:
        if self.recorded.setdefault(identity, kept).key != kept.key:
            world.find("key", f"{target}: a second key for the same recipe and contents")
        if self.identity.setdefault(kept.key, identity) != identity:
            world.find("key", f"{target}: one key for two results")

    def _check_stored(self, world: World, target: str, kept: Kept) -> None:
        if is_stored(world, kept.key):
            self.lost.discard(kept.key)
        elif self.damaged.intersection(kept.contents):
            self.lost.add(kept.key)
        else:
            world.find("store", f"{target}: built, but {kept.key} is not in the store")

    def check_forgotten(self, world: World) -> None:
        """After a whole build: what was forgotten has been made anew."""
        if left := said(world).forgotten & world.truths().keys():
            world.find("forget", f"not made anew: {left}")

    def collected(self, world: World) -> None:
        """After gc: what receipts speak of is still there; the rest may be gone."""
        kept = {line.fields["key"] for _, line in lines(world, every=True) if line.event == DONE}
        for key in kept & self.identity.keys() - self.lost:
            if not is_stored(world, key):
                world.find("gc", f"{key} is no longer in the store")
        self.lost |= self.identity.keys() - kept

    def entry_damaged(self, key: str) -> None:
        self.lost.add(key)

    def object_damaged(self, content: str) -> None:
        self.damaged.add(content)
        self.lost.update(kept.key for kept in self.recorded.values() if content in kept.contents)


def _identities(line: ReceiptLine, states: list[dict[str, Truth]]) -> set[str]:
    """What the receipt may speak of: the results whose inputs and outputs it has."""
    inputs, outputs = dict(line.fields["inputs"]), dict(line.fields["outputs"])
    return {
        truth.identity
        for state in states
        if (truth := state.get(line.target))
        and all(inputs.get(path) == content for path, content in truth.inputs.items())
        and outputs == {path: sha(body) for path, body in truth.outputs.items()}
    }


def lines(world: World, every: bool = False) -> Iterator[tuple[bytes, ReceiptLine]]:
    """All receipts of the project's runs, and of `every` run that there ever was; torn and damaged ones left out."""
    for raw in raw_lines(world, every):
        if line := parsed(raw):
            yield raw, line


def raw_lines(world: World, every: bool = False) -> Iterator[bytes]:
    runs = (world.root / "runs").glob("*") if every else (world.root / "runs" / run.name for run in world.project.runs)
    for run in runs:
        path = run / ".coppice/receipts"
        yield from path.read_bytes().split(b"\n") if path.exists() else ()


def said(world: World) -> Said:
    out = Said({}, set())
    for raw in raw_lines(world):
        if (line := parsed(raw)) is None:
            if b" done " in raw:  # torn later: before it was written the target had been made anew
                out.forgotten.discard(raw.split(b" ", 2)[1].decode(errors="replace"))
        elif line.event == DONE:
            out.last[line.target] = line.fields
            if line.fields["how"] == "built":
                out.forgotten.discard(line.target)
        elif line.event == FORGOTTEN:
            out.last.pop(line.target, None)
            out.forgotten.add(line.target)
    return out


def is_stored(world: World, key: str) -> bool:
    """The entry is there and as good as its own checksums say."""
    store = world.root / world.project.store
    try:
        sign, _, body = (store / f"results/{key[:2]}/{key}").read_bytes().partition(b"\n")
        if sha(body).encode() != sign:
            return False
        large = [row[0] for row in json.loads(body)["outputs"] if row[1] is None]
        return all(sha((store / f"objects/{each[:2]}/{each}").read_bytes()) == each for each in large)
    except OSError:
        return False
