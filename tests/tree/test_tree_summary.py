"""TREE_SUMMARY.md: word for word for a small search; what it must say of others; tables that stay tables."""

import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import ROOT, Project
from kit.tree_runs import IDEAS, manifest_of, searched, small_search

from pipeline.core.projection import Moment
from pipeline.tree.report.figures import best_path
from pipeline.tree.report.happenings import idea_line
from pipeline.tree.report.markdown import (
    clip_text,
    display_width,
    format_chance,
    format_change,
    format_money,
    markdown_table,
    markdown_text,
    table_cell,
    wrap_line,
)
from pipeline.tree.report.summary import summary_text
from pipeline.tree.run.records import lives_of

GOLDEN = ROOT / "tests/tree/tree_summary.md"


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return searched(Project(tmp_path_factory.mktemp("summary") / "project"))


@pytest.fixture(scope="module")
def manifest(search: Project) -> dict[str, Any]:
    return timed(manifest_of(search))


def timed(manifest: dict[str, Any]) -> dict[str, Any]:
    """As if each evaluation had taken a second and a half, on a machine with the same cages."""
    for each in manifest["evaluations"].values():
        each["spent"]["seconds"] = 1.5
        each["cages"] = {name: {"sandbox": "isolated", "network": "local"} for name in each["cages"]}
    manifest["state"]["spent"]["seconds"] = 9.0
    manifest["events"] = [{**event, "at": 1e9, "seconds": 2.0} for event in manifest["events"]]
    return manifest


def test_a_small_search_is_told_word_for_word(manifest: dict[str, Any]) -> None:
    assert summary_text(manifest) == GOLDEN.read_text()


def test_the_cages_that_held_are_counted_whatever_they_were(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    for each in changed["evaluations"].values():
        each["cages"] = {}
    assert "Cages" not in summary_text(changed)
    first, second, *_ = changed["evaluations"].values()
    caged, bare, unknown = ({"sandbox": s, "network": n} for s, n in (("trusted", "local"), ("plain", "full"), NONE))
    first["cages"] = {"test": bare, "sweep": caged, "coder": bare}
    second["cages"] = {"test": unknown, "sweep": caged, "coder": {"sandbox": "isolated", "network": "full"}}
    changed["run_config"]["judged_apart"] = True
    told = " ".join(summary_text(changed).partition("## ")[0].split())
    assert told.endswith(
        "Cages: trusted, network local (2 commands); none (1 command); not recorded (1 command). "
        "Cages of roles: none (1 program); isolated, network full (1 program). Judged apart. "
        "1 result was made in no cage, for want of one: a grade that is named, such as `sandbox: isolated`, "
        "measures anew."
    )


NONE = (None, None)


def test_it_is_what_the_report_of_a_run_says(search: Project) -> None:
    written, now = search.read("runs/x/TREE_SUMMARY.md"), summary_text(manifest_of(search))
    for told in (written, now):
        assert told.count("## What happened\n") == 1
    before, after = (re.sub(r"(?s)## What happened.*?\n\n##", "##", text) for text in (written, now))
    assert before == re.sub(r"; \d attempts?", "", after) or before == after


def test_a_dry_run_says_so_at_the_top(project: Project) -> None:
    searched(project, "dry_run: true\n")
    assert "**Dry run.**" in project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0]


def test_slots_that_stayed_empty_are_told_in_a_line(project: Project) -> None:
    few = {title: IDEAS[title] for title in list(IDEAS)[:3]}
    text = searched(project, ideas=few).read("runs/x/TREE_SUMMARY.md")
    assert "2 no idea (d1.n0 has no idea number 1)" in text
    assert "d1.n0.i1" not in text


def test_a_search_without_a_gain_says_that_the_start_is_best(project: Project) -> None:
    worse = {**IDEAS, "Raise a.": ("a", -3), "Raise b.": ("b", -1)}
    text = searched(project, ideas=worse).read("runs/x/TREE_SUMMARY.md")
    assert "Best: **d0.n0**, the start: gain 10.5. Nothing was found that ranks above it." in text
    assert "Stopped: **empty_frontier**, 1 of 2 depths done." in text
    assert "0 of 2 evaluations passed the gate" in text


