"""`coppice report`: one file with all that there is to see of a run, and what becomes of a run too large for that."""

import base64
import gzip
import html
import json
import re
import zlib
from typing import Any

import pytest
from kit.project import Project
from kit.projections import HOSTILE, MadeSearch, every_kind
from kit.searches import Search

from pipeline.core.projection import Json, as_json
from pipeline.screens.feed import page_sources
from pipeline.views.pages.document import Report, content_policy, live_document, report_document

SOURCES = page_sources()


def data_of(page: str) -> Any:
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b85decode(text.translate(str.maketrans(",:.", "<>&"))), -15))


def details_in(page: str) -> dict[str, list[Json]]:
    """All details that a page has, as its script finds them."""
    first, *chunks = map(unpacked, data_of(page)["packed"])
    found = {
        item: [column[at] for column in chunk["columns"] if column[at]]
        for chunk in chunks
        for at, item in enumerate(chunk["items"])
    }
    assert found.keys() == first["chunk_of"].keys()
    return found


def made_report(count: int, most: int) -> Report:
    search = MadeSearch(count)
    return report_document(SOURCES, as_json(search.projection()), search.all_details(), most)


@pytest.fixture(scope="module")
def whole() -> Report:
    return made_report(300, 0)


def test_a_page_has_the_projection_and_all_details_as_they_are(whole: Report) -> None:
    search = MadeSearch(300)
    first = unpacked(data_of(whole.html)["packed"][0])
    assert first["projection"] == as_json(search.projection())
    assert (whole.cut, whole.dropped) == (0, 0)
    found = details_in(whole.html)
    assert list(found) == search.items
    for item in search.items[::50]:
        for seen, block in zip(found[item], as_json(search.details(item)), strict=True):
            assert block["is"] == "heat" or seen == block


def test_three_hundred_candidates_take_a_quarter_of_a_megabyte(whole: Report) -> None:
    assert len(whole.html) <= 250_000


def test_a_page_grows_no_larger_than_it_may_and_says_what_it_lacks() -> None:
    search = MadeSearch(300)
    for most in (200_000, 130_000):
        report = made_report(300, most)
        assert 0.85 * most < len(report.html) <= most
        found = details_in(report.html)
        code = {item: [block for block in blocks if block["is"] == "code"] for item, blocks in found.items()}
        cut = [item for item, blocks in code.items() if not any(block["text"] for block in blocks)]
        assert len(cut) == report.cut > 0
        assert all(block["left_out"] and block["path"] for item in cut for block in code[item])
        left_out = unpacked(data_of(report.html)["packed"][0])["left_out"]
        assert len(left_out) == report.dropped == 300 - len(found)
        assert {*left_out} | {*found} == {*search.items}
        assert all(len(paths) == 2 for paths in left_out.values())
    assert report.dropped
    assert search.items[0] in details_in(made_report(300, 200_000).html)  # the first is the last to go


def test_nothing_that_others_wrote_ends_a_script_or_is_markup() -> None:
    projection, details = every_kind()
    for page in (
        report_document(SOURCES, as_json(projection), details.items()).html,
        live_document(SOURCES, as_json(projection), "/api/runs/every"),
    ):
        assert page.count("</script>") == page.count("<script") == 2
        assert page.isascii() or not set(page) & set("\u2028\u2029\u202e\u200b\ud800\ufeff")
        assert "<img" not in page
        plain = page.partition('<main id="page">')[2].partition("</main>")[0]
        assert HOSTILE[1] in html.unescape(plain)


def test_the_policy_lets_only_our_script_and_style_run() -> None:
    projection = as_json(every_kind()[0])
    page = live_document(SOURCES, projection, "/api/runs/every")
    policy = content_policy(SOURCES, is_live=True)
    assert f'content="{policy}; base-uri' in page
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src" not in content_policy(SOURCES)


def test_a_search_is_written_as_one_file_and_neither_it_nor_a_recording_has_what_is_nobody_s_business(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    Search(project, {"better": "gain=20", "broken": "exit 3  # not-for-anybody"})
    assert project.call("x").code == 0
    monkeypatch.setenv("MY_API_KEY", "not-for-anybody")
    said = project.call("report", "x")
    assert said.code == 0, said
    assert re.fullmatch(r"written: runs/x/report.html, \d+ kB\n", said.out)
    page = project.read("runs/x/report.html")
    found = details_in(page)
    assert {"d0.n0", "d0.n0.i0", "d0.n0.i1"} <= found.keys()
    every = json.dumps([found, data_of(page)["projection"]])
    assert "[MY_API_KEY]" in every
    assert "not-for-anybody" not in every
    assert str(project.root) not in every
    again = project.call("report", "x", "--out", "elsewhere/x.html")
    assert again.code == 0, again
    assert details_in(project.read("elsewhere/x.html")) == found
    assert project.call("replay", "x", "--show", "--save", "x.gz").code == 0
    recording = gzip.decompress((project.root / "x.gz").read_bytes()).decode()
    assert "[MY_API_KEY]" in recording
    assert "not-for-anybody" not in recording
    assert str(project.root) not in recording


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing"], "'nothing' is no run"),
        (["s", "--out", "specs"], "--out specs: it is a folder"),
        (["s:a"], "'s:a' is no run; all of one stands in a file: `report s`"),
        ([], "report: name one run, not 0"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(project: Project, words: list[str], expected: str) -> None:
    project.spec("s", "kind: steps\nsteps: {a: {run: 'echo > {out}', writes: a}}\n")
    said = project.call("report", *words)
    assert said.code == 2
    assert expected in said.err
    assert said.err.count("\n") == 1


def test_a_run_that_was_never_built_has_a_page_that_says_so(project: Project) -> None:
    project.spec("s", "kind: steps\nsteps: {a: {run: 'echo > {out}', writes: a}}\n")
    assert project.call("report", "s").code == 0
    data = data_of(project.read("runs/s/report.html"))
    assert data["projection"]["state"]["word"] == "empty"
