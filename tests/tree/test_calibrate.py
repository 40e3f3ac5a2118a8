"""The command `calibrate`: where noise is taken from, what is measured for it, and what is warned of."""

import json
import re
import sys
from typing import Any

import pytest
import yaml
from kit.project import Project, Said
from kit.searches import Search, agent, command, told

# A row a (config, block).  `moves` is what all configs of a block share; of a seed, each has its own number.
SWEEP = """\
results=$1 blocks=$2 seed=$3
gain=0 all=0
echo "sweep $seed" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
awk -v gain="$gain" -v all="$all" -v seed="$seed" -v blocks="$blocks" -v configs="${4:-3}" '
function chance(a, b, c,   x) { x = sin(a * 12.9898 + b * 78.233 + c * 37.719) * 43758.5453; return x - int(x) }
BEGIN {
  print "config_id,block,status,gain,risk"
  for (c = 0; c < configs; c++) for (b = 0; b < blocks; b++)
    printf "%d,%d,ok,%.6f,%.6f\\n", c, b, 10 + c + 3 * sin(7 * b) + gain + all * seed + chance(b, c, seed) - .5,
      5 + chance(c, b, seed + .5) / 9
}' > "$results"
"""
IDEAS = {"good": "gain=2", "null": "gain=0.01; seed=77", "other": "gain=0.01; seed=78", "bad": "gain=-2; seed=79"}
SEEDED = "sh {in} {results} 12 {seed}"
METRICS = {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True, "margin": 0.5}}
FEW = ("--depths", "100")


def search(project: Project, line: str = SEEDED, blocks: Any = 12, **keys: Any) -> Search:
    project.write("blocks.sh", SWEEP)
    sweep = command(line, "blocks.sh", blocks=blocks, **keys.pop("of_sweep", {}))
    return Search(project, IDEAS, **{"sweep": sweep, "metrics": METRICS, "sweep_config_limit": None, **keys})


def calibrated(found: Search, *words: str) -> Any:
    said = found.project.call("calibrate", "x", "--json", *FEW, *words)
    assert said.code == 0, said
    return json.loads(said.out)


def shown(found: Search, *words: str, code: int = 0) -> Said:
    said = found.project.call("calibrate", "x", *FEW, *words)
    assert said.code == code, said
    assert "Traceback" not in said.out + said.err, said
    return said


def test_the_root_is_measured_with_other_seeds_and_nobody_is_asked(project: Project) -> None:
    roles = {"ideas": agent("ideas"), "coder": agent("coder")}
    found = search(project, roles=roles)
    record = calibrated(found)
    assert found.executed() == [f"sweep {seed}" for seed in range(6)]
    assert (record["noise"]["source"], record["noise"]["rows"]) == ("seeds", 6)


def test_what_comes_before_the_root_is_measured_is_done_once_for_all_seeds(project: Project) -> None:
    words = {"run": 'echo check >> "$LIST"', "env": {"LIST": "{project}/list"}}
    found = search(project, checks={"one": words}, tests={"run": 'echo test >> "$LIST"', "env": words["env"]})
    calibrated(found, "--seeds", "2")
    assert found.executed() == ["check", "sweep 0", "sweep 1", "sweep 2", "test"]
    assert [path.parent.name for path in found.root.glob("runs/x/**/checks.json")] == ["d0.n0"]  # nor recalled for each


def test_a_second_calibration_measures_nothing_and_says_the_same(project: Project) -> None:
    found = search(project)
    first = shown(found)
    found.executed()
    assert shown(found).out == first.out
    assert found.executed() == []


def test_more_seeds_keep_those_that_are_there(project: Project) -> None:
    found = search(project)
    calibrated(found, "--seeds", "2")
    found.executed()
    assert calibrated(found, "--seeds", "4")["noise"]["rows"] == 5
    assert found.executed() == ["sweep 3", "sweep 4"]


def test_another_seed_in_the_spec_measures_anew_what_was_not_yet_measured_with_it(project: Project) -> None:
    found = search(project)
    calibrated(found, "--seeds", "2")
    found.executed()
    search_again = {**found.keys["sweep"], "seed": 2}
    found.spec(sweep=search_again)
    calibrated(found, "--seeds", "2")
    assert found.executed() == ["sweep 3", "sweep 4"]  # 2 is recalled


