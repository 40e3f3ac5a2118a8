"""Words for tests that build: a tree, a spec of steps, a build that must succeed or fail, what was executed."""

import subprocess
import time
from collections.abc import Callable, Mapping
from textwrap import dedent, indent

import psutil

from kit.project import PATIENCE, Project, Said

SPEC = """kind: steps
steps:
  part:
    for: {n: [1, 2]}
    run: "echo part.{n} >> ran; cat {in} > {out}"
    reads: src.txt
    writes: part{n}.txt
  whole:
    run: "echo whole >> ran; cat {in} > {out}"
    reads: {step: part}
    writes: whole.txt
  alone:
    run: "echo alone >> ran; echo > {out}"
    writes: alone.txt
"""
ALL = ["alone", "part.1", "part.2", "whole"]
FINE_AND_BAD = """kind: steps
steps:
  fine:
    for: {n: [1, 2]}
    run: "cat {in} > {out}; : {n}"
    reads: [in.txt]
    writes: "{n}.txt"
  bad:
    run: "BAD; exit 3; touch {out}"
    retries: 0
    writes: bad.txt
  after:
    run: "cat {in} > {out}"
    reads: [runs/demo/bad.txt]
    writes: after.txt
"""
DODO = "from pipeline.dodo import DOIT_CONFIG, task_runs  # noqa: F401\n"


def planted(project: Project) -> Project:
    """A tree with a matrix, what is made of it, and a target beside it; and a source."""
    project.write("src.txt", "1\n")
    project.spec("x", SPEC)
    project.write("dodo.py", DODO)
    return project


def demo_of(project: Project, spec: str, files: Mapping[str, str]) -> Project:
    """A project with this spec as its run `demo`, and these files."""
    project.spec("demo", spec)
    for path, text in files.items():
        project.write(path, text)
    return project


def fine_and_bad(bad: str, retries: int = 0) -> str:
    """A spec with two targets that are built, one that runs `bad` and fails, and one that needs it."""
    return FINE_AND_BAD.replace("BAD", bad).replace("retries: 0", f"retries: {retries}")


def steps(yaml: str) -> str:
    """A spec with these steps."""
    return "kind: steps\nsteps:\n" + indent(dedent(yaml).strip("\n"), "  ") + "\n"


def built(project: Project, *words: str) -> Said:
    said = project.call("run", *words)
    assert said.code == 0, said
    return said


def failed(project: Project, *words: str) -> str:
    """What is said of targets that fail."""
    said = project.call("run", *words)
    assert said.code == 1, said
    assert "Traceback" not in said.err
    return said.out + said.err


def ran(project: Project) -> list[str]:
    """What the steps noted in the file `ran` since the last look, sorted."""
    note = project.root / "ran"
    lines = sorted(note.read_text().split()) if note.exists() else []
    note.unlink(missing_ok=True)
    return lines


def log_of(project: Project, target: str) -> str:
    run, _, name = target.partition(":")
    return project.read(f"runs/{run}/.coppice/logs/{name}.log")


def ends(pid: int, within: float = PATIENCE) -> bool:
    """Does it end soon?  A signal takes its time; and it may be that nobody has asked yet how it ended."""
    last = time.monotonic() + within
    while psutil.pid_exists(pid) and time.monotonic() < last:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return not psutil.pid_exists(pid)


def until(is_so: Callable[[], object], build: subprocess.Popen[str]) -> None:
    """Wait for something that a build that goes on is to do."""
    last = time.monotonic() + PATIENCE
    while not is_so():
        assert build.poll() is None, build.communicate()
        if time.monotonic() > last:
            build.kill()  # otherwise whoever fails here waits for its end
        assert time.monotonic() < last
        time.sleep(0.01)
