"""Settings of all tests, and the fixtures that most of them use."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from kit.project import Project

from pipeline.machine.process import Processes

settings.register_profile("laws", deadline=None)  # a busy machine breaks none
settings.load_profile("laws")
# Who starts the tests in the background may ignore Ctrl-C, and what we start would too.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.chdir(tmp_path)
    made = Processes(["x"])
    yield made
    made.close()
