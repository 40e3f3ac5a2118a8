"""What a stage gets to do its work, and how it says that the work failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pipeline.core.graph import Target
from pipeline.edge.kept import Kept
from pipeline.edge.process import Processes
from pipeline.edge.workers import Workers


class Papers(Protocol):
    """Of a job, all that a stage needs which makes files of files: it starts nothing and asks nobody."""

    @property
    def target(self) -> Target: ...
    @property
    def reads(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def writes(self) -> Mapping[str, Sequence[str]]: ...


class Job(NamedTuple):
    """One attempt at a target.  Outputs go to the paths in `writes`; they are put in place afterwards.

    `store`: where results are kept; a stage only keeps others from it.  `kept`: what targets of a build share.
    `say`: how far it is, in a line for people."""

    target: Target
    reads: Mapping[str, Sequence[str]]
    writes: Mapping[str, Sequence[str]]
    log: str
    processes: Processes
    workers: Workers
    kept: Kept
    store: str = ""
    say: Callable[[str], None] = lambda _: None


def read(job: Papers, port: str) -> str:
    """The one file there."""
    (path,) = job.reads[port]
    return path


def written(job: Papers, port: str) -> str:
    (path,) = job.writes[port]
    return path


class StageFailed(Exception):
    """The candidate's failure, not the tool's: recorded with its exit status."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def nothing(_target: Target) -> Sequence[str]:
    return ()


class Stage(NamedTuple):
    """`code` stands for what the stage does in every recipe: change it when results change."""

    code: str
    do: Callable[[Job], None]
    own_folder: bool = False  # a command may leave scratch files beside its outputs
    passed: Callable[[Target], Sequence[str]] = nothing  # names of variables that it gets from whoever builds
