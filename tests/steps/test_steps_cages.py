"""A step with a cage sees the project and what it reads, writes its outputs, and changes nothing else."""

import json
import os
import shutil
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from kit.building import built, failed, log_of
from kit.project import Project, Said

from pipeline.core.cages import ISOLATED, LANDLOCK, CageKeys
from pipeline.errors import UNAVAILABLE
from pipeline.machine.grades import lacking
from pipeline.steps.stages import MOST_SHOWN


def caged(project: Project, grade: str, steps: dict[str, Any], **keys: Any) -> Project:
    """A project with secrets, whose steps have this cage."""
    project.write("data.txt", "data\n")
    project.write(".env", "KEY=secret\n")
    project.write(".git/config", "hooks of ours\n")
    project.spec("x", json.dumps({"kind": "steps", "sandbox": grade, **keys, "steps": steps}))
    return project


def step(run: str | list[str], **keys: Any) -> dict[str, Any]:
    return {"run": run, "writes": "out.txt", **keys}


def test_a_caged_step_sees_the_project_and_what_it_reads_of_its_runs(project: Project, grade: str) -> None:
    steps = {
        "made": {"run": "echo made > {out}", "writes": "made/a.txt"},
        "other": {"run": "echo other > {out}", "writes": "other/b.txt"},
        "last": step(
            "cat data.txt {in} > {out}; for each in .env .git/config runs/x/other/b.txt runs/x/.coppice/results; do"
            " cat $each >> {out}; done; exit 0",
            reads=[{"step": "made"}],
        ),
    }
    built(caged(project, grade, steps), "x:other")
    built(project)
    assert project.read("runs/x/out.txt") == "data\nmade\n"
    assert log_of(project, "x:last").count("cat: ") == 4


def test_what_a_step_reads_it_sees_wherever_it_lies(project: Project, grade: str, tmp_path: Path) -> None:
    (tmp_path / "beside.txt").write_text("beside\n")
    (tmp_path / "given.txt").write_text("given\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far/linked.txt").write_text("linked\n")
    project.write("data.txt", "")
    (project.root / "link").symlink_to(tmp_path / "far")
    line = "cat {in} > {out}; cat ../given.txt || exit 0; exit 1"
    reads = [".env", "../beside.txt", "link/linked.txt", ".git/config"]
    caged(project, grade, {"s": step(line, reads=reads)})
    built(project)
    assert project.read("runs/x/out.txt") == "KEY=secret\nbeside\nlinked\nhooks of ours\n"
    seen = step("cat ../given.txt > {out}", visible="../given.txt")
    built(caged(project, grade, {"s": seen}))
    assert project.read("runs/x/out.txt") == "given\n"


def test_a_caged_step_writes_its_outputs_and_scratch_files_beside_them_alone(
    project: Project, grade: str, tmp_path: Path
) -> None:
    line = "echo a > {a}; echo b > {b}; echo c > {a}.c; echo $$ > $HOME/d"
    places = [".", "specs", "runs", "runs/x", "runs/x/.coppice", "..", "/var", os.path.expanduser("~")]
    tries = "".join(f"; echo bad > {place}/bad" for place in places)
    run = f"{line}{tries}; exit 0"
    built(caged(project, grade, {"s": {"run": run, "writes": {"a": "sub/a.txt", "b": "b.txt"}}}))
    assert project.read("runs/x/sub/a.txt") + project.read("runs/x/b.txt") == "a\nb\n"
    left = [path for place in places for path in [project.root / place / "bad"] if path.exists()]
    assert not left
    assert not [*project.root.rglob("*.c")]
    assert not (tmp_path / "bad").exists()


def test_a_step_imports_modules_of_the_project_in_its_cage(project: Project, grade: str) -> None:
    project.write("own.py", "WORD = 'own'\n")
    project.write("make.py", "import sys, own\nopen(sys.argv[1], 'w').write(own.WORD)\n")
    built(caged(project, grade, {"s": step([sys.executable, "make.py", "{out}"], reads=["own.py", "make.py"])}))
    assert project.read("runs/x/out.txt") == "own"


def test_more_files_than_are_shown_one_by_one_are_all_there(project: Project, grade: str) -> None:
    number = MOST_SHOWN + 1
    part = {"for": {"i": {"range": number}}, "run": "echo > {out}", "writes": "parts/{i}", "sandbox": "plain"}
    whole = step("cat {in} | wc -l > {out}; cat runs/x/.coppice/receipts || exit 0; exit 1", reads=[{"step": "part"}])
    built(caged(project, grade, {"part": part, "whole": whole}))
    assert int(project.read("runs/x/out.txt")) == number


