"""Commands about proofs: bank and mcts prove a bank, bg goes on with open goals, stats tells what a ledger has.

What options say goes before the environment, and that before the spec."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import NewCommand, build_plainly, opt_json, option, print_result, reporting
from pipeline.commands.flags import TypedItem, flag_options, flag_values
from pipeline.commands.selection import ChosenRun, choose_run, plans_for, plans_with_dependencies, runs_of_kind
from pipeline.core.text import duration, plural
from pipeline.errors import SpecError
from pipeline.goals.attempts import LedgerStats
from pipeline.machine.lock import lock_runs
from pipeline.spec import parse
from pipeline.store.files import write_whole
from pipeline.store.ledger import LedgerReader

PROOF = "proof"
PROOF_FLAGS = kinds.flags(PROOF)
PROVING = kinds.ability_module(PROOF, kinds.PROVE)


def spec_with_options(command: str, spec: Any, params: Mapping[str, Any]) -> Any:
    """Apply options and environment to a spec: options go before the environment, that before the spec."""
    values: dict[str, Any] = {}
    for flag in PROVING.VARIABLES:
        if text := os.environ.get(flag.variable, ""):
            node = parse(text.encode(errors="surrogateescape"), flag.variable).node
            values[flag.key] = flag.read(TypedItem("environment", node), flag.variable)
    values |= {each.flag.key: each.value for each in flag_values(command, PROOF_FLAGS, params)}
    return PROVING.with_overrides(spec, values)


LEDGER_KINDS = kinds.PROVE.kinds


class StatsCommand(NewCommand):
    name = "stats"
    doc_usage = "[RUN | LEDGER]"
    doc_purpose = "tell what a ledger has: attempts by strategy, cached tactics, open goals"
    doc_description = (
        "Of a run of kind: proof or mcts, of a file, or of the only ledger there is. Others may write to it meanwhile."
    )
    cmd_options = (opt_json,)
    takes = (0, 1, "name one run or ledger")

    def on_specs(self, params: Any, args: list[str]) -> int:
        ledger = _ledger_path(args)
        stats = _read_stats(ledger)
        print_result({"ledger": ledger, **asdict(stats)}, [*stats_lines(ledger, stats)], params["json"])
        return 0


def _ledger_path(words: list[str]) -> str:
    if words and ("/" in words[0] or os.path.isfile(words[0])):
        return words[0]
    runs = runs_of_kind(
        LEDGER_KINDS, words, f"stats: '{{}}' keeps no ledger; that is for kinds: {', '.join(LEDGER_KINDS)}"
    )
    named = words[:1] or [*runs]
    ledgers = sorted({project.read_spec(run, runs[run]).ledger for run in named}) or [PROVING.spec_for_bank("").ledger]
    if len(ledgers) > 1:
        raise SpecError(f"stats: name a run, or one of the ledgers: {', '.join(ledgers)}")
    return str(ledgers[0])


def _read_stats(ledger: str) -> LedgerStats:
    with closing(LedgerReader(ledger)) as reader:
        return reader.stats()


def stats_lines(ledger: str, stats: LedgerStats) -> Iterator[str]:
    open_ = f"{plural(stats.frontier, 'goal')} open, {stats.untried} of them never tried"
    yield f"{ledger}: {plural(stats.goals, 'goal')}, {stats.proved} proved; {open_}"
    width = max([8, *(len(each.strategy) for each in stats.strategies)])
    yield f"{'strategy':{width}}  attempts  successes  avg time"
    for each in stats.strategies:
        time = duration(each.avg_time, 3)
        yield f"{each.strategy:{width}}  {each.attempts:8}  {each.successes:9}  {time:>8}"
    yield f"cached tactics for {plural(stats.cached_tactics, 'goal')}"


LEDGER_NOTE = "every attempt that ended is in {}"
BANK_RUN = "bank"  # no spec can have the name
RESULTS_FOLDER = "bench/results"


class BankCommand(NewCommand):
    name = "bank"
    doc_usage = "[RUN | BANK.jsonl]"
    doc_purpose = "prove the goals of a bank and write what came of it"
    doc_description = (
        "The bank, the Lean and the rest of a run of kind: proof, with what options and the environment say in place of"
        " its spec: ORCH_PROFILE, ORCH_CPU_TARGET, ORCH_MAX_LIGHT, ORCH_MAX_HEAVY, ORCH_ESCALATE_THRESHOLD. Attempts"
        " that the ledger has are not made again. Its other outputs are in runs/bank/."
    )
    cmd_options = (
        *flag_options(PROOF_FLAGS),
        option("output", f"write the results there [default: {RESULTS_FOLDER}/bank-TIMESTAMP.json]", "", "FILE"),
    )
    takes = (0, 1, "name one run or bank")

    def on_specs(self, params: Any, args: list[str]) -> int:
        chosen = choose_run(self.name, args, PROOF)
        spec = spec_with_options(self.name, chosen.spec, params)._replace(name=BANK_RUN)
        self.after_interrupt = LEDGER_NOTE.format(spec.ledger)
        plans = plans_with_dependencies(PROOF, chosen, spec, [*kinds.plan(PROOF, spec)])
        with lock_runs([*plans]) as locks:
            if code := build_plainly(plans, locks, [BANK_RUN], 1):
                return code
            content = Path(f"runs/{BANK_RUN}/results.json").read_bytes()
            # A copy that the next bank leaves alone.
            path = params["output"] or f"{RESULTS_FOLDER}/bank-{json.loads(content)['timestamp']}.json"
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            write_whole(path, content, durable=True)
        print(path)
        return 0


BG_RUN = "bg"  # no spec can have the name


class BgCommand(NewCommand):
    name = "bg"
    doc_usage = "[RUN]"
    doc_purpose = "go on with goals that are open, with ever larger budgets"
    doc_description = (
        "Those of a run of kind: proof, or without a name all that the ledger knows, never tried ones first. Ends with"
        " --duration, with Ctrl-C, or when all is proved. The environment counts as for `bank`."
    )
    cmd_options = (option("duration", "how long: 90, 90s, 10m, 2h [default: until Ctrl-C]", "", "S"),)
    takes = (0, 1, "name one run")

    def on_specs(self, params: Any, args: list[str]) -> int:
        typed = params["duration"]
        seconds = TypedItem("bg", parse(typed.encode(), "bg").node).seconds("--duration") if typed else None
        one = args or len(runs_of_kind([PROOF])) == 1
        chosen = choose_run(self.name, args, PROOF) if one else ChosenRun("", "specs", PROVING.spec_for_bank(""))
        spec = spec_with_options(self.name, chosen.spec, {"profile": None, "timeout": None})._replace(name=BG_RUN)
        self.after_interrupt = LEDGER_NOTE.format(spec.ledger)
        with reporting(lambda: print("\n".join(stats_lines(spec.ledger, _read_stats(spec.ledger))))):
            bank = f"runs/{chosen.run}/bank.json" if args else ""  # else all that the ledger has
            targets = kinds.ability_module(PROOF, kinds.PURSUE).pursuit(spec, bank, seconds, str(time.time_ns()))
            plans = plans_with_dependencies(PROOF, chosen, spec, targets)
            with lock_runs([*plans]) as locks:
                return build_plainly(plans, locks, [BG_RUN], 1)


MCTS = "mcts"
MCTS_RUN = "mcts-flags"  # no spec can have the name
MCTS_FLAGS = kinds.flags(MCTS)


class MctsCommand(NewCommand):
    name = "mcts"
    doc_usage = "[RUN | BANK.jsonl]"
    doc_purpose = "search a bank for proofs by Monte-Carlo tree search, under a scenario given by flags"
    doc_description = (
        "Without flags as the spec of a run of kind: mcts says. With them, its bank, budget and seeds, and one scenario"
        f" in place of its own, that of the flags; outputs are then in runs/{MCTS_RUN}/. Searches that were made before"
        " are not made again."
    )
    cmd_options = (*flag_options(MCTS_FLAGS),)
    takes = (0, 1, "name one run or bank")
    after_interrupt = "what was finished is kept, and a search goes on where it was"

    def on_specs(self, params: Any, args: list[str]) -> int:
        values = {each.flag.key: each.value for each in flag_values(self.name, MCTS_FLAGS, params)}
        chosen = choose_run(self.name, args, MCTS)
        as_it_is = chosen.run and not values
        if as_it_is:
            plans = plans_for([chosen.run])
        else:
            spec = kinds.ability_module(MCTS, kinds.PROVE).with_overrides(chosen.spec, values)._replace(name=MCTS_RUN)
            plans = plans_with_dependencies(MCTS, chosen, spec, [*kinds.plan(MCTS, spec)])
        with lock_runs([*plans]) as locks:
            return build_plainly(plans, locks, [chosen.run if as_it_is else MCTS_RUN], 0)
