"""How long a build still takes, what is worth a line, and that the display fits wherever it is shown."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Limits, Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome
from pipeline.views.events import Build
from pipeline.views.lines import savings_line
from pipeline.views.live import frame_lines, terminal_look
from pipeline.views.progress import FEW, SAMPLES, Eta, Progress, eta_of_build

ROOMS = {"demo:gpu": 1, "demo:step sweep 4": 4}


def target(name: str, room: str = "") -> Target:
    return Target(f"demo:{name}", "run", (), (), {}, Limits(rooms=(room,) if room else ()))


def receipt(seconds: float, how: str = BUILT) -> Receipt:
    return Receipt("", {}, {}, {}, 100.0, 100.0 + seconds, 1, 0, how)


def build(
    targets: Sequence[Target],
    took: Mapping[str, Receipt] | None = None,
    above: Mapping[int, list[int]] | None = None,
    jobs: int = 1,
    todo: Sequence[int] | None = None,
) -> Build:
    wanted = range(len(targets)) if todo is None else todo
    lines = above or {}
    receipts = {f"demo:{name}": found for name, found in (took or {}).items()}
    return Build(targets, lambda i: lines.get(i, []), wanted, wanted, jobs, ROOMS, lambda t: receipts.get(t.name))


def rest(made: Build, running: Mapping[str, float] | None = None) -> float | None:
    return eta_of_build(made).seconds({f"demo:{name}": since for name, since in (running or {}).items()})


FOUR = [target(f"s.{n}") for n in range(4)]
KNOWN = {f"s.{n}": receipt(10.0) for n in range(4)}


def test_nothing_is_said_as_long_as_nothing_is_known() -> None:
    assert rest(build(FOUR)) is None


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 40.0), (2, 20.0), (4, 10.0), (8, 10.0)])
def test_it_is_the_last_times_shared_by_the_jobs(jobs: int, seconds: float) -> None:
    assert rest(build(FOUR, KNOWN, jobs=jobs)) == seconds


def test_what_runs_already_is_taken_off_but_never_more_than_was_expected() -> None:
    assert rest(build(FOUR, KNOWN), {"s.0": 4.0}) == 36.0
    assert rest(build(FOUR, KNOWN), {"s.0": 400.0}) == 30.0


def test_what_was_never_built_takes_as_long_as_its_siblings() -> None:
    assert rest(build(FOUR, {"s.0": receipt(2.0), "s.1": receipt(4.0)})) == 2 + 4 + 3 + 3


def test_siblings_that_are_fresh_count_as_well() -> None:
    assert rest(build(FOUR, {"s.0": receipt(2.0), "s.1": receipt(4.0)}, todo=[2, 3])) == 6.0


def test_siblings_that_ended_in_this_build_count_as_well() -> None:
    made = eta_of_build(build(FOUR))
    del made.left["demo:s.0"]
    made.learn("demo:s.0", 5.0)
    assert made.seconds({}) == 15.0


def test_the_time_of_a_recall_says_nothing() -> None:
    assert rest(build(FOUR, {"s.0": receipt(0.0, RECALLED), "s.1": receipt(4.0)})) == 16.0


def test_a_room_with_one_place_takes_its_targets_one_by_one() -> None:
    in_room = [target(f"s.{n}", "gpu") for n in range(4)]
    assert rest(build(in_room, KNOWN, jobs=4)) == 40.0


def test_steps_that_wait_for_each_other_take_their_times_one_after_the_other() -> None:
    chain = [target(name) for name in "abcd"]
    took = {name: receipt(10.0) for name in "abcd"}
    above = {1: [0], 2: [1], 3: [2]}
    assert rest(build(chain, took, above, jobs=8)) == 40.0
    assert rest(build(chain, took, above, jobs=8), {"a": 4.0}) == 36.0


def test_of_ten_thousand_targets_only_a_sample_is_looked_up() -> None:
    many = [target(f"{step}.{n}") for n in range(2500) for step in "abcd"]
    read: list[str] = []

    def look(t: Target) -> Receipt:
        read.append(t.name)
        return receipt({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}[t.name[5]])

    made = eta_of_build(build(many)._replace(receipt=look))
    assert made.seconds({}) == pytest.approx(2500 * 10)
    assert len(read) <= SAMPLES


TIMES = st.lists(st.sampled_from([0.0, 1.0, 2.0, 7.0]), min_size=1, max_size=8)


@given(TIMES, st.integers(1, 9), st.sampled_from([0, 1, 5]))
def test_more_jobs_never_take_longer_and_none_beats_the_longest(times: list[float], jobs: int, more: int) -> None:
    def seconds(number: int) -> float:
        made = Eta(number, {})
        for n, time in enumerate(times):
            made.expect(f"demo:s.{n}", (), time)
        made.above["demo:s"] = set()
        return made.seconds({}) or 0.0

    assert max(times) <= seconds(jobs + more) <= seconds(jobs) <= sum(times)


def test_the_rest_counts_down_between_two_judgements() -> None:
    progress = Progress(build(FOUR, KNOWN), 1000.0)
    assert progress.rest(1000.5) == 39.5


@pytest.mark.parametrize(
    ("name", "outcome", "worth"),
    [
        ("s.1", Outcome(FAILED), True),
        ("new.1", Outcome(BUILT, end=61.0), True),
        ("s.1", Outcome(BUILT, end=9.0), False),
        ("s.1", Outcome(BUILT, end=31.0), True),
        ("new.1", Outcome(BUILT, end=31.0), False),
        ("s.1", Outcome(RECALLED, end=31.0), False),
        ("s.1", Outcome(SKIPPED), False),
        ("s.1", Outcome(IGNORED), False),
    ],
)
def test_among_many_failures_and_the_slow_are_worth_a_line(name: str, outcome: Outcome, worth: bool) -> None:
    many = [target(f"s.{n}") for n in range(FEW)] + [target("new.1")]
    progress = Progress(build(many, {"s.0": receipt(10.0)}), 0.0)
    assert progress.worth_a_line(target(name), outcome) is worth
    assert Progress(build(many[:FEW]), 0.0).worth_a_line(target(name), outcome)


def test_a_room_never_seems_fuller_than_it_is() -> None:
    """What has ended is told after the next one has started."""
    progress = Progress(build([target(f"s.{n}", "gpu") for n in range(3)]), 0.0)
    for n in range(3):
        progress.target_started(target(f"s.{n}", "gpu"), 0.0)
    assert progress.places_taken() == {"demo:gpu": 1}


EVENTS = st.lists(st.sampled_from([BUILT, FAILED, RECALLED, FRESH, SKIPPED, IGNORED]), max_size=12)


@given(EVENTS, st.integers(1, 130), st.integers(1, 30), st.integers(0, 12), st.booleans(), st.booleans())
def test_it_fits_every_size(
    events: list[str], width: int, height: int, started: int, stopping: bool, known: bool
) -> None:
    names = [f"sweep.{n}" for n in range(24)]
    targets = [target(name, ("", "gpu", "step sweep 4")[n % 3]) for n, name in enumerate(names)]
    progress = Progress(build(targets, {"sweep.0": receipt(5000.0)} if known else {}, jobs=12), 0.0)
    progress.stopping = "interrupted by signal 2" if stopping else ""
    for n, status in enumerate(events):
        progress.target_ended(target(f"sweep.{n}"), Outcome(status))
    for t in targets[12 : 12 + started]:
        progress.target_started(t, 0.0)
    lines = frame_lines(progress, 4000.0, width, height, terminal_look("utf-8", {"LANG": "C.UTF-8", "NO_COLOR": "1"}))
    assert len(lines) <= height
    assert all(len(line.text) == line.width < width for line in lines)


def test_what_matters_most_stays_on_a_narrow_terminal() -> None:
    progress = Progress(build(FOUR, KNOWN), 0.0)
    for status, name in ((BUILT, "s.0"), (FAILED, "s.1")):
        progress.target_ended(target(name), Outcome(status))
    progress.target_started(FOUR[2], 0.0)
    look = terminal_look("utf-8", {"LANG": "C.UTF-8", "NO_COLOR": "1"})
    said = {width: frame_lines(progress, 2.0, width, 9, look)[0].text for width in (80, 40, 30, 15, 5)}
    assert said[80] == "█" * 12 + "░" * 12 + "  2/4  1 failed  ETA 18 s  1 built  2 s"
    assert said[40] == "2/4  1 failed  ETA 18 s  1 built  2 s"
    assert said[30] == "2/4  1 failed  ETA 18 s"
    assert said[15] == "2/4  1 failed"
    assert said[5] == "2/4"


def test_on_a_narrow_terminal_rooms_are_whole_and_long_names_keep_their_end() -> None:
    named = [target("a_step_of_many_words.21.1", "gpu"), target("b.1", "step sweep 4")]
    progress = Progress(build(named), 0.0)
    for t in named:
        progress.target_started(t, 0.0)
    shown = {
        width: [
            line.text
            for line in frame_lines(progress, 2.0, width, 9, terminal_look("utf-8", {"LANG": lang, "NO_COLOR": "1"}))
        ]
        for width, lang in ((44, "C.UTF-8"), (31, "C.UTF-8"), (30, "C"))
    }
    long, other = "demo:a_step_of_many_words.21.1", "     2 s demo:b.1"
    assert shown[44][1:] == ["1/1 running  gpu 1/1  sweep 1/4", f"     2 s {long}", other]
    assert shown[31][1:] == ["1/1 running  gpu 1/1", f"     2 s …{long[-20:]}", other]
    assert shown[30][1:] == ["1/1 running  gpu 1/1", f"     2 s ~{long[-19:]}", other]


def test_rooms_are_named_as_the_spec_does() -> None:
    progress = Progress(build([target("a", "gpu"), target("b", "step sweep 4")], jobs=2), 0.0)
    progress.target_started(target("a", "gpu"), 0.0)
    look = terminal_look("utf-8", {"NO_COLOR": "1"})
    assert frame_lines(progress, 0.0, 80, 9, look)[1].text == "1/2 running  gpu 1/1  sweep 0/4"


@pytest.mark.parametrize(
    ("encoding", "env", "unicode", "colour"),
    [
        ("utf-8", {"LANG": "en_US.UTF-8"}, True, True),
        ("utf-8", {"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False, True),
        ("utf-8", {}, False, True),
        ("ascii", {"LANG": "C.UTF-8"}, False, True),
        ("utf-8", {"LC_CTYPE": "C.utf8", "NO_COLOR": "1"}, True, False),
        ("utf-8", {"LC_CTYPE": "C.utf8", "NO_COLOR": ""}, True, True),
    ],
)
def test_the_locale_and_no_color_decide_the_look(
    encoding: str, env: dict[str, str], unicode: bool, colour: bool
) -> None:
    assert terminal_look(encoding, env) == (colour, unicode)


def test_no_time_is_named_while_what_runs_was_never_timed() -> None:
    """Four models think, and of all that was timed only bookkeeping is left."""
    stages = {"implement": "x:implement", "score": "x:score"}
    targets = [target(f"d0.n0.i{n}.{word}") for n in range(4) for word in stages]
    took = {f"d0.n0.i{n}.score": receipt(0.01) for n in range(4)}
    made = build(targets, took, jobs=4)._replace(group=lambda t: stages[t.name.rpartition(".")[2]])
    thinking = {f"d0.n0.i{n}.implement": 100.0 for n in range(4)}
    assert rest(made, thinking) is None
    known = made._replace(seconds=lambda t: 60.0 if "implement" in t.name else None)  # the store remembers it
    assert rest(known, {}) == pytest.approx(60.0, abs=0.1)


def test_no_time_is_named_when_something_takes_far_longer_than_ever() -> None:
    progress = Progress(build(FOUR, KNOWN), 0.0)
    progress.target_started(FOUR[0], 0.0)
    assert progress.rest(20.0) is not None
    assert progress.rest(40.0) is None


@pytest.mark.parametrize(
    ("seconds", "usd", "said"),
    [
        (15000.0, 12.3, "saved 4 h 10 min of work and 12.30 USD: 412 recalled, 3 fresh"),
        (61.0, 0.0, "saved 1 min 01 s of work: 412 recalled, 3 fresh"),
        (60.0, 0.0, ""),
        (1.0, 0.02, "saved 1.0 s of work and 0.02 USD: 412 recalled, 3 fresh"),
    ],
)
def test_savings_are_told_where_they_are_worth_a_line(seconds: float, usd: float, said: str) -> None:
    assert savings_line({RECALLED: 412, FRESH: 3}, seconds, usd) == said
