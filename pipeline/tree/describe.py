"""Description of a target of a tree run, and an outlook on the whole search before it starts.

The outlook: the number of evaluations at most, their cost, their time, and the rule that judges them."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from pipeline.core.cages import AUTO, FULL, CageKeys, cage_in
from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.core.text import duration, join_names, plural
from pipeline.tree.rules.beam import COMPLETED, FAILED
from pipeline.tree.rules.positions import SCORING_STAGES, RunLayout, depth_of, parse_slot
from pipeline.tree.rules.prompts import DEFAULT_REPAIRS
from pipeline.tree.rules.scoring import PAIRED
from pipeline.tree.run.records import load_if_intact
from pipeline.tree.spec.model import ANSWER, JUDGE
from pipeline.tree.spec.roles import PAID_BACKENDS, PROGRAM_BACKENDS, is_price_unknown
from pipeline.tree.targets.builder import planned_config
from pipeline.trust.evidence import FEWEST_BLOCKS

TIMED = ("test", "checks", "sweep", "row")
COSTS = {"usd": "{:.2f} USD", "tokens": "{:,} tokens"}


def outlook(targets: Sequence[Target]) -> Iterator[str]:
    """Lines about a whole run, from all of its targets."""
    depths = Counter(depth_of(target.name) for target in targets if target.stage in SCORING_STAGES)
    evaluations, params = sum(depths.values()), planned_config(targets)
    shape = ", ".join(f"{n} at depth {depth}" for depth, n in depths.items())
    yield f"at most {plural(evaluations, 'evaluation')} ({shape})"
    budget, cascade = params["budget"], params["cascade"]
    number = evaluations if budget["evals"] is None else min(evaluations, budget["evals"])
    if cascade:
        first = f"cascade: all of them on {cascade['blocks']} of {len(params['blocks']['ids'])} blocks, "
        yield f"{first}the {cascade['keep']} best of a depth on the others"
    if "baseline_csv" in params:
        yield f"baseline: given by {params['baseline_csv']}, not measured here"
    words = {"evals": "{} evaluations", **COSTS, "seconds": "{:g} s of work"}
    if limits := [words[name].format(most) for name, most in budget.items() if most is not None]:
        yield f"budget: {', '.join(limits)}"
    yield from most_spent(targets, number)
    if past := _past_cost_text(params["run"]):
        yield f"so far: {past}"
    yield from _cage_outlook(targets)
    yield f"time: {_time_text(targets, params, number)}"
    yield f"verdicts: {_verdicts_text(params)}"
    if hindrance := _root_hindrance(targets):
        yield f"start: the build would stop at {params['run']}:root: {hindrance}"
    elif hindrance := _protect_hindrance(targets):
        yield f"start: the build would stop at {params['run']}:protected: {hindrance}"


def _cage_outlook(targets: Sequence[Target]) -> Iterator[str]:
    from pipeline.machine.cage_words import cage_lines, path_warnings  # here: it loads what few commands need

    cages = [*_cages(targets)]
    yield from cage_lines(cages, _can_be_judged(cages))
    yield from (f"warning: {line}" for line in (*path_warnings(cages), *_truth_warnings(targets)))


def start_lines(targets: Sequence[Target]) -> Iterator[str]:
    """Lines before a search is built: what `auto` is here, and what candidates see that they should not."""
    from pipeline.machine.cage_words import start_lines as lines_of_cages

    cages = [*_cages(targets)]
    yield from lines_of_cages(cages, _can_be_judged(cages))
    yield from _truth_warnings(targets)


def _can_be_judged(cages: Sequence[tuple[str, CageKeys]]) -> bool:
    """Check if there is a sweep without a judge apart whose grade is left to the machine."""
    return any(name == SWEEP and keys.sandbox in ("", AUTO) for name, keys in cages)


def _truth_warnings(targets: Sequence[Target]) -> Iterator[str]:
    """Files that the judge reads although candidates have them: a truth among these is none."""
    first = next((target for target in targets if JUDGE in target.params), None)
    if first is None:
        return
    judged = [path for port, paths in first.reads if port.startswith(f"{JUDGE}.") for path in paths]
    root = next(target for target in targets if target.stage == "root")
    if tracked := _tracked_files(root.params["repo"], judged):
        yield (
            f"judge reads {join_names(tracked)}, which every candidate has in its checkout: put a truth outside of"
            " `repo:`, and name what is none without `reads:`, as a file of the judge's checkout"
        )
    given = [path for path in judged if path not in _cut_files(targets)]
    if given and not first.params[LIMITS].get("truth"):
        yield (
            f"judge reads {join_names(given)}, which commands of the candidate read too: keep a truth in a file that"
            " `judge:` alone reads"
        )


def _cut_files(targets: Sequence[Target]) -> set[str]:
    """Files that a canary cuts: a candidate is given them, and refused if it looks ahead."""
    checks = next((target for target in targets if target.stage == "checks"), None)
    if checks is None:
        return set()
    cut = [f"in.{each['name']}.{each['canary']['port']}" for each in checks.params["checks"] if each["canary"]]
    return {path for port, paths in checks.reads if port in cut for path in paths}


def _tracked_files(repo: str, paths: Sequence[str]) -> list[str]:
    """Those of the paths that are files of the commit from which a search in a git repository starts."""
    top = f"{os.path.realpath(repo)}/"
    inside = {real.removeprefix(top): path for path in paths if (real := os.path.realpath(path)).startswith(top)}
    if not inside or not os.path.lexists(f"{repo}/.git"):
        return []
    from pipeline.git.command import GitOutage, GitProblem
    from pipeline.git.objects import tree_entries
    from pipeline.git.repository import head_commit, locate_repo

    try:
        place = locate_repo(repo)
        entries = tree_entries(place.git_dir, head_commit(place))
    except (GitProblem, GitOutage):  # the start says it
        return []
    return [path for name, path in inside.items() if name in entries]


SWEEP = "sweep"


def _cages(targets: Sequence[Target]) -> Iterator[tuple[str, CageKeys]]:
    """The cages that the spec asks for what one evaluation runs, by step or command, and by role that is a program."""
    first = next(target.name for target in targets if target.stage in SCORING_STAGES).rpartition(".")[0]
    own = {target.stage: target for target in targets if target.name.startswith(f"{first}.")}
    for stage, name in (("test", "tests"), ("checks", "checks"), ("row", SWEEP), (SWEEP, SWEEP)):
        if stage not in own or "dry" in own[stage].params:
            continue
        params = own[stage].params
        limits = params.get(LIMITS, {})
        parts = (ANSWER, JUDGE) if JUDGE in params else [each["name"] for each in params.get("checks", ())]
        for part in parts:
            yield part, cage_in(limits, part)._replace(judged=JUDGE in params)
        if not parts and stage != "checks":
            yield name, cage_in(limits)
    for name, role in _paid_roles(targets):
        if role["backend"] in PROGRAM_BACKENDS:
            keys = cage_in(role)
            yield name, keys._replace(network=keys.network or FULL)


def most_spent(targets: Sequence[Target], evaluations: int) -> Iterator[str]:
    """The most that so many evaluations cost, in money and in calls."""
    yield f"cost: {_cost_text(planned_config(targets), evaluations, [*_roles_of_unknown_price(targets)])}"
    if calls := [*_calls_text(targets)]:
        yield f"calls: at most {', '.join(calls)}"


def _root_hindrance(targets: Sequence[Target]) -> str:
    """Reason why a search that has not begun cannot start from its repository as it is, such as uncommitted changes."""
    root = next(target for target in targets if target.stage == "root")
    if os.path.exists(RunLayout(root.run).of_run("root.json")):
        return ""
    from pipeline.git.command import GitOutage, GitProblem  # here: most searches have begun
    from pipeline.git.repository import check_clean, locate_repo

    try:
        place = locate_repo(root.params["repo"])
        if place.folder == place.top:
            check_clean(place)
    except (GitProblem, GitOutage) as problem:
        return str(problem)
    return ""


def _protect_hindrance(targets: Sequence[Target]) -> str:
    """Reason why the files to protect cannot be recorded, such as a name that the start does not have.

    Of a folder without git, or below one, only the build tells: it commits the files first."""
    protected = next((target for target in targets if target.stage == "protected"), None)
    if protected is None or os.path.exists(RunLayout(protected.run).of_run("protected.json")):
        return ""
    from pipeline.git.command import GitOutage, GitProblem
    from pipeline.git.objects import tree_entries
    from pipeline.git.repository import head_commit, locate_repo
    from pipeline.machine.job import StageFailed
    from pipeline.tree.run.protect import missing_pattern, project_digests

    root = next(target for target in targets if target.stage == "root")
    try:
        project_digests(protected.params["project"])
        place = locate_repo(root.params["repo"])
        if place.folder != place.top:
            return ""
        commit = head_commit(place)
        return missing_pattern(protected.params["repo"], tree_entries(place.git_dir, commit), commit)
    except (GitProblem, GitOutage, StageFailed) as problem:
        return str(problem)


def _cost_text(params: Mapping[str, Any], evaluations: int, unknown: Sequence[str]) -> str:
    """The most that a search may spend and what bounds it, with a warning of amounts that have no bound."""
    parts = []
    for name, form in COSTS.items():
        each, most = params["ceiling"][name], params["budget"][name]
        by_eval = None if each is None else each * evaluations
        blind = f"the price of role {', '.join(unknown)} is unknown" if unknown and name == "usd" else ""
        if by_eval is None and most is None:
            why = f"{blind}; add `price:` there" if blind else f"`budget: {name}` would"
            parts.append(f"{name}: nothing bounds it: {why}")
        elif most == 0:
            parts.append(f"{name}: nothing is left to spend")
        elif by_eval is None:
            more = f"and what one depth takes beyond it, which `per_eval: {name}` would bound"
            parts.append(f"{form.format(most)} (the budget), {more}")
        elif most is not None and most < by_eval:
            parts.append(f"at most {form.format(most)} (the budget), if `per_eval` is right")
        elif by_eval:
            declared = f"{evaluations} x `per_eval`, if that is right{f'; {blind}' if blind else ''}"
            parts.append(f"at most {form.format(by_eval)} ({declared})")
    return ", ".join(parts) or "nothing is paid for"


def _roles_of_unknown_price(targets: Sequence[Target]) -> Iterator[str]:
    for name, role in _paid_roles(targets):
        if is_price_unknown(role):
            yield name


def _paid_roles(targets: Sequence[Target]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The roles that are asked for money, with all their keys, as the first evaluation asks them."""
    first = {target.stage: target for target in reversed(targets) if target.stage in ("idea", "implement")}
    for target in first.values():
        params = target.params
        roles = {"ideas": params["role"]} if target.stage == "idea" else params["roles"]
        for name, role in roles.items():
            if role["backend"] in PAID_BACKENDS:
                yield name, {**role, **params["limits"].get(name, {})}


