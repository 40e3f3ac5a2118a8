"""Outputs come back from the store as they were, in checkouts of any name."""

import stat
from pathlib import Path

import pytest
from kit.building import built, ran, steps
from kit.project import Project

MAKE = 'echo s >> ran; head -c $1 /dev/zero | tr "\\0" x > "$2"; chmod 755 "$2"\n'


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 5_000_000])
def test_an_output_of_any_size_is_recalled_as_it_was(project: Project, size: int) -> None:
    project.write("make.sh", MAKE)
    project.spec("x", steps(f"s: {{run: [sh, make.sh, {size}, '{{out}}'], reads: make.sh, writes: a}}"))
    built(project)
    out = project.root / "runs/x/a"
    out.unlink()
    assert "recalled" in built(project).out
    assert ran(project) == ["s"]
    assert out.read_bytes() == b"x" * size
    assert out.stat().st_mode & stat.S_IXUSR


def test_an_output_that_was_not_runnable_is_not_when_recalled(project: Project) -> None:
    project.spec("x", steps("s: {run: 'echo > {out}', writes: a}"))
    built(project)
    (project.root / "runs/x/a").unlink()
    built(project)
    assert not (project.root / "runs/x/a").stat().st_mode & stat.S_IXUSR


def test_a_folder_where_an_output_belongs_is_refused_before_anything_runs(project: Project) -> None:
    project.write("runs/x/b/precious", "1")
    project.spec("x", steps("s: {run: 'echo s >> ran; echo > {out}', writes: a}\nt: {run: 'echo > {out}', writes: b}"))
    said = project.call("run")
    assert (said.code, ran(project)) == (2, [])
    assert "runs/x/b is a folder, where x:t writes a file; remove the folder" in said.err
    assert project.read("runs/x/b/precious") == "1"


def test_a_link_where_an_output_belongs_is_replaced_and_not_followed(project: Project) -> None:
    victim = project.write("victim", "1")
    (project.root / "runs/x").mkdir(parents=True)
    (project.root / "runs/x/a").symlink_to(victim)
    project.spec("x", steps("s: {run: 'echo 2 > {out}', writes: a}"))
    built(project)
    assert (project.read("victim"), project.read("runs/x/a")) == ("1", "2\n")
    assert not (project.root / "runs/x/a").is_symlink()


def test_one_of_several_outputs_that_is_lost_brings_all_back(project: Project) -> None:
    project.spec("x", steps("s: {run: 'echo s >> ran; echo 1 > {a}; echo 2 > {b}', writes: {a: a, b: deep/b}}"))
    built(project)
    for loss in ("a", "deep/b"):
        (project.root / "runs/x" / loss).unlink()
        built(project)
        assert (project.read("runs/x/a"), project.read("runs/x/deep/b")) == ("1\n", "2\n")
    assert ran(project) == ["s"]


def test_a_shared_store_recalls_what_another_checkout_made(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other checkout")
    for place in (project, other):
        place.spec("x", "store: ../store\n" + steps("s: {run: 'echo s >> ran; echo made > {out}', writes: a}"))
    built(project)
    assert "recalled" in built(other).out
    assert (ran(project), ran(other), other.read("runs/x/a")) == (["s"], [], "made\n")


@pytest.mark.parametrize(("other", "expected"), [("b.txt", "plain"), ("a.txt.gz", "packed")])
def test_another_suffix_is_another_result_and_another_name_is_not(project: Project, other: str, expected: str) -> None:
    pack = "echo s >> ran; case {out} in *.gz) echo packed > {out};; *) echo plain > {out};; esac"
    for path in ("a.txt", other):
        project.spec("x", steps(f"s: {{run: '{pack}', writes: {path}}}"))
        built(project)
    assert project.read(f"runs/x/{other}") == f"{expected}\n"
    assert ran(project) == ["s"] * (1 + (expected == "packed"))


def test_a_run_that_is_renamed_is_recalled(project: Project) -> None:
    spec = """
        s: {run: 'echo s >> ran; echo > {out}', writes: a}
        t: {run: 'echo t >> ran; cat {in} > {out}', reads: a, writes: b}
    """
    project.spec("old", steps(spec))
    built(project)
    (project.root / "specs/old.yaml").rename(project.root / "specs/new.yaml")
    built(project)
    assert ran(project) == ["s", "t"]
    assert project.read("runs/new/b") == "\n"


NAMES = ["two words", "ünï ☃", "it's", "per%cent", "$(touch pwned)", "{brace}", "glob[1]*", "new\nline"]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkout_may_lie_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / name)
    project.write("f.py", "def f(reads, writes):\n    print(open(reads[0]).read(), file=open(writes[0], 'w'))\n")
    project.write("src/a b", "1")
    spec = """
        s: {run: 'cat {in} > {out}', reads: src/*, writes: a b}
        c: {call: f.py:f, reads: a b, writes: c}
        d: {run: 'pwd > {out}', writes: d}
    """
    project.spec("x", steps(spec))
    built(project)
    project.write("src/a b", "2")
    built(project)
    assert project.read("runs/x/c") == "2\n"
    assert project.read("runs/x/d") == f"{project.root}\n"


@pytest.mark.parametrize("how", ["run: 'echo {n} > {out}'", "call: f.py:f"])
def test_the_longest_names_can_be_made_and_recalled(project: Project, how: str) -> None:
    project.write("f.py", "def f(reads, writes):\n    open(writes[0], 'w').close()\n")
    project.spec("x", steps(f"s: {{for: {{n: [{'n' * 190}]}}, {how}, writes: '{{n}}.{'long' * 10}.txt'}}"))
    built(project)
    (output,) = project.root.glob("runs/x/*.txt")
    output.unlink()
    assert "recalled" in built(project).out
