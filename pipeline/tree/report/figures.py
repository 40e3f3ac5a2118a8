"""Numbers of a search, from its manifest: what its summary, its projection and the lines of a build tell alike.

Pure.  Whoever shows them formats them; nobody counts again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from pipeline.core.projection import Moment
from pipeline.core.text import BLANK, plural
from pipeline.tree.report.happenings import REQUESTED, standing_text, verdict_word
from pipeline.tree.report.markdown import (
    clip_text,
    format_chance,
    format_change,
    format_number,
    format_score,
)
from pipeline.tree.rules.assignment import NO_NODE
from pipeline.tree.rules.beam import COMPLETED, FAILED, FINAL_STATUSES, RANK, SAME_CODE, SKIPPED, rank_numbers
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.scoring import DEPTH, PAIRED, RUN, SIGN
from pipeline.tree.run.records import EVENT_BUILD, EVENT_BUILD_ENDED, QUEUED, RUNNING
from pipeline.trust.evidence import INDECISIVE, PROMOTED, REJECTED, TESTED, UNDECIDABLE

IDEA_WIDTH, NAME_WIDTH, REASON_WIDTH, WHY_WIDTH = 48, 20, 18, 100  # characters
DRY_RUN = "**Dry run.** Ideas, code and numbers are made up from hashes; no model was asked and nothing was measured."
GIVEN_NOTE = "The results of the start were given by `{}`; they were not measured here."
NOTHING_ABOVE = "Nothing was found that ranks above it."
UNFINISHED = "unfinished"
BUILDING = Moment(is_building=True)  # of a build that tells of itself

Manifest = Mapping[str, Any]


# --- The best node, and the way to it.


def best_path(manifest: Manifest) -> list[str]:
    """The path from the root to the node that ranks best against it, which need not be the deepest."""
    names = [*manifest["nodes"]]
    return path_to(manifest, max(names, key=lambda name: node_rank(manifest, name)) if names else "")


def path_to(manifest: Manifest, node: str) -> list[str]:
    """The nodes from the root to this one."""
    chain = [node]
    while parent := manifest["nodes"].get(chain[0], {}).get("parent_node_id"):
        chain.insert(0, parent)
    return chain


def node_rank(manifest: Manifest, name: str) -> tuple[float, float]:
    """Key to rank nodes against the root, more is better."""
    root = root_comparison(manifest, name)
    if root is None:
        return 0.0, 0.0
    # what an estimate is shrunk by is not the same at all depths
    return rank_numbers(None if root["evidence"] else root["score"], root["primary_delta"])


def root_comparison(manifest: Manifest, node: str) -> Manifest | None:
    """The comparison of a node with the root; None of the root itself."""
    evaluation = manifest["evaluations"].get(manifest["nodes"][node]["artifacts"]["promoted_from_eval_id"])
    if not evaluation or not evaluation["scoring_summary"]:
        return None
    found: Manifest = evaluation["scoring_summary"]["root_recommendation"]
    return found


class BestNode(NamedTuple):
    """The best node against the start: means of the primary metric, None where today's spec has none of them.

    `score`: against the root, None of the root itself; `is_estimate`: it is in units of the metric."""

    name: str
    is_start: bool
    before: float | None
    after: float | None
    score: float | None = None
    is_estimate: bool = False


def best_node(manifest: Manifest) -> BestNode | None:
    """The best node; None before there is one."""
    name = best_path(manifest)[-1]
    if not name:
        return None
    start = next(iter(manifest["nodes"]))
    root = root_comparison(manifest, name)
    found = BestNode(name, name == start, primary_mean(manifest, start), primary_mean(manifest, name))
    return found._replace(score=root["score"], is_estimate=bool(root["evidence"])) if root else found


def path_header(manifest: Manifest) -> list[str]:
    config = manifest["run_config"]
    verdict = "verdict" if config["method"] == PAIRED else "grade"
    return ["node", "idea", clip_text(config["primary"], NAME_WIDTH), "step", verdict, "in all", "score", "commit"]


def path_cells(manifest: Manifest, name: str) -> list[str]:
    """A node on the way to another: what its step gained is against its parent, and in all against the root."""
    node, config = manifest["nodes"][name], manifest["run_config"]
    source = manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
    idea, steps = "(the start)", [BLANK] * 4
    if source and source["scoring_summary"]:
        parent, root = (source["scoring_summary"][side] for side in ("recommendation", "root_recommendation"))
        idea = f"{clip_text(source['idea_title'], IDEA_WIDTH)} ({source['eval_id']})"
        gains = [gain_text(config, each, config["primary"]) for each in (parent, root)]
        steps = [gains[0], verdict_word(source), gains[1]]
        steps.append(format_score(root["score"]))
    return [name, idea, mean_text(manifest, name), *steps, node["commit"][:10]]


def primary_mean(manifest: Manifest, node: str) -> float | None:
    mean: float | None = manifest["nodes"][node]["metrics"].get(manifest["run_config"]["primary"])
    return mean


def mean_text(manifest: Manifest, node: str) -> str:
    mean = primary_mean(manifest, node)
    return BLANK if mean is None else format_number(mean)


def better_direction(config: Manifest, name: str) -> str:
    """`higher` or `lower`."""
    better: str = next(metric["better"] for metric in config["metrics"] if metric["name"] == name)
    return better


def metric_detail(comparison: Manifest, name: str) -> Manifest | None:
    """The comparison of a metric; None where an older spec had no such metric."""
    return next((each for each in comparison["metrics"] if each["name"] == name), None)


def change_text(comparison: Manifest, name: str) -> str:
    detail = metric_detail(comparison, name)
    return format_change(detail["baseline"], detail["candidate"]) if detail else BLANK


def improvement(config: Manifest, name: str, before: float, after: float) -> float:
    """The gain in a metric, as estimates and intervals have it: more is better, whatever is better of the metric."""
    return SIGN[better_direction(config, name)] * (after - before)


def gain_text(config: Manifest, comparison: Manifest, name: str) -> str:
    detail = metric_detail(comparison, name)
    return f"{improvement(config, name, detail['baseline'], detail['candidate']):+.4g}" if detail else BLANK


# --- The state in words.


def headline(manifest: Manifest, moment: Moment = BUILDING) -> str:
    """The opening as one line for a terminal."""
    return " ".join(line for line in opening_lines(manifest, moment) if line).replace("**", "")


def opening_lines(manifest: Manifest, moment: Moment) -> list[str]:
    """How the search stands, with its counts and its best node."""
    state, config = manifest["state"], manifest["run_config"]
    running = [name for name, each in manifest["evaluations"].items() if each["task_state"] == RUNNING]
    reason, best = state["stop_reason"], best_node(manifest)
    stop = f"Stopped: **{reason}**" if reason else standing_text(manifest["events"], running, moment)
    counts = counts_text(manifest)
    return [
        *([f"> {DRY_RUN}", ""] if config["dry_run"] else []),
        f"{stop}, {state['current_depth']} of {config['max_depth']} depths done. Evaluations: {counts}.",
        *(["", " ".join([_best_sentence(manifest, best), *open_depth(manifest)])] if best else []),
        *(["", GIVEN_NOTE.format(config["baseline_csv"])] if "baseline_csv" in config else []),
    ]


def _best_sentence(manifest: Manifest, best: BestNode) -> str:
    primary = manifest["run_config"]["primary"]
    if best.is_start:
        mean = "unknown" if best.after is None else format_number(best.after)
        nothing = "No node ranks above it yet." if [*open_depth(manifest)] else NOTHING_ABOVE
        return f"Best: **{best.name}**, the start: {primary} {mean}. {nothing}"
    if best.before is None or best.after is None:
        return f"Best was **{best.name}**; its baseline is not there as the spec has it now."
    kind = "estimated gain" if best.is_estimate else "score"  # one is in units of the metric, one is not
    change = format_change(best.before, best.after)
    return f"Best: **{best.name}**, {primary} {change}, {kind} {format_score(best.score)} against the root."


def open_depth(manifest: Manifest) -> Iterator[str]:
    """The depth that is under way, whose ideas are not compared yet, with what was measured of them."""
    config = manifest["run_config"]
    tried = [each for each in manifest["evaluations"].values() if not each["empty"]]
    is_open = [each["depth"] for each in tried if each["decision"] is None or each["task_state"] in (QUEUED, RUNNING)]
    if not is_open:
        return
    depth, primary = min(is_open), config["primary"]
    here = [each for each in tried if each["depth"] == depth]
    measured = [each for each in here if each["primary"] and each["status"] == COMPLETED]
    word = "weighed" if config["method"] == PAIRED else "decided"
    most = ""
    if measured:
        best = max(measured, key=lambda each: improvement(config, primary, **each["primary"]))
        change = format_change(best["primary"]["before"], best["primary"]["after"])
        most = f" (most gained by {best['eval_id']}, {primary} {change})"
    yield f"Depth {depth} is not {word} yet: {len(measured)} of {plural(len(here), 'idea')} measured{most}."


def scoring_sentence(config: Manifest) -> str:
    """The meaning of a promotion."""
    if config["method"] != PAIRED:
        return "Scored by weighted_means, which does not tell luck from progress."
    score = config["score"]
    share, over = f"{score['alpha']:.3g}", {RUN: "runs", DEPTH: "depths"}[score["alpha_over"]]
    return (
        f"Promoted is what luck does not explain: where no idea is better, at most {share} of such {over} promote one."
    )


# --- Counts.


def depth_counts(manifest: Manifest) -> dict[str, Manifest]:
    """The counts of each depth that the search came to.  Slots of places without a node are none that were skipped."""
    progress, names = manifest["state"]["depth_progress_by_depth"], (*FINAL_STATUSES, UNFINISHED)
    ends: dict[str, Counter[str]] = {depth: Counter() for depth in progress}
    for each in manifest["evaluations"].values():
        if each["empty"] != NO_NODE:
            ends[str(each["depth"])][each["status"] if each["status"] in FINAL_STATUSES else UNFINISHED] += 1
    came_to = [depth for depth, counts in ends.items() if counts or depth == "0"]
    return {depth: {**progress[depth], **{name: ends[depth][name] for name in names}} for depth in came_to}


def by_depth(manifest: Manifest) -> dict[str, list[Manifest]]:
    """The evaluations of each depth."""
    found: dict[str, list[Manifest]] = {}
    for each in manifest["evaluations"].values():
        found.setdefault(str(each["depth"]), []).append(each)
    return found


def empty_reasons(evaluations: Iterable[Manifest]) -> str:
    """Why some of these slots stayed empty: how many for each reason, with the first one in full."""
    why: dict[str, list[str]] = {}
    for each in evaluations:
        if each["empty"]:
            why.setdefault(each["empty"], []).append(each["empty_why"])
    return "; ".join(f"{len(found)} {word} ({clip_text(found[0], WHY_WIDTH)})" for word, found in why.items())


def status_counts(manifest: Manifest) -> dict[str, int]:
    """The evaluations by status, over all depths."""
    depths = depth_counts(manifest).values()
    return {name: sum(each[name] for each in depths) for name in (*FINAL_STATUSES, UNFINISHED)}


def counts_text(manifest: Manifest) -> str:
    """The evaluations by how they ended; and how many of these were refused, which may be of those that were measured
    as well as of those that failed."""
    refused: Counter[str] = Counter()
    for each in manifest["evaluations"].values():
        refused[each["status"]] += idea_status(each, False, False) == "refused"
    return ", ".join(
        f"{number} {name}{f' ({refused[name]} of them refused)' if refused[name] else ''}"
        for name, number in status_counts(manifest).items()
    )


class KeptIdeas(NamedTuple):
    """The ideas that became nodes, of those that were decided on."""

    kept: int
    decided: int


def kept_ideas(manifest: Manifest) -> KeptIdeas:
    decided = [each for each in manifest["evaluations"].values() if not each["empty"] and each["decision"]]
    return KeptIdeas(sum(bool(promoted_place(each)) for each in decided), len(decided))


def too_good(manifest: Manifest) -> Iterator[tuple[Manifest, list[str]]]:
    """The evaluations whose worst config is better than their parent's best one, with the nodes built on each."""
    heirs: dict[str, list[str]] = {}
    for name, node in manifest["nodes"].items():
        for path in node["idea_chain"]:
            heirs.setdefault(path, []).append(name)
    for each in manifest["evaluations"].values():
        if each["by_config"] and each["by_config"]["beyond"] and "change" in each["files"]:
            yield each, heirs.get(each["idea_path"], [])


