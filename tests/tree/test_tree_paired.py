"""A search by blocks, really run: what is promoted, what is not, and what that rests on."""

import json
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, adding, command, files, idea, told

# A row a (config, block); the noise of a block is shared by all configs and ideas, that of an idea is its own.
SWEEP = """\
results=$1 blocks=$2
gain=0 noise=0 risk=5 shaky=0
for idea in plus/*; do . "./$idea"; done
awk -v gain="$gain" -v noise="$noise" -v risk="$risk" -v shaky="$shaky" -v blocks="$blocks" 'BEGIN {
  print "config_id,block,status,gain,risk"
  for (c = 0; c < 3; c++) for (b = 0; b < blocks; b++)
    printf "%d,%d,ok,%.4f,%.4f\\n", c, b, 10 + c + 3 * sin(7 * b) + gain + noise * sin(b * b + c / 9),
      risk + sin(b) / 9 + shaky * sin(3 * b * b)
}' > "$results"
"""
IDEAS = {
    "better": "gain=2 noise=1",
    "luck": "gain=0.2 noise=1",
    "worse": "gain=-2 noise=1",
    "risky": "gain=2 noise=1 risk=6",
}
BLOCKS = 20
HARDLY = ["too_few_blocks", "could_be_chance", "below_smallest_effect"]


def search(project: Project, ideas: dict[str, str] = IDEAS, blocks: int = BLOCKS, **keys: Any) -> Search:
    project.write("blocks.sh", SWEEP)
    sweep = command(f"sh {{in}} {{results}} {blocks}", "blocks.sh", blocks=keys.pop("declared", {}))
    metrics = {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True, "margin": 0.5}}
    return Search(project, ideas, **{"sweep": sweep, "metrics": metrics, **keys})


def verdicts(found: Search, depth: int = 0) -> dict[str, Any]:
    evidence = found.record(f"depths/{depth}/weighed.json")["evidence"]
    return {slot: (each["parent"]["verdict"], each["parent"]["reasons"]) for slot, each in evidence.items()}


def test_only_what_chance_does_not_explain_is_promoted(project: Project) -> None:
    found = search(project)
    found.build()
    assert verdicts(found) == {
        "d0.n0.i0": ("promoted", ["gain"]),
        "d0.n0.i1": ("indecisive", ["could_be_chance"]),
        "d0.n0.i2": ("rejected", ["risk_regressed:risk"]),
        "d0.n0.i3": ("rejected", ["no_gain_worth_having"]),
    }
    assert found.why("d0.n0.i0") == "d1.n0"
    estimate = found.summary("d0.n0.i0")["scoring_summary"]["root_recommendation"]["evidence"]["estimate"]
    best = f"Best: **d1.n0**, gain 11.17 -> 13.02 (+1.856), estimated gain {estimate:+.4f} against the root."
    assert best in found.project.read("runs/x/TREE_SUMMARY.md")
    summary = found.summary("d0.n0.i0")
    assert (summary["rows_used"], summary["rows_expected"]) == (3 * BLOCKS, 3 * BLOCKS)


def test_what_is_recorded_can_be_worked_out_again(project: Project) -> None:
    found = search(project)
    found.build()
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")
    found.project.write("runs/x/depths/0/weighed.json", found.project.read("runs/x/depths/0/weighed.json") + " ")
    assert found.project.call("tree", "--tree-run-id", "x", "--validate-only").code == 1
    assert "weighed.json" in found.project.read("runs/x/VALIDATION_REPORT.md")


def test_an_idea_more_is_a_chance_more_so_all_are_weighed_anew_and_none_is_swept_anew(project: Project) -> None:
    found = search(project, {"better": "gain=0.4 noise=1"})
    found.build()
    alone = found.record("depths/0/weighed.json")["evidence"]["d0.n0.i0"]["parent"]
    found.idea("luck", IDEAS["luck"])
    found.spec(ideas_per_node=2)
    said = found.build()
    beside = found.record("depths/0/weighed.json")["evidence"]["d0.n0.i0"]["parent"]
    assert "d0.n0.i0.sweep" not in told(said, "built")
    assert (alone["mean"], alone["blocks"]) == (beside["mean"], beside["blocks"])
    assert alone["p"] != beside["p"]