def _calls_text(targets: Sequence[Target]) -> Iterator[str]:
    """The most calls of each role for one evaluation: all rounds, corrections of an answer, and retries."""
    implement = next(target for target in targets if target.stage == "implement")
    tests, retries = implement.params["limits"].get("tests", {"rounds": 0}), implement.limits.retries + 1
    rounds = 1 + int(implement.params["max_review_rounds"]) + int(tests["rounds"])
    for name, role in _paid_roles(targets):
        repairs = role.get("max_repairs", DEFAULT_REPAIRS) if name == "coder" else 0
        number = retries * (1 + repairs) * (rounds if name in ("coder", "reviewer") else 1)
        yield f"{number} of {name} for each evaluation"


def _past_cost_text(run: str) -> str:
    """The cost of one evaluation of the run so far; empty before any was paid for."""
    from pipeline.tree.report.money import fold_money, format_bill

    money, before, ended = fold_money(run, ()), 0.0, []
    for each in money["over_time"]:
        usd, before = each["usd"] - before, each["usd"]
        if _has_ended(run, each["eval_id"]):
            ended.append(usd)
    if not money["over_time"]:
        return ""
    if not ended:
        return f"{format_bill(money)}; no evaluation has ended"
    begun = len(money["over_time"]) - len(ended)
    more = f" and {begun} begun" if begun else ""
    mean = "" if money["unknown_calls"] else f", {sum(ended) / len(ended):.4f} USD for one"
    return f"{format_bill(money)} for {plural(len(ended), 'evaluation')}{more}{mean}"


