"""coppice plan: what would run, in which order, how long it would take; and nothing is executed."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.building import demo_of
from kit.project import Project

from pipeline.core.schedule import Schedule, wall_time
from pipeline.store.files import TICK_NS

DEMO = """
kind: steps
steps:
  a:
    for: {i: {range: 4}}
    run: cat {in} >> ran.txt; cat {in} > {out}
    reads: src/{i}.txt
    writes: a/{i}.txt
  b:
    for: {i: {range: 4}}
    run: tr -d 0-9 < {in} > {out}
    reads: a/{i}.txt
    writes: b/{i}.txt
  pair:
    for: [{l: 0, r: 1}, {l: 2, r: 3}]
    run: cat {in} > {out}
    reads: ["b/{l}.txt", "b/{r}.txt", "src/{l}.txt"]
    writes: pair/{l}.txt
  sum:
    run: sort {in} > {out}
    reads: [{step: pair}]
    writes: sum.txt
"""


@pytest.fixture
def demo(project: Project) -> Project:
    return demo_of(project, DEMO, {f"src/{i}.txt": f"{i}\n" for i in range(4)})


def plan(project: Project, *words: str) -> dict[str, Any]:
    said = project.call("plan", "--json", *words)
    assert (said.code, said.err) == (0, "")
    return dict(json.loads(said.out))


def actions(project: Project, *words: str) -> dict[str, str]:
    return {item["name"]: item["action"] for item in plan(project, *words)["todo"]}


def files(root: Path) -> dict[str, bytes]:
    """What is there, folders too."""
    found = sorted(root.rglob("*"))
    return {path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else b"" for path in found}


def test_nothing_is_executed_and_nothing_written_but_the_cache_of_the_plan(demo: Project) -> None:
    before = files(demo.root)
    assert demo.call("plan").code == 0
    after = files(demo.root)
    assert after.pop("runs/demo/.coppice/graph")
    assert after.keys() - before.keys() == {"runs", "runs/demo", "runs/demo/.coppice"}
    assert {path: after[path] for path in before} == before


def test_a_plan_asked_for_between_an_edit_of_the_spec_and_a_build_hides_nothing_from_it(demo: Project) -> None:
    demo.call()
    while time.time_ns() < (demo.root / "runs/demo/sum.txt").stat().st_ctime_ns + TICK_NS:
        time.sleep(0.01)  # until then an output may be written again without a trace, so it is looked at anyway
    demo.call("run")
    demo.spec("demo", DEMO.replace("sort", "sort -r"))
    for _ in range(2):
        assert actions(demo) == {"demo:sum": "run"}
    assert "built demo:sum" in demo.call().out


def test_targets_come_in_the_order_in_which_they_would_run(demo: Project) -> None:
    names = [item["name"] for item in plan(demo)["todo"]]
    assert names == [*(f"demo:{s}.{i}" for s in "ab" for i in range(4)), "demo:pair.0.1", "demo:pair.2.3", "demo:sum"]


def test_only_what_is_asked_for_and_what_it_needs_is_planned(demo: Project) -> None:
    assert set(actions(demo, "demo:b.2")) == {"demo:a.2", "demo:b.2"}
    assert set(actions(demo, "runs/demo/a/1.txt", "demo:a.0")) == {"demo:a.0", "demo:a.1"}


def test_what_reads_an_output_that_is_made_anew_runs_only_maybe(demo: Project) -> None:
    demo.call()
    demo.write("src/1.txt", "one\n")
    assert actions(demo) == {"demo:a.1": "run", "demo:b.1": "maybe", "demo:pair.0.1": "maybe", "demo:sum": "maybe"}
    said = demo.call("plan").out
    assert said.startswith("11 targets: 1 to run, 3 to run maybe, 7 fresh\n")
    assert re.search(r"\n  run       demo:a\.1       0\.\d\d s  input changed src/1\.txt\n", said)
    assert re.search(r"\n  maybe     demo:b\.1       0\.\d\d s  if what it reads comes out different\n", said)
    assert re.search(r"\nat most 0\.\d\d s one after another", said)


def test_results_that_are_in_the_store_are_recalled_all_the_way_down(demo: Project) -> None:
    demo.call()
    demo.write("src/1.txt", "one\n")
    demo.call()
    demo.write("src/1.txt", "1\n")
    assert set(actions(demo).values()) == {"recalled"}
    assert plan(demo)["serial"] == 0


def test_of_a_new_run_it_is_said_what_may_be_recalled_once_more_is_made(demo: Project) -> None:
    other = "  other:\n    run: 'echo > {out}'\n    writes: other\n"
    demo.spec("demo", DEMO + other)
    demo.call()
    demo.spec("new", DEMO.replace("cat {in} >> ran.txt; ", "") + other)
    said = demo.call("plan", "new").out
    assert said.startswith("12 targets: 11 to run, 1 recalled\n")
    assert "of those to run, 7 targets may be recalled: that shows when what they read has been made\n" in said
    assert "4 built, 8 recalled" in demo.call("run", "new").out
    assert "may be recalled" not in demo.call("plan").out


def test_an_output_that_is_recalled_as_it_was_leaves_its_readers_out_of_the_plan(demo: Project) -> None:
    demo.call()
    demo.write("runs/demo/a/1.txt", "tampered\n")
    assert actions(demo) == {"demo:a.1": "recalled"}


def test_an_ignored_target_and_what_reads_it_are_left_out(demo: Project) -> None:
    demo.call("ignore", "demo:a.1")
    todo = {item["name"]: (item["action"], item["why"]) for item in plan(demo, "demo:b.1", "demo:b.2")["todo"]}
    for target in ("demo:a.1", "demo:b.1"):
        assert todo[target] == ("ignored", ["left out: demo:a.1 is ignored"])
    assert todo["demo:b.2"][0] == "run"


def test_what_is_left_out_is_counted_as_the_build_counts_it_whether_fresh_or_not(demo: Project) -> None:
    demo.call()
    demo.call("ignore", "demo:b.1")
    ignored = {"demo:b.1": "ignored", "demo:pair.0.1": "ignored", "demo:sum": "ignored"}
    for _ in range(2):  # before and after a build
        assert actions(demo) == ignored
        assert demo.call("plan").out.startswith("11 targets: 3 ignored, 8 fresh\n")
        assert ", 8 fresh, 0 failed, 3 ignored in " in demo.call("run").out
    demo.write("src/0.txt", "0, but longer\n")
    assert actions(demo) == {"demo:a.0": "run", "demo:b.0": "maybe", **ignored}


def test_what_failed_was_forgotten_or_never_built_is_told_apart(demo: Project) -> None:
    demo.spec("demo", DEMO.replace("run: tr", "run: test {i} != 2 && tr"))
    demo.call("run", "-c")
    demo.call("forget", "demo:a.0")
    reasons = {item["name"]: item["why"] for item in plan(demo)["todo"]}
    assert reasons["demo:b.2"] == ["failed"]
    assert reasons["demo:a.0"] == ["forgotten"]
    assert reasons["demo:sum"] == ["never built"]


def test_nothing_to_do_is_said_in_one_line(demo: Project) -> None:
    demo.call()
    said = demo.call("plan")
    assert (said.code, said.out) == (0, "nothing to do: 11 targets up to date\n")


def test_a_missing_input_is_refused_as_a_build_would(demo: Project) -> None:
    (demo.root / "src/1.txt").unlink()
    said = demo.call("plan")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("coppice: specs/demo.yaml:")
    assert said.err == demo.call("run").err


SLOW = """
kind: steps
rooms: {one: 1}
steps:
  a:
    for: {i: {range: %d}}
    run: sleep 0.2; echo {i} > {out}
    reads: src.txt
    writes: a/{i}.txt
  all:
    run: sleep 0.1; cat {in} > {out}
    reads: [{step: a}]
    writes: all.txt
