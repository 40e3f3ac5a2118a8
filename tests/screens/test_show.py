"""A recorded run as a show: what comes when, by a clock that the test moves."""

import gzip
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.watching import BEGIN, going, json_of

from pipeline.core.projection import Json, Projection, Text, apply_delta
from pipeline.errors import SpecError
from pipeline.screens.show import (
    LONGEST_SILENCE,
    MOST_BYTES,
    SHOW_SECONDS,
    RecordedFeed,
    Show,
    read_show,
    record_show,
    show_times,
    write_show,
)

GAPS = st.lists(st.floats(0, 1e6), max_size=200)


def times_of(gaps: Iterable[float]) -> list[float]:
    times, at = [], 0.0
    for gap in gaps:
        at += gap
        times.append(at)
    return times


def gaps_of(times: Iterable[float]) -> list[float]:
    return [after - before for before, after in pairwise([0.0, *times])]


@given(GAPS)
def test_a_show_is_short_has_no_long_silence_and_keeps_the_order(gaps: list[float]) -> None:
    shown = show_times(times_of(gaps))
    assert len(shown) == len(gaps)
    assert all(0 <= gap <= LONGEST_SILENCE + 1e-9 for gap in gaps_of(shown))
    assert not shown or shown[-1] <= SHOW_SECONDS + 1e-6


@given(st.lists(st.floats(0.001, 1e5), min_size=2, max_size=100))
def test_what_took_longer_is_not_shown_faster(gaps: list[float]) -> None:
    shown = gaps_of(show_times(times_of(gaps)))
    pairs = sorted(zip(gaps, shown, strict=True))
    assert all(a[1] <= b[1] + 1e-6 for a, b in pairwise(pairs))


def test_a_run_of_a_night_takes_twenty_seconds_and_a_short_one_its_own_time() -> None:
    assert show_times(times_of([600.0] * 60))[-1] == pytest.approx(SHOW_SECONDS)
    assert show_times([0.5, 1.0, 1.25]) == pytest.approx([0.5, 1.0, 1.25])
    assert show_times([0.5, 4000.0]) == pytest.approx([0.5, 0.5 + LONGEST_SILENCE])
    assert show_times([]) == []


# --- Feeds.

FRAMES = [going(ended=0), going(ended=1), going(ended=2), going("done", 4)]  # a minute between them; then two


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def details(item: str) -> list[Text]:
    return [Text("idea", "Idea", f"all about {item}")]


def recorded(frames: Iterable[Projection] = FRAMES) -> Show:
    return record_show("demo", "tree", frames, details)


def evaluations(projection: Json) -> str:
    return next(figure["text"] for figure in projection["figures"] if figure["name"] == "evaluations")


def test_what_is_due_by_the_clock_is_played_and_deltas_lead_there(clock: Clock) -> None:
    feed = RecordedFeed(recorded(), "coppice replay demo --show", clock=clock)
    projection = feed.now()
    assert (evaluations(projection), feed.poll()) == ("0 of 4", {})
    for passed, expected in ((1.4, "0 of 4"), (0.2, "1 of 4"), (1.5, "2 of 4"), (0.5, "2 of 4"), (1.0, "4 of 4")):
        clock.now += passed
        projection = apply_delta(projection, feed.poll())
        assert evaluations(projection) == expected
        assert projection == feed.now()
    assert feed.is_over
    assert [block for block in projection["blocks"] if block["name"] == "tree"] == [
        block for block in json_of(FRAMES[-1])["blocks"] if block["name"] == "tree"
    ]


@pytest.mark.parametrize("speed", [1.0, 3.0, 0.5])
def test_speed_divides_the_time(clock: Clock, speed: float) -> None:
    feed = RecordedFeed(recorded(), "", speed, clock)
    feed.now()
    clock.now += 4.4 / speed  # of three silences as long as they may be
    feed.poll()
    assert not feed.is_over
    clock.now += 0.2 / speed
    feed.poll()
    assert feed.is_over


def test_who_looks_away_gets_all_that_was_missed_at_once(clock: Clock) -> None:
    feed = RecordedFeed(recorded(), "", clock=clock)
    projection = feed.now()
    clock.now += 3600
    assert evaluations(apply_delta(projection, feed.poll())) == "4 of 4"
    assert feed.poll() == {}


def test_it_says_that_it_is_recorded_and_at_which_of_its_true_times_it_stands(clock: Clock) -> None:
    feed = RecordedFeed(recorded(), "coppice replay demo --show", clock=clock)
    shown = feed.now()
    assert shown["headline"] == "recorded, 0 s of 4 min 00 s: 0 of 4 ideas are tried."
    assert shown["state"]["why"] == "a recording, as it went"
    assert shown["command"] == "coppice replay demo --show"
    clock.now += 1.6
    assert feed.poll()["headline"] == "recorded, 1 min 00 s of 4 min 00 s: 1 of 4 ideas are tried."
    clock.now += 60
    last = feed.now()
    assert last["headline"] == "recorded, all of 4 min 00 s: 4 of 4 ideas are tried."
    assert (last["state"]["word"], last["state"]["why"]) == ("done", "")


