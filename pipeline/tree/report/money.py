"""Money of a search: every call that this run has asked and paid for, by role, by depth and in the order of the slots.

The journals of calls have each call once: also those of failed rounds, of retries, of outages that were paid for, of
work that a kill broke off, and of answers that were wanted anew since.  A call that was noted before it was sent and
has no end on record was broken off, or is under way: it has a price that nobody knows.  Answers that were recalled from
the store or a recording have their cost in the records, and are not paid again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from math import fsum
from typing import Any, NamedTuple

from pipeline.core.outcome import OUTAGE_WORDS
from pipeline.core.text import BLANK, join_names, plural
from pipeline.models.calls import ASKED_FILE, CALLS_FILE, DamagedCall, journals, parse_call, unended_calls
from pipeline.models.contract import UNKNOWN, Usage
from pipeline.store.files import open_plain, whole_lines
from pipeline.store.noop import folder
from pipeline.tree.report.markdown import format_money, format_number, markdown_table
from pipeline.tree.rules.positions import NO_SLOT, EvalSlot, RunLayout, find_slot
from pipeline.trust.series import round_significant

MOST_CALL_FILES = 20_000
MOST_FOLDS = 20  # while calls are put aside
MOST_ROWS = 12  # of the table over time
AMOUNTS = {"evals": "evaluations", "usd": "USD", "tokens": "tokens", "seconds": "seconds"}
_PAID_ELSEWHERE = "replay"  # a recorded answer has its cost of then


class PaidCall(NamedTuple):
    """The cost of a call; `failed`: it gave no answer; `unended`: nobody knows how it ended, if it has."""

    role: str
    usage: Usage
    failed: bool = False
    slot: EvalSlot = NO_SLOT
    unended: bool = False
    key: str = ""  # of the question


_DAMAGED = PaidCall("unknown", UNKNOWN)


class Bill(NamedTuple):
    """Sums over calls; `usd` without those of unknown price."""

    calls: int = 0
    usd: float = 0.0
    unknown_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    failed_calls: int = 0
    failed_usd: float = 0.0
    unended_calls: int = 0


def bill_of(calls: Iterable[PaidCall]) -> Bill:
    found = [*calls]
    usages, failed = [call.usage for call in found], [call.usage for call in found if call.failed]
    return Bill(
        len(found),
        _usd(usages),
        sum(usage.usd is None for usage in usages),
        sum(usage.input_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        len(failed),
        _usd(failed),
        sum(call.unended for call in found),
    )


def _usd(usages: Iterable[Usage]) -> float:
    return round_significant(fsum(usage.usd or 0.0 for usage in usages))


def fold_money(run: str, slots: Collection[EvalSlot]) -> dict[str, Any]:
    """The bill of a run; `recalled_usd`: the cost of answers in use that were not asked for by this run, `again_usd`:
    of those that it asked for once, and used once more."""
    for _ in range(MOST_FOLDS):
        with suppress(FileNotFoundError):  # put aside since its folder was listed
            return _fold_money(run, slots)
    return _fold_money(run, slots)


def _fold_money(run: str, slots: Iterable[EvalSlot]) -> dict[str, Any]:
    by_slot: dict[EvalSlot, list[PaidCall]] = {}
    for call in sorted(_asked_calls(run), key=lambda call: call.slot):
        by_slot.setdefault(call.slot, []).append(call)
    calls = [call for own in by_slot.values() for call in own]
    over_time, usd, unknown = [], 0.0, 0
    for slot, own in by_slot.items():
        bill = bill_of(own)
        usd, unknown = round_significant(usd + bill.usd), unknown + bill.unknown_calls
        over_time.append({"eval_id": str(slot), "usd": usd, "unknown_calls": unknown})
    depths, recalled = sorted({slot.depth for slot in by_slot}), [*_recalled(run, slots)]
    asked = {call.key for call in calls if not call.failed}
    return {
        **bill_of(calls)._asdict(),
        **_used("recalled", (call for call in recalled if call.key not in asked)),
        **_used("again", (call for call in recalled if call.key in asked)),
        "by_role": {
            role: bill_of(call for call in calls if call.role == role)._asdict()
            for role in sorted({call.role for call in calls})
        },
        "by_depth": {str(d): bill_of(call for call in calls if call.slot.depth == d)._asdict() for d in depths},
        "over_time": over_time,
    }


def _used(how: str, calls: Iterable[PaidCall]) -> dict[str, float]:
    bill = bill_of(calls)
    return {f"{how}_usd": bill.usd, f"{how}_unknown_calls": bill.unknown_calls}


def _asked_calls(run: str) -> Iterator[PaidCall]:
    """The calls in the journals, which are kept when answers are wanted anew, and those that have no end there."""
    top = f"{folder(run)}/calls"
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        if slot := find_slot(name):
            yield from (call._replace(slot=slot) for call in _costs_in(f"{top}/{name}"))


def _recalled(run: str, slots: Iterable[EvalSlot]) -> Iterator[PaidCall]:
    """The calls in the records of a run for which it has no journal."""
    at = RunLayout(run)
    for slot in slots:
        for step, path in (("idea", at.idea(slot, "calls.jsonl")), ("implement", at.of_eval(slot, CALLS_FILE))):
            if os.path.exists(path) and not journals(f"{folder(run)}/calls/{slot}.{step}"):
                yield from _costs(path)


def _costs_in(folder: str) -> tuple[PaidCall, ...]:
    """The costs of a folder of calls, read again when one of its files has changed."""
    asked = f"{folder}/{ASKED_FILE}"
    return _costs_in_as_of(folder, tuple(map(_mark, [*journals(folder), *filter(os.path.exists, [asked])])))


_Mark = tuple[str, int, int]  # a file, its size and time


def _mark(path: str) -> _Mark:
    found = os.stat(path)
    return path, found.st_size, found.st_mtime_ns


@lru_cache(MOST_CALL_FILES)
def _costs_in_as_of(folder: str, _marks: tuple[_Mark, ...]) -> tuple[PaidCall, ...]:
    ended = [call for path in journals(folder) for call in _costs(path)]
    try:
        broken_off = unended_calls(folder)
    except (ValueError, TypeError):
        return (*ended, _DAMAGED._replace(unended=True))
    usages = [UNKNOWN if call.usd is None else Usage(call.usd) for call in broken_off]
    unended = [PaidCall(call.role, usage, unended=True) for call, usage in zip(broken_off, usages, strict=True)]
    return (*ended, *unended)


def _costs(path: str) -> tuple[PaidCall, ...]:
    return _costs_as_of(_mark(path))


@lru_cache(MOST_CALL_FILES)
def _costs_as_of(mark: _Mark) -> tuple[PaidCall, ...]:
    """The costs in a file of calls.  Validation names a damaged line; here it is a call of unknown price."""
    with open_plain(mark[0]) as file:
        return tuple(call for line in whole_lines(file) for call in _cost(line))


def _cost(line: bytes) -> Iterator[PaidCall]:
    try:
        call = parse_call(line, "")
    except DamagedCall:
        yield _DAMAGED
        return
    if call.backend != _PAID_ELSEWHERE:
        yield PaidCall(call.role, call.usage, call.exit != 0, key=call.key)


BUDGET_HEADER = ("amount", "limit", "spent", "left", "at most for one")


def budget_rows(manifest: Mapping[str, Any]) -> list[list[str]]:
    """Amounts allowed and spent."""
    state, config = manifest["state"], manifest["run_config"]
    sides = (config["budget"], state["spent"], state["left"], config["ceiling"])
    rows = [
        [label, *(BLANK if side[name] is None else f"{side[name]:,.12g}" for side in sides)]
        for name, label in AMOUNTS.items()
    ]
    if unknown := state["spent"].get("unknown_calls"):
        rows[1][2] += f" + {plural(unknown, 'call')} of unknown price"
    return rows


def budget_table(manifest: Mapping[str, Any]) -> list[str]:
    """Amounts allowed and spent, and what is to be said of them."""
    lines = markdown_table(BUDGET_HEADER, budget_rows(manifest), right=BUDGET_HEADER[1:])
    return [*lines, *(line for each in budget_remarks(manifest) for line in ("", each))]


def budget_remarks(manifest: Mapping[str, Any]) -> list[str]:
    """Warnings of what cost more than was meant, and what is neither spent nor left, or not counted."""
    state, config = manifest["state"], manifest["run_config"]
    most = config["ceiling"]
    capped = [name for name in AMOUNTS if most[name] is not None]
    spent = {slot: each["spent"] for slot, each in manifest["evaluations"].items() if each["spent"]}
    dear = ", ".join(slot for slot, cost in spent.items() if any(cost[name] > most[name] for name in capped))
    warning = f"**More than `per_eval` allows:** {dear}. The budget held less than was meant; raise `per_eval`."
    limits = {name: limit for name in AMOUNTS if (limit := config["budget"][name]) is not None}
    beyond = [name for name, limit in limits.items() if most[name] is None and state["spent"][name] > limit]
    why = f"without `per_eval` for {join_names(beyond)}, all evaluations of a depth start while anything is left"
    remarks = [
        warning if dear else "",
        f"**More than the budget was spent:** {why}." if beyond else "",
        _held_line(manifest),
        _uncounted_line(manifest),
    ]
    return [*filter(None, remarks)]


def _held_line(manifest: Mapping[str, Any]) -> str:
    """The line on money that is neither spent nor left."""
    state, unknown = manifest["state"], plural(manifest["state"]["spent"]["unknown_calls"], "call")
    held = state["held_usd"]
    if manifest["run_config"]["budget"]["usd"] is None or not (held["unknown"] is None or any(held.values())):
        return ""
    if held["unknown"] is None:
        return f"Nothing is left, since nobody knows what {unknown} of unknown price cost: `per_eval` would say it."
    parts = [f"{held['unknown']:.12g} USD count for {unknown} of unknown price"] if held["unknown"] else []
    parts += [f"{held['reserved']:.12g} USD are reserved for evaluations that have not ended"] * bool(held["reserved"])
    return f"Neither spent nor left: {' and '.join(parts)}."


def _uncounted_line(manifest: Mapping[str, Any]) -> str:
    """The line on what is on the bill, or was recalled, and is not in `spent`; empty where that is all the same."""
    money, state = manifest["money"], manifest["state"]
    spent, unended = state["spent"], money["unended_calls"]
    known, all_unknown = (
        sum(money[f"{kind}{what}"] for kind in ("", "recalled_", "again_")) for what in ("usd", "unknown_calls")
    )
    usd = 0.0 if known - spent["usd"] <= 1e-9 * known else round_significant(known - spent["usd"])
    unknown = max(0, all_unknown - spent["unknown_calls"])
    if not usd and not unknown:
        return ""
    is_open = any(depth["unfinished"] for depth in state["depth_progress_by_depth"].values())
    is_over = state["stop_reason"] and state["stop_reason"] not in OUTAGE_WORDS and not is_open
    causes = ["answers that are not in use any more, after a retry for instance"] if usd or unknown > unended else []
    causes = causes if is_over else ["work that has not ended", "answers that are not in use any more"]
    causes += ["calls that were broken off"] if unended else []
    amount = format_bill({"usd": usd, "unknown_calls": unknown, "unended_calls": 0})
    return f"Not counted here: {amount} for {join_names(causes)}."


def format_bill(bill: Mapping[str, Any]) -> str:
    """The known sum, and how much is unknown: `0.42 USD + 3 calls of unknown price (1 broken off or under way)`."""
    unknown, unended = bill["unknown_calls"], bill["unended_calls"]
    why = f" ({unended} broken off or under way)" if unknown and unended else ""
    return f"{format_money(bill['usd'], unknown)}{why}"


TIME_HEADER = ("up to", "USD so far", "unknown")
BILL_HEADER = ("role or depth", "USD", "unknown", "calls", "tokens in", "cached", "tokens out", "failed")


def money_lines(manifest: Mapping[str, Any]) -> list[str]:
    """The section on money of a summary; nothing where nobody was asked."""
    money = manifest["money"]
    recalled = f"Recalled, and not paid here: {money['recalled_usd']:.12g} USD." if money["recalled_usd"] else ""
    again = f"Used once more, and not paid again: {money['again_usd']:.12g} USD." if money["again_usd"] else ""
    if not money["calls"]:
        return [recalled] if recalled else []
    failed = f"; {money['failed_usd']:.12g} USD of it for {plural(money['failed_calls'], 'call')} that failed"
    head = f"Paid: {format_bill(money)}, for {plural(money['calls'], 'call')}{failed if money['failed_calls'] else ''}."
    rows = [bill_cells(role, bill) for role, bill in money["by_role"].items()]
    rows += [bill_cells(f"depth {depth}", bill) for depth, bill in money["by_depth"].items()]
    spent, parts = money["over_time"], min(MOST_ROWS, len(money["over_time"]))
    shown = [spent[(n + 1) * len(spent) // parts - 1] for n in range(parts)]
    over_time = markdown_table(TIME_HEADER, [_sum_row(each) for each in shown], right=TIME_HEADER[1:])
    lines = [
        " ".join(filter(None, [head, recalled, again])),
        "",
        *markdown_table(BILL_HEADER, rows, right=BILL_HEADER[1:]),
    ]
    return [*lines, "", *over_time]


def bill_cells(name: str, bill: Mapping[str, Any]) -> list[str]:
    failed = f"{bill['failed_calls']} ({format_number(bill['failed_usd'])} USD)" if bill["failed_calls"] else BLANK
    tokens = [f"{bill[f'{kind}_tokens']:,}" for kind in ("input", "cached", "output")]
    return [name, f"{bill['usd']:.4f}", str(bill["unknown_calls"] or BLANK), str(bill["calls"]), *tokens, failed]


def _sum_row(spent: Mapping[str, Any]) -> list[str]:
    return [spent["eval_id"], f"{spent['usd']:.4f}", str(spent["unknown_calls"] or BLANK)]
