"""What can still be said of contents that are gone: sizes, the first byte that differs, which file of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from typing import IO

from pipeline.build.session import Session
from pipeline.core.freshness import Reason
from pipeline.core.graph import Target
from pipeline.edge import state
from pipeline.edge.files import FOLDER, entry
from pipeline.edge.store import Store
from pipeline.views.why import short

_CHUNK = 1 << 20
_SHOWN = 3


def evidence(session: Session, target: Target, reason: Reason) -> str:
    """A remark on one difference, empty when nothing is known beyond its hashes."""
    if reason.what == "output changed" and reason.old is not None:
        return _output(session, target, reason)
    if reason.what != "input changed":
        return ""
    if reason.where in session.maker.files.watched:
        return _inside(session, target.run, reason)
    old = _size(session.maker.stores[target.run].object(reason.old))
    return _sizes(old, _size(reason.where))


def _output(session: Session, target: Target, reason: Reason) -> str:
    """The old content of an output is in the store, unless the store was cleared."""
    old = _stored(session.maker.stores[target.run], session, target, reason.where)
    if old is None:
        return _sizes(None, _size(reason.where))
    with old, open(reason.where, "rb") as new:
        sizes = _sizes(old.seek(0, os.SEEK_END), _size(reason.where))
        old.seek(0)
        return f"{sizes}, first differing byte {_first_difference(old, new)}"


def _stored(store: Store, session: Session, target: Target, path: str) -> IO[bytes] | None:
    receipt = session.maker.receipts[target.run].receipt(target.name)
    stored = store.look(receipt.key) if receipt else None
    if stored is None or len(stored.result.contents) != len(target.outputs):
        return None
    place = target.outputs.index(path)
    content, small = stored.result.contents[place], stored.result.small[place]
    return BytesIO(small) if small is not None else open(store.object(content), "rb")


def _first_difference(old: IO[bytes], new: IO[bytes]) -> int:
    """Counted from 1, as cmp does; one past the end of the shorter when that is how the longer begins."""
    at = 0
    while (a := old.read(_CHUNK)) == (b := new.read(_CHUNK)) and a:
        at += len(a)
    pairs = enumerate(zip(a, b, strict=False))
    return at + 1 + next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None  # not there, or no longer


def _sizes(old: int | None, new: int | None) -> str:
    if new is None:
        return ""
    return f"now {new} bytes" if old is None else f"{old} -> {new} bytes" if old != new else f"still {new} bytes"


def _inside(session: Session, run: str, reason: Reason) -> str:
    """Which files of a folder or pattern changed; only if what is remembered is what the target has read."""
    loaded = state.load(run)
    if loaded is None:
        return ""
    seen, known, _ = loaded
    contents = dict(zip(seen.files, known.contents, strict=True))
    old = {name: contents[name] for name in known.watched.get(reason.where, ()) if contents[name] != FOLDER}
    if sha256(b"".join(map(entry, old, old.values()))).hexdigest() != reason.old:
        return ""
    files = session.maker.files
    now = {name: files.content(name) for name in files.watched[reason.where] if os.path.isfile(name)}
    changes = list(_changes(old, now))
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return ", ".join(changes[:_SHOWN]) + more


def _changes(old: dict[str, str], now: dict[str, str | None]) -> Iterator[str]:
    for name in sorted({*old, *now}):
        if name not in old:
            yield f"{name} is new"
        elif name not in now:
            yield f"{name} is gone"
        elif old[name] != now[name]:
            yield f"{name} {short(old[name])} -> {short(now[name])}"
