"""The key `checks:` of a tree spec: commands that must end well before the sweep, and canaries among them."""

from __future__ import annotations

from pipeline.declared import checked_name, number
from pipeline.spec import Item
from pipeline.tree.model import Canary, CheckCommand, Command
from pipeline.tree.read_sweep import COMMAND_KEYS, EVERYWHERE, read_command

CANARY_KEYS = ("cut", "column", "cuts", "tolerance", "from")
CHECK_KEYS = (*COMMAND_KEYS, *CANARY_KEYS)
CHECKING = (*EVERYWHERE, "output")
# What it writes is read by a canary only.
CANARY = (*CHECKING, "results")
CUTS, TOLERANCE, FROM = 5, 1e-9, 0.5
MOST_CUTS = 100

Keys = dict[str, Item]


def checks(item: Item, timeout: float | None) -> tuple[CheckCommand, ...]:
    found = tuple(_check(checked_name(name, each, "checks"), each, timeout) for name, each in item.pairs("checks"))
    return found or item.wrong("checks: there are none; give name: {run: …}, or leave the key out")


def _check(name: str, item: Item, timeout: float | None) -> CheckCommand:
    what = f"checks: {name}"
    keys = item.fields(what, CHECK_KEYS, ("run",))
    alone = next((key for key in CANARY_KEYS[1:] if key in keys and "cut" not in keys), "")
    if alone:
        keys[alone].wrong(f"{what}: {alone} is said of a canary; name in `cut:` which of its reads is cut")
    command = read_command(item, keys, what, CANARY if "cut" in keys else CHECKING, timeout)
    return CheckCommand(name, command, _canary(keys, what, command) if "cut" in keys else None)


def _canary(keys: Keys, what: str, command: Command) -> Canary:
    reads = command.reads
    port = keys["cut"].text(f"{what}: cut")
    if port not in reads:
        known = f"one of {', '.join(sorted(reads))}" if reads else "the name of one of its `reads:`; it has none"
        keys["cut"].wrong(f"{what}: cut: '{port}' is not read by it; give {known}")
    if len(reads[port]) > 1:
        keys["cut"].wrong(f"{what}: cut: '{port}' is several files; one can be cut")
    if port not in command.uses:
        keys["run"].wrong(f"{what}: run: it never names {{{port}}}, so that it would not see that this is cut")
    return Canary(
        port,
        keys["column"].text(f"{what}: column") if "column" in keys else "",
        keys["cuts"].count(f"{what}: cuts", 1, MOST_CUTS) if "cuts" in keys else CUTS,
        number(keys["tolerance"], f"{what}: tolerance", 0) if "tolerance" in keys else TOLERANCE,
        _part(keys["from"], f"{what}: from") if "from" in keys else FROM,
    )


def _part(item: Item, what: str) -> float:
    value = number(item, what, 0)
    return value if value < 1 else item.wrong(f"{what}: expected a part of the rows, from 0 to below 1")
