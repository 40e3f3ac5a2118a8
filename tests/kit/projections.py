"""Made-up projections of a search: as many candidates as one likes, in the words and code of this repository."""

import random
import re
from collections.abc import Iterator
from functools import cache
from math import nan

from kit.project import ROOT
from pipeline.core.projection import (
    DONE,
    LIVE,
    STATUSES,
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
)

IDEAS = 8  # of a node
BEAM = 3
OUTCOMES = ("promoted", "passed", "indecisive", "rejected", "rejected", "rejected", "failed", "skipped")
CONFIGS, BLOCKS = 8, 8
FILE = "pipeline/tree/rules/beam.py"  # the candidates change it
# Each is what a model may write; none may become more than letters.
HOSTILE = (
    "<img src=x onerror=\"document.title='pwned'\">",
    "</script><script>document.title='pwned'</script>",
    "<!--<script>",
    "[click](javascript:document.title='pwned') **bold** `code`",
    "\u202egnp.exe\u2066 bidi \u200b\u2028\u2029 lines",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "${document.title='pwned'} {{7*7}} &lt;b&gt; &amp;",
    "\ud800 lone surrogate \ufeff",
)
# A picture with all that none of ours has.
SVG = (
    '<svg viewBox="0 0 10 10" role="img" aria-label="x">'
    '<a href="javascript:1"><circle r="2" onclick="document.title=1"/></a>'
    '<script>document.title="pwned"</script><foreignObject><b>bold</b></foreignObject><image href="x.png"/>'
    '<g data-item="i1"><title>one</title><circle class="mark" cx="5" cy="5" r="2"/></g></svg>'
)


@cache
def sentences() -> list[str]:
    text = " ".join((ROOT / name).read_text() for name in ("docs/tree.md", "docs/internals.md", "docs/trust.md"))
    return [each for each in re.findall(r"[A-Z][^.|`#\n]{30,160}\.", text.replace("\n", " ")) if "  " not in each]


@cache
def code_lines() -> list[str]:
    return (ROOT / FILE).read_text().splitlines()


class MadeSearch:
    """A search of `count` candidates, BEAM nodes a depth and IDEAS a node; the same for the same numbers."""

    def __init__(self, count: int, seed: int = 1, state: str = DONE, run: str = "made") -> None:
        self.count, self.state, self.run = count, state, run
        luck = random.Random(seed)
        self.rows, self.marks = [], list[tuple[str, float, float]]()
        best = 0.5616
        places = ((depth, node, idea) for depth in range(count) for node in range(BEAM) for idea in range(IDEAS))
        for (depth, node, idea), number in zip(places, range(count), strict=False):
            if idea == 0:
                self.rows.append(Row((f"d{depth}.n{node}", f"{best:.4f}", "", "", "", "", "$0.00"), depth=depth % 6))
            item = f"d{depth}.n{node}.i{idea}"
            status = luck.choice(OUTCOMES) if number < count - 2 or state != LIVE else "running"
            gain = luck.gauss(-0.01, 0.05)
            has_score = status not in ("failed", "skipped", "running")
            best += max(0.0, gain) * (status == "promoted") * 0.1
            score, p = best + gain, luck.random()
            cells = (
                item,
                f"{score:.4f}" if has_score else "-",
                f"{gain:+.4f}" if has_score else "-",
                f"{gain - 0.03:+.3f} .. {gain + 0.03:+.3f}" if has_score else "-",
                f"{p:.4f}" if has_score else "-",
                luck.choice(sentences())[:90],
                f"${luck.random() / 4:.2f}",
            )
            self.rows.append(Row(cells, item, status, depth % 6 + 1))
            if has_score:
                self.marks.append((item, score, gain))

    @property
    def items(self) -> list[str]:
        return [row.item for row in self.rows if row.item]

    def projection(self) -> Projection:
        counts = {word: sum(row.status == word for row in self.rows) for word in STATUSES}
        done = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        figures = [
            Figure("best", "0.8601", 0.8601, "higher", "+0.2985 against the root"),
            Figure("evaluations", f"{self.count:,}", self.count, note=done),
            Figure("keep rate", "13 %", 0.13),
            Figure("drawdown", "-0.125", -0.125, "lower"),
            Figure("spent", "$12.31", 12.31, note="$7.69 left"),
            Figure("time left", "-"),
        ]
        columns = (
            Column("idea"),
            Column("sharpe", True, better="higher"),
            Column("gain", True, better="higher"),
            Column("interval", True),
            Column("p", True, better="lower"),
            Column("why"),
            Column("cost", True, "USD", "lower"),
        )
        spent = (Column("role"), Column("calls", True), Column("cost", True, "USD"))
        money = [Row(("ideas", "120", "$1.20")), Row(("coder", "1,240", "$10.40")), Row(("reviewer", "-", "-"))]
        blocks: list[Block] = [
            Table("tree", "Nodes and ideas", f"{self.count} ideas; {done}.", columns, self.rows),
            Picture("stair", "Best score", "The best score rises from 0.56 to 0.86.", self.picture()),
            Table("money", "Money", "Most went to the coder.", spent, money),
            Code("events", "Events", "\n".join(f"04:{n:02}:00 d0.n0.i{n} built" for n in range(50)), "log"),
            Text("cages", "Cages", "What models wrote ran isolated.\n\nNo network, no keys."),
        ]
        why = "two candidates are being measured" if self.state == LIVE else "all is made"
        return Projection(
            self.run,
            "tree",
            f"Best: d2.n0, sharpe 0.5616 -> 0.8601 (+0.2985); {self.count} ideas.",
            RunState(self.state, why, 1.8e9),
            figures,
            "A promotion means that a gain this large comes by luck once in twenty runs.",
            blocks,
            f"coppice watch {self.run}",
            1.8e9,
        )

    def picture(self) -> str:
        wide = 800 / max(1, len(self.marks))
        marks = "".join(
            f'<g class="look0" data-item="{item}"><title>{item}: {score:.4f}</title>'
            f'<circle class="mark" cx="{40 + at * wide:.1f}" cy="{200 - 150 * score:.1f}" r="3"/></g>'
            for at, (item, score, _) in enumerate(self.marks)
        )
        return f'<svg viewBox="0 0 860 240" role="img" aria-label="Best score">{marks}</svg>'

    def details(self, item: str) -> list[Block]:
        luck = random.Random(item)
        words = "\n\n".join(" ".join(luck.sample(sentences(), 2)) for _ in range(2))
        start = luck.randrange(len(code_lines()) - 16)
        part = code_lines()[start : start + 12]
        diff = [f"--- a/{FILE}", f"+++ b/{FILE}", f"@@ -{start},9 +{start},10 @@", *(f" {line}" for line in part[:3])]
        diff += [f"-{line}" for line in part[3:6]] + [f"+{luck.choice(code_lines())}" for _ in range(4)]
        diff += [f" {line}" for line in part[6:9]]
        gates = [
            Row(("gain", f"{luck.gauss(0, 0.05):+.4f}", "> 0", "passed"), status="passed"),
            Row(("p", f"{luck.random():.4f}", "<= 0.0125", "not passed"), status="rejected"),
            Row(("max_drawdown", "-", ">= -0.05", "not measured"), status="skipped"),
        ]
        heat = [
            HeatRow(f"config {n}", [luck.gauss(0, 0.02) if luck.random() > 0.05 else None for _ in range(BLOCKS)])
            for n in range(CONFIGS)
        ]
        years = [f"{2000 + n}" for n in range(BLOCKS)]
        tests = "\n".join(f"test_{n} ok" for n in range(12))
        place = f"runs/{self.run}/{item}"
        gate = (Column("gate"), Column("number", True), Column("threshold", True), Column("outcome"))
        return [
            Text("idea", "Idea", words),
            Table("gates", "Gates", "One of three gates is passed.", gate, gates),
            Heat("heat", "Gain by config and year", "Most configs gain.", years, heat, "sharpe", "higher", 0.0),
            Code("diff", "Change", "\n".join(diff), "diff", f"{place}/change.patch"),
            Code("test", "Log of the tests", tests, "log", f"{place}/test.log"),
        ]

    def all_details(self) -> Iterator[tuple[str, list[Json]]]:
        return ((item, as_json(self.details(item))) for item in self.items)


