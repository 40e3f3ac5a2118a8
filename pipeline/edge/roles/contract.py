"""What is asked of a role, what comes back, and the two ways in which asking goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipeline.edge.process import Processes

MOST = 1e15


class Usage(NamedTuple):
    """What a call cost; zero where the backend does not say."""

    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


FREE = Usage()


class Question(NamedTuple):
    """A command runs in `folder`: a coder edits the files there.  `name` is that of the slot, for messages.

    `ground`: the hash of the files there at first.  The same words about other code are another question."""

    role: str
    prompt: str
    folder: str
    log: str
    name: str = ""
    ground: str = ""


class Answer(NamedTuple):
    """`patch`: what a recorded coder changed.  Only replay has it: the others change the folder itself, or say how.

    `trouble`: what a program that ended well says of its service; it counts where nothing else came of it."""

    text: str
    usage: Usage = FREE
    seconds: float = 0.0
    model: str = ""
    patch: bytes = b""
    trouble: str = ""


class Unavailable(Exception):
    """The backend cannot be used: the environment is at fault, not the candidate; the next build asks again.

    It may have cost something all the same."""

    def __init__(self, why: str, usage: Usage = FREE, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.usage, self.seconds = usage, seconds


class Failed(Exception):
    """It was asked and failed: recorded as the candidate's failure, with what it cost."""

    def __init__(self, why: str, exit: int, usage: Usage = FREE, seconds: float = 0.0) -> None:  # noqa: A002
        super().__init__(why)
        self.exit, self.usage, self.seconds = exit, usage, seconds


class Desk(NamedTuple):
    """What a backend needs of the build that asks."""

    processes: Processes
    run: str
    hidden: tuple[str, ...] = ()  # files that a backend must not be able to read, where the kernel sees to that


Backend = Callable[[Mapping[str, Any], Question, Desk], Answer]


def amount(value: Any) -> float | None:
    """A number as a backend tells it, or None if it is none: what is paid is neither negative nor without end."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST:
        return None
    return value


def priced(usage: Usage, price: Mapping[str, float] | None) -> Usage:
    """With its cost at `price`, which is in USD for a million tokens; what the backend says it cost comes first."""
    if usage.usd or price is None:
        return usage
    cost = usage.input_tokens * price["input"] + usage.output_tokens * price["output"]
    return usage._replace(usd=cost / 1_000_000)
