"""Stages that turn results into verdicts: compare with parent and root, weigh a depth by blocks, cascade.

By means there is one stage: score.  By blocks: pair (the series of one candidate), weigh (all ideas of a depth at once:
how much luck the best may have had depends on their number), settle (the summary of one).  With a cascade: pair on the
first blocks, cascade (which ideas go on), join (both parts of a sweep as one)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from math import copysign, inf
from typing import Any, NamedTuple

from pipeline.git.commits import Candidate
from pipeline.machine.job import JobFiles
from pipeline.store.files import read_bytes
from pipeline.tree.rules import scoring, sheet
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED, Evaluation, code_identity, is_comparable
from pipeline.tree.rules.positions import NO_SLOT
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.scoring import AGAINST_PARENT, AGAINST_ROOT
from pipeline.tree.run.measure import join_logs_and_costs, sweep_record
from pipeline.tree.run.records import (
    CandidateRecord,
    Record,
    StepRecord,
    SweepRecord,
    evaluation_of,
    from_json,
    load,
    load_as,
    read_text,
    save,
    scoring_rules,
    summary_of,
    write,
)
from pipeline.tree.spec.model import Params
from pipeline.trust.evidence import DEGENERATE, PROMOTED, Evidence, JointTest, depth_alpha, verdict
from pipeline.trust.noninferiority import judge_guard
from pipeline.trust.rule import weigh as weigh_ideas


class ComparisonSides(NamedTuple):
    """The input of a comparison: the complete rows of three states of the code."""

    own: sheet.CheckedRows
    parent: sheet.CheckedRows
    root: sheet.CheckedRows
    wanted: sheet.ExpectedRows


def score_stage(job: JobFiles) -> None:
    """Score a candidate by the means of all rows."""
    evaluation, sides = evaluate_candidate(job)
    if sides:
        rules = scoring_rules(job.target.params)
        evaluation = evaluation._replace(score=scoring.score_by_means(rules, sides.own, sides.parent, sides.root))
    save(job.writes["summary"][0], summary_of(evaluation))


def pair_stage(job: JobFiles) -> None:
    """Write the series of a candidate, for a verdict by blocks once all of the depth is there."""
    evaluation, sides = evaluate_candidate(job, job.target.params.get("first", 0))
    if sides and (seeds := tuple(map(str, scoring.seed_defects(sides.own, sides.parent)))):
        evaluation, sides = evaluation._replace(defects=sheet.bounded_defects(seeds)), None
    metrics = [metric["name"] for metric in job.target.params["metrics"]]
    series = {name: block_series(sides, name) for name in metrics} if sides else {}
    blocks = sides.wanted.blocks if sides else ()
    save(job.writes["pairs"][0], {**summary_of(evaluation), "blocks": blocks, "series": series})


def block_series(sides: ComparisonSides, metric: str) -> dict[str, list[float]]:
    rows = {"own": sides.own, "parent": sides.parent, "root": sides.root}
    return {name: scoring.block_means(checked.rows, sides.wanted.blocks, metric) for name, checked in rows.items()}


def evaluate_candidate(job: JobFiles, first: int = 0) -> tuple[Evaluation, ComparisonSides | None]:
    """The evaluation so far; and the sides of its comparison, if they are complete.

    `first`: only so many of the blocks; a candidate stopped by the cascade has those alone."""
    params, record = job.target.params, load(job.reads["candidate"][0])
    candidate, sweep = from_json(Candidate, record), load_as(SweepRecord, job.reads["sweep"][0])
    implemented = from_json(CandidateRecord, record)
    status, why = _status(job, implemented, sweep)
    own, parent, root = (read_bytes(job.reads[port][0]) for port in ("csv", "parent", "root"))
    results, baseline = (sha256(csv).hexdigest() if csv else "" for csv in (own, parent))
    code = (candidate.commit, candidate.tree, implemented.approved)
    evaluation = Evaluation(NO_SLOT, status, why, *code, results, baseline)
    if status != COMPLETED or not own or not parent:
        return evaluation, None
    baselines = [_baseline(csv, *_columns(params)) for csv in (parent, root)]
    whole = expected_by_sheet(params, baselines[1])
    wanted = whole.first_blocks(first or sweep.stopped_after or 0)
    old = [sheet.check_rows(each, whole) for each in baselines]  # these were measured on all blocks
    sides = ComparisonSides(sheet.check_rows(sheet_of(params, own), wanted), old[0], old[1], wanted)
    named = (("", sides.own), ("the parent's ", sides.parent), ("the root's ", sides.root))
    defects = sheet.bounded_defects(f"{side}{defect}" for side, checked in named for defect in checked.defects)
    evaluation = evaluation._replace(defects=defects, rows_used=sides.own.rows_used, rows_expected=wanted.rows)
    return evaluation, None if defects else sides


def _status(job: JobFiles, implemented: CandidateRecord, sweep: SweepRecord) -> tuple[str, str]:
    """The status of an evaluation, and the first failure."""
    if implemented.status != COMPLETED:
        return implemented.status, implemented.why
    steps = [(word, load_as(StepRecord, path)) for word in ("test", "checks") for path in job.reads[word]]
    ends = [(f"{word.removesuffix('s')}s: ", step.status, step.why) for word, step in steps]
    for what, status, why in (*ends, ("sweep: ", sweep.status, sweep.why)):
        if status != COMPLETED:
            return FAILED, why if why.startswith(VOID) else f"{what}{why}"
    return COMPLETED, ""


def sheet_of(params: Params, csv: bytes) -> sheet.Sheet:
    return _parse_sheet(csv, *_columns(params))


def _parse_sheet(csv: bytes, metrics: tuple[str, ...], block: str) -> sheet.Sheet:
    return sheet.read_sheet(csv.decode(errors="replace"), metrics, block)


# Many candidates in a row are compared with the same few nodes.
_baseline = lru_cache(maxsize=8)(_parse_sheet)


def _columns(params: Params) -> tuple[tuple[str, ...], str]:
    """The columns that count, and the one that tells blocks apart."""
    names = tuple(metric["name"] for metric in params["metrics"])
    return names, params["blocks"]["column"] if params["blocks"] else ""


def expected_by_sheet(params: Params, root: sheet.Sheet) -> sheet.ExpectedRows:
    blocks = params["blocks"]["ids"] if params["blocks"] else ()
    found = sheet.expected_rows(params["sweep_config_limit"], params["grid"], root, blocks)
    return found.only_configs(params["config_ids"]) if "config_ids" in params else found


def weigh_stage(job: JobFiles) -> None:
    """Weigh the ideas of a depth.  `freed`: for each depth so far, whether its alpha is left for the next."""
    params = job.target.params
    among = _comparable_records(job)
    freed: list[bool] = next(map(load, job.reads["before"]), {"freed": []})["freed"]
    alpha = alpha_for_depth(params, freed)
    sides: dict[str, Record] = {}
    if among:
        sides[AGAINST_PARENT] = weigh_against(params, among, AGAINST_PARENT, alpha)
        pairs = (series for record in among.values() for series in record["series"].values())
        at_root = all(series[AGAINST_PARENT] == series[AGAINST_ROOT] for series in pairs)  # as at the first depth
        sides[AGAINST_ROOT] = sides[AGAINST_PARENT] if at_root else weigh_against(params, among, AGAINST_ROOT, alpha)
    evidence = {slot: {side: found["ideas"][slot] for side, found in sides.items()} for slot in among}
    promoted = (among[slot] for slot, it in evidence.items() if it[AGAINST_PARENT]["verdict"] == PROMOTED)
    full = len({code_identity(evaluation_of(record)) for record in promoted}) >= params["beam_width"]
    record = {"alpha": alpha, "freed": [*freed, not among or full], "evidence": evidence}
    save(job.writes["weighed"][0], record | {"tests": {side: found["test"] for side, found in sides.items()}})


def settle_stage(job: JobFiles) -> None:
    """Write the summary of one evaluation, with its verdict."""
    params, pairs = job.target.params, load(job.reads["pairs"][0])
    evaluation = evaluation_of(pairs)
    if evidence := load(job.reads["weighed"][0])["evidence"].get(params["slot"]):
        rules, series, used = scoring_rules(params), pairs["series"], evaluation.rows_used
        sides = (scoring.paired_comparison(rules, series, s, evidence[s], used) for s in (AGAINST_PARENT, AGAINST_ROOT))
        evaluation = evaluation._replace(score=scoring.Score(*sides))
    save(job.writes["summary"][0], summary_of(evaluation))


def _comparable_records(job: JobFiles) -> dict[str, Record]:
    """The pairs of a depth's candidates among which luck may choose, by slot."""
    records = zip(job.target.params["slots"], map(load, job.reads["pairs"]), strict=True)
    return {slot: each for slot, each in records if each["series"] and is_comparable(evaluation_of(each))}


