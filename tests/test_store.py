"""The store may be shared by anybody at any time: what comes out of it is what went in, or nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import ROOT, Project

from pipeline.edge.store import SMALL, Store, Written, written

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


def seen(path: str) -> Written:
    with open(path, "rb") as file:
        return written(file.fileno())


def taken(store: Store, key: str, count: int = 1) -> list[bytes] | None:
    result = store.get(key)
    paths = [f"taken.{number}" for number in range(count)]
    if result is None or not store.take(key, result, paths):
        return None
    return [Path(path).read_bytes() for path in paths]


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


# Starts when all are there and goes on until all have been through their rounds: no round is without the others.
WRITER = """
import os, random, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from pipeline.edge.store import Store, written
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
            store.put(key, ["one", "two"], [written(one.fileno()), written(two.fileno())], 1.0, "a:t")
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
    said = [writer.communicate(timeout=60)[0].split() for writer in writers]
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


def test_two_checkouts_that_build_at_once_share_a_store(tmp_path: Path) -> None:
    projects = [checkout(tmp_path / name, "../store") for name in ("one", "two", "three")]
    builds = [project.popen("run") for project in projects]
    assert [build.wait(timeout=60) for build in builds] == [0, 0, 0]
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
