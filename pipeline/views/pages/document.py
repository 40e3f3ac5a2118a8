"""The page of a run as one HTML file: script, style, and the projection as data.

Nothing is loaded beside it, and nothing that others wrote is markup or program: the policy in its head lets run what
has the hash of our script, and no other.  What is large is packed, raw deflate in base85, and unpacked when it is
looked at.  Details that would make a file too large are left out, first their code and logs, from the last item on;
the page says of each where it lies."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest
from math import floor, inf, log10
from typing import Any, NamedTuple

from pipeline.core.projection import STATUSES, Json
from pipeline.views.pages.drawing import LOOKS_STYLE, html_text

SCRIPT, STYLE = "app.js", "app.css"  # the files beside this one that a page is made with
MOST_BYTES = 2_000_000  # of a file with all its details
PLAIN_BYTES = 16_000  # a projection of up to so many stands in the file as it is
CHUNK_BYTES = 400_000  # of details that are packed together, before they are
_TREE = "%3Cpath fill='%232f9e6a' d='M8 1 14 11H9v4H7v-4H2z'/%3E"
ICON = f"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E{_TREE}%3C/svg%3E"


class Sources(NamedTuple):
    """The contents of SCRIPT and STYLE."""

    script: str
    style: str


class Report(NamedTuple):
    """A page with all that there is to see.  `cut`, `dropped`: how many items lack code and logs, or all details."""

    html: str
    cut: int = 0
    dropped: int = 0


def live_document(sources: Sources, projection: Json, base: str, run_list: str = "", has_clock: bool = True) -> str:
    """Page that follows a run by the API at `base`, and steers it for whoever has the token.

    `run_list`: where all runs are listed, if they are; `has_clock`: times go on as on the clock of whoever looks, as
    those of a show do not."""
    live = {"base": base, "list": run_list, "has_clock": has_clock}
    data = {"projection": projection, "details": {}, "live": live}
    return _html(sources, projection, data)


def report_document(
    sources: Sources, projection: Json, details: Iterable[tuple[str, Sequence[Json]]], most: int = MOST_BYTES
) -> Report:
    """Page with the details of items, the most important first, of `most` bytes where that can be; with 0 of any."""
    packed = [_Packed.of(item, blocks) for item, blocks in details]
    frame = len(_html(sources, projection, _report_data(projection, (), ())))
    share, best = SHARE, None
    for _ in range(TRIES):
        levels = _levels(packed, max(0.0, most - frame) / share if most else inf)
        html = _html(sources, projection, _report_data(projection, packed, levels))
        if not most or len(html) <= most or not any(levels):
            best = Report(html, levels.count(CUT), levels.count(DROPPED))
            if levels.count(FULL) == len(packed) or len(html) > CLOSE * most:
                break
        share *= max(1, len(html) - frame) / max(1.0, (1 + CLOSE) / 2 * most - frame)
    return best or Report(
        _html(sources, projection, _report_data(projection, packed, [DROPPED] * len(packed))), 0, len(packed)
    )


def content_policy(sources: Sources, is_live: bool = False) -> str:
    """Content security policy of a page: our script and our style, and of a live one its own server."""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (_script(sources), _style(sources))]
    rules = ["default-src 'none'", f"script-src 'sha256-{hashes[0]}'", f"style-src 'sha256-{hashes[1]}'"]
    return "; ".join([*rules, "img-src data:", *["connect-src 'self'"] * is_live])


# --- Details: how much of each is kept.

DROPPED, CUT, FULL = 0, 1, 2
SHARE = 0.6  # bytes of a file, in base64, for one of details packed alone: among their like they pack better
TRIES, CLOSE = 4, 0.93  # to find how many fit, and how much of a file is as good as all of it


class _Packed(NamedTuple):
    """Details of an item, packed alone, to see how much room they need: in full, and without code and logs."""

    item: str
    full: bytes
    cut: bytes
    paths: Sequence[str]

    @classmethod
    def of(cls, item: str, blocks: Sequence[Json]) -> _Packed:
        rounded = [_rounded(block) for block in blocks]
        cut = [_without_text(block) for block in rounded]
        paths = [block["path"] for block in blocks if block.get("path")]
        return cls(item, _deflate(_text(rounded), 1), _deflate(_text(cut), 1), paths)

    def blocks(self, level: int) -> list[Json]:
        blocks: list[Json] = json.loads(zlib.decompress(self.full if level == FULL else self.cut, -15))
        return blocks


def _without_text(block: Json) -> Json:
    """A block of code as far as its name and its place; others as they are."""
    if block["is"] != "code" or not block["text"]:
        return block
    return {**block, "text": "", "left_out": block["left_out"] + len(block["text"].encode(errors="replace"))}


def _rounded(block: Json) -> Json:
    """A heat map with numbers to a thousandth of the largest: no cell shows more."""
    if block["is"] != "heat":
        return block
    largest = max((abs(value) for row in block["rows"] for value in row["values"] if value), default=1.0)
    digits = 2 - floor(log10(largest))
    rows = [
        {**row, "values": [value if value is None else round(value, digits) for value in row["values"]]}
        for row in block["rows"]
    ]
    return {**block, "rows": rows}


def _levels(packed: Sequence[_Packed], room: float) -> list[int]:
    """How much is kept of each in so many bytes: no code and logs of as many as can be, then from the first on all."""
    levels = []
    for each in packed:
        fits = len(each.cut) <= room
        room -= len(each.cut) if fits else 0
        levels.append(CUT if fits else DROPPED)
    for at, each in enumerate(packed):
        more = len(each.full) - len(each.cut)
        if levels[at] == CUT and more <= room:
            room -= more
            levels[at] = FULL
    return levels


def _report_data(projection: Json, packed: Sequence[_Packed], levels: Sequence[int]) -> Json:
    """Data of a page: a projection as it is when it is small, else with the table of chunks in the first of them."""
    kept = [(each, level) for each, level in zip(packed, levels, strict=True) if level]
    chunks, chunk_of = [], dict[str, int]()
    for number, chunk in enumerate(_chunks(kept), 1):
        # first blocks with first blocks, second with second: like beside like packs better
        columns = [*zip_longest(*chunk.values())]
        chunks.append(_base85(_deflate(_text({"items": [*chunk], "columns": columns}))))
        chunk_of |= dict.fromkeys(chunk, number)
    dropped = {each.item: each.paths for each, level in zip(packed, levels, strict=True) if not level}
    note = f"The details of {len(dropped)} items would have made this file too large; of this one they lie here:"
    table: Json = {"chunk_of": chunk_of, "left_out": dropped, "note": note}
    is_small = len(_text(projection)) <= PLAIN_BYTES
    first = table if is_small else table | {"projection": projection}
    return {
        "projection": projection if is_small else None,
        "packed": [_base85(_deflate(_text(first))), *chunks],
        "live": None,
    }


def _chunks(kept: Iterable[tuple[_Packed, int]]) -> Iterator[dict[str, list[Json]]]:
    """Details of items, so many together as one unpacks without noticing."""
    chunk: dict[str, list[Json]] = {}
    size = 0
    for each, level in kept:
        chunk[each.item] = each.blocks(level)
        size += len(_text(chunk[each.item]))
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = {}, 0
    if chunk:
        yield chunk


# --- Text within HTML.


def _text(value: Any) -> str:
    """JSON in ASCII: no line end or half character of it means something to a browser."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _harmless(value: Any) -> str:
    """JSON that ends no script, and begins no comment in one."""
    return _text(value).replace("<", "\\u003c")