def test_calibrating_is_no_part_of_a_build_and_does_not_disturb_one(project: Project) -> None:
    found = search(project)
    calibrated(found)
    found.build()
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")
    quiet = found.project.coppice("run", "x")
    calibrated(found, "--seeds", "6")
    assert found.project.coppice("run", "x").stdout == quiet.stdout != ""
    assert "up to date" in quiet.stdout
    again = found.build()
    assert told(again, "built") == told(again, "recalled") == []


def test_what_other_seeds_cost_is_kept_when_outputs_are_removed(project: Project) -> None:
    found = search(project)
    first = shown(found)
    for path in (found.root / "runs/x/calibrate").rglob("*.csv"):
        path.unlink()
    found.executed()
    assert shown(found).out == first.out
    assert found.executed() == []


def test_a_seed_of_each_config_is_measured_by_itself(project: Project) -> None:
    project.write(
        "one.sh", 'echo "row $2 $3" >> "$LIST"\nprintf "block,gain,risk\\n0,$3,1\\n1,$2,1\\n2,5,1\\n" > "$1"\n'
    )
    sweep = command("sh {in} {results} {config_id} {seed}", "one.sh", mode="per_config", configs=2, blocks=3)
    found = Search(project, IDEAS, sweep=sweep, metrics=METRICS, sweep_config_limit=None)
    calibrated(found, "--seeds", "1")
    assert found.executed() == ["row 0 0", "row 0 1", "row 1 0", "row 1 1"]


def test_a_value_of_a_config_may_be_called_seed(project: Project) -> None:
    project.write("one.sh", 'printf "block,gain,risk\\n0,$2,1\\n1,1,1\\n2,5,1\\n" > "$1"\n')
    sweep = command("sh {in} {results} {seed}", "one.sh", mode="per_config", configs={"seed": [3, 4, 6]}, blocks=3)
    found = Search(project, IDEAS, sweep=sweep, metrics=METRICS, sweep_config_limit=None)
    assert calibrated(found)["noise"]["source"] == "configs"


def test_evaluations_are_noise_once_there_are_three(project: Project) -> None:
    found = search(project, "sh {in} {results} 12 1")
    record = calibrated(found)
    assert (record["noise"]["source"], record["noise"]["rows"]) == ("configs", 3)
    found.build()
    record = calibrated(found)
    assert (record["noise"]["source"], record["noise"]["rows"]) == ("evaluations", 3)  # `good` adds 2 and no noise


def test_without_configs_to_compare_the_blocks_stand_in(project: Project) -> None:
    said = shown(search(project, "sh {in} {results} 12 1 1"))
    assert "A poor stand-in" in said.out


def test_a_seed_that_changes_nothing_is_told(project: Project) -> None:
    said = shown(search(project, "sh {in} {results} 12 1 3 {seed}"))
    assert "5 other seeds changed nothing" in said.out
    assert "A stand-in" in said.out


def test_a_seed_that_moves_all_blocks_is_warned_of(project: Project) -> None:
    project.write("repo/plus/start", "all=0.5\n")
    found = search(project)
    (found.root / "repo/plus/start").write_text("all=0.5\n")
    assert "warning:" in (said := shown(found)).out
    assert re.search(r"\d+ % of depths promote noise, alpha is 5 %: a seed moves all blocks together", said.out)


def test_a_failing_measurement_fails_the_command(project: Project) -> None:
    project.write("blocks.sh", "")
    found = search(project)
    project.write("blocks.sh", SWEEP.replace("gain=0 all=0", '[ "$seed" = 2 ] && exit 7\ngain=0 all=0'))
    assert "x:calibrate.seed.2" in found.project.call("calibrate", "x").err


@pytest.mark.parametrize(
    ("line", "keys", "warning"),
    [
        (
            "sh {in} {results} 4 {seed}",
            {"blocks": 4},
            "nothing is ever promoted by fewer than 5 blocks, and there are 4",
        ),
        (SEEDED, {"score": {"smallest_effect": 0.05}}, r"0\.05, may be missed: 80 % of depths tell 0\.\d+ from chance"),
        (SEEDED, {"metrics": {**METRICS, "risk": {"guard": True, "margin": 0.01}}}, "risk: its margin of 0.01 is"),
        ("sh {in} {results} 12 1 1", {"blocks": {"ids": 12, "order": "time"}}, ""),
        (SEEDED, {"ideas_per_node": 100, "blocks": {"ids": 12}}, "an effect must be .* times as large as for one"),
    ],
)
def test_what_cannot_be_decided_is_warned_of(project: Project, line: str, keys: Any, warning: str) -> None:
    said = shown(search(project, line, keys.pop("blocks", 12), **keys), "--depths", "100")
    assert re.search(rf"^warning: .*{warning}" if warning else "80 % tell", said.out, re.MULTILINE), said.out


