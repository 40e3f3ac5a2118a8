"""Validation finds each planted fault, says it in one line with the place and what to do, and changes nothing."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from kit.gitting import contents, run_git
from kit.project import Project
from kit.tree_runs import forge, manifest_of, problems, restoring, searched, small_search, validation_of

from pipeline.git.command import GitOutage, git
from pipeline.tree.report.validation import check_consistency, validation_report

Plant = Callable[[Project], object]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return searched(Project(tmp_path_factory.mktemp("search") / "project"))


@pytest.fixture
def search(built: Project) -> Iterator[Project]:
    yield from restoring(built, built.root.with_name("kept"), "runs/x")


def commit(search: Project, name: str) -> str:
    return run_git(search.root, "rev-parse", f"refs/coppice/x/{name}", GIT_DIR=repo(search)).strip()


def repo(search: Project) -> str:
    return str(search.root / "runs/x/repo.git")


def in_repo(*words: str) -> Plant:
    """Words in braces are commits of the search."""

    def plant(search: Project) -> None:
        names = [word[1:-1] for word in words if word.startswith("{")]
        filled = {f"{{{name}}}": commit(search, name) for name in names}
        with chdir(search.root):
            git(*(filled.get(word, word) for word in words), repo=repo(search))

    return plant


def lose(name: str) -> Plant:
    def plant(search: Project) -> None:
        found = commit(search, name)
        (search.root / f"runs/x/repo.git/objects/{found[:2]}/{found[2:]}").unlink()

    return plant


def cut_short(name: str) -> Plant:
    def plant(search: Project) -> None:
        found = commit(search, name)
        path = search.root / f"runs/x/repo.git/objects/{found[:2]}/{found[2:]}"
        path.unlink()
        path.touch()

    return plant


def cut_index_short(search: Project) -> None:
    admin = next(path.parent for path in (search.root / "runs/x/repo.git/worktrees").glob("*/gitdir") if has(path))
    (admin / "coppice-index").write_bytes(b"DIRC")


def write(path: str, text: str) -> Plant:
    return lambda search: search.write(f"runs/x/{path}", text)


def append(path: str, text: str = "\n") -> Plant:
    return lambda search: search.write(f"runs/x/{path}", search.read(f"runs/x/{path}") + text)


def remove(path: str) -> Plant:
    def plant(search: Project) -> None:
        found = search.root / "runs/x" / path
        shutil.rmtree(found) if found.is_dir() else found.unlink()

    return plant


def move_worktree(search: Project) -> None:
    admin = next(path.parent for path in (search.root / "runs/x/repo.git/worktrees").glob("*/gitdir") if has(path))
    (admin / "HEAD").write_text(commit(search, "root") + "\n")


def has(gitdir: Path) -> bool:
    return gitdir.read_text().endswith("wt/d1.n0/.git\n")


FAULTS: dict[str, tuple[Plant, str]] = {
    "a missing CSV": (remove("artifacts/d0.n0.i1.csv"), "runs/x/artifacts/d0.n0.i1.csv: is missing; build again"),
    "a missing summary": (remove("eval/d0.n0.i0/summary.json"), "runs/x/eval/d0.n0.i0/summary.json: is missing"),
    "a missing experiment folder": (remove("eval/d1.n1.i0"), "runs/x/eval/d1.n1.i0/sweep.log: is missing"),
    "an edited CSV": (append("artifacts/d0.n0.i1.csv"), "runs/x/artifacts/d0.n0.i1.csv: was changed since"),
    "an edited baseline": (append("artifacts/d1.n0.csv"), "runs/x/artifacts/d1.n0.csv: was changed since"),
    "an edited idea": (append("node_ideas/d0.n0/idea_000.md"), "node_ideas/d0.n0/idea_000.md: was changed since"),
    "an edited change": (append("eval/d0.n0.i0/change.patch"), "eval/d0.n0.i0/change.patch: was changed since"),
    "an edited log": (append("eval/d1.n0.i1/test.log"), "eval/d1.n0.i1/test.log: was changed since"),
    "an edited summary": (append("TREE_SUMMARY.md"), "runs/x/TREE_SUMMARY.md: was changed since"),
    "a damaged record": (write("depths/0/promoted.json", "{"), "runs/x/depths/0/promoted.json: was changed since"),
    "a record of another shape": (write("eval/d0.n0.i0/candidate.json", "[]"), "candidate.json: was changed since"),
    "a damaged root": (write("root.json", ""), "runs/x/root.json: was changed since"),
    "a missing ref": (in_repo("update-ref", "-d", "refs/coppice/x/d0.n0.i1"), "refs/coppice/x/d0.n0.i1: is missing"),
    "a moved ref": (in_repo("update-ref", "refs/coppice/x/d1.n0", "{root}"), "refs/coppice/x/d1.n0: is at"),
    "a ref too many": (in_repo("update-ref", "refs/coppice/x/d9.n0", "{root}"), "refs/coppice/x/d9.n0: keeps"),
    "a missing commit": (lose("d1.n0.i1"), "runs/x/repo.git: the commit"),
    "a missing repository": (remove("repo.git"), "runs/x/repo.git: is missing; make it again: coppice forget x:root"),
    "a damaged commit": (cut_short("d1.n0.i1"), "runs/x/repo.git: is damaged: git cat-file: "),
    "a damaged index": (cut_index_short, "runs/x/wt/d1.n0: cannot be looked into: git status: "),
    "a missing worktree": (remove("wt/d1.n1"), "runs/x/wt/d1.n1: is no worktree"),
    "a worktree at another commit": (move_worktree, "runs/x/wt/d1.n0: is at"),
    "an edited worktree": (write("wt/d2.n0/a", "7\n"), "runs/x/wt/d2.n0: was changed: a;"),
    "a new file in a worktree": (write("wt/d2.n0/new/x", "7\n"), "runs/x/wt/d2.n0: was changed: new/x;"),
    "a foreign file": (write("notes.txt", "x"), "runs/x/notes.txt: is no file of this search"),
    "a foreign CSV": (write("artifacts/d7.n0.csv", "x"), "runs/x/artifacts/d7.n0.csv: is no file of this search"),
    "a foreign folder": (write("eval/d7.n0.i0/summary.json", "{}"), "runs/x/eval/d7.n0.i0: is no file of this search"),
    "a foreign worktree": (write("wt/d7.n0/a", "x"), "runs/x/wt/d7.n0: is no file of this search"),
    "results that were forged": (
        lambda search: forge(search, "eval/d0.n0.i0/summary.json", lambda it: it.update(results_sha256="0")),
        "runs/x/eval/d0.n0.i0/summary.json: results_sha256: is 0",
    ),
    "a score that was forged": (
        lambda search: forge(
            search,
            "eval/d0.n0.i1/summary.json",
            lambda it: it["scoring_summary"]["root_recommendation"].update(score=0.06),
        ),
        "d0.n0.i1/summary.json: scoring_summary.root_recommendation.score: is 0.06, made again it is 0.0571428571",
    ),
    "a decision that was forged": (
        lambda search: forge(
            search, "depths/1/promoted.json", lambda it: it["decisions"]["d1.n0.i1"].update(failed_check="rank")
        ),
        "promoted.json: decisions.d1.n0.i1.failed_check: is rank, made again it is completed",
    ),
    "a tree that was forged": (
        lambda search: forge(search, "eval/d0.n0.i1/candidate.json", lambda it: it.update(tree="f" * 40)),
        ": its tree: is 41c48cadbce3f01d163bbcbdf857bf52948248e0, the record says ffffffff",
    ),
    "a parent that was forged": (
        lambda search: forge(search, "eval/d0.n0.i1/candidate.json", lambda it: it.update(parent="f" * 40)),
        ": its parent: is fb184046550939e39187e6a49b483c960980b6ba, the record says ffffffff",
    ),
    "a node from elsewhere": (
        lambda search: forge(search, "nodes/d1.n0/origin.json", lambda it: it.update(from_eval="d0.n0.i1")),
        "evaluations.d0.n0.i1.decision.promoted_to_node_id: is d1.n1, the node that comes from it is d1.n0",
    ),
    "a stop that was forged": (
        lambda search: forge(search, "depths/1/promoted.json", lambda it: it.update(stop_reason="empty_frontier")),
        "state.stop_reason: is empty_frontier, but there are nodes to expand: d2.n0, d2.n1",
    ),
}


def test_nothing_is_found_in_a_search_as_it_was_built(search: Project) -> None:
    assert problems(search) == []
    assert search.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found\n")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_in_one_line_that_says_where_and_what_to_do(search: Project, name: str) -> None:
    plant, said = FAULTS[name]
    plant(search)
    found = problems(search)
    line = next((line for line in found if said in line), None)
    assert line is not None, found
    assert "\n" not in line
    assert line.count("; ") >= 1
    report = validation_report(validation_of(search))
    assert report.startswith(f"# {len(found)} problem")
    assert f"- {line}" in report


ALONE = [name for name in FAULTS if name not in ("a missing commit", "a missing experiment folder")]
ALONE = [name for name in ALONE if "forged" not in name and "elsewhere" not in name]


@pytest.mark.parametrize("name", ALONE)
def test_one_fault_is_one_problem(search: Project, name: str) -> None:
    FAULTS[name][0](search)
    assert len(problems(search)) == 1


@pytest.mark.parametrize(
    "name", ["a missing ref", "a moved ref", "a missing commit", "a missing worktree", "an edited CSV"]
)
def test_what_a_problem_says_is_to_be_done_mends_it(search: Project, name: str) -> None:
    FAULTS[name][0](search)
    words = problems(search)[0].rpartition("; ")[2]
    for command in re.findall(r"coppice ([^,]+)", words):
        arguments = command.split()
        said = search.call(*(arguments if arguments[0] == "forget" else ["run", *arguments]))
        assert said.code == 0, said
    assert problems(search) == []


@pytest.mark.parametrize("word", ["for-each-ref", "status"])
def test_a_git_that_is_killed_finds_no_problem(
    search: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/git"
    program.write_text(f'#!/bin/sh\ncase " $* " in *" {word} "*) kill -9 $$;; esac\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    with pytest.raises(GitOutage, match=word):
        problems(search)


def test_validation_changes_nothing(search: Project) -> None:
    FAULTS["an edited worktree"][0](search)
    before = contents(search.root)
    validation_of(search)
    assert contents(search.root) == before


def test_files_that_a_candidates_command_left_and_those_of_the_tool_are_not_foreign(search: Project) -> None:
    paths = ["eval/d0.n0.i0/out/model.bin", "eval/d0.n0.i0/out.rows-3/x", "nodes/d0.n0/out/plot.png", "cand/d0.n0.i0/a"]
    for path in (*paths, "manifest.json", "events.jsonl", "manifest.json.12.draft", "wt/d1.n0/__pycache__/a.pyc"):
        search.write(f"runs/x/{path}", "{}")
    assert problems(search) == []


def test_the_next_build_mends_an_edited_file(search: Project) -> None:
    FAULTS["an edited CSV"][0](search)
    assert search.call("run", "x").code == 0
    assert problems(search) == []


def test_a_search_that_has_only_begun_has_no_problems(project: Project) -> None:
    small_search(project)
    assert problems(project) == ["runs/x: holds no search yet; build it: coppice x"]
    for target in ("x:d0.n0.node", "x:d0.assign", "x:d0.promote", "x:d1.n0.node"):
        assert project.call("run", target).code == 0
        assert problems(project) == []


def test_a_depth_that_is_done_without_one_of_its_targets_is_told(search: Project) -> None:
    assert search.call("forget", "x:d0.n0.i0.score").code == 0
    with chdir(search.root):
        assert [line for line in problems(search) if line.startswith("x:d0.n0.i0.score: was not built")] != []


def test_a_stored_manifest_is_compared_with_the_records(search: Project) -> None:
    stored = manifest_of(search)
    stored["nodes"]["d1.n0"]["commit"] = "0" * 40
    stored["evaluations"]["d0.n0.i0"]["worker_pid"] = 12
    (line,) = problems(search, stored)
    assert line.startswith(f"runs/x/manifest.json: nodes.d1.n0.commit is {'0' * 40}, the records say ")


Path_ = tuple[str, ...]
INCONSISTENT: list[tuple[Path_, Any, str]] = [
    (
        ("nodes", "d1.n0", "artifacts", "promoted_from_eval_id"),
        "d8.n0.i0",
        "nodes.d1.n0.artifacts.promoted_from_eval_id",
    ),
    (("nodes", "d1.n0", "parent_node_id"), "d8.n0", "nodes.d1.n0.parent_node_id"),
    (("nodes", "d2.n0", "parent_node_id"), "d1.n1", "nodes.d2.n0.parent_node_id"),
    (("nodes", "d2.n0", "depth"), 3, "nodes.d2.n0.depth"),
    (("nodes", "d2.n0", "commit"), "0", "nodes.d2.n0.commit"),
    (("nodes", "d2.n0", "tree"), "0", "nodes.d2.n0.tree"),
    (("nodes", "d1.n0", "commit"), "0", "evaluations.d1.n0.i0.parent_commit"),
    (("nodes", "d0.n0", "commit"), "0", "nodes.d0.n0.commit"),
    (("nodes", "d2.n0", "baseline_results_csv_sha256"), "0", "nodes.d2.n0.baseline_results_csv_sha256"),
    (("nodes", "d2.n0", "idea_chain"), [], "nodes.d2.n0.idea_chain"),
    (("nodes", "d2.n0", "status"), "expanded", "nodes.d2.n0.status"),
    (("evaluations", "d0.n0.i0", "decision", "promoted_to_node_id"), None, "evaluations.d0.n0.i0.decision"),
    (("evaluations", "d1.n0.i1", "decision", "promoted_to_node_id"), "d2.n0", "evaluations.d1.n0.i1.decision"),
    (("evaluations", "d1.n0.i1", "parent_node_id"), "d8.n0", "evaluations.d1.n0.i1.parent_node_id"),
    (("evaluations", "d0.n0.i0", "status"), "failed", "nodes.d1.n0: status of d0.n0.i0"),
    (("evaluations", "d0.n0.i0", "approved"), False, "nodes.d1.n0: approval of d0.n0.i0"),
    (
        ("evaluations", "d0.n0.i0", "candidate_results_csv_path"),
        "runs/x/eval/a.csv",
        "evaluations.d0.n0.i0.candidate_results_csv_path",
    ),
    (("state", "frontier_node_ids"), ["d1.n0"], "state.frontier_node_ids"),
    (("state", "completed_depths"), [1], "state.completed_depths"),
    (("state", "expanded_node_ids_by_depth"), {}, "state.expanded_node_ids_by_depth"),
    (("state", "beam_by_depth", "1", "d1.n1", "promoted_from_eval_id"), None, "state.beam_by_depth.1.d1.n1"),
    (("state", "beam_by_depth", "1", "d1.n7"), {"promoted_from_eval_id": "d0.n0.i1"}, "nodes.d1.n7"),
    (("state", "stop_reason"), None, "state.stop_reason: is missing, though all 2 depths"),
    (("state", "stop_reason"), "tired", "state.stop_reason: 'tired' is unknown"),
    (("state", "stop_reason"), "strict_depth_failure", "state.stop_reason: is strict_depth_failure, but 2"),
    (
        ("state", "stop_reason"),
        "max_total_idea_evals_reached",
        "state.stop_reason: is max_total_idea_evals",
    ),
    (("run_config", "max_depth"), 3, "state.stop_reason: is max_depth_reached, but 2 of 3 depths"),
]


@pytest.fixture(scope="module")
def manifest(built: Project) -> dict[str, Any]:
    return manifest_of(built)


def inconsistencies(manifest: dict[str, Any]) -> list[str]:
    return [str(problem) for check in check_consistency(manifest) for problem in check.problems]


@pytest.mark.parametrize(("path", "value", "said"), INCONSISTENT, ids=[f"{p[-1]}={v}"[:60] for p, v, _ in INCONSISTENT])
def test_a_manifest_that_does_not_fit_together_is_found(
    manifest: dict[str, Any], path: Path_, value: Any, said: str
) -> None:
    assert inconsistencies(manifest) == []
    changed = deepcopy(manifest)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    assert any(line.startswith(said) for line in inconsistencies(changed)), inconsistencies(changed)


def test_what_is_left_of_a_wider_search_is_no_stranger(project: Project) -> None:
    searched(project)
    spec = project.read("specs/x.yaml")
    assert "ideas_per_node: 2" in spec
    project.spec("x", spec.replace("ideas_per_node: 2", "ideas_per_node: 1"))
    assert project.call("run", "x").code == 0
    assert (project.root / "runs/x/eval/d0.n0.i1").exists()
    for path in ("eval/d0.n0.i0/review_round_2.md", "node_ideas/d0.n0/idea_000.calls.jsonl"):  # of other roles
        project.write(f"runs/x/{path}", "")
    assert problems(project) == []
    assert project.call("replay", "x").out == "x: 7 decisions: 7 the same again\n", "of what it decides now"


def test_a_manifest_of_an_older_version_is_told_in_one_line_and_is_no_problem(search: Project) -> None:
    stored = manifest_of(search)
    for each in stored["evaluations"].values():
        del each["primary"], each["left_out"]
    found = validation_of(search, stored)
    assert found.problems == ()
    said = "runs/x/manifest.json is from an older version and lacks left_out, primary; the next build writes it anew."
    assert said in validation_report(found).splitlines()
    del stored["evaluations"]["d0.n0.i0"]
    assert "evaluations.d0.n0.i0 is None" in "".join(problems(search, stored))
