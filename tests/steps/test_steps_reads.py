"""What is read, and only that, makes a target stale; and its name and place count as documented."""

import os
import re
import subprocess
import time
from contextlib import chdir

import pytest
from kit.building import built, ran, steps
from kit.project import COPPICE, Project, environment

from pipeline.store.files import TICK_NS
from pipeline.store.noop import up_to_date


def noting(reads: str, more: str = "") -> str:
    """A step that reads, and notes in `ran` that it was executed."""
    return steps(f"s: {{run: 'echo s >> ran; echo {{in}} > {{out}}', reads: {reads}, writes: a{more}}}")


CHANGES = {
    "a file edited": ("src/a.py", "src/a.py", True),
    "a file edited below a folder": ("src/", "src/deep/b.py", True),
    "a folder without its slash": ("src", "src/deep/b.py", True),
    "a new file in a folder": ("src/", "src/deep/new.txt", True),
    "a new folder in a folder": ("src/", "src/new/new.txt", True),
    "a new file that matches": ("src/**/*.py", "src/deep/new.py", True),
    "a new file beside a flat pattern": ("src/*.py", "src/deep/new.py", False),
    "a new file that matches a flat pattern": ("src/*.py", "src/new.py", True),
    "a new file that does not match": ("src/**/*.py", "src/deep/new.txt", False),
    "a question mark": ("src/?.py", "src/z.py", True),
    "two letters for a question mark": ("src/?.py", "src/zz.py", False),
    "one of a class": ("src/[a-m].py", "src/b.py", True),
    "none of a class": ("src/[!n-z].py", "src/z.py", False),
    "compiled Python": ("src/", "src/__pycache__/a.pyc", False),
    "git's own": ("src/", "src/.git/index", False),
    "another file": ("src/a.py", "src/c.py", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_read_and_only_that_makes_stale(project: Project, name: str) -> None:
    reads, path, stale = CHANGES[name]
    for file in ("src/a.py", "src/z1.py", "src/deep/b.py", "src/.git/HEAD"):
        project.write(file, "1")
    project.spec("x", noting(f"'{reads}'"))
    built(project)
    built(project)
    assert ran(project) == ["s"]
    project.write(path, "2")
    built(project)
    assert ran(project) == ["s"] * stale


def test_odd_names_below_a_folder_are_files_not_patterns(project: Project) -> None:
    names = ("src/*", "src/a[1].txt", "src/what?", "src/two\nlines", "src/ünï")
    for name in (*names, "src/a1.txt"):
        project.write(name, "1")
    project.spec("x", noting("src"))
    built(project)
    for name in names:
        project.write(name, "2")
        built(project)
        assert ran(project)[-1:] == ["s"], name


def test_a_file_name_that_is_not_utf_8_is_a_name_like_any_other(project: Project) -> None:
    project.write("src/a", "1")
    odd = os.fsencode(project.root / "src") + b"/\xff"
    try:
        with open(odd, "w") as file:
            file.write("1")
    except OSError:
        pytest.skip("this file system takes no such names")
    project.spec("x", noting("src").replace("{in}", "in"))
    built(project)
    with open(odd, "w") as file:
        file.write("2")
    assert project.call("why", "x:s").code == 1
    built(project)
    assert ran(project) == ["s", "s"]


def test_a_linked_folder_below_a_folder_counts(project: Project) -> None:
    project.write("src/a", "1")
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("1")
    (project.root / "src/linked").symlink_to(elsewhere)
    (project.root / "src/round").symlink_to(".")
    project.spec("x", noting("src"))
    built(project)
    (elsewhere / "data").write_text("2")
    built(project)
    assert ran(project) == ["s", "s"]


def test_a_pipe_among_files_does_not_hang(project: Project) -> None:
    project.write("src/a", "1")
    os.mkfifo(project.root / "src/pipe")
    project.spec("x", noting("src"))
    assert project.coppice("x", timeout=20).returncode == 0


def test_a_file_that_goes_or_comes_back_counts(project: Project) -> None:
    for name in ("src/a", "src/b"):
        project.write(name, name)
    project.spec("x", noting("src/"))
    built(project)
    (project.root / "src/b").unlink()
    built(project)
    assert ran(project) == ["s", "s"]
    project.write("src/b", "src/b")
    assert "recalled" in built(project).out


def test_touching_a_file_redoes_nothing(project: Project) -> None:
    project.write("in", "1")
    project.spec("x", noting("in"))
    built(project)
    os.utime(project.root / "in", (1, 1))
    built(project)
    assert ran(project) == ["s"]


def test_an_empty_file_is_an_input_like_any_other(project: Project) -> None:
    project.write("in", "")
    project.spec("x", noting("in"))
    built(project)
    built(project)
    assert ran(project) == ["s"]


def test_files_outside_the_project_are_read_like_any_other(project: Project) -> None:
    outside = project.root.parent / "outside"
    for place in ("../outside", str(outside)):
        outside.write_text("1")
        project.spec("x", noting(place))
        built(project)
        outside.write_text("2")
        built(project)
        assert ran(project) == ["s", "s"]


def test_a_symbolic_link_counts_by_the_contents_it_leads_to(project: Project) -> None:
    for name, content in (("one", "1"), ("same", "1"), ("other", "2")):
        project.write(name, content)
    link = project.root / "link"
    link.symlink_to("one")
    project.spec("x", noting("link"))
    built(project)
    for target, expected in (("same", []), ("other", ["s"])):
        link.unlink()
        link.symlink_to(target)
        ran(project)
        built(project)
        assert ran(project) == expected
    project.write("other", "edited")
    built(project)
    assert ran(project) == ["s"]


def test_read_only_sources_are_no_obstacle(project: Project) -> None:
    project.write("src/in", "1").chmod(0o444)
    (project.root / "src").chmod(0o555)
    project.spec("x", noting("src/in"))
    built(project)
    (project.root / "src").chmod(0o755)
    assert ran(project) == ["s"]


def test_a_run_reads_what_another_run_writes(project: Project) -> None:
    project.write("in", "1")
    first = """
        make: {run: 'echo make >> ran; cat {in} > {out}', reads: in, writes: made}
        more: {run: 'echo more >> ran; echo > {out}', writes: more}
    """
    project.spec("b-first", steps(first))
    second = "use: {run: 'echo use >> ran; cat {in} > {out}', reads: runs/b-first/made, writes: used}"
    project.spec("a-second", steps(second))
    built(project, "a-second")
    assert ran(project) == ["make", "use"]
    project.write("in", "2")
    built(project, "a-second")
    assert project.read("runs/a-second/used") == "2"
    assert ran(project) == ["make", "use"]


def test_a_folder_read_above_runs_does_not_include_runs(project: Project) -> None:
    project.write("in.txt", "1")
    project.spec(
        "x", steps("s: {run: 'echo s >> ../ran; : {in}; echo > {out}', reads: [., '**/*.txt'], writes: a.txt}")
    )
    for _ in range(3):
        built(project)
    assert (project.root.parent / "ran").read_text() == "s\n"


def test_the_order_of_inputs_counts(project: Project) -> None:
    for name in "ab":
        project.write(name, name)
    for reads, expected in (("[a, b]", "ab"), ("[b, a]", "ba")):
        project.spec("x", steps(f"s: {{run: 'cat {{in}} > {{out}}', reads: {reads}, writes: out}}"))
        built(project)
        assert project.read("runs/x/out") == expected


@pytest.mark.parametrize("by_content", ["true", "false"])
def test_a_file_read_twice_counts_where_it_is_read(project: Project, by_content: str) -> None:
    for name in "ab":
        project.write(name, name)
    for reads, expected in (("[a, b, a]", "aba"), ("[a, b, b]", "abb"), ("{p: a, q: [b, a]}", "aba"), ("[a, b]", "ab")):
        run = f"run: 'cat {{in}} > {{out}}', by_content: {by_content}"
        project.spec("x", steps(f"s: {{{run}, reads: {reads}, writes: out}}"))
        built(project)
        assert project.read("runs/x/out") == expected


@pytest.mark.parametrize(("by_content", "expected"), [("true", []), ("false", ["s"])])
def test_the_name_of_an_input_counts_unless_by_content_says_otherwise(
    project: Project, by_content: str, expected: list[str]
) -> None:
    for name in ("old", "new"):
        ran(project)
        project.write(name, "same")
        project.spec("x", noting(name, f", by_content: {by_content}"))
        built(project)
    assert ran(project) == expected


def test_files_that_come_and_go_below_a_folder_do_not_end_the_build(project: Project) -> None:
    """As an editor's do.  A target that they disturb is made again."""
    project.write("src/a", "1")
    project.spec("x", steps("s: {for: {n: {range: 150}}, run: 'echo {n} > {out}', reads: src/, writes: '{n}'}"))
    busy = subprocess.Popen(["sh", "-c", "while :; do echo > src/.swp; rm -f src/.swp; done"], cwd=project.root)
    try:
        said = project.coppice("--continue")
    finally:
        busy.kill()
        busy.wait()
    assert said.stderr == ""
    assert "150 targets" in said.stdout
    (project.root / "src/.swp").unlink(missing_ok=True)
    built(project)


# A file comes while a build runs: after `first` looked into the folder, and before `last` does, by other words.
COMING = """
first: {{run: 'echo first >> ran; cat {{in}} > {{out}} || : a folder', reads: '{first}', writes: first}}
coming:
  run: 'mkdir -p $(dirname {new}); echo new > {new}; cp {{in}} {{out}}; sleep 0.2'
  reads: runs/x/first
  writes: coming
last: {{run: 'echo last >> ran; echo > {{out}}', reads: ['{last}', runs/x/coming], writes: last}}
"""
WORDS = [
    ("data/", "data/*.txt", "data/new.txt"),
    ("data/*.txt", "data/", "data/new.txt"),
    ("data/*.txt", "data/**/*.txt", "data/new.txt"),
    ("data/", "data/sub/*.txt", "data/sub/new.txt"),
    ("data/**/*.txt", "data/sub/", "data/sub/deep/new.txt"),
    ("data/*/*.txt", "data/sub/", "data/sub/new.txt"),
    ("data/*/*.txt", "data/*.txt", "data/late/new.txt"),
    ("data/", "linked/*.txt", "data/sub/new.txt"),
]


@pytest.mark.parametrize(("first", "last", "new"), WORDS)
def test_a_file_that_comes_between_two_looks_at_a_folder_is_not_missed(
    project: Project, first: str, last: str, new: str
) -> None:
    """The sleep is no race: a folder that changed just now is looked at again whatever was remembered of it."""
    for name in ("data/a.txt", "data/sub/b.txt"):
        project.write(name, "1")
    (project.root / "linked").symlink_to("data/sub")
    wait_a_tick(project)
    project.spec("x", steps(COMING.format(first=first, last=last, new=new)))
    built(project)
    assert ran(project) == ["first", "last"]
    built(project)
    assert "first" in ran(project)
    settled(project)


@pytest.mark.parametrize(("first", "last", "new"), WORDS)
def test_a_file_that_comes_is_not_missed_by_who_was_fresh_already(
    project: Project, first: str, last: str, new: str
) -> None:
    """`first` is in no doubt when the build starts, and `last` looks into the folder after the file came."""
    for name in ("data/a.txt", "data/sub/b.txt", "go"):
        project.write(name, "1")
    (project.root / "linked").symlink_to("data/sub")
    wait_a_tick(project)
    fresh = COMING.replace("runs/x/first\n", "go\n").replace("mkdir", "test $(cat go) = 1 || mkdir")
    fresh = fresh.replace("echo new", "test $(cat go) = 1 || echo new")
    project.spec("x", steps(fresh.format(first=first, last=last, new=new)))
    built(project)
    settled(project)
    project.write("go", "2")
    ran(project)
    built(project)
    assert "first" not in ran(project)
    built(project)
    assert ran(project) == ["first"]
    settled(project)


def test_a_file_that_another_build_saw_first_is_not_missed(project: Project) -> None:
    """Two runs read one folder. Between the look at the one and that at the other, a build of the other came and went,
    as it may while a killed build is cleared up."""
    for name in ("data/a.txt", "other"):
        project.write(name, "1")
    project.spec(
        "a",
        noting("data/").replace("echo s", "echo a") + "  t: {run: ': {in}; echo > {out}', reads: other, writes: t}\n",
    )
    project.spec("b", noting("data/*.txt").replace("echo s", "echo b"))
    built(project)
    settled(project)
    project.write("other", "2")
    with chdir(project.root):
        assert up_to_date(["a"]) is None  # the look that leads to the build below
    project.write("data/new.txt", "1")
    wait_a_tick(project)
    assert project.coppice("b").returncode == 0
    assert ran(project) == ["b"]
    built(project)
    built(project)
    assert ran(project) == ["a"]
    settled(project)


def test_what_a_link_leads_to_may_come_later(project: Project) -> None:
    project.write("src/a", "1")
    elsewhere = project.root.parent / "elsewhere"
    for name in ("file", "folder"):
        (project.root / f"src/{name}").symlink_to(elsewhere / name)
    project.spec("x", noting("src"))
    built(project)
    settled(project)
    (elsewhere / "folder").mkdir(parents=True)
    (elsewhere / "folder/b").write_text("1")
    built(project)
    assert ran(project) == ["s"]
    (elsewhere / "file").write_text("1")
    built(project)
    assert ran(project) == ["s"]
    settled(project)


def test_of_two_links_to_one_folder_each_counts(project: Project) -> None:
    """Only one of them is looked into, until the other leads elsewhere."""
    elsewhere = project.root.parent / "elsewhere"
    for name in ("one", "two"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "file").write_text(name)
    (elsewhere / "latest").symlink_to("one")
    project.write("src/a", "1")
    (project.root / "src/b").symlink_to(elsewhere / "one")
    (project.root / "src/c").symlink_to(elsewhere / "latest")
    project.spec("x", noting("src"))
    built(project)
    settled(project)
    (elsewhere / "latest").unlink()
    (elsewhere / "latest").symlink_to("two")
    built(project)
    assert ran(project) == ["s"]


# Of root, what lets it read everything; anybody else has no need of that.
_AS_ANYBODY = ["--inh-caps=-dac_override,-dac_read_search", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
@pytest.mark.parametrize("reads", ["data/", "data/**/*.txt", "data/sub/*.txt", "linked/"])
def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(project: Project, reads: str, mode: int) -> None:
    for name in ("data/a.txt", "data/sub/b.txt", "linked/a.txt"):
        project.write(name, "1")
    (project.root / "linked/sub").symlink_to("../data/sub")
    project.spec("x", noting(reads))
    (project.root / "data/sub").chmod(mode)
    try:
        for words, code in (([], 1), (["why", "x"], 2), (["plan"], 2)):
            said = as_anybody(project, *words)
            assert said.returncode == code, said
            why = "(data|linked)/sub(/b.txt)? cannot be read: Permission denied"
            line = rf"failed x:s \({why}\)" if code == 1 else rf"coppice: specs/x.yaml:\d+: x:s: {why}"
            assert re.match(f"{line}\n", said.stderr or said.stdout)
    finally:
        (project.root / "data/sub").chmod(0o755)
    assert ran(project) == []
    built(project)
    settled(project)


def test_a_file_that_cannot_be_read_fails_its_target_alone(project: Project) -> None:
    project.write("src", "1")
    os.mkfifo(project.root / "pipe")
    steps = "{a: {run: 'cat {in} > {out}', reads: pipe, writes: a}, b: {run: 'cp {in} {out}', reads: src, writes: b}}"
    project.spec("x", f"kind: steps\nsteps: {steps}\n")
    said = project.coppice("run", "--continue", "-n", "1", timeout=20)
    assert said.returncode == 1, said
    assert "failed x:a (pipe cannot be read: not a plain file)\n" in said.stdout
    assert project.read("runs/x/b") == "1"
    (project.root / "pipe").unlink()
    project.write("pipe", "2")
    assert built(project)
    assert project.read("runs/x/a") == "2"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that opens and cannot be read is Linux's")
def test_an_input_that_opens_and_cannot_be_read_is_named(project: Project) -> None:
    project.spec("x", noting("src"))
    (project.root / "src").symlink_to("/proc/self/mem")
    why = "src cannot be read: Input/output error"
    said = project.coppice("run", "x")
    assert (said.returncode, said.stdout.partition("\n")[0]) == (1, f"failed x:s ({why})")
    for words in (["why", "x"], ["plan"]):
        said = project.coppice(*words)
        assert said.returncode == 2
        assert re.fullmatch(rf"coppice: specs/x.yaml:\d+: x:s: {why}\n", said.stderr)


def as_anybody(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, run by who may not read what is not meant for him."""
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", *_AS_ANYBODY]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            pytest.skip("root may read everything, and setpriv cannot take that away here")
    return subprocess.run(
        [*prefix, *COPPICE, *words],
        cwd=project.root, env=environment({}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("leads_to", ["..", "../runs"])
def test_a_link_to_the_project_does_not_take_its_runs_in(project: Project, leads_to: str) -> None:
    project.write("src/a", "1")
    project.write(".git/index", "1")
    (project.root / "src/round").symlink_to(leads_to)
    (project.root / "src/git").symlink_to("../.git")
    project.spec("x", steps("s: {run: 'echo s >> ../ran; : {in}; echo > {out}', reads: [src, '**/a'], writes: a}"))
    for git in ("1", "2", "3"):
        project.write(".git/index", git)
        built(project)
    assert (project.root.parent / "ran").read_text() == "s\n"
    settled(project)


def settled(project: Project) -> None:
    """After one more look there is nothing to do."""
    ran(project)
    wait_a_tick(project)
    built(project)
    assert "up to date" in built(project).out
    assert ran(project) == []


def wait_a_tick(project: Project) -> None:
    """Until the clock of the file system tells what is written next from what was written before."""
    before = max(path.lstat().st_ctime_ns for path in [project.root, *project.root.rglob("*")])
    while time.time_ns() < before + 2 * TICK_NS:
        time.sleep(0.01)
