"""Commands that account for decisions: explain one, replay all of a run.  They change nothing and take no lock."""

from __future__ import annotations

from typing import Any

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import ONE_RUN, NewCommand, WordCount, opt_json, print_result
from pipeline.commands.exits import FAILED
from pipeline.commands.selection import ability_of, run_of_word
from pipeline.errors import SpecError


class ExplainCommand(NewCommand):
    name = "explain"
    doc_usage = "RUN:SLOT"
    doc_purpose = "say of an evaluation why it was promoted or not, check by check"
    doc_description = (
        "Each check in order with its number and what it asks for; of what was not passed, the smallest change that"
        " would have passed it. Of what was promoted, the others of its depth and what they failed. All by what is"
        " recorded. Of a goal, RUN:GOAL, each attempt at it and the proof."
    )
    cmd_options = (opt_json,)
    takes = WordCount(1, 1, "name one evaluation or goal, such as RUN:d0.n0.i2")

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan, kind = plan_with_decisions(self.name, args[0])
        explained = kind.explain(plan.run, plan.targets, args[0])
        print_result(explained, kind.explain_lines(explained), params["json"])
        return 0


class ReplayCommand(NewCommand):
    name = "replay"
    doc_usage = "RUN"
    doc_purpose = "make every decision of a search again from what is recorded, and compare byte for byte"
    doc_description = (
        "Nothing is asked, measured or written. Exit code 0 when all came out the same, 1 when one is different or what"
        " it was decided by is missing or changed. What is stale, or was decided by another spec than today's, is"
        " counted apart."
    )
    cmd_options = (opt_json,)
    takes = ONE_RUN

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan, kind = plan_with_decisions(self.name, args[0])
        if args[0] != plan.run:
            raise SpecError(f"replay: '{args[0]}' is no run; all decisions of one are made again: `replay {plan.run}`")
        replay = kind.replay(plan.run, plan.targets)
        print_result(replay, kind.replay_lines(replay), params["json"])
        return 0 if kind.agrees(replay) else FAILED


def plan_with_decisions(command: str, word: str) -> tuple[project.RunPlan, kinds.AccountsModule]:
    """Plan of the run that `word` speaks of, and what accounts for it.  Writes nothing, not even a plan's cache."""
    run = run_of_word(word)
    plan = project.load([run], keep=False)[run]
    return plan, ability_of(plan, kinds.ACCOUNTS, f"decides nothing that `{command}` could tell of")
