"""What views cost: `python -m benchmarks.views [--parts report,dashboard,beside,watch] [--plotly plotly.min.js]`

report     size and first paint of a run as one file, by candidates, in turns with an inline page of plotly; scrolling
dashboard  from an event to the screen of a browser, and to two hundred clients; memory of the server
beside     a build with a dashboard that is looked at, in turns with the same build without
watch      CPU time of `coppice watch` while nothing happens

What cannot be measured here is listed under `missing`, with the reason.  Prints one JSON document."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from math import comb
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # made-up searches and a served project are those of the tests

from kit.browsing import CHROMIUM  # noqa: E402
from kit.made_searches import Shape, made_manifest  # noqa: E402
from kit.project import Project  # noqa: E402
from kit.projections import MadeSearch  # noqa: E402
from kit.serving import Served, served  # noqa: E402
from kit.terminal import Terminal  # noqa: E402
from kit.tree_runs import searched  # noqa: E402

from pipeline.core.projection import as_json  # noqa: E402
from pipeline.screens.feed import page_sources  # noqa: E402
from pipeline.store.steering import PAUSED, RESUMED, append_request  # noqa: E402
from pipeline.views.pages.document import report_document  # noqa: E402

# The most that is promised; sizes in kB, times in seconds, memory in MB, shares in percent.
PROMISES = {
    "report 300 kB": 250.0, "report 300 first paint": 0.15, "report 5000 kB": 2000.0, "report 5000 first paint": 0.5,
    "scroll longest task": 0.05, "event to screen": 1.0, "event to 200 clients": 1.0, "server MB": 45.0,
    "search slower by %": 1.0, "watch idle %": 1.0,
}  # fmt: skip
CLIENTS, EVALUATIONS, SCROLLED = 200, Shape(14, 111, 10), 10_000
IDLE_SECONDS, QUIET_SECONDS = 10.0, 4.0
FEWEST_PAIRS, WIDEST = 150, 3.0  # of builds in turns; percent: of a wider interval nothing can be told
PAUSED_WORD = b'"state":{"word":"paused"'  # in a change; at first it is stopped
PAINT = "performance.getEntriesByName('first-contentful-paint').map(each => each.startTime)[0] / 1000"
# When the state that the page shows is another; looked at in each frame.
CHANGED = """(word) => { window.seen = new Promise((done) => {
  const look = () => document.querySelector(".run-state").textContent === word ? done(Date.now() / 1000)
    : requestAnimationFrame(look);
  look(); }); }"""
SCROLL = """async () => {
  const long = [];
  new PerformanceObserver((list) => long.push(...list.getEntries().map((each) => each.duration)))
    .observe({ type: "longtask" });
  const box = document.querySelector(".rows");
  for (let at = 0; at < box.scrollHeight; at += box.scrollHeight / 200) {
    box.scrollTop = at;
    await new Promise(requestAnimationFrame);
  }
  await new Promise((done) => setTimeout(done, 200));
  return Math.max(0, ...long) / 1000; }"""
PLOTLY = """<!doctype html><meta charset="utf-8"><title>plotly</title><div id="chart"></div>
<script>{script}</script><script>
Plotly.newPlot("chart", [{data}]).then(() => {{ document.documentElement.dataset.ready = ""; }});</script>"""
BUILD = """kind: steps
steps:
  one:
    for: {{n: {numbers}}}
    run: 'echo {{n}} > {{out}}'
    writes: 'o{{n}}.txt'
"""

Missing = dict[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    parts: dict[str, Callable[[argparse.Namespace, Path, Missing], Mapping[str, float]]] = {
        "report": measure_report, "dashboard": measure_dashboard, "beside": measure_beside, "watch": measure_watch,
    }  # fmt: skip
    parser = argparse.ArgumentParser(prog="python -m benchmarks.views", description=__doc__)
    parser.add_argument("--parts", default=",".join(parts), help="some of them, with commas")
    parser.add_argument("--rounds", type=int, default=7, help="the figures are medians over them")
    parser.add_argument("--plotly", type=Path, help="plotly.min.js, as the wheel of plotly has it")
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    args = parser.parse_args(arguments)
    if unknown := {*args.parts.split(",")} - {*parts}:
        parser.error(f"--parts: there is no {', '.join(sorted(unknown))}; one of {', '.join(parts)}")
    figures, missing = dict[str, float](), Missing()
    for name in args.parts.split(","):
        with TemporaryDirectory(prefix="views-") as folder:
            figures |= parts[name](args, Path(folder), missing)
    text = json.dumps(_document(figures, missing), indent=1)
    for name, figure in figures.items():
        most = PROMISES.get(name)
        verdict = "" if most is None else f"  at most {most:g}: {'reached' if figure <= most else 'MISSED'}"
        sys.stderr.write(f"{name:32} {figure:10.3f}{verdict}\n")
    print(text)
    if args.json:
        args.json.write_text(f"{text}\n")
    return 0


def _document(figures: Mapping[str, float], missing: Missing) -> dict[str, Any]:
    machine = {"system": platform.platform(), "python": platform.python_version(), "cpus": os.cpu_count()}
    rounded = {name: round(figure, 4) for name, figure in figures.items()}
    reached = {name: figures[name] <= most for name, most in PROMISES.items() if name in figures}
    load = os.getloadavg()[0]
    return {"machine": machine, "load": load, "figures": rounded, "reached": reached, "missing": missing}


@contextmanager
def browser(missing: Missing, what: str) -> Iterator[Any]:
    """A browser, or None where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing[what] = "playwright is not installed"
        yield None
        return
    if not CHROMIUM:
        missing[what] = "there is no chromium"
        yield None
        return
    with sync_playwright() as player:
        found = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


