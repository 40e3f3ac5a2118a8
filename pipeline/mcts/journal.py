"""All that a search is asked and told, a line each: enough to do it again, and to go on after any line.

The journal is the truth and the trace is folded from it.  They are two files: an iteration has a line in the trace when
it is over, and two in the journal, when it starts and when it is answered; of a search that was killed, some have only
the first.  Nor does who reads a trace need every goal that an answer spoke of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pipeline.mcts import as_json
from pipeline.mcts.centralized import Centralized
from pipeline.mcts.clocks import AsTheyCome, Virtual
from pipeline.mcts.distributed import Distributed, Team
from pipeline.mcts.model import Expand, Outcome, Rules, Subgoal
from pipeline.mcts.trace import Note
from pipeline.mcts.tree import Tree

VERSION = 1
CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
VIRTUAL_TIME, REAL_TIME = "virtual", "real"
CLOCKS: dict[str, type[Virtual] | type[AsTheyCome]] = {VIRTUAL_TIME: Virtual, REAL_TIME: AsTheyCome}

Write = Callable[[str], object]


class Policy(Protocol):
    """`version` grows with whatever changes what it will do next."""

    @property
    def version(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def tree(self) -> Tree: ...
    @property
    def calls(self) -> int: ...
    @property
    def unanswered(self) -> list[Expand]: ...
    def ask(self) -> Expand | None: ...
    def tell(self, outcome: Outcome) -> None: ...


def policy(rules: Rules | Team, root: Subgoal, note: Note, time: str = VIRTUAL_TIME) -> Policy:
    """The mode is that of the rules; one is never taken for the other."""
    if isinstance(rules, Team):
        return CLOCKS[time](Distributed(rules, root, note))
    return Centralized(rules, root, note)


def line(number: int, what: str, **fields: Any) -> str:
    """Numbered from 1, so that a line that is missing shows."""
    fields = {"n": number, "what": what, **fields}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def lines_of(content: bytes) -> list[str]:
    """Only a line feed ends one: other line ends of Unicode may stand in a tactic.  Damage reads as another text."""
    return content.decode(errors="replace").removesuffix("\n").split("\n") if content else []


def first_line(rules: Rules | Team, root: Subgoal, time: str = VIRTUAL_TIME) -> str:
    begin = {"version": VERSION, "root": as_json.subgoal_as_json(root)}
    if isinstance(rules, Team):
        return line(1, "begin", mode=DISTRIBUTED, team=as_json.team_as_json(rules), time=time, **begin)
    return line(1, "begin", mode=CENTRALIZED, rules=as_json.rules_as_json(rules), **begin)


class Journalled:
    """A search, each question to it written down with its answer.  One that changed nothing is left out."""

    def __init__(self, first: str, write: Write, note: Note = lambda told: None) -> None:
        self.policy = _begun(json.loads(first), note)
        self.write = write
        self._lines = 1
        write(first)

    def ask(self) -> Expand | None:
        before = self.policy.version
        expand = self.policy.ask()
        if self.policy.version != before:
            self._write("ask", expand=expand and as_json.expand_as_json(expand), version=self.policy.version)
        return expand

    def tell(self, outcome: Outcome) -> None:
        before = self.policy.version
        self.policy.tell(outcome)
        if self.policy.version != before:
            self._write("tell", outcome=as_json.outcome_as_json(outcome), version=self.policy.version)

    def _write(self, what: str, **fields: Any) -> None:
        self._lines += 1
        self.write(line(self._lines, what, **fields))


def _begun(fields: Mapping[str, Any], note: Note) -> Policy:
    if fields["version"] != VERSION:
        raise ValueError(f"a journal of version {fields['version']}; this is {VERSION}")
    root = as_json.subgoal_from_json(fields["root"])
    if fields["mode"] == CENTRALIZED:
        return policy(as_json.rules_from_json(fields["rules"]), root, note)
    return policy(as_json.team_from_json(fields["team"]), root, note, fields["time"])


# How what a line says is told to a search once more.
AGAIN: dict[str, Callable[[Journalled, Mapping[str, Any]], object]] = {
    "ask": lambda to, fields: to.ask(),
    "tell": lambda to, fields: to.tell(as_json.outcome_from_json(fields["outcome"])),
}
