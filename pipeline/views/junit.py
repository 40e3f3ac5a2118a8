"""A build as JUnit XML, which continuous integration knows how to show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pipeline.edge.files import write_whole
from pipeline.views.eta import step_of
from pipeline.views.events import BUILT, FAILED, IGNORED, SKIPPED, Result
from pipeline.views.lines import tail
from pipeline.views.outcome import Recorder

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnit(Recorder):
    """Writes the file once, whole, at the end, however the build ends."""

    def __init__(self, path: str) -> None:
        super().__init__(None, {})
        self.path = path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # now: the end may be hours away

    def initialize(self, tasks: Any, selected: Any) -> None:
        self.begun = datetime.now(UTC)

    def complete_run(self) -> None:
        write_whole(self.path, document(self.all(), self.begun, self.stopped), durable=False)


def document(results: Iterable[Result], begun: datetime, stopped: str) -> bytes:
    """A suite for each run, a case for each target."""
    top = Element("testsuites")
    by_run: dict[str, list[Result]] = {}
    for result in results:
        by_run.setdefault(result.name.partition(":")[0], []).append(result)
    for run, own in by_run.items():
        suite = SubElement(top, "testsuite", {"name": run, "timestamp": f"{begun:%Y-%m-%dT%H:%M:%S}", **_counts(own)})
        if stopped:
            _property(suite, "stopped", stopped)
        for result in own:
            _case(suite, result)
    indent(top)
    text: str = tostring(top, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _counts(results: list[Result]) -> dict[str, str]:
    failures = sum(r.status == FAILED for r in results)
    skipped = sum(r.status in (SKIPPED, IGNORED) for r in results)
    time = f"{sum(r.seconds for r in results):.3f}"
    return {"tests": str(len(results)), "failures": str(failures), "errors": "0", "skipped": str(skipped), "time": time}


def _case(suite: Element, result: Result) -> None:
    step = step_of(result.name).replace(":", ".")
    case = SubElement(suite, "testcase", name=legal(result.name), classname=legal(step), time=f"{result.seconds:.3f}")
    if result.status == FAILED:
        failure = SubElement(case, "failure", message=legal(result.why), type="failed")
        failure.text = legal("\n".join([*tail(result.log), f"log: {result.log}"]) if result.log else result.why)
    elif result.status in (SKIPPED, IGNORED):
        SubElement(case, "skipped", message=legal(result.why or result.status))
    elif result.status != BUILT:
        _property(case, "status", result.status)


def _property(parent: Element, name: str, value: str) -> None:
    SubElement(SubElement(parent, "properties"), "property", name=name, value=legal(value))


def legal(text: str) -> str:
    """Without what XML cannot hold in any spelling."""
    return _ILLEGAL.sub("", text)