def test_a_search_that_goes_on_says_so(project: Project) -> None:
    small_search(project)
    assert "**Still going on**, 0 of 2 depths done." in summary_text(manifest_of(project))
    assert project.call("run", "x:d0.n0.i1.score").code == 0
    text = summary_text(manifest_of(project))
    assert re.search(r"\| d0.n0.i1 \| Raise b. \| not yet +\| promising \| 10.5 -> 11.5 ", text)
    assert re.search(r"\| d0.n0.i0 \| Raise a. \| queued +\| - ", text)


def test_a_page_of_a_search_that_is_not_at_its_end_says_of_when_it_is(project: Project) -> None:
    small_search(project)
    assert project.call("run", "x:d0.n0.i1.score").code == 0
    as_of = r"As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; `coppice watch x` tells how it stands now\."
    assert re.search(as_of, project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0])
    assert project.call("tree", "--tree-run-id", "x", "--report-only").code == 0
    assert re.search(as_of, project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0])
    assert project.call("run", "x").code == 0
    assert "As of" not in project.read("runs/x/TREE_SUMMARY.md")


def test_the_best_node_need_not_be_the_deepest(manifest: dict[str, Any]) -> None:
    assert best_path(manifest) == ["d0.n0", "d1.n0", "d2.n0"]
    changed = deepcopy(manifest)
    for name in ("d1.n0.i0", "d1.n1.i0"):
        changed["evaluations"][name]["scoring_summary"]["root_recommendation"]["score"] = 0.01
    assert best_path(changed) == ["d0.n0", "d1.n0"]


