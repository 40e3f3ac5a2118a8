"""The backend leandojo from end to end: the real package over a `lake` that the Lean from npm answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from pipeline.lean.dojo import backend as dojo_backend
from pipeline.lean.dojo.backend import LeanDojoBackend
from pipeline.lean.dojo.process import DojoProcess, DojoSession
from pipeline.lean.model import (
    Interrupted,
    LeanError,
    LeanStartError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    TacticState,
    Theorem,
)
from pipeline.lean.toolchain import cache
from pipeline.machine.process import Processes
from tests.kit import lake_stand_in, lean_repositories, lean_traces

pytestmark = pytest.mark.skipif(
    find_spec("lean_dojo") is None, reason="lean-dojo is not installed: there is none for Python 3.13"
)

SWAP = Theorem("swap", "∀ p q : Prop, p ∧ q → q ∧ p")
SCRIPT = ("intro p q h", "exact ⟨h.2, h.1⟩")
SLOW = "have : ∀ a b c d : Fin 90, a + b + c + d = d + c + b + a := by decide +kernel"
LONG = "exact ⟨h.2," + " " * 6000 + "h.1⟩"  # more than a line of a terminal takes


class Place(NamedTuple):
    """A repository, and where a Lean of its own would be."""

    project: str
    env: dict[str, str]
    processes: Processes

    def dojos(self) -> LeanDojoBackend:
        return LeanDojoBackend(dojo_backend.open_project(self.project), self.processes, self.env, 1)

    def running(self) -> list[psutil.Process]:
        """Everything that was started here and has not ended."""
        return [each for each in psutil.process_iter() if _path(each) == self.env["PATH"]]


def _path(process: psutil.Process) -> str:
    try:
        return process.environ().get("PATH", "") if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Copies and traces are kept in folders of the test's own."""
    folder = tmp_path_factory.mktemp("leandojo")
    for name in ("bin", "home", "demo"):
        (folder / name).mkdir()
    lake = lake_stand_in.installed(folder / "bin")
    commit = lean_repositories.committed(folder / "demo")
    lean_traces.traced(folder / "home" / ".cache" / "lean_dojo" / f"gitpython-demo-{commit}" / "demo")
    processes = Processes(["demo"])
    home = {"PATH": f"{lake}:{os.environ['PATH']}", "HOME": str(folder / "home")}
    env = processes.environment("demo", home, ()).variables
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield Place(str(folder / "demo"), env, processes)
    processes.close()


@pytest.fixture(scope="module")
def stop() -> threading.Event:
    """Of the session below."""
    return threading.Event()


@pytest.fixture(scope="module")
def session(place: Place, stop: threading.Event) -> Iterator[tuple[DojoSession, TacticState]]:
    """The tests below share it, in their order."""
    session, first = place.dojos().open(SWAP, stop)
    yield session, first
    session.close()


def test_a_statement_of_a_bank_is_proved_tactic_by_tactic(session):
    session, first = session
    assert first.goals == ("⊢ ∀ (p q : Prop), p ∧ q → q ∧ p",)
    second = session.run_tac(first, "intro p q h", 60)
    assert isinstance(second, TacticState)
    assert second.goals == ("p q : Prop\nh : p ∧ q\n⊢ q ∧ p",)
    assert isinstance(session.run_tac(second, "constructor", 60), TacticState)
    assert isinstance(session.run_tac(second, LONG, 60), ProofFinished)
    assert isinstance(session.run_tac(second, "exact ⟨h.2, h.1⟩", 60), ProofFinished)


@pytest.mark.parametrize(
    ("tactic", "kind"),
    [
        ("exact Nat", "tactic"),
        ("intro +", "parse"),
        ("all_goals sorry", "sorry"),
        ("run_tac Lean.Elab.Tactic.done", "refused"),
    ],
)
def test_a_tactic_that_fails_is_a_value_with_its_kind(session, tactic, kind):
    session, first = session
    answer = session.run_tac(first, tactic, 60)
    assert isinstance(answer, LeanError)
    assert answer.kind == kind


@pytest.mark.parametrize("tactic", ["sorry", " admit"])
def test_a_proof_is_given_up_by_sorry(session, tactic):
    session, first = session
    assert session.run_tac(first, tactic, 60) == ProofGivenUp()


def test_a_goal_has_the_key_of_what_is_printed(session):
    session, first = session
    assert session.key(first) == session.key(TacticState(5, ("⊢ ∀ (p q : Prop),\n  p ∧ q → q ∧ p",)))


def test_a_tactic_that_takes_too_long_and_one_that_ends_lean_do_not_end_the_session(session, place):
    session, first = session
    second = session.run_tac(first, "intro p q h", 60)
    late = session.run_tac(second, SLOW, 1)
    assert isinstance(late, LeanError)
    assert late.kind == "timeout"
    assert not place.running()
    third = session.run_tac(second, "constructor", 60)  # in a new Dojo, into which the first tactic was brought
    assert isinstance(third, TacticState)
    assert len(third.goals) == 2
    # all are found before the first is killed, since others end with it
    for lean in [each for each in place.running() if "lake_stand_in" in " ".join(each.cmdline())]:
        lean.kill()
    ended = session.run_tac(third, "exact h.2", 60)
    assert isinstance(ended, LeanError)
    assert ended.kind == "crash"
    assert isinstance(session.run_tac(second, "exact ⟨h.2, h.1⟩", 60), ProofFinished)


