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
    markdown_table,
    table_cell,
)
from pipeline.tree.rules.assignment import NO_IDEA, NO_NODE
from pipeline.tree.rules.beam import rank_numbers
from pipeline.tree.rules.scoring import DEPTH, PAIRED, RUN

GRADE_COLUMNS, VERDICT_COLUMNS = ("grade", "score"), ("verdict", "estimate", "between", "p")
IDEA_WIDTH, WHY_WIDTH = 48, 100  # characters
GIVEN_NOTE = "The results of the start were given by `{}`; they were not measured here."
AMOUNTS = {"evals": "evaluations", "usd": "USD", "tokens": "tokens", "seconds": "seconds"}

Manifest = Mapping[str, Any]


def path_table(manifest: Manifest, best: Sequence[str]) -> list[str]:
    primary, rows = manifest["run_config"]["primary"], []
    header = ["node", "idea", primary, "against the parent", "grade", "score"]
    header += ["against the root", "rank score", "commit"]
    for name in filter(None, best):
        node = manifest["nodes"][name]
        source = manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
        idea, steps = "(the start)", [BLANK] * 5
        if source and source["scoring_summary"]:
            parent, root = (source["scoring_summary"][side] for side in ("recommendation", "root_recommendation"))
            idea = f"{clip_text(source['idea_title'], IDEA_WIDTH)} ({source['eval_id']})"
            steps = [_change(parent, primary), parent["grade"], format_score(parent["score"])]
            steps += [_change(root, primary), format_score(root["score"])]
        rows.append([name, idea, _node_mean(node, primary), *steps, node["commit"][:10]])
    return markdown_table(header, rows, right=("score", "rank score"))


def _node_mean(node: Manifest, primary: str) -> str:
    return format_number(node["metrics"][primary]) if primary in node["metrics"] else BLANK


def _change(comparison: Manifest, name: str) -> str:
    detail = next(each for each in comparison["metrics"] if each["name"] == name)
    return format_change(detail["baseline"], detail["candidate"])


def beam_table(manifest: Manifest) -> list[str]:
    """The beam of each depth, without depth 0, which is the root alone."""
    primary, rows = manifest["run_config"]["primary"], []
    for depth, places in manifest["state"]["beam_by_depth"].items():
        for place, beam in places.items():
            source, node = manifest["evaluations"].get(beam["promoted_from_eval_id"]), manifest["nodes"].get(place)
            cells, commit = [BLANK, "(empty)", BLANK], BLANK
            if source and node:
                title, commit = clip_text(source["idea_title"], IDEA_WIDTH), node["commit"][:10]
                cells = [source["eval_id"], title, _node_mean(node, primary)]
            rows.append([depth, place, *cells, clip_text(beam["why"], WHY_WIDTH), commit])
    return markdown_table(["depth", "place", "from", "idea", primary, "why", "commit"], rows, right=("depth",))


def node_table(manifest: Manifest) -> list[str]:
    header = ["node", "status", "parent", "from", "ideas in it", "tried", "promoted", "worktree", "commit"]
    evaluations = [each for each in manifest["evaluations"].values() if not each["empty"]]
    tried = Counter(each["parent_node_id"] for each in evaluations)
    promoted = Counter(each["parent_node_id"] for each in evaluations if promoted_place(each))
    rows = [
        [
            *(name, node["status"], node["parent_node_id"] or BLANK),
            *(node["artifacts"]["promoted_from_eval_id"] or BLANK, str(len(node["idea_chain"]))),
            *(str(tried[name]), str(promoted[name]), node["worktree_path"], node["commit"][:10]),
        ]
        for name, node in manifest["nodes"].items()
    ]
    return markdown_table(header, rows, right=("ideas in it", "tried", "promoted"))


def promoted_place(evaluation: Manifest) -> str:
    return (evaluation["decision"] or {}).get("promoted_to_node_id") or ""


def evaluation_table(manifest: Manifest, rows: Mapping[str, Manifest]) -> list[str]:
    """A row an evaluation: `score` is against the parent, for the gate; `rank score` against the root."""
    config = manifest["run_config"]
    primary, verdict = config["primary"], VERDICT_COLUMNS if config["method"] == PAIRED else GRADE_COLUMNS
    guards = [metric["name"] for metric in config["metrics"] if metric["guard"] and metric["name"] != primary]
    header = ["slot", "idea", "status", *verdict, "rank score", primary, *(f"{name} (guard)" for name in guards)]
    header += ["rows", "better/worse", "seconds", "attempts", "cost", "decision", "why"]
    right = ("score", "estimate", "p", "rank score", "rows", "better/worse", "seconds", "attempts")
    lines = [[slot, *_row(each, [primary, *guards], header)] for slot, each in rows.items()]
    return markdown_table(header, lines, right)


