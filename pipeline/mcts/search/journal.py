"""Journal of a tree search, and its records as JSON; in answers, what has its default is left out.

The journal is the truth and the trace is folded from it. They are two files: an iteration has a line in the trace when
it is over, and two in the journal, when it starts and when it is answered; of a search that was killed, some have only
the first. Nor does who reads a trace need every goal that an answer spoke of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from pipeline.core.journal import Fields, Journal, JournalForm, Policy, Write, journal_line
from pipeline.mcts.search.agents import Block, Delay, Interventions, ReservationRules
from pipeline.mcts.search.centralized import CentralizedSearch
from pipeline.mcts.search.distributed import RealTimeClock, TeamRules, VirtualClock
from pipeline.mcts.search.records import (
    Budget,
    Expand,
    ExpandOutcome,
    Expansion,
    SearchRules,
    SelectionRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
)
from pipeline.mcts.search.trace import Note
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
    return SearchRules(Budget(**fields["budget"]), SelectionRules(**fields["maths"]), Expansion(**fields["expansion"]))


def team_as_json(team: TeamRules) -> dict[str, Any]:
    block, delay, reroute = team.interventions
    between = {"block": block._asdict(), "delay": delay._asdict(), "reroute": reroute}
    return {"rules": search_rules_as_json(team.rules), "steering": team.steering._asdict(), "interventions": between}


def team_from_json(fields: Mapping[str, Any]) -> TeamRules:
    between = fields["interventions"]
    interventions = Interventions(Block(**between["block"]), Delay(**between["delay"]), between["reroute"])
    return TeamRules(search_rules_from_json(fields["rules"]), ReservationRules(**fields["steering"]), interventions)


CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
VIRTUAL_TIME, REAL_TIME = "virtual", "real"


def mode_as_json(rules: SearchRules | TeamRules, time: str = VIRTUAL_TIME) -> dict[str, Any]:
    """The rules of a search, with the runner that goes by them."""
    if isinstance(rules, TeamRules):
        return {"mode": DISTRIBUTED, "team": team_as_json(rules), "time": time}
    return {"mode": CENTRALIZED, "rules": search_rules_as_json(rules)}


def mode_from_json(fields: Fields) -> tuple[SearchRules | TeamRules, str]:
    """The rules, and the clock of a team.  A mode is never taken for the other."""
    if fields["mode"] == CENTRALIZED:
        return search_rules_from_json(fields["rules"]), VIRTUAL_TIME
    return team_from_json(fields["team"]), fields["time"]


VERSION = 1
CLOCKS: dict[str, type[VirtualClock] | type[RealTimeClock]] = {VIRTUAL_TIME: VirtualClock, REAL_TIME: RealTimeClock}


class SearchPolicy(Policy[Expand, ExpandOutcome], Protocol):
    """One of the runners.  `calls`: what is spent of the budget."""

    @property
    def tree(self) -> SearchTree: ...
    @property
    def calls(self) -> int: ...


class SearchStart(NamedTuple):
    """All that a search starts from."""

    rules: SearchRules | TeamRules
    root: Subgoal
    time: str = VIRTUAL_TIME

    def policy(self, note: Note) -> SearchPolicy:
        if isinstance(self.rules, TeamRules):
            return CLOCKS[self.time](self.rules, self.root, note)
        return CentralizedSearch(self.rules, self.root, note)

    def first_line(self) -> str:
        rules = mode_as_json(self.rules, self.time)
        return journal_line(1, "begin", version=VERSION, root=subgoal_as_json(self.root), **rules)


def search_start_from_json(fields: Fields) -> SearchStart:
    rules, time = mode_from_json(fields)
    return SearchStart(rules, subgoal_from_json(fields["root"]), time)


class SearchJournal(Journal[SearchPolicy]):
    def __init__(self, start: SearchStart, write: Write, note: Note = lambda told: None) -> None:
        super().__init__(start.policy(note), write, start.first_line())

    def ask(self) -> Expand | None:
        expand = self.policy.ask()
        self.record("ask", expand=expand and expand_as_json(expand), version=self.policy.version)
        return expand

    def tell(self, outcome: ExpandOutcome) -> None:
        self.policy.tell(outcome)
        self.record("tell", outcome=outcome_as_json(outcome), version=self.policy.version)


REPLAY_STEPS: dict[str, Callable[[SearchJournal, Fields], object]] = {
    "ask": lambda to, fields: to.ask(),
    "tell": lambda to, fields: to.tell(outcome_from_json(fields["outcome"])),
}


def search_form(note: Note = lambda told: None) -> JournalForm[SearchJournal]:
    """`note` hears of all iterations, those of old lines too."""
    return JournalForm(
        VERSION, lambda fields, write: SearchJournal(search_start_from_json(fields), write, note), REPLAY_STEPS
    )
