"""View of a search: its projection, the details of an evaluation or a node, and how it came about.

Details are read when somebody opens an item: the manifest has no texts, diffs or rows of a sweep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from pipeline.core.graph import Target
from pipeline.core.projection import Block, Code, Column, Heat, HeatRow, Moment, Projection, Row, Table, Text
from pipeline.core.recipe import make_recipe
from pipeline.core.text import BLANK, duration, plural
from pipeline.errors import SpecError
from pipeline.git.objects import has_commit, patch_text
from pipeline.git.repository import run_repository
from pipeline.machine.lock import is_locked
from pipeline.models.calls import Call, DamagedCall, read_calls
from pipeline.store import noop
from pipeline.store.receipts import Receipts, target_states
from pipeline.store.steering import SteeringLog, steering_path
from pipeline.tree.accounts import MARKS, Explanation
from pipeline.tree.describe import describe
from pipeline.tree.report.explain import CheckExplanation
from pipeline.tree.report.figures import (
    Manifest,
    better_direction,
    idea_cells,
    interval_text,
    metric_detail,
    path_cells,
    path_header,
    path_to,
    promoted_place,
)
from pipeline.tree.report.happenings import last_build_events, pause_request
from pipeline.tree.report.live import current_manifest, manifest_at
from pipeline.tree.report.markdown import clip_text, format_change, format_money, format_number
from pipeline.tree.report.obstacles import FailedTarget, SearchObstacles, failure_table, obstacles_of
from pipeline.tree.report.projection import TITLE_WIDTH, finite, idea_reason, projection_of, tree_table
from pipeline.tree.report.run_records import RunRecords, cages_text
from pipeline.tree.rules.positions import (
    EVENTS,
    MANIFEST,
    OPENINGS,
    VERDICT,
    EvalSlot,
    NodePlace,
    RunLayout,
    own_name,
    parse_place,
    parse_slot,
)
from pipeline.tree.rules.scoring import BestConfig
from pipeline.tree.rules.sheet import SheetRow, csv_lines, csv_rows
from pipeline.tree.run.verdicts import sheet_of
from pipeline.tree.stages import STAGES
from pipeline.tree.targets.builder import planned_config
from pipeline.views.blocks import code_block, file_block, target_blocks

# Characters or bytes that are shown; of a log its end, of all others the beginning.
LONGEST_TEXT, LONGEST_DIFF, LONGEST_LOG = 8_000, 24_000, 4_000
MOST_CELLS, MOST_COLUMNS, MOST_CALLS = 6_000, 120, 200
# A show has so many moments; a large search has fewer, as each of them costs by its evaluations.
MOST_MOMENTS, FEWEST_MOMENTS, MOST_ENTRIES = 300, 50, 500_000
CHECK_STATUSES = {True: "passed", False: "rejected", None: "skipped"}


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    return projection_of(current_manifest(run, planned_config(targets)), moment, obstacles_of(run, targets))


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    """The files that a build or a person writes whenever something has changed."""
    del targets
    at = RunLayout(run)
    written = (at.of_run(name) for name in (MANIFEST, EVENTS, OPENINGS, VERDICT))
    return [*written, steering_path(run), Receipts.path_of(run)]


def moments(run: str, targets: Sequence[Target]) -> Iterator[Projection]:
    """How a search came about: its projection at each event, or at so many of them, and as it stands."""
    manifest = current_manifest(run, planned_config(targets))
    times = sorted({event["at"] for event in manifest["events"]})
    most = min(MOST_MOMENTS, max(FEWEST_MOMENTS, MOST_ENTRIES // max(1, len(manifest["evaluations"]))))
    every = max(1, -(-len(times) // most))
    for at in times[:-1:every]:
        then = manifest_at(manifest, at)
        yield projection_of(then, moment_at(then, at))
    if times:
        moment = Moment(bool(is_locked(run)), SteeringLog(run).pause(), times[-1])
        yield projection_of(manifest, moment, obstacles_of(run, targets))


def moment_at(manifest: Manifest, at: float) -> Moment:
    """The moment of a time that is past, by its events: whether a build worked on it, and whether it was paused."""
    events = manifest["events"]
    build, end = last_build_events(events)
    is_begun = build is not None or any("eval_id" in event for event in events)  # older logs tell of no builds
    return Moment(is_begun and end is None, pause_request(events), at)


def details(run: str, targets: Sequence[Target], item: str) -> list[Block]:
    """The blocks of an evaluation, such as d0.n0.i2, of a node, such as d1.n0, or of a target, such as d0.n0.test.

    An evaluation or a node that there is not yet has those of its targets that failed."""
    manifest = current_manifest(run, planned_config(targets))
    if item in manifest["evaluations"]:
        records = RunRecords(run, planned_config(targets))
        return [*_evaluation_blocks(manifest, records, targets, parse_slot(item))]
    if item in manifest["nodes"]:
        return [*_node_blocks(manifest, parse_place(item))]
    if target := next((each for each in targets if own_name(each.name) == item), None):
        (state,) = target_states(run, [target.name]).values()
        return [*target_blocks(target, state, describe(target), noop.folder(run))]
    failed = [each for each in obstacles_of(run, targets).failed if each.name.startswith(f"{item}.")]
    if failed:
        return [*_failed_blocks(manifest, failed)]
    raise SpecError(f"{run}: '{clip_text(item, 40)}' is no node or evaluation; they are named d1.n0 and d1.n0.i2")


def _failed_blocks(manifest: Manifest, failed: Sequence[FailedTarget]) -> Iterator[Block]:
    yield from failure_table({**manifest, "evaluations": {}}, SearchObstacles(failed))
    for name, _, record in failed:
        yield from file_block(
            f"log-{name}", f"The end of the log of `{name}`", record.log, "log", LONGEST_LOG, at_end=True
        )


# --- An evaluation.


def _evaluation_blocks(
    manifest: Manifest, records: RunRecords, targets: Sequence[Target], slot: EvalSlot
) -> Iterator[Block]:
    each = manifest["evaluations"][str(slot)]
    yield from _text_file("idea", "Idea", each["idea_path"])
    yield _facts(manifest, each)
    yield from _gate(manifest["tree_run_id"], slot, targets)
    if heat := _heat(records, slot, each):
        yield heat
    if "change" in each["files"]:
        yield from file_block("diff", "Change", each["files"]["change"], "diff", LONGEST_DIFF)
    for number, path in enumerate(each["review_round_files"], 1):
        yield from file_block(f"review-{number}", f"Review, round {number}", path, "text", LONGEST_TEXT)
    yield from _calls(records, slot)
    for name, path in _logs(records, slot, each):
        yield from file_block(f"log-{name}", f"The end of the log of `{name}`", path, "log", LONGEST_LOG, at_end=True)
    yield _relatives(manifest, each)
    yield Code("commands", "Commands", "\n".join(_evaluation_commands(manifest, each)))


def _facts(manifest: Manifest, each: Manifest) -> Table:
    config, cells, scores, spent = (
        manifest["run_config"],
        idea_cells(each, True),
        each["scoring_summary"],
        each["spent"],
    )
    facts = {"outcome": cells.outcome, "why": idea_reason(each), "verdict": cells.verdict}
    if measured := each["primary"]:
        facts[config["primary"]] = format_change(measured["before"], measured["after"])
    if scores:
        parent, root = scores["recommendation"], scores["root_recommendation"]
        others = [metric["name"] for metric in config["metrics"] if metric["name"] != config["primary"]]
        details = {name: metric_detail(parent, name) for name in others}
        facts |= {name: format_change(it["baseline"], it["candidate"]) for name, it in details.items() if it}
        facts |= {"gain between": interval_text(parent), "gain between, against the start": interval_text(root)}
        facts |= {"p": cells.chance} if parent["evidence"] else {}
    if each["by_config"]:
        found = each["by_config"]
        facts["configs better, worse, same"] = ", ".join(str(found[side]) for side in ("better", "worse", "same"))
    if each["best_config"]:
        best = BestConfig(**each["best_config"])
        facts["best config"] = f"{best.text}; the parent's best is config {best.parent_config}"
    if each["rows_expected"]:
        facts["rows"] = f"{each['candidate_rows_used']} of {each['rows_expected']}"
    if spent:
        was_free = cells.cost == BLANK  # nobody was asked
        facts["cost"] = BLANK if was_free else format_money(spent["usd"], spent["unknown_calls"])
        facts |= {"tokens": f"{spent['tokens']:,}" if spent["tokens"] else BLANK, "took": duration(spent["seconds"])}
    if each["attempt"]:
        facts["attempts"] = str(each["attempt"])
    facts |= {"came from": each["idea_source"] or "", "cages": cages_text(each["cages"])}
    facts |= {"kept though its coder failed": each["partial"] or "", "commit": each["candidate_commit"] or ""}
    facts["not in the agreed form"] = "; ".join(each["idea_defects"])
    facts["left out of it"] = ", ".join(each["left_out"])
    rows = [Row([clip_text(name, 60), clip_text(text, 1000)]) for name, text in facts.items() if text]
    return Table("facts", "Result", "", [Column("what"), Column("value")], rows)


def _gate(run: str, slot: EvalSlot, targets: Sequence[Target]) -> Iterator[Block]:
    """Check by check, as `coppice explain` has them; of one that was not scored the steps that it has come to."""
    explanation, note = Explanation(run, slot, targets), "Each check with its number and its threshold."
    names = {f"{run}:{slot}.score", f"{run}:d{slot.depth}.promote"}
    recipes = {each.name: make_recipe(each, STAGES[each.stage].code) for each in targets if each.name in names}
    try:
        record = explanation.record(recipes)
        checks = [CheckExplanation(**check) for check in record["checks"]]
        note += " It was decided by another spec than today's." if record["edited"] else ""
    except SpecError as why:
        checks, note = [*explanation.steps()], str(why)
    rows = [Row(_check_cells(check), status=CHECK_STATUSES[check.passed]) for check in checks]
    columns = [Column("check"), Column("result"), Column("number", True), Column("threshold", True)]
    if rows:
        yield Table("gate", "Gate by gate", note, [*columns, Column("what"), Column("needs")], rows)


def _check_cells(check: CheckExplanation) -> list[str]:
    numbers = [BLANK if number is None else format_number(number) for number in (check.number, check.threshold)]
    return [check.check, MARKS[check.passed], *numbers, clip_text(check.what, 1000) or BLANK, check.needs or BLANK]


def _heat(records: RunRecords, slot: EvalSlot, each: Manifest) -> Heat | None:
    """The primary metric by config and block, candidate minus parent; what either lacks was not measured."""
    config = records.config
    own, parent = records.content(records.at.csv(slot)), records.content(records.at.csv(slot.place))
    if not own or not parent:
        return None
    name = config["primary"]
    before, after = (_by_config(sheet_of(config, content).rows, name) for content in (parent, own))
    blocks = [*dict.fromkeys(block for row in (*before.values(), *after.values()) for block in row)]
    if records.expected_rows:
        blocks = [block for block in records.expected_rows.blocks if block in blocks] or blocks
    columns, titles = blocks[:MOST_COLUMNS], _config_titles(own)
    configs = sorted(before.keys() | after.keys())
    shown = configs[: max(1, MOST_CELLS // max(1, len(columns)))]
    rows = [
        HeatRow(titles.get(c, str(c)), [_difference(before.get(c, {}), after.get(c, {}), b) for b in columns])
        for c in shown
    ]
    cut = [f"the first {len(shown)} of {len(configs)} configs"] if len(shown) < len(configs) else []
    cut += [f"the first {len(columns)} of {len(blocks)} blocks"] if len(columns) < len(blocks) else []
    is_scored = each["candidate_results_csv_sha256"] in (None, sha256(own).hexdigest())
    sentence = (
        f"{clip_text(name, 40)}, candidate minus parent, by config and block{': ' if cut else ''}{', '.join(cut)}."
    )
    sentence += "" if is_scored else " The results were changed since they were scored."
    better = better_direction(config, name)
    return Heat("configs", "Config by block", sentence, [b or name for b in columns], rows, "", better, 0.0)


def _by_config(rows: Iterable[SheetRow], name: str) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row.config_id, {})
        if name in row.metrics:
            found[row.config_id][row.block] = row.metrics[name]
    return found


def _difference(before: Mapping[str, float], after: Mapping[str, float], block: str) -> float | None:
    if block not in before or block not in after:
        return None
    return finite(float(f"{after[block] - before[block]:.4g}"))


def _config_titles(content: bytes) -> dict[int, str]:
    """The numbers of configs, with their parameters where the results have them."""
    rows = (cells for _, cells in csv_rows(csv_lines(content.decode(errors="replace"))) if cells)
    header = [cell.strip() for cell in next(rows, [])]
    if "params" not in header or "config_id" not in header:
        return {}
    number, params = header.index("config_id"), header.index("params")
    titles: dict[int, str] = {}
    for cells in rows:
        if len(cells) == len(header) and cells[number].strip().isdecimal():
            titles.setdefault(int(cells[number]), clip_text(f"{cells[number]}: {cells[params]}", 80))
    return titles


def _calls(records: RunRecords, slot: EvalSlot) -> Iterator[Block]:
    paths = [records.at.idea(slot, "calls.jsonl"), records.at.of_eval(slot, "calls.jsonl")]
    try:
        calls = [call for path in paths if os.path.exists(path) for call in read_calls(path)]
    except DamagedCall as error:
        yield Text("calls", "Calls", str(error))
        return
    if calls:
        header = [Column(name) for name in ("role", "backend", "model")]
        header += [Column(name, True) for name in ("USD", "tokens in", "tokens out")]
        header += [Column("took", True, "s"), Column("end")]
        rows = [Row(_call_cells(call), status="failed" if call.exit else "done") for call in calls[:MOST_CALLS]]
        sentence = f"{plural(len(calls), 'call')}" + (f", the first {MOST_CALLS}." if len(calls) > MOST_CALLS else ".")
        yield Table("calls", "Calls", sentence, header, rows)


def _call_cells(call: Call) -> list[str]:
    usage = call.usage
    usd = BLANK if usage.usd is None else f"{usage.usd:.12g}"
    tokens = [f"{usage.input_tokens:,}", f"{usage.output_tokens:,}"]
    end = clip_text(call.error or call.partial or "answered", 200)
    return [call.role, call.backend, clip_text(call.model, 60) or BLANK, usd, *tokens, f"{call.seconds:.1f}", end]


def _logs(records: RunRecords, slot: EvalSlot, each: Manifest) -> Iterator[tuple[str, str]]:
    """The logs of its steps: those that were kept, or those of what runs or failed."""
    for step in ("implement", "test", "checks", "sweep"):
        kept = each["files"].get(f"{step}_log") or records.at.of_eval(slot, f"{step}.log")
        printed = records.at.of_run(f".coppice/logs/{slot}.{step}.log")
        if path := next((path for path in (kept, printed) if os.path.exists(path) and os.path.getsize(path)), ""):
            yield step, path


def _relatives(manifest: Manifest, each: Manifest) -> Table:
    """The node that it was tried on, the node that it became, and what else was tried there."""
    rows = [Row(["tried on", *_node_words(manifest, each["parent_node_id"])], each["parent_node_id"])]
    if (to := promoted_place(each)) in manifest["nodes"]:
        rows.append(Row(["became", *_node_words(manifest, to)], to))
    if each["duplicate_of"]:
        rows.append(Row(["duplicate of", each["duplicate_of"], BLANK], each["duplicate_of"]))
    for name, other in manifest["evaluations"].items():
        if other["parent_node_id"] == each["parent_node_id"] and name != each["eval_id"] and not other["empty"]:
            rows.append(Row(["beside", name, clip_text(other["idea_title"], TITLE_WIDTH) or BLANK], name))
    return Table(
        "relatives", "Parent, children and siblings", "", [Column("is"), Column("place"), Column("idea")], rows
    )


def _node_words(manifest: Manifest, name: str) -> list[str]:
    node = manifest["nodes"].get(name)
    source = node and manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"])
    return [name, clip_text(source["idea_title"], TITLE_WIDTH) if source else "(the start)"]


def _evaluation_commands(manifest: Manifest, each: Manifest) -> Iterator[str]:
    run, slot = manifest["tree_run_id"], each["eval_id"]
    yield f"coppice explain {run}:{slot}"
    if each["status"] == "failed":
        yield f"coppice retry {run} {slot}"
    if commit := each["candidate_commit"]:
        yield f"git -C runs/{run}/repo.git show {commit[:12]}"
    if path := each["files"].get("sweep_log"):
        yield f"less {path}"


# --- A node.


def _node_blocks(manifest: Manifest, place: NodePlace) -> Iterator[Block]:
    run, name, node = manifest["tree_run_id"], str(place), manifest["nodes"][str(place)]
    header = path_header(manifest)
    columns = [Column(title, title in ("step", "in all", "score")) for title in header]
    chain = [
        Row(path_cells(manifest, each), manifest["nodes"][each]["artifacts"]["promoted_from_eval_id"] or each)
        for each in path_to(manifest, name)
    ]
    sentence = "What a step gained is against its parent, and in all against the start."
    yield Table("chain", "From the start to here", sentence, columns, chain)
    root = next(iter(manifest["nodes"].values()))
    metrics = [
        Row([clip_text(key, 60), *_numbers(root["metrics"].get(key), value)]) for key, value in node["metrics"].items()
    ]
    numbers = [Column("start", True), Column("here", True), Column("difference", True)]
    yield Table("metrics", "Metrics", "Means over all configs and blocks.", [Column("metric"), *numbers], metrics)
    yield _tried(manifest, name)
    yield from _node_diff(run, root["commit"], node["commit"])
    facts = {"commit": node["commit"], "ref": node["ref"], "worktree": node["worktree_path"], "closed": node["closed"]}
    rows = [Row([what, clip_text(text, 1000)]) for what, text in facts.items() if text]
    yield Table("facts", "Where it lies", "", [Column("what"), Column("value")], rows)
    git = f"git -C runs/{run}/repo.git"
    is_start = root["commit"] == node["commit"]
    diff = [] if is_start else [f"{git} diff {root['commit'][:12]} {node['commit'][:12]}"]
    commands = [f"cd {node['worktree_path']}", *diff, f"coppice branches {run}"]
    yield Code("commands", "Commands", "\n".join(commands))


def _tried(manifest: Manifest, name: str) -> Table:
    """The ideas that were tried on a node, as the tree has them."""
    tried = {key: each for key, each in manifest["evaluations"].items() if each["parent_node_id"] == name}
    own = {**manifest, "nodes": {name: manifest["nodes"][name]}, "evaluations": tried}
    table = tree_table(own, Moment(bool(is_locked(manifest["tree_run_id"]))))
    rows = [row._replace(depth=0) for row in table.rows if row.item in tried]
    return Table("tried", "Tried on it", f"{plural(len(rows), 'idea')}.", table.columns, rows)


def _numbers(start: float | None, here: float) -> list[str]:
    if start is None:
        return [BLANK, format_number(here), BLANK]
    return [format_number(start), format_number(here), f"{here - start:+.4g}"]


def _node_diff(run: str, root: str, commit: str) -> Iterator[Block]:
    repo = run_repository(run)
    if root == commit:
        return
    if not os.path.exists(f"{repo}/HEAD") or not has_commit(repo, commit):
        yield Text("diff", "Against the start", f"runs/{run}/repo.git has no commit {commit[:10]}.")
        return
    yield code_block("diff", "Against the start", patch_text(repo, root, commit), "diff", LONGEST_DIFF, "")


# --- Files, cut.


def _text_file(name: str, title: str, path: str) -> Iterator[Block]:
    for code in file_block(name, title, path, "text", LONGEST_TEXT):
        yield Text(name, title, code.text) if not code.left_out else code
