"""The commands `report`, `dashboard` and `watch`; a run as a file, as a served page, and on a terminal.

A full screen needs textual.  Without it a terminal gets the snapshot redrawn, which says so; what is no terminal gets
one snapshot, for pipes and files.  The server of a page is a process without the command line in it: of the memory that
it may have this would be a quarter."""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import inf, nan
from shutil import get_terminal_size
from typing import Any, NoReturn, TextIO

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.names import EXTRAS, PAGE_PORT
from pipeline.commands.command import NewCommand, OneRunCommand, option, print_text
from pipeline.commands.selection import ability_of, run_of_word
from pipeline.commands.steer import pause_run, resume_run
from pipeline.core.projection import Json, Text, apply_delta, as_json
from pipeline.core.text import duration, plural
from pipeline.errors import SpecError, Unavailable, did_you_mean
from pipeline.machine.process import install_command, module_command
from pipeline.screens.access import LOCALHOST, Discretion, is_loopback
from pipeline.screens.feed import RunFeed, page_sources
from pipeline.screens.show import Feed, RecordedFeed, Show, open_show, record_run, write_show
from pipeline.store.files import write_output
from pipeline.store.steering import SteeringLog
from pipeline.views.lines import cell_text, cut_text, encodable, text_width
from pipeline.views.live import Screen, ScreenLine, terminal_look
from pipeline.views.pages.document import MOST_BYTES, Report, report_document
from pipeline.views.snapshot import Place, block_lines, count_on, filtered_rows, head_lines, snapshot

# --- report.

# Their details are the last to be left out of a file that grows too large.
WINNERS = ("promoted", "proved", "passed")