def _row(each: Manifest, names: Sequence[str], header: Sequence[str]) -> Iterator[str]:
    scores, spent = each["scoring_summary"], each["spent"] or {"usd": 0, "tokens": 0, "seconds": 0}
    yield from (clip_text(each["idea_title"], IDEA_WIDTH), each["empty"] or each["status"])
    if scores:
        parent, root = scores["recommendation"], scores["root_recommendation"]
        evidence, score = parent["evidence"], format_score(parent["score"])
        if evidence is None:
            yield from (parent["grade"], score)
        else:
            bounds = f"{format_number(evidence['lower'])} to {format_number(evidence['upper'])}"
            yield from (evidence["verdict"], score, bounds, format_number(evidence["p"]))
        yield format_score(root["score"])
        yield from (_change(parent, name) for name in names)
    else:
        yield from [BLANK] * (header.index("rows") - 3)
    yield f"{each['candidate_rows_used']}/{each['rows_expected']}" if each["rows_expected"] else BLANK
    yield f"{each['by_config']['better']}/{each['by_config']['worse']}" if each["by_config"] else BLANK
    seconds = spent["seconds"]
    yield f"{seconds:.{1 if seconds < 1000 else 0}f}" if seconds else BLANK
    yield str(each["attempt"]) if each["attempt"] else BLANK
    yield format_money(spent["usd"], spent["tokens"])
    if (decision := each["decision"]) is None:
        yield from ("not yet", BLANK)
    else:
        to = promoted_place(each)
        yield f"promoted: {to}" if to else f"no: {decision['failed_check']}"
        yield clip_text(decision["why"], WHY_WIDTH)


def progress_table(manifest: Manifest) -> list[str]:
    """The counts of each depth; of each reason for an empty slot the first one in full."""
    names, rows = ("planned", "assigned", "completed", "failed", "skipped", "unfinished", "promoted"), []
    for depth, counts in manifest["state"]["depth_progress_by_depth"].items():
        why: dict[str, str] = {}
        for each in manifest["evaluations"].values():
            if each["depth"] == int(depth):
                why.setdefault(each["empty"], each["empty_why"])
        reasons = [f"{count} {word} ({clip_text(why[word], WHY_WIDTH)})" for word, count in counts["empty"].items()]
        rows.append([depth, *(str(counts[name]) for name in names), "; ".join(reasons)])
    return markdown_table(["depth", *names, "why slots are empty"], rows, right=("depth", *names))


def budget_table(manifest: Manifest) -> list[str]:
    """Amounts allowed and spent, and a warning of evaluations that cost more than was reserved."""
    state, config = manifest["state"], manifest["run_config"]
    most = config["ceiling"]
    sides = (config["budget"], state["spent"], state["left"], most)
    rows = [
        [label, *(BLANK if side[name] is None else f"{side[name]:,.12g}" for side in sides)]
        for name, label in AMOUNTS.items()
    ]
    header = ["", "limit", "spent", "left", "at most for one"]
    lines, capped = markdown_table(header, rows, right=header[1:]), [name for name in AMOUNTS if most[name] is not None]
    spent = {slot: each["spent"] for slot, each in manifest["evaluations"].items() if each["spent"]}
    dear = ", ".join(slot for slot, cost in spent.items() if any(cost[name] > most[name] for name in capped))
    warning = f"**More than `per_eval` allows:** {dear}. The budget held less than was meant; raise `per_eval`."
    return [*lines, "", warning] if dear else lines


def holdout_lines(holdout: Manifest) -> Iterator[str]:
    result, openings = holdout["result"], holdout["openings"]
    if result:
        yield _verdict(result)
    if len(openings) > 1:
        yield f"Opened {len(openings)} times: only what was found the first time is fresh."
        for line in openings:
            again = ", by --reopen" if line.get("reopened") else ""
            known = f"{line['when']}: {line['final']}, commit {line['commit'][:10]}{again}" if "final" in line else ""
            yield f"- {known or clip_text(line['why'], 100)}"
    if holdout["lacking"]:
        yield f"From holdout.jsonl {plural(holdout['lacking'], 'line')} had been taken; what else was, nobody knows."


def _verdict(result: Manifest) -> str:
    found = result["comparison"]
    held = plural(len(result["blocks"]), "block") if result["blocks"] else plural(len(result["configs"]), "config")
    start = f"{result['final']} against the start on {held} held out:"
    change = f"{result['primary']} {_change(found, result['primary'])}"
    if (evidence := found["evidence"]) is None:
        return f"{start} {change}, score {format_number(found['score'])}."
    numbers = [format_number(evidence[name]) for name in ("estimate", "lower", "upper")]
    return (
        f"{start} {change}, estimate {numbers[0]}, {numbers[1]} to {numbers[2]}, p {evidence['p']:.3g}: "
        f"{evidence['verdict']} ({', '.join(evidence['reasons'])})."
    )


DRY_RUN_NOTE = (
    "> **Dry run.** Ideas, code and numbers are made up from hashes; no model was asked and nothing was measured."
)
SILENT_REASONS = (NO_NODE, NO_IDEA)  # empty slots that get no row


