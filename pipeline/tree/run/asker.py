"""Asking a role of a search; the stages that get ideas: from a role, from a folder, or from a person.

A question that was answered and paid for is not asked again.  Calls are journalled as they end, so that answers outlive
a build that was broken off.  States of a call, by its key (role, prompt, files):

    none -> answered          kept, and used again by the same target
    none -> failed            kept with its cost; asked again, `eval_retries` times at most
    none -> refused           kept with its cost; a model that will not answer is not asked again
    none -> service at fault  its cost is kept; the call waits and is made again, until patience is over: then it is
                              an outage of the target, and the next build asks
    none -> broken off        noted before it was sent, and no more is known: it is on the bill, at an unknown price"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from pipeline.core.cages import CAGE
from pipeline.core.outcome import ANSWER_AWAITED, DISK_FULL, MODEL_UNAVAILABLE
from pipeline.core.text import join_names
from pipeline.errors import NO_ROOM
from pipeline.git.command import GitOutage
from pipeline.machine.failures import NOT_NOW, describe_unwritten, full_disk, watch_room
from pipeline.machine.job import Job, NoRoom, StageFailed, StageOutage
from pipeline.machine.patience import Pauses, RefusedTry, Service, Services, ServiceTurn
from pipeline.machine.process import BuildStopping, NotBegun
from pipeline.models.ask import PAID, PROGRAMS, ask, held_cage
from pipeline.models.calls import (
    Call,
    Calls,
    answered_call,
    call_key,
    cost_of_calls,
    failed_call,
    read_calls,
    recorded_answer,
)
from pipeline.models.clients import CODER, secret_names
from pipeline.models.complaints import REFUSAL_STATUS
from pipeline.models.contract import FREE, Answer, BackendUnavailable, CallContext, CallFailed, Question
from pipeline.models.endpoints import PROTOCOLS
from pipeline.store.files import read_bytes
from pipeline.store.noop import folder
from pipeline.store.steering import claim_slot
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.positions import RunLayout, own_name, slot_of
from pipeline.tree.run.prompting import PromptValues, fill_template
from pipeline.tree.run.records import Record, load, read_text, save, write
from pipeline.tree.run.run_repo import RunRepo, lender_of
from pipeline.tree.run.seal import sealed_paths
from pipeline.tree.spec.model import DRY, GIVEN, MANUAL

T = TypeVar("T")

# Keys of a role that may differ where the same service is asked.
ASKED_DIFFERENTLY = (
    "prompt", "context_tokens", "timeout", "retries", "price", "usage", "temperature", "seed", "max_tokens", "folder",
    "max_repairs", "partial", "outage", "max_turns", "max_usd", CAGE,
)  # fmt: skip
# Outages of one answer, which may have been paid for: so many in a row for one question, and no more are tried.
OF_ONE_ANSWER, MOST_PAID = ("malformed", "time-out"), 3


class _Outages:
    """Outages of one question in a row."""

    def __init__(self) -> None:
        self._maybe_paid = 0

    def check(self, service: Service, problem: BackendUnavailable) -> None:
        """Raise StageOutage where waiting does not help, or was tried often enough."""
        if not problem.kind:
            raise StageOutage(str(problem), MODEL_UNAVAILABLE) from problem
        self._maybe_paid = self._maybe_paid + 1 if problem.kind in OF_ONE_ANSWER else 0
        if self._maybe_paid == MOST_PAID:
            service.note_hopeless()
            why = f"{problem}; asked {MOST_PAID} times, as each try may cost"
            raise StageOutage(why, MODEL_UNAVAILABLE) from problem


class _CallOnFullDisk(CallFailed):
    """Failure of a call while a disk was full; it may also have ended well, half of the files unwritten."""


# Outages that waiting does not mend before anything of the backend has worked: the environment is wrong.
MISTAKES = ("login", "missing")


def advice_on_mistake(backend: Mapping[str, Any], kind: str) -> str:
    """Where to look when a service has let nobody in, or is not there."""
    where = _where_to_look(backend) if kind == "login" else "check the program or `url:`, and `model:`"
    return f"{where}; not waited for: no call of this build has got in yet"


def _where_to_look(backend: Mapping[str, Any]) -> str:
    """Variables of the keys that let a backend in, or a login of its own, in words."""
    protocol = PROTOCOLS.get(backend["backend"])
    names = [backend.get("key_env", protocol.key_env)] if protocol else [*secret_names(backend)]
    known = [name for name in names if name]
    there = [name for name in known if os.environ.get(name)]
    if there:
        return f"check the key in {join_names(there)}"
    if known:
        *others, last = known[:3]
        return f"set {', '.join(others)}{' or ' if others else ''}{last}, or log in with the client"
    return "no variable with a key is passed to it: `key_env:` or `pass:` names one"


class RoleAsker(NamedTuple):
    """Asks the roles of one target.  `ground`: the tree of files that the questions are about."""

    job: Job
    roles: Mapping[str, Mapping[str, Any]]
    calls: Calls
    ground: str

    @classmethod
    def for_job(cls, job: Job, roles: Mapping[str, Mapping[str, Any]], ground: str) -> RoleAsker:
        """The asker of a job; the journal of a time that came to its end is put aside: then new answers are wanted."""
        published = dict(job.target.writes)["calls"][0]
        name = own_name(job.target.name)
        if name.endswith(".ahead"):  # the same work, begun before its turn
            name = f"{name.removesuffix('.ahead')}.implement"
        journal = f"{folder(job.target.run)}/calls/{name}"
        calls = Calls(journal)
        if os.path.exists(calls.path) and os.path.exists(published) and read_bytes(calls.path) == read_bytes(published):
            calls.retire()
        # as they stand in the spec: with the keys that the recipe leaves out, and the job's files
        limits = job.target.params.get("limits", {})
        in_full = {name: {**role, **limits.get(name, {})} for name, role in roles.items()}
        for name, role in in_full.items():
            if f"{name}_folder" in job.reads:
                role["folder"] = dict(job.target.reads)[f"{name}_folder"][0]
        return cls(job, in_full, calls, ground)

    def prompt(self, role: str, values: Mapping[str, str]) -> str:
        return fill_template(self.job.reads, role, values)

    def earlier_call(self, role: str, prompt: str) -> Call | None:
        """The last settled call for a prompt; None while it may be tried once more."""
        settled, again = self._settled_calls(role, prompt)
        return settled[-1] if settled and not (settled[-1].exit and again) else None

    def _settled_calls(self, role: str, prompt: str) -> tuple[list[Call], bool]:
        """Calls for a prompt, without those that failed by fault of the service; and whether tries are left.

        Tries before a kill count too."""
        key = call_key(role, prompt, self.ground)
        settled = [call for call in self.calls.read_all() if call.key == key and call.is_settled]
        return settled, self._has_tries(settled)

    def _has_tries(self, settled: Sequence[Call]) -> bool:
        refused = any(call.exit == REFUSAL_STATUS for call in settled)
        return not refused and sum(call.exit != 0 for call in settled) <= self.job.target.limits.retries

    def ask(self, role: str, values: Mapping[str, str], where: str) -> Answer:
        """Ask a role that only answers; a coder's work is more than its words."""
        prompt = self.prompt(role, values)
        if earlier := self.earlier_call(role, prompt):
            return recorded_answer(earlier)
        question = self.question(role, prompt, where)
        answer = self.ask_with_retries(question)
        self.keep(answered_call(self.roles[role], question, answer))
        return answer

    def keep(self, call: Call) -> None:
        """Keep a call that ended, which may have cost money: a full disk is waited for."""
        grade, network = held_cage(self.roles[call.role])
        held = call._replace(sandbox=grade, network=network)
        self.when_room(call.role, lambda: self.calls.append(held))

    def when_room(self, role: str, do: Callable[[], T]) -> T:
        """Do what an answer is kept by, again and again while a disk is full or git is killed."""
        wait = partial(Pauses(self.job.target.limits.patience or 0.0).wait, self.job.processes, self.job.say, role)
        while True:
            try:
                return do()
            except OSError as error:
                if error.errno not in NO_ROOM or not wait("disk full", describe_unwritten(error)):
                    raise
            except GitOutage as outage:
                if not wait("killed", str(outage)):
                    raise

    def question(self, role: str, prompt: str, where: str) -> Question:
        return Question(role, prompt, where, self.job.log, own_name(self.job.target.name), self.ground)

    def ask_with_retries(
        self,
        question: Question,
        again: Callable[[], object] = lambda: None,
        check: Callable[[Answer], object] = lambda answer: None,
        rescue: Callable[[CallFailed], Answer | None] = lambda failure: None,
    ) -> Answer:
        """Ask as often as the spec allows, calling `again` before each retry; failures are kept with their cost.

        An outage is waited for, and is none of the retries; `check` may find one in an answer.  `rescue` may make an
        answer of the last failure, with its cost.  Whoever asks keeps the answer."""
        backend = self.roles[question.role]
        service, outages = self._service(backend), _Outages()
        full_disk_tries = 0
        while True:
            if full := full_disk([self.calls.path]):  # an answer could not be kept, and would be paid for again
                raise NoRoom(full)
            try:
                with service.turn(self.job, question.role) as turn:
                    return self._ask_once(question, service, turn, check)
            except BackendUnavailable as problem:
                if problem.usage != FREE or problem.kind in OF_ONE_ANSWER:  # a person may give up such a question
                    self.keep(failed_call(backend, question, problem))
                elif backend["backend"] in PAID:
                    self.when_room(question.role, self.calls.note_unpaid)
                if self.job.processes.stopping:
                    raise BuildStopping from problem
                outages.check(service, problem)
            except CallFailed as failure:
                if isinstance(failure, _CallOnFullDisk) and full_disk_tries < MOST_PAID:
                    full_disk_tries += 1
                    self.keep(failed_call(backend, question, failure)._replace(exit=NOT_NOW))
                    self._await_room(question, str(failure))
                elif answer := self._after_failure(question, failure, rescue):
                    return answer
            again()

    def _after_failure(
        self, question: Question, failure: CallFailed, rescue: Callable[[CallFailed], Answer | None]
    ) -> Answer | None:
        """Keep a failed call, and raise it after the last try, unless `rescue` makes an answer of it; else None."""
        failed = failed_call(self.roles[question.role], question, failure)
        settled, _ = self._settled_calls(question.role, question.prompt)
        is_last = not self._has_tries([*settled, failed]) or self.job.processes.stopping
        answer: Answer | None = None
        try:
            answer = rescue(failure) if is_last else None
        finally:
            if answer is None:
                self.keep(failed)
        if is_last and answer is None:
            raise failure
        return answer

    def _ask_once(
        self, question: Question, service: Service, turn: ServiceTurn, check: Callable[[Answer], object]
    ) -> Answer:
        """Ask, and tell the others who ask the same backend what came of it."""
        backend, full = self.roles[question.role], list[str]()
        is_program = backend["backend"] in PROGRAMS
        try:
            with watch_room([question.folder, question.log]) as full:
                answer = self._send(question)
            check(answer)
        except BackendUnavailable as problem:
            if problem.kind:
                is_mistake = problem.kind in MISTAKES and not service.has_worked
                why = f"{problem}; {advice_on_mistake(backend, problem.kind)}" if is_mistake else str(problem)
                turn.failed(RefusedTry(problem.kind, why, problem.after, problem.kind in OF_ONE_ANSWER))
                if is_mistake:
                    service.give_up()
            raise
        except CallFailed as failure:
            turn.succeeded()
            if full and failure.exit != REFUSAL_STATUS and is_program:
                why = f"{failure}; {full[0]}"
                raise _CallOnFullDisk(why, failure.exit, failure.usage, failure.seconds) from failure
            raise
        turn.succeeded()
        if full and is_program and question.role == CODER:
            raise _CallOnFullDisk(f"{CODER}: it ended well; {full[0]}", 1, answer.usage, answer.seconds)
        return answer

    def _send(self, question: Question) -> Answer:
        """Ask; of what is paid there is a note before, which is taken back if the build stopped before it was sent."""
        backend = self.roles[question.role]
        run, hidden = self.job.target.run, sealed_paths(self.job, walled=True)
        context = CallContext(self.job.processes, run, tuple(hidden), (lender_of(run),))
        is_paid = backend["backend"] in PAID
        if is_paid:
            self.calls.note_asked(question.role, 0.0 if isinstance(backend.get("price"), str) else None)
        try:
            return ask(backend, question, context)
        except NotBegun:
            if is_paid:
                self.calls.note_unpaid()
            raise

    def _await_room(self, question: Question, why: str) -> None:
        """Wait for room before a call that may cost money is made again."""
        pauses = Pauses(self.job.target.limits.patience or 0.0)
        while pauses.wait(self.job.processes, self.job.say, question.role, "disk full", why):
            if not full_disk([question.folder, question.log]):
                return
        raise StageOutage(why, DISK_FULL)

    def _service(self, backend: Mapping[str, Any]) -> Service:
        """The service behind a backend: roles that ask in the same way share it."""
        services = self.job.shared.get(Services, Services)
        keys = {name: value for name, value in backend.items() if name not in ASKED_DIFFERENTLY}
        return services.of((json.dumps(keys, sort_keys=True), self.job.target.limits.patience))

    def journal_bytes(self) -> bytes:
        return read_bytes(self.calls.path) if os.path.exists(self.calls.path) else b""


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