class ReportCommand(OneRunCommand):
    name = "report"
    doc_usage = "RUN [--out FILE]"
    doc_purpose = "write a run as one HTML file: its numbers, tables, pictures, and the details of each item"
    doc_description = (
        "The file needs nothing beside it, opens offline and loads nothing. Of a run that is being built it shows how"
        f" things stand now. Beyond {MOST_BYTES // 1_000_000} MB, code and logs of details are left out, from the last"
        " item on, then the details; the page says of each where it lies."
    )
    cmd_options = (
        option("out", "the file to write [default: runs/RUN/report.html]", "", "FILE"),
        option("full", "leave nothing out, however large the file gets"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        run = run_of_word(args[0])
        if args[0] != run:
            raise SpecError(f"report: '{args[0]}' is no run; all of one stands in a file: `report {run}`")
        out = params["out"] or f"runs/{run}/report.html"
        if os.path.isdir(out):
            raise InvalidCommand(f"report: --out {out}: it is a folder; name a file, such as {run}.html")
        report = run_report(run, 0 if params["full"] else MOST_BYTES)
        os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
        write_output(out, report.html.encode())
        print(f"written: {out}, {len(report.html) / 1000:,.0f} kB{left_out(report)}")
        return 0


def left_out(report: Report) -> str:
    parts = [f"code and logs of {plural(report.cut, 'item')}"] * bool(report.cut)
    parts += [f"all details of {plural(report.dropped, 'item')}"] * bool(report.dropped)
    return f"; left out: {' and '.join(parts)}; --full leaves nothing out" if parts else ""


def run_report(run: str, most: int) -> Report:
    """The page of a run as it stands, which may go to anybody; `most` bytes of it, or with 0 as many as there are."""
    feed, discretion = RunFeed(run), Discretion(os.environ, os.getcwd())
    projection = discretion.clean_json(feed.now())
    rows = [row for block in projection["blocks"] for row in block.get("rows", ()) if row.get("item")]
    rows.sort(key=lambda row: row.get("status") not in WINNERS)
    items = dict.fromkeys(row["item"] for row in rows)
    details = ((item, discretion.clean_json(details_of(feed, item))) for item in items)
    return report_document(page_sources(), projection, details, most)


def details_of(feed: RunFeed, item: str) -> list[Json]:
    """The details of an item; of one whose records cannot be read, why."""
    try:
        return feed.details(item)
    except SpecError as error:
        return [as_json(Text("problem", "Its records cannot be read", str(error)))]


# --- dashboard.

HOST = "127.0.0.1"
MEANS = (
    "whoever reaches this machine over the network can ask the dashboard, and whoever listens on the way reads its"
    " token and all that is shown, since nothing is encrypted"
)


class DashboardCommand(NewCommand):
    name = "dashboard"
    doc_usage = "[RUN]"
    doc_purpose = "serve a page that follows a run while it is built, and the list of all runs"
    doc_description = (
        "It prints a link to click, with a token without which nobody gets an answer, and serves until Ctrl-C. Only"
        " this machine can reach it; from another one go through `ssh -L`. Searches over code are paused, resumed,"
        " given ideas and answered from the page. It needs starlette and uvicorn, and says how to get them where they"
        " are missing."
    )
    cmd_options = (
        option("port", "the port; 0 stands for any that is free", PAGE_PORT, "N"),
        option("host", "the address to be reached at", HOST, "H"),
        option("open_to_network", f"allow a --host that others reach: {MEANS}"),
    )
    takes = (0, 1, "name one run, or none for the list of all")

    def on_specs(self, params: Any, args: list[str]) -> int:
        check_installed(self.name)
        runs = project.spec_paths()
        if args and args[0] not in runs:
            raise SpecError(f"dashboard: '{args[0]}' is no run{did_you_mean(args[0], runs)}")
        host, port = params["host"], params["port"]
        if not is_loopback(host) and not params["open_to_network"]:
            raise InvalidCommand(
                f"dashboard: --host {host} means that {MEANS}; better: `ssh -L {port}:127.0.0.1:{port} THIS_MACHINE`;"
                " if you do mean it, add --open-to-network"
            )
        become_server(host, port, *args[:1] or [""])


def check_installed(name: str) -> None:
    if lacking := [package for package in EXTRAS["dashboard"] if find_spec(package) is None]:
        raise Unavailable(f"{name}: it needs the package {lacking[0]}: {install_command('dashboard')}")


def become_server(host: str, port: int, *words: str) -> NoReturn:
    """Open the socket and become the server, which is told these words."""
    listening = listen(host, port)
    listening.set_inheritable(True)
    sys.stdout.flush()
    command = module_command("pipeline.screens.server", str(listening.fileno()), host, *words)
    os.execv(command[0], command)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket to serve at."""
    if not 0 <= port < 2**16:
        raise InvalidCommand(f"dashboard: --port {port}: there are ports from 1 to 65535, and 0 for any")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = HOST if host == LOCALHOST else host
    try:
        return socket.create_server((address, port), family=family, backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} of {host} is in use, perhaps by another dashboard; --port 0 takes one that is free"
            raise Unavailable(f"dashboard: {why}") from error
        raise SpecError(f"dashboard: {host}:{port} cannot be served at: {error.strerror or error}") from error


# --- watch, and `replay --show`.

# Why there is no full screen, and what to do.
WITHOUT_TEXTUAL = "plain; for keys and details get textual, `coppice doctor` says how; q quits"
WITHOUT_STDERR = "plain; for keys and details let standard error be the terminal, too; q quits"
POLL_SECONDS, SHOW_POLL_SECONDS = 0.5, 0.1


class WatchCommand(OneRunCommand):
    name = "watch"
    doc_usage = "RUN[:ITEM] [--view NAME] [--filter TEXT]"
    doc_purpose = "show a run on a full screen as it goes; without a terminal, as it stands now"
    doc_description = (
        "With ITEM, such as RUN:d0.n0.i2, its details. Keys: j k g G / Enter Esc Tab p ? q. The run does not notice:"
        " nothing is locked or written, unless p pauses it, which asks first. A full screen needs textual;"
        " `coppice doctor` says how to get it. Without it the snapshot is redrawn in place until q or Ctrl-C."
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
        return present(feed, place, POLL_SECONDS, steering=steering, is_linked=True, clock=time.time)


def replay_show(run: str, params: Mapping[str, Any]) -> int:
    """`coppice replay RUN --show`: a run's recording, or one that is made from its records."""
    check_show_options(params)
    if params["save"]:
        recorded, _ = record_run(run, with_details=True)
        show = Show(**Discretion(os.environ, os.getcwd()).clean_json(recorded._asdict()))  # it may go to anybody
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

    def question(self) -> str:
        if self._log.pause() is not None:
            return f"let {self._run} go on?"
        return f"pause {self._run}, so that what runs ends and nothing that costs is started?"

    def act(self) -> str:
        return (resume_run if self._log.pause() is not None else pause_run)(self._run)


class ShowSteering:
    """The key `p` for a show, which it holds."""

    def __init__(self, feed: RecordedFeed) -> None:
        self._feed = feed

    def question(self) -> str:
        return ""

    def act(self) -> str:
        return self._feed.hold()


def is_terminal() -> bool:
    return all(map(_is_tty, (sys.stdin, sys.stdout))) and os.environ.get("TERM", "") != "dumb"


def _is_tty(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None is one that was closed


def snapshot_lines(feed: Feed, item: str = "", view: str = "", filter: str = "") -> list[str]:  # noqa: A002 - its option
    """A run as it stands, or one block or item of it."""
    width = get_terminal_size((100, 24)).columns
    projection = count_on(feed.now(), time.time())
    projection = {**projection, "blocks": [_filtered(block, filter) for block in projection["blocks"]]}
    if not (item or view):
        return snapshot(projection, width, now=time.time())
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
    clock: Callable[[], float] | None = None,
) -> int:
    """Show a feed until the user has seen enough.  `is_over`: nothing more comes, and a plain display may end.

    `clock`: by which times are counted on; none of a show, which has its own."""
    gc.enable()  # what is drawn is dropped again; commands that end soon do without
    unicode = terminal_look(sys.stdout.encoding, os.environ).unicode
    plain = WITHOUT_TEXTUAL if find_spec("textual") is None else "" if _is_tty(sys.stderr) else WITHOUT_STDERR
    if plain:
        return redraw(feed, poll_seconds, unicode, is_over, plain, clock)
    from pipeline.screens.terminal import WatchApp

    app = WatchApp(feed, Place(**place), steering, is_linked, unicode, poll_seconds=poll_seconds, clock=clock)
    app.run(mouse=False)
    return app.return_code or 0


def redraw(
    feed: Feed,
    poll_seconds: float,
    unicode: bool,
    is_over: Callable[[], bool],
    plain: str,
    clock: Callable[[], float] | None = None,
) -> int:
    """Redraw the snapshot in place until q, Ctrl-C or the end of a show, whose last frame stays; `plain` says why."""
    projection, problem = feed.now(), ""

    def lines(width: int, height: int) -> list[ScreenLine]:
        now = clock() if clock else None
        drawn = [*snapshot(projection, width - 1, height - 2, unicode, now), problem or plain]
        fitting = [cut_text(encodable(line, sys.stdout), width - 1) for line in drawn]
        return [ScreenLine(line, text_width(line)) for line in fitting]

    screen = Screen(sys.stdout, lines)
    with keys_at_once(sys.stdin.fileno()) as stdin:
        screen.open()
        try:
            with suppress(KeyboardInterrupt):  # how it is ended, like q
                while not is_over() and not _is_quit(stdin, poll_seconds):
                    before = projection, problem
                    try:
                        projection, problem = apply_delta(projection, feed.poll()), ""
                    except SpecError as error:  # such as of records that are damaged now, and may be mended
                        problem = cell_text(str(error))
                    if before != (projection, problem):
                        screen.redraw_soon()
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