def test_by_blocks_the_best_node_has_the_largest_gain_whatever_was_shrunk(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    for name, each in changed["evaluations"].items():
        if each["scoring_summary"]:
            numbers = {"score": 0.5, "primary_delta": 2.0} if name[1] == "0" else {"score": 0.9, "primary_delta": 1.0}
            each["scoring_summary"]["root_recommendation"] |= {**numbers, "evidence": {"estimate": numbers["score"]}}
    assert best_path(changed) == ["d0.n0", "d1.n0"]


def test_a_tie_goes_to_the_earlier_node(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    for each in changed["evaluations"].values():
        if each["scoring_summary"]:
            each["scoring_summary"]["root_recommendation"] |= {"score": 0.5, "primary_delta": 1.0}
    assert best_path(changed) == ["d0.n0", "d1.n0"]


def test_what_is_too_good_is_told_with_its_numbers(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    for name, each in changed["evaluations"].items():
        if each["by_config"]:
            each["by_config"]["beyond"] = name == "d0.n0.i1"
    part = summary_text(changed).partition("## Look twice\n")[2].partition("##")[0].strip()
    assert part.startswith(
        "- d0.n0.i1 (Raise b.): its worst config (gain 11) is better than its parent's best one (11)."
    )
    assert part.endswith("Nodes that are built on it: d1.n1, d2.n1.")


def test_a_best_config_that_contradicts_the_mean_is_told_in_full(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    best = changed["evaluations"]["d0.n0.i1"]["best_config"]
    best |= {"config": 17, "gain": 0.0111, "mean_gain": -0.086, "disagrees": True, "low": 0.002, "high": 0.0202}
    told = " ".join(summary_text(changed).split())
    assert "-0.086 in the mean, +0.0111 at the best config 17 (+0.002 to +0.0202);" in told
    best["disagrees"] = False
    told = " ".join(summary_text(changed).split())
    assert "; +0.0111 at the best config 17;" in told
    changed["evaluations"]["d0.n0.i1"]["by_config"] |= {"better": 1, "worse": 0, "same": 0}
    assert "config 17" not in summary_text(changed)


def test_what_was_left_out_of_a_candidate_is_named_and_stays_words(manifest: dict[str, Any]) -> None:
    changed = deepcopy(manifest)
    changed["evaluations"]["d0.n0.i1"]["left_out"] = [".venv/", "a|b<c>\n# d"]
    assert r"left out of the candidate: .venv/, a\|b\<c> # d;" in " ".join(summary_text(changed).split())


def test_requests_of_people_are_told_with_their_slots(manifest: dict[str, Any]) -> None:
    asked = [{"event": "paused", "at": 1e9}, {"event": "idea_given", "at": 1e9, "slot": "d0.n0.i1", "sha256": "0"}]
    told = summary_text({**manifest, "events": asked}).partition("## What happened\n\n")[2]
    lines = [line.partition(" UTC: ")[2] for line in told.splitlines()[:2]]
    assert lines == ["paused", "a person gave an idea for d0.n0.i1"]


TEXT = st.text(st.sampled_from("ab |\\<\n\r\t\x1b\u0301日`—"), max_size=12)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4), st.booleans())
def test_whatever_is_in_a_cell_a_table_keeps_its_shape(rows: list[tuple[str, str]], right: bool) -> None:
    lines = markdown_table(["one", "two"], rows, right=["two"] if right else [])
    assert len(lines) == (len(rows) + 2 if rows else 0)
    assert len({display_width(line) for line in lines}) == bool(rows)
    for line in lines:
        assert line.isprintable() or "\u0301" in line
        assert len(re.findall(r"(?<!\\)\|", line)) == 3


@pytest.mark.parametrize(
    ("text", "shown"), [("a|b", "a\\|b"), ("a\n\n b", "a b"), ("<b>", "\\<b>"), ("", "-"), ("\x1b[31mred", "\\[31mred")]
)
def test_a_cell_is_one_line_that_ends_no_cell(text: str, shown: str) -> None:
    assert table_cell(text) == shown


def test_texts_are_clipped_with_a_sign() -> None:
    assert clip_text("abcdef", 6) == "abcdef"
    assert clip_text("abc  def", 5) == "abc…"


def test_numbers_are_short() -> None:
    assert format_change(0.53312, 1.87399) == "0.5331 -> 1.874 (+1.341)"
    assert format_change(1, 1) == "1 (same)"
    assert format_money(0.0123) == "0.0123 USD"


def test_a_price_that_nobody_knows_is_not_shown_as_nothing(manifest: dict[str, Any]) -> None:
    assert format_money(0.0, 1) == "0 USD + 1 call of unknown price"
    entry = next(each for each in manifest["evaluations"].values() if each["spent"])
    entry = {**entry, "spent": {**entry["spent"], "usd": 0.5, "unknown_calls": 2}}
    assert "$0.5 + 2 calls of unknown price" in idea_line("x", entry, "gain")


def test_what_happened_is_told_in_its_order(manifest: dict[str, Any]) -> None:
    began = {"event": "build", "at": 1.0, "targets": 3}
    ended = {"event": "build_ended", "at": 2.0, "seconds": 1.0}
    stopped = {"event": "stopped", "at": 2.0, "stop_reason": "model_unavailable"}
    events = [began, ended, stopped, {**began, "at": 3.0}, {**stopped, "at": 4.0, "stop_reason": "max_depth_reached"}]
    told = summary_text({**manifest, "events": events}).partition("## What happened\n\n")[2].splitlines()[:4]
    assert [" ".join(line.split(": ")[1].split()[: 2 if "build" in line else 3]) for line in told] == [
        "a build",
        "the search stopped",
        "a build",
        "the search stopped",
    ]


BEGAN = {"event": "build", "at": 10.0, "targets": 3}
WAITS = {"event": "waiting", "at": 20.0, "eval_id": "d0.n0.i0", "kind": "rate limit", "seconds": 30.0, "why": "w"}


def what_happened(manifest: dict[str, Any], events: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The first words of a page of a search that goes on, and what happened without the days."""
    running = {name: {**each, "task_state": "running"} for name, each in manifest["evaluations"].items()}
    state = {**manifest["state"], "stop_reason": None}
    only = {"d0.n0.i0": running["d0.n0.i0"]}
    paused = next((each for each in reversed(events) if each["event"] in ("paused", "resumed")), {"event": "resumed"})
    page = summary_text(
        {**manifest, "state": state, "evaluations": {**manifest["evaluations"], **only}, "events": events},
        Moment(True, paused if paused["event"] == "paused" else None),
    )
    lines = page.partition("## What happened\n\n")[2].partition("\n\n")[0].replace("\n  ", " ").splitlines()
    return page.splitlines()[2].partition(", ")[0], [line.removeprefix("- 1970-01-01 00:") for line in lines]


def test_the_first_line_says_what_is_waited_for_and_since_when(manifest: dict[str, Any]) -> None:
    again = {**WAITS, "at": 60.0}
    other = {"event": "completed", "at": 61.0, "eval_id": "d0.n0.i1"}
    said, lines = what_happened(manifest, [BEGAN, WAITS, again, other])
    assert said == "**Waits** since 1970-01-01 00:00:20 UTC for a model (rate limit)"
    assert "00:20 UTC: waits for a model (rate limit): 2 pauses up to now, next try at 1970-01-01 00:01:30 UTC" in lines
    said, lines = what_happened(manifest, [BEGAN, WAITS, again, {**other, "at": 80.0, "eval_id": "d0.n0.i0"}])
    assert said.startswith("**Still going on**")
    assert "00:20 UTC: waited 50.0 s for a model (rate limit): 2 pauses" in lines, "and was asked in between"
    beside = {**WAITS, "at": 30.0, "eval_id": "d0.n0.i1", "seconds": 15.0}
    _, lines = what_happened(manifest, [BEGAN, WAITS, beside, {**other, "at": 40.0}])
    assert "00:20 UTC: waited 20.0 s for a model (rate limit): 2 pauses" in lines, "two that waited at the same time"
    tried = {"event": "working", "at": 55.0, "eval_id": "d0.n0.i0", "stage": "implement", "pid": 1}
    assert what_happened(manifest, [BEGAN, WAITS, tried])[0].startswith("**Waits**"), "asked again, and no answer yet"
    assert what_happened(manifest, [BEGAN, WAITS, {**tried, "stage": "test"}])[0].startswith("**Still going on**")
    elsewhere = {**WAITS, "eval_id": "d0.n0.i1"}
    assert what_happened(manifest, [BEGAN, elsewhere])[0].startswith("**Still going on**"), "another one is at work"


def test_the_first_line_says_that_a_search_is_paused_or_that_nobody_builds_it(manifest: dict[str, Any]) -> None:
    paused, ended = (
        {"event": "paused", "at": 30.0},
        {"event": "build_ended", "at": 40.0, "seconds": 30.0, "stopped": True},
    )
    assert what_happened(manifest, [BEGAN, paused])[0] == "**Paused** since 1970-01-01 00:00:30 UTC"
    resumed = {"event": "resumed", "at": 35.0}
    assert what_happened(manifest, [BEGAN, paused, resumed])[0].startswith("**Still going on**")
    assert what_happened(manifest, [BEGAN, ended])[0].startswith("**Not at its end**: no build of it runs")


def test_what_was_begun_again_is_counted_once_and_what_was_only_kept_back_is_not(manifest: dict[str, Any]) -> None:
    started, requeued = ({"event": name, "at": 20.0, "pid": 1} for name in ("started", "requeued"))
    events = [{**event, "eval_id": slot} for slot in ("a", "a", "b") for event in (started, requeued)]
    events += [{**started, "eval_id": "c"}, {**requeued, "eval_id": "c", "begun": False}]
    assert "- 2 evaluations begun again: a, b" in what_happened(manifest, [BEGAN, *events])[1]
    assert {name: life["attempt"] for name, life in lives_of(events).items()} == {"a": 2, "b": 1, "c": 0}


def test_what_happened_is_in_the_order_of_time_not_of_the_log(manifest: dict[str, Any]) -> None:
    retried = {"event": "retried", "at": 5.0, "slots": ["d0.n0.i0", "d0.n0.i1"]}
    _, lines = what_happened(manifest, [BEGAN, retried])
    assert lines[0] == "00:05 UTC: a retry was begun for d0.n0.i0, d0.n0.i1"
    assert "a build of 3 targets" in lines[1]


def test_a_depth_that_is_not_decided_yet_is_told_beside_the_best_node(project: Project) -> None:
    small_search(project)
    assert project.call("run", "x:d0.n0.i1.score").code == 0
    head = " ".join(summary_text(manifest_of(project)).partition("## ")[0].split())
    assert "No node ranks above it yet. Depth 0 is not decided yet: 1 of 2 ideas measured (most gained by" in head
    assert "d0.n0.i1, gain 10.5 -> 11.5 (+1))." in head
    assert project.call("run", "x").code == 0
    assert "yet" not in project.read("runs/x/TREE_SUMMARY.md").partition("## ")[0]


@pytest.mark.parametrize(
    ("p", "text"),
    [(1 / 10001, "0.0001"), (0.00095, "0.00095"), (0.0123456, "0.0123"), (0.5, "0.5"), (2e-7, "0.0000002")],
)
def test_a_probability_is_no_power_of_ten(p: float, text: str) -> None:
    assert format_chance(p) == text


# What models may write, and what is left of Markdown in it: nothing but words and code.
LIVE = [
    ("[x](https://e.vil)", "`[x](https://e.vil)`"),
    ("see www.e.vil", "see `www.e.vil`"),
    ("![x][y]", r"!\[x\]\[y\]"),
    ("<img src=x>", r"\<img src=x>"),
    ("thanks @octocat", "thanks `@octocat`"),
    ("o/r#12 a@b.c GH-3", "`o/r#12` `a@b.c` `GH-3`"),
    ("```", r"\`\`\`"),
    ("`@a`|b", "`'@a'¦b`"),
    (r"a\|b", r"a\\\|b"),
    ("*b* __c__ ~~d~~ e_f", r"\*b\* \_\_c\_\_ \~\~d\~\~ e_f"),
    ("&lt;b&gt; & c", r"\&lt;b\&gt; & c"),
    ("costs $5, $x$", "costs $5, `$x$`"),
    ("# a", r"\# a"),
    ("1. a", r"1\. a"),
    ("> a", r"\> a"),
    ("a\u202eb\u200bc", "a b c"),
]


@pytest.mark.parametrize(("text", "inert"), LIVE)
def test_nothing_that_a_model_writes_is_heeded_as_markdown(text: str, inert: str) -> None:
    assert markdown_text(text) == inert


@pytest.mark.parametrize("marker", ["#", "###", "-", "+", "1.", "1)", ">", ">a", "===", "---", ":--", "~~~", "```"])
def test_no_line_that_goes_on_begins_anew(marker: str) -> None:
    for size in range(100, 119):  # with one of them the marker is the first word of the second line
        first, *more = wrap_line(f"- {markdown_text('a' * size)} {table_cell(marker)} b")
        assert first.startswith("- a")
        assert not [line for line in more if line.startswith(f"  {marker}")]
        assert len(first) <= 120


def test_a_long_word_is_not_cut_between_a_backslash_and_what_it_is_for() -> None:
    for size in range(100, 125):
        assert not [line for line in wrap_line(f"- {'a' * size}{table_cell('*' * 99)}") if line.startswith("  *")]


def test_what_models_write_reaches_no_page_alive(manifest: dict[str, Any]) -> None:
    """All texts of a search at once: titles, reasons, file names, notes of reviewers."""
    bad = "](http://e.vil) <b> ![i](//e) @octocat #1 | ``` \u202e"
    changed = deepcopy(manifest)
    for each in changed["evaluations"].values():
        each |= {"idea_title": bad, "empty_why": bad, "partial": bad, "left_out": [bad], "idea_defects": [bad]}
        each["error"] = each["error"] and {**each["error"], "why": bad}
        each["decision"] = each["decision"] and {**each["decision"], "why": bad}
    changed["events"] = [{"event": "stopped", "at": 1.0, "why": bad}, {"event": "waiting", "at": 2.0, "kind": bad}]
    page = summary_text(changed).partition("## How to look")[0]
    without_code = re.sub(r"`[^`\n]*`", "", page.replace(r"\`", ""))
    assert "e.vil" in page
    assert not re.findall(r"e\.vil|(?<!\\)<|(?<!\\)\[|@|#1|\u202e|```", without_code)