def every_kind() -> tuple[Projection, dict[str, list[Json]]]:
    """A small projection that has each kind of block, what is missing, hostile texts, and what is no number."""
    columns = (Column("idea"), Column("score", True, "%", "lower"), Column("why"))
    rows = [
        Row(("root", "-1.5", "start")),
        *(
            Row((f"i{n}", score, HOSTILE[n % len(HOSTILE)]), f"i{n}", status, 1)
            for n, (status, score) in enumerate(
                zip(STATUSES, ["-2.5", "-", "nan", "1e-3", "12,345", "3 min 20 s", *["7"] * 20], strict=False)
            )
        ),
    ]
    texts = "\n\n".join(HOSTILE)
    heat = Heat(
        "heat",
        HOSTILE[0],
        "Some are better.",
        ["a", HOSTILE[1]],
        [HeatRow("x", [-0.5, None], "i0"), HeatRow("y", [nan, 0.25]), HeatRow("z", [0.0, 1e9])],
        "points",
        "lower",
        0.0,
    )
    diff = f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n-{HOSTILE[0]}\n+{HOSTILE[5]}\n same"
    blocks: list[Block] = [
        Text("words", "Words of others", texts),
        Table("tree", "Ideas", "Fifteen of them.", columns, rows),
        Picture("stair", "Picture", "It rises.", SVG),
        heat,
        Heat("level", "All the same", "No difference.", ["a"], [HeatRow("x", [2.0]), HeatRow("y", [None])]),
        Code("diff", "Change", diff, "diff", "runs/x/change.patch", 4096),
        Code("log", "Log", texts, "log", "runs/x/log"),
        Table("nothing", "Empty table", "", columns, ()),
    ]
    figures = [Figure("best", "-1.5 %", -1.5, "lower", HOSTILE[1]), Figure("left", "-"), Figure("odd", "NaN", nan)]
    state = RunState(LIVE, HOSTILE[0])
    shown = Projection("every", "tree", HOSTILE[1], state, figures, HOSTILE[3], blocks, "coppice watch every", None)
    details = {"i0": blocks, "i1": [Text("idea", "Idea", texts)]}
    return shown, {item: as_json(each) for item, each in details.items()}
