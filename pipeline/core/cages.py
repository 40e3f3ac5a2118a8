"""Words of a spec about the cage of a command: its grade, its network, its limits, what is visible in it.

plain     nothing holds it but limits
landlock  it reads what is visible and writes to its own folders; no sockets
isolated  a machine of its own, in which there is nothing but that
trusted   isolated, and what it answers is judged by a command that runs none of its code
auto      the strongest of these that the machine has"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

PLAIN, LANDLOCK, ISOLATED, TRUSTED, AUTO = "plain", "landlock", "isolated", "trusted", "auto"
GRADES = (PLAIN, LANDLOCK, ISOLATED, TRUSTED)  # the weakest first
NO_NETWORK, LOCAL, FULL = "none", "local", "full"
NETWORKS = (NO_NETWORK, LOCAL, FULL)
SIZE_LIMITS = ("memory", "file_size", "output", "log")  # in bytes
# Keys of limits, in params that are no part of a recipe: of a command, and of several by name.
CAGE, CAGES = "cage", "cages"


class CageKeys(NamedTuple):
    """The cage of a command as a spec has it; empty where it says nothing.

    `line`: where its grade is named, or its network.  `judged`: a judge apart scores what it answers."""

    sandbox: str = ""
    network: str = ""
    limits: Mapping[str, float] = {}
    visible: tuple[str, ...] = ()
    line: int = 0
    judged: bool = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> CageKeys:
        return cls(**record)

    @property
    def record(self) -> dict[str, Any]:
        """The words that are there, as they stand in the limits of a target."""
        return {name: value for name, value in self._asdict().items() if value}

    @property
    def named_words(self) -> dict[str, str]:
        """The grade and the network as the spec has them, also those that no result depends on."""
        return {name: value for name, value in (("sandbox", self.sandbox), ("network", self.network)) if value}

    @property
    def is_named(self) -> bool:
        """Check if a grade stands there that must be had; `plain` can be had everywhere."""
        return self.sandbox in (LANDLOCK, ISOLATED, TRUSTED)

    def recipe(self, unnamed: str = AUTO) -> dict[str, Any]:
        """The words that a result depends on: the grade and the network that were asked for.  Plain has one network.

        `unnamed`: the grade of what names none, whose results need no word.  Where that is `auto`, a named `plain` has
        one: what was made in no cage at the word of one spec is believed by none that leaves the choice."""
        grade = {"sandbox": self.sandbox} if self.sandbox not in ("", AUTO, unnamed) else {}
        return {**grade, **({"network": self.network} if self.network and self.sandbox != PLAIN else {})}

    def within(self, outer: CageKeys) -> CageKeys:
        """The same, with what a whole run says where this says nothing."""
        named = self if self.sandbox or self.network else outer
        return CageKeys(
            self.sandbox or outer.sandbox,
            self.network or outer.network,
            {**outer.limits, **self.limits},
            tuple(dict.fromkeys((*outer.visible, *self.visible))),
            named.line,
        )


def cage_in(limits: Mapping[str, Any], part: str = "") -> CageKeys:
    """The cage that limits name, of a command or of a role; of `part`, where a target runs several commands."""
    return CageKeys.of(limits.get(CAGES, {}).get(part, {}) if part else limits.get(CAGE, {}))


def cages_in(limits: Mapping[str, Any]) -> Iterator[CageKeys]:
    """The cages that the limits of a target name: of its command, of several, of the roles that it asks."""
    records = [limits[CAGE]] if CAGE in limits else []
    records += [*limits.get(CAGES, {}).values()]
    records += [role[CAGE] for role in limits.values() if isinstance(role, dict) and CAGE in role]
    return map(CageKeys.of, records)
