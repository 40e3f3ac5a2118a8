"""A run as lines of text for a width and a height: the JSON of a projection drawn for terminals, without colours.

Counts and judges nothing.  A number is shown whole or not at all, since a part of one is another number; what is left
out for want of room is said.  Whatever others wrote is cleaned here, so that nothing in it moves a cursor."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from pipeline.core.projection import LIVE, PAUSED, STATUSES, Json
from pipeline.core.text import duration, plural
from pipeline.views.lines import (
    cell_text,
    clean_text,
    cut_text,
    folded_line,
    pad_text,
    since_text,
    text_width,
    thin_marks,
    time_text,
    wrap_indented,
    wrap_text,
)

STATE_SIGNS = {"empty": "○", "live": "▶", "paused": "‖", "stopped": "■", "killed": "✕", "failed": "✕", "done": "●"}
ARROWS = {"higher": "↑", "lower": "↓"}
ARROWS_LEGEND = "↑ higher is better, ↓ lower is better"
MISSING = "-"
RUNNING = "running"  # the block of what a build works on
OTHERS, AMOUNTS = 2, 3  # ranks of blocks where there is little room
GAP, NOT_MEASURED = "  ", "//"
PROSE = 20  # a column that is wider is of prose, which may be cut; others are whole or left out
LEAST_PROSE, LEAST_NAMES = 12, 14  # columns of a terminal that it keeps, and the first column, of names
MOST_ROWS = 40  # of a table, where there is no height to fit
MOST_HEADLINE, MOST_FIGURES = 2, 3  # lines of them, where there is
SHADES = "░▒▓█"
# For terminals without Unicode.
_SIGNS = {"▲": "^", "●": "*", "◆": "+", "◇": "?", "▽": "v", "✕": "x", "⊘": "0", "▶": ">", "…": "~", "·": ".", "○": "o"}
_SIGNS |= {"≠": "#", "↺": "@", "◐": "%", "‖": "=", "■": "#", "↑": "^", "↓": "v", "─": "-", "│": "|", "→": ">", "±": "~"}
_SIGNS |= {"░": ".", "▒": ":", "▓": "%", "█": "#"}
_ASCII = str.maketrans(_SIGNS)


class Place(NamedTuple):
    """The part of a run that is shown: details of an item; a view, which is a block by name; rows with a text."""

    item: str = ""
    view: str = ""
    filter: str = ""


def watch_command(run: str, place: Place) -> str:
    """The command that opens this place."""
    words = ["coppice", "watch", f"{run}:{place.item}" if place.item else run]
    for name in ("view", "filter"):
        if value := getattr(place, name):
            words += [f"--{name}", value]
    return shlex.join(words)


def snapshot(
    projection: Json, width: int, height: int | None = None, unicode: bool = True, now: float | None = None
) -> list[str]:
    """A run in lines of at most `width` columns; without a height all blocks, of long tables their beginnings.

    `now`: the clock, of a run that goes on and not of a recorded one."""
    projection = count_on(projection, now)
    head = head_lines(projection, width, bounded=height is not None)
    blocks = projection["blocks"]
    if height is None:
        meaning = wrap_text(projection["meaning"], width)
        parts = [head, meaning, *(block_lines(block, width) for block in blocks)]
        lines = [line for part in parts if part for line in ("", *part)][1:]
    else:
        lines = [*head, *_fitting_blocks(blocks, width, height - len(head))][:height]
    return [ascii_signs(line, unicode) for line in lines]


def ascii_signs(line: str, unicode: bool) -> str:
    return line if unicode else line.translate(_ASCII)


# --- Times that go on.


def count_on(projection: Json, now: float | None) -> Json:
    """A projection whose times that go on are texts: how long it is by the clock; without one, the times themselves."""
    figures = [_counted_figure(figure, now) for figure in projection["figures"]]
    blocks = [_counted_table(block, now) if block["is"] == "table" else block for block in projection["blocks"]]
    return {**projection, "figures": figures, "blocks": blocks, "now": now}


def _counted_figure(figure: Json, now: float | None) -> Json:
    since, until = figure.get("since"), figure.get("until")  # a recording of before has neither
    text, note = figure["text"], figure["note"]
    if since is not None and now is not None:
        text = duration(now - since, 0)
    if until is not None:
        left = f"about {duration(until - now, 0)} left" if now is not None else f"until about {time_text(until)}"
        note = ", ".join(filter(None, [note, left]))
    return {**figure, "text": text, "note": note, "since": None, "until": None}


def _counted_table(table: Json, now: float | None) -> Json:
    places = {at for at, column in enumerate(table["columns"]) if column.get("is_since")}
    if not places:
        return table
    whole = [{"is_since": False, "is_number": True} if at in places else {} for at in range(len(table["columns"]))]
    columns = [{**column, **more} for column, more in zip(table["columns"], whole, strict=True)]
    rows = [
        {**row, "cells": [since_text(cell, now) if at in places else cell for at, cell in enumerate(row["cells"])]}
        for row in table["rows"]
    ]
    return {**table, "columns": columns, "rows": rows}


# --- The head: what it is, how it stands, the figures.


def head_lines(projection: Json, width: int, bounded: bool = True, command: str = "") -> list[str]:
    """Lines of the head.  The first is the command that shows this, and beside it, or below, how the run stands."""
    state, command = state_text(projection), cell_text(command or projection["command"] or projection["run"])
    room = width - text_width(state) - len(GAP)
    first = [pad_text(command, room) + GAP + state] if text_width(command) <= room else [command, state]
    headline, why = wrap_text(projection["headline"], width), cell_text(projection["state"]["why"])
    reason = [] if why in cell_text(projection["headline"]) else wrap_text(why, width)  # it may be said already
    figures = figure_lines(projection["figures"], width)
    if bounded:
        headline, reason = (_clipped(lines, MOST_HEADLINE, width) for lines in (headline, reason))
        figures = _clipped(figures, MOST_FIGURES, width)
    return [*(cut_text(line, width) for line in first), *reason, *headline, *figures]


def state_text(projection: Json) -> str:
    """The state, and since when: for a run that goes how long, for another the day and hour."""
    state, now = projection["state"], projection.get("now")
    since, at = state["since"], projection["at"] if now is None else now
    words = [f"{STATE_SIGNS.get(state['word'], '')} {cell_text(state['word'])}".strip()]
    words += ["and paused"] * (state["word"] != PAUSED and "resume" in projection.get("can", ()))
    if since is not None and state["word"] not in (LIVE, PAUSED):
        words.append(f"since {time_text(since)}")
    elif since is not None and at is not None:
        words.append(f"for {duration(at - since, 0)}")
    return " ".join(words)


def figure_text(figure: Json) -> str:
    note = f" ({cell_text(figure['note'])})" if figure["note"] else ""
    return f"{cell_text(figure['name'])} {cell_text(figure['text']) or MISSING}{ARROWS.get(figure['better'], '')}{note}"


def figure_lines(figures: Iterable[Json], width: int) -> list[str]:
    lines: list[str] = []
    for figure in figures:
        part = figure_text(figure)
        if lines and text_width(f"{lines[-1]} · {part}") <= width:
            lines[-1] += f" · {part}"
        else:
            lines += wrap_text(part, width)
    return lines


# --- Blocks.


def block_lines(block: Json, width: int, most: int | None = None) -> list[str]:
    """A block below its title, in at most so many lines."""
    lines = BLOCKS[block["is"]](block, width, most)
    return lines if most is None else lines[:most]


def title_line(title: str, width: int) -> str:
    start = cut_text(f"── {cell_text(title)} ", width)
    return start + "─" * (width - text_width(start))


def _text_lines(block: Json, width: int, most: int | None) -> list[str]:
    lines = wrap_text(block["text"], width)
    title = title_line(block["title"], width)
    if most is not None and is_log(block):
        return [title, *lines[max(0, len(lines) - most + 1) :]]
    return [title, *_clipped(lines, None if most is None else most - 1, width)]


def _picture_lines(block: Json, width: int, most: int | None) -> list[str]:
    """The sentence of a picture: what it shows is in its SVG, which no terminal draws."""
    lines = _clipped(wrap_text(block["sentence"], width), None if most is None else most - 1, width)
    return [title_line(block["title"], width), *lines]


def _code_lines(block: Json, width: int, most: int | None) -> list[str]:
    lines = [part for line in clean_text(block["text"]).split("\n") for part in folded_line(thin_marks(line), width)]
    if most is not None:
        lines = lines[max(0, len(lines) - most + 1) :] if is_log(block) else _clipped(lines, most - 1, width)
    left = f"{plural(block['left_out'], 'byte')} left out" if block["left_out"] else ""
    path = f"all of it: {cell_text(block['path'])}" if block["path"] else ""
    rest = wrap_text("; ".join(filter(None, [left, path])), width) if most is None else []
    return [title_line(block["title"], width), *lines, *rest]


def is_log(block: Json) -> bool:
    """Check if the end of a block is what counts."""
    return block["name"] in ("events", "log") or block.get("look") == "log"


def _clipped(lines: list[str], most: int | None, width: int) -> list[str]:
    """The first lines; the last of them says that there are more."""
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], *(cut_text(f"{line} …", width, "…") for line in lines[most - 1 : most])]


# --- Tables.


class TableLayout(NamedTuple):
    """Columns of a table that have a place, each with its width; `left_out`: titles of those that have none."""

    kept: Sequence[int]
    heads: Sequence[str]
    widths: Sequence[int]
    is_number: Sequence[bool]
    is_statused: bool  # a column of its own says how a row stands
    status_column: int  # of the table, which says it; -1: none does
    left_out: Sequence[str]
    indent: int  # the most

    @property
    def head(self) -> str:
        return self._line([self.heads[at] for at in self.kept])

    def line(self, row: Json) -> str:
        cells = self.cells(row)
        return self._line([cells[at] for at in self.kept if at < len(cells)])

    def whole_lines(self, row: Json) -> list[str]:
        """A row of which nothing is cut: texts go on below, each in its column."""
        cells = self.cells(row)
        texts = [
            [cells[at]] if self.is_number[at] or text_width(cells[at]) <= wide else wrap_indented(cells[at], wide)
            for at, wide in zip(self.kept, self.widths, strict=True)
            if at < len(cells)
        ]
        height = max(map(len, texts), default=1)
        return [self._line([text[at] if at < len(text) else "" for text in texts]) for at in range(height)]

    def rest(self, row: Json) -> str:
        """The cells that have no place or are cut, texts before numbers and the last one first, after their titles."""
        cells, place = self.cells(row), dict(zip(self.kept, self.widths, strict=True))
        left = [at for at, cell in enumerate(cells) if text_width(cell) > place.get(at, 0) and cell != MISSING]
        left.sort(key=lambda at: (self.is_number[at], at in place, -at))
        return " · ".join(f"{self.heads[at]}: {cells[at].strip()}" for at in left)

    def cells(self, row: Json) -> list[str]:
        """All cells of a row as they are shown: indented by its depth, with the sign and word of its status."""
        cells = [cell_text(cell) for cell in row["cells"]]
        cells[:1] = [" " * min(self.indent, 2 * row["depth"]) + each for each in cells[:1]]
        sign = STATUSES.get(row["status"], "")
        if self.status_column >= 0 and sign:
            cells[self.status_column] = f"{sign} {cells[self.status_column]}".rstrip()
        if self.is_statused:
            cells.insert(1, f"{sign} {cell_text(row['status'])}".strip())
        return [cell or (MISSING if is_number else "") for cell, is_number in zip(cells, self.is_number, strict=False)]

    def _line(self, cells: Sequence[str]) -> str:
        columns = zip(cells, self.widths, [self.is_number[at] for at in self.kept], strict=False)
        return GAP.join(
            pad_text("…" if is_number and text_width(cell) > width else cell, width, is_number)
            for cell, width, is_number in columns
        ).rstrip()


def table_layout(table: Json, rows: Sequence[Json], width: int) -> TableLayout:
    """Places of the columns by what is in these rows.

    Prose is cut first; then columns of prose are left out, but for one, and the others from the right."""
    titles = [column["title"].lower() for column in table["columns"]]
    status = titles.index("status") if "status" in titles else -1
    columns = [*table["columns"]]
    is_statused = status < 0 and any(row["status"] for row in table["rows"])
    if is_statused:
        columns.insert(1, {"title": "status", "is_number": False, "unit": "", "better": ""})
    heads = [column_head(column) for column in columns]
    is_number = [column["is_number"] for column in columns]
    draft = TableLayout((), heads, (), is_number, is_statused, status, (), width // 8)
    natural = [max(1, text_width(head)) for head in heads]
    for row in rows:
        for at, cell in enumerate(draft.cells(row)[: len(natural)]):
            natural[at] = min(width, max(natural[at], text_width(cell)))
    least = [min(wide, LEAST_NAMES + draft.indent) if at == 0 else wide for at, wide in enumerate(natural)]
    prose = [at for at, wide in enumerate(natural) if at and wide > PROSE and not is_number[at]]
    for at in prose:
        least[at] = LEAST_PROSE
    kept = [*range(len(columns))]
    leaving = [*range(1, len(columns)), *prose[1:]]  # the last one first
    while leaving and sum(least[at] for at in kept) + len(GAP) * (len(kept) - 1) > width:
        if (last := leaving.pop()) in kept:
            kept.remove(last)
    room = width - len(GAP) * (len(kept) - 1)
    widths = _shrunk([natural[at] for at in kept], [least[at] for at in kept], room)
    return draft._replace(kept=kept, widths=widths, left_out=[heads[at] for at in range(len(heads)) if at not in kept])


def _shrunk(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit: the widest column that may shrink gives first."""
    widths = [*natural]
    while (over := sum(widths) - room) > 0:
        able = [at for at, (wide, low) in enumerate(zip(widths, least, strict=True)) if wide > low]
        if not able:
            widths[0] = max(1, widths[0] - over)
            break
        widest = max(able, key=lambda at: widths[at])
        widths[widest] -= 1
    return widths


