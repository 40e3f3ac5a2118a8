"""Projection of a search: its manifest as numbers and blocks, from which every screen is drawn.

Pure: what no record says comes in as a moment.  Numbers are those of `figures`, which the summary tells, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from pipeline.core.outcome import ANSWER_AWAITED, OUTAGE_WORDS
from pipeline.core.projection import (
    DONE,
    EMPTY,
    FAILED_RUN,
    KILLED,
    LIVE,
    PAUSED,
    RUN_STATES,
    STOPPED,
    Block,
    Code,
    Column,
    Figure,
    Moment,
    Picture,
    Projection,
    Row,
    RunState,
    Table,
    Text,
)
from pipeline.core.text import BLANK, duration, join_names, plural
from pipeline.tree.report.figures import (
    DRY_RUN,
    GIVEN_NOTE,
    Manifest,
    best_node,
    best_path,
    best_steps,
    better_direction,
    building_seconds,
    by_depth,
    counts_text,
    depth_counts,
    empty_reasons,
    gain_text,
    headline,
    idea_cells,
    idea_status,
    improvement,
    interval_text,
    kept_ideas,
    mean_text,
    promoted_place,
    root_comparison,
    scoring_sentence,
    status_counts,
    too_good,
)
from pipeline.tree.report.happenings import folded_events, last_build_events, standing_text, waiting_slots
from pipeline.tree.report.markdown import clip_text, format_change, format_money, format_number
from pipeline.tree.report.money import BILL_HEADER, BUDGET_HEADER, bill_cells, budget_remarks, budget_rows
from pipeline.tree.report.obstacles import (
    NO_OBSTACLES,
    SearchObstacles,
    awaited_table,
    failed_text,
    failure_table,
    is_over,
    missing_events,
    outage_table,
)
from pipeline.tree.report.run_records import EXPANDED, cage_lines
from pipeline.tree.report.summary import DEPTH_COUNTS, holdout_lines
from pipeline.tree.rules.assignment import NO_IDEA, NO_NODE
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.positions import EVENTS, RunLayout, find_slot, own_name
from pipeline.tree.rules.scoring import PAIRED
from pipeline.tree.run.records import EVENT_STOPPED, EVENT_WORKING, RUNNING
from pipeline.views.blocks import SAYS, expected_end, since_cell, unknown_text
from pipeline.views.lines import time_text
from pipeline.views.pages.charts import ChartLine, ChartMark, line_chart
from pipeline.views.pages.drawing import amount_scale, number_scale

TITLE_WIDTH, REASON_WIDTH = 80, 140  # characters
MOST_EVENTS, MOST_MARKS = 50, 240
SILENT = (NO_NODE, NO_IDEA)  # empty slots that get no row
BEST = "best"  # mark of the node that ranks best against the start
ESTIMATE = "The estimated gain of the best one is its gain less what luck is expected to have added."


def projection_of(manifest: Manifest, moment: Moment, obstacles: SearchObstacles = NO_OBSTACLES) -> Projection:
    """A search as it stands, from its manifest and what that does not say."""
    run, events, state = manifest["tree_run_id"], manifest["events"], run_state(manifest, moment, obstacles)
    words = "Nothing was built yet." if state.word == EMPTY else headline(manifest, moment)
    meaning = [DRY_RUN.replace("**", "")] if manifest["run_config"]["dry_run"] else []
    meaning += [scoring_sentence(manifest["run_config"]), *cage_lines(manifest)[1:]]
    blocks = [*_blocks(manifest, moment, obstacles)]
    at = max((*(event["at"] for event in events), *([state.since] if state.since else [])), default=None)
    numbers = [*figures(manifest, moment)]
    return Projection(run, "tree", words, state, numbers, " ".join(meaning), blocks, f"coppice watch {run}", at)


# --- The state of the run.


def run_state(manifest: Manifest, moment: Moment, obstacles: SearchObstacles = NO_OBSTACLES) -> RunState:
    """How a run stands.  Whether a build works on it is known only from outside; all else the events tell."""
    run, events, reason = manifest["tree_run_id"], manifest["events"], manifest["state"]["stop_reason"]
    build, end = last_build_events(events)
    last = max((event["at"] for event in events), default=None)
    heard = max(last or 0.0, moment.heard or 0.0)
    if moment.is_building and not moment.pause:
        running = [name for name, each in manifest["evaluations"].items() if each["task_state"] == RUNNING]
        standing = standing_text(events, running, moment).replace("**", "")
        return RunState(LIVE, standing, build["at"] if build and not end else None)
    if not build and not manifest["nodes"] and not moment.is_building and not moment.pause:
        return RunState(EMPTY, RUN_STATES[EMPTY])
    goes_on = f"`coppice {run}` goes on where it was"
    if moment.unasked and not is_over(manifest):
        return RunState(STOPPED, unknown_text(moment), last)
    if reason == ANSWER_AWAITED and obstacles.awaited:
        goes_on = f"`coppice answer {run}` tells for what; with an answer {goes_on}"
    if moment.pause:
        goes_on = f"paused since {time_text(moment.pause['at'])}: `coppice resume {run}`, then {goes_on}"
    lost_end = is_over(manifest) and missing_events(manifest, moment, obstacles)  # which may have been the last event
    if build and not end and not moment.is_building and not lost_end:
        return RunState(KILLED, f"{RUN_STATES[KILLED]}: it began at {time_text(build['at'])}; {goes_on}", heard)
    if end and end.get("failed") and not moment.is_building:
        return RunState(FAILED_RUN, f"{failed_text(end['failed'], obstacles)}; {goes_on}", end["at"])
    if is_over(manifest) and not moment.is_building:
        stopped = next((event["at"] for event in reversed(events) if event["event"] == EVENT_STOPPED), last)
        return RunState(DONE, f"the search stopped: {reason}", stopped)
    if moment.pause:
        out = f"; {OUTAGE_WORDS[reason]}" if reason in OUTAGE_WORDS else ""
        return RunState(PAUSED, f"{RUN_STATES[PAUSED]}{out}", moment.pause["at"])
    why = OUTAGE_WORDS[reason] if reason else RUN_STATES[STOPPED]
    return RunState(STOPPED, f"{why}: {goes_on}", end["at"] if end else last)


def finite(number: float | None) -> float | None:
    """A number that JSON has."""
    return None if number is None or not isfinite(number) else number


def figures(manifest: Manifest, moment: Moment) -> Iterator[Figure]:
    """The numbers of the top line."""
    config, state, best = manifest["run_config"], manifest["state"], best_node(manifest)
    primary = config["primary"]
    mean = best.after if best else None
    note = "" if best is None else "the start" if best.is_start else best.name
    if best and not best.is_start and best.before is not None and mean is not None:
        note = f"{best.name}, {format_change(best.before, mean)}"
    text = BLANK if mean is None else format_number(mean)
    yield Figure(f"best {clip_text(primary, 40)}", text, finite(mean), better_direction(config, primary), note)
    counts, (kept, decided) = status_counts(manifest), kept_ideas(manifest)
    ended, skipped = counts[COMPLETED] + counts[FAILED], counts[SKIPPED]
    text = f"{ended} ended" + (f", {skipped} skipped" if skipped else "")
    yield Figure("evaluations", text, ended, note=counts_text(manifest))
    share = f"{100 * kept / decided:.0f} % became nodes" if decided else "nothing is decided yet"
    yield Figure("kept", f"{kept} of {decided}" if decided else BLANK, kept / decided if decided else None, note=share)
    yield Figure("depth", f"{state['current_depth']} of {config['max_depth']}", state["current_depth"])
    money, left = manifest["money"], state["left"]["usd"]
    note = "no limit" if config["budget"]["usd"] is None else "nobody knows what is left" if left is None else ""
    note = note or f"{left:.12g} USD left of {config['budget']['usd']:.12g}"
    note += f"; {money['recalled_usd']:.12g} USD recalled, not paid here" if money["recalled_usd"] else ""
    was_asked = money["calls"] or money["usd"] or money["unknown_calls"]
    text = format_money(money["usd"], money["unknown_calls"]) if was_asked else BLANK
    yield Figure("spent", text, finite(money["usd"]) if was_asked else None, note=note)
    seconds = building_seconds(manifest["events"], moment.now if moment.is_building else None)
    goes_on = moment.is_building and seconds is not None
    since = round(moment.now - seconds, 3) if goes_on and seconds is not None else None
    until = expected_end(moment) if moment.is_building else None
    yield Figure("time", BLANK if seconds is None else duration(seconds), seconds, since=since, until=until)
    rows = [*_running(manifest, moment)]
    yield Figure("running", str(len(rows)), len(rows), note=join_names([row.cells[0] for row in rows]))


# --- Blocks.


def _blocks(manifest: Manifest, moment: Moment, obstacles: SearchObstacles) -> Iterator[Block]:
    running = [*_running(manifest, moment)]
    if running:
        header = [Column("target"), Column("idea"), Column("since", True, is_since=True), Column("says")]
        sentence = f"{plural(len(running), 'target')} at work. {SAYS}"
        yield Table("running", "Running now", sentence, header, running)
    if manifest["nodes"]:
        yield tree_table(manifest, moment)
    if stair := stair_picture(manifest):
        yield stair
    yield from _remarks(manifest)
    yield from _depths(manifest)
    if manifest["holdout"]:
        run = manifest["tree_run_id"]
        sealed = [f"Sealed: `coppice holdout {run}` opens it once, when the search has stopped."]
        yield Text("holdout", "Held out", "\n\n".join([*holdout_lines(manifest["holdout"])] or sealed))
    yield from awaited_table(manifest, obstacles)
    yield from failure_table(manifest, obstacles)
    yield from outage_table(manifest)
    yield from _money(manifest)
    yield from _budget(manifest)
    if "baseline_csv" in manifest["run_config"]:
        yield Text("given", "The start", GIVEN_NOTE.format(manifest["run_config"]["baseline_csv"]))
    for sentence in missing_events(manifest, moment, obstacles):
        yield Text("missing", "Events are missing", sentence)
    yield from _events(manifest)


def _running(manifest: Manifest, moment: Moment) -> Iterator[Row]:
    """Rows of the targets at work: as their build says itself; else what its events tell of evaluations."""
    if not moment.is_building:
        return
    evaluations = manifest["evaluations"]
    for target in moment.running:
        slot = find_slot(own_name(target.name))
        title = clip_text(evaluations[str(slot)]["idea_title"], TITLE_WIDTH) if str(slot) in evaluations else ""
        cells = [own_name(target.name), title or BLANK, since_cell(target.since), clip_text(target.says, REASON_WIDTH)]
        yield Row([*cells[:3], cells[3] or BLANK], str(slot) if slot else "", "running")
    if moment.running or moment.is_told:
        return
    works = {e["eval_id"]: e for e in manifest["events"] if e["event"] == EVENT_WORKING and "eval_id" in e}
    for name, each in evaluations.items():
        if each["task_state"] == RUNNING:
            event = works.get(name) or {"stage": "", "at": each["started_at"]}
            stage = f"{name}.{event['stage']}" if event["stage"] else name
            title = clip_text(each["idea_title"], TITLE_WIDTH) or BLANK
            yield Row([stage, title, since_cell(event["at"]), BLANK], name, "running")


def tree_table(manifest: Manifest, moment: Moment) -> Table:
    """The tree of nodes and ideas."""
    config = manifest["run_config"]
    primary, paired = clip_text(config["primary"], 40), config["method"] == PAIRED
    better = better_direction(config, config["primary"])
    columns = [
        *(Column("place"), Column("idea"), Column("outcome"), Column(primary, better=better)),
        *(Column("gain", True), Column("gain between"), Column("p" if paired else "score", True)),
        *(Column("why"), Column("took", True, "s"), Column("cost", True)),
    ]
    sentence = (
        f"Nodes and ideas, each below the node that it was tried on.  {primary}: {better} is better; "
        "a gain is against the parent, of a node against the start, and more of it is better."
    )
    if paired:
        sentence += f" {ESTIMATE}"
    rows = [*_tree_rows(manifest, moment)]
    return Table("tree", "Nodes and ideas", sentence, columns, rows)


def _tree_rows(manifest: Manifest, moment: Moment) -> Iterator[Row]:
    """Nodes and what was tried on each, the nodes that came of it after them; in the order of slots."""
    nodes = manifest["nodes"]
    waiting = waiting_slots(manifest["events"]) if moment.is_building else frozenset()
    tried: dict[str, list[Manifest]] = {name: [] for name in nodes}
    for each in manifest["evaluations"].values():
        if each["parent_node_id"] in tried:
            tried[each["parent_node_id"]].append(each)
    heirs: dict[str, list[str]] = {}
    for name, node in nodes.items():
        heirs.setdefault(node["artifacts"]["promoted_from_eval_id"], []).append(name)
    best = best_path(manifest)[-1]
    held = moment.is_told and moment.pause
    at_work = {str(find_slot(own_name(target.name))) for target in moment.running}
    stack = [(name, 0) for name, node in reversed(nodes.items()) if node["parent_node_id"] not in nodes]
    while stack:
        name, depth = stack.pop()
        if name in nodes:
            yield _node_row(manifest, name, tried[name], depth, name == best)
            for each in reversed(tried[name]):
                stack += [(heir, depth + 1) for heir in heirs.get(each["eval_id"], [])]
                if each["empty"] not in SILENT:
                    stack.append((each["eval_id"], depth + 1))
        else:
            each = manifest["evaluations"][name]
            is_held = each["task_state"] == RUNNING and held and name not in at_work  # it is next, after the pause
            status = "queued" if is_held else idea_status(each, moment.is_building, name in waiting)
            yield _idea_row(each, status, manifest["run_config"], depth, moment.is_building and not is_held)


def _node_row(manifest: Manifest, name: str, tried: Sequence[Manifest], depth: int, best: bool) -> Row:
    node, config = manifest["nodes"][name], manifest["run_config"]
    source = manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
    title = clip_text(source["idea_title"], TITLE_WIDTH) if source else "(the start)"
    promoted, asked = sum(bool(promoted_place(each)) for each in tried), sum(not each["empty"] for each in tried)
    root, why = root_comparison(manifest, name), node["closed"]
    if source and source["decision"]:
        why = "; ".join(filter(None, [f"from {source['eval_id']}", source["decision"]["why"], why]))
    is_over = node["status"] == EXPANDED
    status = "done" if is_over or node["closed"] else "open"
    outcome = "closed" if node["closed"] else "nothing was tried on it" if is_over else "nothing tried yet"
    outcome = f"{asked} tried, {promoted} promoted" if asked else outcome
    why = "; ".join(filter(None, [why, empty_reasons(tried)]))
    if best:
        outcome = f"{BEST}; {outcome}"
    gain = gain_text(config, root, config["primary"]) if root else BLANK
    cells = [name, title, outcome, mean_text(manifest, name), gain, interval_text(root), BLANK]
    return Row([*cells, clip_text(why, REASON_WIDTH) or BLANK, BLANK, BLANK], name, status, depth)


def _idea_row(each: Manifest, status: str, config: Manifest, depth: int, is_building: bool) -> Row:
    cells, scores = idea_cells(each, config["method"] == PAIRED, is_building), each["scoring_summary"]
    gain = f"{improvement(config, config['primary'], **each['primary']):+.4g}" if each["primary"] else BLANK
    interval = interval_text(scores and scores["recommendation"])
    why = clip_text(idea_reason(each), REASON_WIDTH) or BLANK
    texts = [each["eval_id"], clip_text(each["idea_title"], TITLE_WIDTH) or BLANK, cells.outcome, cells.change]
    texts += [gain, interval, cells.chance, why, cells.seconds, cells.cost]
    return Row(texts, each["eval_id"], status, depth)


def idea_reason(each: Manifest) -> str:
    """Why an evaluation was kept or not, in the words of whoever decided it; empty while nobody has."""
    if each["empty"]:
        return str(each["empty_why"])
    if each["decision"]:
        return str(each["decision"]["why"])
    return str(each["error"]["why"]) if each["error"] else ""


def stair_picture(manifest: Manifest) -> Picture | None:
    """The best node's score over the evaluations that ended; None before the start was measured."""
    config, steps = manifest["run_config"], best_steps(manifest)
    if not steps:
        return None
    primary = clip_text(config["primary"], 40)
    ended = _in_order(manifest)
    whole, sources = max(len(ended), 1), {_source(manifest, step.node) for step in steps}
    every = -(-len(ended) // MOST_MARKS)
    shown = [
        _idea_mark(x, each) for x, each in enumerate(ended, 1) if (x - 1) % every == 0 or each["eval_id"] in sources
    ]
    points = [(x, y) for at, step in enumerate(steps) for x, y in ((step.after, steps[max(at - 1, 0)].mean), step[:2])]
    marks = [ChartMark(s.after, s.mean, s.interval, f"{s.node}: {format_number(s.mean)}", s.node) for s in steps]
    values = [mark.y for mark in shown if not mark.is_at_foot] + [y for _, y in points]
    values += [end for step in steps if step.interval for end in step.interval]
    lines = [
        ChartLine("best node", [*points, (whole, steps[-1].mean)], marks),
        ChartLine("each idea, by its outcome", [], shown),
    ]
    left = f"; {len(shown)} of {len(ended)} ideas are drawn" if len(shown) < len(ended) else ""
    better = better_direction(config, config["primary"])
    sentence = (
        f"The best node's {primary} over {plural(len(ended), 'evaluation')}: {format_number(steps[0].mean)} at the "
        f"start, {format_number(steps[-1].mean)} now ({steps[-1].node}); {better} is better{left}."
    )
    if any(step.interval for step in steps):
        sentence += " Bars: what luck leaves of the gain against the start."
    if any(mark.is_at_foot for mark in shown):
        sentence += " At the foot: ideas without a score."
    svg = line_chart(sentence, amount_scale("evaluations that ended", whole), number_scale(primary, values), lines)
    return Picture("stair", f"The best {primary}", sentence, svg)


def _in_order(manifest: Manifest) -> list[Manifest]:
    """The evaluations that ended, as they did; those of which no event tells by their slots."""
    ended = [each for each in manifest["evaluations"].values() if each["status"] in (COMPLETED, FAILED)]
    return sorted(ended, key=lambda each: each["finished_at"] or 0.0)


def _idea_mark(x: int, each: Manifest) -> ChartMark:
    """The mark of an evaluation; what has no score, or none that is a number, stands at the foot."""
    score = finite(each["primary"]["after"]) if each["primary"] else None
    status, words = idea_status(each, False, False), _dot_words(each)
    return ChartMark(x, score or 0.0, None, words, each["eval_id"], status, score is None)


def _dot_words(each: Manifest) -> str:
    cells = idea_cells(each, True)
    change = f"{cells.change}, " if each["primary"] else ""
    return f"{each['eval_id']} {clip_text(each['idea_title'], 60)}: {change}{cells.outcome}"


def _source(manifest: Manifest, node: str) -> str | None:
    """The evaluation that became a node."""
    source: str | None = manifest["nodes"][node]["artifacts"]["promoted_from_eval_id"]
    return source


def _depths(manifest: Manifest) -> Iterator[Block]:
    """The counts of each depth, and why places in it stayed empty."""
    found = by_depth(manifest)
    columns = [Column("depth", True), *(Column(name, True) for name in DEPTH_COUNTS), Column("empty, and why")]
    rows = [
        Row([depth, *(str(counts[name]) for name in DEPTH_COUNTS), empty_reasons(found.get(depth, ())) or BLANK])
        for depth, counts in depth_counts(manifest).items()
    ]
    if rows:
        yield Table("depths", "Depths", "What was planned for each depth, and how it ended.", columns, rows)


def _remarks(manifest: Manifest) -> Iterator[Block]:
    rows = []
    for each, heirs in too_good(manifest):
        found, title = each["by_config"], clip_text(each["idea_title"], TITLE_WIDTH)
        numbers = [format_number(found["own_worst"]), format_number(found["parent_best"])]
        rows.append(Row([each["eval_id"], title, *numbers, join_names(heirs) or BLANK], each["eval_id"]))
    if rows:
        header = [Column("place"), Column("idea"), Column("its worst config", True)]
        header += [Column("the parent's best one", True), Column("nodes built on it")]
        sentence = "Their worst config is better than the parent's best one: a real step, or a leak."
        yield Table("twice", "Look twice", sentence, header, rows)


def _money(manifest: Manifest) -> Iterator[Block]:
    money, spent = manifest["money"], manifest["money"]["over_time"]
    if not (money["calls"] or spent or money["recalled_usd"]):
        return
    bills = [*money["by_role"].items(), *((f"depth {depth}", bill) for depth, bill in money["by_depth"].items())]
    rows = [Row(bill_cells(name, bill)) for name, bill in bills]
    recalled = (
        f" {format_money(money['recalled_usd'])} more were recalled, and not paid here."
        if money["recalled_usd"]
        else ""
    )
    sentence = (
        f"Paid: {format_money(money['usd'], money['unknown_calls'])} for {plural(money['calls'], 'call')}.{recalled}"
    )
    columns = [Column(name, at > 0) for at, name in enumerate(BILL_HEADER)]
    yield Table("money", "Money by role and depth", sentence, columns, rows)
    if any(each["usd"] for each in spent):
        points = [(0.0, 0.0), *((float(at), each["usd"]) for at, each in enumerate(spent, 1))]
        every = max(1, len(points) // MOST_MARKS)
        across, up = (
            amount_scale("evaluations, in their order", len(spent)),
            number_scale("USD", [y for _, y in points]),
        )
        drawn = [*points[:-1:every], points[-1]]
        svg = line_chart(sentence, across, up, [ChartLine("USD", drawn)])
        yield Picture("spending", "Money over time", sentence, svg)


def _budget(manifest: Manifest) -> Iterator[Block]:
    columns = [Column(name, at > 0) for at, name in enumerate(BUDGET_HEADER)]
    rows = [Row(cells) for cells in budget_rows(manifest)]
    remarks = [each.replace("**", "") for each in budget_remarks(manifest)]
    sentence = " ".join(["What was allowed and spent; evaluations add up their seconds.", *remarks])
    yield Table("budget", "Budget", sentence, columns, rows)


def _events(manifest: Manifest) -> Iterator[Block]:
    events = sorted(manifest["events"], key=lambda event: event["at"])  # a request is noted by the next build
    if every := folded_events(events):
        lines, path = [each.line for each in every[-MOST_EVENTS:]], RunLayout(manifest["tree_run_id"]).of_run(EVENTS)
        is_cut = len(every) > len(lines)
        title = f"Events: the last {len(lines)} of {plural(len(every), 'line')}" if is_cut else "Events"
        yield Code("events", title, "\n".join(lines), "log", path)
