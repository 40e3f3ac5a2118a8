"""Summary of a search from its manifest: its state, its best path, the result of every idea.

It is TREE_SUMMARY.md, and its opening line is the last line of a build.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.text import join_names, plural
from pipeline.tree.report.markdown import (
    BLANK,
    clip_text,
    format_change,
    format_money,
    format_number,
    format_score,
    format_seconds,
    markdown_table,
    table_cell,
)
from pipeline.tree.rules.assignment import NO_IDEA, NO_NODE
from pipeline.tree.rules.beam import rank_numbers
from pipeline.tree.rules.scoring import DEPTH, PAIRED, RUN

GRADE_COLUMNS, VERDICT_COLUMNS = ("grade", "score"), ("verdict", "estimate", "between", "p")
IDEA_WIDTH, WHY_WIDTH = 48, 100  # characters
AMOUNTS = {"evals": "evaluations", "usd": "USD", "tokens": "tokens", "seconds": "seconds"}

ManifestRecord = Mapping[str, Any]
EvaluationEntry = Mapping[str, Any]


def path_table(manifest: ManifestRecord, best: Sequence[str]) -> list[str]:
    primary = manifest["run_config"]["primary"]
    header = ["node", "idea", primary, "against the parent", "grade", "score"]
    header += ["against the root", "rank score", "commit"]
    rows = [_step(manifest, name, primary) for name in best if name]
    return markdown_table(header, rows, right=("score", "rank score")) if rows else []


def _step(manifest: ManifestRecord, name: str, primary: str) -> list[str]:
    node = manifest["nodes"][name]
    source = manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
    scores = (source or {}).get("scoring_summary")
    if not source or not scores:
        return [name, "(the start)", _node_mean(node, primary), *[BLANK] * 5, short_commit(node["commit"])]
    parent, root = scores["recommendation"], scores["root_recommendation"]
    deltas = [_change(each, primary) for each in (parent, root)]
    idea = f"{clip_text(source['idea_title'], IDEA_WIDTH)} ({source['eval_id']})"
    steps = [deltas[0], parent["grade"], format_score(parent["score"]), deltas[1], format_score(root["score"])]
    return [name, idea, _node_mean(node, primary), *steps, short_commit(node["commit"])]


def _node_mean(node: Mapping[str, Any], primary: str) -> str:
    return format_number(node["metrics"][primary]) if primary in node["metrics"] else BLANK


def _change(comparison: Mapping[str, Any], name: str) -> str:
    detail = next(each for each in comparison["metrics"] if each["name"] == name)
    return format_change(detail["baseline"], detail["candidate"])


def short_commit(commit: str | None) -> str:
    return commit[:10] if commit else BLANK


def beam_table(manifest: ManifestRecord) -> list[str]:
    """The beam of each depth, without depth 0, which is the root alone."""
    rows = [
        [depth, place, *_beam_cells(manifest, place, found)]
        for depth, places in manifest["state"]["beam_by_depth"].items()
        for place, found in places.items()
    ]
    header = ["depth", "place", "from", "idea", manifest["run_config"]["primary"], "why", "commit"]
    return markdown_table(header, rows, right=("depth",)) if rows else []


def _beam_cells(manifest: ManifestRecord, place: str, found: Mapping[str, Any]) -> list[str]:
    source, node = manifest["evaluations"].get(found["promoted_from_eval_id"]), manifest["nodes"].get(place)
    if not source or not node:
        return [BLANK, "(empty)", BLANK, clip_text(found["why"], WHY_WIDTH), BLANK]
    mean = _node_mean(node, manifest["run_config"]["primary"])
    title = clip_text(source["idea_title"], IDEA_WIDTH)
    return [source["eval_id"], title, mean, clip_text(found["why"], WHY_WIDTH), short_commit(node["commit"])]


def node_table(manifest: ManifestRecord) -> list[str]:
    header = ["node", "status", "parent", "from", "ideas in it", "tried", "promoted", "worktree", "commit"]
    evaluations = [each for each in manifest["evaluations"].values() if not each["empty"]]
    tried = Counter(each["parent_node_id"] for each in evaluations)
    promoted = Counter(each["parent_node_id"] for each in evaluations if promoted_place(each))
    rows = [
        [
            name,
            node["status"],
            node["parent_node_id"] or BLANK,
            node["artifacts"]["promoted_from_eval_id"] or BLANK,
            str(len(node["idea_chain"])),
            str(tried[name]),
            str(promoted[name]),
            node["worktree_path"],
            short_commit(node["commit"]),
        ]
        for name, node in manifest["nodes"].items()
    ]
    return markdown_table(header, rows, right=("ideas in it", "tried", "promoted")) if rows else []


def promoted_place(each: EvaluationEntry) -> str:
    return (each["decision"] or {}).get("promoted_to_node_id") or ""


def evaluation_table(manifest: ManifestRecord, rows: Mapping[str, EvaluationEntry]) -> list[str]:
    """A row an evaluation: `score` is against the parent, for the gate; `rank score` against the root."""
    config = manifest["run_config"]
    guards = [metric["name"] for metric in config["metrics"] if metric["guard"]]
    names = [config["primary"], *(name for name in guards if name != config["primary"])]
    header = [
        "slot",
        "idea",
        "status",
        *(VERDICT_COLUMNS if config["method"] == PAIRED else GRADE_COLUMNS),
        "rank score",
        names[0],
    ]
    header += [f"{name} (guard)" for name in names[1:]]
    header += ["rows", "better/worse", "seconds", "attempts", "cost", "decision", "why"]
    right = ("score", "estimate", "p", "rank score", "rows", "better/worse", "seconds", "attempts")
    return markdown_table(header, [[slot, *_row(each, names, header)] for slot, each in rows.items()], right)


def _row(each: EvaluationEntry, names: Sequence[str], header: Sequence[str]) -> Iterator[str]:
    scores, spent = each["scoring_summary"], each["spent"] or {"usd": 0, "tokens": 0, "seconds": 0}
    yield from (clip_text(each["idea_title"], IDEA_WIDTH), each["empty"] or each["status"])
    if scores:
        parent, root = scores["recommendation"], scores["root_recommendation"]
        yield from (*_verdict_cells(parent), format_score(root["score"]))
        yield from (_change(parent, name) for name in names)
    else:
        yield from [BLANK] * (header.index("rows") - 3)
    yield f"{each['candidate_rows_used']}/{each['rows_expected']}" if each["rows_expected"] else BLANK
    yield f"{each['by_config']['better']}/{each['by_config']['worse']}" if each["by_config"] else BLANK
    yield format_seconds(spent["seconds"]) if spent["seconds"] else BLANK
    yield str(each["attempt"]) if each["attempt"] else BLANK
    yield format_money(spent["usd"], spent["tokens"])
    yield from _decision_cells(each)


def _verdict_cells(parent: Mapping[str, Any]) -> tuple[str, ...]:
    evidence = parent["evidence"]
    if evidence is None:
        return parent["grade"], format_score(parent["score"])
    bounds = f"{format_number(evidence['lower'])} to {format_number(evidence['upper'])}"
    return evidence["verdict"], format_score(parent["score"]), bounds, format_number(evidence["p"])


def _decision_cells(each: EvaluationEntry) -> tuple[str, str]:
    decision, to = each["decision"], promoted_place(each)
    if decision is None:
        return "not yet", BLANK
    return (f"promoted: {to}" if to else f"no: {decision['failed_check']}"), clip_text(decision["why"], WHY_WIDTH)


def progress_table(manifest: ManifestRecord) -> list[str]:
    names = ("planned", "assigned", "completed", "failed", "skipped", "unfinished", "promoted")
    rows = [
        [depth, *(str(counts[name]) for name in names), _reasons(manifest, int(depth), counts["empty"])]
        for depth, counts in manifest["state"]["depth_progress_by_depth"].items()
    ]
    return markdown_table(["depth", *names, "why slots are empty"], rows, right=("depth", *names)) if rows else []


def _reasons(manifest: ManifestRecord, depth: int, empty: Mapping[str, int]) -> str:
    """Each reason for an empty slot with its number, and the first one in full."""
    these = [each for each in manifest["evaluations"].values() if each["depth"] == depth]
    first = {word: next(each["empty_why"] for each in these if each["empty"] == word) for word in empty}
    return "; ".join(f"{count} {word} ({clip_text(first[word], WHY_WIDTH)})" for word, count in empty.items())


def budget_table(manifest: ManifestRecord) -> list[str]:
    state, config = manifest["state"], manifest["run_config"]
    sides = (config["budget"], state["spent"], state["left"], config["ceiling"])
    rows = [
        [label, *(BLANK if side[name] is None else f"{side[name]:,.12g}" for side in sides)]
        for name, label in AMOUNTS.items()
    ]
    header = ["", "limit", "spent", "left", "at most for one"]
    return [*markdown_table(header, rows, right=header[1:]), *_overspent(manifest)]


def _overspent(manifest: ManifestRecord) -> list[str]:
    """A warning of evaluations that cost more than was reserved: the search may have exceeded its budget."""
    names = [name for name, each in manifest["evaluations"].items() if _costs_more(each["spent"], manifest)]
    if not names:
        return []
    return [
        "",
        f"**More than `per_eval` allows:** {', '.join(names)}. The budget held less than was meant; raise `per_eval`.",
    ]


def _costs_more(spent: Mapping[str, float] | None, manifest: ManifestRecord) -> bool:
    most = manifest["run_config"]["ceiling"]
    return spent is not None and any(most[name] is not None and spent[name] > most[name] for name in AMOUNTS)


def holdout_lines(holdout: Mapping[str, Any]) -> Iterator[str]:
    result, openings = holdout["result"], holdout["openings"]
    if result:
        yield _verdict(result)
    if len(openings) > 1:
        yield f"Opened {len(openings)} times: only what was found the first time is fresh."
    for line in openings if len(openings) > 1 else ():
        yield f"- {_opening_line(line)}"
    if holdout["lacking"]:
        yield f"From holdout.jsonl {plural(holdout['lacking'], 'line')} had been taken; what else was, nobody knows."


def _verdict(result: Mapping[str, Any]) -> str:
    found = result["comparison"]
    held = plural(len(result["blocks"]), "block") if result["blocks"] else plural(len(result["configs"]), "config")
    primary = next(each for each in found["metrics"] if each["name"] == result["primary"])
    change = f"{primary['name']} {format_change(primary['baseline'], primary['candidate'])}"
    start = f"{result['final']} against the start on {held} held out:"
    if (evidence := found["evidence"]) is None:
        return f"{start} {change}, score {format_number(found['score'])}."
    numbers = [format_number(evidence[name]) for name in ("estimate", "lower", "upper")]
    return (
        f"{start} {change}, estimate {numbers[0]}, {numbers[1]} to {numbers[2]}, p {evidence['p']:.3g}: "
        f"{evidence['verdict']} ({', '.join(evidence['reasons'])})."
    )


def _opening_line(line: Mapping[str, Any]) -> str:
    if "final" not in line:
        return clip_text(line["why"], 100)
    again = ", by --reopen" if line["reopened"] else ""
    return f"{line['when']}: {line['final']}, commit {line['commit'][:10]}{again}"


DRY_RUN_NOTE = (
    "> **Dry run.** Ideas, code and numbers are made up from hashes; no model was asked and nothing was measured."
)
SILENT_REASONS = (NO_NODE, NO_IDEA)  # empty slots that get no row

Manifest = Mapping[str, Any]


def summary_text(manifest: Manifest) -> str:
    best = best_path(manifest)
    sections = [
        ("", [*_opening(manifest, best[-1]), "", scoring_sentence(manifest["run_config"])]),
        ("Held out", _held_out(manifest)),
        ("Best path", path_table(manifest, best)),
        ("Look twice", [*_remarks(manifest)]),
        ("Beam", beam_table(manifest)),
        ("Nodes", node_table(manifest)),
        *_depths(manifest),
        ("Failures", [*_failures(manifest)]),
        ("Progress", progress_table(manifest)),
        ("Budget", budget_table(manifest)),
        ("How to look at it", _commands(manifest, best[-1])),
    ]
    text = [f"# {manifest['tree_run_id']}"]
    for title, lines in sections:
        if lines:
            text += ["", *([f"## {title}", ""] if title else []), *lines]
    return "\n".join(text) + "\n"


def best_path(manifest: Manifest) -> list[str]:
    """The path from the root to the node that ranks best against it, which need not be the deepest."""
    names = [*manifest["nodes"]]
    chain = [max(names, key=lambda name: node_rank(manifest, name))] if names else [""]
    while parent := manifest["nodes"].get(chain[0], {}).get("parent_node_id"):
        chain.insert(0, parent)
    return chain


def node_rank(manifest: Manifest, name: str) -> tuple[float, float]:
    """Key to rank nodes against the root, more is better."""
    evaluation = manifest["evaluations"].get(manifest["nodes"][name]["artifacts"]["promoted_from_eval_id"])
    if not evaluation or not evaluation["scoring_summary"]:
        return 0.0, 0.0
    root = evaluation["scoring_summary"]["root_recommendation"]
    # what an estimate is shrunk by is not the same at all depths
    return rank_numbers(None if root["evidence"] else root["score"], root["primary_delta"])


def headline(manifest: Manifest) -> str:
    """The opening as one line for a terminal."""
    return " ".join(line for line in _opening(manifest, best_path(manifest)[-1]) if line).replace("**", "")


def scoring_sentence(config: Mapping[str, Any]) -> str:
    """The meaning of a promotion."""
    if config["method"] != PAIRED:
        return "Scored by weighted_means, which does not tell luck from progress."
    score = config["score"]
    share, over = f"{score['alpha']:.3g}", {RUN: "runs", DEPTH: "depths"}[score["alpha_over"]]
    return (
        f"Promoted is what luck does not explain: where no idea is better, at most {share} of such {over} promote one."
    )


def _opening(manifest: Manifest, best: str) -> list[str]:
    state, config = manifest["state"], manifest["run_config"]
    stop = f"Stopped: **{state['stop_reason']}**" if state["stop_reason"] else "**Still going on**"
    counts = [
        f"{sum(each[name] for each in state['depth_progress_by_depth'].values())} {name}"
        for name in ("completed", "failed", "skipped", "unfinished")
    ]
    lines = [
        *([DRY_RUN_NOTE, ""] if config["dry_run"] else []),
        f"{stop}, {state['current_depth']} of {config['max_depth']} depths done. Evaluations: {', '.join(counts)}.",
    ]
    return [*lines, "", _best(manifest, best)] if best else lines


def _best(manifest: Manifest, best: str) -> str:
    primary, found = manifest["run_config"]["primary"], manifest["nodes"][best]
    start = next(iter(manifest["nodes"].values()))
    if found["parent_node_id"] is None:
        mean = format_number(found["metrics"][primary]) if found["metrics"] else "unknown"
        return f"Best: **{best}**, the start: {primary} {mean}. Nothing was found that ranks above it."
    if primary not in start["metrics"] or primary not in found["metrics"]:
        return f"Best was **{best}**; its baseline is not there as the spec has it now."
    change = format_change(start["metrics"][primary], found["metrics"][primary])
    scores = manifest["evaluations"][found["artifacts"]["promoted_from_eval_id"]]["scoring_summary"]
    root = scores["root_recommendation"]
    what = "estimate" if root["evidence"] else "score"  # one is in units of the metric, one is not
    return f"Best: **{best}**, {primary} {change}, {what} {format_score(root['score'])} against the root."


def _remarks(manifest: Manifest) -> Iterator[str]:
    primary = manifest["run_config"]["primary"]
    for name, each in manifest["evaluations"].items():
        if each["by_config"] and each["by_config"]["beyond"]:
            found = each["by_config"]
            heirs = [node for node, it in manifest["nodes"].items() if each["idea_path"] in it["idea_chain"]]
            yield (
                f"- {name} ({table_cell(clip_text(each['idea_title'], 60))}): "
                f"its worst config ({primary} {format_number(found['own_worst'])}) "
                f"is better than its parent's best one ({format_number(found['parent_best'])}). "
                f"A real step, or a leak: read {each['files']['change']}."
                f"{f' Nodes that are built on it: {join_names(heirs)}.' if heirs else ''}"
            )


def _depths(manifest: Manifest) -> Iterator[tuple[str, Sequence[str]]]:
    for depth in manifest["state"]["depth_progress_by_depth"]:
        rows = {
            name: each
            for name, each in manifest["evaluations"].items()
            if each["depth"] == int(depth) and each["empty"] not in SILENT_REASONS
        }
        lines = [*evaluation_table(manifest, rows), *_cascade_lines(manifest, rows)] if rows else []
        yield f"Evaluations at depth {depth}", lines


def _held_out(manifest: Manifest) -> list[str]:
    if (found := manifest["holdout"]) is None:
        return []
    sealed = f"Sealed: `coppice holdout {manifest['tree_run_id']}` opens it once, when the search has stopped."
    return [*holdout_lines(found)] or [sealed]


def _cascade_lines(manifest: Manifest, rows: Manifest) -> Iterator[str]:
    """The decision of the cascade, best ideas first."""
    early = sorted((name for name in rows if rows[name]["cascade"]), key=lambda name: rows[name]["cascade"]["place"])
    if early:
        blocks, count = manifest["run_config"]["cascade"]["blocks"], len(manifest["run_config"]["blocks"]["ids"])
        seen = {name: f"{name} (t {format_number(rows[name]['cascade']['t'])})" for name in early}
        on = [seen[name] for name in early if rows[name]["cascade"]["goes_on"]]
        off = [seen[name] for name in early if not rows[name]["cascade"]["goes_on"]]
        yield ""
        yield (
            f"Cascade: after {blocks} of {count} blocks {join_names(on)} went on"
            f"{f'; {join_names(off)} stopped there' if off else ''}."
        )


def _failures(manifest: Manifest) -> Iterator[str]:
    for name, each in manifest["evaluations"].items():
        if each["error"]:
            why, log = table_cell(clip_text(each["error"]["why"], 200)), each["error"]["log"]
            yield f"- {name}: {why} (log: {log})"


def _commands(manifest: Manifest, best: str) -> list[str]:
    """Commands to copy."""
    if not best:
        return []
    run, root, found = manifest["tree_run_id"], manifest["root"], manifest["nodes"][best]
    git, source = f"git -C runs/{run}/repo.git", found["artifacts"]["promoted_from_eval_id"]
    lines = [f"cd {found['worktree_path']}  # the files of {best}"]
    if source:
        lines += [
            f"{git} diff {root['root_commit']} {found['commit']}  # all that was changed since the start",
            f"{git} diff {found['ref']}~1 {found['ref']}  # the last step",
            f"less {found['artifacts']['sweep_log']}",
        ]
    where = (
        f"Of each evaluation: change, logs, score in runs/{run}/eval/SLOT/, the idea in runs/{run}/node_ideas/NODE/."
    )
    return ["```sh", *lines, "```", "", where]
