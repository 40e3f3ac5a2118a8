"""What TREE_SUMMARY.md and `coppice holdout` say of the seal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.words import plural
from pipeline.tree.tables import clipped, moved, number


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    result, openings = told["result"], told["openings"]
    if result:
        yield from _verdict(result)
    if len(openings) > 1:
        yield f"Opened {len(openings)} times: only what was found the first time is fresh."
    for line in openings if len(openings) > 1 else ():
        yield f"- {_opening(line)}"
    if told["lacking"]:
        yield f"From holdout.jsonl {plural(told['lacking'], 'line')} had been taken; what else was, nobody knows."


def _verdict(result: Mapping[str, Any]) -> Iterator[str]:
    found = result["comparison"]
    held = plural(len(result["blocks"]), "block") if result["blocks"] else plural(len(result["configs"]), "config")
    primary = next(each for each in found["metrics"] if each["name"] == result["primary"])
    change = f"{primary['name']} {moved(primary['baseline'], primary['candidate'])}"
    if evidence := found["evidence"]:
        yield (
            f"{result['final']} against the start on {held} held out: {change}, "
            f"estimate {number(evidence['estimate'])}, {number(evidence['lower'])} to {number(evidence['upper'])}, "
            f"p {evidence['p']:.3g}: "
            f"{evidence['verdict']} ({', '.join(evidence['reasons'])})."
        )
    else:
        yield f"{result['final']} against the start on {held} held out: {change}, score {number(found['score'])}."


def _opening(line: Mapping[str, Any]) -> str:
    if "final" not in line:
        return clipped(line["why"], 100)
    again = ", by --reopen" if line["reopened"] else ""
    return f"{line['when']}: {line['final']}, commit {line['commit'][:10]}{again}"
