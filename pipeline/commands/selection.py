"""Find the runs and targets that a command line names.

Without doit: some questions need nothing else.

Commands about proofs mean one run of their kind, or a bank without a spec in specs/, whose plan is made each time."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.build import project
from pipeline.build.project import RunPlan
from pipeline.commands.exits import BAD_INPUT, FAILED, refuse
from pipeline.core.graph import Target
from pipeline.core.text import join_names, target_count
from pipeline.errors import SpecError
from pipeline.store.files import is_pattern


def run_of_word(word: str) -> str:
    """Run that a word on the command line speaks of: `run`, `run:target` or `runs/run/output`."""
    parts = os.path.normpath(word).split("/")
    if len(parts) > 2 and parts[0] == "runs":
        return parts[1]
    return word.partition(":")[0]


def plans_for(words: list[str]) -> dict[str, RunPlan]:
    """Load the plans of all runs that the command line speaks of; of every run when it names none."""
    specs = project.spec_paths()
    runs: set[str] = set()
    for run in map(run_of_word, words):  # a pattern without a match is refused when it is loaded
        runs.update((is_pattern(run) and fnmatch.filter(specs, run)) or [run])
    return project.load(sorted(runs) or specs)


def plans_of_run(command: str, run: str) -> dict[str, RunPlan]:
    """Load the plans of the run of that very name and of those it reads from."""
    plans = plans_for([run])
    if run not in plans:
        raise SpecError(f"{command}: '{run}' is no run; name one of: {', '.join(plans)}")
    return plans


def ability_of(plan: RunPlan, ability: kinds.Ability[kinds.AbilityModule], otherwise: str) -> kinds.AbilityModule:
    """Module by which the run's kind has the ability; `otherwise` says what such a kind does not do."""
    if plan.kind not in ability.kinds:
        raise SpecError(f"{plan.spec}:1: kind: {plan.kind} {otherwise}")
    return kinds.ability_module(plan.kind, ability)


def run_answer(words: list[str], answer: Callable[[list[str]], int], sources: bool = False) -> int:
    """Answer for these words.  When none is named, runs with mistakes are left out, and the exit code says so.

    `sources`: a missing file is such a mistake too."""
    try:
        return answer(words)
    except SpecError:
        mistakes = {} if words else _runs_with_mistakes(sources)
        whole = [run for run in sorted(project.spec_paths()) if run not in mistakes] if mistakes else []
        if not whole:
            raise
    for mistake in dict.fromkeys(mistakes.values()):
        refuse(mistake, BAD_INPUT)
    code = answer(whole)
    out = [*mistakes]
    refused = refuse(f"left out: {join_names(out)}; `coppice plan {out[0]}` says why", BAD_INPUT)
    return refused if code in (0, FAILED) else code


def _runs_with_mistakes(sources: bool) -> dict[str, str]:
    """Runs that cannot be built, each with the mistake."""
    from pipeline.build.session import BuildSession

    mistakes: dict[str, str] = {}
    for run in sorted(project.spec_paths()):
        try:
            with closing(BuildSession(project.load([run]))) as session:
                session.check_sources(session.stale(session.select([run])) if sources else ())
        except SpecError as error:
            mistakes[run] = str(error)
    return mistakes


def count_targets(words: list[str]) -> int:
    def count(words: list[str]) -> int:
        print(target_count(len(project.graph(plans_for(words)).targets)))
        return 0

    return run_answer(words, count)


class ChosenRun(NamedTuple):
    """Run and its spec; the run is empty for a bank that has no spec."""

    run: str
    path: str
    spec: Any


def choose_run(command: str, words: Sequence[str], kind: str) -> ChosenRun:
    """Choose the run or the bank that the word names; without one the run called like the command, or the only one."""
    if words and words[0].endswith(".jsonl"):
        return ChosenRun("", words[0], kinds.ability_module(kind, kinds.PROVE).spec_for_bank(words[0]))
    if not words and not os.path.isdir("specs"):
        project.spec_paths()  # says where there is one
    runs = runs_of_kind([kind], words, f"{command}: '{{}}' is no run of kind: {kind}")
    if not words and command not in runs and len(runs) != 1:
        which = f"name one of: {', '.join(runs)}" if runs else f"no spec is of kind: {kind}; name a bank, FILE.jsonl"
        raise SpecError(f"{command}: {which}")
    run = words[0] if words else command if command in runs else next(iter(runs))
    return ChosenRun(run, runs[run], project.read_spec(run, runs[run]))


def runs_of_kind(of_kinds: Sequence[str], words: Sequence[str] = (), refusal: str = "") -> dict[str, str]:
    """Runs of these kinds with their specs.  Where one is named, mistakes in other specs do not matter."""
    asked = {run: path for run, path in _specs_if_any().items() if not words or run == words[0]}
    runs = {run: path for run, path in asked.items() if kinds.kind_of(project.parse_spec(path)) in of_kinds}
    if words and not runs:
        project.load(words)  # says what is wrong with the name, unless it is another kind of run
        raise SpecError(refusal.format(words[0]))
    return runs


def _specs_if_any() -> Mapping[str, str]:
    """Find the specs; a bank alone needs none."""
    return project.spec_paths() if os.path.isdir("specs") else {}


def plans_with_dependencies(kind: str, chosen: ChosenRun, spec: Any, targets: Sequence[Target]) -> dict[str, RunPlan]:
    """Plan a run that may have no spec, and load those of the runs that it reads from."""
    plan = project.plan_without_spec(spec.name, kind, chosen.path, spec, targets)
    if plan.needs:
        known = _specs_if_any()
        plan = plan._replace(needs=tuple(need for need in plan.needs if need in known))
    return {**(project.load(plan.needs) if plan.needs else {}), spec.name: plan}