def column_head(column: Json) -> str:
    unit = f" {cell_text(column['unit'])}" if column["unit"] else ""
    return f"{cell_text(column['title'])}{unit}{ARROWS.get(column['better'], '')}"


def table_title(table: Json, shown: int, layout: TableLayout) -> str:
    """The title with how many rows there are, and what of the table is not shown."""
    count = len(table["rows"])
    rows = plural(count, "row") if shown >= count else f"{shown} of {plural(count, 'row')}"
    return f"{table['title']} · {rows}" + (f" · no room for {', '.join(layout.left_out)}" if layout.left_out else "")


def _table_lines(table: Json, width: int, most: int | None) -> list[str]:
    rows = table["rows"][: MOST_ROWS if most is None else max(0, most - 2)]
    layout = table_layout(table, rows, width)
    sentence = wrap_text(table["sentence"], width) if most is None else []
    title = title_line(table_title(table, len(rows), layout), width)
    if not table["rows"]:
        return [title, *sentence]
    lines = (line for row in rows for line in ([layout.line(row)] if most is not None else layout.whole_lines(row)))
    return [title, *sentence, cut_text(layout.head, width), *(cut_text(line, width) for line in lines)]


def filtered_rows(rows: Sequence[Json], text: str) -> Sequence[Json]:
    """Rows with a text in a cell, in their status or in their item, whatever its case."""
    if not text:
        return rows
    wanted = text.casefold()
    return [row for row in rows if wanted in " ".join((*row["cells"], row["status"], row["item"])).casefold()]