def _deflate(text: str, level: int = 9) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return packer.compress(text.encode()) + packer.flush()


_SIGNS = str.maketrans("<>&", ",:.")  # instead of those that mean something in HTML


def _base85(content: bytes) -> str:
    """Bytes as letters, five for four: a twentieth less than in base64."""
    return b85encode(content).decode().translate(_SIGNS)


def _script(sources: Sources) -> str:
    return _without_comments(sources.script)


def _style(sources: Sources) -> str:
    """The style, with the colours of lines and marks that all pictures have."""
    return f"{_without_comments(sources.style)}\n{LOOKS_STYLE}\n"


def _without_comments(source: str) -> str:
    """A source without comments that take whole lines, and without what its lines begin with."""
    return re.sub(r"^[ \t]*(//.*|/\*(?s:.*?)\*/[ \t]*)?\n?", "", source, flags=re.MULTILINE)


def _html(sources: Sources, projection: Json, data: Mapping[str, Any]) -> str:
    policy = f"{content_policy(sources, bool(data.get('live')))}; base-uri 'none'; form-action 'none'"
    name = html_text(f"{projection['run']}: {projection['state']['word']}")
    return "".join([
        '<!doctype html>\n<html lang="en" data-theme="auto">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="referrer" content="no-referrer">\n',
        f"<title>{name}</title>\n",
        f'<link rel="icon" href="{ICON}">\n',
        f"<style>{_style(sources)}</style>\n</head>\n<body>\n",
        f'<main id="page">{_plain_header(projection)}</main>\n',
        '<aside id="drawer" tabindex="-1" aria-labelledby="drawer-title" hidden></aside>\n',
        '<dialog id="dialog" aria-labelledby="dialog-title"></dialog>\n',
        '<div id="notice" role="status" hidden></div>\n<div id="said" class="unseen" aria-live="polite"></div>\n',
        f'<script type="application/json" id="data">{_harmless({**data, "signs": STATUSES})}</script>\n',
        f"<script>{_script(sources)}</script>\n</body>\n</html>\n",
    ])  # fmt: skip