# --- One evaluation.


def promoted_place(evaluation: Manifest) -> str:
    return (evaluation["decision"] or {}).get("promoted_to_node_id") or ""


# Of an idea on which nobody works any more, by the state of its task.
BROKEN_OFF = {RUNNING: "begun, not ended", QUEUED: "not begun"}


def outcome_text(each: Manifest, is_building: bool) -> str:
    """The end of an idea for people: `promoted` is what became a node, and nothing else."""
    if each["empty"]:
        return str(each["empty"])
    if to := promoted_place(each):
        return f"promoted: {to}"
    if each["status"] == FAILED and each["error"]:
        return f"failed: {_short_reason(each['error']['why'])}"
    if each["outcome"] or each["status"] in FINAL_STATUSES:
        return str(each["outcome"] or "not yet")
    return str(each["task_state"]) if is_building else BROKEN_OFF.get(each["task_state"], str(each["task_state"]))


def _short_reason(why: str) -> str:
    """The beginning of a reason, such as `tests` or `checks: look-ahead`; all of it stands below the table."""
    first, _, rest = why.partition(": ")
    both = f"{first}: {rest.partition(': ')[0]}"
    return both if rest and len(both) <= REASON_WIDTH else clip_text(first, REASON_WIDTH)


class IdeaCells(NamedTuple):
    """The numbers of an evaluation as text.  `chance`: p of a verdict by blocks, else the score."""

    outcome: str
    verdict: str
    change: str
    chance: str
    seconds: str
    cost: str


