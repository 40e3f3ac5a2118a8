"""TREE_SUMMARY.md from a manifest: where the search stands, how the best code came to be, what became of every idea."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.core.words import listed
from pipeline.tree import summary_holdout
from pipeline.tree.ideas import NO_IDEA, NO_NODE
from pipeline.tree.rounding import relative, significant
from pipeline.tree.scoring import DEPTH, PAIRED, RUN
from pipeline.tree.summary_tables import beam, budget, evaluations, nodes, path, progress
from pipeline.tree.tables import cell, clipped, moved, number, score

DRY = "> **Dry run.** Ideas, code and numbers are made up from hashes; no model was asked and nothing was measured."
EMPTY = (NO_NODE, NO_IDEA)  # slots of which there is nothing to tell

Manifest = Mapping[str, Any]


def summary(manifest: Manifest) -> str:
    best = best_path(manifest)
    sections = [
        ("", [*_opening(manifest, best[-1]), "", scored_by(manifest["run_config"])]),
        ("Held out", _held_out(manifest)),
        ("Best path", path(manifest, best)),
        ("Look twice", [*_remarks(manifest)]),
        ("Beam", beam(manifest)),
        ("Nodes", nodes(manifest)),
        *_depths(manifest),
        ("Failures", [*_failures(manifest)]),
        ("Progress", progress(manifest)),
        ("Budget", budget(manifest)),
        ("How to look at it", _ways(manifest, best[-1])),
    ]
    text = [f"# {manifest['tree_run_id']}"]
    for title, lines in sections:
        if lines:
            text += ["", *([f"## {title}", ""] if title else []), *lines]
    return "\n".join(text) + "\n"


def best_path(manifest: Manifest) -> list[str]:
    """From the root to the node that ranks best against it, which need not be the deepest."""
    names = [*manifest["nodes"]]
    chain = [max(names, key=lambda name: standing(manifest, name))] if names else [""]
    while parent := manifest["nodes"].get(chain[0], {}).get("parent_node_id"):
        chain.insert(0, parent)
    return chain


def standing(manifest: Manifest, name: str) -> tuple[float, float]:
    """More is better; the root is as good as itself."""
    evaluation = manifest["evaluations"].get(manifest["nodes"][name]["artifacts"]["promoted_from_eval_id"])
    if not evaluation or not evaluation["scoring_summary"]:
        return 0.0, 0.0
    root = evaluation["scoring_summary"]["root_recommendation"]
    delta = significant(root["primary_delta"])
    if root["evidence"] or root["score"] is None:  # what an estimate is shrunk by is not the same at all depths
        return delta, delta
    return relative(root["score"]), delta


def headline(manifest: Manifest) -> str:
    """The opening as one line for a terminal."""
    return " ".join(line for line in _opening(manifest, best_path(manifest)[-1]) if line).replace("**", "")


def scored_by(config: Mapping[str, Any]) -> str:
    """What a promotion means."""
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
        *([DRY, ""] if config["dry_run"] else []),
        f"{stop}, {state['current_depth']} of {config['max_depth']} depths done. Evaluations: {', '.join(counts)}.",
    ]
    return [*lines, "", _best(manifest, best)] if best else lines


def _best(manifest: Manifest, best: str) -> str:
    primary, found = manifest["run_config"]["primary"], manifest["nodes"][best]
    start = next(iter(manifest["nodes"].values()))
    if found["parent_node_id"] is None:
        return f"Best: **{best}**, the start: {primary} {_mean(found, primary)}. Nothing was found that ranks above it."
    if primary not in start["metrics"] or primary not in found["metrics"]:
        return f"Best was **{best}**; its baseline is not there as the spec has it now."
    change = moved(start["metrics"][primary], found["metrics"][primary])
    scores = manifest["evaluations"][found["artifacts"]["promoted_from_eval_id"]]["scoring_summary"]
    root = scores["root_recommendation"]
    what = "estimate" if root["evidence"] else "score"  # one is in units of the metric, one is not
    return f"Best: **{best}**, {primary} {change}, {what} {score(root['score'])} against the root."


def _mean(node: Mapping[str, Any], primary: str) -> str:
    return number(node["metrics"][primary]) if node["metrics"] else "unknown"


def _remarks(manifest: Manifest) -> Iterator[str]:
    primary = manifest["run_config"]["primary"]
    for name, each in manifest["evaluations"].items():
        if each["by_config"] and each["by_config"]["beyond"]:
            found = each["by_config"]
            heirs = [node for node, it in manifest["nodes"].items() if each["idea_path"] in it["idea_chain"]]
            yield (
                f"- {name} ({cell(clipped(each['idea_title'], 60))}): "
                f"its worst config ({primary} {number(found['own_worst'])}) "
                f"is better than its parent's best one ({number(found['parent_best'])}). "
                f"A real step, or a leak: read {each['files']['change']}."
                f"{f' Nodes that are built on it: {listed(heirs)}.' if heirs else ''}"
            )


def _depths(manifest: Manifest) -> Iterator[tuple[str, Sequence[str]]]:
    for depth in manifest["state"]["depth_progress_by_depth"]:
        rows = {
            name: each
            for name, each in manifest["evaluations"].items()
            if each["depth"] == int(depth) and each["empty"] not in EMPTY
        }
        lines = [*evaluations(manifest, rows), *_stopped(manifest, rows)] if rows else []
        yield f"Evaluations at depth {depth}", lines


def _held_out(manifest: Manifest) -> list[str]:
    if (found := manifest["holdout"]) is None:
        return []
    sealed = f"Sealed: `coppice holdout {manifest['tree_run_id']}` opens it once, when the search has stopped."
    return [*summary_holdout.lines(found)] or [sealed]


def _stopped(manifest: Manifest, rows: Manifest) -> Iterator[str]:
    """What the cascade did, best first."""
    early = sorted((name for name in rows if rows[name]["cascade"]), key=lambda name: rows[name]["cascade"]["place"])
    if early:
        blocks, count = manifest["run_config"]["cascade"]["blocks"], len(manifest["run_config"]["blocks"]["ids"])
        seen = {name: f"{name} (t {number(rows[name]['cascade']['t'])})" for name in early}
        on = [seen[name] for name in early if rows[name]["cascade"]["goes_on"]]
        off = [seen[name] for name in early if not rows[name]["cascade"]["goes_on"]]
        yield ""
        yield (
            f"Cascade: after {blocks} of {count} blocks {listed(on)} went on"
            f"{f'; {listed(off)} stopped there' if off else ''}."
        )


def _failures(manifest: Manifest) -> Iterator[str]:
    for name, each in manifest["evaluations"].items():
        if each["error"]:
            why, log = cell(clipped(each["error"]["why"], 200)), each["error"]["log"]
            yield f"- {name}: {why} (log: {log})"


def _ways(manifest: Manifest, best: str) -> list[str]:
    """Commands to be copied."""
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
