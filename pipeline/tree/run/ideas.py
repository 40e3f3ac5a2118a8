"""Asking a role, and the stages that get ideas: asked for, recorded in a folder, or written by a person.

An answer that was paid for before the work was broken off is not asked for again: calls are journalled as they end.
States of a call, by its key (role, prompt, files):

    none -> answered          kept, and used again by the same target
    none -> failed            kept with its cost; asked again, `eval_retries` times at most
    none -> refused           kept with its cost; a model that will not answer is not asked again
    none -> service at fault  its cost is kept; the call waits and is made again, until patience is over: then it is
                              an outage of the target, and the next build asks
    none -> broken off        noted before it was sent, and no more is known: it is on the bill, at an unknown price

The default prompts are files in prompts/ beside this module."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from pipeline.core.outcome import DISK_FULL, MODEL_UNAVAILABLE, Wait
from pipeline.core.text import join_names
from pipeline.errors import NO_ROOM
from pipeline.git.command import GitOutage
from pipeline.machine.failures import NOT_NOW, describe_unwritten, full_disk, watch_room
from pipeline.machine.job import Job, NoRoom, StageFailed, StageOutage
from pipeline.machine.patience import Pauses, RefusedTry, Service, Services, ServiceTurn, sleep_until
from pipeline.machine.process import BuildStopping
from pipeline.models.ask import PAID, PROGRAMS, ask
from pipeline.models.calls import Call, Calls, answered_call, call_key, failed_call, read_calls, recorded_answer
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
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.run.seal import sealed_paths
from pipeline.tree.spec.model import DRY, GIVEN, MANUAL

T = TypeVar("T")

# Keys of a role that may differ where the same service is asked.
ASKED_DIFFERENTLY = (
    "prompt", "context_tokens", "timeout", "retries", "price", "usage", "temperature", "seed", "max_tokens", "folder",
    "max_repairs", "partial", "outage", "max_turns", "max_usd",
)  # fmt: skip
# Outages of one answer, which may have been paid for: so many in a row for one question, and no more are tried.
OF_ONE_ANSWER, MOST_PAID = ("malformed", "time-out"), 3


class _Outages:
    """Outages of one question in a row."""

    def __init__(self) -> None:
        self._maybe_paid, self._since = 0, 0.0

    def check(self, service: Service, problem: BackendUnavailable) -> None:
        """Raise StageOutage where waiting does not help, or was tried often enough."""
        if not problem.kind:
            raise StageOutage(str(problem), MODEL_UNAVAILABLE) from problem
        self._maybe_paid = self._maybe_paid + 1 if problem.kind in OF_ONE_ANSWER else 0
        if self._maybe_paid == 1:
            self._since = service.out_since
        if self._maybe_paid == MOST_PAID:
            if service.out_since == self._since:  # nobody else has got an answer meanwhile
                service.give_up()
            raise StageOutage(f"{problem}; {MOST_PAID} times in a row", MODEL_UNAVAILABLE) from problem


class _CallWithoutRoom(CallFailed):
    """A call that failed while a disk was full; or that ended well, half of the files unwritten."""


def login_advice(backend: Mapping[str, Any]) -> str:
    """Where to look when a service has let nobody in: the environment is wrong, and waiting mends nothing."""
    protocol = PROTOCOLS.get(backend["backend"])
    names = [backend.get("key_env", protocol.key_env)] if protocol else [*secret_names(backend)]
    known = [name for name in names if name]
    there = [name for name in known if os.environ.get(name)]
    if there:
        what = f"check the key in {join_names(there)}"
    elif known:
        what = f"no key is set: {' or '.join(known[:3])}, or a login of its own"
    else:
        what = "no variable with a key is passed to it: `key_env:` or `pass:` names one"
    return f"{what}; not waited for, since it has let in no call of this build"


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

    def keep(self, *calls: Call) -> None:
        """Keep calls that ended, which may have cost money: a full disk is waited for."""
        self.when_room(calls[0].role, lambda: self.calls.append(*calls))

    def when_room(self, role: str, do: Callable[[], T]) -> T:
        """Do what an answer is kept by, again and again while a disk is full or git is killed."""
        pauses = Pauses(self.job.target.limits.patience or 0.0)
        while True:
            try:
                return do()
            except OSError as error:
                if error.errno not in NO_ROOM or (seconds := pauses.next_pause()) is None:
                    raise
                wait = Wait(role, "disk full", describe_unwritten(error), seconds)
            except GitOutage as outage:
                if (seconds := pauses.next_pause()) is None:
                    raise
                wait = Wait(role, "killed", str(outage), seconds)
            self.job.say(wait)
            sleep_until(self.job.processes, SimpleQueue(), wait.seconds)

    def question(self, role: str, prompt: str, where: str) -> Question:
        return Question(role, prompt, where, self.job.log, own_name(self.job.target.name), self.ground)

    def ask_with_retries(
        self,
        question: Question,
        again: Callable[[], object] = lambda: None,
        check: Callable[[Answer], object] = lambda answer: None,
        rescue: Callable[[CallFailed], Sequence[Call]] = lambda failure: (),
    ) -> Answer:
        """Ask as often as the spec allows, calling `again` before each retry; failures are kept with their cost.

        An outage is waited for, and is none of the retries; `check` may find one in an answer.  Calls that `rescue`
        makes of the last failure are kept with it at once: after a kill there are both or none."""
        backend = self.roles[question.role]
        service, outages = self._service(backend), _Outages()
        squeezed = 0
        while True:
            if full := full_disk([self.calls.path]):  # an answer could not be kept, and would be paid for again
                raise NoRoom(full)
            try:
                with service.turn(self.job, question.role) as turn:
                    return self._ask_once(question, service, turn, check)
            except BackendUnavailable as problem:
                if problem.usage != FREE:
                    self.keep(failed_call(backend, question, problem))
                elif backend["backend"] in PAID:
                    self.when_room(question.role, self.calls.note_unpaid)
                if self.job.processes.stopping:
                    raise BuildStopping from problem
                outages.check(service, problem)
            except CallFailed as failure:
                failed = failed_call(backend, question, failure)
                if isinstance(failure, _CallWithoutRoom) and squeezed < MOST_PAID:
                    squeezed += 1
                    self.keep(failed._replace(exit=NOT_NOW))
                    self._await_room(question, str(failure))
                elif self._keep_failure(question, failed, partial(rescue, failure)):
                    raise
            again()

    def _keep_failure(self, question: Question, failed: Call, rescue: Callable[[], Sequence[Call]]) -> bool:
        """Keep a failed call; check if it was the last try."""
        settled, _ = self._settled_calls(question.role, question.prompt)
        is_last = not self._has_tries([*settled, failed]) or self.job.processes.stopping
        rescued: Sequence[Call] = ()
        try:
            rescued = rescue() if is_last else ()
        finally:
            self.keep(failed, *rescued)
        return is_last

    def _ask_once(
        self, question: Question, service: Service, turn: ServiceTurn, check: Callable[[Answer], object]
    ) -> Answer:
        """Ask, and tell the others who ask the same backend what came of it."""
        context = CallContext(self.job.processes, self.job.target.run, tuple(sealed_paths(self.job)))
        backend, full = self.roles[question.role], list[str]()
        try:
            with watch_room([question.folder, question.log]) as full:
                if backend["backend"] in PAID:
                    is_free = isinstance(backend.get("price"), str)
                    self.calls.note_asked(question.role, 0.0 if is_free else None)
                answer = ask(backend, question, context)
            check(answer)
            if full and question.role == CODER and backend["backend"] in PROGRAMS:
                raise CallFailed(f"{question.role}: it ended well", 1, answer.usage, answer.seconds)
        except BackendUnavailable as problem:
            if problem.kind:
                is_mistake = problem.kind == "login" and not service.has_worked
                why = f"{problem}; {login_advice(backend)}" if is_mistake else str(problem)
                turn.failed(RefusedTry(problem.kind, why, problem.after))
                if is_mistake:
                    service.give_up()
            raise
        except CallFailed as failure:
            turn.succeeded()
            if full and failure.exit != REFUSAL_STATUS and backend["backend"] in PROGRAMS:
                why = f"{failure}; {full[0]}"
                raise _CallWithoutRoom(why, failure.exit, failure.usage, failure.seconds) from failure
            raise
        turn.succeeded()
        return answer

    def _await_room(self, question: Question, why: str) -> None:
        """Wait for room before a call that may cost money is made again."""
        pauses = Pauses(self.job.target.limits.patience or 0.0)
        while True:
            if (seconds := pauses.next_pause()) is None:
                raise StageOutage(why, DISK_FULL)
            self.job.say(Wait(question.role, "disk full", why, seconds))
            sleep_until(self.job.processes, SimpleQueue(), seconds)
            if not full_disk([question.folder, question.log]):
                return

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


def cost_of_calls(calls: list[Call]) -> Record:
    """The cost of calls together, the failed ones too; `unknown_calls`, if there are any: those of unknown price."""
    unknown = sum(call.usage.usd is None for call in calls)
    return {
        **({"unknown_calls": unknown} if unknown else {}),
        "usd": sum(call.usage.usd or 0.0 for call in calls),
        "tokens": sum(call.usage.input_tokens + call.usage.output_tokens for call in calls),
        "seconds": round(sum(call.seconds for call in calls), 3),
    }


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
        raise StageFailed(f"waits for you: write an idea into {path}, empty for none, then build again", 1)
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
