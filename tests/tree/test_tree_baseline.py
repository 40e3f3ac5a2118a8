"""The results of the start are given as a file: checked like a sweep's rows, taken in place of it, and marked."""

import json
from typing import Any

import pytest
from kit.project import Project
from kit.searches import TESTED, Search, by_config, command, told

IDEAS = {"good": "gain=$((gain + 2))", "bad": "gain=$((gain - 2))"}
METRICS = {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True, "margin": 1}}
HEADER = "config_id,status,gain,risk\n"
BASE = HEADER + "0,ok,10,5\n1,ok,11,5\n2,ok,12,5\n"
# A row a (config, block) of the blocks that are asked for.
BLOCKS = """\
echo "sweep $2" >> "$LIST"
gain=0
for idea in plus/*; do . "./$idea"; done
echo config_id,block,status,gain,risk > "$1"
for config in 0 1 2; do
  for block in $(echo "$2" | tr , ' '); do
    echo "$config,$block,ok,$((gain * (20 + block % 3) + config + block * block % 7)),5" >> "$1"
  done
done
"""


def search(project: Project, base: str = BASE, **keys: Any) -> Search:
    project.write("base.csv", base)
    return Search(project, IDEAS, **{"baseline_csv": "base.csv", **keys})


def by_blocks(project: Project, line: str = "sh {in} {results} {blocks}", **keys: Any) -> Search:
    project.write("blocks.sh", BLOCKS)
    sweep = command(line, "blocks.sh", blocks=12)
    return Search(project, IDEAS, sweep=sweep, metrics=METRICS, sweep_config_limit=None, **keys)


def rows_of(blocks: range) -> str:
    rows = (f"{c},{b},ok,{c + b * b % 7},5\n" for c in range(3) for b in blocks)
    return "config_id,block,status,gain,risk\n" + "".join(rows)


def test_the_start_is_not_measured_and_everything_says_so(project: Project) -> None:
    found = search(project, **TESTED)
    found.build()
    assert [line.split()[0] for line in found.executed()] == ["sweep", "sweep", "test", "test", "test"]
    assert found.why("d0.n0.i1") == "d1.n0"
    manifest = found.record("manifest.json")
    assert manifest["run_config"]["baseline_csv"] == "base.csv"
    assert {name: node.get("given_by") for name, node in manifest["nodes"].items()} == {
        "d0.n0": "base.csv", "d1.n0": None,
    }  # fmt: skip
    assert found.record("nodes/d0.n0/sweep.json")["given"] is True
    assert "given" not in found.record("eval/d0.n0.i1/sweep.json")
    assert found.record("nodes/d0.n0/sweep.cost.json")["seconds"] == 0
    given = "The results of the start were given by `base.csv`; they were not measured here."
    assert given in project.read("runs/x/TREE_SUMMARY.md")
    assert "No problems found" in project.read("runs/x/VALIDATION_REPORT.md")
    assert project.call("replay", "x").code == 0


def test_before_a_search_is_built_its_plan_says_so(project: Project) -> None:
    search(project)
    assert "baseline: given by base.csv, not measured here" in project.call("plan", "x").out


def test_a_search_from_given_results_decides_as_from_the_same_measured(project: Project) -> None:
    found = search(project)
    found.build()
    given = found.record("depths/0/promoted.json")
    measured = {slot: found.summary(slot) for slot in ("d0.n0.i0", "d0.n0.i1")}
    found.executed()
    found.spec(baseline_csv=None)
    found.build()
    assert [line.split()[0] for line in found.executed()] == ["sweep"]  # of the start alone
    for slot, summary in measured.items():
        assert found.summary(slot)["scoring_summary"] == summary["scoring_summary"]
    assert found.record("depths/0/promoted.json")["decisions"] == given["decisions"]
    assert "baseline_csv" not in found.record("manifest.json")["run_config"]


def test_other_results_score_anew_and_measure_nothing_again(project: Project) -> None:
    found = search(project)
    found.build()
    before = found.summary("d0.n0.i1")
    found.executed()
    project.write("base.csv", BASE.replace(",10,", ",50,"))
    found.build()
    assert found.executed() == []
    assert found.summary("d0.n0.i1")["baseline_sha256"] != before["baseline_sha256"]
    assert found.why("d0.n0.i1") != "d1.n0"
    project.write("base.csv", BASE)
    assert told(found.build(), "built") == ["report", "validate"], "the summary tells of this build, too"


