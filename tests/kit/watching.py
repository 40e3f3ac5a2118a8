"""Made-up projections of runs, for screens: one that goes, an empty one, a huge one, one with hostile texts."""

from collections.abc import Sequence
from math import inf, nan
from typing import Any

from pipeline.core.projection import (
    Block,
    Code,
    Column,
    Figure,
    Heat,
    HeatRow,
    Json,
    Picture,
    Projection,
    Row,
    RunState,
    Table,
    Text,
    as_json,
    delta,
)

BEGIN = 1_700_000_000.0
COLUMNS = [
    Column("idea"),
    Column("gain", is_number=True, unit="%", better="higher"),
    Column("p", is_number=True, better="lower"),
    Column("why"),
]
# What nobody should be able to put on a terminal: colours, cursor, title, direction of writing, accents in heaps.
HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 <b>&amp;</b> a" + "\u0301" * 40 + " \x00\x9b1m 漢字"
)


def figure(name: str, text: str, **more: Any) -> Figure:
    return Figure(name, text, **more)


def going(state: str = "live", ended: int = 1, kept: str = "promoted") -> Projection:
    """A search with two nodes: `ended` of four evaluations have ended, the next one runs."""
    rows = [Row(["d0.n0", "-", "-", "the start"], "d0.n0", "done")]
    for at in range(4):
        status = kept if at < ended else "running" if at == ended else "queued"
        gain = f"{1.5 - at:+.2f}" if at < ended else "-"
        rows.append(Row([f"d0.n0.i{at}", gain, "0.01", f"reason {at}"], f"d0.n0.i{at}", status, 1))
    running = [Row([f"demo:d0.n0.i{ended}.sweep", "12"], f"d0.n0.i{ended}", "running")] if ended < 4 else []
    events = "\n".join(f"event {at}" for at in range(ended + 1))
    blocks: list[Block] = [
        Table("running", "Running", "What is being made.", [Column("target"), Column("for", True, "s")], running),
        Table("tree", "Tree", "Nodes and ideas.", COLUMNS, rows),
        Picture("stair", "Best score", f"The best gain is {1.5 if ended else 0:+.2f} %.", "<svg></svg>"),
        Text("events", "Events", events),
    ]
    figures = [
        figure("best", "+1.50 %" if ended else "-", value=1.5 if ended else None, better="higher"),
        figure("evaluations", f"{ended} of 4", value=ended),
        figure("spent", f"{ended * 0.25:.2f} USD", value=ended * 0.25, note="of 2.00"),
    ]
    why = {"killed": "its last build has no end", "paused": "paused by hand"}.get(state, "")
    headline = f"{ended} of 4 ideas are tried."
    return Projection(
        "demo", "tree", headline, RunState(state, why, BEGIN), figures, "A gain is of the median of eight blocks.",
        blocks, "coppice watch demo", BEGIN + 60.0 * ended,
    )  # fmt: skip


def empty() -> Projection:
    tree = Table("tree", "Tree", "Nothing was tried yet.", COLUMNS, [])
    return Projection("demo", "tree", "Nothing yet.", RunState("empty"), [], "", [tree], "coppice watch demo")


def huge(ideas: int = 5000) -> Projection:
    rows = [
        Row(
            [f"d{at // 50}.n0.i{at % 50}", f"{at / 7:+.3f}", "0.5", "a long reason " * 8], f"i{at}", "rejected", at % 60
        )
        for at in range(ideas)
    ]
    tree = Table("tree", "Tree", "Many.", COLUMNS, rows)
    others = [Text(f"text-{n}", f"Text {n}", "word " * 4000) for n in range(12)]
    return Projection("demo", "tree", "Much. " * 100, RunState("done", "", BEGIN), [], "m " * 999, [tree, *others])


def hostile() -> Projection:
    """Others' texts wherever there are texts, and numbers of which scales break."""
    tree = Table("tree", HOSTILE, HOSTILE, COLUMNS, [Row([HOSTILE, "-inf", "nan", HOSTILE], "x", "no-such-status")])
    return Projection(
        "demo", "tree", HOSTILE, RunState("failed", HOSTILE), [figure(HOSTILE, HOSTILE, note=HOSTILE)], HOSTILE,
        [tree, heat([HOSTILE] * 3, [("a", [nan, inf, -inf])]), Code("code", HOSTILE, HOSTILE, "diff", HOSTILE, 7)],
    )  # fmt: skip


def heat(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]], **more: Any) -> Heat:
    return Heat("heat", "Config × block", "Candidate minus parent.", columns, [HeatRow(*row) for row in rows], **more)


def json_of(projection: Projection) -> Json:
    made: Json = as_json(projection)
    return made


class Feed:
    """A feed that a test moves on: `put` is what the run has become."""

    def __init__(self, *projections: Projection) -> None:
        self.frames = [json_of(each) for each in projections]
        self.shown = self.frames[0]
        self.asked: list[str] = []

    def put(self, projection: Projection) -> None:
        self.frames = [json_of(projection)]

    def now(self) -> Json:
        self.shown = self.frames[0]
        return self.shown

    def poll(self) -> Json:
        before, self.shown = self.shown, self.frames[0]
        return delta(before, self.shown)

    def details(self, item: str) -> list[Json]:
        self.asked.append(item)
        text = Text("idea", "Idea", f"All about {item}.\n\nIts second paragraph.")
        diff = Code("diff", "Change", "--- a\n+++ b\n-old\n+new", "diff", "runs/demo/change.patch", 12)
        return [as_json(text), as_json(heat(["b0", "b1"], [("c0", [1.0, None])], centre=0.0)), as_json(diff)]
