"""The command `stats`: what a ledger has, by strategy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.accounts import opt_json, show
from pipeline.build.command import NewCommand
from pipeline.build.meant import runs_of
from pipeline.build.proofs import PROVING
from pipeline.core.words import duration, plural
from pipeline.edge.ledger.reading import Reader
from pipeline.errors import SpecError

KEEPING = [kind for kind in kinds.KINDS if kinds.can(kind, kinds.PROVING)]


class Stats(NewCommand):
    name = "stats"
    doc_usage = "[RUN | LEDGER]"
    doc_purpose = "tell what a ledger has: attempts by strategy, cached tactics, open goals"
    doc_description = (
        "Of a run of kind: proof or mcts, of a file, or of the only ledger there is. Others may write to it meanwhile."
    )
    cmd_options = (opt_json,)

    def on_specs(self, params: Any, args: list[str]) -> int:
        if len(args) > 1:
            raise InvalidCommand(f"stats: name one run or ledger, not {len(args)}")
        ledger = _ledger(args)
        stats = stats_of(ledger)
        show({"ledger": ledger, **stats}, [*lines_of(ledger, stats)], params["json"])
        return 0


def _ledger(words: list[str]) -> str:
    if words and ("/" in words[0] or os.path.isfile(words[0])):
        return words[0]
    runs = {run: path for kind in KEEPING for run, path in runs_of(kind, words)}
    if words and words[0] not in runs:
        project.load(words)  # says what is wrong with the name, unless it is another kind of run
        raise SpecError(f"stats: '{words[0]}' keeps no ledger; that is for kinds: {', '.join(KEEPING)}")
    asked = words[:1] or [*runs]
    ledgers = sorted({project.declared(run, runs[run]).ledger for run in asked}) or [PROVING.alone("").ledger]
    if len(ledgers) > 1:
        raise SpecError(f"stats: name a run, or one of the ledgers: {', '.join(ledgers)}")
    only: str = ledgers[0]
    return only


def stats_of(ledger: str) -> dict[str, Any]:
    with closing(Reader(ledger)) as reader:
        return asdict(reader.stats())


def lines_of(ledger: str, stats: Mapping[str, Any]) -> Iterator[str]:
    open_ = f"{plural(stats['frontier'], 'goal')} open, {stats['untried']} of them never tried"
    yield f"{ledger}: {plural(stats['goals'], 'goal')}, {stats['proved']} proved; {open_}"
    width = max([8, *(len(each["strategy"]) for each in stats["strategies"])])
    yield f"{'strategy':{width}}  attempts  successes  avg time"
    for each in stats["strategies"]:
        time = duration(each["avg_time"], 3)
        yield f"{each['strategy']:{width}}  {each['attempts']:8}  {each['successes']:9}  {time:>8}"
    yield f"cached tactics for {plural(stats['cached_tactics'], 'goal')}"
