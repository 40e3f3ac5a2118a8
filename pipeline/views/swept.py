"""What a gc did to a store, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.swept import Swept, Tally
from pipeline.core.words import plural


def as_text(swept: Swept, dry: bool) -> str:
    done = "would drop" if dry else "dropped"
    size = swept.results.size + swept.objects.size
    gone = f"{plural(swept.results.files, 'result')} and {plural(swept.objects.files, 'object')}, {in_bytes(size)}"
    lines = [f"{swept.folder}: {done} {gone}; {'would keep' if dry else 'kept'} {_tally(swept.left, 'file')}"]
    for what, tally in (("abandoned draft", swept.drafts), ("damaged entry", swept.damaged)):
        if tally.files:
            lines.append(f"  {done} {_tally(tally, what)}")
    return "\n".join([*lines, *_others(swept)])


def _others(swept: Swept) -> Iterator[str]:
    for root in swept.others:
        yield f"  {root.place or 'a checkout'} refers to {plural(root.results, 'result')} ({root.file})"


def _tally(tally: Tally, what: str) -> str:
    return f"{plural(tally.files, what)}, {in_bytes(tally.size)}"


def in_bytes(size: float) -> str:
    """0 bytes, 812 bytes, 4.2 MB."""
    if size < 1000:
        return f"{size} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