@pytest.mark.parametrize(
    ("ideas", "keys", "expected"),
    [
        ({"same": ":"}, {}, ("rejected", ["identical"])),
        ({"shift": "gain=2"}, {}, ("undecidable", ["degenerate"])),
        ({"better": IDEAS["better"]}, {"blocks": 4}, ("undecidable", ["too_few_blocks"])),
        ({"luck": IDEAS["luck"]}, {"score": {"smallest_effect": 0.3}}, ("undecidable", HARDLY)),
        ({"better": IDEAS["better"]}, {"score": {"smallest_effect": 9}}, ("rejected", ["no_gain_worth_having"])),
        ({"risky": "gain=2 noise=1 risk=5.45 shaky=1"}, {}, ("indecisive", ["risk_undecided:risk"])),
    ],
)  # fmt: skip
def test_a_verdict_says_why(project: Project, ideas: dict[str, str], keys: Any, expected: Any) -> None:
    found = search(project, ideas, **keys)
    found.build()
    assert verdicts(found) == {"d0.n0.i0": expected}
    assert expected[0] in found.why("d0.n0.i0")
    assert found.stop(0) == "max_depth_reached"


def test_alpha_is_for_the_run_and_goes_on_to_the_next_depth_after_a_promotion(project: Project) -> None:
    ideas = {"1": "gain=2 noise=1", "2": "gain=2.2 noise=2", "3": "gain=4 noise=1", "4": "gain=6 noise=1"}
    found = search(project, ideas, ideas_per_node=1, max_depth=4, stop_on_empty_frontier=False)
    found.build()
    levels = [found.record(f"depths/{depth}/weighed.json")["alpha"] for depth in range(4)]
    assert [found.why(f"d{depth}.n0.i0").partition(":")[0] for depth in range(3)] == ["d1.n0", "indecisive", "skipped"]
    assert levels == pytest.approx([0.0125, 0.025, 0.0125, 0.025])
    found.spec(score={"alpha_over": "depth"})
    found.build()
    assert {found.record(f"depths/{depth}/weighed.json")["alpha"] for depth in range(4)} == {0.05}


@pytest.mark.parametrize(
    ("ideas", "freed"),
    [
        ({"1": "gain=2 noise=1"}, False),
        ({"1": "gain=2 noise=1", "2": "gain=2 noise=1"}, False),
        ({"1": "gain=2 noise=1", "2": "gain=3 noise=1"}, True),
    ],
    ids=["one of two places", "the same code twice", "both places"],
)
def test_alpha_goes_on_only_where_no_place_was_left_for_noise(
    project: Project, ideas: dict[str, str], freed: bool
) -> None:
    found = search(project, {}, ideas_per_node=2, beam_width=2, max_depth=2)
    for name, shell in ideas.items():
        found.project.write(f"ideas/{name}/idea.md", idea(name))
        found.project.write(f"ideas/{name}/change.patch", adding("plus/it", shell))
    found.build()
    assert len([each for each in verdicts(found).values() if each[0] == "promoted"]) == len(ideas)
    assert [found.record(f"depths/{depth}/weighed.json")["alpha"] for depth in range(2)] == [0.025, 0.025 * (1 + freed)]


def test_the_order_of_ideas_decides_nothing(project: Project) -> None:
    found = search(project)
    found.build()
    weighed = found.record("depths/0/weighed.json")["evidence"]
    for name in reversed(IDEAS):
        (found.root / f"ideas/{name}").rename(found.root / f"ideas/{9 - len(name)}{name}")
    found.build()
    again = found.record("depths/0/weighed.json")["evidence"]
    assert sorted(map(str, weighed.values())) == sorted(map(str, again.values()))
    assert weighed != again


