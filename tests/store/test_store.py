"""The store may be shared by anybody at any time: what comes out of it is what went in, or nothing."""

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
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import PATIENCE, ROOT, Project

from pipeline.store.results import SMALL, OutputFile, Store, read_output

LARGE = b"large\n" * SMALL


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with chdir(tmp_path):
        kept = Store("store")
        yield kept
        kept.close()


def put(store: Store, key: str, *bodies: bytes) -> None:
    paths = [f"{key}.{number}" for number in range(len(bodies))]
    for path, body in zip(paths, bodies, strict=True):
        Path(path).write_bytes(body)
    keep(store, key, *paths)


def keep(store: Store, key: str, *paths: str) -> None:
    store.put(key, paths, [seen(path) for path in paths], 1.0, "a:target")


def seen(path: str) -> OutputFile:
    with open(path, "rb") as file:
        return read_output(file.fileno(), os.fstat(file.fileno()))


def taken(store: Store, key: str, count: int = 1) -> list[bytes] | None:
    result = store.get(key)
    paths = [f"taken.{number}" for number in range(count)]
    if result is None or not store.take(key, result, paths):
        return None
    return [Path(path).read_bytes() for path in paths]


def test_a_reference_after_one_that_a_kill_cut_short_stands_on_its_own(store: Store) -> None:
    put(store, "a" * 64, b"one")
    store.close()
    root = Path(store.root)
    root.write_bytes(root.read_bytes()[:-9])
    put(store, "b" * 64, b"two")
    assert root.read_text().splitlines()[1:] == ["a" * 56, "b" * 64]


def entry(part: str) -> Path:
    (path,) = Path("store", part).glob("*/*")
    return path


@pytest.mark.parametrize(
    "bodies", [[b""], [b"small"], [b"x" * SMALL], [b"x" * (SMALL + 1)], [b"small", LARGE, b"\0\xff"]]
)
def test_what_comes_out_is_what_went_in(store: Store, bodies: list[bytes]) -> None:
    put(store, "aa11", *bodies)
    assert taken(store, "aa11", len(bodies)) == bodies


def test_an_output_that_may_be_run_may_be_run_again(store: Store) -> None:
    Path("tool").write_bytes(b"#!/bin/sh\n")
    os.chmod("tool", 0o755)
    keep(store, "aa11", "tool")
    taken(store, "aa11")
    assert os.access("taken.0", os.X_OK)


def test_what_was_never_put_is_not_there(store: Store) -> None:
    assert store.get("aa11") is None


def test_a_large_file_that_changes_behind_our_back_is_not_kept(store: Store) -> None:
    Path("out").write_bytes(LARGE)
    before = seen("out")
    Path("out").write_bytes(LARGE[1:])
    store.put("aa11", ["out"], [before], 1.0, "a:target")
    assert store.get("aa11") is None
    assert not [*Path("store/drafts").iterdir()]
    Path("out").unlink()
    store.put("aa11", ["out"], [before], 1.0, "a:target")
    assert store.get("aa11") is None


def test_any_damaged_byte_of_a_result_is_seen(store: Store) -> None:
    put(store, "aa11", b"small")
    whole = entry("results").read_bytes()
    for at in range(len(whole)):
        entry("results").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.get("aa11") is None
        assert Path("store/damaged/aa11").exists()
        put(store, "aa11", b"small")
    assert taken(store, "aa11") == [b"small"]


def test_a_result_cut_short_anywhere_is_seen(store: Store) -> None:
    put(store, "aa11", b"small")
    whole = entry("results").read_bytes()
    for cut in range(len(whole)):
        entry("results").write_bytes(whole[:cut])
        assert store.get("aa11") is None
        put(store, "aa11", b"small")


@pytest.mark.parametrize("damage", [LARGE[:-1], LARGE + b"x", b"", LARGE.replace(b"l", b"L", 1)])
def test_a_damaged_object_is_set_aside_and_can_be_put_again(store: Store, damage: bytes) -> None:
    put(store, "aa11", LARGE)
    entry("objects").chmod(0o644)
    entry("objects").write_bytes(damage)
    assert taken(store, "aa11") is None
    assert Path("store/damaged", sha256(LARGE).hexdigest()).read_bytes() == damage
    put(store, "aa11", LARGE)
    assert taken(store, "aa11") == [LARGE]


def test_a_missing_object_is_as_if_nothing_was_stored(store: Store) -> None:
    put(store, "aa11", LARGE)
    entry("objects").unlink()
    assert taken(store, "aa11") is None
    put(store, "aa11", LARGE)
    assert taken(store, "aa11") == [LARGE]


# -- entries that nobody damaged: somebody wrote them, and signed them rightly

SMALL_SHA = sha256(b"small").hexdigest()
WHOLE = {"outputs": [[SMALL_SHA, "c21hbGw=", False]], "seconds": 1.0, "target": "a:target"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([SMALL_SHA, "c21hbGw="]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*WHOLE, "x"]), inner, max_size=4),
    max_leaves=12,
)
ROW = st.tuples(JSON, JSON, JSON).map(list) | JSON