WRONG = {
    "a row is missing": (BASE.replace("2,ok,12,5\n", ""), 1, "config 2, config_id: the row is missing"),
    "a number is none": (BASE.replace(",11,", ",x,"), 3, "config 1, gain: 'x' is not a finite number"),
    "one has failed": (BASE.replace("1,ok", "1,error"), 3, "config 1, status: 'error' instead of ok"),
    "one is there twice": (BASE + "0,ok,10,5\n", 5, "config 0, config_id: there are 2 rows"),
    "no such metric": (BASE.replace("risk", "rist"), 1, "risk: the column is missing; there are"),
    "no id": (BASE.replace("1,ok", "one,ok"), 3, "config_id: line 3: 'one' is not a whole number"),
    "a cell too many": (BASE.replace("11,5", "11,5,5"), 3, "config 1: line 3 has 5 cells, the header has 4"),
    "an open quote": (BASE.replace("2,ok", '"2,ok'), 5, "line 5 is not CSV"),
    "nothing": ("", 1, "the file is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_the_file_is_told_with_its_line_before_anything_runs(project: Project, name: str) -> None:
    text, line, what = WRONG[name]
    found = search(project, text, **TESTED)
    said = found.build(code=2)
    assert said.err.startswith(f"coppice: base.csv:{line}: ")
    assert what in said.err
    assert "baseline_csv: give a row that is ok" in said.err
    assert found.executed() == []
    project.write("base.csv", BASE)
    found.build()


def test_a_file_that_spoils_a_finished_search_is_refused_and_loses_nothing(project: Project) -> None:
    found = search(project)
    found.build()
    project.write("base.csv", HEADER)
    assert "base.csv:1: " in found.build(code=2).err
    project.write("base.csv", BASE)
    assert not told(found.build(), "built")


@pytest.mark.parametrize("path", ["gone.csv", "repo", ""])
def test_a_file_that_is_not_there_is_told_at_the_line_of_the_key(project: Project, path: str) -> None:
    found = search(project)
    found.spec(baseline_csv=path)
    lines = project.read("specs/x.yaml").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.startswith("baseline_csv"))
    assert found.build(code=2).err.startswith(f"coppice: specs/x.yaml:{line}: baseline_csv: ")


def test_results_of_another_run_are_taken_and_checked_too(project: Project) -> None:
    project.write("made.csv", BASE.replace(",11,", ",none,"))
    project.spec("base", "kind: steps\nsteps: {all: {run: 'cp {in} {out}', reads: made.csv, writes: b.csv}}\n")
    found = search(project, baseline_csv="runs/base/b.csv")
    said = found.build(code=1)
    assert "runs/base/b.csv:3: config 1, gain: 'none' is not a finite number" in said.out + said.err
    assert found.executed() == []
    project.write("made.csv", BASE)
    found.build()
    assert found.why("d0.n0.i1") == "d1.n0"
    assert found.record("manifest.json")["nodes"]["d0.n0"]["given_by"] == "runs/base/b.csv"


def test_with_a_command_for_each_config_none_is_run_on_the_start(project: Project) -> None:
    found = search(project, sweep=by_config({"n": [0, 1, 2]}), sweep_config_limit=None)
    found.build()
    assert len(found.executed()) == 2 * 3
    assert found.why("d0.n0.i1") == "d1.n0"
    assert "No problems found" in project.read("runs/x/VALIDATION_REPORT.md")


@pytest.mark.parametrize("keys", [{}, {"cascade": {"blocks": 6, "keep": 1}}], ids=["whole", "cascade"])
def test_with_blocks_the_file_has_a_row_for_each(project: Project, keys: dict[str, Any]) -> None:
    project.write("base.csv", rows_of(range(12)))
    found = by_blocks(project, baseline_csv="base.csv", **keys)
    found.build()
    assert found.why("d0.n0.i1") == "d1.n0"
    assert len(found.executed()) == (3 if keys else 2)  # both on the first blocks, the better one on the rest
    assert "No problems found" in project.read("runs/x/VALIDATION_REPORT.md")
    project.write("base.csv", rows_of(range(11)))
    assert "base.csv:1: config 0, block 11, config_id: the row is missing" in found.build(code=2).err


def test_what_is_held_out_must_not_be_in_the_file_and_the_start_is_measured_on_it(project: Project) -> None:
    project.write("base.csv", rows_of(range(12)))
    held = [str(block) for block in range(7, 12)]
    found = by_blocks(project, baseline_csv="base.csv", holdout={"blocks": held})
    assert "base.csv:9: config 0, block: '7' is none of the 7 blocks" in found.build(code=2).err
    assert project.read("base.csv").splitlines()[8].startswith("0,7,")
    project.write("base.csv", rows_of(range(7)))
    found.build()
    found.executed()
    said = project.call("holdout", "x", "--json")
    assert said.code == 0, said
    assert found.executed() == [f"sweep {','.join(held)}"] * 2  # the start, and what was found


def test_a_calibration_measures_nothing_anew_of_a_start_that_is_given(project: Project) -> None:
    project.write("base.csv", rows_of(range(12)))
    found = by_blocks(project, "sh {in} {results} {blocks} {seed}", baseline_csv="base.csv")
    said = project.call("calibrate", "x", "--json", "--depths", "100")
    assert said.code == 0, said
    assert found.executed() == []
    assert json.loads(said.out)["noise"]["source"] == "blocks"


def test_a_dry_run_makes_up_the_results_of_the_start_too(project: Project) -> None:
    found = search(project, "nothing of use", dry_run=True)
    found.build()
    assert "baseline_csv" not in found.record("manifest.json")["run_config"]
    assert "given" not in found.record("nodes/d0.n0/sweep.json")


def test_it_may_stand_in_a_config_that_is_json(project: Project) -> None:
    found = search(project)
    keys = {name: value for name, value in found.keys.items() if name not in ("kind", "ideas_per_node", "max_depth")}
    project.write("agent.json", json.dumps(keys))
    (project.root / "specs/x.yaml").unlink()
    shape = ("--ideas-per-node", "2", "--max-depth", "1")
    said = project.call("tree", "--tree-run-id", "t1", "--config", "agent.json", *shape)
    assert said.code == 0, said
    assert found.record("manifest.json", run="t1")["nodes"]["d0.n0"]["given_by"] == "base.csv"
