"""Stages that weigh all ideas of a depth by their blocks, and say of each evaluation what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from pipeline.edge.job import Papers
from pipeline.tree.beam import code_of
from pipeline.tree.gate import Evaluation, comparable
from pipeline.tree.paired import PARENT, ROOT, comparison, of_metric, ruled
from pipeline.tree.records import Record, load, save
from pipeline.tree.scoring import RUN, Score
from pipeline.tree.slots import NO_SLOT
from pipeline.tree.verdicts import evaluation_of, rules_of, summary_of
from pipeline.trust import wallet
from pipeline.trust.evidence import Evidence, Weighed
from pipeline.trust.noninferiority import guard
from pipeline.trust.rule import weigh as weigh_ideas
from pipeline.trust.verdicts import PROMOTED, verdict


def weigh(job: Papers) -> None:
    params = job.target.params
    records = dict(zip(params["slots"], map(load, job.reads["pairs"]), strict=True))
    before = next(map(load, job.reads["before"]), None)
    save(job.writes["weighed"][0], weighed(params, records, before))


def settle(job: Papers) -> None:
    """The summary of one evaluation, with the verdict on it."""
    pairs, found = load(job.reads["pairs"][0]), load(job.reads["weighed"][0])
    save(job.writes["summary"][0], summary_of(settled(job.target.params, pairs, found)))


def weighed(params: Mapping[str, Any], records: Mapping[str, Record], before: Record | None) -> Record:
    """`records`: the pairs of all slots of a depth; `before`: what was weighed a depth earlier.

    `freed`: of each depth so far whether its alpha is left for the next."""
    freed = before["freed"] if before else []
    alpha = level(params, freed)
    among = compared(records)
    sides = _sides(params, among, alpha) if among else {}
    evidence = {slot: {side: found["ideas"][slot] for side, found in sides.items()} for slot in among}
    return {
        "alpha": alpha,
        "freed": [*freed, not among or _fills(params["beam_width"], among, evidence)],
        "tests": {side: sides[side]["test"] for side in sides},
        "evidence": evidence,
    }


def _sides(params: Mapping[str, Any], among: Mapping[str, Record], alpha: float) -> dict[str, Record]:
    """At the first depth the root is the parent of all."""
    found = against(params, among, PARENT, alpha)
    pairs = (series for record in among.values() for series in record["series"].values())
    at_root = all(series[PARENT] == series[ROOT] for series in pairs)
    return {PARENT: found, ROOT: found if at_root else against(params, among, ROOT, alpha)}


def _fills(places: int, records: Mapping[str, Record], evidence: Mapping[str, Record]) -> bool:
    """The same code twice takes one place."""
    won = {code_of(evaluation(records[slot])) for slot, it in evidence.items() if it[PARENT]["verdict"] == PROMOTED}
    return len(won) >= places


def compared(records: Mapping[str, Record]) -> dict[str, Record]:
    """Those among which luck may choose."""
    return {slot: record for slot, record in records.items() if record["series"] and comparable(evaluation(record))}


def level(params: Mapping[str, Any], freed: Sequence[bool]) -> float:
    score = params["score"]
    return wallet.level(score["alpha"], params["max_depth"], freed) if score["alpha_over"] == RUN else score["alpha"]


def against(params: Mapping[str, Any], records: Mapping[str, Record], side: str, alpha: float) -> Record:
    """All ideas against their parents, or against the root."""
    rules = rules_of(params)
    deltas = [of_metric(rules, record["series"], rules.primary, side) for record in records.values()]
    found = tested(params, deltas, alpha, len(params["blocks"]["ids"] or ()) or None)
    guards: dict[str, list[Record]] = {}
    for count in {len(record["blocks"]) for record in records.values()}:  # what was stopped has seen fewer
        guards |= _guards(params, {s: each for s, each in records.items() if len(each["blocks"]) == count}, side)
    ideas = {
        slot: _idea(params, evidence, found, guards[slot]) for slot, evidence in zip(records, found.ideas, strict=True)
    }
    return {"test": {**found._asdict(), "ideas": len(ideas)}, "ideas": ideas}


def tested(params: Mapping[str, Any], deltas: Sequence[Sequence[float]], alpha: float, blocks: int | None) -> Weighed:
    """`blocks`: how many there are; an idea with fewer was stopped."""
    draws = params["score"]["draws"]
    return weigh_ideas(deltas, alpha=alpha, seed=_seed(deltas), draws=draws, blocks=blocks, **_time(params))


def _idea(params: Mapping[str, Any], evidence: Evidence, among: Weighed, guards: Sequence[Record]) -> Record:
    decided = ruled(verdict(evidence, among.alpha, params["score"]["smallest_effect"]), guards)
    return {
        "verdict": decided.verdict,
        "reasons": [*decided.reasons],
        "alpha": among.alpha,
        "rho": among.rho,
        **evidence._asdict(),
        "guards": guards,
    }


def _guards(params: Mapping[str, Any], records: Mapping[str, Record], side: str) -> dict[str, list[Record]]:
    """Of each idea, metric by metric.  Those of a depth share their blocks, and are looked at together."""
    found: dict[str, list[Record]] = {slot: [] for slot in records}
    rules = rules_of(params)
    for metric in rules.guards:
        margin = metric.margin or 0.0
        deltas = [of_metric(rules, record["series"], metric.name, side) for record in records.values()]
        for slot, each in zip(records, guard(deltas, margin, **_time(params)), strict=True):
            found[slot].append({"name": metric.name, "margin": margin, **each._asdict()})
    return found


def _time(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"ordered": params["ordered"], "rho": params["rho"]}


def _seed(deltas: Sequence[Sequence[float]]) -> int:
    """By what is weighed, in whatever order: the same evidence gets the same verdict, wherever and whenever."""
    return int.from_bytes(sha256(json.dumps(sorted(deltas)).encode()).digest()[:16], "big")


def evaluation(record: Record) -> Evaluation:
    return evaluation_of(NO_SLOT, record)


def settled(params: Mapping[str, Any], pairs: Record, found: Record) -> Evaluation:
    made, evidence = evaluation(pairs), found["evidence"].get(params["slot"])
    if evidence is None:
        return made
    rules = rules_of(params)
    sides = [comparison(rules, pairs["series"], side, evidence[side], made.rows_used) for side in (PARENT, ROOT)]
    return made._replace(score=Score(*sides))
