"""A confined command writes to nothing of the project but what it may, reads nothing that is sealed, and all else is as
before."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.machine.confine import Confinement, landlock_version, shield_name
from pipeline.machine.process import Environment, Processes

pytestmark = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")


class Place:
    """A project with a checkout in it, beside which there is more."""

    def __init__(self, top: Path, processes: Processes) -> None:
        self.top, self.project, self.processes = top, top / "project", processes
        files = dict.fromkeys(("checkout/own", "checkout/folder/x", "out/x", "../beside/x"), "as it was\n")
        for path, text in {**files, "data/prices": "prices\n", "data/sealed": "sealed\n"}.items():
            file = self.project / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.shut = Confinement((str(self.project / "checkout"), str(self.project / "out")), str(self.project))

    def run(self, line: str, confined: Confinement | None = None) -> int:
        log = str(self.top / "log")
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(self.project / "out")}
        how = confined or self.shut
        words = ["/bin/sh", "-c", line]
        return self.processes.run(words, Environment(env), log, cwd=str(self.project / "checkout"), confined=how).code

    def read(self, path: str) -> str:
        return (self.top / path).read_text()


@pytest.fixture
def place(tmp_path: Path, processes: Processes) -> Place:
    return Place(tmp_path, processes)


REFUSED = {
    "write": "echo x > ../data/prices",
    "append": "echo x >> ../data/prices",
    "truncate": f"{sys.executable} -c 'import os; os.truncate(\"../data/prices\", 0)'",
    "make": "echo x > ../new",
    "folder": "mkdir ../new",
    "remove": "rm -f ../data/prices",
    "move out": "mv ../data/prices .",
    "move in": "mv own ../data/prices",
    "link": "ln ../data/prices linked && echo x > linked",
    "soft link": "ln -s ../data/prices linked && echo x > linked",
    "link in": "ln -s /dev/null ../new",
    "fifo": "mkfifo ../new",
    "another process": "setsid sh -c 'echo x > ../data/prices' && ! grep -q prices ../data/prices",
    "the way there": "mv ../../project ../../moved",
    "by /proc": "echo x > /proc/self/cwd/../data/prices",
    "the checkout itself": "mv ../checkout ../checkout2",
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_of_the_project_can_be_changed(place: Place, name: str) -> None:
    assert place.run(REFUSED[name])
    assert place.read("project/data/prices") == "prices\n"
    assert sorted(os.listdir(place.project)) == ["checkout", "data", "out"]


ALLOWED = {
    "own files": "echo x > own && rm own && mkdir d && echo x > d/y && mv d e && ln e/y z && ln -s z w && mkfifo p",
    "from folder to folder": "mkdir a && mv folder/x a/x && mv a/x ../out/y",
    "what it reads": "cat ../data/prices && ls .. ../.. / && cat ../../beside/x",
    "beside the project": "echo x > ../../beside/new && mkdir ../../beside/d && rm ../../beside/x",
    "devices": "echo x > /dev/null && head -c 1 /dev/urandom",
    "temporary files": "f=$(mktemp) && echo x > $f && rm $f",
    "what it printed": "echo printed; echo also >&2",
    "processes": "sleep 0.01 & wait && kill -0 $$",
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_its_own_or_outside_is_as_before(place: Place, name: str) -> None:
    assert place.run(ALLOWED[name]) == 0, place.read("log")
    assert name != "what it printed" or place.read("log") == "printed\nalso\n"


def test_nothing_new_can_be_made_right_in_a_folder_on_the_way(place: Place) -> None:
    """What Landlock cannot say: the limit that is documented."""
    assert place.run("echo x > ../../new")
    assert place.run("echo x > ../../beside/x") == 0


def test_only_what_is_started_by_it_is_confined(place: Place) -> None:
    assert place.run("echo x > ../data/prices") != 0
    place.processes.run(
        ["sh", "-c", "echo x > data/theirs"], Environment({}), str(place.top / "log"), cwd=str(place.project)
    )
    (place.project / "data/ours").write_text("x")
    assert place.read("project/data/theirs") == "x\n"


def test_a_link_to_the_project_is_no_way_in(tmp_path: Path, processes: Processes) -> None:
    place = Place(tmp_path, processes)
    (tmp_path / "beside/link").symlink_to(place.project)
    (tmp_path / "link").symlink_to(place.project)
    linked = Confinement((str(tmp_path / "link/checkout"),), str(tmp_path / "link"))
    for confined in (place.shut, linked):
        assert place.run("echo x > ../../link/data/prices", confined)
        assert place.run("echo x > ../../beside/link/data/prices", confined)
        assert place.run("echo x > own", confined) == 0
    assert place.read("project/data/prices") == "prices\n"


def test_what_is_apart_from_the_project_is_as_little_to_be_written_to(place: Place) -> None:
    apart = (str(place.top / "beside"), str(place.project / "data"), str(place.top / "not/there/yet"))
    shut = place.shut._replace(apart=apart)
    for line in ("> ../../beside/x", "> ../../beside/new", "> ../data/prices", "> ../new", "> ../../not"):
        assert place.run(f"echo x {line}", shut), line
    assert place.run("cat ../../beside/x && echo x > own && echo x > ../out/x", shut) == 0


@pytest.mark.skipif(landlock_version() < 6, reason="this kernel cannot tell whose processes they are")
def test_it_ends_its_own_processes_and_nobody_elses(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert place.run(f"kill -9 {other.pid}") != 0
        assert other.poll() is None
        other.kill()
    assert place.run("sleep 60 & kill -9 $! && ! wait $!") == 0


def test_what_is_sealed_cannot_be_read_by_any_name(place: Place) -> None:
    sealed = place.project / "data/sealed"
    os.link(sealed, place.project / "data/another")
    os.link(sealed, place.top / "beside/another")
    (place.project / "soft").symlink_to(sealed)
    shut = place.shut._replace(unreadable=(str(sealed),))
    for path in ("../data/sealed", "../soft", "/proc/self/cwd/../data/sealed", "../data/another"):
        assert place.run(f"cat {path}", shut), path
    assert place.run("cat ../data/prices own ../../beside/x && echo x > own && ls ../data", shut) == 0, place.read(
        "log"
    )
    assert place.run("cp ../data/sealed . || ln ../data/sealed x || mv ../data/sealed x", shut)


def test_what_is_sealed_can_be_a_folder_and_all_else_writable(place: Place) -> None:
    only = Confinement(unreadable=(str(place.project / "data"),))
    assert place.run("cat ../data/prices", only)
    assert place.run("cat own && echo x > ../out/new && echo x > ../../new", only) == 0, place.read("log")


def test_git_reads_in_a_confined_checkout(place: Place) -> None:
    """Its repository is elsewhere in the project; what it would write there is refused."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(place.project)]
    for words in (["init", "-q", "repo"], ["-C", "repo", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "-C", "repo", "worktree", "add", "-q", "../checkout/tree"], check=True)
    assert place.run("cd tree && git status --short && git log --oneline && git rev-parse HEAD && git diff") == 0
    assert place.run("cd tree && echo x > y && git add y")


def test_the_root_of_the_file_system_cannot_be_shielded() -> None:
    assert shield_name("/") == ""
    assert shield_name(".") == f"landlock {landlock_version()}"


def test_a_program_that_is_not_there_is_told_as_ever(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.processes.run(["no-such-program"], Environment({}), str(place.top / "log"), confined=place.shut)


@pytest.fixture
def crowded() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # a real disk, beside what others have there
        yield Path(folder).resolve()


def test_a_project_right_in_a_shared_folder_is_confined_too(crowded: Path, processes: Processes) -> None:
    for n in range(200):
        (crowded / f"{n}").write_text("x")
    place = Place(crowded, processes)
    assert place.run("echo x > ../../17 && echo x > own") == 0, place.read("log")
    assert place.run("echo x > ../data/prices")
