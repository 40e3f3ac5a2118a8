"""`coppice watch` on a full screen: figures, what runs, a table or another block, details of a row, the log.

All by keys, and drawn in the terminal's own colours, so that it is read on light and dark ones.  From the top:

    head      the command that opens this very screen, how the run stands, its figures
    running   the block of that name, while something runs
    body      one of the other blocks, the details of a row, or the keys
    row       what of the selected row has no place in the table, or is cut
    log       the end of the block with events
    keys      what a key does now, a question, or what went wrong"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Resize
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from pipeline.core.projection import LIVE, PAUSED, STATUSES, Json, apply_delta
from pipeline.errors import SpecError
from pipeline.screens.show import Feed, Steering
from pipeline.views.lines import cell_text, cut_text, wrap_text
from pipeline.views.snapshot import (
    ARROWS_LEGEND,
    RUNNING,
    Place,
    TableLayout,
    ascii_signs,
    block_lines,
    count_on,
    filtered_rows,
    head_lines,
    is_log,
    table_layout,
    title_line,
    watch_command,
)

Line = tuple[str, str]  # style, text
BOLD, DIM, RED, GREEN, CYAN, YELLOW, PLAIN = "bold", "dim", "red", "green", "cyan", "yellow", ""
STATUS_STYLES = dict.fromkeys(("promoted", "proved", "passed"), GREEN)
STATUS_STYLES |= dict.fromkeys(("failed", "refused"), RED) | dict.fromkeys(("indecisive", "waiting", "stale"), YELLOW)
STATUS_STYLES |= dict.fromkeys(("rejected", "skipped", "queued"), DIM) | {"running": CYAN}
DIFF_STYLES = {"+": GREEN, "-": RED, "@": CYAN}
# Of a terminal, from which on there are panes beside the body; rows at each end of a table that decide on its widths.
LEAST_HEIGHT, MEASURED_ROWS = 16, 200
FOOTER = "j k g G move · Enter details · Tab next view · / filter · ? keys · q quit"
KEYS = [
    ("j k, down up", "the next row or line, the one before"), ("g G, Home End", "the first, the last"),
    ("Ctrl-D Ctrl-U, Page keys", "a page on, a page back; Space: on"), ("Enter", "details of the row"),
    ("Tab, Shift-Tab", "the next view, or the one before"), ("/", "only rows with a text or status; Enter keeps it"),
    ("Esc", "back to the table; without the filter; first view"), ("p", "pause the run or let it go on; asks first"),
    ("?", "these keys"), ("q, Ctrl-C", "quit; the run does not notice"),
]  # fmt: skip


class Pane(Widget):
    """Lines, drawn when they come into view, of which one may be the selected one."""

    def __init__(self, name: str, unicode: bool) -> None:
        super().__init__(id=name)
        self.unicode, self.count, self.top, self.selected = unicode, 0, 0, -1
        self.lines: Sequence[Line] = ()
        self.line_at: Callable[[int], Line] = lambda at: (PLAIN, "")

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines and no others, in a pane of that height; what is the same is not sent again."""
        if lines != self.lines:
            self.lines = lines
            self.styles.height = len(lines)
            self.show_some(len(lines), lines.__getitem__)

    def show_some(self, count: int, line_at: Callable[[int], Line], selected: int = -1) -> None:
        self.count, self.line_at, self.selected = count, line_at, selected
        self._place(self.top)
        self.refresh()

    def scroll_lines(self, by: int) -> None:
        """Move what is seen, as far as there are lines; what is selected stays in view."""
        before = self.top
        self._place(self.top + by)
        if self.top != before:
            self.refresh()

    def _place(self, top: int) -> None:
        height = max(1, self.size.height)
        if self.selected >= 0:
            top = min(self.selected, max(top, self.selected - height + 1))
        self.top = max(0, min(top, self.count - height))

    def on_resize(self, event: Resize) -> None:
        self.scroll_lines(0)

    def render_line(self, y: int) -> Strip:
        at, width = y + self.top, self.size.width
        if at >= self.count:
            return Strip.blank(width, Style())
        style, text = self.line_at(at)
        look = Style.parse(f"{style} reverse" if at == self.selected else style)
        return Strip([Segment(ascii_signs(text, self.unicode), look)]).adjust_cell_length(width, look)


