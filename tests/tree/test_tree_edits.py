"""An edit redoes what it bears on and nothing else; an edit that is taken back redoes nothing."""

import shutil
from collections.abc import Callable

import pytest
from kit.gitting import run_git
from kit.project import Project, Said
from kit.searches import START, TESTED, Search, adding, command, files, stage, told

# The second is better by weight, the first by its gain alone.
IDEAS = {"1gain": "gain=12", "2both": "gain=11 risk=4", "3broken": ": broken", "4after": "gain=$((gain + 1))"}
RECORDS = ("depths/*/promoted.json", "nodes/**/*.json", "artifacts/*", "eval/*/summary.json", "eval/*/candidate.json")
PAID = ("implement", "test", "sweep")
SWEEP = "sh {in} {results} {limit}"


def finished(project: Project) -> Search:
    made = Search(project, IDEAS, ideas_per_node=2, max_depth=2, **TESTED)
    made.build()
    made.executed()
    return made


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Of all tests that take back what they edit."""
    return finished(Project(tmp_path_factory.mktemp("edits") / "project"))


@pytest.fixture
def own(project: Project) -> Search:
    return finished(project)


def paid(said: Said) -> list[str]:
    """The targets that cost something, and were built anew."""
    return stage(told(said, "built"), *PAID)


def undone_without_work(search: Search, undo: Callable[[], object], before: dict[str, bytes]) -> None:
    search.executed()
    undo()
    said = search.build()
    assert (paid(said), search.executed()) == ([], [])
    now = records(search)
    assert {name: now.get(name) for name in before} == before


def records(search: Search, run: str = "x") -> dict[str, bytes]:
    return files(search.root / f"runs/{run}", *RECORDS)


def test_nothing_is_done_when_nothing_was_edited(search: Search) -> None:
    assert "up to date" in search.build().out
    assert search.executed() == []


def test_other_weights_score_and_promote_anew_without_one_sweep(project: Project) -> None:
    search = Search(project, IDEAS, ideas_per_node=2, **TESTED)
    search.build()
    search.executed()
    assert search.why("d0.n0.i1") == "d1.n0"
    before, metrics = records(search), search.keys["metrics"]
    search.spec(metrics={"gain": {"primary": True}, "risk": {"better": "lower", "weight": 0.1}})
    said = search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert (paid(said), search.executed()) == ([], [])
    assert stage(told(said, "built"), "score", "promote") == ["d0.n0.i0.score", "d0.n0.i1.score", "d0.promote"]
    undone_without_work(search, lambda: search.spec(metrics=metrics), before)


def test_weights_that_change_no_promotion_redo_nothing_below_it(search: Search) -> None:
    search.spec(score={"strong": 0.2})
    said = search.build()
    assert (paid(said), search.executed()) == ([], [])
    assert stage(told(said, "built"), "idea", "implement", "assign") == []
    search.spec(score=None)
    assert paid(search.build()) == []


def test_the_patch_of_one_idea_redoes_that_idea(search: Search) -> None:
    before, old = records(search), search.project.read("ideas/1gain/change.patch")
    edited = search.project.write("ideas/1gain/change.patch", adding("plus/1gain", "gain=10 risk=5"))
    said = search.build()
    assert paid(said) == ["d0.n0.i0.implement", "d0.n0.i0.sweep", "d0.n0.i0.test"]
    assert search.executed() == ["sweep d0.n0.i0", "test d0.n0.i0.tests"]
    undone_without_work(search, lambda: edited.write_text(old), before)


def test_the_patch_of_an_idea_that_was_promoted_redoes_what_is_built_upon_it(search: Search) -> None:
    before, old = records(search), search.project.read("ideas/2both/change.patch")
    edited = search.project.write("ideas/2both/change.patch", adding("plus/2both", "gain=11 risk=3"))
    said = search.build()
    assert {name[:8] for name in paid(said)} == {"d0.n0.i1", "d1.n0.i0", "d1.n0.i1"}
    undone_without_work(search, lambda: edited.write_text(old), before)


def test_an_ideas_text_is_its_commits_message_and_its_files_are_recalled(search: Search) -> None:
    before, old = records(search), search.project.read("ideas/1gain/idea.md")
    edited = search.project.write("ideas/1gain/idea.md", old.replace("1gain", "another"))
    said = search.build()
    assert paid(said) == ["d0.n0.i0.implement"]
    assert search.executed() == []
    assert search.record("eval/d0.n0.i0/candidate.json")["message"] == "another"
    undone_without_work(search, lambda: edited.write_text(old), before)


def test_another_sweep_command_redoes_sweeps_and_no_implementation(search: Search) -> None:
    before = records(search)
    search.spec(sweep=command(f"{SWEEP}; :", "sweep.sh"))
    said = search.build()
    assert stage(paid(said), "implement", "test") == []
    assert search.executed() == [f"sweep d0.n0{slot}" for slot in ("", ".i0", ".i1")] + ["sweep d1.n0.i1"]
    undone_without_work(search, lambda: search.spec(sweep=command(SWEEP, "sweep.sh")), before)


def test_an_input_of_the_sweep_redoes_sweeps(search: Search) -> None:
    before, old = records(search), search.project.read("sweep.sh")
    edited = search.project.write("sweep.sh", old.replace("risk=5", "risk=6"))
    said = search.build()
    assert stage(paid(said), "implement", "test") == []
    assert len(search.executed()) == 4
    undone_without_work(search, lambda: edited.write_text(old), before)


def test_how_long_and_how_often_a_sweep_may_run_redoes_nothing(search: Search) -> None:
    search.spec(eval_timeout_seconds=50, eval_retries=2, max_parallel_evals=2, max_parallel_per_node=1)
    assert (paid(search.build()), search.executed()) == ([], [])
    search.spec(eval_timeout_seconds=None, eval_retries=None, max_parallel_evals=None, max_parallel_per_node=None)
    assert (paid(search.build()), search.executed()) == ([], [])


def test_other_tests_redo_tests_and_no_sweep_of_what_passes_again(search: Search) -> None:
    before = records(search)
    search.spec(tests=command("sh {in}; true", "tests.sh"))
    search.build()
    assert [line for line in search.executed() if line.startswith("sweep")] == ["sweep d1.n0.i0"], "which was broken"
    undone_without_work(search, lambda: search.spec(**TESTED), before)


@pytest.mark.parametrize("key", ["beam_width", "ideas_per_node", "max_depth"])
def test_a_search_that_is_made_larger_keeps_what_is_done(project: Project, key: str) -> None:
    """Of recorded ideas there are so many for each depth: with more for a node, depth 1 begins with others."""
    search = Search(project, IDEAS, ideas_per_node=2, max_depth=1 + (key == "beam_width"), beam_width=1)
    search.build()
    done = search.executed()
    before = records(search)
    search.spec(**{key: search.keys[key] + 1})
    search.build()
    again = [line for line in search.executed() if line in done]
    assert again == []
    undone_without_work(search, lambda: search.spec(**{key: search.keys[key] - 1}), before)


# -- what is lost is recalled


def test_a_run_that_is_renamed_is_recalled_and_goes_on(own: Search) -> None:
    before = records(own)
    (own.root / "specs/x.yaml").rename(own.root / "specs/y.yaml")
    said = own.build()
    assert (paid(said), own.executed()) == ([], [])
    assert records(own, "y") == before
    assert not [path for path, text in files(own.root / "runs/y", "nodes/**/*.json").items() if b"runs/x" in text]
    goes_on(own, "y")


def test_a_run_whose_folder_is_lost_is_recalled_and_goes_on(own: Search) -> None:
    before = records(own)
    shutil.rmtree(own.root / "runs/x")
    said = own.build()
    assert ({*told(said, "built")} <= {"report", "validate"}, own.executed()) == (True, [])  # of this checkout alone
    assert records(own) == before
    goes_on(own)


@pytest.mark.parametrize("lost", [["repo.git"], ["wt", "cand"], ["repo.git", "wt", "cand"]], ids=" ".join)
def test_git_is_a_cache_that_is_made_again(own: Search, lost: list[str]) -> None:
    for name in lost:
        shutil.rmtree(own.root / "runs/x" / name)
    goes_on(own)


def goes_on(search: Search, run: str = "x") -> None:
    """One depth more, on commits of which nothing may be left but records."""
    old = search.record("nodes/d2.n0/code.json", run)
    search.spec(run, max_depth=3, ideas_per_node=2)
    search.idea("5more", "gain=$((gain + 1))")
    said = search.build(run)
    assert {name[:2] for name in paid(said)} == {"d2"}
    assert search.executed() == ["sweep d2.n0.i0", "test d2.n0.i0.tests"]
    assert search.why("d2.n0.i0", run) == "d3.n0"
    new = search.record("nodes/d3.n0/code.json", run)
    assert [link["commit"] for link in new["chain"][:-1]] == [link["commit"] for link in old["chain"]]
    repo = str(search.root / f"runs/{run}/repo.git")
    history = run_git(repo, "rev-list", f"refs/coppice/{run}/d3.n0", GIT_DIR=repo).split()
    assert history == [*(link["commit"] for link in reversed(new["chain"])), new["root"]]
    for name in (*START, "plus/2both", "plus/4after", "plus/5more"):
        assert (search.root / f"runs/{run}/wt/d3.n0/{name}").exists()


def test_a_candidate_is_recalled_by_another_run_with_another_shape(own: Search) -> None:
    own.spec("y", ideas_per_node=1, max_depth=1)
    said = own.build("y")
    assert (paid(said), own.executed()) == ([], [])


def test_two_runs_at_once_make_the_same_only_once(project: Project) -> None:
    search = Search(project, IDEAS, max_parallel_evals=2, beam_width=2, **TESTED)
    search.spec("y")
    search.build("x", "y")
    done = search.executed()
    assert len(done) == len({*done})
    assert records(search)["depths/0/promoted.json"] == records(search, "y")["depths/0/promoted.json"]


def test_one_that_is_forgotten_is_done_anew(own: Search) -> None:
    assert own.project.call("forget", "x:d0.n0.i0.sweep").code == 0
    own.build()
    assert own.executed() == ["sweep d0.n0.i0"]


def test_worktrees_of_nodes_follow_an_edit_that_is_undone(project: Project) -> None:
    search = Search(project, {"1a": "gain=11", "2b": "gain=12"})
    search.build()
    best = (search.root / "runs/x/wt/d1.n0/plus").iterdir
    assert {path.name for path in best()} == {"start", "2b"}
    search.spec(ideas_per_node=1)
    search.build()
    assert {path.name for path in best()} == {"start", "1a"}
    search.spec(ideas_per_node=2)
    search.build()
    assert {path.name for path in best()} == {"start", "2b"}
