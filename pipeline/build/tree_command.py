"""The command `tree`: makes or checks the spec of a search, then takes it a depth further or only tells of it."""

from __future__ import annotations

from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import tree_spec
from pipeline.build.advance import advance, opt_force, opt_stale, takeover
from pipeline.build.asked import plans_for
from pipeline.build.command import NewCommand
from pipeline.build.exits import FAILED
from pipeline.build.tree_flags import given, options
from pipeline.core.words import plural
from pipeline.errors import SpecError

FLAGS = kinds.flags(tree_spec.KIND)
NOTHING_RUNS = "--report-only and --validate-only take no lock: leave --force and --lock-stale-seconds out"


class Tree(NewCommand):
    name = "tree"
    doc_usage = "--tree-run-id RUN"
    doc_purpose = "the same for a search given by flags, whose spec it writes"
    doc_description = (
        "Of a new search --config has what no flag says; config and flags become specs/RUN.yaml. From then on flags may"
        " be left out, and what is given must agree with the spec."
    )
    cmd_options = (
        {"name": "tree_run_id", "long": "tree-run-id", "type": str, "default": "", "metavar": "RUN",
         "help": "which search"},
        {"name": "config", "long": "config", "type": str, "default": None, "metavar": "FILE",
         "help": "YAML with the rest of a new spec: repo, roles, sweep, metrics and so on"},
        *options(FLAGS),
        opt_stale,
        opt_force,
        {"name": "report_only", "long": "report-only", "type": bool, "default": False,
         "help": "run nothing; write TREE_SUMMARY.md from what is recorded"},
        {"name": "validate_only", "long": "validate-only", "type": bool, "default": False,
         "help": "run nothing; check what is recorded and write VALIDATION_REPORT.md"},
    )  # fmt: skip

    def on_specs(self, params: Any, args: list[str]) -> int:
        run, tells = params["tree_run_id"], params["report_only"] or params["validate_only"]
        if args:
            raise InvalidCommand(f"tree: no '{args[0]}': it takes options alone; see `coppice help tree`")
        if not run:
            raise InvalidCommand("tree: --tree-run-id is missing; name the search, such as --tree-run-id first")
        how = takeover(self.name, run, params)
        if tells and how:
            raise InvalidCommand(f"tree: {NOTHING_RUNS}")
        self._settle(run, params, new=not tells)
        return tell(run, params["report_only"], params["validate_only"]) if tells else advance(run, 0, how)

    def _settle(self, run: str, params: Any, new: bool) -> None:
        flags = given(self.name, FLAGS, params)
        spec = tree_spec.spec_of(run)
        if spec is not None:
            tree_spec.check(run, spec, params["config"], flags)
        elif new:
            tree_spec.create(run, params["config"], flags)
        else:
            raise SpecError(f"there is no run '{run}': no specs/{run}.yaml, and nothing recorded to tell of")


def tell(run: str, report: bool, validate: bool) -> int:
    """From records alone; exit code 1 when there is something wrong with them."""
    plan = plans_for([run])[run]
    kind = kinds.able(plan.kind, kinds.ADVANCING)
    if report:
        print(kind.report(run, plan.targets))
    path, found = kind.validate(run, plan.targets) if validate else ("", 0)
    if validate:
        print(f"{path}: {plural(found, 'problem')}")
    return FAILED if found else 0