# --- The run as one file.


def measure_report(args: argparse.Namespace, folder: Path, missing: Missing) -> dict[str, float]:
    figures, pages = dict[str, float](), dict[str, Path]()
    script = args.plotly.read_text(encoding="utf-8") if args.plotly else ""
    if not script:
        missing["plotly"] = "no --plotly plotly.min.js was given"
    for count in (300, 5000):
        made = MadeSearch(count)
        html = report_document(page_sources(), as_json(made.projection()), made.all_details()).html
        pages[f"report {count}"] = _written(folder / f"report{count}.html", html)
        if script:
            pages[f"plotly {count}"] = _written(folder / f"plotly{count}.html", _plotly_page(script, count))
    figures |= {f"{name} kB": path.stat().st_size / 1000 for name, path in pages.items()}
    with browser(missing, "first paint") as found:
        if found is None:
            return figures
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in pages}
        for _ in range(args.rounds):
            for name, path in pages.items():  # in turns
                times[name].append(_paint(found, path))
        for name, measured in times.items():
            figures[f"{name} first paint"] = median(paint for paint, _ in measured)
            figures[f"{name} ready"] = median(ready for _, ready in measured)
        html = report_document(page_sources(), as_json(MadeSearch(SCROLLED).projection()), ()).html
        path = _written(folder / "scrolled.html", html)
        tasks = [_scroll(found, path) for _ in range(args.rounds)]
        figures |= {"scroll longest task": median(tasks), "scroll longest task of all": max(tasks)}
    return figures


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _plotly_page(script: str, count: int) -> str:
    """As many points as there are candidates; no table, no details."""
    chance = Random(1)
    data = {"x": [*range(count)], "y": [chance.gauss(0, 1) for _ in range(count)], "mode": "markers"}
    return PLOTLY.format(script=script, data=json.dumps(data))


def _paint(found: Any, path: Path) -> tuple[float, float]:
    """Seconds until something is painted, and until all that is in sight is there."""
    page = found.new_page(viewport={"width": 1400, "height": 900})
    began = time.monotonic()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    ready = time.monotonic() - began
    while (paint := page.evaluate(PAINT)) is None:
        page.wait_for_timeout(5)
    page.close()
    return paint, ready


def _scroll(found: Any, path: Path) -> float:
    """The longest task while all rows go by; 0 where none took 50 ms."""
    page = found.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    longest = float(page.evaluate(SCROLL))
    page.close()
    return longest


# --- The dashboard.


def large_search(folder: Path) -> Project:
    """A search of ten thousand evaluations that was left before its end, as far as its manifest and events tell."""
    project = searched(Project(folder / "project"))
    path = project.root / "runs/x/manifest.json"
    small = json.loads(path.read_text())
    made = made_manifest(small, EVALUATIONS)
    events = [event for event in made["events"] if event["event"] != "stopped"]
    state = {**made["state"], "stop_reason": None}
    path.write_text(json.dumps({**made, "run_config": small["run_config"], "events": events, "state": state}))
    lines = "".join(f"{json.dumps(event, sort_keys=True)}\n" for event in events)
    (project.root / "runs/x/events.jsonl").write_text(lines)
    return project


def steer(project: Project, event: str) -> float:
    """A request of a person, as the commands write it; when it was on the disk."""
    with chdir(project.root):
        append_request("x", event)
    return time.time()


def measure_dashboard(args: argparse.Namespace, folder: Path, missing: Missing) -> dict[str, float]:
    project, figures = large_search(folder), dict[str, float]()
    with served(project, "x") as server:
        shown = server.projection()
        rows = next(each for each in shown["blocks"] if each["name"] == "tree")["rows"]
        figures["evaluations"] = sum("i" in row["item"] for row in rows)
        with browser(missing, "event to screen") as found:
            if found is not None:
                delays = _event_to_screen(found, server, project, args.rounds)
                figures |= {"event to screen": max(delays), "event to screen, median": median(delays)}
        figures["event to 200 clients"] = asyncio.run(_event_to_clients(server, project))
        if peak := _peak_memory(server.process.pid):
            figures["server MB"] = peak / 1e6
        else:
            missing["server MB"] = "this system does not tell the most memory that a process had"
    return figures


