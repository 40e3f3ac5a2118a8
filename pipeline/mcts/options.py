"""What a scenario may say: the keys of a spec, and the flags of `coppice mcts` that say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipeline.banks.read import share
from pipeline.declared import choice, flag, number
from pipeline.mcts.journal import CENTRALIZED, DISTRIBUTED
from pipeline.mcts.steering import UNOBSERVED, VIRTUAL_LOSS
from pipeline.spec import Item

MODES = (CENTRALIZED, DISTRIBUTED)
RESERVATIONS = (VIRTUAL_LOSS, UNOBSERVED)
MOST_AGENTS, MOST_TURNS, MOST_SEED = 1000, 1_000_000, 2**31
PREFIX = "mcts_"

Read = Callable[[Item, str], Any]


class Option(NamedTuple):
    """`flag` as it is typed after `--mcts-`; `needs`: keys without which it would mean nothing.

    `inverse`: a switch that can be turned off."""

    read: Read
    flag: str
    value: str
    help: str
    needs: tuple[str, ...] = ()
    inverse: bool = False


def _count(least: int, most: int = MOST_TURNS) -> Read:
    return lambda item, what: item.count(what, least, most)


def _amount(item: Item, what: str) -> float:
    return number(item, what, 0)


# By key; a dot stands between a key and one within it.
OPTIONS: Mapping[str, Option] = {
    "mode": Option(lambda item, what: choice(item, what, MODES), "mode", "MODE", "centralized or distributed"),
    "agents": Option(_count(1, MOST_AGENTS), "agents", "N", "controllers over the one tree"),
    "inflight": Option(_count(1), "inflight", "N", "tactics of a goal that may be tried at once"),
    "reservation": Option(
        lambda item, what: choice(item, what, RESERVATIONS), "reservation", "NAME", "virtual-loss or unobserved"
    ),
    "virtual_loss": Option(_amount, "virtual-loss", "X", "lost visits that a reservation counts as"),
    "depth_bias": Option(number, "depth-bias", "X", "added for each step that a goal is from the root"),
    "path_bias": Option(number, "path-bias", "X", "added to what the agent's last way went through"),
    "history_cache": Option(_count(1), "history-cache", "N", "turns after which an agent looks at the tree again"),
    "deterministic_inference": Option(
        flag, "deterministic-inference", "", "answers in virtual time, not as they come", inverse=True
    ),
    "block.fraction": Option(share, "block-fraction", "X", "share of goals that are blocked when first come to"),
    "block.duration": Option(
        _count(-1), "block-duration", "N", "iterations for which; -1 for good", ("block.fraction",)
    ),
    "block.seed": Option(_count(0, MOST_SEED), "block-seed", "N", "which goals", ("block.fraction",)),
    "block.immovable_fraction": Option(
        share, "block-immovable-fraction", "X", "share of blocked goals that nothing thaws", ("block.fraction",)
    ),
    "block.unfreeze_after": Option(
        _count(0), "unfreeze-after", "N", "hits that thaw a blocked goal; 0 for none", ("block.fraction",)
    ),
    "block.unfreeze_prob": Option(share, "unfreeze-prob", "X", "chance that a hit thaws it", ("block.fraction",)),
    "reroute.blocked": Option(flag, "reroute-blocked", "", "turn to other goals", ("block.fraction", "reroute.max")),
    "reroute.max": Option(
        _count(1), "reroute-max", "N", "how many, in an iteration", ("block.fraction", "reroute.blocked")
    ),
    "delay.prob": Option(share, "delay-prob", "X", "chance that coming to a goal delays it", ("delay.duration",)),
    "delay.duration": Option(_count(0), "delay-duration", "N", "iterations for which", ("delay.prob",)),
    "delay.seed": Option(_count(0, MOST_SEED), "delay-seed", "N", "whose chance", ("delay.prob",)),
}
GROUPS = tuple(dict.fromkeys(key.partition(".")[0] for key in OPTIONS if "." in key))
KEYS = tuple(dict.fromkeys(key.partition(".")[0] for key in OPTIONS))


def keys_of(group: str) -> tuple[str, ...]:
    return tuple(key.partition(".")[2] for key in OPTIONS if key.startswith(f"{group}."))


def spoken(key: str) -> str:
    """As a message about a spec has it."""
    return key.replace(".", ": ")


def typed(key: str) -> str:
    """As a message about the command line has it."""
    return f"--mcts-{OPTIONS[key].flag}"
