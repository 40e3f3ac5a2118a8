"""What others can write to is not believed: stored results, states, frozen plans, modes of files."""

import json
import os
import subprocess
import sys
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import Project, Said, environment

from pipeline.machine.cage import Cage
from pipeline.machine.grades import AUTO, resolve_grade
from pipeline.machine.limits import default_limits
from pipeline.machine.process import Processes
from pipeline.store import noop, state
from pipeline.store.secret import VARIABLE, key_path, load_key

SPEC = """
kind: steps
store: {store}
steps:
  baseline: {{run: "echo baseline >> ran; cat {{in}} > {{out}}", reads: src, writes: baseline.csv}}
  score: {{run: "echo score >> ran; cat {{in}} > {{out}}", reads: baseline.csv, writes: score.txt}}
"""
SIGNED = "{path: runs/.store, sign: true}"
OTHER_KEY = "ab" * 32


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(VARIABLE, raising=False)


def of_runs(text: str) -> str:
    return text.replace("reads: baseline.csv", "reads: runs/a/baseline.csv")


@pytest.fixture
def made(project: Project) -> Project:
    return begun(project, SIGNED)


def begun(project: Project, store: str) -> Project:
    project.spec("a", of_runs(SPEC.format(store=store)))
    project.write("src", "1\n")
    assert ran(project) == ["baseline", "score"]
    return project


def ran(project: Project, code: int = 0) -> list[str]:
    """What a build executed."""
    (project.root / "ran").unlink(missing_ok=True)
    said = project.call("run")
    assert said.code == code, said
    assert "Traceback" not in said.err
    return sorted(project.read("ran").split()) if (project.root / "ran").exists() else []


def entries(project: Project) -> list[Path]:
    return [*(project.root / "runs/.store/results").glob("*/*")]


def poison(project: Project) -> None:
    """The baseline is another one, in its place and in the store, under a right checksum."""
    for path in entries(project):
        fields = json.loads(path.read_bytes().partition(b"\n")[2])
        if fields["target"] == "a:baseline":
            forged = b"0\n"
            fields["outputs"] = [[sha256(forged).hexdigest(), b2a_base64(forged, newline=False).decode(), False]]
            body = json.dumps(fields).encode()
            path.write_bytes(b"%b\n%b" % (sha256(body).hexdigest().encode(), body))
    project.write("runs/a/baseline.csv", "0\n")


# -- signed results


def test_a_baseline_that_is_poisoned_in_the_store_too_is_measured_again(made: Project) -> None:
    poison(made)
    said = made.call("run")
    assert said.code == 0, said
    assert "runs/.store: results that were not believed, and are made again: 1 not signed" in said.err
    assert made.read("runs/a/baseline.csv") == "1\n"
    assert made.read("runs/a/score.txt") == "1\n"
    assert ran(made) == []


def test_without_signatures_it_is_believed(project: Project) -> None:
    """Why there are signatures: a checksum only shows damage."""
    begun(project, "runs/.store")
    poison(project)
    assert ran(project) == ["score"]
    assert project.read("runs/a/baseline.csv") == "0\n"


def test_a_signature_holds_for_its_own_key_alone(made: Project) -> None:
    one, two = entries(made)
    one.write_bytes(two.read_bytes())
    (made.root / "runs/a/baseline.csv").unlink()
    (made.root / "runs/a/score.txt").unlink()
    said = made.call("run")
    assert said.code == 0, said
    assert "1 signed with another key" in said.err
    assert made.read("runs/a/score.txt") == made.read("runs/a/baseline.csv") == "1\n"


@pytest.mark.parametrize("at", [0, 63, 64, 65, 70, 128, 129, 130, 150, -1])
def test_every_part_of_a_signed_entry_counts(made: Project, at: int) -> None:
    for path in entries(made):
        whole = bytearray(path.read_bytes())
        whole[at] ^= 1
        path.write_bytes(bytes(whole))
    (made.root / "runs/a/score.txt").unlink()
    assert ran(made) == ["score"]