def idea_cells(each: Manifest, paired: bool, is_building: bool = True) -> IdeaCells:
    scores, measured = each["scoring_summary"], each["primary"]
    spent = each["spent"] or {"usd": 0, "tokens": 0, "seconds": 0}
    evidence = scores and scores["recommendation"]["evidence"]
    chance = BLANK
    if scores and not paired:
        chance = format_score(scores["recommendation"]["score"])
    elif evidence and paired:
        chance = format_chance(evidence["p"])
    seconds, known, unknown = spent["seconds"], spent["usd"], spent.get("unknown_calls", 0)
    return IdeaCells(
        outcome_text(each, is_building),
        verdict_word(each) if scores else BLANK,
        f"{format_number(measured['before'])} -> {format_number(measured['after'])}" if measured else BLANK,
        chance,
        f"{seconds:.{1 if seconds < 1000 else 0}f}" if seconds else BLANK,
        ", ".join([f"${known:.4g}"] * bool(known) + [f"{unknown} unknown"] * bool(unknown)) or BLANK,
    )


def interval_text(comparison: Manifest | None) -> str:
    """The interval of a gain by blocks, more is better; nothing where it was not tested."""
    evidence = comparison and comparison["evidence"]
    if not evidence or evidence["standing"] != TESTED:
        return BLANK
    return f"{format_number(evidence['lower'])} to {format_number(evidence['upper'])}"