def test_only_an_alpha_that_is_divided_needs_draws_for_each_depth(project: Project) -> None:
    found = search(project, max_depth=51, score={"draws": 1000, "alpha_over": "depth"})
    assert found.project.call("plan", "--graph-only", "x").code == 0
    found.spec(score={"draws": 1000})
    said = found.project.call("plan", "--graph-only", "x")
    assert "alpha of 0.05 over 51 depths needs more draws than 1000" in said.err


def test_the_beam_is_ranked_by_what_is_gained_on_the_root(project: Project) -> None:
    found = search(project, {"1": "gain=2 noise=1", "2": "gain=3 noise=1"}, beam_width=2)
    found.build()
    assert (found.why("d0.n0.i1"), found.why("d0.n0.i0")) == ("d1.n0", "d1.n1")


def test_blocks_in_the_order_of_time_are_weighed_with_what_they_share(project: Project) -> None:
    found = search(project, declared={"order": "time", "rho": 0.3})
    found.build()
    assert found.record("depths/0/weighed.json")["tests"]["parent"]["rho"] == 0.3
    found.spec(sweep={**found.keys["sweep"], "blocks": {"order": "time"}})
    said = found.build()
    assert found.record("depths/0/weighed.json")["tests"]["parent"]["rho"] != 0.3
    assert not [name for name in told(said, "built") if name.endswith("sweep")]


def test_the_same_evidence_comes_to_the_same_bytes(project: Project) -> None:
    found = search(project)
    found.build()
    before = files(found.root / "runs/x", "depths/*/weighed.json", "eval/*/summary.json")
    found.project.call("forget", "x:d0.weigh")
    found.build()
    assert files(found.root / "runs/x", "depths/*/weighed.json", "eval/*/summary.json") == before


def test_means_can_be_compared_though_there_are_blocks(project: Project) -> None:
    metrics = {"gain": {"primary": True}}
    found = search(project, {"luck": IDEAS["luck"]}, metrics=metrics, score={"method": "weighted_means"})
    found.build()
    assert found.summary("d0.n0.i0")["scoring_summary"]["recommendation"]["evidence"] is None
    assert found.why("d0.n0.i0") == "d1.n0"


ROW = """gain=0
for idea in plus/*; do . "./$idea"; done
echo "row $(basename "$PWD") $2" >> "$LIST"
[ "$2" = "$bad" ] && exit 3
echo block,gain > "$1"
for b in $(echo "$3" | tr , ' '); do echo "$b,$(echo "$gain $2 $b" | awk '{ print $1 + $2 + sin($3) + ($1 ? sin(3 * $3) / 9 : 0) }')"; done >> "$1"
"""  # noqa: E501


def by_row(project: Project, ideas: dict[str, str]) -> Search:
    project.write("row_blocks.sh", ROW)
    line = "sh {in} {results} {config_id} {blocks}"
    sweep = command(line, "row_blocks.sh", mode="per_config", configs={"n": [1, 2]}, blocks=8)
    return Search(project, ideas, sweep=sweep, metrics={"gain": {"primary": True}}, sweep_config_limit=None)


def test_a_command_a_config_writes_a_row_for_each_block_that_it_is_told(project: Project) -> None:
    found = by_row(project, {"better": "gain=2", "broken": "gain=2 bad=1"})
    found.build()
    assert verdicts(found) == {"d0.n0.i0": ("promoted", ["gain"])}
    assert found.project.read("runs/x/artifacts/d0.n0.i0.csv").count("\n") == 1 + 2 * 8
    assert "config 1, status: 'error' instead of ok" in found.why("d0.n0.i1")


def test_a_dry_run_has_blocks_too(project: Project) -> None:
    found = search(project, dry_run=True)
    found.build()
    assert found.summary("d0.n0.i0")["rows_used"] == 3 * 8
    assert json.loads(found.project.read("runs/x/eval/d0.n0.i0/pairs.json"))["blocks"] == [*map(str, range(8))]


