"""The page of a run in a real browser: all that a person sees, presses and copies; what others wrote stays text.

One browser for all of it.  Each page must load without a message on the console and without a request beyond itself;
`shown` looks at both when its test ends."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.browsing import CHROMIUM
from kit.project import ROOT
from kit.projections import HOSTILE, MadeSearch, every_kind

from pipeline.core.projection import STATUSES, Column, Json, Picture, Row, Table, apply_delta, as_json, delta
from pipeline.core.text import visible_text
from pipeline.views.graph import RECORDED, Box, Chart, chart_picture
from pipeline.views.pages.document import SCRIPT, STYLE, Sources, live_document, report_document

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")

PAGES = ROOT / "pipeline/views/pages"
SOURCES = Sources((PAGES / SCRIPT).read_text(), (PAGES / STYLE).read_text())
WIDTHS = (360, 1600)
# A stream of events in the hands of a test.
STREAM = """window.EventSource = class { constructor() { this.handlers = {}; window.source = this; }
    addEventListener(name, handler) { this.handlers[name] = handler; } close() {} };"""


class Shown:
    """A page in the browser, and what it said and asked for meanwhile."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.noises: list[str] = []
        page.on("console", lambda message: self.noises.append(message.text))
        page.on("pageerror", lambda error: self.noises.append(str(error)))
        page.on("request", self.requested)

    def requested(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "about:blank")):
            self.noises.append(request.url)

    def open(self, html: str, place: str = "") -> "Shown":
        file = self.folder / "page.html"
        file.write_text(html)
        self.address = file.as_uri()
        self.page.goto("about:blank")
        return self.go(place)

    def go(self, place: str) -> "Shown":
        self.page.goto(f"{self.address}{place}")
        self.page.wait_for_selector("html[data-ready]")
        return self

    def press(self, *keys: str) -> "Shown":
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def is_so(self, program: str) -> None:
        """Wait until what the program says is true, frame by frame; the page itself may not evaluate a text."""
        assert self.says(f"""new Promise((done) => {{
            const end = Date.now() + 20_000;
            const look = () => ({program}) ? done(true) : Date.now() > end ? done(false) : requestAnimationFrame(look);
            look();
        }})"""), f"{program}: {self.noises}"

    def says(self, program: str) -> Any:
        return self.page.evaluate(program)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    @property
    def place(self) -> str:
        return str(self.page.url).partition("#")[2]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Shown]:
    context = browser.new_context(viewport={"width": WIDTHS[1], "height": 900}, color_scheme="light")
    shown = Shown(context.new_page(), tmp_path)
    yield shown
    assert shown.noises == []
    context.close()


def html_of(projection: Any, details: Sequence[tuple[str, Sequence[Json]]] = ()) -> str:
    return report_document(SOURCES, as_json(projection), details).html


@pytest.fixture(scope="module")
def every() -> str:
    projection, details = every_kind()
    return html_of(projection, [*details.items()])


@pytest.fixture(scope="module")
def search() -> MadeSearch:
    return MadeSearch(300)


@pytest.fixture(scope="module")
def made(search: MadeSearch) -> str:
    return html_of(search.projection(), [*search.all_details()])


def clean(text: str) -> str:
    """A hostile text as it may be seen: without escapes, invisible letters and runs of spaces."""
    text = re.sub("\x1b(\\[[0-9;]*[A-Za-z]|\\][^\x07]*\x07)", "", text)
    return " ".join(visible_text(text).split())


# --- What is there to see.


def test_every_kind_of_block_is_drawn_with_all_its_words(shown: Shown, every: str) -> None:
    shown.page.set_viewport_size({"width": WIDTHS[1], "height": 4000})  # what is below the window has no text yet
    text = shown.open(every).text("main")
    projection = as_json(every_kind()[0])
    for block in projection["blocks"]:
        assert clean(block["title"]) in text
        assert clean(block.get("sentence", "")) in text
    assert not shown.says("document.querySelectorAll('.wrong').length")
    assert [word for word, sign in STATUSES.items() if f"{sign} {word}" not in text] == []
    assert 2000 < len(text) < 6000
    for figure in projection["figures"]:
        assert figure["text"] in text
    assert "4,096 bytes left out; all of it: runs/x/change.patch" in text
    assert "Nothing yet." in text