# The statuses of projections, by the verdict on blocks.
VERDICT_STATUSES = {PROMOTED: "passed", REJECTED: "rejected", INDECISIVE: "indecisive", UNDECIDABLE: "indecisive"}


def idea_status(each: Manifest, is_building: bool, is_waiting: bool) -> str:
    """The status of an evaluation for screens; what nobody works on does not run."""
    if each["empty"] or each["status"] == SKIPPED:
        return "skipped"
    if each["task_state"] == RUNNING:
        return "open" if not is_building else "waiting" if is_waiting else "running"
    if each["task_state"] == QUEUED and each["status"] not in FINAL_STATUSES:
        return "open" if not is_building else "waiting" if is_waiting else "queued"
    if FAILED in (each["status"], each["task_state"]):
        error = each["error"] or {"stage": "", "why": ""}
        return "refused" if error["stage"] == "checks" or error["why"].startswith(VOID) else "failed"
    return "promoted" if promoted_place(each) else _verdict_status(each)


def _verdict_status(each: Manifest) -> str:
    """The status of an evaluation that was measured, and is no node."""
    scores, decision = each["scoring_summary"], each["decision"]
    passed = decision and decision["failed_check"] in (RANK, SAME_CODE)
    if not scores:
        return "refused" if each["defects"] or decision else "measured"
    evidence = scores["recommendation"]["evidence"]
    if evidence is None:
        return "measured" if decision is None else "passed" if passed else "rejected"
    status = VERDICT_STATUSES[evidence["verdict"]]
    return "refused" if status == "passed" and decision and not passed else status


