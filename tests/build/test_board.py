"""The queue of a build: what must be told before more may start is told, however events and rounds of news overlap."""

from collections.abc import Iterator, Sequence
from contextlib import chdir, closing, contextmanager
from threading import Thread

import pytest
from kit.project import PATIENCE, Project
from kit.tree_runs import SPEC, small_search

from pipeline.build.board import Board
from pipeline.build.project import load
from pipeline.build.session import BuildSession
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, SKIPPED, Outcome


@contextmanager
def at_assign(project: Project, *runs: str) -> Iterator[tuple[Board, int, Sequence[Target]]]:
    """A board of one thread, which has taken the target that assigns ideas."""
    with chdir(project.root), closing(BuildSession(load(runs))) as session:
        session.prepare()
        targets = session.graph.targets
        board = Board(session, {*range(len(targets))}, threads=1, go_on=True, start_thread=pytest.fail)
        while (i := board.take()) is not None and targets[i].stage != "assign":
            board.hand_in(i, Outcome(BUILT))
        assert i is not None
        yield board, i, targets


def test_a_round_of_news_frees_only_what_waits_for_targets_that_it_told(project: Project) -> None:
    small_search(project)
    with at_assign(project, "x") as (board, i, targets):
        board.news()
        board.hand_in(i, Outcome(FAILED))  # between the news and the end of their round
        board.release_told()
        assert board.news() == [(targets[i], Outcome(FAILED))]
        board.release_told()
        ended = [(target.stage, said) for target, said in board.news() if isinstance(said, Outcome)]
        assert {"implement", "sweep", "promote"} <= {stage for stage, said in ended if said.status == SKIPPED}


def test_what_is_only_to_be_told_yet_has_no_place_for_which_another_waits(project: Project) -> None:
    small_search(project).spec("y", SPEC)
    with at_assign(project, "x", "y") as (board, i, targets):
        board.hand_in(i, Outcome(BUILT))
        taken: list[int | None] = []
        thread = Thread(target=lambda: taken.append(board.take()), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert [targets[i].run for i in taken if i is not None] == ["y"]