def alpha_for_depth(params: Params, freed: Sequence[bool]) -> float:
    alpha = params["score"]["alpha"]
    return depth_alpha(alpha, params["max_depth"], freed) if params["score"]["alpha_over"] == scoring.RUN else alpha


def weigh_against(params: Params, records: Mapping[str, Record], side: str, alpha: float) -> Record:
    """Weigh all ideas against their parents, or against the root."""
    found = _test_ideas(params, records, side, alpha, len(params["blocks"]["ids"] or ()) or None)
    guards: dict[str, list[Record]] = {}
    for count in {len(record["blocks"]) for record in records.values()}:  # stopped candidates have fewer
        guards |= _guards(params, {s: each for s, each in records.items() if len(each["blocks"]) == count}, side)
    by_slot = zip(records, found.ideas, strict=True)
    ideas = {slot: _idea(params, evidence, found, guards[slot]) for slot, evidence in by_slot}
    return {"test": {**found._asdict(), "ideas": len(ideas)}, "ideas": ideas}


def _test_ideas(params: Params, among: Mapping[str, Record], side: str, alpha: float, blocks: int | None) -> JointTest:
    """Test ideas jointly; `blocks`: the number there is, an idea with fewer was stopped.

    The seed is from the differences, in any order: the same evidence always gets the same verdict."""
    rules, draws = scoring_rules(params), params["score"]["draws"]
    deltas = [scoring.metric_differences(rules, record["series"], rules.primary, side) for record in among.values()]
    seed = int.from_bytes(sha256(json.dumps(sorted(deltas)).encode()).digest()[:16], "big")
    return weigh_ideas(deltas, alpha=alpha, seed=seed, draws=draws, blocks=blocks, **dependence_params(params))