def test_switching_signatures_on_makes_nothing_again_that_is_fresh_and_signs_what_is_made(project: Project) -> None:
    begun(project, "runs/.store")
    project.spec("a", of_runs(SPEC.format(store=SIGNED)))
    assert ran(project) == []
    (project.root / "runs/a/score.txt").unlink()
    assert ran(project) == ["score"]
    (project.root / "runs/a/score.txt").unlink()
    assert ran(project) == []
    project.spec("a", of_runs(SPEC.format(store="runs/.store")))  # who does not ask for signatures does without
    (project.root / "runs/a/score.txt").unlink()
    assert ran(project) == []


def test_what_is_not_signed_is_recalled_by_no_question_either(project: Project) -> None:
    begun(project, "runs/.store")
    project.spec("a", of_runs(SPEC.format(store=SIGNED)))
    (project.root / "runs/a/score.txt").unlink()
    assert "recalled" not in project.call("list", "-s", "--all").out
    assert "recall" not in project.call("why", "a:score").out
    before = {path: path.read_bytes() for path in entries(project)}
    assert project.call("gc").code == 0
    assert {path: path.read_bytes() for path in entries(project)} == before  # others may share the store


def test_machines_that_share_a_store_share_a_key_by_a_variable(made: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OTHER_KEY)
    (made.root / "runs/a/score.txt").unlink()
    said = made.call("run")
    assert "1 signed with another key" in said.err
    (made.root / "runs/a/score.txt").unlink()
    assert ran(made) == []
    assert not Path(key_path()).read_text().startswith(OTHER_KEY)


def test_no_command_is_given_the_key_and_no_log_has_it(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OTHER_KEY)
    show = f"env > {{out}}; echo {OTHER_KEY}"
    project.spec("a", f"kind: steps\nstore: {SIGNED}\nsteps: {{s: {{run: '{show}', writes: env}}}}\n")
    assert project.call("run").code == 0
    assert VARIABLE not in project.read("runs/a/env")
    assert OTHER_KEY not in project.read("runs/a/.coppice/logs/s.log")
    project.spec("a", f"kind: steps\nsteps: {{s: {{run: ':', writes: env, env: [{VARIABLE}]}}}}\n")
    said = project.call("run")
    assert (said.code, f"{VARIABLE} signs the results of the store" in said.err) == (2, True), said


def test_the_key_is_made_once_and_for_its_user_alone() -> None:
    left = Path(f"{key_path()}.{os.getpid()}.draft")  # by one that was killed, and whose number is ours now
    left.parent.mkdir(parents=True, mode=0o700)
    left.touch()
    first = load_key()
    assert (len(first), load_key()) == (32, first)
    left.unlink()
    status = Path(key_path()).stat()
    assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
    assert [path.name for path in Path(key_path()).parent.iterdir()] == ["store.key"]


def test_no_cage_shows_the_key_even_where_its_folder_is_visible(tmp_path: Path, processes: Processes) -> None:
    key, folder = load_key().hex(), str(tmp_path / "checkout")
    os.mkdir(folder)
    beside = Path(key_path()).with_name("other")
    beside.write_text("visible\n")
    grade = resolve_grade(AUTO, judged=False)
    cage = Cage(grade, "none", default_limits(), folder, (folder,), (str(beside.parent), key_path()), ())
    show = ["/bin/sh", "-c", f"cat {beside}; cat {key_path()}; true"]
    assert processes.run(show, processes.environment("x", {}, []), "log", 60, cwd=folder, cage=cage).code == 0
    log = Path("log").read_text()
    assert ("visible" in log, key in log) == (True, False)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.chmod(0o640), "others may read or write it (mode 0640)"),
        (lambda path: path.write_text("abc\n"), "is no key; a key is 64 hexadecimal digits"),
        (lambda path: path.write_bytes(b""), "is no key"),
        (lambda path: path.write_text("a" * 65), "is no key"),
        (lambda path: path.write_bytes(b"\xff" * 64), "is no key"),
        (lambda path: (path.unlink(), path.mkdir(mode=0o700)), "cannot be read or made"),
        (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), "is no key"),
    ],
)
def test_a_bad_key_file_is_one_line_and_nothing_is_built(
    made: Project, damage: Callable[[Path], object], says: str
) -> None:
    damage(Path(key_path()))
    made.write("src", "2\n")
    said = made.call("run")
    assert said.code == 2, said
    assert said.err.startswith(f"coppice: {key_path()}: ")
    assert says in said.err
    assert said.err.count("\n") == 1