def _has_ended(run: str, slot: str) -> bool:
    """Check if the last of what was paid for a slot has been measured, or has failed."""
    at = RunLayout(run)
    records = (load_if_intact(at.of_eval(parse_slot(slot), name)) for name in ("summary.json", "pairs.json"))
    return any(found and found["status"] in (COMPLETED, FAILED) for found in records)


def _verdicts_text(params: Mapping[str, Any]) -> str:
    """The rule of promotion."""
    if params["method"] != PAIRED:
        return f"{params['method']}: no telling luck from progress; for that say what `sweep: blocks:` there are"
    score, ids = params["score"], params["blocks"]["ids"]
    blocks = f"{len(ids)} blocks" if ids else "the blocks of the baseline"
    if ids and len(ids) < FEWEST_BLOCKS:
        blocks += f" (nothing is ever promoted by fewer than {FEWEST_BLOCKS})"
    return f"{PAIRED}, by {blocks}, alpha {score['alpha']:g} of a {score['alpha_over']}"


def _time_text(targets: Sequence[Target], params: Mapping[str, Any], evaluations: int) -> str:
    first = next(target.name for target in targets if target.stage in SCORING_STAGES).rpartition(".")[0]
    limits = [t.limits.timeout for t in targets if t.name.startswith(f"{first}.") and t.stage in TIMED]
    at_once, each = params["max_parallel_evals"], sum(limit for limit in limits if limit is not None)
    if None in limits:
        return f"no limit for some commands; {at_once} at once"
    whole = duration(each * ceil(evaluations / at_once), 0)
    return f"at most {duration(each, 0)} of commands for each, {whole} for all, {at_once} at once"


