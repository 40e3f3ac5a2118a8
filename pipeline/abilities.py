"""What a kind of run may be able to do beside being built: the module that does it, as others see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome

if TYPE_CHECKING:
    from pipeline.spec import Item


class Follower(Protocol):
    """Told by the main thread.  What `over` returns is for people to read at the end."""

    def begin(self) -> None: ...
    def started(self, target: Target, new: bool) -> None: ...
    def ended(self, target: Target, outcome: Outcome) -> None: ...
    def over(self, stopped: bool) -> str: ...


class Following(Protocol):
    """Makes who hears of one build of a run, in which the targets `todo` are in doubt."""

    def follower(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> Follower: ...


class Advancing(Protocol):
    """`done`: so many rounds, from the first on, are as they should be."""

    def rounds(self, targets: Sequence[Target]) -> Sequence[Sequence[str]]:
        """The targets that end each."""

    def standing(self, run: str, targets: Sequence[Target], done: int) -> Mapping[str, Any]:
        """As it is printed; there is no round left to be started when it has stopped."""

    def stopped(self, run: str, done: int) -> bool:
        """Is that so?"""

    def summarize(self, run: str, targets: Sequence[Target], done: int) -> None:
        """Writes a summary before the end."""

    def report(self, run: str, targets: Sequence[Target]) -> str:
        """Writes the summary from what is recorded; its path."""

    def validate(self, run: str, targets: Sequence[Target]) -> tuple[str, int]:
        """Writes whether the records hold together; the path, and how many problems there are."""


class Accounting(Protocol):
    """How what is recorded came to be decided.  Changes nothing, and what it tells is as it is printed for tools."""

    def replay(self, run: str, targets: Sequence[Target]) -> Mapping[str, Any]:
        """Each decision made again."""

    def agrees(self, replay: Mapping[str, Any]) -> bool:
        """Did all come out as it is recorded?"""

    def replay_lines(self, replay: Mapping[str, Any]) -> Sequence[str]:
        """For people."""

    def explain(self, run: str, targets: Sequence[Target], word: str) -> Mapping[str, Any]:
        """One decision, `word` being what was asked for; SpecError when there is none."""

    def explain_lines(self, explained: Mapping[str, Any]) -> Sequence[str]:
        """For people."""


class Calibrating(Protocol):
    """`again`: targets that no plan has, which measure once more what a search starts from."""

    def seeds(self, run: str, targets: Sequence[Target], count: int) -> list[Target]:
        """Those, so many times over; none where the measurement takes no seed.  SpecError if it is of no use anyway."""

    def needed(self, run: str, again: Sequence[Target]) -> list[str]:
        """The targets that must be there."""

    def calibrate(
        self, run: str, targets: Sequence[Target], again: Sequence[Target], depths: int, seed: int
    ) -> Mapping[str, Any]:
        """By so many made-up depths, or 0 for as many as are reasonable; as it is printed for tools."""

    def lines(self, record: Mapping[str, Any]) -> Sequence[str]:
        """For people."""


class Holding(Protocol):
    """What is measured once, after the end."""

    RETOLD: Sequence[str]  # targets that have to tell of it too

    def sources(self, spec: Any) -> Sequence[str]:
        """Runs whose outputs it reads."""

    def question(self, run: str, spec: Any, planned: Sequence[Target]) -> Mapping[str, Any]:
        """Of what, on what; SpecError when there is nothing to ask."""

    def open_seal(self, run: str, question: Mapping[str, Any], reopen: bool) -> None:
        """Writes it down before anything is measured; SpecError when it must not be."""

    def targets(self, spec: Any, asked: Mapping[str, Any]) -> Sequence[Target]:
        """What measures; the last is `holdout`."""

    def told(self, run: str) -> Mapping[str, Any]:
        """What is recorded of it, for tools."""

    def lines(self, told: Mapping[str, Any]) -> Iterable[str]:
        """For people."""


class Proving(Protocol):
    """Its specs have a `ledger`; its FLAGS say what a spec says."""

    def alone(self, bank: str) -> Any:
        """The spec of a bank that has none."""

    def overridden(self, spec: Any, values: Mapping[str, Any]) -> Any:
        """With what options and variables say, by the keys of FLAGS and VARIABLES, in place of what the spec does."""


class Pursuing(Protocol):
    def pursuit(self, spec: Any, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]:
        """Targets that work on open goals."""


class Flag(Protocol):
    """An option that stands for `key` of the spec."""

    @property
    def key(self) -> str: ...
    @property
    def default(self) -> Any:
        """What a spec without the key has."""

    @property
    def value(self) -> str:
        """What its value is called; empty for a switch."""

    @property
    def variable(self) -> str:
        """Of the environment, that says the same; empty for none."""

    @property
    def inverse(self) -> bool:
        """A switch that can be turned off."""

    @property
    def help(self) -> str: ...
    def read(self, item: Item, what: str) -> Any:
        """The value there; `what` is for messages."""
