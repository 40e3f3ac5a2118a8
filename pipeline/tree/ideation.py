"""The stage that comes by one idea: asked for, taken from a folder of recorded ones, or written by a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeline.edge.job import Job, StageFailed
from pipeline.edge.roles.calls import Call, calls_in
from pipeline.edge.roles.contract import Failed
from pipeline.tree import dry
from pipeline.tree.asking import Asking
from pipeline.tree.bench import Bench
from pipeline.tree.ideas import parse
from pipeline.tree.model import DRY, MANUAL
from pipeline.tree.positions import slot_of
from pipeline.tree.records import Record, load, read_bytes, read_text, save, write
from pipeline.tree.telling import told

NO_CONSTRAINTS = "None beyond those above."


class Found(NamedTuple):
    """`text` is empty when there is none, and `why` says why."""

    text: str
    source: str
    why: str = ""


def idea(job: Job) -> None:
    context = load(job.reads["context"][0])
    backend = job.target.params["role"]["backend"]
    source: Callable[[Job, Record], Found] = SOURCES.get(backend, _asked)
    found = Found("", "", context["closed"]) if context["closed"] else source(job, context)
    calls = _calls(job)
    write(job.writes["md"][0], found.text)
    save(job.writes["json"][0], _record(found, calls))


def recorded(job: Job) -> None:
    """The folder's ideas in the order of their names: as many for each depth as a node has slots."""
    folder = dict(job.target.reads)["ideas_folder"][0]
    names = sorted(name for name in os.listdir(folder) if os.path.isfile(f"{folder}/{name}/idea.md"))
    if not names:
        raise StageFailed(f"{folder} has no ideas: each is a folder with idea.md, and change.patch beside it", 2)
    for number, text, patch in zip(job.target.params["numbers"], job.writes["md"], job.writes["patch"], strict=True):
        path = f"{folder}/{names[number]}" if number < len(names) else ""
        write(text, read_bytes(f"{path}/idea.md") if path else b"")
        write(patch, read_bytes(f"{path}/change.patch") if os.path.isfile(f"{path}/change.patch") else b"")


def _record(found: Found, calls: list[Call]) -> Record:
    defects = parse(found.text).defects if found.text else ()
    return {"source": found.source, "why": found.why, "defects": [*defects], **spent(calls)}


def spent(calls: list[Call]) -> Record:
    """What calls cost together, the failed ones too."""
    return {
        "usd": sum(call.usage.usd for call in calls),
        "tokens": sum(call.usage.input_tokens + call.usage.output_tokens for call in calls),
        "seconds": round(sum(call.seconds for call in calls), 3),
    }


def _calls(job: Job) -> list[Call]:
    """What was asked, now an output."""
    if "calls" not in job.writes:
        return []
    path = job.writes["calls"][0]
    if not os.path.exists(path):
        write(path, b"")
    return [*calls_in(path)]


def _asked(job: Job, context: Record) -> Found:
    slot = slot_of(job.target.name)
    asking = Asking.of(job, {"ideas": job.target.params["role"]}, context["tree"])
    before = [text for path in job.reads["before"] if (text := read_text(path)).strip()]
    constraints = job.target.params["constraints"] or NO_CONSTRAINTS
    prompt = asking.prompt("ideas", {"context": told(context, before), "constraints": constraints})
    bench, backend = Bench(job.target.run), job.target.params["role"]["backend"]
    try:
        with bench.checkout(f"{slot}.idea", bench.commit(slot.place)) as worktree:
            return Found(asking.ask("ideas", prompt, worktree.path).text.strip() + "\n", backend)
    except Failed as failure:
        return Found("", backend, str(failure))
    finally:
        write(job.writes["calls"][0], asking.recorded())


def _by_hand(job: Job, _context: Record) -> Found:
    folder, slot = dict(job.target.reads)["ideas_folder"][0], job.target.params["slot"]
    path = f"{folder}/{slot}.md"
    if not os.path.isfile(path):
        raise StageFailed(f"waits for you: write an idea into {path}, empty for none, then build again", 1)
    return Found(read_text(path), path)


def _made_up(job: Job, context: Record) -> Found:
    return Found(dry.idea(job.target.params["number"], str(context)), "dry run")


SOURCES: Mapping[str, Callable[[Job, Record], Found]] = {MANUAL: _by_hand, DRY: _made_up}