# Parameters of a target and of its roles that hold a command: its words, or a line for a shell.
COMMAND = {"argv", "shell", "run"}


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """Words for a target's parameters, and the lines beside each."""
    run = {"run": _command(target.params).splitlines()} if _is_command(target.params) else {}
    others = {name: [*_lines(value)] for name, value in target.params.items() if name not in {*COMMAND, "limits"}}
    return {"stage": [target.stage], **run, **others}


def _lines(value: Any) -> Iterator[str]:
    """Lines of a value; one with commands, such as checks and roles, has a line for each key, ready to paste."""
    if _is_command(value):
        others = {name: each for name, each in value.items() if name not in COMMAND and each}
        yield from (f"{name}: {json.dumps(each, ensure_ascii=False)}" for name, each in others.items())
        yield f"run: {_command(value)}"
    elif isinstance(value, list) and any(map(_is_command, value)):
        yield from (line for each in value for line in _lines(each))
    elif isinstance(value, dict) and any(map(_is_command, value.values())):
        for name, each in value.items():
            yield from (f"{name}{'.' if _is_command(each) else ': '}{line}" for line in _lines(each))
    else:
        yield json.dumps(value, ensure_ascii=False)


def _is_command(value: Any) -> bool:
    return isinstance(value, Mapping) and not COMMAND.isdisjoint(value)


def _command(params: Mapping[str, Any]) -> str:
    """A command as a shell takes it; names in braces are only known while it runs."""
    (words,) = (params[name] for name in COMMAND if name in params)
    return words if isinstance(words, str) else shlex.join(words)
