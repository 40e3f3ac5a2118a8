"""Implementing an idea: planner, coder and reviewer, or a change from a file or by hand.

States of the work on one idea:

    start -> planned           the planner's answer, if there is one
    planned -> coded           the coder changes a worktree; without any change it is told so, and has another round
    coded -> approved          the reviewer agrees, or there is none
    coded -> planned           the reviewer objects, and rounds are left: the coder goes on from there
    coded -> not approved      the rounds are over; the code is kept for people to look at, and goes no further

The commit exists before anything is measured.  Only the difference in files counts, whatever anybody said.  A change
made by hand is waited for in a worktree of its slot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeline.git.command import CandidateProblem
from pipeline.git.commits import Candidate, apply_patch, commit_patch, commit_worktree, patch_between
from pipeline.git.refs import pin
from pipeline.git.repository import restore_setup
from pipeline.git.worktrees import Worktree
from pipeline.machine.job import Job, StageFailed
from pipeline.models.calls import answered_call, failed_call, recorded_answer
from pipeline.models.clients import secret_names
from pipeline.models.contract import Answer, CallFailed
from pipeline.store.files import read_bytes
from pipeline.tree.rules.assignment import idea_identity, parse_idea
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.positions import slot_of
from pipeline.tree.rules.prompts import diff_in_answer, history_section, review_verdict
from pipeline.tree.run.ideas import RoleAsker
from pipeline.tree.run.records import NO_CANDIDATE, CandidateRecord, Record, SlotTask, load, load_as, save, write
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.spec.model import DRY, MANUAL, NONE, PATCHES


def by_hand_stage(job: Job) -> None:
    """Take a change made by hand.  A person works in a worktree of the slot, or anywhere: only the patch counts."""
    folder, slot = dict(job.target.reads)["coder_folder"][0], job.target.params["slot"]
    path, task, repo = f"{folder}/{slot}.patch", load_as(SlotTask, job.reads["task"][0]), RunRepo(job.target.run)
    if not task.empty and not os.path.isfile(path):
        where = os.path.relpath(repo.by_hand.add(slot, repo.chain(load(job.reads["code"][0]))).path)
        how = f"change the files in {where}, then `git add -A` and `git diff --cached --binary` there > {path}"
        raise StageFailed(f"waits for you: {how}; an empty file gives the idea up; build again", 1)
    write(job.writes["patch"][0], b"" if task.empty else read_bytes(path))
    repo.by_hand.remove(slot)


NOTHING_CHANGED = "nothing was changed"
NOT_APPROVED = "the reviewer did not approve it"
LONGEST_SUBJECT = 72
SHORTEST_SECRET = 8  # a shorter value may stand in any change
# The reason for an empty change, by where it comes from.
NO_CHANGE_WHY = {
    PATCHES: "no change is recorded with the idea: there is no change.patch beside its idea.md",
    MANUAL: "it was given up: the change made by hand is empty",
}


class Implementation(NamedTuple):
    """The work on an idea; `why` is empty when there is a candidate that may be measured."""

    why: str = ""
    candidate: Candidate | None = None
    patch: bytes = b""
    approved: bool = False
    reviews: tuple[str, ...] = ()


def implement_stage(job: Job) -> None:
    task, code = load_as(SlotTask, job.reads["task"][0]), load(job.reads["code"][0])
    asking = None if task.empty else RoleAsker.for_job(job, job.target.params["roles"], code.get("tree", ""))
    work = _Work(job, task.idea, code, asking).implementation() if asking else Implementation(task.why)
    status = COMPLETED if not work.why else SKIPPED if task.empty else FAILED
    record = CandidateRecord(status, work.why, work.approved, len(work.reviews))
    save(job.writes["candidate"][0], record._asdict() | (work.candidate or NO_CANDIDATE)._asdict())
    write(job.writes["patch"][0], work.patch)
    write(job.writes["tree"][0], f"{work.candidate.tree}\n" if work.candidate and not work.why else "")
    write(job.writes["calls"][0], asking.journal_bytes() if asking else b"")
    for n, path in enumerate(job.writes.get("reviews", ())):
        write(path, work.reviews[n] if n < len(work.reviews) else "This round was not held.\n")


class _Work:
    """The work of one idea on one node.  `at`: its state between the rounds."""

    def __init__(self, job: Job, idea: str, code: Record, asking: RoleAsker) -> None:
        self.job, self.idea, self.asking = job, idea, asking
        self.repo = RunRepo(job.target.run)
        self.slot = slot_of(job.target.name)
        self.parent = self.repo.chain(code)
        self.roles = job.target.params["roles"]
        self.at = Implementation()

    def implementation(self) -> Implementation:
        coder = CHANGE_SOURCES.get(self.roles["coder"]["backend"])
        try:
            work = self._review_recorded(coder(self)) if coder else self._code_and_review()
        except (CallFailed, CandidateProblem) as failure:
            work = self.at._replace(why=str(failure), approved=False)
        if work.candidate:
            pin(self.repo.path, self.job.target.run, str(self.slot), work.candidate.commit)
        return work

    def _subject(self) -> str:
        text = parse_idea(self.idea).sections.get("IDEA", self.idea)
        first = next((line.strip() for line in text.splitlines() if line.strip()), "An idea")
        return first if len(first) <= LONGEST_SUBJECT else f"{first[: LONGEST_SUBJECT - 1]}…"

    def _review_recorded(self, change: bytes) -> Implementation:
        """Commit a recorded change, which needs no worktree, and review it in one round: nobody can answer."""
        candidate = commit_patch(self.repo.path, self.parent, change, self._subject())
        if candidate.empty:
            raise CandidateProblem(NOTHING_CHANGED)
        work = Implementation("", candidate, change)
        if self.roles["reviewer"]["backend"] == NONE:
            return work._replace(approved=True)
        with self.repo.checkout(str(self.slot), candidate.commit) as worktree:
            approved, review = self._review(work, "", "", worktree.path)
        return self._apply_verdict(work._replace(approved=approved, reviews=(review,) if review else ()))

    def _code_and_review(self) -> Implementation:
        """Code and review in rounds, until the reviewer approves or the rounds are over."""
        objection = "Nothing."
        with self.repo.checkout(str(self.slot), self.parent) as worktree:
            plan = self._plan(worktree.path)
            for _ in range(int(self.job.target.params["max_review_rounds"]) + 1):
                objection = self._round(worktree, plan, objection)
                self.at = self.at._replace(reviews=(*self.at.reviews, objection))
                if self.at.approved:
                    break
        if self.at.candidate is None:
            raise CandidateProblem(objection)
        return self._apply_verdict(self.at)

    def _round(self, worktree: Worktree, plan: str, review: str) -> str:
        """Code once and review it: the reviewer's objection, or why there is nothing to review."""
        prompt = self.asking.prompt("coder", {"idea": self.idea, "plan": plan, "review": review})
        try:
            answer, change = self._code_once(worktree, prompt)
        except CandidateProblem as problem:
            self.at = self.at._replace(candidate=None, patch=b"")
            return str(problem)
        candidate = commit_worktree(worktree, self.parent, self._subject())
        self.at = self.at._replace(candidate=None if candidate.empty else candidate, patch=change)
        if candidate.empty:
            return NOTHING_CHANGED
        approved, objection = self._review(self.at, plan, answer.text, worktree.path)
        self.at = self.at._replace(approved=approved)
        return objection

    def _apply_verdict(self, work: Implementation) -> Implementation:
        """Refuse code that nobody approved, unless the spec lets it proceed."""
        if work.approved or self.job.target.params["proceed_on_max_review_rounds"]:
            return work._replace(approved=True)
        return work._replace(why=NOT_APPROVED)

    def _plan(self, folder: str) -> str:
        if self.roles["planner"]["backend"] == NONE:
            return "None."
        context = history_section(load(self.job.reads["context"][0]), ())
        return self.asking.ask("planner", {"idea": self.idea, "context": context}, folder).text

    def _review(self, work: Implementation, plan: str, report: str, folder: str) -> tuple[bool, str]:
        if self.roles["reviewer"]["backend"] == NONE:
            return True, ""
        diff = work.patch.decode(errors="replace")
        values = {"idea": self.idea, "plan": plan or "None.", "diff": diff, "report": report or "Nothing."}
        text = self.asking.ask("reviewer", values, folder).text
        return review_verdict(text) is True, text

    def _code_once(self, worktree: Worktree, prompt: str) -> tuple[Answer, bytes]:
        """The coder's answer and change, or those of the last time with the same prompt.

        A coder that changed no file may have answered with a diff."""
        before = self._change(worktree)
        if earlier := self.asking.earlier_call("coder", prompt):
            answer = recorded_answer(earlier)
            self._reset(worktree, answer.patch)
            change = answer.patch
        else:
            answer, change = self._ask_coder(worktree, prompt, before)
        if change == before and (text := diff_in_answer(answer.text)):
            apply_patch(worktree, text.encode())
            change = self._change(worktree)
        return answer, change

    def _ask_coder(self, worktree: Worktree, prompt: str, before: bytes) -> tuple[Answer, bytes]:
        """Ask the coder, and keep the answer before anything else is done: it may have cost money."""
        question = self.asking.question("coder", prompt, worktree.path)
        answer = self.asking.ask_with_retries(question, lambda: self._reset(worktree, before))
        if answer.patch:  # recorded elsewhere
            self._reset(worktree, answer.patch)
        coder = self.asking.roles["coder"]
        try:
            change = self._change(worktree)
            if answer.trouble and change == before and not diff_in_answer(answer.text):
                raise self.asking.unanswered(question, answer.trouble)
            self._check_keys(change)
        except CandidateProblem as problem:
            failure = CallFailed(str(problem), 1, answer.usage, answer.seconds)
            self.asking.calls.append(failed_call(coder, question, failure))
            raise failure from problem
        self.asking.calls.append(answered_call(coder, question, answer, change))
        return answer, change

    def _change(self, worktree: Worktree) -> bytes:
        if os.path.islink(worktree.path) or not os.path.isdir(worktree.path):
            raise CandidateProblem("the folder that the coder worked in is gone")
        restore_setup(self.repo.path)
        made = commit_worktree(worktree, self.parent, self._subject())
        return b"" if made.empty else patch_between(self.repo.path, self.parent, made.commit)

    def _check_keys(self, change: bytes) -> None:
        """Refuse a change that holds a key of the coder's environment: it would be recorded, committed and run."""
        values = {name: os.environ.get(name, "") for name in secret_names(self.asking.roles["coder"])}
        secrets = {name: value for name, value in values.items() if len(value) >= SHORTEST_SECRET}
        if held := [name for name, value in secrets.items() if value.encode(errors="surrogateescape") in change]:
            raise CandidateProblem(f"the change holds the value of {', '.join(held)}, which is not to be written down")

    def _reset(self, worktree: Worktree, change: bytes) -> None:
        self.repo.candidates.add(str(self.slot), self.parent)
        if change:
            apply_patch(worktree, change)


def _change_from_file(work: _Work) -> bytes:
    change = read_bytes(work.job.reads["patch"][0])
    if not change.strip():
        raise CandidateProblem(NO_CHANGE_WHY[work.roles["coder"]["backend"]])
    return change


def _dry_run_change(work: _Work) -> bytes:
    """A change that adds a file which no repository has."""
    identity = idea_identity(work.idea)
    name, line = f"dry-run-{identity[:16]}.md", f"Made by a dry run: {identity}"
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1 @@\n+{line}\n".encode()


CHANGE_SOURCES: Mapping[str, Callable[[_Work], bytes]] = {
    PATCHES: _change_from_file,
    MANUAL: _change_from_file,
    DRY: _dry_run_change,
}
