"""A tree spec as targets: which there are, what they read and write, and that no cost depends on a position."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.gitting import run_git
from kit.project import Project

from pipeline.core.graph import Graph, Target
from pipeline.core.recipe import make_recipe
from pipeline.tree.plan import plan
from pipeline.tree.report.storage_checks import expected_targets
from pipeline.tree.rules.budget import BudgetLimits, Ceiling
from pipeline.tree.rules.positions import parse_place
from pipeline.tree.rules.scoring import Metric, ScoringRules
from pipeline.tree.run.prompting import PromptValues
from pipeline.tree.spec.model import (
    Canary,
    CheckCommand,
    CheckoutCommand,
    HoldoutKeys,
    KeepKeys,
    Loop,
    ProtectKeys,
    SearchShape,
    Sweep,
    TreeSpec,
)
from pipeline.tree.targets.builder import TargetBuilder

PAID = ("implement", "test", "checks", "sweep", "row")
BACKENDS = {
    "ideas": ("patches", "command", "manual"),
    "planner": ("none", "command"),
    "coder": ("patches", "command", "manual"),
    "reviewer": ("none", "command"),
}


def command(line: str, **reads: str) -> CheckoutCommand:
    ports = {name: (path,) for name, path in reads.items()}
    return CheckoutCommand({"shell": line}, ports, {}, (), None, frozenset(re.findall(r"\{(\w+)\}", line)), 9)


def role(backend: str) -> dict[str, Any]:
    return {"backend": backend} | ({"folder": "ideas"} if backend != "none" else {})


def spec(shape: SearchShape, name: str = "x", configs: int = 0, **more: Any) -> TreeSpec:
    """`configs`: as many rows; otherwise one command for all of them."""
    grid = tuple({"n": n} for n in range(configs)) or None
    sweep = Sweep(command("sweep {results} {n}", data="in.csv"), "per_config" if configs else "whole", grid, None)
    roles = {"ideas": role("patches"), "planner": role("none"), "coder": role("patches"), "reviewer": role("none")}
    plain = TreeSpec(
        name=name,
        line=1,
        repo="repo",
        plain=True,
        shape=shape,
        loop=Loop(roles, 0, False, ""),
        tests=None,
        sweep=sweep,
        rules=ScoringRules("gain", (Metric("gain"),)),
        budget=BudgetLimits(),
        ceiling=Ceiling(),
        per_node=None,
        at_once=1,
        retries=0,
        patience=0.0,
        keep=KeepKeys(),
        dry_run=False,
        store=None,
    )
    return plain._replace(**more)


def lines(spec: TreeSpec) -> Iterator[str]:
    own = f"runs/{spec.name}/"
    for target in plan(spec):
        reads, writes = (
            " ".join(path.removeprefix(own) for path in paths) for paths in (target.inputs, target.outputs)
        )
        yield f"{target.name.partition(':')[2]}: {reads} -> {writes}"


GOLDEN = """\
root: repo -> root.json nodes/d0.n0/tree.txt
d0.n0.test: nodes/d0.n0/tree.txt tests.py -> \
nodes/d0.n0/test.json nodes/d0.n0/tested.txt nodes/d0.n0/test.log nodes/d0.n0/test.cost.json
d0.n0.sweep: nodes/d0.n0/tested.txt in.csv -> artifacts/d0.n0.csv \
nodes/d0.n0/sweep.json nodes/d0.n0/sweep.log nodes/d0.n0/sweep.cost.json
d0.n0.node: root.json artifacts/d0.n0.csv -> \
nodes/d0.n0/code.json nodes/d0.n0/context.json nodes/d0.n0/origin.json nodes/d0.n0/node.json
ideas: ideas -> node_ideas/d0.n0/idea_000.md node_ideas/d0.n0/idea_000.patch
d0.assign: nodes/d0.n0/origin.json node_ideas/d0.n0/idea_000.md -> eval/d0.n0.i0/task.json depths/0/assigned.json
d0.n0.i0.implement: eval/d0.n0.i0/task.json nodes/d0.n0/code.json node_ideas/d0.n0/idea_000.patch -> \
eval/d0.n0.i0/candidate.json eval/d0.n0.i0/change.patch eval/d0.n0.i0/tree.txt eval/d0.n0.i0/calls.jsonl
d0.n0.i0.test: eval/d0.n0.i0/tree.txt tests.py -> \
eval/d0.n0.i0/test.json eval/d0.n0.i0/tested.txt eval/d0.n0.i0/test.log eval/d0.n0.i0/test.cost.json
d0.n0.i0.sweep: eval/d0.n0.i0/tested.txt in.csv -> artifacts/d0.n0.i0.csv \
eval/d0.n0.i0/sweep.json eval/d0.n0.i0/sweep.log eval/d0.n0.i0/sweep.cost.json
d0.n0.i0.score: eval/d0.n0.i0/candidate.json eval/d0.n0.i0/test.json eval/d0.n0.i0/sweep.json \
artifacts/d0.n0.i0.csv artifacts/d0.n0.csv artifacts/d0.n0.csv -> eval/d0.n0.i0/summary.json
d0.promote: depths/0/assigned.json eval/d0.n0.i0/task.json eval/d0.n0.i0/candidate.json eval/d0.n0.i0/change.patch \
eval/d0.n0.i0/calls.jsonl eval/d0.n0.i0/sweep.cost.json eval/d0.n0.i0/summary.json eval/d0.n0.i0/test.cost.json \
artifacts/d0.n0.i0.csv nodes/d0.n0/code.json nodes/d0.n0/context.json nodes/d0.n0/origin.json -> \
depths/0/promoted.json nodes/d1.n0/code.json nodes/d1.n0/context.json nodes/d1.n0/origin.json artifacts/d1.n0.csv
d1.n0.node: nodes/d1.n0/code.json -> nodes/d1.n0/node.json
report: depths/0/promoted.json nodes/d0.n0/node.json nodes/d1.n0/node.json -> TREE_SUMMARY.md
validate: TREE_SUMMARY.md -> VALIDATION_REPORT.md
"""


def test_the_smallest_search_is_this_plan() -> None:
    assert "\n".join(lines(spec(SearchShape(1, 1, 1), tests=command("run {tests}", tests="tests.py")))) + "\n" == GOLDEN


def test_checks_stand_between_tests_and_sweep_of_the_root_too() -> None:
    checks = (
        CheckCommand("lint", command("lint {code}", code="lint.py"), None),
        CheckCommand("ahead", command("decide {days}", days="in.csv"), Canary("days", "", 5, 1e-9, 0.5)),
    )
    planned = {
        line.partition(":")[0]: line for line in lines(spec(SearchShape(1, 1, 1), tests=command("run"), checks=checks))
    }
    for where, folder in (("d0.n0", "nodes/d0.n0"), ("d0.n0.i0", "eval/d0.n0.i0")):
        assert planned[f"{where}.checks"] == (
            f"{where}.checks: {folder}/tested.txt lint.py in.csv -> "
            f"{folder}/checks.json {folder}/checked.txt {folder}/checks.log {folder}/checks.cost.json"
        )
        assert planned[f"{where}.sweep"].startswith(f"{where}.sweep: {folder}/checked.txt ")
    assert " eval/d0.n0.i0/checks.json " in planned["d0.n0.i0.score"]
    assert " eval/d0.n0.i0/checks.cost.json " in planned["d0.promote"]


# -- laws

shapes = st.builds(SearchShape, st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
roles = st.fixed_dictionaries({name: st.sampled_from(names).map(role) for name, names in BACKENDS.items()})


@st.composite
def specs(draw: st.DrawFn) -> TreeSpec:
    asked = draw(roles)
    if asked["coder"]["backend"] == "patches":
        asked["ideas"] = role("patches")
    return spec(
        draw(shapes),
        configs=draw(st.integers(0, 2)),
        loop=Loop(asked, draw(st.integers(0, 2)), draw(st.booleans()), ""),
        tests=draw(st.sampled_from([None, command("run")])),
        checks=draw(st.sampled_from([(), (CheckCommand("lint", command("lint"), None),)])),
        protect=draw(st.sampled_from([ProtectKeys(), ProtectKeys(("sweep.py",))])),
        per_node=draw(st.sampled_from([None, 1])),
        dry_run=draw(st.booleans()),
    )


def named(targets: list[Target], *stages: str) -> list[str]:
    return [target.name for target in targets if target.stage in stages]


@settings(deadline=None)
@given(specs())
def test_there_is_a_target_for_each_evaluation_that_a_search_can_have(spec: TreeSpec) -> None:
    targets, shape = [*plan(spec)], spec.shape
    evaluations = shape.ideas_per_node * (1 + shape.beam_width * (shape.max_depth - 1))
    for stage in ("implement", "score"):
        assert len(named(targets, stage)) == evaluations
    tested = evaluations + 1 if spec.tests and not spec.dry_run else 0
    assert len(named(targets, "test")) == tested, "and the root"
    assert len(named(targets, "checks")) == (
        evaluations + 1 if (spec.checks or spec.protect.repo) and not spec.dry_run else 0
    ), "and the root"
    assert len(named(targets, "sweep", "gather")) == evaluations + 1, "and the root's"
    rows = 0 if spec.dry_run or spec.sweep.grid is None else spec.sweep.grid
    assert len(named(targets, "row")) == rows * (evaluations + 1)
    assert len(named(targets, "promote")) == len(named(targets, "assign")) == shape.max_depth
    assert len(named(targets, "start", "node")) == 1 + shape.beam_width * shape.max_depth


@settings(deadline=None)
@given(specs(), st.sampled_from([None, 0.1, 0.4, 99.0]))
def test_validation_expects_the_targets_of_the_plan(spec: TreeSpec, usd: float | None) -> None:
    targets = [*plan(spec._replace(budget=BudgetLimits(usd=usd), ceiling=Ceiling(usd=0.2)))]
    config = next(target.params for target in targets if target.stage == "report")
    expected = [f"x:{name}" for names in expected_targets(config).values() for name in names]
    assert sorted(expected) == sorted({target.name for target in targets} - {"x:validate"})


@settings(deadline=None)
@given(specs())
def test_every_path_is_written_once_below_the_run_and_read_after_it_was_written(spec: TreeSpec) -> None:
    targets = [*plan(spec)]
    written = [path for target in targets for path in target.outputs]
    assert len(written) == len({*written}) > 0
    assert len({target.name for target in targets}) == len(targets)
    assert all(path.startswith("runs/x/") for path in written)
    outside = {path for target in targets for path in target.inputs if path not in {*written}}
    assert outside <= {"repo", "ideas", "in.csv"}
    order = {path: n for n, target in enumerate(targets) for path in target.outputs}
    for n, target in enumerate(targets):
        assert all(order[path] < n for path in target.inputs if path in order)
    Graph(targets, in_order=True)


@settings(deadline=None)
@given(specs())
def test_nothing_that_costs_depends_on_where_in_the_search_it_is(spec: TreeSpec) -> None:
    """The recipes of one stage are the same for all slots; those of rows for all of a config, those of ideas for all
    with as many before them."""
    seen: dict[tuple[Any, ...], str] = {}
    for target in plan(spec):
        asked = target.stage == "idea" and "constraints" in target.params
        if target.stage in PAID or asked:
            made = json.dumps(make_recipe(target, target.stage), sort_keys=True)
            assert not re.search(r"\bd\d|\bn\d|\bi\d", made)
            before = len(dict(target.reads).get("before", ()))
            assert seen.setdefault((target.stage, target.params.get("config_id"), before), made) == made


@settings(deadline=None)
@given(specs())
def test_a_plan_follows_from_its_spec_alone_and_the_name_of_the_run_changes_paths_alone(spec: TreeSpec) -> None:
    first, again, other = [*plan(spec)], [*plan(spec)], [*plan(spec._replace(name="y"))]
    assert first == again
    for one, two in zip(first, other, strict=True):
        assert one.stage in ("report", "validate") or make_recipe(one, one.stage) == make_recipe(two, two.stage)
        assert [path.replace("runs/x/", "runs/y/") for path in one.outputs] == [*two.outputs]


@settings(deadline=None)
@given(shapes, st.integers(1, 3))
def test_a_larger_search_has_all_evaluations_of_a_smaller_one(shape: SearchShape, more: int) -> None:
    small = {*named([*plan(spec(shape))], *PAID)}
    for field in ("ideas_per_node", "beam_width", "max_depth"):
        larger = shape._replace(**{field: getattr(shape, field) + more})
        assert small <= {*named([*plan(spec(larger))], *PAID)}


@settings(deadline=None)
@given(specs())
def test_what_an_evaluation_is_made_of_has_a_place_among_all_and_one_at_its_node(spec: TreeSpec) -> None:
    for target in plan(spec):
        if target.stage in (*PAID, "idea"):
            node = re.findall(r"\.n(\d+)", target.name)[0]
            own = (f"node {node}",) if spec.per_node else ()
            assert target.limits.rooms == ("evals", *own)
            assert {*target.limits.rooms} <= {*spec.rooms}


def test_a_repositorys_commit_is_that_of_its_run_and_a_folders_files_are_their_own() -> None:
    shape = SearchShape(1, 1, 1)
    folder, again = (next(plan(spec(shape, name))) for name in "xy")
    assert make_recipe(folder, "") == make_recipe(again, "")
    one, two = (next(plan(spec(shape, name, plain=False))) for name in "xy")
    assert (one.inputs, two.inputs) == ((), ())
    assert make_recipe(one, "") != make_recipe(two, "")


@pytest.mark.parametrize(
    ("repo", "shown"), [(".", ["data/open.csv", "in.csv"]), ("data", ["data/open.csv"]), ("to", ["data/open.csv"])]
)
def test_a_prompt_shows_no_data_that_is_held_out_or_protected_wherever_the_repository_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: str, shown: list[str]
) -> None:
    project = Project(tmp_path / "project")
    monkeypatch.chdir(project.root)
    (project.root / "to").symlink_to("data")
    names = ["data/held.csv", "data/own.csv", "data/open.csv", "in.csv"]
    for name in names:
        project.write(name, f"of {name}\n")
    top = project.root / repo
    run_git(top, "init", "--quiet")
    run_git(top, "add", "--all")
    keys = {"holdout": HoldoutKeys(reads={"data": ("data/held.csv",)}), "protect": ProtectKeys((), ("data/own.csv",))}
    brief = TargetBuilder(spec(SearchShape(1, 1, 1), repo=repo, **keys)).brief
    known = PromptValues(
        "x", f"{top}/.git", parse_place("d0.n0"), brief, {"ideas": {"backend": "m", "context_tokens": 1000}}
    )
    section = known.files_section("ideas", run_git(top, "write-tree").strip(), "")
    assert [name for name in names if f"of {name}" in section] == shown


def test_a_prompt_is_told_what_is_left_of_the_budget_as_the_ledger_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "project")
    monkeypatch.chdir(project.root)
    for place in ("d0.n0", "d1.n0"):
        project.write(f"runs/x/artifacts/{place}.csv", "config_id,status,gain\n0,ok,1\n")
    spent = {"spent": {"d0.n0.i0": [1, 0.1, 5, 1.0, 1]}}
    project.write("runs/x/depths/0/promoted.json", json.dumps(spent))
    limits = {"budget": BudgetLimits(usd=5.0), "ceiling": Ceiling(1, 0.5)}
    brief = TargetBuilder(spec(SearchShape(1, 1, 2), **limits)).brief
    told = PromptValues("x", "", parse_place("d1.n0"), brief, {}).measure_section(whole=True)
    assert "Left of the budget before this step: 4.5 USD." in told
