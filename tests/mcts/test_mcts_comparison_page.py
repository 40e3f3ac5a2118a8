"""comparison.html: that it says what the comparison does, to anyone, with nothing beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.browsing import CHROMIUM, Seen, pictures, run_in_browser
from kit.mcts_comparisons import SCENARIOS, TEAM, Record, compared, made_up, refused, search

from pipeline.core.projection import Picture, Table
from pipeline.mcts.report.page import MOST_LISTED, comparison_blocks, comparison_page

# Words that stick out of their picture or lie on each other, and whether the page is wider than the window.
MEASURED = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const outer = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  for (const [word, box] of boxes)
    if (box.left < outer.left || box.right > outer.right || box.top < outer.top || box.bottom > outer.bottom)
      found.push(word + ' sticks out');
  boxes.forEach(([word, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) found.push(word + ' on ' + other);
  }));
}
if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the window');
return [document.querySelectorAll('svg').length, found];
"""


ONE = {"baseline": TEAM}
IDLE = {"no_expansion": 10, "blocked": 2}


def shown(searches: list[Record], scenarios: dict[str, Record] = SCENARIOS) -> str:
    return comparison_page("mcts", compared(searches, scenarios))


def table(name: str, searches: list[Record], scenarios: dict[str, Record]) -> Table:
    blocks = comparison_blocks(compared(searches, scenarios))
    return next(block for block in blocks if isinstance(block, Table) and block.name == name)


@pytest.fixture(scope="module")
def whole() -> str:
    return shown([*made_up(), *(refused(scenario=name) for name in SCENARIOS)])


def test_the_page_needs_nothing_from_outside(whole: str) -> None:
    seen = Seen(whole)
    assert not seen.open
    assert not {"script", "link", "img", "iframe", "object"} & {*seen.tags}
    assert not {"src", "href", "onload", "onclick"} & {*seen.attributes}
    assert not [part for part in ("url(", "@import", "http") if part in whole]


def test_every_picture_has_a_name_and_a_table(whole: str) -> None:
    drawn = pictures(whole)
    assert len(drawn) == 5
    assert len({picture.get("aria-label") for picture in drawn}) == 5
    assert {picture.get("role") for picture in drawn} == {"img"}
    blocks = [*comparison_blocks(compared(made_up()))]
    tables = {block.name for block in blocks if isinstance(block, Table)}
    assert {f"{block.name.partition('-')[0]}-by" for block in blocks if isinstance(block, Picture)} <= tables


def test_a_chart_has_ticks_titles_a_legend_and_bars(whole: str) -> None:
    within = next(each for each in pictures(whole) if "within" in each.attrib["aria-label"])
    words = [text.text for text in within.iter("text")]
    assert {*SCENARIOS, "calls", "share solved", "0 %", "100 %"} <= {*words}
    assert sum(line.get("class") == "bar" for line in within.iter("line")) > 3 * len(SCENARIOS)


def test_lines_differ_without_their_colours(whole: str) -> None:
    within = next(each for each in pictures(whole) if "within" in each.attrib["aria-label"])
    legend = [
        group for group in within.iter("g") if group.find("polyline") is not None and group.find("path") is not None
    ]
    looks = [(group[0].get("stroke-dasharray"), group[1].get("d")) for group in legend]
    assert [len(set(part)) for part in zip(*looks, strict=True)] == [5, 7]
    assert len(set(looks)) == len(SCENARIOS)


def test_nothing_is_drawn_outside_of_its_picture(whole: str) -> None:
    for picture in pictures(whole):
        _, _, width, height = map(float, picture.attrib["viewBox"].split())
        drawn = [part for kind in ("line", "circle", "text") for part in picture.iter(kind)]
        for names, most in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "y2", "cy"), height)):
            places = [float(part.attrib[name]) for part in drawn for name in names if name in part.attrib]
            assert places
            assert 0 <= min(places) <= max(places) <= most


def test_figures_come_with_their_intervals(whole: str) -> None:
    words = Seen(whole).words
    found = compared(made_up())["scenarios"]["damage-30"]["share"]
    mean, low, high = (f"{100 * found[what]:.1f} %" for what in ("mean", "low", "high"))
    assert f"{mean} ({low} to {high})" in words
    assert "Student's t" in words


def test_what_was_idle_is_told_apart_from_what_was_tried_in_vain() -> None:
    found = table("iterations", [search(calls=None, iterations=20, reasons=IDLE, idle=6)], ONE)
    heads = [column.title for column in found.columns]
    assert heads == ["scenario", "blocked, delayed or idle", "idle", "no_expansion", "blocked"]
    shares = [f"{share:.1f} % (one seed)" for share in (40, 30, 50, 10)]
    assert [[*row.cells] for row in found.rows] == [["baseline", *shares]]