def test_what_is_not_wanted_any_more_is_interrupted_and_leaves_nothing_behind(session, place, stop):
    session, first = session
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    with pytest.raises(Interrupted):
        session.run_tac(first, SLOW, 60)
    session.close()
    assert not place.running()
    with pytest.raises(ValueError, match="closed"):
        session.run_tac(first, "skip", 60)
    copy = next(cache.cache_folder().glob("leandojo-*/cache/gitpython-*/demo"))
    assert not [*copy.glob("Goal*.lean")]


def test_a_whole_proof_is_checked_in_a_process_of_its_own(place):
    assert place.dojos().check(SWAP, SCRIPT) is None
    assert not place.running()


def test_a_proof_that_leandojo_takes_does_not_hold_if_it_rests_on_an_axiom(place):
    cheating = place._replace(env={**place.env, lake_stand_in.FURTHER: "cheat"})
    assert cheating.dojos().check(SWAP, SCRIPT) == LeanError("the proof rests on cheat", "axioms")


@pytest.mark.parametrize("script", [["native_decide"], ["trivial", "axiom x : False"], ["run_tac x"]])
def test_a_script_that_could_do_more_than_prove_is_refused_before_it_runs(place, script):
    wrong = place.dojos().check(SWAP, script)
    assert isinstance(wrong, LeanError)
    assert wrong.kind == "refused"


def test_a_statement_that_does_not_elaborate_is_told_with_what_lean_says(place):
    with pytest.raises(NotElaborated, match="expected term"):
        place.dojos().open(Theorem("x", "1 +"))
    assert not place.running()


def test_a_theorem_of_the_repository_is_opened_by_leandojo_itself_from_its_trace(place):
    wrong = place.dojos().check(Theorem(lean_traces.NAME, "", file=lean_traces.FILE), SCRIPT)
    assert wrong is None


def test_a_theorem_that_is_not_in_its_file_is_no_start(place):
    with pytest.raises(LeanStartError, match=r"Demo/Swap.lean: Demo.swop: .*Failed to locate"):
        place.dojos().open(Theorem("Demo.swop", "", file=lean_traces.FILE))


def test_without_lake_nothing_is_started_and_the_next_may_try(place):
    dojos, stop = place._replace(env={**place.env, "PATH": "/nowhere"}).dojos(), threading.Event()
    for _ in range(2):  # there is room for one, which who fails leaves
        with pytest.raises(LeanStartError, match="needs `lake`, which is not on the PATH"):
            dojos.open(SWAP, stop)
        stop.set()  # were there no room, nobody would wait for it


def test_who_waits_for_room_is_interrupted(place):
    dojos, stop = place.dojos(), threading.Event()
    stop.set()
    with dojos._room, pytest.raises(Interrupted):
        dojos.open(SWAP, stop)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("lakefile.toml", None, r"has no lakefile.lean or lakefile.toml"),
        ("lakefile.toml", 'name = "other"\n', "changes that are not committed"),
        ("lean-toolchain", None, "changes that are not committed"),
    ],
)
def test_a_folder_that_leandojo_cannot_prove_in_is_refused_with_what_is_wrong(tmp_path, file, text, message):
    project = tmp_path / "demo"
    project.mkdir()
    lean_repositories.committed(project)
    (project / file).unlink()
    if text:
        (project / file).write_text(text)
    with pytest.raises(LeanStartError, match=message):
        dojo_backend.open_project(str(project))


def test_a_folder_without_a_repository_of_its_own_is_refused(tmp_path):
    project = tmp_path / "demo"
    project.mkdir()
    lean_repositories.committed(project)
    inner = project / "inner"
    inner.mkdir()
    (inner / "lakefile.toml").touch()
    with pytest.raises(LeanStartError, match="no git repository of its own"):
        dojo_backend.open_project(str(inner))


def test_the_version_changes_with_the_commit_and_the_toolchain(place):
    found = dojo_backend.open_project(place.project)
    assert found.commit in found.version
    assert "leanprover/lean4:v4.28.0" in found.version
    assert "lean_dojo 4.20.0" in found.version


def test_the_path_of_a_project_may_hold_any_bytes():
    request = {"repo": "/projects/\udcff"}
    assert json.loads(DojoProcess.encode(request).encode()) == request


def test_without_the_package_the_message_says_how_to_install_it(tmp_path):
    """In a Python that has nothing installed."""
    code = "from pipeline.lean.dojo.backend import package_folder\ntry: package_folder()\n"
    code += "except Exception as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{Path(dojo_backend.__file__).parents[3]}:{_psutil(tmp_path)}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"needs the package lean-dojo: {sys.executable} -m pip install -e " in done.stdout
    assert "[leandojo]" in done.stdout


def _psutil(folder: Path) -> Path:
    (folder / "psutil").symlink_to(Path(psutil.__file__).parent)
    return folder