def signed(store: Store, body: bytes) -> None:
    place = Path(store.place("results", "aa11"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"%b\n%b" % (sha256(body).hexdigest().encode(), body))


def row(*cells: Any) -> dict[str, Any]:
    return {**WHOLE, "outputs": [list(cells)]}


FOREIGN: list[Any] = [
    *({}, [], None, 1, "outputs", True),
    *({name: value for name, value in WHOLE.items() if name != lost} for lost in ("outputs", "seconds")),
    *({**WHOLE, "seconds": seconds} for seconds in (None, "1", True, False, -1, float("nan"), float("inf"), [1.0])),
    *({**WHOLE, "outputs": outputs} for outputs in (None, {}, "abc", 3, [None], [{}], ["abc"], [[]], [3], [SMALL_SHA])),
    *(row(SMALL_SHA, "c21hbGw="), row(SMALL_SHA, "c21hbGw=", False, None), row(SMALL_SHA, None, None)),
    *(row(SMALL_SHA, text, False) for text in ("", "c21hbGw", "c21hbGo=", "=", "é", 5, [], {}, True)),
    *(row(name, "c21hbGw=", False) for name in ("", None, 5, SMALL_SHA.upper(), SMALL_SHA + "\n", "../../secret", [])),
    *(row(SMALL_SHA, "c21hbGw=", runnable) for runnable in (None, 0, 1, "yes", [])),
]


@pytest.mark.parametrize("fields", FOREIGN, ids=map(str, range(len(FOREIGN))))
def test_an_entry_that_says_something_else_under_a_right_hash_is_set_aside(store: Store, fields: Any) -> None:
    signed(store, json.dumps(fields).encode())
    assert store.peek("aa11") is None
    assert store.get("aa11") is None
    assert Path("store/damaged/aa11").exists()
    put(store, "aa11", b"small")
    assert taken(store, "aa11") == [b"small"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b'{"outputs": [["\\ud800"]]}'])
def test_what_is_no_json_under_a_right_hash_is_set_aside(store: Store, body: bytes) -> None:
    signed(store, body)
    assert store.get("aa11") is None
    assert Path("store/damaged/aa11").exists()


@given(
    JSON | st.fixed_dictionaries({"outputs": st.lists(ROW, max_size=3), "seconds": JSON | st.just(1), "target": JSON})
)
def test_whatever_is_signed_comes_out_right_or_not_at_all(fields: Any) -> None:
    with TemporaryDirectory() as folder, chdir(folder):
        store = Store("store")
        signed(store, json.dumps(fields).encode())
        result = store.get("aa11")
        store.close()
        assert Path("store/damaged/aa11").exists() == (result is None)
        for content, inside in zip(result.contents, result.small, strict=True) if result else ():
            assert inside is None or sha256(inside).hexdigest() == content


def test_an_entry_with_other_outputs_than_are_asked_for_is_not_taken(store: Store) -> None:
    put(store, "aa11", b"small", b"more")
    assert taken(store, "aa11", 1) is None
    assert taken(store, "aa11", 3) is None


# Starts when all are there and goes on until all have been through their rounds: no round is without the others.
WRITER = """
import os, random, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from pipeline.store.results import Store, read_output as written
os.makedirs(sys.argv[2])
os.chdir(sys.argv[2])
store, rng, taken, rounds = Store("../store"), random.Random(sys.argv[2]), 0, 0
def all_have(mark):
    return len([*Path("..").glob(f"w*/{mark}")]) == 4
begun = time.monotonic()
Path("begun").touch()
while not all_have("begun"):
    time.sleep(0.001)
while not all_have("through"):
    number = rng.randrange(6)
    key, bodies = f"{number}key", [b"small %d" % number, b"large %d" % (number // 2) * 1000]
    if rng.random() < 0.1:
        for path in sorted(Path("../store/objects").glob("*/*"))[:1]:
            path.unlink(missing_ok=True)
    result = store.get(key)
    if result is not None and store.take(key, result, ["one", "two"]):
        assert [Path(p).read_bytes() for p in ("one", "two")] == bodies
        taken += 1
    else:
        for path, body in zip(("one", "two"), bodies):
            Path(path).write_bytes(body)
        with open("one") as one, open("two") as two:
            found = [written(file.fileno(), os.fstat(file.fileno())) for file in (one, two)]
            store.put(key, ["one", "two"], found, 1.0, "a:t")
    rounds += 1
    if rounds == 150:
        Path("through").touch()
        through = time.monotonic()
print(taken, begun, through)
"""