def _plain_header(projection: Json) -> str:
    """The run in a few words, for whoever has no script, and until it has run."""
    figures = "".join(
        f'<div class="figure"><dt>{html_text(each["name"])}</dt><dd>{html_text(each["text"])}</dd></div>'
        for each in projection["figures"]
    )
    return (
        f'<header id="top"><h1>{html_text(projection["run"])}</h1>'
        f'<p class="headline">{html_text(projection["headline"])}</p></header><dl id="figures">{figures}</dl>'
        "<noscript><p>Tables, pictures and details need JavaScript, all of which stands in this file.</p></noscript>"
    )


# --- The pages of a dashboard that are of no run: the door for who has only the link, and the list of runs.

# The theme, chosen here or on a run's page, in the words of its script.
_THEME = """
const look = document.documentElement.dataset;
try { look.theme = localStorage.getItem("coppice-theme") || "auto"; } catch { look.theme = "auto"; }
"""
# The token comes behind the `#`, which no browser sends to anybody; it is kept for this tab, the cookie for others.
_DOOR = """
const words = new URLSearchParams(location.hash.slice(1));
const token = words.get("token") || sessionStorage.getItem("coppice-token");
words.delete("token");
const say = (text) => (document.getElementById("say").textContent = text);
const go = () => {
  history.replaceState(null, "", location.pathname + (String(words) && `#${words}`));
  location.reload();
};
const asked = token
  ? fetch("/api/session", { method: "POST", headers: { "X-Coppice-Token": token } })
  : fetch("/api/session");
asked.then(async (answer) => {
  if (!answer.ok || (await answer.json()).session !== "open")
    return say("Open the link that coppice dashboard printed: it has the token of this server.");
  if (token) sessionStorage.setItem("coppice-token", token);
  return go();
}, () => say("The server does not answer."));
addEventListener("hashchange", () => location.reload());
"""
_LIST = """
const node = (tag, text, more = {}) => Object.assign(document.createElement(tag), { textContent: text, ...more });
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) sessionStorage.setItem("coppice-token", token);
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}
takeToken();
addEventListener("hashchange", async () => {
  const token = takeToken();
  if (!token) return;
  await fetch("/api/session", { method: "POST", headers: { "X-Coppice-Token": token } }).catch(() => null);
  location.reload();
});
const theme = document.getElementById("theme");
const nameTheme = () => (theme.textContent = `theme: ${look.theme}`);
theme.addEventListener("click", () => {
  look.theme = { auto: "light", light: "dark" }[look.theme] || "auto";
  try { localStorage.setItem("coppice-theme", look.theme); } catch {}
  nameTheme();
});
nameTheme();
const time = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
const state = (run) => run.problem || (run.state ? `${run.state.word}: ${run.state.why}` : "-");
async function show() {
  try {
    const answer = await fetch("/api/runs", { cache: "no-store" });
    if (answer.status === 401) return location.reload();
    const rows = (await answer.json()).map((run) => {
      const row = node("tr", "");
      const name = node("td", "");
      name.append(node("a", run.run, { href: `/runs/${encodeURIComponent(run.run)}` }));
      const cells = [run.kind || "-", state(run), run.last ? time(run.last.at) : "-"];
      row.append(name, ...cells.map((text) => node("td", text)));
      return row;
    });
    document.getElementById("runs").replaceChildren(...rows);
    document.getElementById("say").textContent = rows.length ? "" : "There is no run yet.";
  } catch {
    document.getElementById("say").textContent = "The server does not answer; this is the last that was heard.";
  }
  setTimeout(show, 5000);
}
show();
"""


def own_page(style: str, title: str, body: str, script: str, tools: str = "") -> tuple[bytes, str]:
    """A page of ours, and the policy by which nothing but its own script and style is run."""
    script = _THEME + script
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (script, style)]
    policy = f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; connect-src 'self'"
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
    look = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    html = (
        f'{head}{look}<main id="page"><header id="top"><div class="title"><h1>{title}</h1>{tools}</div></header>'
        f'{body}<p id="say" role="status"></p></main><script>{script}</script></html>'
    )
    return html.encode(), policy


def door_page(style: str) -> tuple[bytes, str]:
    return own_page(style, "Coppice", "<noscript>This page needs JavaScript.</noscript>", _DOOR)


def run_list_page(style: str) -> tuple[bytes, str]:
    heads = "".join(f"<th>{word}</th>" for word in ("run", "kind", "state", "last build"))
    table = f'<table><thead><tr>{heads}</tr></thead><tbody id="runs"></tbody></table>'
    theme = '<span class="fill"></span><button id="theme" class="quiet"></button>'
    card = f'<div class="card"><div class="scroll" tabindex="0">{table}</div></div>'
    return own_page(style, "Runs", card, _LIST, theme)
