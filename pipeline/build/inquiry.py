"""Answer `why` and `info`: reasons why targets are stale, and the details of a target, step or run.

`why` looks no further than at what targets are made from, by one rehearsal for all that is asked.  Remarks tell what
can still be said of contents that are gone: sizes, the first byte that differs, which file of a folder changed.
`info` looks up a target's status, reads, writes and last result."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from io import BytesIO
from typing import IO

from pipeline import kinds
from pipeline.build.rehearsal import rehearse, target_statuses
from pipeline.build.session import BuildSession
from pipeline.core.freshness import Causes, Reason, StalePath
from pipeline.core.graph import Target
from pipeline.core.outcome import FRESH, IGNORED, Forecast
from pipeline.core.text import count_words, join_names
from pipeline.store import state
from pipeline.store.files import FOLDER, digest_entry
from pipeline.views import answers
from pipeline.views.graph import count_statuses

_CHUNK_BYTES = 1 << 20
_MOST_FILES = 3


def remark_on(session: BuildSession, target: Target, reason: Reason) -> str:
    """Remark on one difference; empty when nothing is known beyond its hashes."""
    if reason.what == "output changed" and reason.old is not None:
        return _output_remark(session, target, reason)
    if reason.what != "input changed":
        return ""
    if reason.where in session.maker.files.watched:
        return _changed_files(session, target.run, reason)
    old = _file_size(session.maker.stores[target.run].place("objects", reason.old))
    return _size_change(old, _file_size(reason.where))


def _output_remark(session: BuildSession, target: Target, reason: Reason) -> str:
    """Compare with the old output, if the store still has it."""
    old = _open_stored(session, target, reason.where)
    if old is None:
        return _size_change(None, _file_size(reason.where))
    with old, open(reason.where, "rb") as new:
        sizes = _size_change(old.seek(0, os.SEEK_END), _file_size(reason.where))
        old.seek(0)
        return f"{sizes}, first differing byte {_first_difference(old, new)}"


def _open_stored(session: BuildSession, target: Target, path: str) -> IO[bytes] | None:
    store = session.maker.stores[target.run]
    receipt = session.maker.receipts[target.run].receipt(target.name)
    stored = store.peek(receipt.key) if receipt else None
    if stored is None or len(stored.contents) != len(target.outputs):
        return None
    place = target.outputs.index(path)
    small = stored.small[place]
    return BytesIO(small) if small is not None else open(store.place("objects", stored.contents[place]), "rb")


def _first_difference(old: IO[bytes], new: IO[bytes]) -> int:
    """Position of the first byte that differs, from 1 as in cmp; one past the shorter if the longer begins with it."""
    at = 0
    while (a := old.read(_CHUNK_BYTES)) == (b := new.read(_CHUNK_BYTES)) and a:
        at += len(a)
    pairs = enumerate(zip(a, b, strict=False))
    return at + 1 + next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def _file_size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None  # not there, or no longer


def _size_change(old: int | None, new: int | None) -> str:
    if new is None:
        return ""
    return f"now {new} bytes" if old is None else f"{old} -> {new} bytes" if old != new else f"still {new} bytes"


def _changed_files(session: BuildSession, run: str, reason: Reason) -> str:
    """List the files of a folder or pattern that changed, if the remembered files are those the target has read."""
    loaded = state.load_state(run)
    if loaded is None:
        return ""
    seen, known, _ = loaded
    contents = dict(zip(seen.files, known.contents, strict=True))
    old = {name: contents[name] for name in known.watched.get(reason.where, ()) if contents[name] != FOLDER}
    if sha256(b"".join(map(digest_entry, old, old.values()))).hexdigest() != reason.old:
        return ""
    files = session.maker.files
    now = {name: files.content(name) for name in files.watched[reason.where] if os.path.isfile(name)}
    changes = list(_file_changes(old, now))
    more = f" and {len(changes) - _MOST_FILES} more" if len(changes) > _MOST_FILES else ""
    return ", ".join(changes[:_MOST_FILES]) + more


def _file_changes(old: dict[str, str], now: dict[str, str | None]) -> Iterator[str]:
    for name in sorted({*old, *now}):
        if name not in old:
            yield f"{name} is new"
        elif name not in now:
            yield f"{name} is gone"
        elif old[name] != now[name]:
            yield f"{name} {answers.shorten(old[name])} -> {answers.shorten(now[name])}"


class Inquiry:
    """Rehearsal of a build, from which all questions are answered."""

    def __init__(self, session: BuildSession, wanted: Iterable[int]) -> None:
        self.session, self.graph = session, session.graph
        self.forecasts = rehearse(session, session.stale(wanted))
        self.causes = Causes(session.graph, {i: seen.reasons for i, seen in self.forecasts.items()})

    def answer(self, word: str) -> str:
        """Explain a single target, or the targets that the word stands for."""
        own = self.session.select([word])
        if len(own) > 1 or word in self.session.plans:
            return self.explain_together(word, own)
        (i,) = own
        name, forecast = self.graph.targets[i].name, self.forecasts.get(i, Forecast(FRESH))
        causes = map(self._cause, self.causes.chains(i)) if i in self.causes.own else ()
        return answers.answer_text(name, forecast, [*causes], self._failures([i]))

    def explain_together(self, title: str, own: Collection[int]) -> str:
        """Explain many targets: those stale by themselves, grouped by their reasons."""
        left_out = Counter(self.forecasts[i].held_by for i in sorted(own) if self._is_left_out(i))
        alike: dict[tuple[Reason, ...], list[int]] = {}
        for i in self.causes.above(own):
            if not self._is_left_out(i):
                alike.setdefault(self.causes.own[i], []).append(i)
        groups = [
            ([self.graph.targets[i].name for i in group], self._cause(StalePath((group[0],), reasons, 0)))
            for reasons, group in alike.items()
        ]
        stale = [i for i in own if i in self.causes.own and not self._is_left_out(i)]
        below = sum(not self.causes.own[i] for i in stale)
        numbers = answers.StaleCounts(len(own), len(stale), below, [*left_out.items()])
        return answers.summary_text(title, numbers, groups, self._failures(own))

    def is_fresh(self, i: int) -> bool:
        """Check that there is nothing to report of it but that it is fresh."""
        return i not in self.causes.own and not self._is_left_out(i)

    def _is_left_out(self, i: int) -> bool:
        return i in self.forecasts and self.forecasts[i].action == IGNORED

    def _cause(self, chain: StalePath) -> answers.Cause:
        """Describe a cause, with what can still be shown of the old contents."""
        target = self.graph.targets[chain.path[-1]]
        way = []
        for below, above in zip(chain.path, chain.path[1:], strict=False):
            made = {*self.graph.targets[above].outputs}
            linking = next(path for path in self.graph.targets[below].inputs if path in made)
            way.append((self.graph.targets[above].name, linking))
        reasons = tuple((reason, remark_on(self.session, target, reason)) for reason in chain.reasons)
        return answers.Cause(tuple(way), reasons, chain.alike)

    def _failures(self, wanted: Collection[int]) -> answers.Failures:
        """Collect last failures of stale targets that these are made from, themselves included."""
        targets = [self.graph.targets[i] for i in sorted(self.graph.upstream(wanted) & self.causes.own.keys())]
        recorded = [(t.name, self.session.maker.receipts[t.run].failure(t.name)) for t in targets]
        return [(name, failure) for name, failure in recorded if failure]


def target_info(session: BuildSession, i: int, with_status: bool) -> tuple[str, bool]:
    """Text about a target, and if it is fresh."""
    graph, target = session.graph, session.graph.targets[i]
    plan, receipts = session.plans[target.run], session.maker.receipts[target.run]
    standing = target_statuses(session, [i])[i] if with_status else None
    makers = {path: graph.targets[graph.writer[path]].name if path in graph.writer else "" for path in target.inputs}
    receipt, failure = receipts.receipt(target.name), receipts.failure(target.name)
    rows = [
        ("status", [*answers.status_lines(*standing)] if standing else []),
        *{**kinds.describe(plan.kind, target), **dict(answers.limit_rows(target.limits, plan.rooms))}.items(),
        ("reads", answers.read_lines(makers)),
        ("writes", target.outputs),
        ("made", [answers.result_line(receipt)] if receipt else []),
        ("failed", [answers.failure_text(failure)] if failure else []),
    ]
    return answers.details_text(target.name, rows), standing is None or standing.status == FRESH


def run_info(session: BuildSession, run: str, with_status: bool) -> tuple[str, bool]:
    plan, own = session.plans[run], session.select([run])
    declared = {"spec": plan.spec, "kind": plan.kind, "store": plan.store, "targets": str(len(own))}
    rows = [*((word, [text]) for word, text in declared.items()), ("rooms", answers.room_lines(plan.rooms))]
    return _group_info(session, run, rows, own, with_status)


def step_info(session: BuildSession, word: str, own: Collection[int], with_status: bool) -> tuple[str, bool]:
    """Text about a step or another group of targets, and if all are fresh."""
    names = join_names([session.graph.targets[i].name for i in sorted(own)])
    return _group_info(session, word, [("targets", [f"{len(own)}: {names}"])], own, with_status)


def _group_info(
    session: BuildSession, title: str, rows: Iterable[answers.TextRow], own: Collection[int], with_status: bool
) -> tuple[str, bool]:
    """Add to the rows how many targets have each status."""
    statuses = target_statuses(session, own) if with_status else {}
    counts = count_statuses(statuses[i].status for i in own if i in statuses)
    lines = [count_words(counts)] if counts else []
    return answers.details_text(title, [*rows, ("status", lines)]), counts.keys() <= {FRESH}
