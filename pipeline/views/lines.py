"""Format outcomes, failures, totals and ends of logs; texts cleaned, cut and wrapped for a terminal."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.outcome import BUILT, FAILED, IGNORED, OUTAGE, RECALLED, SKIPPED, Outcome
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


def time_text(at: float) -> str:
    """A time of the epoch for people, the same on every machine: who reads it may be elsewhere."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


# --- Texts in the columns of a terminal.

FOLD = "  "  # before what goes on of a line of code
MOST_MARKS = 2  # on one letter: real writing has no more, and a heap of them covers other lines


def cell_text(text: str) -> str:
    """A text on one clean line."""
    return thin_marks(" ".join(clean_line(part) for part in text.splitlines()).strip()) if text else ""


def thin_marks(line: str) -> str:
    """A line with the first few of accents that are heaped on a letter."""
    if line.isascii():
        return line
    marks, kept = 0, []
    for character in line:
        marks = 0 if _character_width(character) else marks + 1
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def text_width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a letter of Chinese, none for an accent."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut_text(text: str, width: int, end: str = "…") -> str:
    """As much of a text as fits, with `end` where something was cut off."""
    if _end_of_part(text, 0, width) == len(text):
        return text
    kept = text[: _end_of_part(text, 0, width - text_width(end))]
    return (kept.rstrip() if end else kept) + end if width > 0 else ""


def _end_of_part(text: str, start: int, width: int) -> int:
    """The end of the longest part from `start` on that fits; nothing behind it is looked at."""
    if text.isascii():
        return min(len(text), start + max(0, width))
    for at in range(start, len(text)):
        width -= _character_width(text[at])
        if width < 0:
            return at
    return len(text)


def wrap_text(text: str, width: int) -> list[str]:
    """Clean lines no wider than `width`; a word that is wider is broken."""
    lines: list[str] = []
    for paragraph in clean_text(text).strip("\n").split("\n") if text.strip() else ():
        line = ""
        for word in cell_text(paragraph).split(" "):
            joined = f"{line} {word}" if line else word
            if text_width(joined) > width and line:
                lines.append(line)
                joined = word
            *parts, line = _broken_text(joined, width, width)
            lines += parts
        lines.append(line)
    return lines


def wrap_indented(text: str, width: int) -> list[str]:
    """Lines of a text, all as far indented as it is."""
    indent = min(len(text) - len(text.lstrip()), max(0, width - 1))
    return [" " * indent + line for line in wrap_text(text, width - indent)]


def folded_line(line: str, width: int) -> Iterator[str]:
    """Parts of a line of code; each but the first is indented, so that none is taken for a line of a diff."""
    first, *others = _broken_text(line, width, width - len(FOLD))
    yield cut_text(first, width)
    for part in others:
        yield cut_text(FOLD + part, width)


def _broken_text(text: str, width: int, next_width: int) -> Iterator[str]:
    """Parts of a text that fit, the first one and those after it; the last is the whole rest where no letter does."""
    at = 0
    while at < (end := _end_of_part(text, at, next_width if at else width)) < len(text):
        yield text[at:end]
        at = end
    yield text[at:]


def pad_text(text: str, width: int, right: bool = False) -> str:
    """A text cut or filled to a width; at the right if it is a number."""
    text = cut_text(text, width)
    fill = " " * (width - text_width(text))
    return fill + text if right else text + fill


def since_text(cell: str, now: float | None) -> str:
    """How long ago a time was, which a cell has as seconds of the epoch, or `-`; without a clock, the time."""
    if cell == "-":
        return cell
    return time_text(float(cell)) if now is None else duration(now - float(cell), 0)
