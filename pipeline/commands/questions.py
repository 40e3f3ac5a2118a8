"""Commands that answer and change nothing: why, plan, graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doit.exceptions import InvalidCommand

from pipeline.commands.build import job_count
from pipeline.commands.command import NAME, NAMES, NewCommand, opt_jobs, opt_json
from pipeline.commands.exits import FAILED
from pipeline.commands.selection import count_targets, plans_for, run_answer

if TYPE_CHECKING:
    from pipeline.build.project import RunPlan
    from pipeline.views.graph import Chart
    from pipeline.views.plan import BuildPlan as Planned

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
        return run_answer(args, self.answer)

    @staticmethod
    def answer(args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import BuildSession

        session = BuildSession(plans_for(args))
        inquiry = Inquiry(session, session.select(args))
        words = args or list(session.plans)
        for word in words:
            print(inquiry.answer(word))
        return 0 if all(map(inquiry.is_fresh, session.select(words))) else FAILED


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
        {"name": "all", "long": "all", "type": bool, "default": False, "help": "list each target, however many"},
        opt_json,
        {"name": "graph_only", "long": "graph-only", "type": bool, "default": False,
         "help": "only load the specs, make the graph and count its targets"},
    )  # fmt: skip

    def on_specs(self, params: Any, args: list[str]) -> int:
        if params["graph_only"]:
            return count_targets(args)
        return run_answer(args, lambda words: self.answer(params, words), sources=True)

    def answer(self, params: Any, words: list[str]) -> int:
        from pipeline.views.plan import plan_json, plan_text

        plans = plans_for(words)
        plan = self.plan(plans, words, job_count(params["num_process"], plans))
        print(plan_json(plan) if params["json"] else plan_text(plan, params["all"]))
        return 0

    def plan(self, plans: dict[str, RunPlan], words: list[str], at_once: int) -> Planned:
        from pipeline.build.rehearsal import plan_build
        from pipeline.build.session import BuildSession

        session = BuildSession(plans)
        wanted = session.select(words)
        todo = session.stale(wanted)
        session.check_sources(todo)
        return plan_build(session, wanted, todo, at_once)


class GraphCommand(NewCommand):
    name = "graph"
    doc_usage = f"{NAMES} [--svg FILE [--full]]"
    doc_purpose = "show the steps of a run, what they read from, and how many of their targets are fresh"
    cmd_options = (
        {"name": "svg", "long": "svg", "type": str, "default": "", "metavar": "FILE", "help": "draw it into FILE"},
        {"name": "full", "long": "full", "type": bool, "default": False,
         "help": f"draw single targets rather than steps, up to {MOST_DRAWN}"},
    )  # fmt: skip

    def on_specs(self, params: Any, args: list[str]) -> int:
        return run_answer(args, lambda words: self.answer(params, words, args))

    def answer(self, params: Any, runs: list[str], args: list[str]) -> int:
        from pipeline.store.files import write_whole
        from pipeline.views.graph import chart_svg, chart_text

        if params["svg"] and not params["svg"].endswith(".svg"):
            wanted = f"--svg wants the file to draw into, a name that ends in .svg, not '{params['svg']}'"
            raise InvalidCommand(f"graph: {wanted}; for instance `coppice graph demo --svg demo.svg`")
        chart = self.chart(plans_for(runs), args, params["full"])
        if not params["svg"]:
            print(chart_text(chart))
            return 0
        if params["full"] and len(chart.boxes) > MOST_DRAWN:
            raise InvalidCommand(f"--full draws up to {MOST_DRAWN} targets, not {len(chart.boxes)}; drop --full")
        write_whole(params["svg"], chart_svg(chart).encode(), durable=False)
        print(f"drawn: {params['svg']}")
        return 0

    @staticmethod
    def chart(plans: dict[str, RunPlan], words: list[str], full: bool) -> Chart:
        """Chart of what `words` ask for and all it is made from."""
        from pipeline.build.rehearsal import target_statuses
        from pipeline.build.session import BuildSession
        from pipeline.views.graph import make_chart

        session = BuildSession(plans)
        status = {i: seen.status for i, seen in target_statuses(session, session.select(words)).items()}
        return make_chart(" ".join(words or session.plans), session.graph, status, status, full)
