"""Laws of journals, for every policy: cut anywhere and gone on with it is the same; what was changed in it shows.

A policy joins by a row in POLICIES: the form of its journal, cases to be drawn, and how a case begins and goes on. What
a case does next depends on the journal alone, so that a search that was killed finds the same answers again."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import mcts_worlds, proof_searches
from kit.mcts_worlds import World
from kit.proof_searches import Case, goal

from pipeline.core.journal import (
    Fields,
    Journal,
    JournalDifference,
    JournalDiffers,
    JournalForm,
    Write,
    journal_differences,
    journal_line,
    resume,
    split_lines,
)
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME, SearchJournal, SearchStart, search_form
from pipeline.mcts.search.records import SearchRules
from pipeline.proof.schedule.policy import SCHEDULE_FORM, ScheduleJournal
from pipeline.store.files import open_log


class Countdown:
    """The smallest policy: numbers downward, two at a time, until one is good or none is left."""

    def __init__(self, start: int) -> None:
        self.next, self.version, self.found = start, 0, False
        self.unanswered: list[int] = []

    @property
    def is_finished(self) -> bool:
        return not self.unanswered and (self.found or not self.next)

    def ask(self) -> int | None:
        if self.found or not self.next or len(self.unanswered) == 2:
            return None
        self.version += 1
        self.unanswered.append(self.next)
        self.next -= 1
        return self.unanswered[-1]

    def tell(self, outcome: tuple[int, bool]) -> None:
        number, good = outcome
        if number in self.unanswered:
            self.version += 1
            self.unanswered.remove(number)
            self.found = self.found or good


class CountdownJournal(Journal[Countdown]):
    def __init__(self, start: int, write: Write) -> None:
        super().__init__(Countdown(start), write, journal_line(1, "begin", version=1, start=start))

    def ask(self) -> None:
        self.record("ask", number=self.policy.ask())

    def tell(self, number: int, good: bool) -> None:
        self.policy.tell((number, good))
        self.record("tell", number=number, good=good)


COUNTDOWN_STEPS: Mapping[str, Callable[[CountdownJournal, Fields], object]] = {
    "ask": lambda to, fields: to.ask(),
    "tell": lambda to, fields: to.tell(fields["number"], fields["good"]),
}


def count_on(start: int, journal: CountdownJournal) -> bool:
    before, rng = journal.count, Random(f"{start} {journal.count}")
    journal.ask()
    if journal.count == before and journal.policy.unanswered:
        number = rng.choice(journal.policy.unanswered)
        journal.tell(number, number % 11 == 0)
    return journal.count > before


class Search(NamedTuple):
    world: World
    by: SearchRules | TeamRules
    time: str = VIRTUAL_TIME
    seed: int = 0


def search_on(case: Search, journal: SearchJournal) -> bool:
    """Answers come in any order, also before all is asked that could be."""
    before, rng, policy = journal.count, Random(f"{case.seed} {journal.count}"), journal.policy
    if not policy.unanswered or rng.random() < 0.7:
        journal.ask()
    if journal.count == before and policy.unanswered:
        expand = rng.choice(policy.unanswered)
        journal.tell(case.world.answer(policy.tree, expand, mcts_worlds.took(expand, 3)))
    return journal.count > before


class Kind(NamedTuple):
    form: JournalForm[Any]
    cases: st.SearchStrategy[Any]
    begin: Callable[[Any, Write], Any]
    go_on: Callable[[Any, Any], bool]  # by one line; False when all is over
    example: Any


def tree_search(rules: st.SearchStrategy[Any], time: str, example: SearchRules | TeamRules) -> Kind:
    return Kind(
        search_form(),
        st.builds(Search, mcts_worlds.worlds(), rules, st.just(time), st.integers(0, 99)),
        lambda case, write: SearchJournal(SearchStart(case.by, case.world.root, case.time), write),
        search_on,
        Search(CHAIN, example, time),
    )


CHAIN = World({f"g{n}": {"a": None, "b": (f"g{n + 1}",)} for n in range(4)} | {"g4": {"a": ()}}, told=frozenset({"g2"}))
GOALS = (goal(0), goal(1))
ALONE, TOGETHER = mcts_worlds.rules(), mcts_worlds.team(mcts_worlds.rules(), 2)
POLICIES: Mapping[str, Kind] = {
    "countdown": Kind(
        JournalForm(1, lambda fields, write: CountdownJournal(fields["start"], write), COUNTDOWN_STEPS),
        st.integers(0, 30),
        CountdownJournal,
        count_on,
        9,
    ),
    "proof schedule": Kind(
        SCHEDULE_FORM,
        proof_searches.cases(stops=True),
        lambda case, write: ScheduleJournal(case.rules, write),
        proof_searches.schedule_on,
        Case(proof_searches.rules("a", "b", levels=1, cpu_target=0.5), GOALS, {}, [], {("g1", "b"): 0}, 2, 1, None),
    ),
    "centralized": tree_search(mcts_worlds.ones, VIRTUAL_TIME, ALONE),
    "distributed, virtual time": tree_search(mcts_worlds.hindered, VIRTUAL_TIME, TOGETHER),
    "distributed, real time": tree_search(mcts_worlds.hindered, REAL_TIME, TOGETHER),
}
every = pytest.mark.parametrize("kind", POLICIES.values(), ids=[*POLICIES])


def finish(kind: Kind, case: Any, journal: Any) -> None:
    for _ in range(100_000):
        if not kind.go_on(case, journal):
            assert journal.policy.is_finished
            assert not journal.policy.unanswered
            return
    raise AssertionError("the search does not end")


def whole(kind: Kind, case: Any) -> list[str]:
    lines: list[str] = []
    finish(kind, case, kind.begin(case, lines.append))
    return lines


def an_example(kind: Kind) -> list[str]:
    return whole(kind, kind.example)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journals") / "one"


def search_in_file(kind: Kind, case: Any, path: Path) -> bytes:
    """Gone on with from whatever the file holds, to the end."""
    with open_log(str(path), "whose") as log:
        journal = resume(kind.form, log.lines, log.write) if log.lines else kind.begin(case, log.write)
        finish(kind, case, journal)
    return path.read_bytes()


@every
@given(data=st.data())
def test_a_journal_cut_at_any_byte_is_gone_on_with_to_the_same_bytes(
    kind: Kind, path: Path, data: st.DataObject
) -> None:
    case = data.draw(kind.cases)
    path.unlink(missing_ok=True)
    content = search_in_file(kind, case, path)
    assert content.decode() == "".join(f"{line}\n" for line in ("whose", *whole(kind, case)))
    ends = [n + 1 for n, byte in enumerate(content) if byte == ord("\n")]
    for cut in (data.draw(st.sampled_from(ends)), data.draw(st.integers(0, len(content)))):
        path.write_bytes(content[:cut])
        assert search_in_file(kind, case, path) == content


@every
def test_an_example_is_gone_on_with_from_wherever_it_ends(kind: Kind, path: Path) -> None:
    path.unlink(missing_ok=True)
    content = search_in_file(kind, kind.example, path)
    for cut in range(0, len(content) + 1, 1 + len(content) // 400):
        path.write_bytes(content[:cut])
        assert search_in_file(kind, kind.example, path) == content


@every
@given(data=st.data())
def test_after_each_line_it_is_known_what_has_no_answer_yet(kind: Kind, data: st.DataObject) -> None:
    case, lines = data.draw(kind.cases), list[str]()
    journal, then = kind.begin(case, lines.append), list[Sequence[Any]]()
    while then.append([*journal.policy.unanswered]) or kind.go_on(case, journal):
        pass
    cut = data.draw(st.integers(1, len(lines)))
    assert [*resume(kind.form, lines[:cut], lines.append).policy.unanswered] == then[cut - 1]


@every
@given(data=st.data())
def test_a_journal_is_decided_again_to_the_same_bytes(kind: Kind, data: st.DataObject) -> None:
    lines = whole(kind, data.draw(kind.cases))
    assert journal_differences(kind.form, lines) == []
    assert journal_differences(kind.form, lines, lines[0]) == []


@every
def test_lines_are_numbered_and_json_with_sorted_keys(kind: Kind) -> None:
    for number, line in enumerate(an_example(kind), 1):
        fields = json.loads(line)
        assert fields["n"] == number
        assert line == json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@every
def test_a_line_that_is_missing_or_said_twice_is_named(kind: Kind) -> None:
    lines = an_example(kind)
    for number in range(1, len(lines) - 1):
        for edited in ([*lines[:number], *lines[number + 1 :]], [*lines[:number], lines[number - 1], *lines[number:]]):
            assert [each.line for each in journal_differences(kind.form, edited)] == [number + 1]


@every
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"version":1', '"version":2', "a journal of version 2; this is 1"),
        ('"version":1', '"edition":1', "KeyError: 'version'"),
        ("{", "{,", "JSONDecodeError"),
        ("{", "[" * 100_000 + "{", "RecursionError"),
        ('"n":1', '"n":1,"of":2', '{"'),
        ("{", "{ ", '{"'),
    ],
)
def test_a_first_line_that_would_not_be_written_is_refused(kind: Kind, old: str, new: str, why: str) -> None:
    first, *rest = an_example(kind)
    edited = [first.replace(old, new, 1), *rest]
    [difference] = journal_differences(kind.form, edited)
    assert (difference.line, difference.recorded) == (1, edited[0])
    assert difference.now.startswith(why) or why in difference.now
    with pytest.raises(JournalDiffers, match=r"^line 1: .* instead of what is recorded"):
        resume(kind.form, edited, edited.append)


@every
def test_other_rules_differ_in_the_first_line_and_so_does_a_journal_without_any(kind: Kind) -> None:
    lines = an_example(kind)
    other = lines[0].replace("}", ',"more":1}', 1)
    assert journal_differences(kind.form, lines, other) == [JournalDifference(1, lines[0], other)]
    assert journal_differences(kind.form, [], other) == [JournalDifference(1, "", "a journal begins with its rules")]


# What is changed in the first line that has it, and of which policy.
EDITS = [
    *[("countdown", *each) for each in (('"number":8', '"number":7'), ('"good":false', '"good":true'))],
    *[("proof schedule", *each) for each in (
        ('"strategy":"a"', '"strategy":"b"'), ('"status":"failed"', '"status":"proved"'), ('"sleep":0', '"sleep":1'),
        ('"what":"tell"', '"what":"other"'), ('"trial":1', '"trial":7'), ('"speculate":3', '"speculate":1'),
        ('{"free":1', '{"free":1,'), ('"bandit":', '"beast":'), ('"rules":', '"laws":'),
    )],
    *[("centralized", *each) for each in (
        ('"selection":"puct"', '"selection":"uct"'), ('"widen":1.0', '"widen":5.0'), ('"tactic":"b"}', '"tactic":"c"}'),
        ('"error":"tactic"', '"goals":[{"key":"g9"}]'), ('"path":[0,1]', '"path":[0]'), ('"version":2', '"version":3'),
        ('"what":"tell"', '"what":"hear"'), ('"n":4', '"n":5'), ('"n":4', '"n":4,'),
    )],
    ("centralized", '"mode":"centralized"', '"mode":"distributed"'),
    ("distributed, virtual time", '"mode":"distributed"', '"mode":"centralized"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), EDITS)
def test_an_edited_journal_differs_there_or_later_and_the_line_is_named(name: str, old: str, new: str) -> None:
    kind = POLICIES[name]
    lines = an_example(kind)
    number = next(n for n, line in enumerate(lines) if old in line)
    edited = [*lines[:number], lines[number].replace(old, new, 1), *lines[number + 1 :]]
    [difference] = journal_differences(kind.form, edited, lines[0])
    assert difference.line > number
    with pytest.raises(JournalDiffers, match=f"^line {difference.line}: "):
        resume(kind.form, edited, edited.append, lines[0])


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*here, key)
        yield from places(each, (*here, key))


def replaced(line: str, place: tuple[Any, ...], value: Any) -> str:
    fields = json.loads(line)
    reduce(getitem, place[:-1], fields)[place[-1]] = value
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@every
@pytest.mark.parametrize("value", [None, True, -1, 0, 0.5, "x", [], [1], ["x", "y", "z"], {}, {"x": 1}], ids=repr)
def test_whatever_stands_in_place_of_a_value_the_line_is_named(kind: Kind, value: Any) -> None:
    lines = an_example(kind)
    for number, line in enumerate(lines[:4]):
        for place in places(json.loads(line)):
            other = replaced(line, place, value)
            if other != line:
                edited = [*lines[:number], other, *lines[number + 1 :]]
                assert all(each.line > number for each in journal_differences(kind.form, edited)), other


def test_only_a_line_feed_ends_a_line() -> None:
    assert split_lines("a\u2028b\x85c\r\n\nd\n".encode()) == ["a\u2028b\x85c\r", "", "d"]
    assert split_lines(b"a\xff") == ["a\ufffd"]
    assert split_lines(b"") == []
