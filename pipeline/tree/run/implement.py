"""Implementing an idea: planner, coder and reviewer, or a change from a file or by hand.

States of the work on one idea:

    start -> planned           the planner's answer, if there is one
    planned -> coded           the coder changes a worktree; without any change it is told so, and has another round
    coded -> coded             its answer cannot be used: it is told what is wrong, `max_repairs` times
    coded -> approved          the reviewer agrees, or there is none
    coded -> planned           the reviewer objects, and rounds are left: the coder goes on from there
    approved -> planned        the tests fail, and the coder may be told so once more
    coded -> not approved      the rounds are over; the code is kept for people to look at, and goes no further

The commit exists before anything is measured.  Only the difference in files counts, whatever anybody said.  A change
made by hand is waited for in a worktree of its slot.  Of the answer of a coder that only writes text, nothing is
written before all of it was found good: edits become a tree of git, in which no path leads outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pipeline.core.graph import Leavings
from pipeline.core.outcome import ANSWER_AWAITED
from pipeline.core.text import join_names, plain_text
from pipeline.git.command import CandidateProblem
from pipeline.git.commits import (
    Candidate,
    apply_patch,
    commit_patch,
    commit_tree,
    commit_without_leavings,
    patch_between,
    tree_with_files,
    tree_with_patch,
)
from pipeline.git.objects import LINK, pin, read_blobs, tree_changes, tree_entries, tree_hash
from pipeline.git.repository import restore_setup
from pipeline.git.worktrees import Worktree
from pipeline.machine.job import Job, StageOutage
from pipeline.models.calls import answered_call, failed_call, recorded_answer
from pipeline.models.clients import secret_names
from pipeline.models.contract import Answer, CallFailed
from pipeline.store.files import append_lines, read_bytes
from pipeline.tree.rules.assignment import idea_identity, parse_idea
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.edits import AnswerChange, contents_after, read_answer
from pipeline.tree.rules.positions import RunLayout, slot_of
from pipeline.tree.rules.prompts import (
    DEFAULT_REPAIRS,
    NO_CHANGE_FOUND,
    context_tokens,
    repair_text,
    review_verdict,
)
from pipeline.tree.rules.protection import ProtectedFiles, folders_above, void_reason
from pipeline.tree.run.asker import RoleAsker
from pipeline.tree.run.measure import TestsInRounds
from pipeline.tree.run.prompting import FIRST_REVIEW, NO_PLAN, PromptValues
from pipeline.tree.run.protect import load_protected
from pipeline.tree.run.records import (
    NO_CANDIDATE,
    CandidateRecord,
    Record,
    SlotTask,
    as_json,
    load,
    load_as,
    save,
    write,
)
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.spec.model import DRY, MANUAL, NONE, PATCHES


def by_hand_stage(job: Job) -> None:
    """Take a change made by hand.  A person works in a worktree of the slot, or anywhere: only the patch counts."""
    folder, slot = dict(job.target.reads)["coder_folder"][0], job.target.params["slot"]
    path, task, repo = f"{folder}/{slot}.patch", load_as(SlotTask, job.reads["task"][0]), RunRepo(job.target.run)
    if not task.empty and not os.path.isfile(path):
        where = os.path.relpath(repo.by_hand.add(slot, repo.chain(load(job.reads["code"][0]))).path)
        how = f"change the files in {where}, then `git add -A` and `git diff --cached --binary` there > {path}"
        raise StageOutage(f"waits for you: {how}; an empty file gives the idea up; build again", ANSWER_AWAITED)
    write(job.writes["patch"][0], b"" if task.empty else read_bytes(path))
    repo.by_hand.remove(slot)


NOTHING_CHANGED = "nothing was changed"
KEEP = "keep"
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
    test_rounds: int = 0
    partial: str = ""
    left_out: tuple[str, ...] = ()


def implement_stage(job: Job) -> None:
    task, code = load_as(SlotTask, job.reads["task"][0]), load(job.reads["code"][0])
    asking = None if task.empty else RoleAsker.for_job(job, job.target.params["roles"], code.get("tree", ""))
    work = _Work(job, task.idea, code, asking).implementation() if asking else Implementation(task.why)
    status = COMPLETED if not work.why else SKIPPED if task.empty else FAILED
    rounds = min(len(work.reviews), job.target.params["max_review_rounds"] + 1)
    more = (work.test_rounds or None, work.partial or None, [*work.left_out] or None)
    record = CandidateRecord(status, work.why, work.approved, rounds, *more)
    save(job.writes["candidate"][0], as_json(record) | (work.candidate or NO_CANDIDATE)._asdict())
    write(job.writes["patch"][0], work.patch)
    write(job.writes["tree"][0], f"{work.candidate.tree}\n" if work.candidate and not work.why else "")
    write(job.writes["calls"][0], asking.journal_bytes() if asking else b"")
    files = job.writes.get("reviews", ())
    for n, path in enumerate(files):
        held = work.reviews[n:] if n + 1 == len(files) else work.reviews[n : n + 1]  # more by tests are in the last
        write(path, "\n\n".join(held) if held else "This round was not held.\n")


class _Work:
    """The work of one idea on one node.  `at`: its state between the rounds."""

    def __init__(self, job: Job, idea: str, code: Record, asking: RoleAsker) -> None:
        self.job, self.idea, self.asking = job, idea, asking
        self.repo = RunRepo(job.target.run)
        self.slot = slot_of(job.target.name)
        self.parent = self.repo.chain(code)
        self.roles = job.target.params["roles"]
        self.at = Implementation()
        self.tree = str(code["tree"])
        brief = job.target.params["limits"].get("brief", {})  # none where nobody is asked
        self.known = PromptValues(job.target.run, self.repo.path, self.slot.place, brief, asking.roles)
        given = job.target.params.get("leave_out", {})
        self.leavings = Leavings(**{**given, "folders": tuple(given.get("folders", ()))})
        path = RunLayout(job.target.run).of_run("protected.json")
        self.protected = load_protected(path) if brief.get("protect") else None
        self.tests = TestsInRounds(job, os.path.dirname(asking.calls.path), not os.path.exists(asking.calls.path))

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
        first = next(filter(None, map(plain_text, text.splitlines())), "An idea")
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
        """Code, review and test in rounds, until all agree or the rounds are over."""
        objection, reviews, tests = FIRST_REVIEW, int(self.job.target.params["max_review_rounds"]), self.tests.rounds
        with self.repo.checkout(str(self.slot), self.parent) as worktree:
            plan = self._plan(worktree.path)
            while True:
                objection = self._round(worktree, plan, objection)
                self.at = self.at._replace(reviews=(*self.at.reviews, objection))
                if not self.at.approved and not reviews:
                    break
                if not self.at.approved:
                    reviews -= 1
                elif not tests or not (failure := self.tests.failure(self.at.candidate)):
                    break
                else:
                    tests, objection = tests - 1, failure
                    seen = (*self.at.reviews[:-1], "\n\n".join(filter(None, [self.at.reviews[-1], failure])))
                    self.at = self.at._replace(reviews=seen, test_rounds=self.at.test_rounds + 1)
        if self.at.candidate is None:
            raise CandidateProblem(objection)
        return self._apply_verdict(self.at)

    def _round(self, worktree: Worktree, plan: str, review: str) -> str:
        """Code once and review it: the reviewer's objection, or why there is nothing to review."""
        self.at = self.at._replace(candidate=None, patch=b"", approved=False)
        try:
            answer = self._code(worktree, plan, review)
        except CandidateProblem as problem:
            return str(problem)
        candidate = self._state(worktree)[0]
        self.at = self.at._replace(candidate=None if candidate.empty else candidate, patch=answer.patch)
        if junk := self.at.left_out:
            append_lines(self.job.log, f"left out of the candidate: {join_names(junk)}\n".encode(errors="replace"))
        if candidate.empty:
            return NOTHING_CHANGED
        approved, objection = self._review(self.at, plan, answer.text, worktree.path)
        self.at = self.at._replace(approved=approved)
        return objection

    def _code(self, worktree: Worktree, plan: str, review: str) -> Answer:
        """The coder's answer with its change; of one that only writes, after corrections of what could not be used."""
        role, objection = self.asking.roles["coder"], review
        only_writes, repairs = context_tokens(role) > 0, int(role.get("max_repairs", DEFAULT_REPAIRS))
        while True:
            before = self._state(worktree)[0]
            unchanged = self._patch(before)
            values = {"idea": self.idea, "plan": plan, "review": objection}
            answer = self._code_once(worktree, self._prompt("coder", before.tree, values), unchanged)
            found = self._read(answer, before.tree) if answer.patch == unchanged else AnswerChange()
            if found.is_empty and (answer.patch != unchanged or not only_writes):
                return answer
            state = _CodeState(self.repo.path, self.parent, before.commit, self.protected)
            made, mistakes = (
                (None, [NO_CHANGE_FOUND]) if found.is_empty else _changed_code(state, found, self._subject())
            )
            if made:
                change = self._patch(made)
                self._reset(worktree, change)
                return answer._replace(patch=change)
            if not repairs:
                raise CandidateProblem("; ".join(mistakes))
            repairs, objection = repairs - 1, repair_text(review, answer.text, mistakes)

    def _read(self, answer: Answer, tree: str) -> AnswerChange:
        """The change in an answer about the files of a tree."""
        only_writes = context_tokens(self.asking.roles["coder"]) > 0
        return read_answer(answer.text, only_writes, tree_entries(self.repo.path, tree) if only_writes else ())

    def _prompt(self, role: str, tree: str, values: Mapping[str, str]) -> str:
        return self.asking.prompt(role, self.known.of_role(role, tree, values))

    def _apply_verdict(self, work: Implementation) -> Implementation:
        """Refuse code that nobody approved, unless the spec lets it proceed."""
        if work.approved or self.job.target.params["proceed_on_max_review_rounds"]:
            return work._replace(approved=True)
        return work._replace(why=NOT_APPROVED)

    def _plan(self, folder: str) -> str:
        if self.roles["planner"]["backend"] == NONE:
            return NO_PLAN
        values = self.known.for_planner(self.tree, self.idea, load(self.job.reads["context"][0]))
        return self.asking.ask("planner", values, folder).text

    def _review(self, work: Implementation, plan: str, report: str, folder: str) -> tuple[bool, str]:
        if self.roles["reviewer"]["backend"] == NONE:
            return True, ""
        diff = work.patch.decode(errors="replace")
        values = {"idea": self.idea, "plan": plan or NO_PLAN, "diff": diff, "report": report or "Nothing."}
        assert work.candidate is not None
        values = self.known.of_role("reviewer", work.candidate.tree, values)
        text = self.asking.ask("reviewer", values, folder).text
        return review_verdict(text) is True, text

    def _code_once(self, worktree: Worktree, prompt: str, before: bytes) -> Answer:
        """The coder's answer with its change of files, or that of the last time with the same prompt."""
        if earlier := self.asking.earlier_call("coder", prompt):
            answer = recorded_answer(earlier)
            self._reset(worktree, answer.patch)
        else:
            answer = self._ask_coder(worktree, prompt, before)
        left_out = tuple(sorted({*self.at.left_out, *answer.left_out}))
        self.at = self.at._replace(partial=answer.partial, left_out=left_out)
        return answer

    def _ask_coder(self, worktree: Worktree, prompt: str, before: bytes) -> Answer:
        """Ask the coder, and keep the answer before anything else is done: it may have cost money."""
        question, coder = self.asking.question("coder", prompt, worktree.path), self.asking.roles["coder"]

        def check(answer: Answer) -> None:
            has_patch = answer.patch or not self._read(answer, self.tree).is_empty
            if answer.trouble and not has_patch and self._whole_change(worktree) == before:
                raise answer.trouble

        def rescue(failure: CallFailed) -> Answer | None:
            if coder.get("partial") != KEEP or self._whole_change(worktree) in (None, before):
                return None
            cost = (failure.usage, failure.seconds, coder.get("model", ""))
            return Answer(f"It ended early: {failure}", *cost, partial=str(failure))

        answer = self.asking.ask_with_retries(question, lambda: self._reset(worktree, before), check, rescue)
        if answer.patch:  # recorded elsewhere
            self._reset(worktree, answer.patch)
        try:
            change, left_out = self._change(worktree)
        except CandidateProblem as problem:
            spoilt = CallFailed(str(problem), 1, answer.usage, answer.seconds)
            self.asking.keep(failed_call(coder, question, spoilt))
            raise spoilt from problem
        answer = answer._replace(patch=change, left_out=(*answer.left_out, *left_out))
        self.asking.keep(answered_call(coder, question, answer, change))
        return answer

    def _state(self, worktree: Worktree, check: Callable[[bytes], object] | None = None) -> tuple[Candidate, list[str]]:
        """The files of a worktree as a commit, which may be empty; and what was left out of it."""
        if os.path.islink(worktree.path) or not os.path.isdir(worktree.path):
            raise CandidateProblem("the folder that the coder worked in is gone")
        restore_setup(self.repo.path)
        return commit_without_leavings(worktree, self.parent, self._subject(), self.leavings, check)

    def _patch(self, made: Candidate) -> bytes:
        return b"" if made.empty else patch_between(self.repo.path, self.parent, made.commit)

    def _change(self, worktree: Worktree) -> tuple[bytes, list[str]]:
        """The change in a worktree where the coder was at work, and what was left out of it."""
        check = self._check_keys if self._secrets() else None
        made, left_out = self.asking.when_room("coder", lambda: self._state(worktree, check))
        change = self.asking.when_room("coder", lambda: self._patch(made))
        self._check_keys(change)  # also what it deletes
        return change, left_out

    def _whole_change(self, worktree: Worktree) -> bytes | None:
        """The change in a worktree; None if it may not be a candidate."""
        try:
            return self._change(worktree)[0]
        except CandidateProblem:
            return None

    def _secrets(self) -> dict[str, str]:
        """The keys in the coder's environment."""
        values = {name: os.environ.get(name, "") for name in secret_names(self.asking.roles["coder"])}
        return {name: value for name, value in values.items() if len(value) >= SHORTEST_SECRET}

    def _check_keys(self, content: bytes) -> None:
        """Refuse a change that holds a key of the coder's environment: it would be recorded, committed and run."""
        if held := [name for name, value in self._secrets().items() if os.fsencode(value) in content]:
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


