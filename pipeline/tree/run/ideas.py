"""Asking a role, and the stages that get ideas: asked for, recorded in a folder, or written by a person.

An answer that was paid for before the work was broken off is not asked for again: calls are journalled as they end.
States of a call, by its key (role, prompt, files):

    none -> answered          kept, and used again by the same target
    none -> failed            kept with its cost; asked again, `eval_retries` times at most
    none -> refused           kept with its cost; a model that will not answer is not asked again
    none -> service at fault  its cost is kept; the target fails, is tried again by `build/make`, and by the next build

The default prompts are files in prompts/ beside this module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from pipeline.machine.job import Job, StageFailed
from pipeline.models.ask import ask
from pipeline.models.calls import Call, Calls, answered_call, call_key, failed_call, read_calls, recorded_answer
from pipeline.models.complaints import REFUSAL_STATUS
from pipeline.models.contract import FREE, Answer, BackendUnavailable, CallContext, CallFailed, Question
from pipeline.store.files import read_bytes
from pipeline.store.noop import folder
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.positions import own_name, slot_of
from pipeline.tree.rules.prompts import history_section, prompt_mistakes, render_prompt
from pipeline.tree.run.records import Record, load, read_text, save, write
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.run.seal import sealed_paths
from pipeline.tree.spec.model import DRY, MANUAL


def default_prompt_path(role: str) -> str:
    return os.path.join(os.path.dirname(__file__), "prompts", f"{role}.md")


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
        path = self.job.reads.get(f"{role}_prompt", [default_prompt_path(role)])[0]
        template = read_text(path)
        if wrong := prompt_mistakes(role, template):
            raise StageFailed(f"{path}: {wrong[0]}", 2)
        return render_prompt(template, values)

    def earlier_call(self, role: str, prompt: str) -> Call | None:
        """The last settled call for a prompt; None while it may be tried once more."""
        settled, again = self._settled_calls(role, prompt)
        return settled[-1] if settled and not (settled[-1].exit and again) else None

    def _settled_calls(self, role: str, prompt: str) -> tuple[list[Call], bool]:
        """Calls for a prompt, without those that failed by fault of the service; and whether tries are left.

        Tries before a kill count too."""
        key = call_key(role, prompt, self.ground)
        settled = [call for call in self.calls.read_all() if call.key == key and call.is_settled]
        refused = any(call.exit == REFUSAL_STATUS for call in settled)
        return settled, not refused and sum(call.exit != 0 for call in settled) <= self.job.target.limits.retries

    def ask(self, role: str, values: Mapping[str, str], where: str) -> Answer:
        """Ask a role that only answers; a coder's work is more than its words."""
        prompt = self.prompt(role, values)
        if earlier := self.earlier_call(role, prompt):
            return recorded_answer(earlier)
        question = self.question(role, prompt, where)
        answer = self.ask_with_retries(question)
        self.calls.append(answered_call(self.roles[role], question, answer))
        return answer

    def question(self, role: str, prompt: str, where: str) -> Question:
        return Question(role, prompt, where, self.job.log, own_name(self.job.target.name), self.ground)

    def ask_with_retries(self, question: Question, again: Callable[[], object] = lambda: None) -> Answer:
        """Ask as often as the spec allows, calling `again` before each retry; failures are kept with their cost."""
        backend, sealed = self.roles[question.role], tuple(sealed_paths(self.job))
        context = CallContext(self.job.processes, self.job.target.run, sealed)
        while True:
            try:
                return ask(backend, question, context)
            except BackendUnavailable as problem:
                raise self.unanswered(question, problem) from problem
            except CallFailed as failure:
                self.calls.append(failed_call(backend, question, failure))
                if not self._settled_calls(question.role, question.prompt)[1] or self.job.processes.stopping:
                    raise
                again()

    def unanswered(self, question: Question, problem: BackendUnavailable) -> StageFailed:
        """The failure of a target whose question got no answer; a cost is kept, to be counted with the answer."""
        if problem.usage != FREE:
            self.calls.append(failed_call(self.roles[question.role], question, problem))
        return StageFailed(str(problem), 1)

    def journal_bytes(self) -> bytes:
        return read_bytes(self.calls.path) if os.path.exists(self.calls.path) else b""


NO_CONSTRAINTS = "None beyond those above."
NEARLY_THE_SAME = "An idea that shares {:.0%} or more of its words with an idea above is dropped without being tried."


class IdeaAnswer(NamedTuple):
    """An idea; `text` is empty when there is none, and `why` says why."""

    text: str
    source: str
    why: str = ""


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
    save(job.writes["json"][0], record | cost_of_calls(calls))


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
    slot = slot_of(job.target.name)
    asking = RoleAsker.for_job(job, {"ideas": job.target.params["role"]}, context["tree"])
    before = [text for path in job.reads["before"] if (text := read_text(path)).strip()]
    constraints = job.target.params["constraints"] or NO_CONSTRAINTS
    if (similar := job.target.params.get("similar")) is not None:
        constraints += f"\n{NEARLY_THE_SAME.format(similar)}"
    values = {"context": history_section(context, before), "constraints": constraints}
    repo, backend = RunRepo(job.target.run), job.target.params["role"]["backend"]
    try:
        with repo.checkout(f"{slot}.idea", repo.commit(slot.place)) as worktree:
            return IdeaAnswer(asking.ask("ideas", values, worktree.path).text.strip() + "\n", backend)
    except CallFailed as failure:
        return IdeaAnswer("", backend, str(failure))
    finally:
        write(job.writes["calls"][0], asking.journal_bytes())


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


IDEA_SOURCES: Mapping[str, Callable[[Job, Record], IdeaAnswer]] = {MANUAL: _idea_by_hand, DRY: _dry_run_idea}
