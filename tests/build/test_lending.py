"""Places that targets lend while they wait: each has one again in the end, and nothing is counted twice."""

from contextlib import chdir, closing
from pathlib import Path
from threading import Thread

import pytest
from kit.project import PATIENCE, Project

from pipeline.build.board import Board
from pipeline.build.project import load
from pipeline.build.runner import RoomRunner
from pipeline.build.session import BuildSession
from pipeline.core.outcome import BUILT, FAILED, Outcome
from pipeline.machine.job import Job, Stage
from pipeline.store.steering import PAUSED, SteeringLog, append_request
from pipeline.views.reporters import ReporterGroup

STEPS = """\
kind: steps
steps:
  lender: {run: "true > {out}", writes: a.txt}
  above: {run: "true > {out}", writes: b.txt}
  bad: {run: "false > {out}", writes: c.txt}
  timed: {run: "cat {in} > {out}", reads: {above: b.txt}, writes: d.txt, exclusive: true}
"""


def test_a_place_is_taken_back_though_what_has_to_run_alone_is_ready_and_never_starts(project: Project) -> None:
    """After a failure nothing more is started, so nobody may wait for it."""
    project.spec("x", STEPS)
    with chdir(project.root), closing(BuildSession(load(["x"]))) as session:
        session.prepare()
        board = Board(session, {*range(4)}, threads=3, go_on=False, start_thread=pytest.fail)
        lender, above, bad = (session.graph.index[f"x:{name}"] for name in ("lender", "above", "bad"))
        assert {board.take(), board.take(), board.take()} == {lender, above, bad}
        board.lend_place(lender)
        board.hand_in(above, Outcome(BUILT))  # now the timed one is ready, and waits for what runs
        back = Thread(target=board.take_back, args=[lender], daemon=True)
        back.start()
        board.hand_in(bad, Outcome(FAILED))
        assert board.take() is None
        back.join(PATIENCE)
        assert not back.is_alive()
        board.hand_in(lender, Outcome(BUILT))


def lend_at_once(job: Job) -> None:
    with job.places.lend(job.target):
        pass
    for (path,) in job.writes.values():
        Path(path).touch()


def test_threads_that_are_wanted_while_the_first_ones_start_are_started_once(project: Project) -> None:
    count = 60
    step = '  s:\n    for: {n: {range: 60}}\n    run: "echo {n} > {out}"\n    writes: "{n}.txt"\n'
    project.spec("x", f"kind: steps\nsteps:\n{step}")
    with chdir(project.root), closing(BuildSession(load(["x"]))) as session:
        session.prepare()
        session.maker.stages["x"] = {"run": Stage("lends/1", lend_at_once, asks=True)}
        runner = RoomRunner(session, {*range(count)}, count, ReporterGroup([]), go_on=True)
        runner.run_tasks(None)
        assert runner.statuses == dict.fromkeys(range(count), BUILT)


def test_what_may_not_ask_in_a_paused_run_keeps_no_other_run_from_asking(project: Project) -> None:
    for run, names in (("x", "abc"), ("y", "de")):
        steps = [f'  {name}: {{run: "echo {name} > {{out}}", writes: {name}.txt}}\n' for name in names]
        project.spec(run, "".join(["kind: steps\nsteps:\n", *steps]))
    with chdir(project.root), closing(BuildSession(load(["x", "y"]))) as session:
        session.prepare()
        asking = {"run": Stage("asks/1", lend_at_once, asks=True, paid=True)}
        session.maker.stages.update(x=asking, y=asking)
        session.steering["x"] = SteeringLog("x")
        board = Board(session, {*range(5)}, threads=1, go_on=True, start_thread=pytest.fail)
        a, b, c, d, e = (session.graph.index[name] for name in ("x:a", "x:b", "x:c", "y:d", "y:e"))
        for i in (a, b, c, d, e):
            assert board.take() == i
            if board.admit_asker(session.graph.targets[i]):
                board.lend_place(i)
            else:
                board.note_crowded(i)
        board.take_back(a)
        board.hand_in(a, Outcome(BUILT))
        append_request("x", PAUSED)
        board.take_back(d)
        board.hand_in(d, Outcome(BUILT))
        taken: list[int | None] = []
        thread = Thread(target=lambda: taken.append(board.take()), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert taken == [e]
