"""Journal of a tree search, and its records as JSON; in answers, what has its default is left out.

The journal is the truth and the trace is folded from it. An iteration has a line in the trace when it is over, and two
in the journal, when it starts and when it is answered; of a search that was killed, some have only the first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from pipeline.core.journal import Fields, Journal, JournalForm, Write, journal_line
from pipeline.mcts.search.centralized import CentralizedSearch
from pipeline.mcts.search.distributed import RealTimeClock, TeamRules, VirtualClock
from pipeline.mcts.search.records import Expand, ExpandOutcome, SearchRules, Subgoal, WeightedMove
from pipeline.mcts.search.trace import Note


def record_as_json(record: Any, whole: bool = True) -> dict[str, Any]:
    """Records as objects, but moves as pairs; unless `whole`, without fields that are as they are by default."""
    fields: dict[str, Any] = record._asdict()
    defaults = {} if whole else record._field_defaults
    for name, value in [*fields.items()]:
        if name in defaults and value == defaults[name]:
            del fields[name]
        elif hasattr(value, "_fields"):
            fields[name] = record_as_json(value, whole)
        elif isinstance(value, tuple) and value and not isinstance(value[0], str | int | WeightedMove):
            fields[name] = [record_as_json(each, whole) for each in value]
    return fields


def record_from_json(kind: Any, value: Any) -> Any:
    """A record of this kind, or one for each of a list."""
    if isinstance(value, list):
        return tuple([kind(*each) if isinstance(each, list) else record_from_json(kind, each) for each in value])
    inner, fields = _inner_records(kind), dict(value)
    return kind(**fields | {name: record_from_json(inner[name], fields[name]) for name in inner if name in fields})


@cache
def _inner_records(kind: Any) -> dict[str, Any]:
    """Kinds of the records in fields of a record, each by itself or several in a tuple."""
    found = get_type_hints(kind)
    while any(map(get_args, found.values())):
        found = {name: (get_args(hint) or (hint,))[0] for name, hint in found.items()}
    return {name: hint for name, hint in found.items() if hasattr(hint, "_fields")}


CENTRALIZED, DISTRIBUTED = "centralized", "distributed"
VIRTUAL_TIME, REAL_TIME = "virtual", "real"


def mode_as_json(rules: SearchRules | TeamRules, time: str = VIRTUAL_TIME) -> dict[str, Any]:
    """The rules of a search, with the runner that goes by them."""
    if isinstance(rules, TeamRules):
        return {"mode": DISTRIBUTED, "team": record_as_json(rules), "time": time}
    return {"mode": CENTRALIZED, "rules": record_as_json(rules)}


def mode_from_json(fields: Fields) -> tuple[SearchRules | TeamRules, str]:
    """The rules, and the clock of a team.  A mode is never taken for the other."""
    if fields["mode"] == CENTRALIZED:
        return record_from_json(SearchRules, fields["rules"]), VIRTUAL_TIME
    return record_from_json(TeamRules, fields["team"]), fields["time"]


VERSION = 1
CLOCKS: dict[str, type[VirtualClock] | type[RealTimeClock]] = {VIRTUAL_TIME: VirtualClock, REAL_TIME: RealTimeClock}
SearchPolicy = CentralizedSearch | VirtualClock | RealTimeClock


class SearchStart(NamedTuple):
    """The start of a search: its rules, its goal, and the clock of a team."""

    rules: SearchRules | TeamRules
    root: Subgoal
    time: str = VIRTUAL_TIME

    def policy(self, note: Note) -> SearchPolicy:
        if isinstance(self.rules, TeamRules):
            return CLOCKS[self.time](self.rules, self.root, note)
        return CentralizedSearch(self.rules, self.root, note)

    def first_line(self) -> str:
        rules = mode_as_json(self.rules, self.time)
        return journal_line(1, "begin", version=VERSION, root=record_as_json(self.root, whole=False), **rules)


class SearchJournal(Journal[SearchPolicy]):
    def __init__(self, start: SearchStart, write: Write, note: Note = lambda record: None) -> None:
        super().__init__(start.policy(note), write, start.first_line())

    def ask(self) -> Expand | None:
        expand = self.policy.ask()
        self.record("ask", expand=expand and expand._asdict(), version=self.policy.version)
        return expand

    def tell(self, outcome: ExpandOutcome) -> None:
        self.policy.tell(outcome)
        self.record("tell", outcome=record_as_json(outcome, whole=False), version=self.policy.version)


REPLAY_STEPS: dict[str, Callable[[SearchJournal, Fields], object]] = {
    "ask": lambda to, fields: to.ask(),
    "tell": lambda to, fields: to.tell(record_from_json(ExpandOutcome, fields["outcome"])),
}


def search_form(note: Note = lambda record: None) -> JournalForm[SearchJournal]:
    """`note` hears of all iterations, those of old lines too."""

    def begin(fields: Fields, write: Write) -> SearchJournal:
        rules, time = mode_from_json(fields)
        return SearchJournal(SearchStart(rules, record_from_json(Subgoal, fields["root"]), time), write, note)

    return JournalForm(VERSION, begin, REPLAY_STEPS)