# --- Heat maps.


def _heat_lines(heat: Json, width: int, most: int | None) -> list[str]:
    """Cells by shade and sign: how far from the centre, and on which side of it; with their numbers where they fit."""
    values = [value for row in heat["rows"] for value in row["values"] if value is not None and isfinite(value)]
    title, sentence = title_line(heat["title"], width), wrap_text(heat["sentence"], width) if most is None else []
    label = min(24, width // 3, max((text_width(cell_text(row["title"])) for row in heat["rows"]), default=0))
    room = width - label - len(GAP)
    with_numbers = [heat_cell(value, values, heat["centre"], True) for row in heat["rows"] for value in row["values"]]
    wide = max(map(len, with_numbers), default=1)
    count = len(heat["columns"])
    numbered = count * (wide + 1) > room
    cell = max(2, len(str(count))) if numbered else wide
    kept = min(count, max(1, (room + 1) // (cell + 1)))
    heads = [str(at + 1) for at in range(kept)] if numbered else heat["columns"]
    lines = [pad_text("", label) + GAP + " ".join(pad_text(cell_text(head), cell) for head in heads)]
    for row in heat["rows"][: MOST_ROWS if most is None else max(0, most - 3)]:
        cells = [heat_cell(value, values, heat["centre"], not numbered) for value in row["values"][:kept]]
        lines.append(pad_text(cell_text(row["title"]), label) + GAP + " ".join(pad_text(each, cell) for each in cells))
    named = ", ".join(f"{at + 1} {cell_text(name)}" for at, name in enumerate(heat["columns"])) if numbered else ""
    left = f"{plural(count - kept, 'column')} of {count} left out for want of room" if kept < count else ""
    rows_left = len(heat["rows"]) - (len(lines) - 1)
    rows = f"{plural(rows_left, 'row')} more" if rows_left else ""
    legend = [part for text in (_heat_legend(heat, values), named, left, rows) for part in wrap_text(text, width)]
    return [title, *sentence, *(cut_text(line.rstrip(), width) for line in lines), *legend]


def heat_cell(value: float | None, values: Sequence[float], centre: float | None, with_number: bool) -> str:
    if value is None or not isfinite(value):
        return NOT_MEASURED
    middle = min(values, default=0.0) if centre is None else centre
    far = max((abs(each - middle) for each in values), default=0.0)
    part = abs(value - middle) / far if far else 0.0
    shade = SHADES[min(len(SHADES) - 1, int(part * len(SHADES)))]
    sign = "" if centre is None else "+" if value > centre else "-" if value < centre else "="
    if not with_number:
        return shade + sign
    return f"{shade} {value:+.3g}" if centre == 0 else f"{shade}{sign} {value:.3g}"


def _heat_legend(heat: Json, values: Sequence[float]) -> str:
    unit = f" {cell_text(heat['unit'])}" if heat["unit"] else ""
    better = f"; {cell_text(heat['better'])} is better" if heat["better"] else ""
    if not values:
        return f"{NOT_MEASURED} not measured"
    if heat["centre"] is None:
        shades = f"from {min(values):.3g} ({SHADES[0]}) to {max(values):.3g}{unit} ({SHADES[-1]})"
    else:
        far = max(abs(value - heat["centre"]) for value in values)
        shades = f"+ above and - below {heat['centre']:.3g}, {SHADES[-1]} by up to {far:.3g}{unit}"
    return f"{shades}{better}; {NOT_MEASURED} not measured"


BLOCKS = {
    "text": _text_lines,
    "table": _table_lines,
    "picture": _picture_lines,
    "heat": _heat_lines,
    "code": _code_lines,
}


# --- Blocks in a height.


def _fitting_blocks(blocks: Sequence[Json], width: int, height: int) -> list[str]:
    """Blocks in so many lines: a few for each as far as they go, then more by their ranks.

    What runs comes first, then tables whose rows open; all else only where a third of the lines is left."""
    full = {block["name"]: len(block_lines(block, width, height + 2)) for block in blocks}
    wanted = sorted(blocks, key=_rank)  # a stable sort
    given: dict[str, int] = {}
    room = height - 1  # for what is not shown
    for block in wanted:
        least = min(full[block["name"]], 3 if block["is"] == "table" else 4 if is_log(block) else 2)
        if least <= room - (0 if _rank(block) < OTHERS else height // 3):
            given[block["name"]] = least
            room -= least
    room += len(given) == len(blocks)
    ranks = ([block["name"] for block in wanted if _rank(block) == rank] for rank in range(AMOUNTS + 1))
    for names in ranks:
        while room > 0 and (hungry := [name for name in names if given.get(name, 0) < full[name] and name in given]):
            for name in hungry[:room]:
                given[name] += 1
                room -= 1
    shown = [block_lines(each, width, given[each["name"]]) for each in blocks if each["name"] in given]
    left = [cell_text(block["title"]) for block in blocks if block["name"] not in given]
    return [
        *(line for lines in shown for line in lines),
        *([cut_text(f"not shown: {', '.join(left)}", width)] if left and height > 0 else []),
    ]


def _rank(block: Json) -> int:
    """How early a block gets its lines: what runs, tables whose rows open, others, and tables of amounts at last."""
    if block["is"] != "table":
        return OTHERS
    return 0 if block["name"] == RUNNING else 1 if any(row["item"] for row in block["rows"]) else AMOUNTS