def test_writers_and_readers_at_once_never_corrupt_it(store: Store, tmp_path: Path) -> None:
    """Some of them also lose objects, so that the same entries are written again and again."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(ROOT), str(tmp_path / f"w{n}")], stdout=-1, text=True)
        for n in range(4)
    ]
    said = [writer.communicate(timeout=PATIENCE)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    taken, begun, through = zip(*(map(float, words) for words in said), strict=True)
    assert min(taken) > 20
    assert max(begun) < min(through)
    assert not Path("store/damaged").exists()
    assert not [*Path("store/drafts").iterdir()]
    for path in Path("store/objects").glob("*/*"):
        assert sha256(path.read_bytes()).hexdigest() == path.name
    assert all(store.get(path.name) for path in Path("store/results").glob("*/*"))


# -- as a build sees it

SPEC = """
kind: steps
store: {store}
steps:
  small: {{run: "echo small >> ran; cat {{in}} > {{out}}", reads: src, writes: small.txt}}
  large: {{run: "echo large >> ran; yes | head -5000 > {{out}}; cat {{in}} >> {{out}}", reads: src, writes: large.txt}}
"""


def checkout(folder: Path, store: str = "runs/.store") -> Project:
    project = Project(folder)
    project.spec("a", SPEC.format(store=store))
    project.write("src", "source\n")
    return project


def ran(project: Project) -> list[str]:
    """What was executed since the last look; the build must succeed."""
    (project.root / "ran").unlink(missing_ok=True)
    said = project.call("run")
    assert said.code == 0, said
    return sorted(project.read("ran").split()) if (project.root / "ran").exists() else []


def test_what_one_checkout_made_another_one_recalls(tmp_path: Path) -> None:
    one, two = checkout(tmp_path / "one", "../store"), checkout(tmp_path / "two", "../store")
    assert ran(one) == ["large", "small"]
    assert ran(two) == []
    assert two.read("runs/a/large.txt") == one.read("runs/a/large.txt")


def test_a_store_in_home_is_there_and_no_folder_of_that_name_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    one, two = checkout(tmp_path / "one", "~/st"), checkout(tmp_path / "two", "{path: ~/st}")
    assert ran(one) == ["large", "small"]
    assert ran(two) == []
    assert (tmp_path / "home/st/results").is_dir()
    assert not [*tmp_path.glob("*/~")]


def test_two_checkouts_that_build_at_once_share_a_store(tmp_path: Path) -> None:
    projects = [checkout(tmp_path / name, "../store") for name in ("one", "two", "three")]
    builds = [project.popen("run") for project in projects]
    assert [build.wait(timeout=PATIENCE) for build in builds] == [0, 0, 0]
    assert len({project.read("runs/a/large.txt") for project in projects}) == 1
    assert ran(checkout(tmp_path / "four", "../store")) == []


@pytest.mark.parametrize(("part", "lost"), [("results", ["large", "small"]), ("objects", ["large"])])
def test_a_damaged_entry_costs_its_target_one_execution_and_no_more(tmp_path: Path, part: str, lost: list[str]) -> None:
    project = checkout(tmp_path / "project")
    ran(project)
    for path in (project.root / "runs/.store" / part).glob("*/*"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1])
    assert ran(project) == []
    for name in ("small", "large"):
        (project.root / f"runs/a/{name}.txt").unlink()
    assert ran(project) == lost
    for name in ("small", "large"):
        (project.root / f"runs/a/{name}.txt").unlink()
    assert ran(project) == []
    assert len([*(project.root / "runs/.store/damaged").iterdir()]) == len(lost)


def test_the_whole_store_may_be_deleted_and_nothing_that_is_there_is_redone(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project")
    ran(project)
    subprocess.run(["rm", "-rf", project.root / "runs/.store"], check=True)
    assert ran(project) == []
    (project.root / "runs/a/small.txt").unlink()
    assert ran(project) == ["small"]


def entries(project: Project) -> list[Path]:
    return [*(project.root / "runs/.store/results").glob("*/*")]


def forged(whole: bytes) -> bytes:
    """As it was, but for what is inside."""
    fields = json.loads(whole.partition(b"\n")[2])
    for output in fields["outputs"]:
        output[1] = output[1] and b2a_base64(b"forged\n", newline=False).decode()
    return json.dumps(fields).encode()


@pytest.mark.parametrize("body", [lambda _: b"{}", forged], ids=["empty", "forged"])
def test_entries_that_somebody_else_signed_are_told_of_by_no_command_and_made_again(
    tmp_path: Path, body: Callable[[bytes], bytes]
) -> None:
    project = checkout(tmp_path / "project")
    ran(project)
    (project.root / "runs/a/small.txt").unlink()
    for path in entries(project):
        text = body(path.read_bytes())
        path.write_bytes(b"%b\n%b" % (sha256(text).hexdigest().encode(), text))
    for words in (["plan"], ["why", "a:small"], ["list", "-s", "--all"], ["info", "a:small"], ["gc", "--dry-run"]):
        said = project.call(*words)
        assert said.code in (0, 1), said
        assert "Traceback" not in said.err
    assert ran(project) == ["small"]
    assert project.read("runs/a/small.txt") == "source\n"
    assert ran(project) == []
