"""Format outcomes, failures, totals, ends of logs, and files as blocks of a projection."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.outcome import BUILT, FAILED, IGNORED, OUTAGE, RECALLED, SKIPPED, Outcome
from pipeline.core.projection import Code
from pipeline.core.text import count_words, duration, target_count, visible_text

OUTCOME_LINES = {
    BUILT: "built {name}  {time}{again}",
    RECALLED: "recalled {name}",
    FAILED: "failed {name} ({how})",
    OUTAGE: "outage {name} ({how})",
    SKIPPED: "skipped {name} ({why})",
    IGNORED: "ignored {name}",
}
TAIL_LINES = 20
# Savings from which on they are worth a line.
WORTH_SECONDS, WORTH_USD = 60.0, 0.005
TAIL_BYTES = 16384
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def outcome_line(name: str, outcome: Outcome) -> str:
    """Format an outcome: `built demo:a.1  0.3 s`."""
    attempts = f"{outcome.attempts} attempts" if outcome.attempts > 1 else ""
    time, again = duration(outcome.seconds), f" ({attempts})" if attempts else ""
    how = ", ".join([clean_line(outcome.why), *filter(None, [attempts, time if outcome.end else ""])])
    line = OUTCOME_LINES[OUTAGE if outcome.outage else outcome.status]
    return line.format(name=name, time=time, why=outcome.why, how=how, again=again)


# What a person asked of a run while it was built.
STEERING_LINES = {
    "paused": "{run} is paused: what runs ends, nothing that costs is started; `coppice resume {run}` lets it go on",
    "resumed": "{run} goes on",
    "idea_given": "{run}: an idea was given for {slot}",
    "answered": "{run}: {slot} was answered by hand",
    "retried": "{run}: failed evaluations are done again",
}
KEPT_BACK = "kept back by an outage"


def steering_line(run: str, request: Mapping[str, Any]) -> str:
    line = STEERING_LINES.get(request["event"], "{run}: asked for '{event}', which this version does not know")
    return clean_line(line.format(run=run, slot=request.get("slot", ""), event=request["event"]))


def failure_lines(outcome: Outcome) -> list[str]:
    """Lines under a failure: the end of its log, and where the rest is.  An outage is told in its line alone."""
    if outcome.status != FAILED or not outcome.log:
        return []
    tail = [] if outcome.outage else log_tail(outcome.log)
    return [*(f"    {line}" for line in tail), f"    log: {outcome.log}"]


def summary_line(total: int, counts: Mapping[str, int], seconds: float) -> str:
    """Format totals: `9 targets: 3 built, 1 recalled, 5 fresh, 0 failed in 1.3 s`."""
    built, recalled, failed, ignored = (counts.get(s, 0) for s in (BUILT, RECALLED, FAILED, IGNORED))
    left, out = counts.get(SKIPPED, 0), counts.get(OUTAGE, 0)
    targets = target_count(total)
    if not (built or recalled or failed or ignored or left or out):
        return f"up to date: {targets}"
    fresh = total - built - recalled - failed - ignored - left - out
    rest = ((out, KEPT_BACK), (ignored, "ignored"), (left, "not run"))
    more = "".join(f", {n} {word}" for n, word in rest if n)
    return f"{targets}: {built} built, {recalled} recalled, {fresh} fresh, {failed} failed{more} in {duration(seconds)}"


def savings_line(counts: Mapping[str, int], seconds: float, usd: float) -> str:
    """Format what needed not be made again: `saved 4 h of work and 12.30 USD: 412 recalled`; empty if it is little.

    `seconds` are those of each target, added up: some of them would have run at the same time."""
    if seconds <= WORTH_SECONDS and usd < WORTH_USD:
        return ""
    money = f" and {usd:.2f} USD" if usd >= WORTH_USD else ""
    return f"saved {duration(seconds)} of work{money}: {count_words(counts)}"


def log_tail(path: str) -> list[str]:
    """Last lines of a log, however long it is."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []  # somebody tidied up meanwhile: no reason to end a build
    lines = text.rstrip().split("\n")
    if size > TAIL_BYTES:
        lines[0] = f"...{lines[0]}"
    return [clean_line(line) for line in lines[-TAIL_LINES:]]


def clean_line(line: str) -> str:
    """Line without what moves the cursor, colours or misleads; if it was overwritten again and again, its last state.

    Whatever others wrote passes here, or `clean_text`, before it comes to a terminal."""
    if line.isprintable():
        return line
    return visible_text(_CONTROLS.sub("", _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2].expandtabs()), "")


def clean_text(text: str) -> str:
    """Lines that are clean, each by itself."""
    return text if text.isprintable() else "\n".join(map(clean_line, text.split("\n")))


def encodable(text: str, stream: Any) -> str:
    """Text that the stream can show; a log may hold more."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def file_block(name: str, title: str, path: str, look: str, most: int, at_end: bool = False) -> Iterator[Code]:
    """A file that is there and has something, its beginning or its end."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most) if at_end else 0)
        content = file.read(most)
    if content.strip():
        yield code_block(name, title, content, look, most, path, size - len(content))


def code_block(name: str, title: str, content: bytes, look: str, most: int, path: str, left_out: int = 0) -> Code:
    """A text that may be cut; `left_out`: bytes that were not read."""
    left_out += max(0, len(content) - most)
    text = content[:most].decode(errors="replace")
    if look == "log":  # of the machine they may name folders, which are nobody's business elsewhere
        text = clean_text(text).replace(f"{os.getcwd()}/", "").replace(os.path.expanduser("~"), "~")
    return Code(name, title, visible_text(text), look, path, left_out)