class Body(NamedTuple):
    """The body: a table of which these rows pass the filter, or lines."""

    title: str
    heads: str
    length: int
    line_at: Callable[[int], Line]
    rows: Sequence[Json] = ()
    rest: Sequence[str] = ()  # a line on what of the selected row has no place, if anything has none


class WatchApp(App[None]):
    """Screen of one run.  `is_linked`: its head is the command with the place on it; of a show it is the show's.

    `poll_seconds`: how often the feed is asked; 0: only when `step` is called.  `clock`: counts on; none of a show."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = ""
    CSS = """
    Screen { overflow: hidden; } Pane { width: 100%; } #body { height: 1fr; }
    Input { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    """
    ACTIONS: ClassVar[dict[str, str]] = {
        "j,down": "move(1)", "k,up": "move(-1)", "g,home": "move(-1000000000)", "G,end": "move(1000000000)",
        "ctrl+d,pagedown,space": "page(1)", "ctrl+u,pageup": "page(-1)", "tab": "view(1)", "shift+tab": "view(-1)",
        "enter": "open", "escape": "leave", "slash": "filter", "p": "steer", "question_mark": "help",
        "q": "quit", "ctrl+c,ctrl+q": "quit", "ctrl+z": "suspend_process",
    }  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, action, priority=action.partition("(")[0] in ("view", "leave", "quit") and keys != "q")
        for keys, action in ACTIONS.items()
    ]

    def __init__(
        self,
        feed: Feed,
        place: Place = Place(),  # noqa: B008 - a record that nobody changes
        steering: Steering | None = None,
        is_linked: bool = True,
        unicode: bool = True,
        poll_seconds: float = 0.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.feed, self.place, self.steering, self.is_linked = feed, place, steering, is_linked
        self.is_unicode, self.poll_seconds, self.clock, self._counted = unicode, poll_seconds, clock, 0
        self.projection, self.details = Json(), list[Json]()
        self.selected, self.row = place.item, 0  # the item of the selected row, its place among those that are shown
        self.helps = False
        self.question = self.remark = self.problem = ""
        self._layouts: dict[str, tuple[Any, TableLayout]] = {}
        self._asking = asyncio.Lock()  # a feed is asked one thing at a time

    # --- The feed.

    def compose(self) -> ComposeResult:
        for name in ("head", "running", "title", "body", "row", "log"):
            yield Pane(name, self.is_unicode)
        yield Input(placeholder="a text or a status", id="filter", value=self.place.filter)
        yield Pane("keys", self.is_unicode)

    async def on_mount(self) -> None:
        try:
            self.projection = await self._ask(self.feed.now)
        except SpecError as error:
            self.exit(return_code=2, message=f"coppice: {cell_text(str(error))}")
            return
        if self.place.item:
            await self._read_details()
        names = [block["name"] for block in self.views()]
        if self.place.view not in ("", *names):
            self.remark = f"there is no view '{self.place.view}' yet; there are: {', '.join(names)}"
        self.draw()
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        if self.poll_seconds:
            self.run_worker(self._follow())

    async def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask the feed, in a thread: it may read for a while."""
        async with self._asking:
            return await asyncio.to_thread(question)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self.poll_seconds)
            await self.step()

    async def step(self) -> None:
        """Draw what has changed.  What cannot be read now, such as a spec under edit, is said, and asked for again."""
        try:
            change = await self._ask(self.feed.poll)
        except SpecError as error:
            self.problem = str(error)
            self.draw()
            return
        is_mended, self.problem = bool(self.problem), ""
        if change or is_mended:
            self.projection = apply_delta(self.projection, change)
            if self.place.item:
                await self._read_details()
            self.draw()
        elif self.clock and self.projection["state"]["word"] in (LIVE, PAUSED) and int(self.clock()) != self._counted:
            self.draw_times()

    async def _read_details(self) -> None:
        item = self.place.item
        try:
            blocks = await self._ask(lambda: self.feed.details(item))
        except SpecError as error:
            blocks = [{"is": "text", "name": "none", "title": item, "text": str(error)}]
        if item == self.place.item:
            self.details = blocks

    # --- What is drawn.

    def draw(self) -> None:
        """Draw all panes by what is there now."""
        if not self.projection:
            return
        self.draw_times()
        self._pane("keys").show([self._keys_line(width := self.size.width)])
        shown = self._body(width)
        heads = [(BOLD, cut_text(shown.heads, width))] * bool(shown.heads)
        self._pane("title").show([(DIM, title_line(shown.title, width)), *heads])
        rest = [(DIM, cut_text(each, width)) for each in shown.rest if self.size.height >= LEAST_HEIGHT]
        self._pane("row").show(rest)
        self._pane("body").show_some(shown.length, shown.line_at, self.row if shown.rows else -1)

    def draw_times(self) -> None:
        """Draw the head and, where there is room for panes beside the body, what runs and the log."""
        width, height = self.size
        now = self.clock() if self.clock else None
        self._counted = int(now or 0)
        going = [block for block in self.projection["blocks"] if block["name"] == RUNNING and block.get("rows")]
        shown = count_on({**self.projection, "blocks": going}, now)
        command = watch_command(self.projection["run"], self.place) if self.is_linked else ""
        head = head_lines(shown, width, command=command)[: max(1, height // 2 - 1)]
        self._pane("head").show([(BOLD if at == 0 else PLAIN, line) for at, line in enumerate(head)])
        lines = (line for block in shown["blocks"] for line in block_lines(block, width, 2 + max(1, height // 8)))
        is_whole = height >= LEAST_HEIGHT and not (self.place.item or self.helps)
        self._pane("running").show(styled(lines) if is_whole else [])
        logs = [each for each in self.projection["blocks"] if is_log(each)][:1]
        ends = (line for block in logs for line in block_lines(block, width, 1 + max(2, height // 7)))
        self._pane("log").show(styled(ends) if is_whole else [])

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.draw)  # once the panes have their new sizes

    def _pane(self, name: str) -> Pane:
        return self.query_one(f"#{name}", Pane)

    def _keys_line(self, width: int) -> Line:
        if self.question:
            return YELLOW, cut_text(f"{cell_text(self.question)} y/n", width)
        if said := self.remark or self.problem:
            return YELLOW, cut_text(cell_text(said), width)
        return DIM, cut_text("j k g G move · Esc back · q quit" if self.place.item or self.helps else FOOTER, width)

    def _body(self, width: int) -> Body:
        if self.helps:
            keys = [f"{keys:26}{does}" for keys, does in KEYS]
            signs = "   ".join(f"{sign} {word}" for word, sign in STATUSES.items())
            rest = wrap_text(f"\n{signs}\n\n{ARROWS_LEGEND}; a - is what is not known", width)
            return page("Keys", styled([*(cut_text(line, width) for line in keys), *rest]))
        if self.place.item:
            return page(self.place.item, blocks_lines(self.details, width))
        block = self._view()
        others = [cell_text(each["title"]) for each in self.views() if each is not block]
        more = f" ── Tab: {', '.join(others)}" if others else ""
        if block["is"] != "table":
            return page(f"{block['title']}{more}", blocks_lines([block], width)[1:])
        rows = filtered_rows(block["rows"], self.place.filter)
        layout = self._layout(block, rows, width)
        of = f" of those with '{self.place.filter}'" if self.place.filter else ""
        left = f" ── no room for {', '.join(layout.left_out)}" if layout.left_out else ""
        self._find_row(rows)
        at = f" · {self.row + 1 if rows else 0}/{len(rows)}{of}"

        def line_at(at: int) -> Line:
            return STATUS_STYLES.get(rows[at]["status"], PLAIN), cut_text(layout.line(rows[at]), width)

        told = [text for row in rows[self.row : self.row + 1] if (text := layout.rest(row)) or layout.left_out]
        return Body(f"{block['title']}{at}{left}{more}", layout.head, len(rows), line_at, rows, told)

    def views(self) -> list[Json]:
        """Blocks that the body can show: all but what runs, and what the result means."""
        meaning = {"is": "text", "name": "meaning", "title": "What it means", "text": self.projection["meaning"]}
        own = [block for block in self.projection["blocks"] if block["name"] != RUNNING]
        return [*own, *([meaning] if meaning["text"] or not own else [])]

    def _view(self) -> Json:
        """The block in the body: the chosen one, or the first table whose rows have details."""
        views = self.views()
        named = [block for block in views if block["name"] == self.place.view]
        tables = [block for block in views if block["is"] == "table" and any(row["item"] for row in block["rows"])]
        return (named or tables or views)[0]

    def _layout(self, block: Json, rows: Sequence[Json], width: int) -> TableLayout:
        """The layout of a table, kept until it changes."""
        key = (block, width, self.place.filter)
        kept = self._layouts.get(block["name"])
        if kept is None or kept[0][0] is not block or kept[0][1:] != key[1:]:
            some = [*rows[:MEASURED_ROWS], *rows[MEASURED_ROWS:][-MEASURED_ROWS:]]
            kept = self._layouts[block["name"]] = (key, table_layout(block, some, width))
        return kept[1]

    def _find_row(self, rows: Sequence[Json]) -> None:
        """Find the selected item again among rows that may have moved."""
        self.row = max(0, min(self.row, len(rows) - 1))
        if rows and self.selected and rows[self.row]["item"] != self.selected:
            self.row = next((at for at, row in enumerate(rows) if row["item"] == self.selected), self.row)

    # --- Keys.

    async def on_event(self, event: Event) -> None:
        """Take a key for the answer while there is a question, and for nothing else."""
        if not (self.question and isinstance(event, Key)):
            await super().on_event(event)
            return
        self.question = ""
        if event.key == "y" and self.steering is not None:
            self.remark = self.steering.act()
        self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let what is typed as a filter be text."""
        return self.focused is None or action in ("quit", "leave")

    def _rows(self) -> Sequence[Json]:
        block = self._view()
        is_table = block["is"] == "table" and not (self.place.item or self.helps)
        return filtered_rows(block["rows"], self.place.filter) if is_table else ()

    def action_move(self, by: int) -> None:
        self.remark = ""
        if rows := self._rows():
            self.row = max(0, min(self.row + by, len(rows) - 1))
            self.selected = rows[self.row]["item"]
            self.draw()
        else:
            self._pane("body").scroll_lines(by)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self._pane("body").size.height - 1))

    async def action_open(self) -> None:
        rows = self._rows()
        if rows and rows[self.row]["item"]:
            self.selected = rows[self.row]["item"]
            self.place = self.place._replace(item=self.selected)
            await self._read_details()
            self._turn_page()

    def action_view(self, by: int) -> None:
        names = [block["name"] for block in self.views()]
        at = (names.index(self._view()["name"]) + by) % len(names)
        self.place = self.place._replace(item="", view=names[at])
        self.helps, self.row, self.selected = False, 0, ""
        self._turn_page()

    def action_help(self) -> None:
        self.helps = not self.helps
        self._turn_page()

    def action_leave(self) -> None:
        """Leave, one at a time: what is typed, the keys, the details, the filter, the view."""
        if self.focused is not None:
            self._end_typing("")
        elif self.helps:
            self.helps = False
        elif self.place.item:
            self.place = self.place._replace(item="")
        elif self.place.filter:
            self._end_typing("")
        else:
            self.place = self.place._replace(view="")
        self._turn_page()

    def action_filter(self) -> None:
        if self._view()["is"] != "table":
            self.remark = "only rows of a table can be filtered; Tab shows another view"
            self.draw()
            return
        self.place, self.helps = self.place._replace(item=""), False
        typed = self.query_one(Input)
        typed.display = True
        typed.focus()
        self._turn_page()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.focused is not None:
            self.place = self.place._replace(filter=event.value)
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._end_typing(event.value)
        self._turn_page()

    def _end_typing(self, text: str) -> None:
        typed = self.query_one(Input)
        typed.value, typed.display = text, False
        self.set_focus(None)
        self.place = self.place._replace(filter=text)

    def action_steer(self) -> None:
        if self.steering is None:
            self.remark = "nothing here can be paused"
        elif not (question := self.steering.question()):
            self.remark = self.steering.act()
        else:
            self.question = question
        self.draw()

    def _turn_page(self) -> None:
        """Draw another body, from its beginning."""
        self.remark = ""
        self._pane("body").top = 0
        self.draw()


def page(title: str, lines: Sequence[Line]) -> Body:
    return Body(title, "", len(lines), lines.__getitem__)


def styled(lines: Iterable[str]) -> list[Line]:
    return [(DIM if line.startswith("── ") else PLAIN, line) for line in lines]


def blocks_lines(blocks: Sequence[Json], width: int) -> list[Line]:
    """Blocks below each other, diffs in colours; the first line is a title."""
    lines: list[Line] = []
    for block in blocks:
        is_diff = block.get("look") == "diff"
        title, *rest = block_lines(block, width)
        lines += [*([(PLAIN, "")] if lines else []), (DIM, title)]
        lines += [(DIFF_STYLES.get(line[:1], PLAIN) if is_diff else PLAIN, line) for line in rest]
    return lines
