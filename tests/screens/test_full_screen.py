"""The full screen of `coppice watch`, by its keys: what a person sees after each."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kit.watching import BEGIN, Feed, going, hostile, huge, json_of

from pipeline.core.projection import Json, Projection
from pipeline.errors import SpecError
from pipeline.screens.terminal import FOOTER, KEYS, Pane, WatchApp
from pipeline.views.lines import text_width
from pipeline.views.snapshot import Place, head_lines

Act = Callable[["Seen"], Awaitable[None]]


class Seen:
    """A screen without a terminal: keys are pressed, and its panes read."""

    def __init__(self, app: WatchApp, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text()

    async def step(self) -> str:
        await self.app.step()
        await self.pilot.pause()
        return self.text()

    def pane(self, name: str) -> list[str]:
        pane = self.app.query_one(f"#{name}", Pane)
        return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]

    def text(self) -> str:
        return "\n".join(line for pane in self.app.query(Pane) for line in self.pane(pane.id or ""))

    @property
    def head(self) -> str:
        return self.pane("head")[0]

    @property
    def row(self) -> str:
        """The selected row, as it is drawn."""
        body = self.app.query_one("#body", Pane)
        [line] = [
            strip.text.rstrip()
            for strip in map(body.render_line, range(body.size.height))
            if any(part.style and part.style.reverse for part in strip)
        ]
        return line


def on_screen(
    feed: Any,
    act: Act,
    width: int = 80,
    height: int = 24,
    place: Place | None = None,
    steering: Any = None,
    clock: Callable[[], float] | None = None,
) -> WatchApp:
    app = WatchApp(feed, place or Place(), steering, poll_seconds=0, clock=clock)

    async def run() -> None:
        async with app.run_test(size=(width, height)) as pilot:
            await pilot.pause()
            await act(Seen(app, pilot))

    asyncio.run(run())
    return app


def test_at_80_by_24_it_has_the_command_the_figures_what_runs_the_tree_the_log_and_the_keys() -> None:
    async def act(seen: Seen) -> None:
        lines = seen.text().split("\n")
        assert len(lines) == 24
        assert lines[0] == "coppice watch demo                                         ▶ live for 1 min 00 s"
        assert "best +1.50 %↑ · evaluations 1 of 4 · spent 0.25 USD (of 2.00)" in lines
        assert [line for line in seen.pane("running") if line.startswith("demo:d0.n0.i1.sweep  ▶ running ")]
        assert seen.pane("title")[0].startswith("── Tree · 1/5 ── Tab: Best score, Events, What it means ─")
        assert seen.pane("body")[1] == "  d0.n0.i0  ▲ promoted    +1.50  0.01  reason 0"
        assert seen.pane("log")[1:] == ["event 0", "event 1"]
        assert seen.pane("keys") == [FOOTER]
        assert seen.row.startswith("d0.n0 ")

    on_screen(Feed(going()), act)


def test_what_has_no_place_in_the_table_is_told_of_the_selected_row_the_why_first() -> None:
    async def act(seen: Seen) -> None:
        assert " ── no room for p↓,…" in seen.pane("title")[0]
        assert seen.pane("row") == ["why: the start"], "p is not known"
        await seen.press("j", "j")
        assert seen.pane("row") == ["why: reason 1 · p↓: 0.01"]
        await seen.press("tab")
        assert seen.pane("row") == [], "no table"
        await seen.pilot.resize_terminal(80, 24)
        await seen.press("escape")
        assert seen.pane("row") == [], "all has its place"

    on_screen(Feed(going()), act, width=34)


def test_times_go_on_though_nothing_else_changes() -> None:
    times = [BEGIN + 6]

    async def act(seen: Seen) -> None:
        assert seen.head.endswith("live for 6 s")
        times[0] += 3
        await seen.step()
        assert seen.head.endswith("live for 9 s")

    on_screen(Feed(going()), act, clock=lambda: times[0])


def test_keys_move_the_selected_row_and_not_beyond_the_ends() -> None:
    async def act(seen: Seen) -> None:
        for key, item in (("j", "i0"), ("down", "i1"), ("k", "i0"), ("up", "n0 "), ("k", "n0 "), ("G", "i3")):
            await seen.press(key)
            assert item in seen.row, key
        for key, item in (("j", "i3"), ("g", "n0 "), ("end", "i3"), ("home", "n0 "), ("space", "i3")):
            await seen.press(key)
            assert item in seen.row, key

    on_screen(Feed(going()), act)


def test_among_thousands_of_rows_the_selected_one_stays_in_view() -> None:
    async def act(seen: Seen) -> None:
        height = seen.app.query_one("#body", Pane).size.height
        for key, at in (("G", 4999), ("ctrl+u", 5000 - height), ("pageup", 5001 - 2 * height), ("g", 0)):
            await seen.press(key)
            assert f" {at + 1}/5000 " in seen.pane("title")[0], key
            assert f"{at / 7:+.3f}" in seen.row

    on_screen(Feed(huge()), act)


def test_enter_opens_details_escape_closes_them_and_the_head_is_the_command_for_either() -> None:
    async def act(seen: Seen) -> None:
        text = await seen.press("j", "enter")
        assert seen.head.startswith("coppice watch demo:d0.n0.i0 ")
        assert "All about d0.n0.i0." in text
        assert "c0  █ +1 //" in text
        assert "12 bytes left out; all of it: runs/demo/change.patch" in text
        assert "Running" not in text
        await seen.press("escape")
        assert seen.head.startswith("coppice watch demo ")
        assert "i0" in seen.row

    feed = Feed(going())
    on_screen(feed, act)
    assert feed.asked == ["d0.n0.i0"]


def test_the_lines_of_a_diff_differ_by_colour_and_sign() -> None:
    async def act(seen: Seen) -> None:
        await seen.press("j", "enter")
        body = seen.app.query_one("#body", Pane)
        strips = [body.render_line(y) for y in range(body.size.height)]
        colours = {
            strip.text.rstrip(): str(next(iter(strip)).style.color.name)  # type: ignore[union-attr]
            for strip in strips
            if strip.text.startswith(("+new", "-old"))
        }
        assert colours == {"+new": "green", "-old": "red"}

    on_screen(Feed(going()), act)


def test_details_that_are_not_there_are_a_message_and_no_end() -> None:
    class Bare(Feed):
        def details(self, item: str) -> list[Json]:
            raise SpecError(f"nothing is known of {item}")

    async def act(seen: Seen) -> None:
        assert "nothing is known of d0.n0" in await seen.press("enter")
        assert "── Tree" in await seen.press("escape")

    on_screen(Bare(going()), act)


def test_tab_goes_through_the_views_and_back_and_escape_leads_to_the_first() -> None:
    async def act(seen: Seen) -> None:
        for key, title, view in (
            ("tab", "Best score", " --view stair"),
            ("tab", "Events", " --view events"),
            ("tab", "What it means", " --view meaning"),
            ("tab", "Tree", " --view tree"),
            ("shift+tab", "What it means", " --view meaning"),
            ("escape", "Tree", ""),
        ):
            await seen.press(key)
            assert seen.pane("title")[0].startswith(f"── {title} "), key
            assert seen.head.startswith(f"coppice watch demo{view}  "), key

    on_screen(Feed(going()), act)


def test_a_filter_leaves_rows_with_a_text_or_a_status_and_is_part_of_the_command() -> None:
    async def act(seen: Seen) -> None:
        await seen.press("slash", *"QUEued")
        assert seen.pane("body")[:2] == [
            "  d0.n0.i2  · queued        -  0.01  reason 2",
            "  d0.n0.i3  · queued        -  0.01  reason 3",
        ]
        await seen.press("enter", "j")
        assert "i3" in seen.row
        assert "1/5" not in seen.pane("title")[0]
        assert "2/2 of those with 'QUEued'" in seen.pane("title")[0]
        assert seen.head.startswith("coppice watch demo --filter QUEued  ")
        await seen.press("escape")
        assert len([line for line in seen.pane("body") if line]) == 5
        await seen.press("slash", *"qj", "escape")
        assert seen.head.startswith("coppice watch demo  ")

    on_screen(Feed(going()), act)


def test_a_view_without_rows_says_that_it_has_nothing_to_filter() -> None:
    async def act(seen: Seen) -> None:
        await seen.press("tab", "slash")
        assert seen.pane("keys")[0].startswith("only rows of a table can be filtered")

    on_screen(Feed(going()), act)


def test_every_key_is_explained_by_a_key() -> None:
    async def act(seen: Seen) -> None:
        text = await seen.press("question_mark")
        assert not [does for _, does in KEYS if does not in text]
        assert "↑ higher is better" in await seen.press("G")
        assert "── Tree" in await seen.press("question_mark")
        await seen.press("question_mark")
        assert "── Tree" in await seen.press("escape")

    on_screen(Feed(going()), act)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_it_can_be_left(key: str) -> None:
    async def act(seen: Seen) -> None:
        await seen.pilot.press(key)

    assert on_screen(Feed(going()), act).return_code == 0


def test_a_signal_that_asks_to_end_ends_it_with_its_code() -> None:
    async def act(seen: Seen) -> None:
        signal.raise_signal(signal.SIGTERM)
        await seen.pilot.pause()

    assert on_screen(Feed(going()), act).return_code == 128 + signal.SIGTERM


def test_a_place_is_opened_by_what_the_head_says() -> None:
    async def act(seen: Seen) -> None:
        assert seen.head.startswith("coppice watch demo:d0.n0.i2 --view tree --filter 'a b'  ")
        assert "All about d0.n0.i2." in seen.text()

    on_screen(Feed(going()), act, place=Place("d0.n0.i2", "tree", "a b"))


def test_a_view_that_is_not_there_is_said() -> None:
    async def act(seen: Seen) -> None:
        assert "there is no view 'trees' yet; there are: tree, stair, events, meaning" in seen.pane("keys")[0]

    on_screen(Feed(going()), act, place=Place(view="trees"))


# --- Runs that change.


@pytest.mark.parametrize(
    ("after", "state"),
    [
        (going(ended=2), "▶ live for 2 min 00 s"),
        (going("paused", 2), "‖ paused for 2 min 00 s"),
        (going("done", 4), "● done since 2023-11-1"),
        (going("killed", 2), "✕ killed since 2023-11-1"),
    ],
)
def test_what_changes_is_drawn_and_the_selected_row_stays_selected(after: Projection, state: str) -> None:
    feed = Feed(going())

    async def act(seen: Seen) -> None:
        await seen.press("j", "j")
        assert "▶ running" in seen.row
        feed.put(after)
        await seen.step()
        assert state in seen.head
        assert seen.row.startswith("  d0.n0.i1  ▲ promoted    +0.50")
        numbers = [figure["text"] for figure in json_of(after)["figures"]]
        assert not [number for number in numbers if number not in "\n".join(seen.pane("head"))]
        assert ("Running" in seen.text()) == (after.state.word != "done")

    on_screen(feed, act)


def test_a_run_that_was_killed_says_so_and_is_not_live() -> None:
    async def act(seen: Seen) -> None:
        assert "its last build has no end" in seen.text()
        assert "live" not in seen.text()

    on_screen(Feed(going("killed")), act)


def test_open_details_are_read_again_when_something_changes_and_only_then() -> None:
    feed = Feed(going())

    async def act(seen: Seen) -> None:
        await seen.press("j", "enter")
        await seen.step()
        assert feed.asked == ["d0.n0.i0"]
        feed.put(going(ended=2))
        await seen.step()
        assert feed.asked == ["d0.n0.i0"] * 2

    on_screen(feed, act)


def test_records_that_cannot_be_read_are_said_and_asked_for_again() -> None:
    class Torn(Feed):
        is_torn = True

        def poll(self) -> Json:
            if self.is_torn:
                raise SpecError("specs/demo.yaml:3: is no YAML")
            return super().poll()

    feed = Torn(going())

    async def act(seen: Seen) -> None:
        assert "specs/demo.yaml:3: is no YAML" in await seen.step()
        feed.is_torn = False
        assert "is no YAML" not in await seen.step(), "it is mended"
        feed.put(going(ended=2))
        assert "evaluations 2 of 4" in await seen.step()

    on_screen(feed, act)


def test_records_that_cannot_be_read_at_first_end_it_with_a_message() -> None:
    class Damaged(Feed):
        def now(self) -> Json:
            raise SpecError("runs/demo: damaged")

    async def act(seen: Seen) -> None:
        assert seen.app.return_code == 2

    on_screen(Damaged(going()), act)


@pytest.mark.parametrize("feed", [Feed(going()), Feed(hostile())])
def test_it_fits_whatever_the_size_becomes(feed: Feed) -> None:
    async def act(seen: Seen) -> None:
        for width, height in ((40, 12), (200, 60), (30, 8), (80, 24)):
            await seen.pilot.resize_terminal(width, height)
            await seen.pilot.pause()
            lines = seen.text().split("\n")
            assert not [line for line in lines if text_width(line) > width]
            assert len(lines) == height
            assert seen.app.query_one("#body", Pane).size.height >= 2
            assert seen.pane("head")[0] == head_lines(seen.app.projection, width, command="coppice watch demo")[0]

    on_screen(feed, act)


# --- Steering.


class Wish:
    """Steering that only remembers."""

    def __init__(self, question: str) -> None:
        self.asks, self.acted = question, 0

    def question(self) -> str:
        return self.asks

    def act(self) -> str:
        self.acted += 1
        return "demo is paused"


@pytest.mark.parametrize(("answer", "acted"), [("y", 1), ("n", 0), ("escape", 0), ("j", 0), ("p", 0), ("enter", 0)])
def test_a_run_is_paused_after_a_question_whose_answer_is_y_alone(answer: str, acted: int) -> None:
    wish = Wish("pause demo?")

    async def act(seen: Seen) -> None:
        await seen.press("p")
        assert seen.pane("keys") == ["pause demo? y/n"]
        await seen.press(answer)
        assert seen.pane("keys") == ["demo is paused" if acted else FOOTER]
        assert seen.row.startswith("d0.n0 "), "the key was an answer, and nothing else"

    on_screen(Feed(going()), act, steering=wish)
    assert wish.acted == acted


def test_a_show_is_held_without_a_question() -> None:
    wish = Wish("")

    async def act(seen: Seen) -> None:
        await seen.press("p")
        assert seen.pane("keys") == ["demo is paused"]

    on_screen(Feed(going()), act, steering=wish)
    assert wish.acted == 1


def test_what_cannot_be_paused_says_so() -> None:
    async def act(seen: Seen) -> None:
        await seen.press("p", "y")
        assert seen.pane("keys")[0] == "nothing here can be paused"

    on_screen(Feed(going()), act)
