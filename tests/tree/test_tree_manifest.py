"""The manifest has every field it promises, says what the records say, and is documented."""

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import ROOT, Project
from kit.tree_runs import IDEAS, config_of, manifest_of, searched, small_search

from pipeline.tree.report.manifest import fold_manifest, idea_title
from pipeline.tree.rules.scoring import column_by_config, compare_configs

PAGE = (ROOT / "docs/manifest.md").read_text()
# Names that users of such searches look for.
TOP = "tree_run_id created_at run_config root state tasks events nodes evaluations conversation_config conversations"
CONFIG = "ideas_per_node max_depth beam_width sweep_config_limit max_total_idea_evals max_review_rounds"
STATE = "current_depth frontier_node_ids expanded_node_ids_by_depth completed_depths task_plan_by_depth stop_reason"
STATE += " depth_progress_by_depth deferred_cleanup"
NODE = "parent_node_id depth commit worktree_path baseline_results_csv_path idea_chain status created_at node_ideas_dir"
NODE += " generated_idea_files context_ideas_dirs context_idea_files sweep_config_limit dedupe artifacts"
EVALUATION = "parent_node_id idea_id idea_text_path idea_path status experiment_dir candidate_commit parent_commit"
EVALUATION += " error candidate_results_csv_path baseline_results_csv_path candidate_rows_used scoring_summary decision"
LIFE = "queued_at started_at finished_at worker_pid attempt task_state"


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The third idea is the second one again."""
    project = small_search(Project(tmp_path_factory.mktemp("manifest") / "project"))
    project.write("ideas/03/idea.md", project.read("ideas/02/idea.md").upper())
    assert project.call("run", "x").code == 0
    return project


@pytest.fixture(scope="module")
def manifest(search: Project) -> dict[str, Any]:
    return manifest_of(search)


def test_it_has_the_fields_that_the_guide_names(manifest: dict[str, Any]) -> None:
    assert {*TOP.split()} <= {*manifest}
    assert {*CONFIG.split()} <= {*manifest["run_config"]}
    assert {"root_baseline_csv_path", "root_commit"} <= {*manifest["root"]}
    assert {*STATE.split()} <= {*manifest["state"]}
    for node in manifest["nodes"].values():
        assert {*NODE.split()} <= {*node}
    for evaluation in manifest["evaluations"].values():
        assert {*EVALUATION.split(), *LIFE.split()} <= {*evaluation}


def test_it_is_data_as_json_has_it(manifest: dict[str, Any]) -> None:
    assert json.loads(json.dumps(manifest)) == manifest


def test_a_node_and_its_evaluation_point_at_each_other(manifest: dict[str, Any]) -> None:
    node = manifest["nodes"]["d1.n0"]
    evaluation = manifest["evaluations"][node["artifacts"]["promoted_from_eval_id"]]
    assert evaluation["decision"]["promoted_to_node_id"] == "d1.n0"
    assert evaluation["candidate_commit"] == node["commit"]
    assert node["idea_chain"] == [evaluation["idea_path"]]
    assert node["baseline_results_csv_sha256"] == evaluation["candidate_results_csv_sha256"]
    assert node["metrics"] == {"gain": 13.5, "risk": 1.0}


def test_a_duplicate_is_recorded_at_its_node(manifest: dict[str, Any]) -> None:
    (skipped,) = manifest["nodes"]["d1.n0"]["dedupe"]["skipped"]
    assert (skipped["eval_id"], skipped["duplicate_of"]) == ("d1.n0.i0", "d0.n0.i1")
    evaluation = manifest["evaluations"]["d1.n0.i0"]
    assert (evaluation["empty"], evaluation["status"], evaluation["files"]) == ("duplicate", "skipped", {})
    assert manifest["state"]["depth_progress_by_depth"]["1"]["empty"] == {"duplicate": 2}


def test_what_a_node_was_told_are_the_ideas_above_it(search: Project, manifest: dict[str, Any]) -> None:
    node, folder = manifest["nodes"]["d1.n0"], "runs/x/node_ideas"
    assert node["context_ideas_dirs"] == [f"{folder}/d0.n0", f"{folder}/d1.n0"]
    expected = {f"{folder}/d0.n0/idea_{i:03}.md": None for i in range(2)}
    assert {*node["context_idea_files"]} == {*expected}
    for path, digest in node["context_idea_files"].items():
        assert digest == sha256(search.read(path).encode()).hexdigest()
    assert node["generated_idea_files"] == [f"{folder}/d1.n0/idea_{i:03}.md" for i in range(2)]


def test_every_path_in_it_is_there(search: Project, manifest: dict[str, Any]) -> None:
    for evaluation in manifest["evaluations"].values():
        paths = [*evaluation["files"].values(), evaluation["idea_path"], evaluation["experiment_dir"]]
        assert [path for path in paths if not (search.root / path).exists()] == []
    for node in manifest["nodes"].values():
        paths = [path for name, path in node["artifacts"].items() if path and name != "promoted_from_eval_id"]
        assert [path for path in [*paths, node["worktree_path"]] if not (search.root / path).exists()] == []


def test_a_failure_says_which_step_and_where_to_read_on(manifest: dict[str, Any]) -> None:
    failed = manifest["evaluations"]["d1.n0.i1"]
    log = "runs/x/eval/d1.n0.i1/test.log"
    assert failed["error"] == {"stage": "test", "why": "tests: exit status 1", "exit": 1, "log": log}
    assert failed["status"] == failed["task_state"] == "failed"


def test_what_is_known_of_the_course_of_an_evaluation_is_merged_in(search: Project) -> None:
    life = {"queued_at": 1.5, "worker_pid": 7, "attempt": 3, "task_state": "completed", "other": 1}
    found = manifest_of(search, **{"d0.n0.i0": life})["evaluations"]
    merged = found["d0.n0.i0"]
    assert [merged[name] for name in LIFE.split()] == [1.5, None, None, 7, 3, "completed"]
    assert "other" not in merged
    assert found["d0.n0.i1"]["queued_at"] is None


def test_a_search_half_way_says_what_is_there_and_no_more(project: Project) -> None:
    small_search(project)
    before = manifest_of(project)
    assert (before["nodes"], before["evaluations"], before["state"]["current_depth"]) == ({}, {}, 0)
    assert project.call("run", "x:d0.assign").code == 0
    begun = manifest_of(project, **{"d0.n0.i1": {"task_state": "running"}})
    assert begun["state"]["frontier_node_ids"] == ["d0.n0"]
    assert [each["status"] for each in begun["evaluations"].values()] == ["pending", "running"]
    assert [task["task_state"] for task in begun["tasks"]] == ["queued", "running"]
    assert project.call("run", "x:d0.promote").code == 0
    half = manifest_of(project)
    assert (half["state"]["current_depth"], half["state"]["stop_reason"]) == (1, None)
    assert [node["created_at"] is None for node in half["nodes"].values()] == [False, True, True]


def test_a_search_that_stopped_has_no_depths_after_that(project: Project) -> None:
    searched(project, ideas={**IDEAS, "Raise a.": ("a", -3), "Raise b.": ("b", -1)})
    state = manifest_of(project)["state"]
    assert (state["stop_reason"], state["completed_depths"], state["current_depth"]) == ("empty_frontier", [0], 1)
    assert state["frontier_node_ids"] == []


def test_money_is_counted_and_what_is_left_of_it(project: Project) -> None:
    searched(project, "max_total_idea_evals: 3\n")
    manifest = manifest_of(project)
    assert manifest["state"]["spent"]["evals"] == 3
    assert manifest["state"]["left"] == {"evals": 0, "usd": None, "tokens": None, "seconds": None}
    assert manifest["state"]["stop_reason"] == "max_total_idea_evals_reached"
    assert [each["empty"] for each in manifest["evaluations"].values()] == ["", "", "", "budget", "budget", "budget"]


def test_records_that_must_not_be_believed_count_as_missing(search: Project) -> None:
    path = "runs/x/eval/d0.n0.i0/summary.json"
    config = config_of(search)
    with chdir(search.root):
        found = fold_manifest("x", config, without=frozenset([path]))["evaluations"]
    assert found["d0.n0.i0"]["status"] == "pending"
    assert found["d0.n0.i1"]["status"] == "completed"


def test_a_line_of_events_that_a_kill_cut_off_was_never_written(search: Project) -> None:
    search.write("runs/x/events.jsonl", '{"at": 1, "event": "queued"}\n{"event": "sta')
    assert manifest_of(search)["events"] == [{"at": 1, "event": "queued"}]
    (search.root / "runs/x/events.jsonl").unlink()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("IDEA: Do it.\nNow.\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- c\n", "Do it."),
        ("\n## Do it\nmore", "Do it"),
        ("", ""),
    ],
)
def test_the_title_of_an_idea_is_its_first_line(text: str, line: str) -> None:
    assert idea_title(text) == line


VALUES = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 1.0 + 1e-15, 2.0])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), st.sampled_from(["higher", "lower"]))
def test_configs_are_counted_one_way_each_and_beyond_means_all_of_them(
    pairs: list[tuple[float, float]], better: str
) -> None:
    old, new = ({n: pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
    found, back = compare_configs(better, old, new), compare_configs(better, new, old)
    assert found.better + found.worse + found.same == len(pairs)
    assert (back.better, back.worse) == (found.worse, found.better)
    assert not found.beyond or (found.better == len(pairs) > 1 and not back.beyond)


def test_a_single_config_that_is_better_is_not_beyond_its_parents_best() -> None:
    assert not compare_configs("higher", {0: 0.5}, {0: 0.51}).beyond
    assert compare_configs("higher", {0: 0.5, 1: 0.4}, {0: 0.51, 1: 0.52}).beyond


def test_a_column_is_read_for_the_configs_that_count() -> None:
    text = '\ufeffconfig_id , status,x\r\n0,ok,1.5\n\n1,"o\nk", 2\n7,error,\n'
    assert column_by_config(text, "x", {0, 1}) == {0: {"": 1.5}, 1: {"": 2.0}}
    assert column_by_config("config_id,b,x\n3,u,1\n3, v ,2\n", "x", {3}, "b") == {3: {"u": 1.0, "v": 2.0}}


# Where a name is data: what stands for it in the page.
DATA = {
    "nodes": "<node>",
    "evaluations": "<eval>",
    "cages": "<step>",
    "metrics": "<metric>",
    "by_role": "<role>",
    "by_depth": "<depth>",
}
# Of these the page says what they are, not what is in them.
WHOLE = {"context_idea_files", "conversations", "events", "empty", "scoring_summary"}


def fields(value: Any, path: str = "") -> Iterator[str]:
    last = path.rsplit(".", 1)[-1]
    if isinstance(value, dict) and value and last not in WHOLE:
        for name, inner in value.items():
            shown = "<depth>" if last.endswith("_by_depth") else DATA.get(last, name)
            shown = "<node>" if path == "state.beam_by_depth.<depth>" else shown
            yield from fields(inner, f"{path}.{shown}" if path else shown)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and last not in WHOLE:
        yield from fields(value[0], f"{path}[]")
    elif value not in ({}, [], None):
        yield path


def documented(title: str) -> set[str]:
    """The fields in the tables from this heading to the next one."""
    part = re.split(r"^#", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_the_manifest_is_documented(manifest: dict[str, Any]) -> None:
    known = documented("manifest.json")
    for part in ("run_config", "root", "state", "money", "tasks[]", "nodes.<node>", "evaluations.<eval>"):
        known |= {f"{part}.{name}" for name in documented(f"`{part}`")}
    assert sorted({*fields(manifest)} - known) == []


RECORDS = {
    "summary.json": "eval/d0.n0.i0/summary.json",
    "task.json": "eval/d0.n0.i0/task.json",
    "candidate.json": "eval/d0.n0.i0/candidate.json",
    "test.json": "eval/d0.n0.i0/test.json",
    "sweep.json": "eval/d0.n0.i0/sweep.json",
    "sweep.cost.json": "eval/d0.n0.i0/sweep.cost.json",
    "code.json": "nodes/d1.n0/code.json",
    "context.json": "nodes/d1.n0/context.json",
    "origin.json": "nodes/d1.n0/origin.json",
    "node.json": "nodes/d1.n0/node.json",
    "root.json": "root.json",
    "assigned.json": "depths/0/assigned.json",
    "promoted.json": "depths/0/promoted.json",
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_a_record_is_documented(search: Project, name: str) -> None:
    record = json.loads(search.read(f"runs/x/{RECORDS[name]}"))
    known = documented(f"`{name}`")
    top = {each.partition(".")[0] for each in known}
    assert sorted({*record} - top) == []
    for comparison in (record.get("scoring_summary") or {}).values():
        assert sorted({*fields(comparison)} - known) == []