def test_an_evaluation_by_blocks_has_ended_when_its_verdict_is_there(project: Project) -> None:
    found = search(project)
    found.build()
    events = [json.loads(line) for line in found.project.read("runs/x/events.jsonl").splitlines()]
    ended = sorted(event["eval_id"] for event in events if event["event"] == "completed")
    assert ended == [f"d0.n0.i{n}" for n in range(4)]


@pytest.mark.parametrize(
    "edit",
    [
        {"metrics": {"other": {"primary": True}}},
        {"sweep_config_limit": 4},
        {"blocks": 7},
    ],
)
def test_a_baseline_that_does_not_fit_an_edited_spec_is_told_and_loses_nothing(project: Project, edit: Any) -> None:
    found = search(project)
    found.build()
    before, keys = files(found.root / "runs/x", "depths/*/weighed.json", "eval/*/summary.json"), dict(found.keys)
    changed = {"sweep": {**found.keys["sweep"], "blocks": edit["blocks"]}} if "blocks" in edit else edit
    found.spec(**changed)
    said = found.build(code=1)
    assert "the sweep of the root, which all is compared with, is not complete" in said.out
    assert "Not up to date: 1 target failed" in said.err
    found.spec(**{name: keys.get(name) for name in changed})
    said = found.build()
    assert {*told(said, "built")} <= {"report", "validate"}  # the failed build had written what it was like
    assert files(found.root / "runs/x", "depths/*/weighed.json", "eval/*/summary.json") == before


def test_repeats_of_a_split_are_weighed_as_such_and_nothing_is_measured_again(project: Project) -> None:
    found = search(project, {"split": "gain=0.6 noise=1"}, declared={"ids": 20}, max_depth=1)
    evidence: dict[int, Any] = {}
    for repeats in (1, 2, 4):
        declared: dict[str, Any] = {"ids": 20, **({"repeats": repeats} if repeats > 1 else {})}
        found.spec(sweep={**found.keys["sweep"], "blocks": declared})
        built = told(found.build(), "built")
        assert any(".sweep" in name for name in built) == (repeats == 1)
        evidence[repeats] = found.record("depths/0/weighed.json")["evidence"]["d0.n0.i0"]["parent"]
    assert evidence[1]["mean"] == evidence[2]["mean"] == evidence[4]["mean"]
    assert [each.get("repeats") for each in evidence.values()] == [None, 2, 4]
    assert evidence[1]["p"] < evidence[2]["p"] < evidence[4]["p"]
    assert "20 blocks, 4 repeats of 5 folds" in project.coppice("explain", "x:d0.n0.i0").stdout


def test_what_is_measured_anew_ends_as_it_ended_now_and_not_as_before(project: Project) -> None:
    """As after a retry: the score that failed before is there until the depth is weighed."""
    project.write("broken", "1\n")
    sweep = "[ ! -s {broken} ] || [ ! -e plus/better ] || exit 3; sh {harness} {results} 20"
    keys = {"sweep": {"run": sweep, "reads": {"harness": "blocks.sh", "broken": "broken"}, "configs": 3, "blocks": {}}}
    found = search(project, {"better": "gain=2 noise=1", "luck": "gain=0.2 noise=1"}, **keys)
    said = found.build()
    assert "x:d0.n0.i0 " in said.out
    assert found.summary("d0.n0.i0")["status"] == "failed"
    project.write("broken", "")
    log = project.root / "runs/x/events.jsonl"
    before = len(log.read_text().splitlines())
    said = found.build()
    assert found.summary("d0.n0.i0")["status"] == "completed"
    assert "failed: " not in said.out
    events = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    ends = [each["event"] for each in events if each.get("eval_id") == "d0.n0.i0"]
    assert [end for end in ends if end in ("completed", "failed", "scored")] == ["completed", "scored"]
    entry = json.loads(project.read("runs/x/manifest.json"))["evaluations"]["d0.n0.i0"]
    assert (entry["status"], entry["task_state"], entry["error"]) == ("completed", "completed", None)
