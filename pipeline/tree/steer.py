"""Steering of a search by people: an idea for the next free slot, and answers to the roles that are `manual`.

An idea goes into runs/RUN/given/, an answer into the folder of its role.  Both are checked before anything is written,
and told to the build by the steering log.  None changes what was decided: a slot whose idea was asked for, or that has
been answered, is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.git.command import GitProblem
from pipeline.git.commits import apply_to_tree, index_of_commit
from pipeline.machine.lock import is_locked
from pipeline.models.calls import CALLS_FILE, Calls, DamagedCall
from pipeline.models.complaints import REFUSAL_STATUS
from pipeline.models.contract import FREE
from pipeline.store.files import write_whole
from pipeline.store.noop import folder
from pipeline.store.steering import ANSWERED, IDEA_GIVEN, append_request, is_claimed, put_given
from pipeline.tree.report.obstacles import CHANGE, IDEA, awaited_answers
from pipeline.tree.rules.assignment import DEDUPE_SCOPES, FrontierPlace, idea_identity, idea_similarity, parse_idea
from pipeline.tree.rules.positions import EvalSlot, RunLayout, parse_place, parse_slot
from pipeline.tree.run.records import Origin, from_json, load, load_if_intact, read_text
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.spec.model import DRY, MANUAL, PATCHES, SearchShape, shape_of
from pipeline.tree.targets.builder import planned_config

GIVEN_UP = "giving up"
# Why nobody is asked for an idea that could be given in its place.
NOT_ASKED = {
    PATCHES: "takes its ideas from a folder (`ideas: {backend: patches}`): put the idea there",
    MANUAL: "waits for a person's ideas (`ideas: {backend: manual}`): use `coppice answer`",
    DRY: "is a dry run, whose ideas are made up",
}


def open_to(run: str, targets: Sequence[Target]) -> Sequence[str]:
    config, building = planned_config(targets), bool(is_locked(run))
    roles = config["backends"]
    slots = reversed(
        shape_of(config).all_slots() if roles["ideas"] not in NOT_ASKED else ()
    )  # the last is free longest
    takes_idea = any(_is_free(run, slot, building) for slot in slots)
    return ["idea"] * takes_idea + ["answer"] * (MANUAL in (roles["ideas"], roles["coder"]))


def give(run: str, targets: Sequence[Target], text: str, file: str, where: str) -> Mapping[str, Any]:
    """Give an idea to the next free slot."""
    config = planned_config(targets)
    if why := NOT_ASKED.get(config["backends"]["ideas"]):
        raise SpecError(f"idea: {run} {why}")
    check_idea(text, file)
    slots = _slots_at(run, shape_of(config), where)
    found: list[EvalSlot] = []

    def choose() -> str:
        building = bool(is_locked(run))  # now that no build can claim a slot
        slot = next((each for each in slots if _is_free(run, each, building)), None)
        if slot is None:
            place = f"of {where} " if where else ""
            raise SpecError(f"idea: {run} has no free slot {place}left: the idea of each was asked for, or given")
        _check_new(run, targets, slot, text, file)
        found.append(slot)
        return RunLayout(run).given_idea(slot)

    content = (text.strip() + "\n").encode()
    put_given(run, choose, content)
    slot, digest = str(found[0]), sha256(content).hexdigest()
    append_request(run, IDEA_GIVEN, slot=slot, sha256=digest)
    return {"slot": slot, "path": RunLayout(run).given_idea(found[0]), "sha256": digest}


def check_idea(text: str, file: str) -> None:
    """Refuse a text that is no idea."""
    if defects := parse_idea(text).defects:
        raise SpecError(f"{file}: {'; '.join(defects)}; nothing was written")


def _slots_at(run: str, shape: SearchShape, where: str) -> list[EvalSlot]:
    """The slots of the whole search, of a depth or of a node."""
    slots = shape.all_slots()
    if not where:
        return slots
    at = [slot for slot in slots if where in (str(slot.depth), str(slot.place))]
    if not at:
        last = shape.max_depth - 1
        raise SpecError(f"idea: {run} tries no ideas at '{where}': give a depth from 0 to {last}, or a node like d0.n0")
    return at


def _is_free(run: str, slot: EvalSlot, building: bool) -> bool:
    """Check that nobody was asked for the idea of a slot, and that there is or may be a node there.

    A claim counts while a build runs: one that was killed before it had an answer asks again."""
    at = RunLayout(run)
    if os.path.exists(at.given_idea(slot)) or os.path.exists(at.idea(slot, "json")):
        return False
    context = load_if_intact(at.of_node(slot.place, "context.json"))
    if context is not None and context["closed"]:
        return False
    return not (building and is_claimed(run, str(slot))) and not os.path.exists(_journal(run, slot))


def _journal(run: str, slot: EvalSlot) -> str:
    """The calls for the idea of a slot that had an answer, or at least cost something."""
    return os.path.join(f"{folder(run)}/calls/{slot}.idea", CALLS_FILE)


def _check_new(run: str, targets: Sequence[Target], slot: EvalSlot, text: str, file: str) -> None:
    """Refuse an idea that would be left out as a duplicate."""
    at, config, name = RunLayout(run), planned_config(targets), idea_identity(text)
    similar = next(target.params.get("similar") for target in targets if target.stage == "assign")
    origin = load_if_intact(at.of_node(slot.place, "origin.json"))
    ancestors = from_json(Origin, origin).ancestors if origin else ()
    ground = FrontierPlace(slot.place, tuple(map(parse_place, ancestors)))
    counts, rule = DEDUPE_SCOPES[config["dedupe_scope"]], f"dedupe_scope: {config['dedupe_scope']}"
    for other, known in _known_ideas(at, shape_of(config).all_slots()):
        why = f"the same idea as that of {other} ({rule})" if idea_identity(known) == name else ""
        if similar is not None and (likeness := idea_similarity(text, known)) >= similar:
            why = why or f"similar to that of {other} ({likeness:.2f}; {rule}, dedupe: similar: {similar:g})"
        if why and counts(ground, other.place):
            raise SpecError(f"{file}: {why}; it would not be tried, so nothing was written")


def _known_ideas(at: RunLayout, slots: Sequence[EvalSlot]) -> Iterator[tuple[EvalSlot, str]]:
    """The ideas that are tried, or may be."""
    for slot in slots:
        task = load_if_intact(at.of_eval(slot, "task.json"))
        if not (task and task["empty"]):
            paths = (at.idea(slot, "md"), at.given_idea(slot))
            yield from ((slot, read_text(path)) for path in paths if os.path.exists(path))


def awaited(run: str, targets: Sequence[Target], slot: str = "") -> Sequence[Mapping[str, Any]]:
    """The answers that a person is to give: where each is to be put, and what it is about."""
    config = planned_config(targets)
    if MANUAL not in (config["backends"]["ideas"], config["backends"]["coder"]):
        raise SpecError(f"answer: {run} has no role with `backend: manual`; nobody is waited for")
    _checked_slots(run, config, slot)
    return [each._asdict() for each in awaited_answers(run, targets) if slot in ("", each.slot)]


def _checked_slots(run: str, config: Mapping[str, Any], slot: str) -> Sequence[EvalSlot]:
    """All slots of a search; one that is named has to be among them."""
    slots = shape_of(config).all_slots()
    if slot and slot not in map(str, slots):
        raise SpecError(f"answer: {run} has no slot '{slot}'; it would be like {slots[0]}")
    return slots


def answer(run: str, targets: Sequence[Target], slot: str, content: bytes, file: str) -> Mapping[str, Any]:
    """Put a person's answer where it is awaited; an empty one says that there is none."""
    waiting = awaited(run, targets, slot)
    if not waiting:
        why = "it has been answered, or the search is not there yet"
        raise SpecError(f"answer: nothing is awaited for {slot} of {run}: {why}; `coppice answer {run}` lists what is")
    wanted = waiting[0]
    if content.strip() and wanted["what"] == IDEA:
        check_idea(content.decode(errors="replace"), file)
    if content.strip() and wanted["what"] == CHANGE:
        _check_patch(run, parse_slot(slot), content, file)
    os.makedirs(os.path.dirname(wanted["path"]) or ".", exist_ok=True)
    write_whole(wanted["path"], content if content.strip() else b"")
    append_request(run, ANSWERED, slot=slot, what=wanted["what"], path=wanted["path"])
    return wanted