# --- Over time.


class BestStep(NamedTuple):
    """The best node once so many evaluations had ended.  `interval`: of its mean, by that of its gain on the start."""

    after: int
    mean: float
    node: str
    interval: tuple[float, float] | None


def best_steps(manifest: Manifest) -> list[BestStep]:
    """The start, and after each depth whatever ranks above all before it; nothing before the start was measured."""
    nodes, config = manifest["nodes"], manifest["run_config"]
    root = next(iter(nodes), "")
    start = primary_mean(manifest, root) if root else None
    if start is None or not isfinite(start):
        return []
    ended = Counter(e["depth"] for e in manifest["evaluations"].values() if e["status"] in (COMPLETED, FAILED))
    steps, sign = [BestStep(0, start, root, None)], SIGN[better_direction(config, config["primary"])]
    for name, node in sorted(nodes.items(), key=lambda each: each[1]["depth"]):
        mean, best = primary_mean(manifest, name), steps[-1]
        if mean is None or not isfinite(mean) or node_rank(manifest, name) <= node_rank(manifest, best.node):
            continue
        after = sum(ended[depth] for depth in range(node["depth"]))
        step = BestStep(after, mean, name, _mean_interval(manifest, name, start, sign))
        steps[-1 if best.after == after and len(steps) > 1 else len(steps) :] = [step]
    return steps


def _mean_interval(manifest: Manifest, node: str, start: float, sign: float) -> tuple[float, float] | None:
    root = root_comparison(manifest, node)
    evidence = root and root["evidence"]
    if not evidence or evidence["standing"] != TESTED:
        return None
    low, high = sorted(start + sign * evidence[side] for side in ("lower", "upper"))
    return (low, high) if isfinite(low) and isfinite(high) else None


def building_seconds(events: Sequence[Mapping[str, Any]], now: float | None) -> float | None:
    """Seconds for which builds have worked; one that was killed until its last event, one that goes on until `now`.

    Requests of people are no build's.  None where no build has been told of."""
    began: float | None = None
    last, total, is_known = 0.0, 0.0, False
    for event in events:
        if event["event"] in (EVENT_BUILD, EVENT_BUILD_ENDED) and began is not None:
            total += (event["at"] if event["event"] == EVENT_BUILD_ENDED else last) - began
            began = None
        if event["event"] == EVENT_BUILD:
            began, is_known = event["at"], True
        if event["event"] not in REQUESTED:
            last = max(last, event["at"])
    if began is not None:
        total += max(last, now or 0.0) - began
    return round(max(total, 0.0), 3) if is_known else None
