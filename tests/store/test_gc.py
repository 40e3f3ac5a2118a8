"""coppice gc: drops what nothing refers to, and only that, whoever else uses the store meanwhile."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.project import PATIENCE, ROOT, Project

from pipeline.store.gc import collect_garbage
from pipeline.store.results import Store, read_output

DEMO = """
kind: steps
steps:
  small:
    run: cat {in} > {out}
    reads: src.txt
    writes: small.txt
  large:
    run: head -c 5000 /dev/zero > {out}; cat {in} >> {out}
    reads: small.txt
    writes: large.bin
"""


@pytest.fixture
def demo(project: Project) -> Project:
    project.spec("demo", DEMO)
    build(project, "1\n")
    return project


def build(project: Project, source: str) -> str:
    project.write("src.txt", source)
    said = project.call("run", "demo")
    assert said.code == 0, said.err
    return said.out


def gc(project: Project, *words: str) -> str:
    said = project.call("gc", *words)
    assert (said.code, said.err) == (0, "")
    return said.out


def stored(project: Project, store: str = "runs/.store") -> tuple[int, int]:
    """How many results and objects there are."""
    return tuple(len([*(project.root / store / part).glob("*/*")]) for part in ("results", "objects"))  # type: ignore[return-value]


def forget_receipts(project: Project) -> None:
    """What `rm -r runs/demo` does, except that the store below runs/ stays."""
    subprocess.run(["rm", "-r", "runs/demo"], cwd=project.root, check=True)


def test_what_the_receipts_speak_of_is_kept_those_before_the_last_edit_too(demo: Project) -> None:
    build(demo, "2\n")
    assert gc(demo).startswith("runs/.store: dropped 0 results and 0 objects, 0 bytes; kept 6 files, ")
    undone = build(demo, "1\n")
    assert "recalled demo:small\n" in undone
    assert "recalled demo:large\n" in undone


def test_what_nothing_refers_to_is_dropped_with_its_objects(demo: Project) -> None:
    forget_receipts(demo)
    build(demo, "2\n")
    assert stored(demo) == (4, 2)
    assert gc(demo).startswith("runs/.store: dropped 2 results and 1 object, 5.")
    assert stored(demo) == (2, 1)
    assert "built demo:large" in build(demo, "1\n")
    assert "recalled demo:large" in build(demo, "2\n")


def test_a_run_whose_spec_is_gone_keeps_its_results_until_its_folder_is_removed(demo: Project) -> None:
    demo.spec("other", DEMO.replace("head -c 5000", "head -c 6000"))
    assert demo.call("run", "other").code == 0
    (demo.root / "specs/other.yaml").rename(demo.root / "other.yaml")
    gc(demo)
    assert stored(demo) == (3, 2)
    subprocess.run(["rm", "-r", "runs/other"], cwd=demo.root, check=True)
    gc(demo)
    assert stored(demo) == (2, 1)


def test_an_object_that_another_result_names_stays(demo: Project) -> None:
    forget_receipts(demo)
    demo.spec("demo", DEMO.replace("head -c 5000", "head  -c 5000"))  # another recipe, the same output
    build(demo, "1\n")
    assert stored(demo) == (3, 1)
    gc(demo)
    assert stored(demo) == (2, 1)
    (demo.root / "runs/demo/large.bin").unlink()
    assert "recalled demo:large" in build(demo, "1\n")


def test_a_dry_run_says_the_same_and_changes_nothing(demo: Project) -> None:
    forget_receipts(demo)
    build(demo, "2\n")
    before = everything(demo.root)
    said = gc(demo, "--dry-run")
    assert everything(demo.root) == before
    assert said.replace("would drop", "dropped").replace("would keep", "kept") == gc(demo)
    assert everything(demo.root) != before


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    found = (path for path in root.rglob("*") if path.is_file() and path.name not in ("lock", "guard"))
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def test_what_another_checkout_refers_to_is_kept_and_said(tmp_path: Path) -> None:
    here, there = Project(tmp_path / "here"), Project(tmp_path / "there")
    for project, source in ((here, "1\n"), (there, "2\n")):
        project.spec("demo", "store: ../shared\n" + DEMO)
        build(project, source)
    forget_receipts(here)
    said = gc(here).splitlines()
    assert said[0].startswith("../shared: dropped 2 results and 1 object, ")
    assert said[1].startswith(f"  {socket.gethostname()}:{there.root} refers to 2 results (../shared/roots/")
    assert "recalled demo:large" in build(here, "2\n")


def test_a_checkout_that_recalled_a_result_keeps_it(tmp_path: Path) -> None:
    here, there = Project(tmp_path / "here"), Project(tmp_path / "there")
    for project in (here, there):
        project.spec("demo", "store: ../shared\n" + DEMO)
        said = build(project, "1\n")
    assert "recalled demo:large" in said
    forget_receipts(here)
    assert gc(here).startswith("../shared: dropped 0 results")
    forget_receipts(there)
    assert gc(there).startswith("../shared: dropped 2 results and 1 object")


def test_one_store_under_two_names_is_looked_through_once(demo: Project) -> None:
    demo.spec("other", f"store: {demo.root}/runs/.store\n" + DEMO)
    assert len(gc(demo).splitlines()) == 1


def test_drafts_are_dropped_whoever_left_them(demo: Project) -> None:
    """They are written under the store's lock, which gc holds alone: whoever wrote those that are there is gone."""
    host, me = socket.gethostname(), os.getpid()
    left = [demo.write(f"runs/.store/drafts/{name}", "draft") for name in (f"{host}.{me}.1", "elsewhere.1.0")]
    assert "\n  dropped 2 abandoned drafts, 10 bytes\n" in gc(demo)
    assert not any(path.exists() for path in left)