class _CodeState(NamedTuple):
    """The code that an answer changes.  `base`: its commit, made from `parent`; `protected`: what must stay."""

    repo: str
    parent: str
    base: str
    protected: ProtectedFiles | None


def _changed_code(state: _CodeState, change: AnswerChange, message: str) -> tuple[Candidate | None, list[str]]:
    """The commit that a change makes of the code; None with what is wrong, and then nothing was applied."""
    if change.mistakes:
        return None, [*change.mistakes]
    try:
        if change.diff:
            tree = tree_with_patch(state.repo, state.base, change.diff.encode(errors="surrogateescape"))
        else:
            contents, mistakes = contents_after(change.edits, *_file_access(state))
            if mistakes:
                return None, mistakes
            tree = tree_with_files(state.repo, state.base, contents)
    except CandidateProblem as problem:
        return None, [str(problem)]
    if state.protected and (void := void_reason(state.protected, tree_changes(state.repo, state.protected.tree, tree))):
        return None, [f"{void}; it must stay as it is"]
    return commit_tree(state.repo, state.parent, tree, message), []


def _file_access(state: _CodeState) -> tuple[Callable[[str], bytes | None], Callable[[str], str]]:
    """The contents of files by path, and the reason why a path may not be changed."""
    entries = tree_entries(state.repo, tree_hash(state.repo, state.base))
    folders = {folder for path in entries for folder in folders_above(path)}

    def read(path: str) -> bytes | None:
        entry = entries.get(path)
        return read_blobs(state.repo, [entry.blob])[entry.blob] if entry else None

    def refuse(path: str) -> str:
        if path in folders:
            return "is a folder"
        if path in entries and entries[path].mode == LINK:
            return "is a symbolic link; change the file that it leads to"
        return next((f"{above} is no folder" for above in folders_above(path) if above in entries), "")

    return read, refuse
