"""A search accounts for its decisions: each one made again, each one explained."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.recipe import recipe
from pipeline.core.words import plural
from pipeline.errors import SpecError
from pipeline.tree.explanation import Explanation, slot_named
from pipeline.tree.layout import Layout
from pipeline.tree.records import Record
from pipeline.tree.replaying import DIFFERENT, LOST, SAME, STALE, Replayed, replayed
from pipeline.tree.stages import STAGES
from pipeline.tree.tables import clipped, plain

# For people: how a check ended, and what became of a decision.
MARKS = {True: "passed", False: "FAILED", None: "-"}
WORDS = {SAME: "the same again", DIFFERENT: "different", LOST: "not to be rebuilt", STALE: "stale"}


def replay(run: str, targets: Sequence[Target]) -> Record:
    if not os.path.exists(Layout(run).of_run("root.json")):
        raise SpecError(f"{run}: nothing is recorded of it yet; `coppice {run}` builds it")
    found = replayed(run, recipes(targets))
    return {
        "run": run,
        "decisions": len(found),
        **{outcome: sum(each.outcome == outcome for each in found) for outcome in WORDS},
        "edited": sum(each.edited for each in found),
        "targets": [_record(each) for each in found],
    }


def recipes(targets: Sequence[Target]) -> dict[str, Any]:
    """As the spec is today."""
    return {target.name: recipe(target, STAGES[target.stage].code) for target in targets}


def agrees(replay: Mapping[str, Any]) -> bool:
    """What is stale is only to be built; it says nothing against the records."""
    return not replay[DIFFERENT] and not replay[LOST]


def replay_lines(replay: Mapping[str, Any]) -> list[str]:
    """What did not come out the same, and how many decisions there are."""
    lines = [plain(line) for each in replay["targets"] for line in _lines(each)]
    counts = ", ".join(f"{replay[outcome]} {word}" for outcome, word in WORDS.items() if replay[outcome])
    edited = f"; {replay['edited']} were decided by another spec than today's" if replay["edited"] else ""
    total = plural(replay["decisions"], "decision") if replay["decisions"] else "nothing is decided yet"
    return [*lines, f"{replay['run']}: {total}{': ' if counts else ''}{counts}{edited}"]


def _record(each: Replayed) -> Record:
    return each._asdict() | {"differences": [difference._asdict() for difference in each.differences]}


def _lines(each: Mapping[str, Any]) -> list[str]:
    name = each["target"]
    if each["outcome"] in (LOST, STALE):
        return [f"{name}: {WORDS[each['outcome']]}: {each['why']}"]
    return [f"{name}: {_differs(difference)}" for difference in each["differences"]]


def _differs(it: Mapping[str, str]) -> str:
    where = f"{it['path']}: {it['where']}".removesuffix(": ")
    return f"{where}: recorded {clipped(it['recorded'], 80)}, rebuilt {clipped(it['rebuilt'], 80)}"


def explain(run: str, targets: Sequence[Target], word: str) -> Record:
    return Explanation(run, slot_named(run, targets, word), targets).record(recipes(targets))


def explain_lines(explained: Mapping[str, Any]) -> list[str]:
    to, failed = explained["promoted_to"], explained["failed_check"]
    how = f"promoted to {to}" if to else f"not promoted: {failed}" if failed else explained["why"]
    lines = [f"{explained['evaluation']} ({clipped(explained['idea'], 60) or 'no idea'}): {how}"]
    checks = explained["checks"]
    size = max(len(each["check"]) for each in checks)
    lines += [f"  {MARKS[each['passed']]:6}  {each['check']:{size}}  {_check(each)}".rstrip() for each in checks]
    lines += [*_beaten(explained)]
    if explained["edited"]:
        lines.append("  It was decided by another spec than today's.")
    return lines


def _check(each: Mapping[str, Any]) -> str:
    return f"{each['what']}; needs {each['needs']}" if each["needs"] else each["what"]


def _beaten(explained: Mapping[str, Any]) -> list[str]:
    """Whom it was promoted before."""
    if not explained["others"]:
        return []
    margin, after = explained["margin"], explained["next"]
    by = f"by {margin:.6g}" if margin else "as the better by its primary metric, or the earlier slot"
    lines = [f"  ahead of {after} {by}"] if after else []
    for each in explained["others"]:
        to, name = each["promoted_to_node_id"], each["evaluation"]
        lines.append(f"  {name}: " + (f"promoted to {to}, too" if to else f"{each['failed_check']}: {each['why']}"))
    return lines
