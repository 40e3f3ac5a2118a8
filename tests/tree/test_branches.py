"""What a search found becomes branches for review in the user's repository, which is otherwise left alone."""

import json

import pytest
from kit.gitting import run_git
from kit.project import Project
from kit.tree_runs import small_search

from pipeline.tree.branches import message_text

PREFIX = "coppice/x/"


@pytest.fixture
def found(project: Project) -> Project:
    """A search in a git repository that has ended, with two ideas on its best path."""
    small_search(project)
    code = project.root / "code"
    run_git(code, "init", "--quiet", "--initial-branch=main")
    run_git(code, "config", "user.name", "Grace")
    run_git(code, "config", "user.email", "grace@localhost")
    run_git(code, "add", "--all")
    run_git(code, "commit", "--quiet", "--message=Start")
    said = project.call("run", "x")
    assert said.code == 0, said
    return project


def branches(project: Project) -> dict[str, str]:
    listed = run_git(project.root / "code", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
    return dict(line.split(" ") for line in listed.splitlines())


def words(project: Project, *more: str, code: int = 0) -> str:
    said = project.call("branches", "x", *more)
    assert said.code == code, said
    return said.err if code else said.out


def test_each_idea_of_the_winning_chain_is_a_commit_with_its_numbers(found: Project) -> None:
    code = found.root / "code"
    before, index = run_git(code, "status", "--porcelain", "--branch"), (code / ".git/index").read_bytes()
    made = json.loads(words(found, "--json"))["branches"]
    assert [each["change"] for each in made] == ["create"] * len(made)
    assert len(made) == 2
    heads = branches(found)
    assert heads == {"main": heads["main"], **{each["branch"]: each["commit"] for each in made}}
    manifest = json.loads(found.read("runs/x/manifest.json"))
    above = heads["main"]
    for each in made:
        facts = run_git(code, "show", "--no-patch", "--format=%P%n%T%n%an <%ae>%n%cn%n%B", each["commit"]).splitlines()
        assert facts[:4] == [above, manifest["nodes"][each["node"]]["tree"], "Grace <grace@localhost>", "Grace"]
        above = each["commit"]
    text = run_git(code, "show", "--no-patch", "--format=%B", made[0]["commit"])
    assert text.startswith("Raise a.\n\nIDEA: Raise a.\n")
    assert "gain: 10.5 -> 13.5, configs: 2 better, 0 worse, 0 same\n" in text
    assert "Coppice run x: d0.n0.i0, which became d1.n0\n" in text
    assert "USD" in text
    assert (run_git(code, "status", "--porcelain", "--branch"), (code / ".git/index").read_bytes()) == (before, index)
    run_git(code, "fsck", "--strict")


def test_a_dry_run_prints_and_a_second_time_does_nothing(found: Project) -> None:
    assert "would make coppice/x/1-d0.n0.i0" in words(found, "--dry-run")
    assert [*branches(found)] == ["main"]
    words(found)
    before = branches(found)
    assert words(found).count("is there coppice/x/") == 2
    assert branches(found) == before
    assert len(branches(found)) == 3
    words(found, "--prefix", "review")
    assert {name.split("/")[0] for name in branches(found)} == {"main", "coppice", "review"}


def test_a_branch_that_is_not_ours_or_was_changed_is_left_alone(found: Project) -> None:
    code = found.root / "code"
    run_git(code, "branch", "coppice/x/2-d1.n0.i0", "main")
    run_git(code, "branch", "coppice/x/2-d1.n1.i0", "main")
    assert "is not ours, or was changed; give other names with --prefix" in words(found, code=2)
    assert len(branches(found)) == 3
    for name in ("2-d1.n0.i0", "2-d1.n1.i0"):
        run_git(code, "branch", "--delete", "--force", f"coppice/x/{name}")
    words(found)
    run_git(code, "update-ref", "refs/heads/coppice/x/1-d0.n0.i0", "main")
    assert "branch coppice/x/1-d0.n0.i0 is not ours, or was changed" in words(found, code=2)


def test_our_own_branch_moves_with_the_search_unless_it_is_checked_out(found: Project) -> None:
    code = found.root / "code"
    words(found)
    run_git(code, "config", "user.name", "Ada")
    run_git(code, "checkout", "--quiet", "coppice/x/1-d0.n0.i0")
    assert "branch coppice/x/1-d0.n0.i0 is checked out, and would move" in words(found, code=2)
    run_git(code, "checkout", "--quiet", "main")
    assert words(found).count("moved coppice/x/") == 2


def test_what_has_no_branches_says_why(project: Project) -> None:
    small_search(project)
    project.spec("steps", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    assert "nothing is recorded of x yet; `coppice x` builds it" in words(project, code=2)
    assert project.call("run", "x").code == 0
    assert "repo: code is a plain folder, not a git repository" in words(project, code=2)
    said = project.call("branches", "steps")
    assert (said.code, "has no ideas to make branches of" in said.err) == (2, True)


def test_a_name_that_git_does_not_take_is_refused(found: Project) -> None:
    assert "git check-ref-format" in words(found, "--prefix", "a..b", code=2)
    assert [*branches(found)] == ["main"]


def test_where_numbers_of_the_chain_are_missing_it_is_to_be_built_first(found: Project) -> None:
    spec = found.read("specs/x.yaml")
    found.spec("x", spec.replace("gain:", "other:"))
    assert "x is not up to date; `coppice x` builds it" in words(found, code=2)
    found.spec("x", spec)
    (found.root / "runs/x/eval/d0.n0.i0/summary.json").unlink()
    assert "x is not up to date" in words(found, code=2)
    (found.root / "runs/x/depths/0/assigned.json").unlink()
    assert "x is not up to date" in words(found, code=2)
    assert [*branches(found)] == ["main"]


@pytest.mark.parametrize(
    ("text", "inert"),
    [
        ("Ask @octocat, o/r#12 and GH-3.", "Ask @ octocat, o/r# 12 and GH -3."),
        ("Fixes https://github.com/o/r/issues/1", "Fixes https: //github.com/o/r/issues/1"),
        ("Go on [skip ci] [CI skip] [1]", "Go on [ skip ci] [ CI skip] [1]"),
        ("One.\nCo-Authored-By: A <a@b.c>", "One.\n Co-Authored-By: A <a@ b.c>"),
        ("\x1b]0;title\x07a\u202eb\u200bc\n\td", " ]0;title a b c\n\td"),
    ],
)
def test_an_idea_in_a_message_calls_nobody_and_closes_nothing(text: str, inert: str) -> None:
    assert message_text(text) == inert
