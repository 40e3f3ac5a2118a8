"""View of a search for proofs: how its goals stand, by which strategies, and the details of one goal.

What the records do not have yet, the ledger has: each attempt is there as soon as it has ended.  Phases of what is
known of a run:

    NOTHING    -> SEARCHING  the bank is read: proofs that the ledger has are found, and not yet checked
    SEARCHING  -> SEARCHED   the search has ended: its records tell, and the last check is still to come
    SEARCHED   -> CHECKED    only now a proof counts as one
    any        -> SEARCHING  the bank is searched anew"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.core.graph import Target, target_of_stage
from pipeline.core.projection import (
    TARGET_RUNNING,
    Block,
    Code,
    Figure,
    Moment,
    Projection,
    TargetState,
)
from pipeline.core.text import BLANK, duration, plural
from pipeline.errors import SpecError, did_you_mean
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Bank, Goal, bank_from_json
from pipeline.proof.records import (
    FOUND,
    FRONTIER,
    OPEN,
    PROVED,
    AttemptRecord,
    Sample,
    SampleRecord,
    SearchRecord,
    load_samples,
)
from pipeline.proof.report import (
    Record,
    Trying,
    bandit_picture,
    best_sample,
    facts_block,
    goal_blocks,
    goals_block,
    group_by_goal,
    refused_block,
    results_headline,
    results_record,
    solved_curve,
    sorted_quantile,
    strategies_block,
    strategy_counts,
    time_to_proof,
    with_check_results,
)
from pipeline.proof.schedule.records import CANCELLED
from pipeline.proof.schedule.records import PROVED as TRIAL_PROVED
from pipeline.proof.search_stage import config_key, sample_seed, schedule_rules
from pipeline.proof.spec.model import Pace, SearchSettings
from pipeline.store import noop
from pipeline.store.ledger import LedgerReader
from pipeline.store.receipts import Receipts, target_states
from pipeline.store.records import intact, load
from pipeline.store.state import content_signature, signature
from pipeline.store.steering import steering_path
from pipeline.views.blocks import (
    build_blocks,
    count_states,
    facts_table,
    failure_table,
    latest,
    recorded_time,
    run_state,
    running_figure,
    running_table,
    target_blocks,
)

NOTHING, SEARCHING, SEARCHED, CHECKED = "nothing", "searching", "searched", "checked"
MEANING = (
    "Proved is what Lean has checked once more after the search, as a whole script in a process of its own. A goal "
    "that is not proved may be true all the same: it had this much time, and these strategies. Seconds are those of "
    "attempts, of which several run at once. A row of the bank that Lean refuses is no goal, and counts nowhere."
)


class Knowledge(NamedTuple):
    """Knowledge of a run in one of the phases above.  `results`: those of the report, once all is checked."""

    phase: str
    strategies: Sequence[str] = ()
    bank: Bank = Bank()
    samples: Sequence[SampleRecord] = ()
    tried: Sequence[Trying] = ()
    search: SearchRecord | None = None
    results: Record | None = None


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    running = {each.name for each in moment.running}
    states = target_states(run, [each.name for each in targets], running, moment.cut_off)
    known, ends = _knowledge(targets, states, moment), [each.at for each in states.values()]
    state = run_state(run, moment, count_states(states), known.phase != NOTHING, ends)
    at = latest((each.at for each in states.values()), state)
    numbers, blocks = [*_figures(run, known, moment)], [*_blocks(run, known, states, moment)]
    return Projection(run, "proof", _headline(known), state, numbers, MEANING, blocks, f"coppice watch {run}", at)


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    """Records, and the ledger with what is not yet moved into it."""
    ports = ("bank.json", "search.json", "proofs.jsonl", "checked.json")
    ledger = target_of_stage(targets, "prove").params["limits"]["ledger"]
    files = [*(_path(targets, port) for port in ports), ledger, f"{ledger}-wal"]
    return [Receipts.path_of(run), f"{noop.folder(run)}/builds", steering_path(run), *files]


# --- What is known, by records or by the ledger.


def _path(targets: Sequence[Target], port: str) -> str:
    return next(path for target in targets for name, (path,) in target.writes if name == port)


def _knowledge(
    targets: Sequence[Target], states: Mapping[str, TargetState], moment: Moment, only: str = ""
) -> Knowledge:
    """Knowledge of all goals; with `only`, of that one at least."""
    is_searching = target_of_stage(targets, "prove").name in {each.name for each in moment.running}
    is_searching |= states[target_of_stage(targets, "prove").name].status == TARGET_RUNNING
    if is_searching or not os.path.exists(_path(targets, "proofs.jsonl")):
        begun = moment.builds[-1].at if moment.builds and moment.is_building else None
        return _knowledge_by_ledger(targets, begun, only)
    paths = [_path(targets, port) for port in ("bank.json", "search.json", "proofs.jsonl", "journal.jsonl")]
    paths.append(_path(targets, "checked.json") if _is_checked(targets, states) else "")
    return _knowledge_by_records(
        *paths,
        tuple(target_of_stage(targets, "report").params["pass_at"]),
        *(signature(path) for path in paths if path),
    )


def _is_checked(targets: Sequence[Target], states: Mapping[str, TargetState]) -> bool:
    """Check that the last check was made, of these very proofs as far as receipts can tell."""
    path, proofs = _path(targets, "checked.json"), _path(targets, "proofs.jsonl")
    made, checked = (states[target_of_stage(targets, stage).name] for stage in ("prove", "check"))
    if checked.status == TARGET_RUNNING or not os.path.exists(path):
        return False
    if made.receipt and checked.receipt:
        return checked.receipt.inputs.get(proofs) == made.receipt.outputs.get(proofs)
    return not made.receipt


@lru_cache(2)
def _knowledge_by_records(
    bank: str, search: str, proofs: str, journal: str, checked: str, pass_at: Sequence[int], *_signatures: int
) -> Knowledge:
    """Read the records of a search, which details of each goal need, again when one of the files has changed."""
    with intact(search):
        record = SearchRecord(**load(search))
    with intact(proofs):
        samples = load_samples(proofs)
    with intact(journal):
        tried = [*_journal_trials(journal)] if os.path.exists(journal) else []
    known = Knowledge(SEARCHED, record.strategies, _load_bank(bank), [*map(_unchecked, samples)], tried, record)
    if not checked:
        return known
    with intact(checked):
        samples = with_check_results(samples, load(checked)["checked"])
    return known._replace(phase=CHECKED, samples=samples, results=results_record(known.bank, record, samples, pass_at))


def _load_bank(path: str) -> Bank:
    with intact(path):
        return bank_from_json(load(path))


class BankAttempts(NamedTuple):
    """A bank with its goals by name, and all attempts that a ledger has at each, by its key."""

    bank: Bank
    goals: Mapping[str, Goal]
    attempts: Mapping[str, Sequence[Attempt]]


@lru_cache(1)
def _bank_attempts(bank_path: str, ledger: str, *_signatures: int) -> BankAttempts:
    """Read bank and ledger, which details of each goal need, again when one of the files has changed."""
    bank = _load_bank(bank_path)
    attempts: Mapping[str, Sequence[Attempt]] = {}
    if os.path.exists(ledger):
        with closing(LedgerReader(ledger)) as reader:
            attempts = {key: reader.attempts_on_goal(key) for key in {goal.key for goal in bank.goals}}
    return BankAttempts(bank, {goal.id: goal for goal in bank.goals}, attempts)


def _journal_trials(path: str) -> Iterator[Trying]:
    """Trials that were told of, in that order."""
    asked: dict[int, Mapping[str, Any]] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if '"what":"ask"' in line and (trial := json.loads(line)["trial"]):
                asked[trial["number"]] = trial
            elif '"what":"tell"' in line:
                outcome = json.loads(line)["outcome"]
                trial = asked.pop(outcome["trial"])
                if outcome["status"] != CANCELLED:
                    yield Trying(trial["strategy"], trial["goal"].partition("#")[0], outcome["status"] == TRIAL_PROVED)


def _unchecked(sample: SampleRecord) -> SampleRecord:
    return sample._replace(status=FOUND) if sample.status == PROVED else sample


def _knowledge_by_ledger(targets: Sequence[Target], begun: float | None, only: str) -> Knowledge:
    """Knowledge of a search that has not ended, from its attempts in the ledger.  `begun`: when its build began."""
    bank_path, toolchain_path = _path(targets, "bank.json"), _path(targets, "toolchain.json")
    target = target_of_stage(targets, "prove")
    ledger, names = target.params["limits"]["ledger"], [*target.params["search"]["strategies"]]
    if not os.path.exists(bank_path) or not os.path.exists(toolchain_path):
        return Knowledge(NOTHING, names)
    files = bank_path, ledger, f"{ledger}-wal"
    bank, by_name, attempts = _bank_attempts(bank_path, ledger, *map(content_signature, files))
    with intact(toolchain_path):
        toolchain = load(toolchain_path)["version"]
    goals = bank.goals if not only else [by_name[only]] if only in by_name else []
    asked = _asked_keys(target, goals, toolchain)
    made = {each.key: each for goal in goals for each in attempts.get(goal.key, ())}
    samples = [_sample_by_ledger(sample, keys, made, begun) for sample, keys in asked]
    ended = sorted(
        (made[key].timestamp, Trying(key.strategy, sample.goal.id, made[key].success and made[key].verified))
        for sample, keys in asked
        for key in keys
        if key in made
    )
    return Knowledge(SEARCHING, names, bank, samples, [each for _, each in ended])


AskedKeys = list[tuple[Sample, dict[AttemptKey, int]]]


def _asked_keys(target: Target, goals: Iterable[Goal], toolchain: str) -> AskedKeys:
    """The attempts that a search may make: of each sample their keys in the ledger, with the level."""
    settings, pace = SearchSettings(**target.params["search"]), Pace(**target.params["limits"]["pace"])
    rules = schedule_rules(settings, pace)
    samples = [Sample(goal, number) for goal in goals for number in range(settings.samples)]
    config = config_key(
        target.params["codes"], {each.name: sample_seed(each.number, settings.seed) for each in samples}
    )
    return [
        (
            sample,
            {
                AttemptKey(
                    sample.goal.key,
                    strategy.name,
                    config(replace(sample.goal, id=sample.name), strategy.name),
                    toolchain,
                    rules.budget(strategy, level),
                ): level
                for strategy in rules.strategies
                for level in range(rules.levels)
            },
        )
        for sample in samples
    ]


def _sample_by_ledger(
    sample: Sample, keys: Mapping[AttemptKey, int], made: Mapping[AttemptKey, Attempt], begun: float | None
) -> SampleRecord:
    """A sample as the ledger knows it.  Attempts of the time before `begun` are recalled when their turn comes."""
    tried = sorted((made[key] for key in keys if key in made), key=lambda each: each.timestamp)
    won = next((each for each in tried if each.success and each.verified), None)
    status = FOUND if won else OPEN if tried and len(tried) == len(keys) else FRONTIER
    return SampleRecord(
        of=sample,
        status=status,
        strategy=won.key.strategy if won else "",
        level=keys[won.key] if won else max((keys[each.key] for each in tried), default=0),
        tactics=won.tactics if won else (),
        seconds=round(sum(each.time_seconds for each in tried[: tried.index(won) + 1 if won else None]), 6),
        attempts=tuple(
            AttemptRecord(
                each.key.strategy,
                keys[each.key],
                each.key.budget,
                each.success and each.verified,
                round(each.time_seconds, 6),
                each.error,
                recalled=begun is not None and each.timestamp < begun,
            )
            for each in tried
        ),
        why="" if won else next((each.error for each in reversed(tried)), "not tried yet"),
    )


# --- Numbers and blocks.


def _headline(known: Knowledge) -> str:
    if known.results:
        return f"{results_headline(known.results)}."
    if known.phase == NOTHING:
        return "No goal was looked at yet."
    groups = group_by_goal(known.samples)
    found = sum(best_sample(each).has_script for each in groups.values())
    said = f"{found} of {plural(len(groups), 'goal')}: a proof is found, not yet checked"
    return f"{said}; {plural(len(known.tried), 'attempt')} so far." if known.phase == SEARCHING else f"{said}."


def _figures(run: str, known: Knowledge, moment: Moment) -> Iterator[Figure]:
    groups = group_by_goal(known.samples)
    best, total = Counter(best_sample(each).status for each in groups.values()), len(groups)
    share = f"{100 * best[PROVED] / total:.0f} % of them" if total else ""
    if known.phase == CHECKED:
        yield Figure("proved", f"{best[PROVED]} of {plural(total, 'goal')}", best[PROVED], "higher", share)
    else:
        note = f"{best[FOUND]} of {plural(total, 'goal')} found, not yet checked" if total else ""
        yield Figure("proved", BLANK, None, "higher", note)
    if total:
        yield Figure("not proved", str(best[OPEN]), best[OPEN], "lower", "all was tried")
        yield Figure("not tried to the end", str(best[FRONTIER]), best[FRONTIER], "lower")
        yield Figure("rows refused", str(len(known.bank.refused)), len(known.bank.refused), "lower", "no goals")
    times = sorted(time for each in groups.values() if (time := time_to_proof(each)) is not None)
    half = sorted_quantile(times, 0.5)
    unsure = "of what is found, not yet checked" if times and known.phase != CHECKED else "of what was proved"
    yield Figure(
        "median time to proof", BLANK if half is None else duration(half, 2), half, "lower", unsure if times else ""
    )
    attempts = [each for sample in known.samples for each in sample.attempts]
    recalled = sum(each.recalled for each in attempts)
    if total:
        yield Figure("attempts", str(len(attempts)), len(attempts), note=f"{recalled} of them recalled")
    yield from _took(run, known, moment)
    yield from running_figure(moment)


def _took(run: str, known: Knowledge, moment: Moment) -> Iterator[Figure]:
    if known.search:
        yield Figure("the search took", duration(known.search.seconds), known.search.seconds, "lower",
                     known.search.stopped)  # fmt: skip
    for each in moment.running:
        if each.name == f"{run}:prove":
            seconds = max(0.0, moment.now - each.since)
            yield Figure("the search takes", duration(seconds, 0), seconds, "lower", "so far", each.since)


def _blocks(run: str, known: Knowledge, states: Mapping[str, TargetState], moment: Moment) -> Iterator[Block]:
    is_checked = known.phase == CHECKED
    if moment.running:
        yield running_table(moment)
    if known.samples:
        yield goals_block(known.samples)
        yield from solved_curve(known.samples)
        yield strategies_block(strategy_counts(known.samples, known.strategies), is_checked)
        yield from bandit_picture(known.tried, known.strategies)
    yield from refused_block(known.bank.refused)
    yield from failure_table(run, states)
    if known.results:
        yield facts_block(known.results)
    yield from build_blocks(run, moment)


# --- One goal, or one target.


def details(run: str, targets: Sequence[Target], item: str) -> list[Block]:
    """The blocks of a goal, or of a target such as RUN:prove."""
    by_name = {each.name: each for each in targets}
    states = target_states(run, by_name)
    if target := by_name.get(item):
        return [*target_blocks(target, states[item], kinds.describe("proof", target), noop.folder(run))]
    known = _knowledge(targets, states, Moment(), item)
    samples = [each for each in known.samples if each.of.goal.id == item]
    if not samples:
        names = [goal.id for goal in known.bank.goals]
        raise SpecError(f"{run} has no goal '{item}'{did_you_mean(item, [*names, *by_name])}")
    searched = max((each.at for each in states.values() if each.at and known.search), default=None)
    return [*_goal_details(run, known, samples, searched)]


def _goal_details(run: str, known: Knowledge, samples: Sequence[SampleRecord], at: float | None) -> Iterator[Block]:
    """`at`: the time of the records, since a build may be searching anew."""
    goal = samples[0].of.goal
    row = goals_block(samples).rows[0]
    facts = {"stands": row.cells[1], "line of the bank": str(goal.line), "difficulty": f"{goal.difficulty:g}"}
    facts |= {"priority": f"{goal.priority:g}", "key of the statement": goal.key}
    facts |= {f"in the bank: {name}": str(value) for name, value in goal.metadata.items()}
    if at:
        facts["recorded"] = recorded_time(at)
    if len(samples) > 1 and known.phase == CHECKED:
        facts["samples proved"] = f"{sum(each.is_proved for each in samples)} of {len(samples)}"
    yield facts_table("facts", goal.id, facts)
    yield from goal_blocks(samples)
    commands = [f"coppice explain {run}:{each.of.name}" for each in samples] if known.search else []
    if best_sample(samples).status == PROVED:
        commands.append(f"grep -A20 'proof of {goal.id}»' runs/{run}/proofs.lean")
    else:
        commands.append(f"coppice bg {run}")
    yield Code("commands", "Commands", "\n".join(commands))
