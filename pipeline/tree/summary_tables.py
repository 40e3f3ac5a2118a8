"""The tables of TREE_SUMMARY.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.tree.scoring import PAIRED
from pipeline.tree.tables import NONE, clipped, money, moved, number, score, seconds, table

GRADE, VERDICT = ("grade", "score"), ("verdict", "estimate", "between", "p")
IDEA, WHY = 48, 100  # characters
AMOUNTS = {"evals": "evaluations", "usd": "USD", "tokens": "tokens", "seconds": "seconds"}

Manifest = Mapping[str, Any]
Evaluation = Mapping[str, Any]


def path(manifest: Manifest, best: Sequence[str]) -> list[str]:
    primary = manifest["run_config"]["primary"]
    header = ["node", "idea", primary, "against the parent", "grade", "score"]
    header += ["against the root", "rank score", "commit"]
    rows = [_step(manifest, name, primary) for name in best if name]
    return table(header, rows, right=("score", "rank score")) if rows else []


def _step(manifest: Manifest, name: str, primary: str) -> list[str]:
    node = manifest["nodes"][name]
    source = manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
    scores = (source or {}).get("scoring_summary")
    if not source or not scores:
        return [name, "(the start)", _mean(node, primary), *[NONE] * 5, short(node["commit"])]
    parent, root = scores["recommendation"], scores["root_recommendation"]
    deltas = [_change(each, primary) for each in (parent, root)]
    idea = f"{clipped(source['idea_title'], IDEA)} ({source['eval_id']})"
    steps = [deltas[0], parent["grade"], score(parent["score"]), deltas[1], score(root["score"])]
    return [name, idea, _mean(node, primary), *steps, short(node["commit"])]


def _mean(node: Mapping[str, Any], primary: str) -> str:
    return number(node["metrics"][primary]) if primary in node["metrics"] else NONE


def _change(comparison: Mapping[str, Any], name: str) -> str:
    detail = next(each for each in comparison["metrics"] if each["name"] == name)
    return moved(detail["baseline"], detail["candidate"])


def short(commit: str | None) -> str:
    return commit[:10] if commit else NONE


def beam(manifest: Manifest) -> list[str]:
    """Depth 0 is the root alone, which every table has."""
    rows = [
        [depth, place, *_held(manifest, place, found)]
        for depth, places in manifest["state"]["beam_by_depth"].items()
        for place, found in places.items()
    ]
    header = ["depth", "place", "from", "idea", manifest["run_config"]["primary"], "why", "commit"]
    return table(header, rows, right=("depth",)) if rows else []


def _held(manifest: Manifest, place: str, found: Mapping[str, Any]) -> list[str]:
    source, node = manifest["evaluations"].get(found["promoted_from_eval_id"]), manifest["nodes"].get(place)
    if not source or not node:
        return [NONE, "(empty)", NONE, clipped(found["why"], WHY), NONE]
    mean = _mean(node, manifest["run_config"]["primary"])
    title = clipped(source["idea_title"], IDEA)
    return [source["eval_id"], title, mean, clipped(found["why"], WHY), short(node["commit"])]


def nodes(manifest: Manifest) -> list[str]:
    header = ["node", "status", "parent", "from", "ideas in it", "tried", "promoted", "worktree", "commit"]
    evaluations = [each for each in manifest["evaluations"].values() if not each["empty"]]
    tried = Counter(each["parent_node_id"] for each in evaluations)
    promoted = Counter(each["parent_node_id"] for each in evaluations if promoted_to(each))
    rows = [
        [
            name,
            node["status"],
            node["parent_node_id"] or NONE,
            node["artifacts"]["promoted_from_eval_id"] or NONE,
            str(len(node["idea_chain"])),
            str(tried[name]),
            str(promoted[name]),
            node["worktree_path"],
            short(node["commit"]),
        ]
        for name, node in manifest["nodes"].items()
    ]
    return table(header, rows, right=("ideas in it", "tried", "promoted")) if rows else []


def promoted_to(each: Evaluation) -> str:
    return (each["decision"] or {}).get("promoted_to_node_id") or ""


def evaluations(manifest: Manifest, rows: Mapping[str, Evaluation]) -> list[str]:
    """`score` is against the parent, for the gate; `rank score` against the root, for the ranking."""
    config = manifest["run_config"]
    guards = [metric["name"] for metric in config["metrics"] if metric["guard"]]
    names = [config["primary"], *(name for name in guards if name != config["primary"])]
    header = ["slot", "idea", "status", *(VERDICT if config["method"] == PAIRED else GRADE), "rank score", names[0]]
    header += [f"{name} (guard)" for name in names[1:]]
    header += ["rows", "better/worse", "seconds", "attempts", "cost", "decision", "why"]
    right = ("score", "estimate", "p", "rank score", "rows", "better/worse", "seconds", "attempts")
    return table(header, [[slot, *_row(each, names, header)] for slot, each in rows.items()], right)


def _row(each: Evaluation, names: Sequence[str], header: Sequence[str]) -> Iterator[str]:
    scores, spent = each["scoring_summary"], each["spent"] or {"usd": 0, "tokens": 0, "seconds": 0}
    yield from (clipped(each["idea_title"], IDEA), each["empty"] or each["status"])
    if scores:
        parent, root = scores["recommendation"], scores["root_recommendation"]
        yield from (*_judged(parent), score(root["score"]))
        yield from (_change(parent, name) for name in names)
    else:
        yield from [NONE] * (header.index("rows") - 3)
    yield f"{each['candidate_rows_used']}/{each['rows_expected']}" if each["rows_expected"] else NONE
    yield f"{each['by_config']['better']}/{each['by_config']['worse']}" if each["by_config"] else NONE
    yield seconds(spent["seconds"]) if spent["seconds"] else NONE
    yield str(each["attempt"]) if each["attempt"] else NONE
    yield money(spent["usd"], spent["tokens"])
    yield from _decided(each)


def _judged(parent: Mapping[str, Any]) -> tuple[str, ...]:
    evidence = parent["evidence"]
    if evidence is None:
        return parent["grade"], score(parent["score"])
    bounds = f"{number(evidence['lower'])} to {number(evidence['upper'])}"
    return evidence["verdict"], score(parent["score"]), bounds, number(evidence["p"])


def _decided(each: Evaluation) -> tuple[str, str]:
    decision, to = each["decision"], promoted_to(each)
    if decision is None:
        return "not yet", NONE
    return (f"promoted: {to}" if to else f"no: {decision['failed_check']}"), clipped(decision["why"], WHY)


def progress(manifest: Manifest) -> list[str]:
    names = ("planned", "assigned", "completed", "failed", "skipped", "unfinished", "promoted")
    rows = [
        [depth, *(str(counts[name]) for name in names), _reasons(manifest, int(depth), counts["empty"])]
        for depth, counts in manifest["state"]["depth_progress_by_depth"].items()
    ]
    return table(["depth", *names, "why slots are empty"], rows, right=("depth", *names)) if rows else []


def _reasons(manifest: Manifest, depth: int, empty: Mapping[str, int]) -> str:
    """Each word with how often it is said, and the first of its reasons in full."""
    these = [each for each in manifest["evaluations"].values() if each["depth"] == depth]
    first = {word: next(each["empty_why"] for each in these if each["empty"] == word) for word in empty}
    return "; ".join(f"{count} {word} ({clipped(first[word], WHY)})" for word, count in empty.items())


def budget(manifest: Manifest) -> list[str]:
    state, config = manifest["state"], manifest["run_config"]
    rows = [
        [label, *(_amount(side[name]) for side in (config["budget"], state["spent"], state["left"], config["ceiling"]))]
        for name, label in AMOUNTS.items()
    ]
    header = ["", "limit", "spent", "left", "at most for one"]
    return [*table(header, rows, right=header[1:]), *_dearer(manifest)]


def _dearer(manifest: Manifest) -> list[str]:
    """What was reserved was too little: the search may have spent more than it was allowed to."""
    names = [name for name, each in manifest["evaluations"].items() if _costs_more(each["spent"], manifest)]
    if not names:
        return []
    return [
        "",
        f"**More than `per_eval` allows:** {', '.join(names)}. The budget held less than was meant; raise `per_eval`.",
    ]


def _costs_more(spent: Mapping[str, float] | None, manifest: Manifest) -> bool:
    most = manifest["run_config"]["ceiling"]
    return spent is not None and any(most[name] is not None and spent[name] > most[name] for name in AMOUNTS)


def _amount(value: float | None) -> str:
    return NONE if value is None else f"{value:,.12g}"