def test_what_is_missing_is_no_number_and_what_is_negative_is_drawn(shown: Shown, every: str) -> None:
    shown.open(every)
    rows = shown.says(
        "[...document.querySelectorAll('.heat tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert [row[1:] for row in rows[:3]] == [
        ["-5.0e-1", "-not measured"],
        ["-not measured", "+2.5e-1"],  # it was no number
        ["0.0e+0", "+1.0e+9"],
    ]
    assert shown.says("document.querySelectorAll('.heat tbody td.missing').length") == 3
    assert "NaN" not in shown.text("#blocks")
    assert "undefined" not in shown.text("main")


def test_what_others_wrote_stays_text(shown: Shown, every: str) -> None:
    shown.open(every, "#item=i0")
    shown.is_so("!document.querySelector('#drawer [aria-busy]')")
    text = " ".join(shown.text("body").split())
    for each in HOSTILE:
        assert clean(each) in text
    assert shown.page.title() == "every: live"
    assert shown.says("document.querySelectorAll('img, iframe, object, foreignObject, image, script').length") == 2
    assert (
        shown.says("document.querySelectorAll('svg a, svg script, svg b, [onclick], [onerror], [style*=url]').length")
        == 0
    )
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown.says("document.body.textContent")
    )


def test_the_same_letters_are_unseen_on_the_page_and_on_a_terminal(shown: Shown) -> None:
    """Each character there is, one a line of a log, but for line ends and for what begins an escape."""
    numbers = [n for n in range(0x110000) if n not in (0x0A, 0x0D, 0x1B) and not 0xD800 <= n < 0xE000]
    odd = [n for n in numbers if visible_text(f"a{chr(n)}b") != f"a{chr(n)}b" or n % 4099 == 0]
    projection, _ = every_kind()
    block = {"is": "text", "name": "x", "title": "x", "text": "\n\n".join(f"a{chr(n)}b" for n in odd)}
    html = report_document(SOURCES, {**as_json(projection), "blocks": [block]}, []).html
    seen = shown.open(html).says("[...document.querySelectorAll('.prose p')].slice(1).map(p => p.textContent)")
    assert seen[-len(odd) :] == [visible_text(f"a{chr(n)}b") for n in odd]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_is_narrow_or_wide_light_or_dark_and_for_all(shown: Shown, every: str, width: int, theme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    shown.page.set_viewport_size({"width": width, "height": 900})
    shown.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    for place in ("", "#item=i0"):
        shown.open(every, place)
        shown.is_so("!document.querySelector('#drawer [aria-busy]')")
        assert shown.says("document.documentElement.scrollWidth") == width
        found = Axe().run(shown.page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []
    background = shown.says("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) is (theme == "dark")


def test_a_reason_is_read_in_its_row_and_the_opened_row_stays_in_view(shown: Shown, every: str, made: str) -> None:
    shown.page.set_viewport_size({"width": 400, "height": 800})
    shown.open(every)
    shown.is_so("document.querySelector('[data-block=tree] table.narrow')")
    inside = """[...document.querySelectorAll('[data-block=tree] td.words')].every((cell) => {
        const [own, card] = [cell, cell.closest('.card')].map((each) => each.getBoundingClientRect());
        return own.left >= card.left && own.right <= card.right;
    })"""
    assert shown.says(inside)
    shown.page.set_viewport_size({"width": 1400, "height": 700})
    shown.open(made)
    shown.page.click("a[data-item='d0.n0.i3']")
    shown.is_so("""(() => {
        const place = document.querySelector('tr.open')?.getBoundingClientRect();
        return place && place.top >= 0 && place.bottom <= innerHeight;
    })()""")


def test_a_graph_has_arrows_with_tips_and_marks_in_the_colours_of_their_statuses(shown: Shown) -> None:
    projection, _ = every_kind()
    boxes = [Box(word, {word: 1}, (at - 1,) if at else (), ()) for at, word in enumerate(RECORDED)]
    graph = Picture("graph", "Graph", "", chart_picture(Chart("x", boxes, dict.fromkeys(RECORDED, 1))))
    shown.open(report_document(SOURCES, {**as_json(projection), "blocks": [as_json(graph)]}, []).html)
    assert shown.says("document.querySelectorAll('.graph [marker-end] ~ *, .graph [marker-end]').length") > 0
    assert shown.says("getComputedStyle(document.querySelector('.graph .arrow')).fill") == "none"
    fills = {word: shown.says(f"getComputedStyle(document.querySelector('.graph .{word}')).fill") for word in RECORDED}
    black = [word for word, fill in fills.items() if fill == "rgb(0, 0, 0)"]
    assert not black
    assert len({fills[word] for word in ("done", "running", "waiting", "failed", "open", "skipped")}) == 6


def test_a_first_column_of_numbers_stands_below_its_header(shown: Shown) -> None:
    projection, _ = every_kind()
    table = Table("depths", "Depths", "", [Column("depth", True), Column("why")], [Row(["0", "none"])])
    shown.open(report_document(SOURCES, {**as_json(projection), "blocks": [as_json(table)]}, []).html)
    align = "getComputedStyle(document.querySelector('[data-block=depths] {}')).textAlign"
    assert [shown.says(align.format(cell)) for cell in ("tbody td.first", "tbody td:last-child")] == ["right", "left"]


def test_a_table_without_room_beside_opened_details_has_the_cells_of_a_row_below_each_other(shown: Shown) -> None:
    projection, _ = every_kind()
    columns = [Column("target"), *(Column(name) for name in ("took", "ended", "attempts")), Column("why")]
    cells = ["one.with-a-name-of-some-length", "1 h 02 min", "2026-11-20 08:30:00 UTC", "1", "-"]
    rows = [Row([f"{cells[0]}.{n}", *cells[1:]], f"x:{n}", "done") for n in range(300)]
    table = Table("targets", "Targets", "", columns, rows)
    shown.page.set_viewport_size({"width": 1400, "height": 900})
    shown.open(report_document(SOURCES, {**as_json(projection), "blocks": [as_json(table)]}, []).html)
    narrow = "document.querySelector('[data-block=targets] table.narrow') !== null"
    over = "(() => { const box = document.querySelector('.rows'); return box.scrollWidth - box.clientWidth; })()"
    assert not shown.says(narrow)
    shown.page.click("a[data-item='x:1']")
    shown.is_so(narrow)
    assert shown.says(over) <= 0
    shown.page.keyboard.press("Escape")
    shown.is_so(f"!({narrow})")
    assert shown.says(over) <= 0


# --- Places.


def test_every_selection_is_a_link_that_survives_a_reload(shown: Shown, made: str, search: MadeSearch) -> None:
    shown.open(made)
    item = next(row.item for row in search.rows if row.status == "rejected")
    shown.page.click(".chip[data-status=rejected]")
    shown.page.fill("input[type=search]", item[:4])
    shown.page.click("th button.sort >> nth=1")
    shown.page.click(f"a[data-item='{item}']")
    shown.is_so("document.querySelectorAll('#drawer .card').length == 5")
    seen = [shown.text(selector) for selector in ("#drawer", ".rows tbody", ".count")]
    place = shown.place
    assert f"item={item}" in place
    shown.page.reload()
    shown.is_so("document.querySelectorAll('#drawer .card').length == 5")
    assert [shown.text(selector) for selector in ("#drawer", ".rows tbody", ".count")] == seen
    assert shown.place == place
    shown.go("#view=money")
    assert shown.says("[...document.querySelectorAll('#blocks .card')].map(each => each.dataset.block)") == ["money"]
    shown.page.go_back()
    shown.is_so("document.querySelectorAll('#blocks .card').length == 5")


def test_what_a_link_names_and_is_not_there_is_said(shown: Shown, made: str) -> None:
    shown.open(made, "#item=d99.n9.i9&view=nothing&o.tree=99&s.tree=odd&q.=")
    shown.is_so("document.querySelector('#drawer').innerText.includes(\"There is no 'd99.n9.i9' in this run.\")")
    assert "338 rows" in shown.text("#blocks")


# --- Tables.


def test_of_a_long_table_only_what_is_in_view_is_in_the_page_and_all_of_it_can_be_reached(
    shown: Shown, made: str, search: MadeSearch
) -> None:
    shown.open(made)
    names = [row.cells[0] for row in search.rows]
    seen: list[str] = []
    for _ in range(60):
        drawn = shown.says(
            "[...document.querySelectorAll('[data-block=tree] tr[data-at] .first')].map(e => e.lastChild.textContent)"
        )
        assert len(drawn) < 80
        seen += [name for name in drawn if name not in seen]
        if seen == names:
            break
        shown.says("document.querySelector('.rows').scrollTop += 400")
        shown.says("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert seen == names


def test_rows_are_sifted_with_what_they_hang_on_and_sorted_with_what_is_missing_last(shown: Shown, every: str) -> None:
    shown.open(every)
    tree = "[data-block=tree] tr[data-at]"

    def scores() -> list[str]:
        return list(shown.says(f"[...document.querySelectorAll('{tree}')].slice(1).map(row => row.cells[2].innerText)"))

    shown.page.click("[data-block=tree] th button.sort >> nth=1")
    assert scores()[:3] == ["-2.5", "1e-3", "7"]
    assert scores()[-4:] == ["3 min 20 s", "12,345", "-", "nan"]
    shown.page.click("[data-block=tree] th button.sort >> nth=1")
    assert scores()[:2] == ["12,345", "3 min 20 s"]
    assert scores()[-2:] == ["-", "nan"]
    shown.page.click(".chip[data-status=failed]")
    assert shown.says(f"[...document.querySelectorAll('{tree}')].map(row => row.cells[0].innerText.trim())")[-1] == "i6"
    assert "1 of 17 rows" in shown.text("[data-block=tree]")
    shown.page.fill("input[type=search]", "no such word")
    assert "No row is like that." in shown.text("[data-block=tree]")


def test_a_table_is_drawn_as_the_address_says_also_when_that_is_changed_by_hand(shown: Shown, every: str) -> None:
    shown.open(every, "#q.tree=i6&s.tree=failed&o.tree=2")
    says = """[document.querySelector('[data-block=tree] input').value,
        document.querySelectorAll('.chip[aria-pressed=true]').length,
        document.querySelectorAll('[data-block=tree] th[aria-sort]').length]"""
    assert shown.says(says) == ["i6", 1, 1]
    shown.says("location.hash = '#'")
    shown.is_so("document.querySelector('[data-block=tree] .count').innerText == '17 rows'")
    assert shown.says(says) == ["", 0, 0]


def test_of_a_long_table_a_thousand_rows_are_printed_and_how_many_are_left_is_said(shown: Shown) -> None:
    html = html_of(MadeSearch(1100).projection())
    shown.open(html).says("dispatchEvent(new Event('beforeprint'))")
    assert shown.says("document.querySelectorAll('[data-block=tree] tr[data-at]').length") == 1000
    assert re.search(r"The first 1000 of 1,\d+ rows are printed", shown.text("[data-block=tree]"))
    shown.says("dispatchEvent(new Event('afterprint'))")
    assert "printed" not in shown.text("[data-block=tree]")


def test_a_line_that_was_broken_within_a_sentence_is_one_and_a_list_stays_a_list(shown: Shown) -> None:
    text = f"{'word ' * 18}end\ngoes on.\n- {'one ' * 20}item\n- another\nshort\nline"
    block = {"is": "text", "name": "x", "title": "x", "text": text}
    shown.open(report_document(SOURCES, {**as_json(every_kind()[0]), "blocks": [block]}, []).html)
    seen = shown.says("document.querySelector('.card .prose p').textContent.split('\\n').map((each) => each.slice(-9))")
    assert seen == [" goes on.", " one item", "- another", "short", "line"]


# --- Keys.


def test_all_of_it_works_by_keyboard(shown: Shown, made: str, search: MadeSearch) -> None:
    shown.open(made)
    focused = "document.activeElement.dataset.key"
    shown.press("j", "j", "j")
    assert shown.says(focused) == search.rows[2].item
    shown.press("G")
    assert shown.says(focused) == search.rows[-1].item
    shown.press("k", "Enter")
    shown.is_so("document.querySelectorAll('#drawer .card').length == 5")
    assert shown.place == f"item={search.rows[-2].item}"
    shown.press("j")
    shown.is_so(f"document.querySelector('#drawer-title').innerText == '{search.rows[-1].item}'")
    shown.press("Escape")
    assert shown.says("document.querySelector('#drawer').hidden")
    assert shown.says(focused) == search.rows[-1].item
    shown.press("g", "ArrowLeft")
    assert shown.says("document.querySelector('tr[data-at]').ariaExpanded") == "false"
    assert shown.says("document.querySelectorAll('tr[data-at]')[1].dataset.at") == "9"
    shown.press("ArrowRight", "/")
    shown.page.keyboard.type("d1.n2")
    shown.is_so("document.querySelector('.count').innerText.startsWith('9 of 338')")
    shown.press("Escape", "?")
    names, keys = (
        shown.says(f"[...document.querySelectorAll('dialog {tag}')].map(e => e.innerText)") for tag in ("dd", "kbd")
    )
    assert names[:2] == ["next row", "row before"]
    assert {"j", "↓", "Enter", "1 … 9", "0", "Esc"} <= {*keys}
    shown.press("Escape", "2")
    assert shown.says("[...document.querySelectorAll('#blocks .card')].map(each => each.dataset.block)") == ["stair"]
    shown.press("Escape")
    shown.is_so("document.querySelectorAll('#blocks .card').length == 5")


def test_the_theme_is_that_of_the_system_until_one_is_chosen_which_is_kept(shown: Shown, every: str) -> None:
    shown.open(every).press("t", "t")
    assert shown.text("#theme") == "theme: dark"
    shown.page.reload()
    shown.is_so("document.querySelector('#theme').innerText == 'theme: dark'")
    assert shown.says("getComputedStyle(document.documentElement).colorScheme") == "dark"


# --- Live.


def test_a_page_follows_a_run_by_events_and_where_they_end_by_asking(shown: Shown) -> None:
    """The server answers from memory.  Its stream ends and cannot be had again; what changed then is asked for."""
    start = as_json(MadeSearch(40, state="live").projection()) | {"can": ["pause", "idea"]}
    later = json.loads(json.dumps(start))
    rows = later["blocks"][0]["rows"]
    rows[1] |= {"status": "refused"}
    rows.append({**rows[2], "item": "new", "status": "refused"})
    change = delta(start, later)
    assert apply_delta(start, change) == later
    assert [*change["blocks"]["tree"]["rows"]] == ["1", "45"]
    base, shown.address = "/api/runs/made", "http://127.0.0.1:9/"
    streams = [{"status": 204}, {"body": f"retry: 1\nevent: projection\nid: 7\ndata: {json.dumps(start)}\n\n"}]
    posts: list[tuple[str, str]] = []

    def answer(route: Any) -> None:
        request, path = route.request, route.request.url.removeprefix("http://127.0.0.1:9")
        if request.method == "POST":
            posts.append((path, request.headers.get("x-coppice-token", "")))
            route.fulfill(json={"said": "noted"})
        elif path == f"{base}/events":
            route.fulfill(content_type="text/event-stream", **streams.pop())
        elif path == f"{base}?since=7":
            route.fulfill(json=[{"event": "delta", "version": 8, "data": change}])
        elif path == f"{base}?since=8":
            route.fulfill(json=[])
        elif path == f"{base}/items/d0.n0.i1":
            route.fulfill(json=as_json(MadeSearch(1).details("d0.n0.i1")))
        else:
            html = live_document(SOURCES, start, base)
            route.fulfill(body=html, content_type="text/html")

    shown.page.route("**/*", answer)
    shown.page.goto(f"{shown.address}#token=abc&item=d0.n0.i1")
    shown.is_so("document.querySelector('.count').innerText == '46 rows'")
    seen = shown.says("[...document.querySelectorAll('[data-block=tree] tr[data-at]')].map((row) => row.dataset.key)")
    assert [key for key in seen if "." in key or key == "new"] == [row["item"] for row in rows if row["item"]]
    assert shown.text(".chip[data-status=refused]") == "⊘ refused 2"
    assert "token" not in shown.place
    shown.is_so("document.querySelectorAll('#drawer .card').length == 5")
    shown.page.click("#drawer >> text=follow")  # the server has no such log
    shown.is_so("document.querySelector('#notice').innerText.startsWith('The log cannot be followed')")
    assert shown.says("document.querySelector('#drawer [aria-pressed]').ariaPressed") == "false"
    shown.press("Escape")
    shown.page.click(".steer >> text=pause")
    shown.is_so("document.querySelector('#notice').innerText.includes('noted')")
    assert posts == [(f"{base}/pause", "abc")]


def test_blocks_that_are_not_drawn_yet_when_a_projection_comes_are_drawn_all_the_same(shown: Shown) -> None:
    """The first event comes while the page still draws what it was sent with."""
    start = as_json(MadeSearch(40, state="live").projection())
    program = """document.addEventListener('DOMContentLoaded', () => {
        new MutationObserver((_, looker) => { if (document.querySelector('#blocks .card')) {
            looker.disconnect();
            window.source.handlers.projection({ data: JSON.stringify(window.start), lastEventId: '1' });
        } }).observe(document.body, { childList: true, subtree: true });
    });"""
    shown.address = "http://127.0.0.1:9/"
    shown.page.add_init_script(f"window.start = {json.dumps(start)}; {program} {STREAM}")
    html = live_document(SOURCES, start, "/api/runs/made")
    shown.page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
    shown.page.goto(shown.address)
    shown.is_so(f"document.querySelectorAll('#blocks .card').length == {len(start['blocks'])}")
    shown.is_so("document.documentElement.dataset.ready")


def test_what_comes_meanwhile_takes_nobody_from_the_button_where_the_keyboard_is(shown: Shown) -> None:
    start = as_json(MadeSearch(40, state="live").projection())
    status = next(row["status"] for row in start["blocks"][0]["rows"] if row["item"])
    shown.address = "http://127.0.0.1:9/"
    shown.page.add_init_script(STREAM)
    html = live_document(SOURCES, start, "/api/runs/made")
    shown.page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
    shown.page.goto(shown.address)
    shown.is_so("document.documentElement.dataset.ready")
    for number, button in enumerate(("#theme", f".chip[data-status={status}]", "#top [aria-label^=Copy]")):
        shown.page.focus(button)
        later = json.loads(json.dumps({**start, "headline": f"later {number}"}))
        later["blocks"][0]["rows"][1]["cells"][0] = f"other {number}"
        event = {"data": json.dumps(delta(start, later)), "lastEventId": str(number)}
        shown.says(f"source.handlers.delta({json.dumps(event)})")
        shown.is_so(f"document.querySelector('#blocks').innerText.includes('other {number}')")
        assert shown.text(".headline") == f"later {number}"
        assert shown.says(f"document.activeElement == document.querySelector('{button}')")


def test_a_server_that_is_gone_is_not_called_live_and_a_dialog_says_itself_what_is_refused(shown: Shown) -> None:
    start, base = as_json(MadeSearch(3, state="live").projection()) | {"can": ["pause", "idea"]}, "/api/runs/made"
    shown.address = "http://127.0.0.1:9/"

    def answer(route: Any) -> None:
        if "/api/" in route.request.url:
            route.fulfill(status=409, body="no slot is free")
        else:
            html = live_document(SOURCES, start, base, "/runs")
            route.fulfill(body=html, content_type="text/html")

    shown.page.route("**/*", answer)
    shown.page.goto(f"{shown.address}#token=abc")
    shown.is_so("document.querySelector('.run-state').innerText == 'connection lost'")
    assert shown.page.title() == "made: connection lost"
    assert shown.says("document.querySelector('#top .list').pathname") == "/runs"
    assert shown.says("[...document.querySelectorAll('.steer button')].map((each) => each.innerText)") == [
        "pause",
        "idea…",
    ]
    shown.page.click(".steer >> text=idea…")
    shown.page.fill("dialog textarea", "IDEA: x")
    shown.page.click("dialog >> text=send")
    shown.is_so("document.querySelector('dialog .wrong').innerText == 'no slot is free'")
    shown.page.evaluate("location.hash = 'token=old'")
    shown.is_so("document.querySelector('#notice').innerText.includes('This link opens nothing: no slot is free')")
    assert "token" not in shown.place
    shown.noises[:] = [noise for noise in shown.noises if "409" not in noise]