def give_up(run: str, targets: Sequence[Target], slot: str) -> Mapping[str, Any]:
    """Make the question of a slot that never got an answer the idea's own failure; no build of the run may go on."""
    _checked_slots(run, planned_config(targets), slot)
    for name in ("implement", "idea"):
        calls = Calls(f"{folder(run)}/calls/{slot}.{name}")
        try:
            last = next(reversed(calls.read_all()), None)
        except DamagedCall as error:
            raise SpecError(f"answer: {error}") from error
        if last and not last.is_settled:
            why = f"given up by a person: {last.error}"
            calls.append(last._replace(exit=REFUSAL_STATUS, error=why, usage=FREE, seconds=0.0))
            append_request(run, ANSWERED, slot=slot, what=GIVEN_UP, path=calls.path)
            return {"slot": slot, "what": GIVEN_UP, "path": calls.path}
    raise SpecError(f"answer: {run}:{slot} has no question that was asked and never answered; nothing was given up")


def _check_patch(run: str, slot: EvalSlot, patch: bytes, file: str) -> None:
    repo = RunRepo(run)
    parent = repo.chain(load(RunLayout(run).of_node(slot.place, "code.json")))
    try:
        apply_to_tree(repo.path, index_of_commit(repo.path, parent), patch)
    except GitProblem as problem:
        raise SpecError(f"{file}: is no change of {slot.place}: {problem}; nothing was written") from problem
