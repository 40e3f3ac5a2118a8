"""Lines for a terminal as a search goes on: the end of an idea, and of a depth.  At most WIDTH columns each.

Pure: functions of entries of the manifest.  Candidates choose idea texts and reasons: these are made plain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.core.text import duration, join_names
from pipeline.tree.report.markdown import clip_text, format_chance, format_change, format_money
from pipeline.tree.rules.beam import RANK, SAME_CODE
from pipeline.trust.evidence import PROMOTED

WIDTH = 120
TITLE_WIDTH, SHORTEST_TITLE, WHY_WIDTH = 40, 12, 50

Entry = Mapping[str, Any]


def idea_line(run: str, entry: Entry, primary: str, recalled: bool = False) -> str:
    """The end of an idea: its verdict, the primary metric before and after, p, cost, time; why, if it failed.

    By blocks there are two: what was measured, and the verdict, once all of the depth can be weighed."""
    scores, measured, spent = entry["scoring_summary"], entry["primary"], entry["spent"]
    parts = [verdict_word(entry)]
    if entry["error"]:
        parts = [f"failed: {clip_text(entry['error']['why'], WHY_WIDTH)}"]
    if measured:
        parts.append(f"{clip_text(primary, 24)} {format_change(measured['before'], measured['after'])}")
    if scores and (evidence := scores["recommendation"]["evidence"]):
        parts.append(f"p {format_chance(evidence['p'])}")
    if entry["partial"]:
        parts.append("partial")
    if spent and (spent["usd"] or spent["unknown_calls"]):
        parts.append(format_money(spent["usd"], spent["unknown_calls"], "${:.4g}"))
    if spent and spent["seconds"]:
        parts.append(duration(spent["seconds"]))
    return _titled_line(run, entry["eval_id"], entry["idea_title"], [*parts, *(["recalled"] if recalled else [])])


def _titled_line(run: str, slot: str, title: str, parts: list[str]) -> str:
    where, rest = f"{run}:{slot}", ", ".join(parts)
    room = min(TITLE_WIDTH, max(SHORTEST_TITLE, WIDTH - len(where) - len(rest) - 4))
    return clip_text(": ".join(filter(None, [" ".join([where, clip_text(title, room)]).strip(), rest])), WIDTH)


def stopped_line(run: str, slot: str, stage: str, why: str) -> str:
    """A target of an evaluation failed by a fault that is not the candidate's."""
    return clip_text(f"{run}:{slot} did not end: {stage}: {why}", WIDTH)


def verdict_word(entry: Entry) -> str:
    """The verdict in a word: of the statistics, or the grade; `passed` until it is known what becomes a node."""
    scores = entry["scoring_summary"]
    if not scores:
        return "measured" if entry["primary"] else "not to be compared" if entry["defects"] else str(entry["status"])
    evidence = scores["recommendation"]["evidence"]
    if evidence is None:
        return str(scores["recommendation"]["grade"])
    return "passed" if evidence["verdict"] == PROMOTED else str(evidence["verdict"])


def measured_fields(entry: Entry) -> dict[str, Any]:
    """Fields of the event with which an evaluation ends."""
    spent, measured = entry["spent"] or {}, entry["primary"] or {}
    amounts = {name: spent.get(name) for name in ("usd", "unknown_calls", "tokens", "seconds")}
    return {"before": measured.get("before"), "after": measured.get("after"), **amounts}


def score_fields(entry: Entry) -> dict[str, Any]:
    parent = entry["scoring_summary"]["recommendation"]
    evidence = parent["evidence"]
    return {"verdict": verdict_word(entry), "score": parent["score"], "p": evidence and evidence["p"]}


def depth_line(run: str, depth: int, promoted: Mapping[str, Any]) -> str:
    """The end of a depth: which ideas became nodes, and how many passed and did not."""
    nodes = [f"{beam['promoted_from_eval_id']} -> {node}" for node, beam in promoted["beam"].items() if beam["commit"]]
    counts = Counter(decision["failed_check"] for decision in promoted["decisions"].values())
    parts = [join_names(nodes) or "nothing promoted"]
    for check, words in ((RANK, "passed, outranked"), (SAME_CODE, "passed, same code as another")):
        parts += [f"{counts[check]} {words}"] if counts[check] else []
    parts += [f"stops: {promoted['stop_reason']}"] if promoted["stop_reason"] else []
    return clip_text(f"{run}: depth {depth}: {'; '.join(parts)}", WIDTH)
