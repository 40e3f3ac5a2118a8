"""A build as JUnit XML, which continuous integration knows how to show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pipeline.core.graph import step_of
from pipeline.core.outcome import BUILT, FAILED, IGNORED, SKIPPED, Outcome
from pipeline.core.text import visible_text
from pipeline.store.files import write_whole
from pipeline.views.events import Build, Recorder
from pipeline.views.lines import log_tail

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitReporter(Recorder):
    """Reporter that writes the file once, whole, at the end, however the build ends."""

    def __init__(self, path: str) -> None:
        super().__init__(None, {})
        self.path = path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # now: the end may be hours away

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.begun = datetime.now(UTC)

    def complete_run(self) -> None:
        write_whole(self.path, junit_document(self.all(), self.begun, self.stopped), durable=False)


def junit_document(ended: Iterable[tuple[str, Outcome]], begun: datetime, stopped: str) -> bytes:
    """Document with a suite for each run, a case for each target."""
    top = Element("testsuites")
    by_run: dict[str, dict[str, Outcome]] = {}
    for name, outcome in ended:
        by_run.setdefault(name.partition(":")[0], {})[name] = outcome
    for run, own in by_run.items():
        counts = {
            "tests": len(own),
            "failures": sum(o.status == FAILED and not o.outage for o in own.values()),
            "errors": sum(bool(o.outage) for o in own.values()),
            "skipped": sum(o.status in (SKIPPED, IGNORED) for o in own.values()),
            "time": f"{sum(o.seconds for o in own.values()):.3f}",
        }
        suite = SubElement(top, "testsuite", name=run, timestamp=f"{begun:%Y-%m-%dT%H:%M:%S}")
        suite.attrib.update({name: str(value) for name, value in counts.items()})
        if stopped:
            _property(suite, "stopped", stopped)
        for name, outcome in own.items():
            step, time = step_of(name).replace(":", "."), f"{outcome.seconds:.3f}"
            case = SubElement(suite, "testcase", name=xml_text(name), classname=xml_text(step), time=time)
            if outcome.status == FAILED:
                tag, kind = ("error", outcome.outage) if outcome.outage else ("failure", "failed")
                failure = SubElement(case, tag, message=xml_text(outcome.why), type=kind)
                log = [*log_tail(outcome.log), f"log: {outcome.log}"] if outcome.log else [outcome.why]
                failure.text = xml_text("\n".join(log))
            elif outcome.status in (SKIPPED, IGNORED):
                SubElement(case, "skipped", message=xml_text(outcome.why or outcome.status))
            elif outcome.status != BUILT:
                _property(case, "status", outcome.status)
    indent(top)
    text: str = tostring(top, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _property(parent: Element, name: str, value: str) -> None:
    SubElement(SubElement(parent, "properties"), "property", name=name, value=xml_text(value))


def xml_text(text: str) -> str:
    """Text without the characters that XML cannot hold in any spelling, and without those that mislead a reader."""
    return visible_text(_ILLEGAL.sub("", text), "")