def test_damaged_entries_are_counted_and_removed(demo: Project) -> None:
    result = next((demo.root / "runs/.store/results").glob("*/*"))
    result.write_bytes(result.read_bytes()[:-1])
    demo.write("runs/.store/damaged/some", "entry")
    size = result.stat().st_size + 5
    assert f"\n  dropped 2 damaged entries, {size} bytes\n" in gc(demo)
    assert not result.exists()
    assert not [*(demo.root / "runs/.store/damaged").iterdir()]


def test_files_in_the_store_that_are_not_of_the_store_are_left_alone(demo: Project) -> None:
    mine = [demo.write(f"runs/.store/{part}/ab/notes.txt", "mine") for part in ("results", "objects")]
    mine += [demo.write(f"runs/.store/{path}", "mine") for path in ("results/0123", "drafts/notes", "damaged/my/notes")]
    gc(demo)
    assert all(path.exists() for path in mine)


def test_the_references_of_this_checkout_are_written_anew_and_no_longer_than_needed(demo: Project) -> None:
    (root,) = (demo.root / "runs/.store/roots").iterdir()
    demo.spec("other", "store: other-store\n" + DEMO.replace("5000", "6000"))
    assert demo.call("run", "other").code == 0  # its references have no place in the first store
    for source in ("2\n", "1\n", "2\n"):
        build(demo, source)
    assert len(root.read_text().splitlines()) == 1 + 8
    (demo.root / "runs/.store/roots" / f"{root.name}.1.draft").write_text("of a gc that was killed")
    gc(demo)
    assert [*(demo.root / "runs/.store/roots").iterdir()] == [root]
    head, *keys = root.read_text().splitlines()
    assert head == f"# {socket.gethostname()}:{demo.root}"
    assert keys == sorted(path.name for path in (demo.root / "runs/.store/results").glob("*/*"))


def test_it_waits_for_nobody_while_a_run_of_this_checkout_is_being_built(demo: Project) -> None:
    os.mkfifo(demo.root / "go")
    demo.spec("slow", "kind: steps\nsteps:\n  a:\n    run: cat go > {out}\n    writes: a.txt\n")
    builder = demo.popen("slow")
    with (demo.root / "go").open("w") as go:  # opens when its command does
        said = demo.call("gc")
        assert (said.code, said.out) == (75, "")
        assert said.err.startswith("coppice: run slow is being built by process ")
        go.write("go\n")
    assert builder.wait(20) == 0
    builder.communicate()
    gc(demo)


def test_there_may_be_nothing_yet(project: Project) -> None:
    project.spec("demo", DEMO)
    assert gc(project) == "nothing is stored yet\n"


