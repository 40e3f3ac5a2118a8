"""A goal is explained by what was recorded of it: its attempts, and whether its proof passed the last check."""

from typing import Any

import pytest
from kit.project import Project
from kit.proof_searches import goal, rules
from test_proof_plan import LEAST

from pipeline.proof.schedule.policy import ScheduleJournal
from pipeline.proof.schedule.records import FAILED as TRIAL_FAILED
from pipeline.proof.schedule.records import TrialOutcome
from pipeline.store.records import save, save_lines

TRIED = {"level": 0, "budget": 8.0, "seconds": 1.25, "recalled": False}
FAILED = {**TRIED, "strategy": "micro", "success": False, "error": "nothing more to try"}
FOUND = {**TRIED, "strategy": "micro", "success": True, "error": "", "level": 1, "budget": 32.0, "recalled": True}


def record(name: str, *attempts: dict[str, Any], tactics: tuple[str, ...] = ()) -> dict[str, Any]:
    how = {"status": "proved", "strategy": "micro", "why": ""} if tactics else {"status": "open", "why": "given up"}
    return {"key": name, "goal": name, "of": {"text": "1 + 1 = 2"}, "attempts": attempts, "tactics": tactics, **how}


@pytest.fixture
def recorded(project: Project) -> Project:
    """A search that has ended, with no Lean."""
    project.spec("x", LEAST)
    (project.root / "runs/x").mkdir(parents=True)
    proofs = [record("sum", FAILED, FOUND, tactics=("intro n", "cases n with\n| zero => rfl")), record("hard", FAILED)]
    save_lines(str(project.root / "runs/x/proofs.jsonl"), proofs)
    return project


def test_a_proof_is_told_with_all_attempts(recorded: Project) -> None:
    assert recorded.call("explain", "x:sum").out.splitlines() == [
        "x:sum (1 + 1 = 2): proved by micro",
        "  micro, level 0 (8.0 s): failed: nothing more to try after 1.25 s",
        "  micro, level 1 (32.0 s), recalled: proved after 1.25 s",
        "    intro n",
        "    cases n with",
        "    | zero => rfl",
    ]
    assert recorded.call("explain", "x:hard").out.startswith("x:hard (1 + 1 = 2): not proved: given up\n")


def test_a_proof_that_did_not_pass_the_last_check_is_told_as_none(recorded: Project) -> None:
    save(str(recorded.root / "runs/x/checked.json"), {"checked": {"sum": "axioms: sorryAx"}, "toolchain": "1"})
    said = recorded.call("explain", "x:sum")
    assert said.out.startswith("x:sum (1 + 1 = 2): not proved: not verified: axioms: sorryAx\n")


def test_what_cannot_be_explained_is_told_with_what_can(recorded: Project) -> None:
    assert recorded.call("explain", "x:sums").err.endswith("x: no goal 'sums' was searched; did you mean 'sum'?\n")
    (recorded.root / "runs/x/proofs.jsonl").unlink()
    said = recorded.call("explain", "x:sum")
    assert (said.code, "nothing is recorded of it yet; `coppice x` builds it" in said.err) == (2, True)


def test_a_journal_that_cannot_be_read_is_no_mistake_of_ours(recorded: Project) -> None:
    (recorded.root / "runs/x/journal.jsonl").write_text('{"n":1,"what":"begin","version":7,"rules":{}}\n')
    said = recorded.call("replay", "x")
    assert said.code == 1
    assert "runs/x/journal.jsonl:1: recorded" in said.out
    assert "a journal of version 7; this is 1" in said.out


def test_only_a_line_feed_ends_a_line_of_a_journal_and_damage_is_a_difference(recorded: Project) -> None:
    lines: list[str] = []
    journal = ScheduleJournal(rules("a"), lines.append)
    journal.add(goal(0))
    trial = journal.ask(1)
    assert trial
    journal.tell(TrialOutcome(trial.number, TRIAL_FAILED, 0.5, "no\u2028goal\x85here"))
    path, content = recorded.root / "runs/x/journal.jsonl", "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(content)
    said = recorded.call("replay", "x")
    assert (said.code, said.out) == (0, "x: 4 lines of the journal: the same again; by another spec than today's\n")
    path.write_bytes(content.replace(b"goal", b"go\xffal"))
    said = recorded.call("replay", "x")
    assert (said.code, "journal.jsonl:" in said.out) == (1, True), said