def test_a_bad_key_in_the_variable_is_one_line(made: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "secret" * 10)
    made.write("src", "2\n")
    said = made.call("run")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith(f"coppice: ${VARIABLE}: is no key; ")
    assert "secretsecret" not in said.err


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("{sign: yes please}", "store: sign: expected true or false, found 'yes please'"),
        ("{path: '', sign: true}", "store: path: expected the path of a folder, found ''"),
        ("{signed: true}", "store: unknown key 'signed'; did you mean 'sign'?"),
        ("[a]", "store: expected"),
    ],
)
def test_a_bad_store_is_told_with_its_line(project: Project, store: str, says: str) -> None:
    project.spec("a", SPEC.format(store=store))
    said = project.call("plan")
    assert (said.code, f"specs/a.yaml:3: {says}" in said.err) == (2, True), said


# -- what lies in place of an entry


def swapped(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def swap(path: Path) -> None:
        path.unlink()
        make(path)

    return swap


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


INSTEAD = {
    "folder": swapped(lambda path: (path / "x").mkdir(parents=True)),
    "link": swapped(lambda path: path.symlink_to("/dev/zero")),
    "link to nothing": swapped(lambda path: path.symlink_to("nothing")),
    "link to itself": swapped(lambda path: path.symlink_to(path)),
    "pipe": swapped(os.mkfifo),
    "huge": _huge,
    "empty": lambda path: path.write_bytes(b""),
    "NUL": lambda path: path.write_bytes(b"\0" * 1000),
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 1000),
}


@pytest.mark.parametrize("what", INSTEAD)
@pytest.mark.parametrize("store", ["runs/.store", SIGNED], ids=["plain", "signed"])
def test_what_lies_in_place_of_an_entry_is_set_aside_and_the_target_made_again(
    project: Project, store: str, what: str
) -> None:
    begun(project, store)
    for path in entries(project):
        INSTEAD[what](path)
    for name in ("baseline.csv", "score.txt"):
        (project.root / "runs/a" / name).unlink()
    assert project.call("gc", "--dry-run").code == 0
    said = project.call("run")
    assert said.code == 0, said
    assert "results that were not believed, and are made again: 2 damaged" in said.err
    assert len(os.listdir(project.root / "runs/.store/damaged")) == 2
    for name in ("baseline.csv", "score.txt"):
        (project.root / "runs/a" / name).unlink()
    assert ran(project) == []
    assert project.call("gc").code == 0
    assert not os.listdir(project.root / "runs/.store/damaged")


@pytest.mark.parametrize("what", [name for name in INSTEAD if name not in ("huge", "link to itself")])
def test_what_lies_in_place_of_an_object_is_set_aside(project: Project, what: str) -> None:
    project.spec("a", "kind: steps\nsteps: {s: {run: 'echo x >> ran; seq 5000 > {out}', writes: big}}\n")
    assert ran(project) == ["x"]
    (path,) = (project.root / "runs/.store/objects").glob("*/*")
    path.chmod(0o644)
    INSTEAD[what](path)
    for expected in (["x"], []):
        (project.root / "runs/a/big").unlink()
        assert ran(project) == expected
    assert (project.root / "runs/.store/damaged" / path.name).is_symlink() or "link" not in what


# -- states and frozen plans


@pytest.fixture
def written(tmp_path: Path) -> Iterator[bytes]:
    with chdir(tmp_path):
        files = ["specs/a.yaml", "out/a.txt", "out/b\udcff.txt"]
        head = state.StateHead(True, 3, ("other",), files, [1, -1, 2])
        os.makedirs(noop.folder("r"))
        yield state.dump_state(head, state.StateDetails(["0" * 64] * 3, ["r:x"], {"out": ["out/a.txt"]}))