def summary_text(manifest: Manifest) -> str:
    best = best_path(manifest)
    sealed = f"Sealed: `coppice holdout {manifest['tree_run_id']}` opens it once, when the search has stopped."
    failed = {name: each["error"] for name, each in manifest["evaluations"].items() if each["error"]}
    failures = [f"- {n}: {table_cell(clip_text(e['why'], 200))} (log: {e['log']})" for n, e in failed.items()]
    sections = [
        ("", [*_opening(manifest, best[-1]), "", scoring_sentence(manifest["run_config"])]),
        ("Held out", ([*holdout_lines(manifest["holdout"])] or [sealed]) if manifest["holdout"] else []),
        ("Best path", path_table(manifest, best)),
        ("Look twice", [*_remarks(manifest)]),
        ("Beam", beam_table(manifest)),
        ("Nodes", node_table(manifest)),
        *_depths(manifest),
        ("Failures", failures),
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


def scoring_sentence(config: Manifest) -> str:
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
    depths = state["depth_progress_by_depth"].values()
    names = ("completed", "failed", "skipped", "unfinished")
    counts = ", ".join(f"{sum(each[name] for each in depths)} {name}" for name in names)
    return [
        *([DRY_RUN_NOTE, ""] if config["dry_run"] else []),
        f"{stop}, {state['current_depth']} of {config['max_depth']} depths done. Evaluations: {counts}.",
        *(["", _best(manifest, best)] if best else []),
        *(["", GIVEN_NOTE.format(config["baseline_csv"])] if "baseline_csv" in config else []),
    ]


def _best(manifest: Manifest, best: str) -> str:
    primary, found = manifest["run_config"]["primary"], manifest["nodes"][best]
    start = next(iter(manifest["nodes"].values()))
    if found["parent_node_id"] is None:
        mean = format_number(found["metrics"][primary]) if found["metrics"] else "unknown"
        return f"Best: **{best}**, the start: {primary} {mean}. Nothing was found that ranks above it."
    if primary not in start["metrics"] or primary not in found["metrics"]:
        return f"Best was **{best}**; its baseline is not there as the spec has it now."
    change = format_change(start["metrics"][primary], found["metrics"][primary])
    source = manifest["evaluations"][found["artifacts"]["promoted_from_eval_id"]]
    root = source["scoring_summary"]["root_recommendation"]
    kind = "estimate" if root["evidence"] else "score"  # one is in units of the metric, one is not
    return f"Best: **{best}**, {primary} {change}, {kind} {format_score(root['score'])} against the root."


def _remarks(manifest: Manifest) -> Iterator[str]:
    primary = manifest["run_config"]["primary"]
    for name, each in manifest["evaluations"].items():
        found = each["by_config"]
        if found and found["beyond"]:
            heirs = [node for node, it in manifest["nodes"].items() if each["idea_path"] in it["idea_chain"]]
            yield (
                f"- {name} ({table_cell(clip_text(each['idea_title'], 60))}): "
                f"its worst config ({primary} {format_number(found['own_worst'])}) "
                f"is better than its parent's best one ({format_number(found['parent_best'])}). "
                f"A real step, or a leak: read {each['files']['change']}."
                f"{f' Nodes that are built on it: {join_names(heirs)}.' if heirs else ''}"
            )


def _depths(manifest: Manifest) -> Iterator[tuple[str, Sequence[str]]]:
    evaluations = manifest["evaluations"].items()
    for depth in manifest["state"]["depth_progress_by_depth"]:
        here = {name: each for name, each in evaluations if each["depth"] == int(depth)}
        rows = {name: each for name, each in here.items() if each["empty"] not in SILENT_REASONS}
        yield f"Evaluations at depth {depth}", [*evaluation_table(manifest, rows), *_cascade_lines(manifest, rows)]


def _cascade_lines(manifest: Manifest, rows: Manifest) -> Iterator[str]:
    """The decision of the cascade, best ideas first."""
    early = {name: each["cascade"] for name, each in rows.items() if each["cascade"]}
    if early:
        blocks, count = manifest["run_config"]["cascade"]["blocks"], len(manifest["run_config"]["blocks"]["ids"])
        sides: dict[bool, list[str]] = {True: [], False: []}
        for name, found in sorted(early.items(), key=lambda idea: idea[1]["place"]):
            sides[found["goes_on"]].append(f"{name} (t {format_number(found['t'])})")
        stopped = f"; {join_names(sides[False])} stopped there" if sides[False] else ""
        yield from ("", f"Cascade: after {blocks} of {count} blocks {join_names(sides[True])} went on{stopped}.")


def _commands(manifest: Manifest, best: str) -> list[str]:
    """Commands to copy."""
    if not best:
        return []
    run, root, found = manifest["tree_run_id"], manifest["root"], manifest["nodes"][best]
    git = f"git -C runs/{run}/repo.git"
    lines = [f"cd {found['worktree_path']}  # the files of {best}"]
    if found["artifacts"]["promoted_from_eval_id"]:
        lines += [
            f"{git} diff {root['root_commit']} {found['commit']}  # all that was changed since the start",
            f"{git} diff {found['ref']}~1 {found['ref']}  # the last step",
            f"less {found['artifacts']['sweep_log']}",
        ]
    where = (
        f"Of each evaluation: change, logs, score in runs/{run}/eval/SLOT/, the idea in runs/{run}/node_ideas/NODE/."
    )
    return ["```sh", *lines, "```", "", where]
