"""A replay makes every decision again from what is recorded, finds what was tampered with, and changes nothing."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project, Said
from kit.searches import Search, by_config
from kit.tree_runs import forge, restoring, searched, small_search
from test_tree_paired import search as search_by_blocks

from pipeline.build.project import load
from pipeline.core.freshness import Receipt
from pipeline.core.recipe import make_recipe, reads_of, writes_of
from pipeline.store.receipts import Receipts, done_line
from pipeline.tree.report.replay import DIFFERENT, LOST, SAME, STALE, first_difference


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return searched(Project(tmp_path_factory.mktemp("search") / "project"))


@pytest.fixture
def search(built: Project) -> Iterator[Project]:
    yield from restoring(built, built.root.with_name("kept"), "runs/x", "specs")


def replay(project: Project, code: int = 0) -> dict[str, Any]:
    said = project.call("replay", "x", "--json")
    assert said.code == code, said
    assert said.code == project.call("replay", "x").code
    found: dict[str, Any] = json.loads(said.out)
    return found


def lines(project: Project) -> list[str]:
    return project.call("replay", "x").out.splitlines()


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {name: found[name] for name in (SAME, DIFFERENT, LOST, STALE) if found[name]}


def outcomes(found: dict[str, Any], *but: str) -> dict[str, str]:
    return {each["target"]: each["outcome"] for each in found["targets"] if each["outcome"] not in (SAME, *but)}


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """Bytes and times of all files and folders."""
    found = [root, *root.rglob("*")]
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
        for path in found
    }


def test_a_search_as_it_was_decided_comes_out_the_same(search: Project) -> None:
    found = replay(search)
    names = [each["target"].partition(":")[2] for each in found["targets"]]
    assert names[:4] == ["d0.assign", "d0.n0.i0.score", "d0.n0.i1.score", "d0.promote"]
    assert names[-1] == "d1.promote"
    assert counts(found) == {SAME: 10}
    assert lines(search) == ["x: 10 decisions: 10 the same again"]


def test_decisions_by_blocks_and_sheets_made_of_rows_come_out_the_same(project: Project) -> None:
    by_blocks = search_by_blocks(project)
    by_blocks.build()
    found = replay(project)
    assert {each["target"].rpartition(".")[2] for each in found["targets"]} == {
        "assign", "pairs", "weigh", "score", "promote",
    }  # fmt: skip
    assert counts(found) == {SAME: 11}
    rows = Search(Project(project.root / "rows"), {"a": "gain=12"}, sweep=by_config({"n": [1, 2]}))
    rows.spec(sweep_config_limit=None)
    rows.build()
    found = replay(rows.project)
    assert "x:d0.n0.i0.sweep" in [each["target"] for each in found["targets"]]
    assert counts(found) == {SAME: len(found["targets"])}


def score_forged(search: Project) -> None:
    forge(search, "eval/d0.n0.i1/summary.json", raise_score)


def raise_score(record: dict[str, Any]) -> None:
    record["scoring_summary"]["root_recommendation"]["score"] = 0.06


def reformatted(search: Project) -> None:
    text = search.read("runs/x/depths/1/promoted.json")
    search.write("runs/x/depths/1/promoted.json", json.dumps(json.loads(text)))


def receipt_forged(search: Project) -> None:
    rewrite(search, "x:d0.n0.i0.score", lambda receipt: {"outputs": dict.fromkeys(receipt.outputs, "0" * 64)})


def rewrite(search: Project, target: str, change: Callable[[Receipt], dict[str, Any]]) -> None:
    with chdir(search.root):
        receipts = Receipts("x")
        receipt = receipts.receipt(target)
        assert receipt
        receipts.append([done_line(target, receipt._replace(**change(receipt)))])
        receipts.close()


TAMPERED: dict[str, tuple[Callable[[Project], object], str]] = {
    "a score": (
        score_forged,
        "x:d0.n0.i1.score: runs/x/eval/d0.n0.i1/summary.json: scoring_summary.root_recommendation.score: recorded 0.06",
    ),
    "a decision": (
        lambda search: forge(
            search, "depths/1/promoted.json", lambda it: it["decisions"]["d1.n0.i1"].update(failed_check="rank")
        ),
        "x:d1.promote: runs/x/depths/1/promoted.json: decisions.d1.n0.i1.failed_check: recorded rank, rebuilt ",
    ),
    "a reason that is gone": (
        lambda search: forge(search, "depths/1/promoted.json", lambda it: it.pop("stop_reason")),
        "x:d1.promote: runs/x/depths/1/promoted.json: stop_reason: recorded missing, rebuilt max_depth_reached",
    ),
    "an assignment": (
        lambda search: forge(search, "depths/0/assigned.json", lambda it: it["cut"].append("usd")),
        'x:d0.assign: runs/x/depths/0/assigned.json: cut: recorded ["usd"], rebuilt []',
    ),
    "the node that comes of it": (
        lambda search: forge(search, "nodes/d2.n0/origin.json", lambda it: it.update(from_eval="d1.n1.i0")),
        "x:d1.promote: runs/x/nodes/d2.n0/origin.json: from_eval: recorded d1.n1.i0, rebuilt d1.n0.i0",
    ),
    "a file without its receipt": (
        lambda search: search.write("runs/x/artifacts/d2.n0.csv", "config_id\n"),
        "x:d1.promote: runs/x/artifacts/d2.n0.csv: line 1: recorded config_id\\n, rebuilt config_id,status,gain",
    ),
    "how a file is written": (reformatted, "x:d1.promote: runs/x/depths/1/promoted.json: line 1: recorded {"),
    "a record that is gone": (
        lambda search: (search.root / "runs/x/depths/1/promoted.json").unlink(),
        "x:d1.promote: runs/x/depths/1/promoted.json: recorded missing, rebuilt ",
    ),
    "the receipt": (receipt_forged, "x:d0.n0.i0.score: runs/x/eval/d0.n0.i0/summary.json: its receipt's sha256: "),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_tampered_with_is_found_with_its_place(search: Project, name: str) -> None:
    tamper, said = TAMPERED[name]
    tamper(search)
    assert replay(search, code=1)[DIFFERENT] == 1
    assert [line for line in lines(search) if line.startswith(said)] != [], lines(search)


def test_what_was_decided_by_a_record_that_was_changed_cannot_be_made_again(search: Project) -> None:
    search.write("runs/x/artifacts/d0.n0.i1.csv", "config_id\n")
    found = replay(search, code=1)
    assert outcomes(found) == {"x:d0.n0.i1.score": LOST, "x:d0.promote": LOST}
    assert "runs/x/artifacts/d0.n0.i1.csv was changed since it was read: sha256 " in lines(search)[0]
    (search.root / "runs/x/artifacts/d0.n0.i1.csv").unlink()
    assert "not to be rebuilt: runs/x/artifacts/d0.n0.i1.csv is missing, which it read" in lines(search)[0]


def test_what_was_written_to_while_it_was_read_cannot_be_made_again(search: Project) -> None:
    path = "runs/x/eval/d0.n0.i0/sweep.json"
    rewrite(search, "x:d0.n0.i0.score", lambda _: {"unsettled": (path,)})
    assert outcomes(replay(search, code=1)) == {"x:d0.n0.i0.score": LOST}
    assert f"x:d0.n0.i0.score: not to be rebuilt: {path} was written to while it was read" in lines(search)


@pytest.mark.parametrize("nonsense", ["[]", "{}", '{"status": null}', '{"status": "failed", "why": null}', "{", "\0"])
def test_by_nonsense_with_a_forged_receipt_nothing_can_be_decided(search: Project, nonsense: str) -> None:
    path = "runs/x/eval/d0.n0.i0/candidate.json"
    search.write(path, nonsense)
    forged = sha256(nonsense.encode()).hexdigest()
    rewrite(search, "x:d0.n0.i0.score", lambda receipt: {"inputs": {**receipt.inputs, path: forged}})
    assert outcomes(replay(search, code=1))["x:d0.n0.i0.score"] == LOST
    assert "x:d0.n0.i0.score: not to be rebuilt: nothing can be decided by what it read: " in lines(search)[0]


def test_series_of_nothing_decide_nothing(project: Project) -> None:
    search_by_blocks(project, {"a": "gain=2 noise=1"}).build()
    path = "runs/x/eval/d0.n0.i0/pairs.json"
    record = json.loads(project.read(path))
    record["series"] = {name: {side: [] for side in sides} for name, sides in record["series"].items()}
    record["rows_used"] = record["rows_expected"]
    project.write(path, json.dumps(record))
    forged = sha256(project.read(path).encode()).hexdigest()
    for target in ("x:d0.weigh", "x:d0.n0.i0.score"):
        rewrite(project, target, lambda receipt: {"inputs": {**receipt.inputs, path: forged}})
    found = outcomes(replay(project, code=1), DIFFERENT)
    assert found == {"x:d0.weigh": LOST, "x:d0.n0.i0.score": LOST}


def test_what_was_made_anew_since_is_stale_and_no_difference(search: Project) -> None:
    score_forged(search)
    assert outcomes(replay(search, code=1), DIFFERENT) == {"x:d0.promote": STALE}
    assert "x:d0.promote: stale: runs/x/eval/d0.n0.i1/summary.json was made anew since it was read" in lines(search)


def test_without_the_repository_the_rest_is_made_again(search: Project) -> None:
    shutil.rmtree(search.root / "runs/x/repo.git")
    assert outcomes(replay(search, code=1)) == {"x:d0.promote": LOST, "x:d1.promote": LOST}
    assert lines(search)[0] == "x:d0.promote: not to be rebuilt: runs/x/repo.git is missing"


def test_a_spec_that_was_edited_since_is_no_difference(search: Project) -> None:
    spec = search.read("specs/x.yaml")
    search.spec("x", spec + "score: {explore: 0.9}\n")
    found = replay(search)
    assert (counts(found), found["edited"]) == ({SAME: 10}, 6)
    assert lines(search) == ["x: 10 decisions: 10 the same again; 6 were decided by another spec than today's"]


def test_what_an_earlier_version_decided_is_stale(search: Project) -> None:
    older = {"stage": "tree.promote/0", "python": "cpython-3.8"}
    rewrite(search, "x:d1.promote", lambda receipt: {"recipe": {**receipt.recipe, **older}})
    found = replay(search)
    assert outcomes(found) == {"x:d1.promote": STALE}
    assert found["edited"] == 0
    assert "it was decided by tree.promote/0, this Coppice has tree.promote/1" in lines(search)[0]


@pytest.mark.parametrize("target", ["d0.n0.node", "d0.assign", "d0.n0.i1.score", "d0.promote", "d1.n0.node"])
def test_a_search_that_is_half_done_is_replayed_as_far_as_it_came(project: Project, target: str) -> None:
    small_search(project)
    assert project.call("run", f"x:{target}").code == 0
    before = everything(project.root)
    found = replay(project)
    expected = {"d0.n0.node": 0, "d0.assign": 1, "d0.n0.i1.score": 2, "d0.promote": 4, "d1.n0.node": 4}[target]
    assert counts(found) == ({SAME: expected} if expected else {})
    if not expected:
        assert lines(project) == ["x: nothing is decided yet"]
    assert everything(project.root) == before


@pytest.mark.parametrize("name", [None, *TAMPERED])
def test_nothing_is_changed_whatever_is_found(search: Project, name: str | None) -> None:
    if name:
        TAMPERED[name][0](search)
    search.spec("x", search.read("specs/x.yaml") + "score: {explore: 0.9}\n")
    before = everything(search.root)
    for words in (["replay", "x"], ["replay", "--json", "x"], ["explain", "x:d0.n0.i1"]):
        search.call(*words)
    assert everything(search.root) == before


def test_no_lock_is_taken(search: Project) -> None:
    """Nor waited for."""
    from pipeline.machine.lock import lock_runs

    with chdir(search.root), lock_runs(["x"], None):
        assert counts(replay(search)) == {SAME: 10}
        assert search.call("explain", "x:d0.n0.i0").code == 0


WRONG = {
    "z": "there is no run 'z'",
    "y": "specs/y.yaml:1: kind: steps decides nothing that `replay` could tell of",
    "x:d0.promote": "replay: 'x:d0.promote' is no run; all decisions of one are made again: `replay x`",
}


@pytest.mark.parametrize("word", WRONG)
def test_what_is_no_search_is_refused_in_one_line(project: Project, word: str) -> None:
    small_search(project)
    project.spec("y", "kind: steps\nsteps: {a: {run: 'touch {out}', writes: a}}\n")
    assert refused(project.call("replay", word)).startswith(f"coppice: {WRONG[word]}")
    assert refused(project.call("replay")) == "coppice: replay: name one run, not 0\n"
    assert refused(project.call("replay", "x")).startswith("coppice: x: nothing is recorded of it yet;")


def refused(said: Said) -> str:
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    return said.err


# -- what it is made of


def test_the_ports_of_a_target_follow_from_its_receipt(search: Project) -> None:
    with chdir(search.root):
        receipts = Receipts("x")
        for target in load(["x"])["x"].targets:
            receipt = receipts.receipt(target.name)
            assert receipt
            assert reads_of(make_recipe(target, ""), [*receipt.inputs]) == target.reads
            assert writes_of(make_recipe(target, ""), receipt.outputs) == target.writes


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": [1, 3]}}, ("b.c[1]", "2", "3")),
        ({"a": 1}, {"a": 1.0}, ("a", "1", "1.0")),
        ({"a": True}, {"a": 1}, ("a", "true", "1")),
        ({"a": 1}, {"a": 1, "b": None}, ("b", "missing", "null")),
        ({"a": [1]}, {"a": [1, 2]}, ("a", "[1]", "[1, 2]")),
        ({"a": []}, {"a": {}}, ("a", "[]", "{}")),
    ],
)
def test_the_first_key_that_differs_is_told(
    old: dict[str, Any], new: dict[str, Any], place: tuple[str, str, str] | None
) -> None:
    assert first_difference(json.dumps(old).encode(), json.dumps(new).encode()) == place


def test_without_a_key_that_differs_the_first_line_is_told() -> None:
    assert first_difference(b"a\nb\n", b"a\nc\n") == ("line 2", "b\\n", "c\\n")
    assert first_difference(b"a\n", b"a") == ("line 1", "a\\n", "a")
    assert first_difference(b'{"a": 1}\n', b'{"a":1}\n') == ("line 1", '{"a": 1}\\n', '{"a":1}\\n')
    assert first_difference(b"", b"\xff") == ("line 1", "missing", "\\xff")
