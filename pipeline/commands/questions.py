"""Commands that answer and change nothing: why, plan, graph, prompt; of decisions explain and replay.

They take no lock."""

from __future__ import annotations

import sys
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import (
    NAME,
    NAMES,
    NewCommand,
    OneRunCommand,
    opt_jobs,
    opt_json,
    option,
    print_result,
    print_text,
)
from pipeline.commands.exits import FAILED
from pipeline.commands.selection import ability_of, count_targets, plans_for, run_answer, run_of_word
from pipeline.errors import SpecError

MOST_DRAWN = 300


class WhyCommand(NewCommand):
    name = "why"
    doc_usage = f"{NAME} ..."
    doc_purpose = "say whether targets are fresh, and if not exactly why"
    doc_description = (
        "For each target: fresh, or what is different from what was recorded, with the old and the new value; for one"
        " that is stale because of others, the way up to the cause. Of a run, a step or a pattern, the causes together."
        " Exit code 0 when all are fresh, 1 when one is stale or left out."
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import BuildSession

        def answer(args: list[str]) -> int:
            session = BuildSession(plans_for(args))
            inquiry = Inquiry(session, session.select(args))
            words = args or list(session.plans)
            for word in words:
                print_text(inquiry.answer(word))
            return 0 if all(map(inquiry.is_fresh, session.select(words))) else FAILED

        return run_answer(args, answer)


class PlanCommand(NewCommand):
    name = "plan"
    doc_usage = NAMES
    doc_purpose = "say what a build would do, in which order, and how long it would take; run nothing"
    doc_description = (
        "run: it would be executed. recalled: its result is in the store. maybe: it would be executed only if what it"
        " reads comes out different from the last time. ignored: it, or what it is made from, is left out of builds."
        " Times are those of the last runs. Nothing is written but the cache of the plan."
    )
    cmd_options = (
        opt_jobs,
        option("all", "list each target, however many"),
        opt_json,
        option("graph_only", "only load the specs, make the graph and count its targets"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.rehearsal import plan_build
        from pipeline.build.session import BuildSession
        from pipeline.commands.build import job_count
        from pipeline.views.plan import plan_json, plan_text

        def answer(words: list[str]) -> int:
            plans = plans_for(words)
            at_once = job_count(params["num_process"], plans)
            session = BuildSession(plans)
            wanted = session.select(words)
            todo = session.stale(wanted)
            session.check_sources(todo)
            plan = plan_build(session, wanted, todo, at_once)
            print_text(plan_json(plan) if params["json"] else plan_text(plan, params["all"]))
            return 0

        return count_targets(args) if params["graph_only"] else run_answer(args, answer, sources=True)


class GraphCommand(NewCommand):
    name = "graph"
    doc_usage = f"{NAMES} [--svg FILE [--full]]"
    doc_purpose = "show the steps of a run, what they read from, and how many of their targets are fresh"
    cmd_options = (
        option("svg", "draw it into FILE", "", "FILE"),
        option("full", f"draw single targets rather than steps, up to {MOST_DRAWN}"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.rehearsal import target_statuses
        from pipeline.build.session import BuildSession
        from pipeline.store.files import write_whole
        from pipeline.views.graph import chart_svg, chart_text, make_chart

        def answer(runs: list[str]) -> int:
            session = BuildSession(plans_for(runs))
            status = {i: seen.status for i, seen in target_statuses(session, session.select(args)).items()}
            chart = make_chart(" ".join(args or session.plans), session.graph, status, full)
            if not svg:
                print_text(chart_text(chart))
                return 0
            if full and len(chart.boxes) > MOST_DRAWN:
                raise InvalidCommand(f"--full draws up to {MOST_DRAWN} targets, not {len(chart.boxes)}; drop --full")
            write_whole(svg, chart_svg(chart).encode(), durable=False)
            print(f"drawn: {svg}")
            return 0

        svg, full = params["svg"], params["full"]
        if svg and not svg.endswith(".svg"):
            wanted = f"--svg wants the file to draw into, a name that ends in .svg, not '{svg}'"
            raise InvalidCommand(f"graph: {wanted}; for instance `coppice graph demo --svg demo.svg`")
        return run_answer(args, answer)


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
    takes = (1, 1, "name one evaluation or goal, such as RUN:d0.n0.i2")

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan, kind = plan_with_decisions(self.name, args[0])
        explained = kind.explain(plan.run, plan.targets, args[0])
        print_result(explained, kind.explain_lines(explained), params["json"])
        return 0


class ReplayCommand(OneRunCommand):
    name = "replay"
    doc_purpose = "make every decision of a search again from what is recorded, and compare byte for byte"
    doc_description = (
        "Nothing is asked, measured or written. Exit code 0 when all came out the same, 1 when one is different or what"
        " it was decided by is missing or changed. What is stale, or was decided by another spec than today's, is"
        " counted apart. With --show it compares nothing, and plays how a search came about instead: on a terminal as"
        " `watch` shows it, in twenty seconds or less; elsewhere its headlines."
    )
    cmd_options = (
        opt_json,
        option("show", "play how the search came about, and decide nothing"),
        option("speed", "play it so many times as fast [default: 1]", "", "N"),
        option("from", "play the recording in FILE", "", "FILE"),
        option("save", "write the recording to FILE in place of playing it", "", "FILE"),
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        if params["show"]:
            from pipeline.commands.watch import replay_show

            return replay_show(args[0], params)
        if given := [f"--{name}" for name in ("speed", "from", "save") if params[name]]:
            raise InvalidCommand(f"replay: {given[0]} goes with --show")
        plan, kind = plan_with_decisions(self.name, args[0])
        if args[0] != plan.run:
            raise SpecError(f"replay: '{args[0]}' is no run; all decisions of one are made again: `replay {plan.run}`")
        replay = kind.replay(plan.run, plan.targets)
        print_result(replay, kind.replay_lines(replay), params["json"])
        return 0 if kind.agrees(replay) else FAILED


class PromptCommand(NewCommand):
    name = "prompt"
    doc_usage = "RUN:SLOT [--role ROLE]"
    doc_purpose = "show the very text that a role gets for an evaluation, or was sent"
    doc_description = (
        "Asks nobody, runs nothing, writes nothing. Of what is fresh, all that was sent; otherwise what would be sent"
        " first, by the records as they are. What others have not answered yet stands in brackets."
    )
    cmd_options = (
        option("role", "ideas, planner, coder or reviewer [default: coder]", "coder", "ROLE"),
        opt_json,
    )
    takes = (1, 1, "name one evaluation, such as RUN:d0.n0.i2")

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import BuildSession

        def is_fresh(name: str) -> bool:
            session = BuildSession(plans)
            index = session.graph.index[name]
            return Inquiry(session, {index}).is_fresh(index)

        run = run_of_word(args[0])
        plans = project.load([run], keep=False)
        kind = ability_of(plans[run], kinds.PROMPT, "asks no roles")
        record = kind.role_prompts(run, plans[run].targets, args[0], params["role"], is_fresh)
        if not params["json"]:
            print(kind.prompt_note(record), file=sys.stderr)
        print_result(record, kind.prompt_lines(record), params["json"])
        return 0


def plan_with_decisions(command: str, word: str) -> tuple[project.RunPlan, kinds.AccountsModule]:
    """Plan of the run that `word` speaks of, and what accounts for it.  Writes nothing, not even a plan's cache."""
    run = run_of_word(word)
    plan = project.load([run], keep=False)[run]
    return plan, ability_of(plan, kinds.ACCOUNTS, f"decides nothing that `{command}` could tell of")
