"""Checks of numbers: scores follow from the CSVs, decisions follow from the scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.tree.beam import promote
from pipeline.tree.found import Found
from pipeline.tree.gate import COMPLETED
from pipeline.tree.judging import Sides, series_of, sides_of
from pipeline.tree.pairs import other_seeds
from pipeline.tree.problem import Check, Fault, check, unequal
from pipeline.tree.records import Record, dumped, name_of
from pipeline.tree.scoring import PAIRED, score
from pipeline.tree.slots import ROOT, Slot
from pipeline.tree.verdicts import evaluation_of, rules_of, scoring_summary
from pipeline.tree.weighing import settled, weighed


def scores(found: Found) -> Check:
    summaries = {slot: record for slot in found.all_slots() if (record := _summary(found, slot))}
    weighed = dict(_weighed(found)) if found.config["method"] == PAIRED else {}
    faults = [fault for slot, record in summaries.items() for fault in _score(found, slot, record, weighed)]
    for depth, again in weighed.items():
        path = found.at.of_depth(depth, "weighed.json")
        rows = _numbers(path, found.record(path) or {}, again)
        how = f"weigh it again: coppice forget {found.run}:d{depth}.weigh, then coppice {found.run}"
        faults += unequal([*rows], how)
    return check("scores, worked out again from the CSVs", len(summaries) + len(weighed), faults)


def _weighed(found: Found) -> Iterator[tuple[int, Record]]:
    """Of each depth of which all pairs are there: what they come to."""
    before = None
    for depth in found.depths:
        pairs = {str(slot): found.record(found.at.of_eval(slot, "pairs.json")) for slot in found.slots(depth)}
        whole = {slot: record for slot, record in pairs.items() if record}
        if len(whole) < len(pairs):
            return
        before = weighed(found.config, whole, before)
        yield depth, before


def _summary(found: Found, slot: Slot) -> Record | None:
    record = found.record(found.at.of_eval(slot, "summary.json"))
    return record if record and record["status"] == COMPLETED else None


def _again(found: Found, slot: Slot) -> str:
    return f"score it again: coppice forget {found.run}:{slot}.score, then coppice {found.run}"


def _score(found: Found, slot: Slot, record: Record, weighed: Mapping[int, Record]) -> Iterator[Fault]:
    path, csvs = found.at.of_eval(slot, "summary.json"), (found.at.csv(slot), found.at.csv(slot.place))
    own, parent, root = found.measured(slot), found.baseline(slot.place), found.baseline(ROOT)
    if own is None or parent is None or root is None or found.wanted is None:  # the check of files has said so
        return
    sides = sides_of(own, parent, root, found.wanted.first(found.stopped_after(slot)))
    shas = zip(("results_sha256", "baseline_sha256"), csvs, strict=True)
    rows: list[tuple[str, object, object, str]] = [
        (f"{path}: {name}", record[name], name_of(found.content(csv) or b""), f"{csv} has") for name, csv in shas
    ]
    rows.append((f"{path}: rows_used", record["rows_used"], own.rows_used, f"{csvs[0]} has"))
    defects = [*own.defects, *parent.defects, *root.defects]
    if found.config["method"] == PAIRED and not defects:
        defects += other_seeds(own, sides.parent)
    rows.append((f"{path}: number of defects", len(record["defects"]), len(defects), "the CSVs have"))
    if found.config["method"] == PAIRED:
        rows += _paired(found, slot, record, sides, weighed)
    elif not defects:
        again = scoring_summary(score(rules_of(found.config), own, parent, root))
        rows += _verdicts(path, record["scoring_summary"], again)
    yield from unequal(rows, _again(found, slot))


def _paired(
    found: Found, slot: Slot, record: Record, sides: Sides, weighed: Mapping[int, Record]
) -> Iterator[tuple[str, object, object, str]]:
    """From the CSVs to the pairs, from these to the verdict."""
    path = found.at.of_eval(slot, "pairs.json")
    pairs = found.record(path)
    if pairs is None or slot.depth not in weighed:  # the check of files has said so
        return
    for metric, series in pairs["series"].items():
        yield f"{path}: series of {metric}", series, series_of(sides, metric), "from the CSVs it is"
    again = settled({**found.config, "slot": str(slot)}, pairs, weighed[slot.depth])
    path = found.at.of_eval(slot, "summary.json")
    yield from _verdicts(path, record["scoring_summary"], scoring_summary(again.score))


def _verdicts(path: str, old: Record | None, new: Record | None) -> Iterator[tuple[str, object, object, str]]:
    for name in ("recommendation", "root_recommendation"):
        was, now = (side[name] if side else None for side in (old, new))
        same = dumped({name: was}) == dumped({name: now})
        yield from () if same else _numbers(f"{path}: {name}", was or {}, now or {})


def _numbers(where: str, was: Record, now: Record) -> Iterator[tuple[str, object, object, str]]:
    for name in sorted(now):
        yield f"{where}.{name}", was.get(name), _listed(now[name]), "from the CSVs it is"


def _listed(value: object) -> object:
    return [*value] if isinstance(value, tuple) else value


def decisions(found: Found) -> Check:
    faults = (fault for depth in found.promoted for fault in _depth(found, depth))
    return check("decisions, worked out again from the scores", len(found.promoted), faults)


def _depth(found: Found, depth: int) -> Iterator[Fault]:
    slots, path = found.slots(depth), found.at.of_depth(depth, "promoted.json")
    records = {slot: found.record(found.at.of_eval(slot, "summary.json")) for slot in slots}
    evaluations = [evaluation_of(slot, record) for slot, record in records.items() if record]
    if len(evaluations) < len(slots):  # the check of files has said which are missing
        return
    promotion = promote(evaluations, found.config["beam_width"], slots)
    decided = found.promoted[depth]
    rows: list[tuple[str, object, object, str]] = []
    for each in promotion.decisions:
        to = str(each.promoted_to) if each.promoted_to else None
        old = decided["decisions"].get(str(each.slot), {})
        rows.append((f"{path}: {each.slot}", old.get("promoted_to_node_id"), to, "by the scores it goes to"))
        rows.append((f"{path}: {each.slot}", old.get("failed_check"), each.failed, "by the scores it fails"))
    for place in promotion.slots:
        source, old = str(place.source) if place.source else None, decided["beam"].get(str(place.place), {})
        rows.append((f"{path}: {place.place}", old.get("promoted_from_eval_id"), source, "by the scores it comes from"))
    again = f"decide again: coppice forget {found.run}:d{depth}.promote, then coppice {found.run}"
    yield from unequal(rows, again)
