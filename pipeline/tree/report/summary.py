"""Summary of a search from its manifest: its state, its best path, the result of every idea.

It is TREE_SUMMARY.md, and its opening line is the last line of a build.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.core.projection import Moment
from pipeline.core.text import BLANK, join_names, plural
from pipeline.tree.report.figures import (
    BUILDING,
    IDEA_WIDTH,
    NAME_WIDTH,
    UNFINISHED,
    WHY_WIDTH,
    Manifest,
    best_path,
    by_depth,
    change_text,
    depth_counts,
    empty_reasons,
    idea_cells,
    mean_text,
    opening_lines,
    path_cells,
    path_header,
    promoted_place,
    scoring_sentence,
    too_good,
)
from pipeline.tree.report.happenings import MOST_WHY, failure_lines, happening_lines
from pipeline.tree.report.markdown import (
    clip_text,
    format_chance,
    format_number,
    format_score,
    markdown_table,
    table_cell,
    wrap_line,
)
from pipeline.tree.report.money import MOST_ROWS, budget_table, money_lines
from pipeline.tree.report.obstacles import (
    NO_OBSTACLES,
    SearchObstacles,
    awaited_lines,
    is_over,
    missing_events,
    obstacle_lines,
)
from pipeline.tree.report.run_records import cage_lines
from pipeline.tree.rules.assignment import NO_IDEA, NO_NODE
from pipeline.tree.rules.beam import FINAL_STATUSES
from pipeline.tree.rules.scoring import PAIRED, BestConfig
from pipeline.views.lines import time_text

DEPTH_COUNTS = ("planned", "assigned", *FINAL_STATUSES, UNFINISHED, "promoted")
TOOK = "took, s"  # not `seconds`, as a metric may be called


def path_table(manifest: Manifest, best: Sequence[str]) -> list[str]:
    """The way to the best node; what a step gained is against its parent, and in all against the root."""
    rows = [path_cells(manifest, name) for name in filter(None, best)]
    return markdown_table(path_header(manifest), rows, right=("step", "in all", "score"), flexible=["idea"])


def beam_table(manifest: Manifest) -> list[str]:
    """The beam of each depth, without depth 0, which is the root alone."""
    primary, rows = manifest["run_config"]["primary"], []
    whys: list[str] = []
    for depth, places in manifest["state"]["beam_by_depth"].items():
        for place, beam in places.items():
            source, node = manifest["evaluations"].get(beam["promoted_from_eval_id"]), manifest["nodes"].get(place)
            cells, commit = [BLANK, "(empty)", BLANK], BLANK
            if source and node:
                title, commit = clip_text(source["idea_title"], IDEA_WIDTH), node["commit"][:10]
                cells = [source["eval_id"], title, mean_text(manifest, place)]
            rows.append([depth, place, *cells, commit])
            whys.append(f"- {place}: {table_cell(beam['why'])}.")
    header = ["depth", "place", "from", "idea", clip_text(primary, NAME_WIDTH), "commit"]
    table = markdown_table(header, rows, right=("depth",), flexible=("idea",))
    return [*table, *(["", *whys] if whys else [])]


def node_table(manifest: Manifest) -> list[str]:
    header = ["node", "status", "parent", "from", "steps from start", "tried", "promoted", "commit"]
    evaluations = [each for each in manifest["evaluations"].values() if not each["empty"]]
    tried = Counter(each["parent_node_id"] for each in evaluations)
    promoted = Counter(each["parent_node_id"] for each in evaluations if promoted_place(each))
    rows = [
        [
            *(name, node["status"], node["parent_node_id"] or BLANK),
            *(node["artifacts"]["promoted_from_eval_id"] or BLANK, str(len(node["idea_chain"]))),
            *(str(tried[name]), str(promoted[name]), node["commit"][:10]),
        ]
        for name, node in manifest["nodes"].items()
    ]
    return markdown_table(header, rows, right=("steps from start", "tried", "promoted"))


def evaluation_table(manifest: Manifest, rows: Mapping[str, Manifest], is_building: bool) -> list[str]:
    """A row an evaluation, and below the table a paragraph on each."""
    config = manifest["run_config"]
    paired = config["method"] == PAIRED
    header = ["slot", "idea", "outcome", "verdict" if paired else "grade", clip_text(config["primary"], NAME_WIDTH)]
    header += ["p" if paired else "score", TOOK, "cost"]
    lines = [
        [slot, clip_text(each["idea_title"], IDEA_WIDTH), *idea_cells(each, paired, is_building)]
        for slot, each in rows.items()
    ]
    table = markdown_table(header, lines, right=("p", "score", TOOK, "cost"), flexible=["idea"])
    details = [f"- {slot}: {'; '.join(_details(each, config))}." for slot, each in rows.items() if not each["empty"]]
    return [*table, *(["", *details] if details else [])]


def _details(each: Manifest, config: Manifest) -> Iterator[str]:
    """All that the table has no room for."""
    yield table_cell(clip_text(each["idea_title"], WHY_WIDTH)).rstrip(".")
    if scores := each["scoring_summary"]:
        parent, root = scores["recommendation"], scores["root_recommendation"]
        evidence = parent["evidence"]
        word = "score" if evidence is None else "estimated gain"
        between = (
            f", between {format_number(evidence['lower'])} and {format_number(evidence['upper'])}" if evidence else ""
        )
        yield f"{word} {format_score(parent['score'])}{between}, against the root {format_score(root['score'])}"
        guards = [m["name"] for m in config["metrics"] if m["guard"] and m["name"] != config["primary"]]
        yield from (f"{name} (guard) {change_text(parent, name)}" for name in guards)
    if each["rows_expected"]:
        yield f"{each['candidate_rows_used']}/{each['rows_expected']} rows"
    if found := each["by_config"]:
        yield f"configs better/worse {found['better']}/{found['worse']}"
        yield from _best_config(each, sum(found[side] for side in ("better", "worse", "same")))
    if wrong := [defect.partition(";")[0] for defect in each["idea_defects"]]:
        yield f"tried though its text is not in the agreed form: {table_cell(clip_text(', '.join(wrong), WHY_WIDTH))}"
    if each["partial"]:
        yield f"kept though its coder failed: {table_cell(clip_text(each['partial'], WHY_WIDTH))}"
    if left := each["left_out"]:
        yield f"left out of the candidate: {table_cell(clip_text(join_names(left), WHY_WIDTH))}"
    if each["attempt"]:
        yield plural(each["attempt"], "attempt")
    if (spent := each["spent"]) and spent["tokens"]:
        yield f"{spent['tokens']:,} tokens"
    if each["decision"]:
        yield table_cell(clip_text(each["decision"]["why"], MOST_WHY))


def _best_config(each: Manifest, configs: int) -> Iterator[str]:
    """The gain at the best config: in full where it contradicts the mean; nothing where there is but one."""
    if each["best_config"] and configs > 1:
        best = BestConfig(**each["best_config"])
        yield best.text if best.disagrees else f"{best.gain:+.4g} at the best config {best.config}"


def progress_table(manifest: Manifest) -> list[str]:
    """The counts of each depth; of each reason for an empty slot the first one in full."""
    rows, reasons, found = [], [], by_depth(manifest)
    for depth, counts in depth_counts(manifest).items():
        if empty := empty_reasons(found.get(depth, ())):
            reasons.append(f"- empty at depth {depth}: {table_cell(empty)}")
        rows.append([depth, *(str(counts[name]) for name in DEPTH_COUNTS)])
    table = markdown_table(["depth", *DEPTH_COUNTS], rows, right=("depth", *DEPTH_COUNTS))
    return [*table, *(["", *reasons] if reasons else [])]


def holdout_lines(holdout: Manifest) -> Iterator[str]:
    result, openings = holdout["result"], holdout["openings"]
    if result:
        yield _verdict(result)
    if len(openings) > 1:
        yield f"Opened {len(openings)} times: only what was found the first time is fresh."
        for line in openings:
            again = ", by --reopen" if line.get("reopened") else ""
            known = f"{line['when']}: {line['final']}, commit {line['commit'][:10]}{again}" if "final" in line else ""
            yield f"- {known or table_cell(clip_text(line['why'], 100))}"
    if holdout["lacking"]:
        yield f"From holdout.jsonl {plural(holdout['lacking'], 'line')} had been taken; what else was, nobody knows."


def _verdict(result: Manifest) -> str:
    found = result["comparison"]
    held = plural(len(result["blocks"]), "block") if result["blocks"] else plural(len(result["configs"]), "config")
    start = f"{result['final']} against the start on {held} held out:"
    change = f"{result['primary']} {change_text(found, result['primary'])}"
    if (evidence := found["evidence"]) is None:
        return f"{start} {change}, score {format_number(found['score'])}."
    numbers = [format_number(evidence[name]) for name in ("estimate", "lower", "upper")]
    return (
        f"{start} {change}, estimated gain {numbers[0]}, {numbers[1]} to {numbers[2]}, "
        f"p {format_chance(evidence['p'])}: {evidence['verdict']} ({', '.join(evidence['reasons'])})."
    )


SILENT_REASONS = (NO_NODE, NO_IDEA)  # empty slots that get no row


def summary_text(manifest: Manifest, moment: Moment = BUILDING, obstacles: SearchObstacles = NO_OBSTACLES) -> str:
    """The page.  In its moment a build of the search runs, or has just ended and writes this, or none does."""
    best, state, is_building = best_path(manifest), manifest["state"], moment.is_building
    sealed = f"Sealed: `coppice holdout {manifest['tree_run_id']}` opens it once, when the search has stopped."
    opening = [
        *opening_lines(manifest, moment),
        *_as_of(manifest, moment),
        "",
        scoring_sentence(manifest["run_config"]),
    ]
    happened = happening_lines(manifest["events"], bool(state["stop_reason"]), is_building)
    sections = [
        ("", [*opening, *cage_lines(manifest)]),
        ("Held out", ([*holdout_lines(manifest["holdout"])] or [sealed]) if manifest["holdout"] else []),
        ("Best path", path_table(manifest, best)),
        ("Look twice", [*_remarks(manifest)]),
        ("Beam", beam_table(manifest)),
        ("Nodes", node_table(manifest)),
        *_depths(manifest, is_building),
        ("Answers awaited", awaited_lines(manifest, obstacles)),
        ("Failures", [*failure_lines(manifest), *obstacle_lines(obstacles)]),
        ("What happened", [*happened, *missing_events(manifest, moment, obstacles)]),
        ("Progress", progress_table(manifest)),
        ("Budget", budget_table(manifest)),
        ("Money", [*money_lines(manifest), *_left_out(manifest)]),
        ("How to look at it", _commands(manifest, best[-1])),
    ]
    text = [f"# {manifest['tree_run_id']}"]
    for title, lines in sections:
        if lines:
            text += ["", *([f"## {title}", ""] if title else []), *_fitted(lines)]
    return "\n".join(text) + "\n"


def _as_of(manifest: Manifest, moment: Moment) -> Iterator[str]:
    """The time of a page that is not the last one; whoever kills the build leaves it."""
    if moment.now and not is_over(manifest):
        watch = f"coppice watch {manifest['tree_run_id']}"
        yield from ("", f"As of {time_text(moment.now)}; `{watch}` tells how it stands now.")


def _fitted(lines: Iterable[str]) -> Iterator[str]:
    """Lines with prose wrapped; tables fit already, and commands are to be copied."""
    is_code = False
    for line in lines:
        is_code ^= line.startswith("```")
        yield from [line] if is_code or line.startswith("|") else wrap_line(line)


def _left_out(manifest: Manifest) -> Iterator[str]:
    """Words on the rows that the table over time lacks."""
    if (slots := len(manifest["money"]["over_time"])) > MOST_ROWS:
        yield from (
            "",
            f"Sums after {MOST_ROWS} of {slots} evaluations; after each: `money.over_time` in manifest.json.",
        )


def _remarks(manifest: Manifest) -> Iterator[str]:
    primary = manifest["run_config"]["primary"]
    for each, heirs in too_good(manifest):
        found = each["by_config"]
        yield (
            f"- {each['eval_id']} ({table_cell(clip_text(each['idea_title'], 60))}): "
            f"its worst config ({primary} {format_number(found['own_worst'])}) "
            f"is better than its parent's best one ({format_number(found['parent_best'])}). "
            f"A real step, or a leak: read {each['files']['change']}."
            f"{f' Nodes that are built on it: {join_names(heirs)}.' if heirs else ''}"
        )


def _depths(manifest: Manifest, is_building: bool) -> Iterator[tuple[str, Sequence[str]]]:
    evaluations = manifest["evaluations"].items()
    for depth in depth_counts(manifest):
        here = {name: each for name, each in evaluations if each["depth"] == int(depth)}
        rows = {name: each for name, each in here.items() if each["empty"] not in SILENT_REASONS}
        yield (
            f"Evaluations at depth {depth}",
            [*evaluation_table(manifest, rows, is_building), *_cascade_lines(manifest, rows)],
        )


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
            f"{git} diff {root['root_commit'][:12]} {found['commit'][:12]}  # all that was changed since the start",
            f"{git} diff {found['ref']}~1 {found['ref']}  # the last step",
            f"less {found['artifacts']['sweep_log']}",
        ]
    where = (
        f"Of each evaluation: change, logs, score in runs/{run}/eval/SLOT/, the idea in runs/{run}/node_ideas/NODE/;"
        f" the files of a node in runs/{run}/wt/NODE/."
    )
    return ["```sh", *lines, "```", "", where]
