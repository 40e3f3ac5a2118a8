"""A search held against noise: what it says agrees with what is true, and it comes by it without spending anything."""

import json
import re
from typing import Any

import numpy as np
import pytest
from conftest import Project, Said
from searches import Search, agent, command, told

from pipeline.trust.calibration import Rule, Share, measured, powered
from pipeline.trust.many import p_values
from pipeline.trust.rule import weigh
from pipeline.trust.surrogates import fit

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


# What is said of noise whose truth is known.

IDEAS_AT_ONCE, BLOCKS, LEVEL = 7, 50, 0.05


def process(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    x = 1 - rng.standard_exponential(shape) if kind == "left" else rng.standard_normal(shape)
    for b in range(1, shape[-1] if kind == "alike" else 0):
        x[..., b] = 0.4 * x[..., b - 1] + (1 - 0.4**2) ** 0.5 * x[..., b]
    return x


def states_and_truth(kind: str, baselines: int, depths: int) -> tuple[Any, Any]:
    """Measurements of the same code, and differences of ideas without effect to their baseline."""
    rng = np.random.default_rng(2)
    real = process(rng, (depths, IDEAS_AT_ONCE + 1, BLOCKS), kind)
    return process(rng, (baselines, 6, BLOCKS), kind), real[:, 1:] - real[:, :1]


@pytest.mark.parametrize(("kind", "off"), [("normal", 0.015), ("alike", 0.04), ("left", 0.03)])
def test_false_promotions_are_as_many_as_are_told(kind: str, off: float) -> None:
    """On average over baselines: one alone does not know its noise that well."""
    states, truth = states_and_truth(kind, 40, 3000)
    rule = Rule(LEVEL)
    true = Share(int(rule.passes(truth, 1).any(axis=1).sum()), len(truth)).rate
    told_ = [
        measured(noise, rule, IDEAS_AT_ONCE, BLOCKS, 100, i).passed.rate
        for i, s in enumerate(states)
        if (noise := fit(s, states=True))
    ]
    assert abs(np.mean(told_) - true) < off
    assert (true > 0.15) == (kind == "alike")


def test_a_rule_that_is_broken_is_not_certified() -> None:
    """Blocks in time order, taken for unordered: signs that are flipped block by block would say 5 %."""
    states, _ = states_and_truth("alike", 1, 2)
    noise = fit(states[0], states=True)
    assert noise is not None
    assert measured(noise, Rule(LEVEL), 7, BLOCKS, 500, 1).passed.interval[0] > LEVEL
    assert measured(noise, Rule(LEVEL, ordered=True), 7, BLOCKS, 500, 1).passed.interval[0] < LEVEL


@pytest.mark.parametrize(("ideas", "blocks", "rho"), [(1, 10, None), (7, 20, None), (7, 20, 0.4), (3, 5, None)])
def test_many_depths_are_judged_as_each_of_them_is(ideas: int, blocks: int, rho: float | None) -> None:
    depths = 1 - np.random.default_rng(ideas).standard_exponential((20, ideas, blocks)) + 0.3
    if rho is None:  # blocks without order are put in one, which says which goes with which random number
        depths = np.stack([np.array(sorted(depth.T.tolist(), key=sorted)).T for depth in depths])
    how: Any = {"ordered": rho is not None, "rho": rho, "draws": 2000}
    found = p_values(depths, seed=3, group=10, **how)
    each = [weigh(depth.tolist(), alpha=0.05, seed=3 + i // 10, **how).ideas for i, depth in enumerate(depths)]
    assert np.abs(found - [[idea.p for idea in ideas] for ideas in each]).max() <= 1 / 2001 + 1e-9  # a tie


def test_power_grows_with_the_effect_and_with_blocks() -> None:
    noise = fit(np.random.default_rng(2).standard_normal((6, 20)), states=True)
    assert noise is not None
    rule, found = Rule(LEVEL), {}
    for blocks in (20, 80):
        cell = measured(noise, rule, 4, blocks, 400, 1)
        found[blocks] = powered(cell, noise, rule, [0.2, 0.5, 1.0], 400, 1)
    rates = [[each.promoted.rate for each in cell.power] for cell in found.values()]
    assert rates[0] == sorted(rates[0])
    assert all(few <= many for few, many in zip(*rates, strict=True))
    few, many = (cell.detectable or 0.0 for cell in found.values())
    assert 1.6 < few / many < 2.4  # the square root of 4
    at = powered(found[20], noise, rule, [few], 400, 1).power[0]
    assert 0.75 <= at.passed.rate <= 0.85


def test_an_effect_must_also_be_worth_having() -> None:
    noise = fit(np.random.default_rng(2).standard_normal((6, 20)), states=True)
    assert noise is not None
    rule = Rule(LEVEL, smallest_effect=2.0)
    cell = powered(measured(noise, rule, 4, 20, 400, 1), noise, rule, [2.0], 400, 1)
    assert cell.promoted.hits == 0 < cell.passed.hits
    assert cell.power[0].passed.rate == 1
    assert 0.4 < cell.power[0].promoted.rate < 0.6


def test_the_same_content_gives_the_same_answer() -> None:
    rows = np.random.default_rng(4).standard_normal((5, 15))
    one, other = fit(rows, states=False), fit(rows.copy(), states=False)
    assert one is not None
    assert one == other
    assert (one.depths(1, 5, 3, 9) == one.depths(1, 5, 3, 9)).all()
    assert (one.depths(1, 5, 3, 9) != one.depths(2, 5, 3, 9)).any()


def test_an_effect_of_an_evaluation_is_no_noise() -> None:
    rows = np.random.default_rng(4).standard_normal((5, 15))
    assert fit(rows + 100, states=False).size == pytest.approx(fit(rows, states=False).size)  # type: ignore[union-attr]
    assert fit(np.ones((3, 9)), states=False) is None


def test_the_interval_is_wilsons() -> None:
    assert Share(5, 100).interval == pytest.approx((0.0215, 0.1118), abs=1e-4)
    assert Share(0, 50).interval[0] == 0.0