def test_it_takes_no_names(demo: Project) -> None:
    assert demo.call("gc", "demo").code == 2


def waiting_for(lock: Path) -> bool:
    """Does a process wait for it?  The kernel's list has `->` before those."""
    inode = f":{lock.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who waits for a lock")
def test_writers_wait_for_gc_and_gc_for_writers(demo: Project) -> None:
    lock = demo.root / "runs/.store/lock"
    for how, words in ((fcntl.LOCK_EX, ["run"]), (fcntl.LOCK_SH, ["gc"])):
        demo.write("src.txt", f"{words}\n")
        before = stored(demo)
        with lock.open("r+") as held:
            fcntl.flock(held, how)
            process = demo.popen(*words)
            eventually(lambda: waiting_for(lock))
            assert process.poll() is None
            assert stored(demo) == before
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


def test_a_build_that_takes_long_does_not_keep_others_from_collecting(tmp_path: Path) -> None:
    builder, other = Project(tmp_path / "builder"), Project(tmp_path / "other")
    spec = "kind: steps\nstore: ../store\nsteps:\n  a: {run: 'echo > {out}', writes: a}\n"
    long = (
        "  long: {run: 'touch waiting; while [ ! -e go ]; do sleep 0.01; done; cp {in} {out}', reads: a, writes: b}\n"
    )
    other.spec("x", spec)
    assert other.call("run").code == 0
    builder.spec("x", spec + long)
    build = builder.popen()
    eventually((builder.root / "waiting").exists)
    assert other.coppice("gc", timeout=20).returncode == 0
    assert build.poll() is None
    builder.write("go", "")
    build.communicate(timeout=PATIENCE)
    assert build.returncode == 0


def test_a_result_dropped_between_being_found_and_being_taken_is_not_taken(demo: Project, in_demo: Store) -> None:
    key = next(name for name in in_demo.entry_names("results") if not in_demo.peek(name).objects)  # type: ignore[union-attr]
    found = in_demo.get(key)
    assert found is not None
    with in_demo.lock_alone():
        collect_garbage(in_demo, (), dry=False)
    assert not in_demo.take(key, found, [str(demo.root / "taken")])


@pytest.fixture
def in_demo(demo: Project, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the project, in a process that is there."""
    monkeypatch.chdir(demo.root)
    return Store("runs/.store")


ROUNDS = 150
SWEEPER = """
import select, sys
from pipeline.store.gc import collect_garbage as sweep
from pipeline.store.results import Store
store = Store(sys.argv[1])
print(flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    with store.lock_alone():
        sweep(store, (), dry=False)
"""


def test_what_was_put_or_taken_stays_while_another_checkout_collects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round starts with a result that nobody refers to, so that both go for it at once."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    store = Store(str(tmp_path / "store"))
    sweeper = subprocess.Popen(
        [sys.executable, "-c", SWEEPER, store.folder], cwd=there, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with sweeper:
        assert sweeper.stdout is not None
        sweeper.stdout.readline()
        taken = lost = n = 0
        end = time.monotonic() + PATIENCE
        while n < ROUNDS or not (taken and lost):
            assert time.monotonic() < end
            n += 1
            key, output = f"{n:064x}", here / "output"
            output.write_bytes(b"x" * 3000 + str(n).encode())
            with output.open("rb") as file:
                found = read_output(file.fileno(), os.fstat(file.fileno()))
            store.put(key, [str(output)], [found], 0.1, "demo:a")
            unrefer(store, key)
            store.release()
            result = store.get(key)
            if result and store.take(key, result, [str(here / "again")]):
                taken += 1
                assert (here / "again").read_bytes() == output.read_bytes()
            else:
                lost += 1
                store.put(key, [str(output)], [found], 0.1, "demo:a")
            store.release()
            assert store.peek(key), f"round {n}"
    assert sweeper.returncode == 0
    assert all(store.peek(f"{i:064x}") for i in range(1, n + 1))


def unrefer(store: Store, key: str) -> None:
    """As if the checkout that made it had been removed."""
    root = Path(store.root)
    with open(f"{store.folder}/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        root.write_text(root.read_text().replace(f"{key}\n", ""))