def _idea(params: Params, evidence: Evidence, among: JointTest, guards: Sequence[Record]) -> Record:
    decided = scoring.apply_guards(verdict(evidence, among.alpha, params["score"]["smallest_effect"]), guards)
    about = {"alpha": among.alpha, "rho": among.rho, "guards": guards}
    if repeats := params.get("repeats"):
        about["repeats"] = len({*repeats})
    return {"verdict": decided.verdict, "reasons": decided.reasons, **evidence._asdict(), **about}


def _guards(params: Params, records: Mapping[str, Record], side: str) -> dict[str, list[Record]]:
    """The guards of each idea, metric by metric; ideas of a depth share their blocks, and are judged together."""
    guards: dict[str, list[Record]] = {slot: [] for slot in records}
    rules = scoring_rules(params)
    for metric in rules.guards:
        margin = metric.margin or 0.0
        deltas = [scoring.metric_differences(rules, record["series"], metric.name, side) for record in records.values()]
        for slot, each in zip(records, judge_guard(deltas, margin, **dependence_params(params)), strict=True):
            guards[slot].append({"name": metric.name, "margin": margin, **each._asdict()})
    return guards


def dependence_params(params: Params) -> dict[str, Any]:
    """Parameters of how blocks depend on each other: an order of time, or the same data."""
    return {"ordered": params["ordered"], "rho": params["rho"], "repeats": params.get("repeats")}