@given(st.binary(max_size=300), st.integers(0, 300), st.binary(max_size=8))
def test_any_bytes_are_a_state_or_none(noise: bytes, at: int, patch: bytes) -> None:
    head = state.StateHead(True, 3, ("other",), ["a/b", "c"], [1, 2])
    whole = state.dump_state(head, state.StateDetails(["", ""], [], {}))
    with TemporaryDirectory() as folder, chdir(folder):
        os.makedirs(noop.folder("r"))
        for content in (noise, whole[:at] + patch + whole[at + len(patch) :], whole[:at]):
            Path(noop.folder("r"), "state").write_bytes(content)
            noop.up_to_date(["r"])
            state.load_state("r")


def test_a_state_cut_short_anywhere_is_none(written: bytes) -> None:
    for cut in range(len(written)):
        Path(noop.folder("r"), "state").write_bytes(written[:cut])
        assert state.load_state("r") is None
    Path(noop.folder("r"), "state").write_bytes(written)
    assert state.load_state("r") is not None


@pytest.mark.parametrize("name", ["state", "graph"])
@pytest.mark.parametrize("what", INSTEAD)
def test_what_lies_in_place_of_a_cache_keeps_nobody_busy(made: Project, name: str, what: str) -> None:
    INSTEAD[what](made.root / "runs/a/.coppice" / name)
    said = made.coppice("plan", timeout=30)
    assert said.returncode == 0, said
    if what != "folder":  # which the user has to remove
        assert ran(made) == []


def test_a_frozen_plan_that_somebody_else_wrote_is_made_anew(made: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made.root / "runs/a/.coppice/graph"
    theirs = graph.read_bytes()
    before = graph.stat().st_ino
    assert made.call("plan").code == 0
    assert graph.stat().st_ino == before
    monkeypatch.setenv(VARIABLE, OTHER_KEY)
    assert made.call("plan").code == 0
    assert graph.read_bytes() != theirs


# -- modes

# Root ignores modes by these; without them it is as any user is.
AS_ANY_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


def as_any_user(project: Project, *words: str) -> Said:
    before = AS_ANY_USER if os.geteuid() == 0 else []
    start = [*before, sys.executable, "-m", "pipeline", *words]
    ended = subprocess.run(
        start, cwd=project.root, env=environment({}), capture_output=True, text=True, timeout=60, check=False
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


LOCKED = ["runs", "runs/a", "runs/a/baseline.csv", "runs/a/.coppice", "runs/.store", "runs/.store/results"]
LOCKED += [f"runs/a/.coppice/{name}" for name in ("state", "graph", "receipts", "lock", "logs", "stage")]
LOCKED += [f"runs/.store/{name}" for name in ("results/*", "results/*/*", "roots", "roots/*", "lock")]


@pytest.mark.parametrize("source", ["1\n", "2\n"], ids=["fresh", "edited"])
@pytest.mark.parametrize("pattern", LOCKED)
def test_a_mode_that_was_taken_away_is_given_back(made: Project, pattern: str, source: str) -> None:
    for path in [*made.root.glob(pattern)]:
        path.chmod(0)
    made.write("src", source)
    for words in (["plan"], ["run"]):
        said = as_any_user(made, *words)
        assert said.code == 0, said
    assert made.read("runs/a/score.txt") == source


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
@pytest.mark.parametrize("path", ["runs/a", "runs/a/.coppice", "runs/.store", "runs/a/.coppice/receipts"])
def test_what_belongs_to_another_is_named_with_its_owner_and_the_cure(made: Project, path: str) -> None:
    os.chown(made.root / path, 12345, 12345)
    (made.root / path).chmod(0)
    made.write("src", "2\n")
    said = as_any_user(made, "run")
    assert said.code == 2, said
    cure = f"`sudo chown -R 0 {path}` makes it yours"
    assert said.err == f"coppice: {path}: belongs to user 12345 and cannot be read (mode 0000); {cure}\n"


def test_links_are_left_as_they_are(made: Project) -> None:
    secret = made.write("secret", "")
    secret.chmod(0)
    (made.root / "runs/a/.coppice/link").symlink_to(secret)
    assert as_any_user(made, "plan").code == 0
    assert secret.stat().st_mode & 0o777 == 0
