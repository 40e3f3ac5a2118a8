"""A cascade: what does badly on the first blocks is measured no further and cannot win; others win on all blocks."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from kit.project import PATIENCE, Project
from kit.searches import Search, by_config, command

from pipeline.tree.run.verdicts import pick_best

# Asked for blocks, writes a row for each config and each of them, and notes what it was asked for.
SWEEP = """\
results=$1 blocks=$2
gain=0 noise=1 seed=1 quit=
where=$(basename "$PWD" | sed -E 's/[.](first|rest|holdout)//')
echo "$where $blocks" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
[ -e "$LIST.hook" ] && . "$LIST.hook"
case ",$blocks," in *",$quit,"*) exit 3 ;; esac
echo "$blocks" | tr , '\\n' | awk -v gain="$gain" -v noise="$noise" -v seed="$seed" '
BEGIN { print "config_id,seed,block,status,gain" }
{ for (c = 0; c < 3; c++)
    printf "%d,%d,%s,ok,%.4f\\n", c, seed, $1, 10 + c + 3 * sin(7 * $1) + gain + noise * sin($1 * $1 + c / 9) }
' > "$results"
"""
IDEAS = {"better": "gain=2 noise=1.5", "less": "gain=1.5 noise=1.6", "worse": "gain=-2 noise=2"}
FIRST, REST = "0,1,2,3", "4,5,6,7,8,9,10,11"
CASCADE = {"blocks": 4, "keep": 1}


def search(project: Project, ideas: dict[str, str] = IDEAS, **keys: Any) -> Search:
    project.write("blocks.sh", SWEEP)
    sweep = command("sh {in} {results} {blocks}", "blocks.sh", blocks=12)
    given = {"sweep": sweep, "metrics": {"gain": {"primary": True}}, "cascade": CASCADE, **keys}
    return Search(project, ideas, **given)


def until(condition: Callable[[], object]) -> None:
    last = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.002)


def test_what_is_stopped_is_never_measured_on_the_rest(project: Project) -> None:
    found = search(project)
    found.build()
    first = [f"{slot} {FIRST}" for slot in ("d0.n0", "d0.n0.i0", "d0.n0.i1", "d0.n0.i2")]
    assert found.executed() == sorted([*first, f"d0.n0 {REST}", f"d0.n0.i0 {REST}"])
    early = found.record("depths/0/cascade.json")["ideas"]
    assert {slot: (each["place"], each["goes_on"]) for slot, each in early.items()} == {
        "d0.n0.i0": (0, True),
        "d0.n0.i1": (1, False),
        "d0.n0.i2": (2, False),
    }


def test_a_stopped_one_is_completed_rejected_and_counts_among_the_ideas(project: Project) -> None:
    found = search(project)
    found.build()
    weighed = found.record("depths/0/weighed.json")
    assert weighed["tests"]["parent"]["ideas"] == 3
    assert [weighed["evidence"][slot]["parent"]["standing"] for slot in ("d0.n0.i0", "d0.n0.i1")] == [
        "tested",
        "stopped",
    ]
    stopped = found.summary("d0.n0.i1")
    assert (stopped["status"], stopped["rows_used"], stopped["rows_expected"]) == ("completed", 12, 12)
    evidence = stopped["scoring_summary"]["recommendation"]["evidence"]
    assert (evidence["verdict"], evidence["reasons"], evidence["blocks"]) == ("rejected", ["stopped_early"], 4)
    assert found.why("d0.n0.i1").startswith("rejected: stopped after the first 4 blocks")
    assert found.summary("d0.n0.i0")["rows_used"] == 36
    assert found.why("d0.n0.i0") == "d1.n0"


def test_results_of_both_parts_are_one_table(project: Project) -> None:
    found = search(project)
    found.build()
    rows = found.project.read("runs/x/artifacts/d0.n0.i0.csv").splitlines()
    assert rows[0].startswith("config_id,")
    assert len(rows) == 1 + 36
    assert len(found.project.read("runs/x/artifacts/d0.n0.i1.csv").splitlines()) == 1 + 12


def test_a_search_with_a_cascade_can_be_checked_and_is_told_of(project: Project) -> None:
    found = search(project)
    found.build()
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")
    assert "Cascade: after 4 of 12 blocks d0.n0.i0" in found.project.read("runs/x/TREE_SUMMARY.md")
    replayed = found.project.call("replay", "x")
    assert replayed.code == 0, replayed
    told = found.project.call("explain", "x:d0.n0.i1").out
    assert "not tested: stopped; needs a better place on the first blocks" in told
    manifest = found.record("manifest.json")
    assert [each["stopped_after_blocks"] for each in manifest["evaluations"].values()] == [None, 4, 4]
    assert manifest["evaluations"]["d0.n0.i1"]["cascade"]["goes_on"] is False
    assert manifest["evaluations"]["d0.n0.i1"]["by_config"]["same"] == 0


def test_keeping_more_measures_only_what_was_left_out(project: Project) -> None:
    found = search(project)
    found.build()
    found.executed()
    found.spec(cascade={"blocks": 4, "keep": 2})
    found.build()
    assert found.executed() == [f"d0.n0.i1 {REST}"]
    found.spec(cascade=CASCADE)
    found.build()
    assert found.executed() == []
    assert found.summary("d0.n0.i1")["rows_used"] == 12


@pytest.mark.parametrize("last", [f"d0.n0.i2 {FIRST}", f"d0.n0.i0 {REST}"])
def test_a_kill_loses_nothing_that_was_measured(project: Project, last: str) -> None:
    """It comes while `last` is measured: what went before is not measured again."""
    found = search(project)
    hook = f'[ "$where $blocks" != "{last}" ] || {{ touch "$LIST.born"; sleep 300; }}\n'
    project.write("list.hook", hook)
    build = project.popen("run")
    until((found.root / "list.born").exists)
    build.kill()
    build.communicate()
    before = found.executed()
    project.write("list.hook", "")
    found.build()
    assert last in before
    assert {*before} & {*found.executed()} == {last}
    assert found.why("d0.n0.i0") == "d1.n0"


def test_a_candidate_that_fails_on_the_rest_is_no_winner_and_nobody_takes_its_place(project: Project) -> None:
    found = search(project, {"breaks": "gain=2 noise=1.5 quit=7", "less": "gain=1.5 noise=1.6"})
    found.build()
    assert found.summary("d0.n0.i0")["status"] == "failed"
    assert found.summary("d0.n0.i1")["scoring_summary"]["recommendation"]["evidence"]["reasons"] == ["stopped_early"]
    assert found.stop(0) == "max_depth_reached"
    assert found.record("depths/0/weighed.json")["tests"]["parent"]["blocks"] == 12


def test_what_is_not_complete_on_the_first_blocks_does_not_go_on(project: Project) -> None:
    found = search(project, {"a": "gain=9 noise=1.5 seed=2", "b": "gain=9 quit=2", "c": "gain=1.5"})
    found.build()
    assert [line for line in found.executed() if line.endswith(REST)] == [f"d0.n0 {REST}", f"d0.n0.i2 {REST}"]
    assert "seed" in found.why("d0.n0.i0")
    assert found.record("eval/d0.n0.i0/pairs.json")["series"] == {}
    assert found.why("d0.n0.i1").startswith("failed: sweep: ")


def test_a_sweep_by_config_has_its_rows_in_two_parts(project: Project) -> None:
    row = """\
