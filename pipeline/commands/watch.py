"""`coppice watch`, and how any feed comes to a terminal: full screen, redrawn in place, or one snapshot.

Full screen needs textual.  Without it a terminal gets the snapshot redrawn, which says so; what is no terminal gets
one snapshot, for pipes and files."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import inf, nan
from shutil import get_terminal_size
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import OneRunCommand, option, print_text
from pipeline.commands.dashboard import HOST, become_server, check_installed
from pipeline.commands.selection import ability_of
from pipeline.commands.steer import pause_run, resume_run
from pipeline.core.projection import Json, apply_delta
from pipeline.core.text import duration, plural
from pipeline.errors import SpecError, did_you_mean
from pipeline.screens.feed import RunFeed
from pipeline.screens.show import Feed, RecordedFeed, Show, open_show, record_run, write_show
from pipeline.store.steering import SteeringLog
from pipeline.views.lines import cell_text, cut_text, encodable, text_width
from pipeline.views.live import Screen, ScreenLine, terminal_look
from pipeline.views.snapshot import Place, block_lines, filtered_rows, head_lines, snapshot

# Why there is no full screen, and what to do.
WITHOUT_TEXTUAL = "plain; for keys and details: pip install 'coppice[watch]'; q quits"
WITHOUT_STDERR = "plain; for keys and details let standard error be the terminal, too; q quits"
POLL_SECONDS, SHOW_POLL_SECONDS = 0.5, 0.1


class WatchCommand(OneRunCommand):
    name = "watch"
    doc_usage = "RUN[:ITEM] [--view NAME] [--filter TEXT]"
    doc_purpose = "show a run on a full screen as it goes; without a terminal, as it stands now"
    doc_description = (
        "With ITEM, such as RUN:d0.n0.i2, its details. Keys: j k g G / Enter Esc Tab p ? q. The run does not notice:"
        " nothing is locked or written, unless p pauses it, which asks first. A full screen needs textual, which"
        " `pip install 'coppice[watch]'` brings; without it the snapshot is redrawn in place until q or Ctrl-C."
    )
    cmd_options = (
        option("view", "the block to begin with, by its name, such as tree", "", "NAME"),
        option("filter", "only rows with this text or status", "", "TEXT"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        run, _, item = args[0].partition(":")
        plan = project.load([run], keep=False)[run]
        ability_of(plan, kinds.VIEW, "has nothing to watch")
        feed = RunFeed(run)
        place = {"item": item, "view": params["view"], "filter": params["filter"]}
        if not is_terminal():
            print_text("\n".join(snapshot_lines(feed, **place)))
            return 0
        steering = RunSteering(run) if plan.kind in kinds.STEER.kinds else None
        return present(feed, place, POLL_SECONDS, steering=steering, is_linked=True)


def replay_show(run: str, params: Mapping[str, Any]) -> int:
    """`coppice replay RUN --show`: a run's recording, or one that is made from its records."""
    check_show_options(params)
    if params["save"]:
        show, _ = record_run(run, with_details=True)
        size, changes = write_show(params["save"], show), plural(len(show.changes), "change")
        print(f"{changes} of {run} in {duration(show.seconds, 0)}: {params['save']}, {plural(size, 'byte')}")
        return 0
    feed = open_show(run, params["from"], params["speed"])
    if params["page"]:
        check_installed("replay")
        become_server(HOST, params["port"], run, params["from"], params["speed"])
    if not is_terminal():
        print_text("\n".join(headline_lines(feed.show, feed.now()["command"])))
        return 0
    return present(feed, {}, SHOW_POLL_SECONDS, ShowSteering(feed), is_over=lambda: feed.is_over)


def check_show_options(params: Mapping[str, Any]) -> None:
    """Refuse options of `replay` that do not go together, and a speed that is none."""
    others = {"save": ("from", "speed", "page"), "json": ("show",)}
    for name, against in others.items():
        for other in against if params[name] else ():
            if params[other]:
                raise InvalidCommand(f"replay: --{other} does not go with --{name}")
    try:
        speed = float(params["speed"] or 1)
    except ValueError:
        speed = nan
    if not 0 < speed < inf:
        raise InvalidCommand(f"replay: --speed wants a number above 0, such as 2, not '{params['speed']}'")


class RunSteering:
    """The key `p` for a run: as `coppice pause` and `coppice resume`."""

    def __init__(self, run: str) -> None:
        self._run, self._log = run, SteeringLog(run)

    def question(self, projection: Json) -> str:
        if self._log.pause() is not None:
            return f"let {self._run} go on?"
        return f"pause {self._run}, so that what runs ends and nothing that costs is started?"

    def act(self, projection: Json) -> str:
        return (resume_run if self._log.pause() is not None else pause_run)(self._run)