def test_a_show_can_be_held(clock: Clock) -> None:
    feed = RecordedFeed(recorded(), "", clock=clock)
    feed.now()
    assert "held" in feed.hold()
    clock.now += 3600
    assert feed.poll() == {}
    assert "goes on" in feed.hold()
    clock.now += 1.4
    assert feed.poll() == {}
    clock.now += 0.2
    assert evaluations(feed.now()) == "1 of 4"


def test_details_are_those_of_the_recording_or_else_of_the_run() -> None:
    assert RecordedFeed(recorded(), "").details("d0.n0.i1")[0]["text"] == "all about d0.n0.i1"
    bare = record_show("demo", "tree", FRAMES)
    assert RecordedFeed(bare, "", details=details).details("x")[0]["text"] == "all about x"
    with pytest.raises(SpecError, match="has no details of 'x'"):
        RecordedFeed(bare, "").details("x")


# --- Files.


def test_a_recording_is_read_as_it_was_written_and_equal_ones_are_equal_files(tmp_path: Path) -> None:
    show = recorded()
    size = write_show(str(tmp_path / "a.gz"), show)
    write_show(str(tmp_path / "b.gz"), recorded())
    assert read_show(str(tmp_path / "a.gz"), "demo") == show
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").stat().st_size == size < 4000
    assert [frame for _, frame in show.frames()] == [json_of(frame) for frame in FRAMES]
    assert {*show.details} == {"d0.n0", *(f"d0.n0.i{at}" for at in range(4))}


def test_time_never_goes_back_and_a_moment_without_a_time_is_that_of_the_one_before() -> None:
    frames = [going(ended=1)._replace(at=BEGIN + 9), going(ended=2)._replace(at=BEGIN + 5), going(ended=3)]
    show = record_show("demo", "tree", [*frames, going(ended=4)._replace(at=None)])
    assert [seconds for seconds, _ in show.changes] == [0.0, 171.0, 171.0]


def test_a_run_without_a_moment_has_no_show() -> None:
    with pytest.raises(SpecError, match="demo has nothing to show yet; `coppice demo` builds it"):
        record_show("demo", "tree", [])


def packed(change: Callable[[dict[str, Any]], object]) -> bytes:
    record = json.loads(json.dumps(recorded()._asdict()))
    change(record)
    return gzip.compress(json.dumps(record).encode())


NO_RECORDINGS = {
    name: (content, message)
    for name, content, message in [
        ("empty", b"", "cannot be read as a recording"),
        ("no gzip", b"no gzip", "cannot be read as a recording"),
        ("cut", gzip.compress(b"{}")[:-9], "cannot be read as a recording"),
        ("no text", gzip.compress(b"\xff"), "cannot be read as a recording"),
        ("a list", gzip.compress(b"[]"), "is no recording of a run"),
        ("no start", packed(lambda record: record.pop("start")), "is no recording of a run"),
        ("half a start", packed(lambda record: record["start"].pop("figures")), "or one of another version"),
        ("time goes back", packed(lambda record: record["changes"].reverse()), "is no recording"),
        ("no time", packed(lambda record: record["changes"].append([float("nan"), {}])), "is no recording"),
        ("no change", packed(lambda record: record["changes"].append([1e9, []])), "is no recording"),
        (
            "no such block",
            packed(lambda record: record["changes"].append([1e9, {"order": ["x"]}])),
            "fits nothing before it",
        ),
        ("a figure that is none", packed(lambda record: record["start"]["figures"].append({})), "is no recording"),
        ("a time of no year", packed(lambda record: record["start"]["state"].update(since=1e18)), "is no recording"),
        ("a block of no kind", packed(lambda record: record["start"]["blocks"][0].update({"is": "x"})), "is no record"),
        ("details of no kind", packed(lambda record: record["details"].update({"a": [{}]})), "is no recording"),
        ("a change of no kind", packed(lambda record: record["changes"].append([1e9, {"figures": 1}])), "is no record"),
        (
            "rows of a text",
            packed(lambda record: record["changes"].append([1e9, {"blocks": {"events": {"rows": {}, "count": 0}}}])),
            "fits nothing before it",
        ),
        ("far too deep", gzip.compress(b"[" * 100_000), "cannot be read as a recording"),
        ("far too large", gzip.compress(b" " * (MOST_BYTES + 1)), "has more than 256 MB"),
        ("another run", packed(lambda record: record.update(run="other")), "of run 'other', not of 'demo'"),
    ]
}


@pytest.mark.parametrize("name", NO_RECORDINGS)
def test_what_is_no_recording_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    content, message = NO_RECORDINGS[name]
    path = tmp_path / "show.gz"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=message):
        read_show(str(path), "demo")


def test_a_file_that_is_not_there_is_a_message_that_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no file; `coppice replay demo --show --save "):
        read_show(str(tmp_path / "nothing"), "demo")