results=$1 id=$2 blocks=$4 gain=0
where=$(basename "$PWD" | sed -E 's/[.](first|rest|holdout)//')
echo "$where $id $blocks" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
echo "$blocks" | tr , '\\n' | awk -v gain="$gain" -v id="$id" '
BEGIN { print "block,gain" } { printf "%s,%.4f\\n", $1, id + gain * (1 + sin($1) / 4) }' > "$results"
"""
    found = search(project, {"a": "gain=2", "b": "gain=-1"}, sweep_config_limit=2)
    found.project.write("row.sh", row)
    sweep = {**by_config({"n": [1, 2]}), "blocks": 12, "run": "sh {in} {results} {config_id} {n} {blocks}"}
    found.spec(sweep=sweep)
    found.build()
    rest = [line for line in found.executed() if line.endswith(REST)]
    assert rest == [f"{where}.rows-{n} {n} {REST}" for where in ("d0.n0.i0", "d0.n0") for n in (0, 1)]
    assert found.why("d0.n0.i0") == "d1.n0"
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")


def pairs(*deltas: tuple[str, list[float]]) -> dict[str, Any]:
    """As recorded of slots on the first blocks, by the hash of their files."""
    empty = {"status": "completed", "why": "", "commit": "c", "approved": True, "results_sha256": "r"}
    empty |= {"baseline_sha256": "b", "defects": [], "scoring_summary": None}
    return {
        f"d0.n0.i{n}": {
            **empty,
            "tree": tree,
            "rows_used": len(own),
            "rows_expected": len(own),
            "blocks": [*map(str, range(len(own)))],
            "series": {"gain": {"own": own, "parent": [0.0] * len(own), "root": [0.0] * len(own)}},
        }
        for n, (tree, own) in enumerate(deltas)
    }


PARAMS: dict[str, Any] = {
    "first": 3,
    "keep": 2,
    "primary": "gain",
    "metrics": [{"name": "gain", "better": "higher", "weight": None, "guard": False, "margin": None}],
    "method": "paired",
    "score": {"alpha": 0.05, "alpha_over": "run", "smallest_effect": 0.0, "draws": 1000},
    "ordered": False,
    "rho": None,
}


def test_the_best_by_t_go_on_and_ties_go_to_the_earlier_slot() -> None:
    found = pick_best(PARAMS, pairs(("a", [1, 2, 3]), ("b", [4, 5, 7]), ("c", [1, 2, 3]), ("d", [-1, -2, 3])))
    assert [slot for slot, each in found["ideas"].items() if each["goes_on"]] == ["d0.n0.i1", "d0.n0.i0"]


def test_a_guard_is_looked_at_for_what_was_stopped_too(project: Project) -> None:
    metrics = {"gain": {"primary": True}, "seed": {"guard": True, "margin": 1}}
    found = search(project, metrics=metrics)
    found.build()
    guards = found.record("depths/0/weighed.json")["evidence"]["d0.n0.i1"]["parent"]["guards"]
    assert [(each["name"], each["df"]) for each in guards] == [("seed", 3)]
    assert found.why("d0.n0.i0") == "d1.n0"


def test_two_ideas_with_the_same_files_take_one_place() -> None:
    found = pick_best(PARAMS, pairs(("a", [4, 5, 7]), ("a", [4, 5, 7]), ("b", [1, 2, 3]), ("c", [0, 1, 3])))
    assert [slot for slot, each in found["ideas"].items() if each["goes_on"]] == ["d0.n0.i0", "d0.n0.i1", "d0.n0.i2"]


def test_the_same_gain_in_every_block_comes_first_and_the_same_loss_last() -> None:
    found = pick_best(PARAMS, pairs(("a", [4, 5, 7]), ("b", [-1, -1, -1]), ("c", [1, 1, 1])))
    assert [*found["ideas"]] == ["d0.n0.i2", "d0.n0.i0", "d0.n0.i1"]


WRONG = {
    "cascade: it needs `score: method: paired`": {"score": {"method": "weighted_means"}},
    "say in `sweep: blocks:` which blocks there are": {"sweep": command("sh {in} {results}", "blocks.sh", blocks={})},
    "name {blocks} in `sweep: run:`": {"sweep": command("sh {in} {results}", "blocks.sh", blocks=12)},
    "2 is least: one block does not show the noise": {"cascade": {"blocks": 1, "keep": 1}},
    "12 of 12 blocks leave nothing to save": {"cascade": {"blocks": 12, "keep": 1}},
    "cascade: keep: expected a whole number, from 1": {"cascade": {"blocks": 4, "keep": 0}},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_a_cascade_needs_is_said(project: Project, message: str) -> None:
    found = search(project)
    found.spec(**WRONG[message])
    said = found.build(code=2)
    assert message in said.err
    assert "specs/x.yaml:" in said.err
    assert found.executed() == []


def test_a_plan_says_what_the_cascade_saves(project: Project) -> None:
    said = search(project).project.call("plan", "x")
    assert "cascade: all of them on 4 of 12 blocks, the 1 best of a depth on the others" in said.out, said
