"""A page that needs nothing beside it: its frame, how it looks in the light and in the dark, and its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --line: #8884; --done: #2a7f4f; --left: #b0552a; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre, code { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
""".strip()


def framed(title: str, parts: Iterable[str], style: str = "") -> str:
    """The title is what it begins with."""
    return "\n".join([
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>\n{STYLE}\n{style.strip()}\n</style>",
        f"<h1>{escape(title)}</h1>",
        *parts,
        "</html>\n",
    ])  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Cells are HTML already.  `numbers`: the columns that have numbers."""
    top = f"<tr>{_cells(head, 'th', numbers)}</tr>" if head else ""
    body = "\n".join(f"<tr>{_cells(row, 'td', numbers)}</tr>" for row in rows)
    return f"<table>\n{top}\n{body}\n</table>"


def _cells(cells: Sequence[str], tag: str, numbers: Collection[int]) -> str:
    numeric = ' class="number"'
    return "".join(f"<{tag}{numeric if at in numbers else ''}>{cell}</{tag}>" for at, cell in enumerate(cells))