@pytest.mark.parametrize("status", [0, 1])
def test_a_link_in_place_of_an_output_folder_takes_nothing_from_elsewhere(
    project: Project, grade: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure/b.txt").write_text("gold\n")
    trap = f"echo > {{a}}; d=$(dirname {{b}}); rm -rf $d; ln -s {tmp_path}/treasure $d; exit {status}"
    caged(project, grade, {"s": {"run": trap, "writes": {"a": "a.txt", "b": "sub/b.txt"}}})
    assert "in the place of runs/x/.coppice/stage/s/sub, a folder of its outputs" in failed(project)
    assert (tmp_path / "treasure/b.txt").read_text() == "gold\n"
    assert not (project.root / "runs/x/sub/b.txt").exists()


CONNECT = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print(s.recv(2))"


@pytest.mark.parametrize("network", ["none", "full", None])
def test_a_step_reaches_the_network_that_it_names(project: Project, grade: str, network: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    server.accept()[0].sendall(b"ok")
                except OSError:
                    return

        Thread(target=answer, daemon=True).start()
        port = str(server.getsockname()[1])
        run = [sys.executable, "-c", f"{CONNECT}; open(sys.argv[2], 'w').close()", port, "{out}"]
        caged(project, grade, {"s": step(run, **({"network": network} if network else {}))})
        said = project.call("run")
        server.shutdown(socket.SHUT_RDWR)
    assert said.code == (0 if network == "full" else 1), said


@pytest.mark.parametrize("sandbox", [None, "auto"])
@pytest.mark.parametrize(
    ("limits", "run", "words"),
    [
        ({"file_size": "64 kB"}, "head -c 100000 /dev/zero > {out}", "limit: file_size 64 kB"),
        ({"log": "64 kB"}, "head -c 1000000 /dev/zero; echo > {out}; sleep 60", "limit: log 64 kB"),
        ({"cpu": "1s"}, "while :; do :; done; echo > {out}", "limit: cpu "),
        ({"processes": 20}, "for i in $(seq 60); do sleep 60 & done; wait; echo > {out}", "limit: processes "),
    ],
    ids=["file_size", "log", "cpu", "processes"],
)
def test_a_step_that_passes_a_limit_has_failed_with_its_words(
    project: Project, sandbox: str | None, limits: dict[str, Any], run: str, words: str
) -> None:
    keys = {"sandbox": sandbox} if sandbox else {}
    project.spec("x", json.dumps({"kind": "steps", "steps": {"s": step(run, limits=limits, **keys)}}))
    assert words in failed(project)


def test_which_of_the_keys_make_a_step_again(project: Project) -> None:
    """Limits, what is visible and `plain` only say how it runs; a named grade and a network say what comes of it."""
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)

    def made(**keys: Any) -> bool:
        project.spec("x", json.dumps({"kind": "steps", **keys, "steps": {"s": step("echo s; echo > {out}")}}))
        return "1 built" in built(project).out

    assert made()
    for keys in (
        {"sandbox": "plain"},
        {"sandbox": "plain", "network": "full"},
        {"limits": {"memory": "1 GB", "cpu": "1m"}},
        {"visible": ["~/x"]},
        {"sandbox": "auto"},
        {"sandbox": "auto", "limits": {"files": 100}},
    ):
        assert not made(**keys), keys
    assert made(sandbox="isolated")
    assert not made(sandbox="trusted"), "nothing judges a step"
    assert not made(sandbox="isolated", limits={"cpu": "1m"}, visible="data")
    assert made(sandbox="isolated", network="none")
    assert lacking(CageKeys(LANDLOCK)) or made(sandbox="landlock", network="none")
    assert not made(), "what was made without a cage is still there"


def test_a_word_of_a_step_counts_before_that_of_the_spec(project: Project) -> None:
    steps = {
        "own": {**step("ls .env > {out}"), "writes": "own.txt", "sandbox": "plain"},
        "same": {**step("cat .env > {out} || echo none > {out}"), "writes": "same.txt"},
    }
    built(caged(project, "auto", steps))
    assert project.read("runs/x/own.txt") == ".env\n"
    assert project.read("runs/x/same.txt") == "none\n"


def test_plan_says_which_cages_steps_would_have_and_what_is_not_there(project: Project) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    steps = {
        "a": step("echo > {out}", sandbox="auto", visible="~/gone"),
        "b": {**step("echo > {out}"), "writes": "b", "sandbox": "isolated", "limits": {"memory": "2 GB"}},
        "c": {**step("echo > {out}"), "writes": "c"},
    }
    project.spec("x", json.dumps({"kind": "steps", "steps": steps}))
    assert [line for line in project.call("plan", "x").out.splitlines() if line.startswith("x: ")] == [
        "x: sandbox: isolated, network local (a, b)",
        "x: limits: memory 2 GB (b)",
        "x: visible: ~/gone (a)",
        "x: warning: visible: ~/gone is not there on this machine",
    ]
    started = [line for line in built(project).err.splitlines() if line.startswith("coppice: x: ")]
    assert started == [
        "coppice: x: sandbox auto is isolated",
        "coppice: x: visible: ~/gone is not there on this machine",
    ]


@pytest.mark.parametrize(
    ("limits", "line", "words"),
    [
        ({"files": 20}, "import os; [os.dup(0) for _ in range(30)]", "exit status 1, limit: files 20"),
        (
            {"file_size": "8 kB"},
            "print('x' * 9999, file=open('big', 'w'), flush=True)",
            "exit status 1, limit: file_size 8 kB",
        ),
        ({"files": 20}, "raise SystemExit(3)", "exit status 3"),
    ],
    ids=["files", "file_size", "neither"],
)
def test_a_step_that_the_system_refused_more_says_which_limit_it_was(
    project: Project, limits: dict[str, Any], line: str, words: str
) -> None:
    run = [sys.executable, "-c", f"open('{{out}}', 'w').close(); {line}"]
    project.spec("x", json.dumps({"kind": "steps", "steps": {"s": step(run, limits=limits)}}))
    assert f"failed x:s ({words}, " in failed(project)


def test_a_cage_is_described_with_its_step(project: Project) -> None:
    keys = {"network": "none", "limits": {"memory": "2 GB", "cpu": "1m"}, "visible": "~/models"}
    caged(project, "isolated", {"s": step("echo > {out}"), "p": step("echo > {out}", writes="p", sandbox="plain")})
    said = project.call("info", "x:s")
    assert "sandbox isolated" in said.out
    caged(project, "isolated", {"s": step("echo > {out}", **keys)})
    words = [line.split(None, 1) for line in project.call("info", "x:s").out.splitlines()[1:]]
    for name, value in (
        ("sandbox", "isolated"),
        ("network", "none"),
        ("limits", "memory: 2 GB"),
        ("visible", "~/models"),
    ):
        assert [name, value] in words, words
    assert ["cpu:", "60"] in words


def without_bubblewrap(folder: Path) -> str:
    """A PATH on which there is all that is needed but `bwrap`."""
    for name in ("sh", "cat", "echo", "true"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return f"{Path(sys.executable).parent}:{folder}"


def run_without_bubblewrap(project: Project, tmp_path: Path) -> Said:
    (tmp_path / "bin").mkdir()
    ended = project.coppice("run", "x", PATH=without_bubblewrap(tmp_path / "bin"))
    return Said(ended.returncode, ended.stdout, ended.stderr)


def test_a_cage_that_cannot_be_had_is_one_line_with_its_cure_before_anything_runs(
    project: Project, tmp_path: Path
) -> None:
    project.spec("x", "kind: steps\nsteps:\n  s:\n    run: 'echo > {out}'\n    writes: a\n    sandbox: isolated\n")
    said = run_without_bubblewrap(project, tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "coppice: specs/x.yaml:6: sandbox: isolated cannot be had here: bubblewrap is not installed:"
        " apt install bubblewrap\n"
    )
    assert not (project.root / "runs/x/a").exists()


def test_auto_takes_the_strongest_that_there_is_and_names_what_the_next_one_lacks(
    project: Project, tmp_path: Path
) -> None:
    if why := lacking(CageKeys(LANDLOCK)):
        pytest.skip(why)
    caged(project, "auto", {"s": step("cat data.txt .env > {out} || echo none >> {out}")})
    said = run_without_bubblewrap(project, tmp_path)
    assert said.code == 0, said
    assert project.read("runs/x/out.txt") == "data\nnone\n"
    words = "sandbox auto is landlock; isolated cannot be had here: bubblewrap is not installed: apt install bubblewrap"
    assert words in said.err


BROKEN = """#!/bin/sh
for last; do :; done
[ "$last" = : ] && exec {bwrap} "$@"
echo 'bwrap: no room for another namespace' >&2
exit 1
"""


def test_a_cage_that_fails_is_an_outage_and_no_result(project: Project, tmp_path: Path) -> None:
    """A machine may run out of what cages are made of after it was tried."""
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text(BROKEN.format(bwrap=shutil.which("bwrap")))
    (tmp_path / "bin/bwrap").chmod(0o755)
    caged(project, ISOLATED, {"s": step("echo > {out}", retries=3)})
    said = project.coppice("run", "x", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert said.returncode == UNAVAILABLE, said
    assert "bubblewrap could not make the cage; build again" in said.stdout + said.stderr
    assert "1 built" in built(project).out