def test_the_page_says_with_what_it_was_made(whole: str) -> None:
    told = "Lean: 4.28.0 (wasm); bank: bench/bank.jsonl; selection: puct, explore: 1.5, priors: moves."
    assert told in whole
    assert (
        "mode: distributed, agents: 4, inflight: 2, block: {fraction: 0.3}, reroute: {blocked: true, max: 2}" in whole
    )


def test_with_one_seed_the_page_says_that_there_are_no_intervals() -> None:
    text = shown(made_up(seeds=[1]))
    assert "With one seed nothing is known of what another would give" in text
    assert "Student" not in text
    assert not [line for picture in pictures(text) for line in picture.iter("line") if line.get("class") == "bar"]


def test_where_all_seeds_agree_the_page_says_so() -> None:
    searches = [search("a", seed=seed, calls=7) for seed in (1, 2, 3)]
    assert "100.0 % (all seeds alike)" in shown(searches, ONE)


def test_what_is_read_from_json_looks_the_same(whole: str) -> None:
    searches = [*made_up(), *(refused(scenario=name) for name in SCENARIOS)]
    assert comparison_page("mcts", json.loads(json.dumps(compared(searches)))) == whole


def test_names_and_errors_are_shown_as_they_are() -> None:
    first, name = '"first"', "<b>&amp;"
    goal, error = "<script>alert(1)</script>", 'it\'s "<i>wrong</i>"'
    scenarios = {first: {"mode": "centralized"}, name: TEAM}
    searches = [search(goal, first, verified=False, error=error), search(goal, name), refused(error, name)]
    text = shown(searches, scenarios)
    seen = Seen(text)
    assert not {"b", "script", "i"} & {*seen.tags}
    assert all(word in seen.words for word in (first, name, goal, error))
    assert len(pictures(text)) == 3


def test_a_list_of_goals_is_bounded_on_the_page_and_whole_in_the_json() -> None:
    scenarios = {"first": {"mode": "centralized"}, "then": TEAM}
    goals = [f"g{number:03}" for number in range(MOST_LISTED + 5)]
    searches = [search(goal, name, calls=None if name == "then" else 5) for goal in goals for name in scenarios]
    words = Seen(shown(searches, scenarios)).words
    assert f"g{MOST_LISTED - 1:03} (seed 1); and 5 more in comparison.json" in words
    assert f"g{MOST_LISTED:03} (seed" not in words
    assert len(compared(searches, scenarios)["paired"]["then"]["only_there"]) == MOST_LISTED + 5


def test_every_goal_has_a_row_and_those_that_nobody_solved_come_first() -> None:
    scenarios = {"first": {"mode": "centralized"}, "then": TEAM}
    calls = {("a", "first", 1): 5, ("a", "first", 2): 5, ("a", "then", 2): 5, ("c", "then", 1): 9}
    searches = [
        search(goal, name, seed, calls.get((goal, name, seed)))
        for goal in "abc"
        for name in scenarios
        for seed in (1, 2)
    ]
    goals = table("goals", searches, scenarios)
    assert [(row.status, *row.cells) for row in goals.rows] == [
        ("open", "b", "0 of 2", "0 of 2"),
        ("proved", "a", "2 of 2", "1 of 2"),
        ("proved", "c", "0 of 2", "1 of 2"),
    ]
    assert "Those that nobody solved come first: 1." in goals.sentence
    assert compared(searches, scenarios)["by_goal"]["a"] == {"first": [1, 2], "then": [2]}


STUCK = search(calls=None, iterations=0)


@pytest.mark.parametrize(
    ("searches", "drawn"), [([], 0), ([refused()], 0), ([search(calls=None)], 1), ([STUCK], 1), ([search(calls=1)], 2)]
)
def test_a_page_of_little_has_no_empty_pictures(searches: list[Record], drawn: int) -> None:
    text = shown(searches, ONE)
    assert len(pictures(text)) == drawn
    assert not Seen(text).open
    assert not {"nan", "inf", "None"} & {*text.replace(">", " ").replace("<", " ").replace('"', " ").split()}


@pytest.mark.skipif(not CHROMIUM, reason="no chromium here")
def test_in_a_browser_words_neither_stick_out_nor_lie_on_each_other(whole: str, tmp_path: Path) -> None:
    many: dict[str, Any] = {f"a scenario with a rather long name {n}": {**TEAM, "agents": n + 1} for n in range(12)}
    small = [search(goal, seed=seed, calls=30_000 + seed) for goal in "ab" for seed in (1, 2)]
    for text, drawn in ((whole, 5), (shown(made_up(many), many), 3), (shown(small, ONE), 2)):
        assert json.loads(run_in_browser(text, MEASURED, tmp_path)) == [drawn, []]
