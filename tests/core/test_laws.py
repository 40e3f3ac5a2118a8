"""Laws of plans, graphs, freshness and whole builds, tried on drawn projects."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.project import ROOT, Project

from benchmarks.fuzz.model import draw as draw_project
from benchmarks.fuzz.spelling import specs
from pipeline import kinds
from pipeline.core.freshness import CAME_LATER, Receipt, stale_reasons
from pipeline.core.graph import CycleError, Graph, Target
from pipeline.core.recipe import compact_json
from pipeline.spec import parse

# -- plans


def planned(text: bytes) -> list[Target]:
    item = parse(text, "specs/a.yaml")
    kind = kinds.kind_of(item)
    return Graph(kinds.plan(kind, kinds.read(kind, item, "a"))).targets


PRINT_PLAN = """
import sys
sys.path[:0] = sys.argv[1:]
from tests.core.test_laws import planned
for text in sys.stdin.buffer.read().split(b"\\0"):
    print(planned(text))
"""


def spelled(seed: int) -> bytes:
    return specs(draw_project(Random(seed), "runs/.store"), "/outside")["a"].encode()


@given(st.integers(0, 10**6))
def test_the_same_spec_gives_the_same_plan(seed: int) -> None:
    assert planned(spelled(seed)) == planned(spelled(seed))


def test_the_plan_does_not_depend_on_the_process() -> None:
    """Python orders sets of texts differently in each process."""
    texts = b"\0".join(map(spelled, range(40)))
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_PLAN, str(ROOT), str(ROOT / "tests")],
            input=texts, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(printed) == 1
    assert printed.pop().count(b"\n") == 40


# -- graphs


def node(number: int, needs: Sequence[int]) -> Target:
    reads = (("in", tuple(f"runs/a/{j}" for j in needs)),)
    return Target(f"a:{number}", "run", reads, (("out", (f"runs/a/{number}",)),), {})


@st.composite
def nodes(draw: st.DrawFn) -> list[Target]:
    """Without a cycle, listed in any order."""
    count = draw(st.integers(1, 10))
    drawn = [node(i, draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else []) for i in range(count)]
    return draw(st.permutations(drawn))


@given(nodes())
def test_each_target_comes_after_all_it_reads_from(listed: list[Target]) -> None:
    graph = Graph(listed)
    assert sorted(graph.targets) == sorted(listed)
    assert all(j < i for i in range(len(listed)) for j in graph.above(i))


@given(nodes())
def test_of_those_that_may_come_next_the_first_listed_does(listed: list[Target]) -> None:
    done: set[str] = set()
    for target in Graph(listed).targets:
        free = [each for each in listed if each.name not in done and done.issuperset(names(each.inputs))]
        assert target == free[0]
        done.add(target.name)


@given(nodes())
def test_an_order_that_is_good_already_stays(listed: list[Target]) -> None:
    once = Graph(listed).targets
    assert Graph(once).targets == once


@given(nodes(), st.data())
def test_a_cycle_is_found_and_shown_whole(listed: list[Target], data: st.DataObject) -> None:
    graph = Graph(listed)
    first = data.draw(st.integers(0, len(listed) - 1))
    last = data.draw(st.sampled_from(sorted(graph.downstream([first]))))
    start, end = graph.targets[first], graph.targets[last]
    closing = start._replace(reads=(("in", (*start.inputs, *end.outputs)),))
    closed = [closing if each is start else each for each in listed]
    with pytest.raises(CycleError) as caught:
        Graph(closed)
    round_ = caught.value.targets
    assert round_[0] == round_[-1]
    assert len({each.name for each in round_}) == len(round_) - 1
    assert all(set(each.inputs) & set(above.outputs) for each, above in pairwise(round_))


@given(nodes(), st.data())
def test_what_is_needed_and_what_is_touched_mirror_each_other(listed: list[Target], data: st.DataObject) -> None:
    graph = Graph(listed)
    i, j = (data.draw(st.integers(0, len(listed) - 1)) for _ in "ij")
    assert (i in graph.upstream([j])) == (j in graph.downstream([i]))


def names(inputs: Sequence[str]) -> set[str]:
    return {f"a:{path.rpartition('/')[2]}" for path in inputs}


# -- freshness

contents = st.sampled_from(["aa", "bb", "cc"])
files = st.dictionaries(st.sampled_from(["x", "y", "z"]), contents, max_size=3)
plain = st.recursive(contents, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(contents, inner, max_size=2))
scalars = st.sampled_from(["aa", 0, 1, 1.0, True, None])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(contents, inner, max_size=2))
paths = st.dictionaries(st.sampled_from("pq"), st.lists(contents, max_size=2), max_size=2)
recipes = st.fixed_dictionaries(
    {
        "stage": plain,
        "reads": st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 2)).map(list), max_size=2),
        "params": st.fixed_dictionaries({"env": values}, optional={"argv": values, "with": values, "paths": paths}),
    }
)


def recorded(recipe: object, inputs: object, outputs: object, unsettled: tuple[str, ...] = ()) -> Receipt:
    return Receipt("key", recipe, inputs, outputs, 0.0, 1.0, 1, 0, "built", unsettled)  # type: ignore[arg-type]


@given(recipes, files, files, recipes, files, files)
def test_a_target_is_fresh_if_and_only_if_nothing_differs(r1, i1, o1, r2, i2, o2) -> None:  # type: ignore[no-untyped-def]
    """Contents of inputs count in their order, not the names they have."""
    same = (
        compact_json(r1) == compact_json(r2)
        and list(i1.values()) == list(i2.values())
        and all(o1.get(path) == now for path, now in o2.items())
    )
    found = [*stale_reasons(recorded(r1, i1, o1), r2, i2, o2)]
    assert (not found) == same
    assert len({*found}) == len(found), "each is told once, and alike ones can be told together"


@given(recipes, files, files)
def test_what_read_an_input_while_it_changed_is_stale(recipe, inputs, outputs) -> None:  # type: ignore[no-untyped-def]
    assert [*stale_reasons(recorded(recipe, inputs, outputs, ("x",)), recipe, inputs, outputs)]


@given(recipes, files, files, st.sampled_from(["x", "y", "z"]))
def test_what_is_missing_is_never_fresh(recipe, inputs, outputs, path) -> None:  # type: ignore[no-untyped-def]
    receipt = recorded(recipe, {**inputs, path: "aa"}, {**outputs, path: "aa"})
    assert [*stale_reasons(receipt, recipe, {**inputs, path: None}, {**outputs, path: "aa"})]
    assert [*stale_reasons(receipt, recipe, {**inputs, path: "aa"}, {**outputs, path: None})]


# -- whole builds


class Piece(NamedTuple):
    """A step: the steps before it and the sources that it reads; a coarse one writes the same whatever it reads."""

    steps: tuple[int, ...]
    sources: tuple[int, ...]
    coarse: bool


SOURCES = 3


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    some = st.lists(st.integers(0, SOURCES - 1), max_size=2, unique=True).map(tuple)
    count = draw(st.integers(1, 6))
    return [
        Piece(
            draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True).map(tuple)) if i else (),
            draw(some),
            draw(st.booleans()),
        )
        for i in range(count)
    ]


def results(drawn: list[Piece], sources: Sequence[str]) -> list[tuple[str, str]]:
    """What each step reads and what it writes."""
    out: list[tuple[str, str]] = []
    for i, piece in enumerate(drawn):
        read = "".join([*(out[j][1] for j in piece.steps), *(f"{sources[j]}\n" for j in piece.sources)])
        out.append((read, f"s{i}\n" if piece.coarse else f"{read}s{i}\n"))
    return out


def spec_of(drawn: list[Piece]) -> str:
    steps = {
        f"s{i}": {
            "run": f"echo s{i} >> ran; cat {'{name}' if piece.coarse else '{in}'} > {{out}}",
            "reads": {
                "above": [f"s{j}.txt" for j in piece.steps],
                "sources": [f"src{j}" for j in piece.sources],
                "name": f"name{i}",
            },
            "writes": f"s{i}.txt",
        }
        for i, piece in enumerate(drawn)
    }
    return json.dumps({"kind": "steps", "steps": steps})


@contextmanager
def laid_out(drawn: list[Piece], sources: Sequence[str]) -> Iterator[Project]:
    with TemporaryDirectory() as folder:
        project = Project(Path(folder, "project"))
        project.spec("a", spec_of(drawn))
        for i in range(len(drawn)):
            project.write(f"name{i}", f"s{i}\n")
        write_sources(project, sources)
        yield project


def write_sources(project: Project, sources: Sequence[str]) -> None:
    for i, text in enumerate(sources):
        project.write(f"src{i}", f"{text}\n")


def built(project: Project, *words: str) -> list[str]:
    """The steps that were executed, sorted."""
    (project.root / "ran").unlink(missing_ok=True)
    said = project.call("run", *words)
    assert said.code == 0, said
    return sorted(project.read("ran").split()) if (project.root / "ran").exists() else []


def outputs(project: Project, drawn: list[Piece], run: str = "a") -> list[str]:
    return [project.read(f"runs/{run}/s{i}.txt") for i in range(len(drawn))]


versions = st.tuples(*[st.sampled_from("pqr")] * SOURCES)
few = settings(max_examples=15, deadline=None)


@few
@given(pieces(), versions, versions)
def test_exactly_what_an_edit_reaches_is_redone(drawn: list[Piece], old: Sequence[str], new: Sequence[str]) -> None:
    """Not what is below an output that came out the same."""
    before, after = results(drawn, old), results(drawn, new)
    with laid_out(drawn, old) as project:
        assert built(project) == [f"s{i}" for i in range(len(drawn))]
        assert outputs(project, drawn) == [text for _, text in before]
        write_sources(project, new)
        assert built(project) == [f"s{i}" for i in range(len(drawn)) if before[i][0] != after[i][0]]
        assert outputs(project, drawn) == [text for _, text in after]


@few
@given(pieces(), versions, versions)
def test_an_edit_that_is_undone_executes_nothing(drawn: list[Piece], old: Sequence[str], new: Sequence[str]) -> None:
    with laid_out(drawn, old) as project:
        built(project)
        write_sources(project, new)
        built(project)
        write_sources(project, old)
        assert built(project) == []
        assert outputs(project, drawn) == [text for _, text in results(drawn, old)]


@few
@given(pieces(), versions)
def test_how_many_run_at_once_changes_no_byte(drawn: list[Piece], sources: Sequence[str]) -> None:
    for words in (["-n", "1"], ["-n", "2"], ["-n", "8"]):
        with laid_out(drawn, sources) as project:
            built(project, *words)
            assert outputs(project, drawn) == [text for _, text in results(drawn, sources)]


@few
@given(pieces(), versions)
def test_a_renamed_run_executes_nothing(drawn: list[Piece], sources: Sequence[str]) -> None:
    with laid_out(drawn, sources) as project:
        built(project)
        (project.root / "specs/a.yaml").rename(project.root / "specs/b.yaml")
        assert built(project) == []
        assert outputs(project, drawn, "b") == [text for _, text in results(drawn, sources)]


def test_a_file_that_came_after_the_plan_is_the_reason_and_no_edit_is_told_of() -> None:
    receipt = recorded({"params": {"constraints": "x"}}, {"a": "1"}, {}, ("idea.json", "a"))
    reasons = [*stale_reasons(receipt, {"params": {}}, {"a": "1", "idea.json": "2"}, {})]
    assert [(each.what, each.where) for each in reasons] == [
        (CAME_LATER, "idea.json"),
        ("input changed while it ran", "a"),
    ]
