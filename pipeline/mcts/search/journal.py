"""Journal of a search: all questions and answers, a line each, as JSON; replay and resuming.

It is enough to do the search again, and to go on after any line.

The journal is the truth and the trace is folded from it. They are two files: an iteration has a line in the trace when
it is over, and two in the journal, when it starts and when it is answered; of a search that was killed, some have only
the first. Nor does who reads a trace need every goal that an answer spoke of.

Records become JSON here. In answers, what has its default is left out. Replay goes through a journal once more: to see
that all is decided as it was, to go on, to fold the trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pipeline.core.journal import Difference, JournalDiffers, journal_differences, replay_and_compare
from pipeline.mcts.search.agents import Block, Delay, Interventions, Steering
from pipeline.mcts.search.centralized import CentralizedSearch
from pipeline.mcts.search.distributed import DistributedSearch, RealTimeClock, Team, VirtualClock
from pipeline.mcts.search.records import (
    Budget,
    Expand,
    ExpandOutcome,
    Expansion,
    Maths,
    SearchRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
)
from pipeline.mcts.search.trace import Note, trace_line
from pipeline.mcts.search.tree import SearchTree


def changed_fields(record: Any) -> dict[str, Any]:
    """The fields of a record that are not what they are by default."""
    defaults = record._field_defaults
    return {name: value for name, value in record._asdict().items() if name not in defaults or value != defaults[name]}


def subgoal_as_json(goal: Subgoal) -> dict[str, Any]:
    fields = changed_fields(goal)
    return fields if goal.moves is None else fields | {"moves": [list(move) for move in goal.moves]}


def subgoal_from_json(fields: Mapping[str, Any]) -> Subgoal:
    moves = fields.get("moves")
    return Subgoal(**{**fields, "moves": None if moves is None else _moves_from_json(moves)})


def _moves_from_json(listed: list[tuple[str, float]]) -> tuple[WeightedMove, ...]:
    return tuple(WeightedMove(*move) for move in listed)


def outcome_as_json(outcome: ExpandOutcome) -> dict[str, Any]:
    fields = changed_fields(outcome)
    for name, told in (("moves", list), ("attempts", _attempt_as_json)):
        if name in fields:
            fields[name] = [told(each) for each in fields[name]]
    return fields


def _attempt_as_json(attempt: TacticAttempt) -> dict[str, Any]:
    fields = changed_fields(attempt)
    return fields if not attempt.goals else fields | {"goals": [subgoal_as_json(goal) for goal in attempt.goals]}


def outcome_from_json(fields: Mapping[str, Any]) -> ExpandOutcome:
    attempts = tuple(_attempt_from_json(each) for each in fields.get("attempts", ()))
    return ExpandOutcome(**{**fields, "attempts": attempts, "moves": _moves_from_json(fields.get("moves", []))})


def _attempt_from_json(fields: Mapping[str, Any]) -> TacticAttempt:
    return TacticAttempt(**{**fields, "goals": tuple(subgoal_from_json(goal) for goal in fields.get("goals", ()))})


def expand_as_json(expand: Expand) -> dict[str, Any]:
    return {**expand._asdict(), "path": list(expand.path), "tactics": list(expand.tactics)}


def search_rules_as_json(rules: SearchRules) -> dict[str, Any]:
    return {name: part._asdict() for name, part in rules._asdict().items()}


def search_rules_from_json(fields: Mapping[str, Any]) -> SearchRules:
    return SearchRules(Budget(**fields["budget"]), Maths(**fields["maths"]), Expansion(**fields["expansion"]))


def team_as_json(team: Team) -> dict[str, Any]:
    block, delay, reroute = team.interventions
    between = {"block": block._asdict(), "delay": delay._asdict(), "reroute": reroute}
    return {"rules": search_rules_as_json(team.rules), "steering": team.steering._asdict(), "interventions": between}


def team_from_json(fields: Mapping[str, Any]) -> Team:
    between = fields["interventions"]
    interventions = Interventions(Block(**between["block"]), Delay(**between["delay"]), between["reroute"])
    return Team(search_rules_from_json(fields["rules"]), Steering(**fields["steering"]), interventions)


VERSION = 1
CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
VIRTUAL_TIME, REAL_TIME = "virtual", "real"
CLOCKS: dict[str, type[VirtualClock] | type[RealTimeClock]] = {VIRTUAL_TIME: VirtualClock, REAL_TIME: RealTimeClock}

Write = Callable[[str], object]


class SearchPolicy(Protocol):
    """`version` grows with whatever changes what it will do next."""

    @property
    def version(self) -> int: ...
    @property
    def is_finished(self) -> bool: ...
    @property
    def tree(self) -> SearchTree: ...
    @property
    def calls(self) -> int: ...
    @property
    def unanswered(self) -> list[Expand]: ...
    def ask(self) -> Expand | None: ...
    def tell(self, outcome: ExpandOutcome) -> None: ...


def make_policy(rules: SearchRules | Team, root: Subgoal, note: Note, time: str = VIRTUAL_TIME) -> SearchPolicy:
    """The mode is that of the rules; one is never taken for the other."""
    if isinstance(rules, Team):
        return CLOCKS[time](DistributedSearch(rules, root, note))
    return CentralizedSearch(rules, root, note)


def journal_line(number: int, what: str, **fields: Any) -> str:
    """Numbered from 1, so that a line that is missing shows."""
    fields = {"n": number, "what": what, **fields}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def split_lines(content: bytes) -> list[str]:
    """Only a line feed ends one: other line ends of Unicode may stand in a tactic.  Damage reads as another text."""
    return content.decode(errors="replace").removesuffix("\n").split("\n") if content else []


def first_line(rules: SearchRules | Team, root: Subgoal, time: str = VIRTUAL_TIME) -> str:
    begin = {"version": VERSION, "root": subgoal_as_json(root)}
    if isinstance(rules, Team):
        return journal_line(1, "begin", mode=DISTRIBUTED, team=team_as_json(rules), time=time, **begin)
    return journal_line(1, "begin", mode=CENTRALIZED, rules=search_rules_as_json(rules), **begin)


class SearchJournal:
    """A search, each question to it written down with its answer.  One that changed nothing is left out."""

    def __init__(self, first: str, write: Write, note: Note = lambda told: None) -> None:
        self.policy = _begin_policy(json.loads(first), note)
        self.write = write
        self._lines = 1
        write(first)

    def ask(self) -> Expand | None:
        before = self.policy.version
        expand = self.policy.ask()
        if self.policy.version != before:
            self._write("ask", expand=expand and expand_as_json(expand), version=self.policy.version)
        return expand

    def tell(self, outcome: ExpandOutcome) -> None:
        before = self.policy.version
        self.policy.tell(outcome)
        if self.policy.version != before:
            self._write("tell", outcome=outcome_as_json(outcome), version=self.policy.version)

    def _write(self, what: str, **fields: Any) -> None:
        self._lines += 1
        self.write(journal_line(self._lines, what, **fields))


def _begin_policy(fields: Mapping[str, Any], note: Note) -> SearchPolicy:
    if fields["version"] != VERSION:
        raise ValueError(f"a journal of version {fields['version']}; this is {VERSION}")
    root = subgoal_from_json(fields["root"])
    if fields["mode"] == CENTRALIZED:
        return make_policy(search_rules_from_json(fields["rules"]), root, note)
    return make_policy(team_from_json(fields["team"]), root, note, fields["time"])


# How what a line says is told to a search once more.
REPLAY_STEPS: dict[str, Callable[[SearchJournal, Mapping[str, Any]], object]] = {
    "ask": lambda to, fields: to.ask(),
    "tell": lambda to, fields: to.tell(outcome_from_json(fields["outcome"])),
}


class Diverged(Exception):
    """The search no longer decides what the journal says it did."""


def replay_search(lines: Sequence[str], first: str | None = None) -> list[Difference]:
    """Where the journal is not what the search writes now, byte for byte: empty, or the first such line.

    `first`: the line that it should begin with, if its own rules are not to be taken for the right ones."""
    return journal_differences(lambda: _replay(lines, lambda told: None, first))


def replay_with_trace(lines: Sequence[str]) -> tuple[list[Difference], list[str]]:
    """As `replay`, and the trace up to where the journal is another."""
    trace: list[str] = []
    return journal_differences(lambda: _replay(lines, lambda told: trace.append(trace_line(told)), None)), trace


def resume_journal(
    lines: Sequence[str], write: Callable[[str], object], note: Note = lambda told: None, first: str | None = None
) -> SearchJournal:
    """As if it had not been stopped after the last of the lines: what is `unanswered` then has to be tried again.

    New lines go to `write`; `note` hears of all iterations from the first."""
    try:
        journalled = _replay(lines, note, first)
    except JournalDiffers as found:
        raise Diverged(f"line {found.difference.line}: {found.difference.now} instead of what is recorded") from found
    journalled.write = write
    return journalled


def trace_of_journal(lines: Sequence[str]) -> list[str]:
    """The trace that belongs to a journal."""
    found: list[str] = []
    resume_journal(lines, lambda text: None, lambda told: found.append(trace_line(told)))
    return found


def _replay(lines: Sequence[str], note: Note, first: str | None) -> SearchJournal:
    return replay_and_compare(lines, lambda told, write: SearchJournal(told, write, note), REPLAY_STEPS, first)