def cascade_stage(job: JobFiles) -> None:
    """Choose the ideas that go on: their `tree` is handed on to the rest of the sweep."""
    params = job.target.params
    cascade = pick_best(params, _comparable_records(job))
    save(job.writes["cascade"][0], cascade)
    for slot, tree, rest in zip(params["slots"], job.reads["tree"], job.writes["tree"], strict=True):
        goes_on = slot in cascade["ideas"] and cascade["ideas"][slot]["goes_on"]
        write(rest, read_text(tree) if goes_on else "")


def pick_best(params: Params, among: Mapping[str, Record]) -> Record:
    """Pick the best ideas by their t against their parents; `among`: the pairs of a depth on the first blocks.

    Two with the same files take one place, as they are measured once."""
    tested = _test_ideas(params, among, AGAINST_PARENT, params["score"]["alpha"], None).ideas if among else ()
    # the same difference in every block has no noise: its t is infinite
    sizes = [copysign(inf, each.mean) if each.standing == DEGENERATE else each.t for each in tested]
    # ties go to the earlier slot: sorting is stable
    order = sorted(zip(among, tested, sizes, strict=True), key=lambda each: each[2], reverse=True)
    trees: set[str] = set()
    ideas: Record = {}
    for n, (slot, evidence, _) in enumerate(order):
        tree = among[slot]["tree"]
        if goes_on := tree in trees or len(trees) < params["keep"]:
            trees.add(tree)
        facts = {name: getattr(evidence, name) for name in ("standing", "mean", "se", "t")}
        ideas[slot] = {**facts, "place": n, "goes_on": goes_on}
    return {"blocks": params["first"], "keep": params["keep"], "ideas": ideas}


def join_stage(job: JobFiles) -> None:
    """Join both parts of a sweep; a stopped idea has the first part alone."""
    parts = [load_as(SweepRecord, path) for path in job.reads["sweep"]]
    stopped = parts[0].status == COMPLETED and parts[1].status == SKIPPED
    results, why = _join_csv([read_bytes(path) for path in job.reads["csv"]])
    bad = parts[0] if stopped else next((part for part in parts if part.status != COMPLETED), parts[0])
    write(job.writes["csv"][0], results)
    record = sweep_record(parts[0].tree, bad.why or why, results, bad.exit)
    save(job.writes["sweep"][0], record._replace(stopped_after=job.target.params["first"] if stopped else 0))
    join_logs_and_costs(job)


def _join_csv(parts: Sequence[bytes]) -> tuple[bytes, str]:
    """Join the lines of two CSVs as they are, so that mistakes in them stay visible; and what is wrong with them."""
    there = [part for part in parts if part]
    if len(there) < 2:
        return b"".join(there), ""
    texts = [part.decode(errors="surrogateescape").removeprefix("\ufeff") for part in there]
    try:
        (first, _), (second, rest) = map(_split_header, texts)
    except sheet.CsvProblem as problem:
        return b"\n".join(there), f"its results are not CSV: {problem}"
    if first != second:
        return b"\n".join(there), "its results have other columns for the first blocks than for the rest"
    end = "" if texts[0].endswith("\n") else "\n"
    return f"{texts[0]}{end}{rest}".encode(errors="surrogateescape"), ""


def _split_header(text: str) -> tuple[list[str], str]:
    """The names of the columns, and the lines after them."""
    lines = text.split("\n")
    # all of it must be readable by itself: an open quote would swallow the other part
    table = [row for row in sheet.csv_rows(sheet.csv_lines(text), strict=True) if row[1]]
    at, header = table[0] if table else (len(lines), [])
    return [name.strip() for name in header], "\n".join(lines[at:])
