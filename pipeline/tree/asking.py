"""Asks a role, once: an answer that was paid for before the work was broken off is not asked for again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipeline.edge.job import Job, StageFailed
from pipeline.edge.roles.asking import ask
from pipeline.edge.roles.calls import Call, Calls, answered, call_key, failed, told
from pipeline.edge.roles.contract import FREE, Answer, Desk, Failed, Question, Unavailable
from pipeline.edge.state import folder
from pipeline.tree.default_prompts import path_of
from pipeline.tree.positions import own_name
from pipeline.tree.prompting import mistakes, rendered
from pipeline.tree.records import read_bytes, read_text
from pipeline.tree.sealed import sealed_of


class Asking(NamedTuple):
    """All that is asked in the course of one target.  `ground`: the tree of files that it is about."""

    job: Job
    roles: Mapping[str, Mapping[str, Any]]
    calls: Calls
    ground: str

    @classmethod
    def of(cls, job: Job, roles: Mapping[str, Mapping[str, Any]], ground: str) -> Asking:
        """What an earlier time has asked is forgotten if that came to its end: then it is wanted anew."""
        name, published = own_name(job.target.name), dict(job.target.writes)["calls"][0]
        journal = f"{folder(job.target.run)}/calls/{name}"
        calls = Calls(journal)
        if os.path.exists(calls.path) and os.path.exists(published) and read_bytes(calls.path) == read_bytes(published):
            shutil.rmtree(journal)
        return cls(job, _whole(job, roles), calls, ground)

    def prompt(self, role: str, values: Mapping[str, str]) -> str:
        path = self.job.reads.get(f"{role}_prompt", [path_of(role)])[0]
        template = read_text(path)
        if wrong := mistakes(role, template):
            raise StageFailed(f"{path}: {wrong[0]}", 2)
        return rendered(template, values)

    def before(self, role: str, prompt: str) -> Call | None:
        """What came of it the last time; nothing while it may be tried once more."""
        last = next((call for call in reversed(self._settled(role, prompt))), None)
        return None if last and last.exit and self._tries_left(role, prompt) else last

    def _tries_left(self, role: str, prompt: str) -> int:
        """Those before a kill count too."""
        failures = sum(call.exit != 0 for call in self._settled(role, prompt))
        return max(0, 1 + self.job.target.limits.retries - failures)

    def _settled(self, role: str, prompt: str) -> list[Call]:
        """Without those of which nothing came for want of the service."""
        key = call_key(role, prompt, self.ground)
        return [call for call in self.calls.every() if call.key == key and call.settled]

    def ask(self, role: str, prompt: str, where: str) -> Answer:
        """For roles that only answer; a coder's work is more than its words."""
        if known := self.before(role, prompt):
            return told(known)
        question = self.question(role, prompt, where)
        answer = self.asked(question)
        self.calls.keep(answered(self.roles[role], question, answer))
        return answer

    def question(self, role: str, prompt: str, where: str) -> Question:
        return Question(role, prompt, where, self.job.log, own_name(self.job.target.name), self.ground)

    def asked(self, question: Question, again: Callable[[], object] = lambda: None) -> Answer:
        """A failure is kept too: it may have cost money.  Asked again as often as the spec allows, after `again`."""
        backend = self.roles[question.role]
        while True:
            try:
                return ask(backend, question, self._desk())
            except Unavailable as problem:
                raise self.unanswered(question, problem) from problem
            except Failed as failure:
                self.calls.keep(failed(backend, question, failure))
                if not self._tries_left(question.role, question.prompt) or self.job.processes.stopping:
                    raise
                again()

    def unanswered(self, question: Question, problem: Unavailable) -> StageFailed:
        """What it cost all the same is kept, to be counted when there is an answer."""
        if problem.usage != FREE:
            self.calls.keep(failed(self.roles[question.role], question, problem))
        return StageFailed(str(problem), 1)

    def _desk(self) -> Desk:
        return Desk(self.job.processes, self.job.target.run, tuple(sealed_of(self.job)))

    def recorded(self) -> bytes:
        return read_bytes(self.calls.path) if os.path.exists(self.calls.path) else b""


def _whole(job: Job, roles: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """As they stand in the spec: what the recipe leaves out is beside it, files are where the job has them."""
    aside = job.target.params.get("limits", {})
    found = {name: {**role, **aside.get(name, {})} for name, role in roles.items()}
    for name, role in found.items():
        if f"{name}_folder" in job.reads:
            role["folder"] = dict(job.target.reads)[f"{name}_folder"][0]
    return found
