"""Ideas of a search: asked for, recorded in a folder, or written by a person.

The default prompts are files in prompts/ beside this module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from pipeline.core.outcome import ANSWER_AWAITED
from pipeline.machine.job import Job, StageFailed, StageOutage
from pipeline.models.calls import cost_of_calls, read_calls
from pipeline.models.contract import CallFailed
from pipeline.store.files import read_bytes
from pipeline.store.steering import claim_slot
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.positions import RunLayout, slot_of
from pipeline.tree.run.asker import RoleAsker
from pipeline.tree.run.prompting import PromptValues
from pipeline.tree.run.records import Record, load, read_text, save, write
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.spec.model import DRY, GIVEN, MANUAL


class IdeaAnswer(NamedTuple):
    """An idea; `text` is empty when there is none, and `why` says why.  `sha256`: of the file that a person gave."""

    text: str
    source: str
    why: str = ""
    sha256: str = ""


def idea_stage(job: Job) -> None:
    context = load(job.reads["context"][0])
    source: Callable[[Job, Record], IdeaAnswer] = IDEA_SOURCES.get(job.target.params["role"]["backend"], _ask_for_idea)
    idea = IdeaAnswer("", "", context["closed"]) if context["closed"] else source(job, context)
    for path in job.writes.get("calls", ()):
        if not os.path.exists(path):
            write(path, b"")
    calls = [call for path in job.writes.get("calls", ()) for call in read_calls(path)]
    write(job.writes["md"][0], idea.text)
    record = {"source": idea.source, "why": idea.why, "defects": parse_idea(idea.text).defects if idea.text else ()}
    given = {"sha256": idea.sha256} if idea.sha256 else {}
    save(job.writes["json"][0], record | given | cost_of_calls(calls))


def recorded_ideas_stage(job: Job) -> None:
    """Take a folder's ideas in the order of their names: as many for each depth as a node has slots."""
    folder = dict(job.target.reads)["ideas_folder"][0]
    names = sorted(name for name in os.listdir(folder) if os.path.isfile(f"{folder}/{name}/idea.md"))
    if not names:
        raise StageFailed(f"{folder} has no ideas: each is a folder with idea.md, and change.patch beside it", 2)
    for number, text, patch in zip(job.target.params["numbers"], job.writes["md"], job.writes["patch"], strict=True):
        path = f"{folder}/{names[number]}" if number < len(names) else ""
        write(text, read_bytes(f"{path}/idea.md") if path else b"")
        write(patch, read_bytes(f"{path}/change.patch") if os.path.isfile(f"{path}/change.patch") else b"")


def _ask_for_idea(job: Job, context: Record) -> IdeaAnswer:
    """Ask for an idea, unless a person has given one since the search was planned: then that is it, in this build."""
    slot = slot_of(job.target.name)
    path = RunLayout(job.target.run).given_idea(slot)
    if not claim_slot(job.target.run, str(slot), path):
        job.take_in(path)
        return _given_answer(path)
    asking = RoleAsker.for_job(job, {"ideas": job.target.params["role"]}, context["tree"])
    repo, backend = RunRepo(job.target.run), job.target.params["role"]["backend"]
    commit, brief = repo.commit(slot.place), job.target.params["limits"]["brief"]
    known = PromptValues(job.target.run, repo.path, slot.place, brief, asking.roles)
    before = [read_text(path) for path in job.reads["before"]]
    values = known.for_ideas(context, before, job.target.params)
    try:
        with repo.checkout(f"{slot}.idea", commit) as worktree:
            return IdeaAnswer(asking.ask("ideas", values, worktree.path).text.strip() + "\n", backend)
    except CallFailed as failure:
        return IdeaAnswer("", backend, str(failure))
    finally:
        write(job.writes["calls"][0], asking.journal_bytes())


def _given_idea(job: Job, _context: Record) -> IdeaAnswer:
    return _given_answer(dict(job.target.reads)["given"][0])


def _given_answer(path: str) -> IdeaAnswer:
    content = read_bytes(path)
    return IdeaAnswer(content.decode(errors="replace").strip() + "\n", GIVEN, sha256=sha256(content).hexdigest())


def _idea_by_hand(job: Job, _context: Record) -> IdeaAnswer:
    folder, slot = dict(job.target.reads)["ideas_folder"][0], job.target.params["slot"]
    path = f"{folder}/{slot}.md"
    if not os.path.isfile(path):
        raise StageOutage(f"waits for you: write an idea into {path}, empty for none, then build again", ANSWER_AWAITED)
    return IdeaAnswer(read_text(path), path)


def _dry_run_idea(job: Job, context: Record) -> IdeaAnswer:
    name = sha256(f"{job.target.params['number']}\0{context}".encode()).hexdigest()[:8]
    text = f"IDEA: Dry run {name}.\n\nRATIONALE: None; nothing is tried.\n\nREQUIRED_CHANGES:\n- Add a file.\n"
    return IdeaAnswer(text, "dry run")


IDEA_SOURCES: Mapping[str, Callable[[Job, Record], IdeaAnswer]] = {
    MANUAL: _idea_by_hand,
    DRY: _dry_run_idea,
    GIVEN: _given_idea,
}