def _peak_memory(pid: int) -> int:
    """The most resident memory that a process has had, in bytes; 0 where the system does not tell it."""
    path = Path(f"/proc/{pid}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def _event_to_screen(found: Any, server: Served, project: Project, rounds: int) -> list[float]:
    page, delays = found.new_page(), list[float]()
    page.goto(server.link)  # `/` is the page of the run that was named
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    page.wait_for_selector(".run-state.stopped")
    for at in range(2 * rounds):
        event, word = ((PAUSED, "paused"), (RESUMED, "stopped"))[at % 2]
        page.evaluate(CHANGED, word)
        since = steer(project, event)
        delays.append(float(page.evaluate("window.seen")) - since)
        page.wait_for_timeout(1500)  # a feed rests after a projection; an event comes at any time
    page.close()
    return delays


async def _event_to_clients(server: Served, project: Project) -> float:
    """Seconds until the last of all clients has heard of an event."""

    async def connect() -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**24)
        head = f"GET /api/runs/x/events HTTP/1.1\r\nHost: {server.host}\r\nX-Coppice-Token: {server.token}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"event: projection")
        opened.append(writer)
        return reader

    opened: list[asyncio.StreamWriter] = []
    readers = await asyncio.gather(*(connect() for _ in range(CLIENTS)))
    await asyncio.gather(*map(_drain, readers))
    heard = [asyncio.create_task(reader.readuntil(PAUSED_WORD)) for reader in readers]
    await asyncio.sleep(1)
    if any(each.done() for each in heard):
        raise RuntimeError("a client has heard that it is paused before it was: there is nothing to measure")
    since = steer(project, PAUSED)
    await asyncio.wait_for(asyncio.gather(*heard), 60)
    delay = time.time() - since
    for writer in opened:
        writer.close()
    return delay


async def _drain(reader: asyncio.StreamReader) -> None:
    """Take what is sent at first: the run, and what changed in it before."""
    with suppress(TimeoutError):
        while await asyncio.wait_for(reader.read(2**20), QUIET_SECONDS):
            pass


# --- A build beside it.


def measure_beside(args: argparse.Namespace, folder: Path, missing: Missing) -> dict[str, float]:
    """The same build, without anybody looking on and with a client that is told all, in turns."""
    project = Project(folder / "project")
    numbers = [*range(400)]
    project.spec("x", BUILD.format(numbers=numbers))
    assert project.coppice("x").returncode == 0
    walls, cpus = list[float](), list[float]()
    with served(project) as server:
        for number in range(max(FEWEST_PAIRS, args.rounds)):
            pair = dict[bool, tuple[float, float]]()
            for is_seen in (True, False) if number % 2 else (False, True):
                assert project.coppice("forget", "x").returncode == 0
                pair[is_seen] = _build_cost(project, server if is_seen else None)
            walls.append(100 * (pair[True][0] / pair[False][0] - 1))
            cpus.append(100 * (pair[True][1] / pair[False][1] - 1))
    low, high = _median_interval(walls)
    figures = {"search slower by at least %": low, "search slower by at most %": high}
    figures["CPU of the build more by %"] = median(cpus)
    if high - low > WIDEST:
        missing["search slower by %"] = f"between {low:+.1f} and {high:+.1f} %, in the middle {median(walls):+.1f} %"
    else:
        figures["search slower by %"] = median(walls)
    return figures


def _median_interval(numbers: Sequence[float]) -> tuple[float, float]:
    """Where the median lies with a chance of 95 % (by signs: nothing is supposed of how they are spread)."""
    ordered, count = sorted(numbers), len(numbers)
    place, below = 0, 0.0
    while (below := below + comb(count, place) / 2**count) <= 0.025:
        place += 1
    place = max(0, place - 1)
    return ordered[place], ordered[count - 1 - place]


def _build_cost(project: Project, server: Served | None) -> tuple[float, float]:
    """Seconds of wall and of CPU that a build takes; looked at by a client that is told all, if there is a server."""
    if server is None:
        return _cost(lambda: project.coppice("x"))
    with server.events() as events:
        next(events)
        return _cost(lambda: project.coppice("x"))


def _cost(act: Callable[[], Any]) -> tuple[float, float]:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    act()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


# --- The terminal.


def measure_watch(_args: argparse.Namespace, folder: Path, _: Missing) -> dict[str, float]:
    project = large_search(folder)
    words = [sys.executable, "-m", "pipeline", "watch", "x"]
    terminal = Terminal(words, project.root, {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}, 120, 40)
    terminal.resize(120, 40)
    until = time.monotonic() + 60
    while "stopped" not in terminal.raw and time.monotonic() < until:
        _read_for(terminal, 0.5)
    if "stopped" not in terminal.raw:
        raise RuntimeError("watch did not show the run within a minute")
    _read_for(terminal, 3.0)
    process = psutil.Process(terminal.process.pid)
    before, began = _cpu_seconds(process), time.monotonic()
    _read_for(terminal, IDLE_SECONDS)
    spent, passed = _cpu_seconds(process) - before, time.monotonic() - began
    os.write(terminal.ours, b"q")
    terminal.end()
    terminal.close()
    return {"watch idle %": 100 * spent / passed}


def _read_for(terminal: Terminal, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        terminal.read(left)


def _cpu_seconds(process: psutil.Process) -> float:
    spent = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in spent)


if __name__ == "__main__":
    sys.exit(main())
