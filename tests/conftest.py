"""Settings of all tests, and the fixtures that most of them use."""

import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from kit.project import Project

from pipeline.core.cages import ISOLATED, LANDLOCK, CageKeys
from pipeline.lean.toolchain.cache import cache_folder
from pipeline.machine.grades import lacking
from pipeline.machine.process import Processes

# A busy machine breaks none; each run tries others, so that fewer are enough for one.
settings.register_profile("laws", deadline=None, max_examples=40)
settings.load_profile("laws")
# Who starts the tests in the background may ignore Ctrl-C, and what we start would too.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


class Collecting:
    """While tests are collected nothing is started or fetched, nor read from where it is kept once it was fetched.

    Python tells of each by an event."""

    starts = ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system", "socket.connect")

    def __init__(self) -> None:
        self.cached = str(cache_folder())
        self.on = False
        sys.addaudithook(self.refuse)

    def refuse(self, event: str, args: tuple[object, ...]) -> None:
        if self.on and (event in self.starts or (event == "open" and str(args[0]).startswith(self.cached))):
            raise RuntimeError(f"{event} {args[:2]} while tests are collected")


COLLECTING = Collecting()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    COLLECTING.on = True
    gc.disable()  # all of it stays, and looking at it again and again would take a third of the time
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        COLLECTING.on = False


@pytest.fixture(autouse=True, scope="session")
def own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key that signs is none of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.chdir(tmp_path)
    made = Processes(["x"])
    yield made
    made.close()


@pytest.fixture(params=[LANDLOCK, ISOLATED])
def grade(request: pytest.FixtureRequest) -> str:
    """Each cage by its name; one that this machine cannot have is skipped, and says why."""
    if why := lacking(CageKeys(request.param)):
        pytest.skip(why)
    return str(request.param)