def test_measurements_without_noise_are_told(project: Project) -> None:
    found = search(project, "sh {in} {results} 5 1 1", blocks=5)
    project.write("blocks.sh", re.sub(r"10 \+ c .* \.5,", "10,", SWEEP, flags=re.DOTALL))
    assert "there is no noise" in shown(found).out


def test_the_gate_by_means_is_shown_for_what_it_is(project: Project) -> None:
    metrics = {"gain": {"primary": True}}
    record = calibrated(search(project, score={"method": "weighted_means"}, metrics=metrics))
    assert record["cells"][0]["promoted"]["rate"] > 0.6
    assert "method: paired" in record["warnings"][0]


def test_the_scale_does_not_depend_on_which_direction_is_better(project: Project) -> None:
    found = search(project)
    up = calibrated(found)
    found.spec(metrics={**METRICS, "gain": {"primary": True, "better": "lower"}})
    down = calibrated(found)
    assert up["noise"]["size"] == down["noise"]["size"]
    assert up["noise"]["skewness"] == -down["noise"]["skewness"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("x", "--depths", "1"), "--depths 1: give a number from 100"),
        (("x", "--seeds", "-1"), "--seeds -1: give a number from 0"),
        ((), "name one run, not 0"),
        (("plain",), "kind: steps promotes nothing"),
        (("x:root",), "'x:root' is no run"),
        (("unblocked",), "only blocks tell chance from progress"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(project: Project, words: tuple[str, ...], why: str) -> None:
    found = search(project)
    found.project.spec("plain", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    sweep = {name: value for name, value in found.keys["sweep"].items() if name != "blocks"}
    found.spec("unblocked", sweep=sweep, metrics={"gain": {"primary": True}})
    said = project.call("calibrate", *words)
    assert (said.code, said.out) == (2, "")
    assert why in said.err


def test_a_seed_that_no_command_names_is_a_mistake(project: Project) -> None:
    found = search(project, "sh {in} {results} 12 1", of_sweep={"seed": 3})
    assert "the command never names {seed}" in found.build("x", code=2).err


# Rows of data; each repeat of a split into five cuts them anew, and a block is the mean over a fold.
SPLIT = """\
import csv, random, sys
data = random.Random(5)
rows = [[data.gauss(0, 1) for _ in range(200)] for _ in range(3)]
out = csv.writer(open(sys.argv[1], "w"))
out.writerow(["config_id", "block", "status", "gain", "aside"])
for repeat in range(6):
    order = random.Random(repeat).sample(range(200), 200)
    for fold in range(5):
        for config in range(3):
            gain = sum(rows[config][i] for i in order[fold::5]) / 40
            block = sys.argv[2].format(r=repeat, f=fold, n=5 * repeat + fold)
            out.writerow([config, block, "ok", gain, data.gauss(0, 1)])
"""


@pytest.mark.parametrize(
    ("names", "key", "why"),
    [
        ("{n}", "6", "closer than chance makes them"),
        ("r{r}f{f}", "'^r([0-9]+)'", "their names say so"),
        ("{f}-{r}", "'([0-9]+)$'", "and their names look like it"),
    ],
)
def test_repeats_of_a_split_that_are_not_told_are_noticed(project: Project, names: str, key: str, why: str) -> None:
    project.write("split.py", SPLIT)
    form = names.replace("{", "{{").replace("}", "}}")
    sweep = command(f"{sys.executable} {{in}} {{results}} {form}", "split.py", blocks={})
    metrics = {"aside": {}, "gain": {"primary": True}}  # what is aside tells nothing of repeats
    found = Search(project, IDEAS, sweep=sweep, metrics=metrics, sweep_config_limit=None)
    said = shown(found).out
    assert re.search(
        rf"^warning: the 30 blocks look like 6 repeats of a split into 5 folds: .*{why}", said, re.MULTILINE
    )
    assert f"say `repeats: {key}`" in said
    ids = [names.format(r=r, f=f, n=5 * r + f) for r in range(6) for f in range(5)]
    found.spec(sweep={**sweep, "blocks": {"ids": ids, "repeats": yaml.safe_load(key)}})
    said = shown(found).out
    assert "look like" not in said
    assert "blocks are 6 repeats of a split" in said