class ShowSteering:
    """The key `p` for a show, which it holds."""

    def __init__(self, feed: RecordedFeed) -> None:
        self._feed = feed

    def question(self, projection: Json) -> str:
        return ""

    def act(self, projection: Json) -> str:
        return self._feed.hold()


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def snapshot_lines(feed: Feed, item: str = "", view: str = "", filter: str = "") -> list[str]:  # noqa: A002 - its option
    """A run as it stands, or one block or item of it."""
    width = get_terminal_size((100, 24)).columns
    projection = feed.now()
    projection = {**projection, "blocks": [_filtered(block, filter) for block in projection["blocks"]]}
    if not (item or view):
        return snapshot(projection, width)
    blocks = feed.details(item) if item else [each for each in projection["blocks"] if each["name"] == view]
    if not blocks:
        names = [block["name"] for block in projection["blocks"]]
        raise SpecError(f"watch: --view {view}: there is no such view{did_you_mean(view, names)}")
    lines = head_lines(projection, width, bounded=False)
    return [*lines, *(line for block in blocks for line in ("", *block_lines(block, width)))]


def _filtered(block: Json, text: str) -> Json:
    return {**block, "rows": filtered_rows(block["rows"], text)} if block["is"] == "table" else block


def headline_lines(show: Show, command: str) -> Iterator[str]:
    """How a show goes where nobody can see it move: its headlines with their times, and how it ends."""
    last, end = None, show.start
    for seconds, projection in show.frames():
        if projection["headline"] != last:
            last = projection["headline"]
            yield f"{duration(seconds, 0):>12}  {cell_text(last)}"
        end = projection
    yield from ("", *snapshot({**end, "command": command}, get_terminal_size((100, 24)).columns))


# --- On a terminal.


def present(
    feed: Feed,
    place: dict[str, str],
    poll_seconds: float,
    steering: RunSteering | ShowSteering | None = None,
    is_linked: bool = False,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Show a feed until the user has seen enough.  `is_over`: nothing more comes, and a plain display may end."""
    gc.enable()  # what is drawn is dropped again; commands that end soon do without
    unicode = terminal_look(sys.stdout.encoding, os.environ).unicode
    plain = WITHOUT_TEXTUAL if find_spec("textual") is None else WITHOUT_STDERR if not sys.stderr.isatty() else ""
    if plain:
        return redraw(feed, poll_seconds, unicode, is_over, plain)
    from pipeline.screens.terminal import WatchApp

    app = WatchApp(feed, Place(**place), steering, is_linked, unicode, poll_seconds=poll_seconds)
    app.run(mouse=False)
    return app.return_code or 0


def redraw(feed: Feed, poll_seconds: float, unicode: bool, is_over: Callable[[], bool], plain: str) -> int:
    """Redraw the snapshot in place until q, Ctrl-C or the end of a show, whose last frame stays; `plain` says why."""
    projection = feed.now()

    def lines(width: int, height: int) -> list[ScreenLine]:
        drawn = [*snapshot(projection, width - 1, height - 2, unicode), plain]
        fitting = [cut_text(encodable(line, sys.stdout), width - 1) for line in drawn]
        return [ScreenLine(line, text_width(line)) for line in fitting]

    screen = Screen(sys.stdout, lines)
    with keys_at_once(sys.stdin.fileno()) as stdin:
        screen.open()
        try:
            while not is_over() and not _is_quit(stdin, poll_seconds):
                if change := feed.poll():
                    projection = apply_delta(projection, change)
                    screen.redraw_soon()
        except KeyboardInterrupt:
            pass  # how it is ended, like q
        finally:
            for line in snapshot(projection, *_last_size(), unicode) if is_over() else ():
                screen.say(encodable(line, sys.stdout))
            screen.close()
    return 0


def _last_size() -> tuple[int, int]:
    columns, rows = get_terminal_size()
    return columns - 1, rows - 1


def _is_quit(stdin: int, seconds: float) -> bool:
    """Wait for a key, so long; an end of the input is one too."""
    ready, _, _ = select.select([stdin], [], [], seconds)
    return bool(ready) and os.read(stdin, 1) in (b"q", b"")


@contextmanager
def keys_at_once(stdin: int) -> Iterator[int]:
    """Read keys without Return, and leave the terminal as it was, also when a signal asks us to end."""
    before = termios.tcgetattr(stdin)
    handlers = {each: signal.signal(each, _end_by_signal) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(stdin)
        yield stdin
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end_by_signal(number: int, _frame: Any) -> None:
    sys.exit(128 + number)