"""


def test_times_are_those_of_the_last_runs_in_sum_and_side_by_side(project: Project) -> None:
    project.spec("demo", SLOW % 4)
    project.write("src.txt", "1")
    project.call("run")
    project.write("src.txt", "2")
    told = plan(project, "-n", "4")
    assert all(item["seconds"] >= 0.2 for item in told["todo"][:-1])
    assert told["serial"] == pytest.approx(sum(item["seconds"] for item in told["todo"]), abs=0.01)
    assert 0.3 <= told["wall"] < told["serial"] - 0.5
    assert plan(project, "-n", "1")["wall"] == told["serial"]
    project.spec("demo", (SLOW % 4).replace("    writes: a/", "    room: one\n    writes: a/"))
    assert plan(project, "-n", "4")["wall"] == told["serial"]


def test_a_target_that_never_ran_counts_like_others_of_its_step(project: Project) -> None:
    project.spec("demo", SLOW % 2)
    project.write("src.txt", "1")
    project.call("run")
    project.spec("demo", SLOW % 3)
    new = plan(project)["todo"][0]
    assert (new["name"], new["guessed"]) == ("demo:a.2", True)
    assert new["seconds"] >= 0.2
    said = project.call("plan").out
    assert re.search(r"demo:a\.2  ~0\.\d\d s  never built\n", said)
    assert "\n~ never ran itself" in said


def test_no_time_is_invented_where_none_is_known(demo: Project) -> None:
    assert {item["seconds"] for item in plan(demo)["todo"]} == {None}
    said = demo.call("plan").out
    assert said.endswith("\n\n? never ran: no time is known of 11 targets\n")
    assert "one after another" not in said


def test_a_recalled_result_counts_with_the_time_it_took_where_it_was_made(tmp_path: Path) -> None:
    here, there = Project(tmp_path / "here"), Project(tmp_path / "there")
    for project in (here, there):
        project.spec("demo", "store: ../shared\n" + SLOW % 1)
        project.write("src.txt", "1")
        project.call("run")
    there.write("src.txt", "2")
    assert plan(there)["todo"][0]["seconds"] >= 0.2


def test_many_targets_are_summed_up_by_step_and_all_shown_when_asked(project: Project) -> None:
    project.write("src.txt", "1")
    project.spec("demo", SLOW % 60)
    said = project.call("plan").out
    assert "\n  run       demo:a x60  ?  never built\n  run       demo:all    ?  never built\n" in said
    assert "\nthe first 10 of them, in order (--all shows all):\n" in said
    assert len(re.findall(r"demo:a\.\d+", said)) == 10
    assert len(re.findall(r"demo:a\.\d+", project.call("plan", "--all").out)) == 60


def test_graph_only_counts_the_targets_and_looks_at_nothing_else(demo: Project) -> None:
    (demo.root / "src/1.txt").unlink()
    demo.spec("other", DEMO)
    said = demo.call("plan", "--graph-only")
    assert (said.code, said.out) == (0, "22 targets\n")
    assert demo.call("plan", "--graph-only", "demo").out == "11 targets\n"
    demo.spec("one", "kind: steps\nsteps: {a: {run: 'touch {out}', writes: a}}\n")
    assert demo.call("plan", "--graph-only", "one").out == "1 target\n"
    (demo.root / "runs/one/.coppice/graph").unlink()
    made = {
        path.relative_to(demo.root / "runs").as_posix() for path in (demo.root / "runs").rglob("*") if path.is_file()
    }
    assert made == {"demo/.coppice/graph", "other/.coppice/graph"}


COMES_TRUE = {"run": {"built", "recalled"}, "recalled": {"recalled"}, "maybe": {"built", "recalled", None}}


def edit(project: Project, rng: random.Random) -> None:
    i = rng.randrange(4)
    place = rng.choice([f"src/{i}.txt", f"src/{i}.txt", f"runs/demo/a/{i}.txt", f"runs/demo/b/{i}.txt"])
    if place.startswith("runs") and rng.random() < 0.3:
        (project.root / place).unlink(missing_ok=True)
    else:
        project.write(place, rng.choice(["0\n", "1\n", f"0{rng.randrange(50)}\n"]))


@pytest.mark.parametrize("seed", range(2))
def test_a_build_does_what_was_foreseen(demo: Project, seed: int) -> None:
    """What is sure comes true, what is not in the plan is left alone."""
    rng = random.Random(seed)
    seen = set()
    for _ in range(20):
        for _ in range(rng.randrange(1, 4)):
            edit(demo, rng)
        if rng.random() < 0.2:
            demo.spec("demo", DEMO.replace("0-9", rng.choice(["0-9", "0-5"])))
        words = rng.choice([[], [], ["demo:pair.0.1"], ["demo:b.2", "demo:a.1"]])
        foreseen = actions(demo, *words)
        done = {name: how for how, name in re.findall(r"^(built|recalled) (\S+)", demo.call("run", *words).out, re.M)}
        assert all(done.get(name) in COMES_TRUE[action] for name, action in foreseen.items())
        assert done.keys() <= foreseen.keys()
        seen |= {(action, done.get(name)) for name, action in foreseen.items()}
    assert seen >= {("run", "built"), ("recalled", "recalled"), ("maybe", "built"), ("maybe", None)}


@st.composite
def schedules(draw: st.DrawFn) -> tuple[dict[int, float], dict[int, set[int]], int]:
    count = draw(st.integers(1, 8))
    seconds = {i: float(draw(st.integers(0, 3))) for i in range(count)}
    above = {i: draw(st.sets(st.integers(0, i - 1))) if i else set() for i in range(count)}
    return seconds, above, draw(st.integers(1, 4))


@given(schedules())
def test_side_by_side_takes_no_less_than_the_longest_chain_and_no_more_than_one_after_another(
    drawn: tuple[dict[int, float], dict[int, set[int]], int],
) -> None:
    seconds, above, jobs = drawn
    chain: dict[int, float] = {}
    for i in seconds:
        chain[i] = seconds[i] + max((chain[j] for j in above[i]), default=0.0)
    serial = sum(seconds.values())
    took = wall_time(Schedule(above, {}, {}), seconds, jobs)
    longest = max(chain.values())
    assert max(longest, serial / jobs) <= took <= serial
    assert wall_time(Schedule(above, {}, {}), seconds, 1) == serial
    assert wall_time(Schedule(above, {}, {}), seconds, len(seconds)) == longest
    assert wall_time(Schedule(above, dict.fromkeys(seconds, ("r",)), {"r": 1}), seconds, jobs) == serial
