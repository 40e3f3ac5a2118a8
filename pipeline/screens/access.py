"""Access to the server of a dashboard: who may ask for what, and what is told to nobody.

Pure: a request gets a route or a rejection, a text is cleaned.

Rules, in the order in which they are checked, all of them before anything is looked up by the path:

1. One Host header: an address of this machine's loopback or `localhost`, with our port.  A name that somebody else
   has made point to us (DNS rebinding) is none of these.  Where we are open to a network, any address, since nobody can
   make an address point elsewhere; and the name that we were started with.
2. An Origin, if there is one, is ours; `null` is nobody's.  What the browser says of where a request comes from
   (Sec-Fetch-Site) has to agree: from elsewhere a person may come to a page, and nothing else.
3. The path is parted before anything in it is decoded, so that an encoded slash parts nothing; `.` and `..`, in
   whatever form, are refused.
4. What reads needs the cookie that the page has, or the token; what changes something needs the token in a header, a
   thing that no page of others can send, and a word of the browser, or of the program, that it comes from our page.

The cookie is not the token: browsers show a cookie to every server on the same host, whatever its port.  So who gets
hold of it can read, for as long as this server runs, and change nothing."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from pipeline.machine.redaction import redact_text

TOKEN_HEADER = "x-coppice-token"
LOCALHOST = "localhost"
MOST_PATH, MOST_QUERY, MOST_HEADERS = 1000, 4000, 16_384  # bytes
MOST_FIELDS = 20  # of a query


class Site(NamedTuple):
    """The server as a request meets it.  `is_open`: to a network; `name`: the host that it was started with."""

    port: int
    token: str
    is_open: bool = False
    name: str = LOCALHOST

    @property
    def cookie_name(self) -> str:
        return f"coppice-{self.port}"

    @property
    def reading_key(self) -> str:
        """The value of the cookie: made of the token, which cannot be made of it."""
        return hmac.digest(self.token.encode(), b"reading", "sha256").hex()


class Request(NamedTuple):
    """A request as it came.  `path`: with all that is encoded in it; names of headers are in small letters."""

    method: str
    path: bytes
    query: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()

    def values(self, name: str) -> list[str]:
        return [value.decode("latin-1").strip() for key, value in self.headers if key == name.encode()]


class Route(NamedTuple):
    """Purpose of a request; `words`: of the path.  `may_read`: it has the cookie, or the token."""

    name: str
    words: Sequence[str] = ()
    query: Mapping[str, str] = {}
    may_read: bool = False


class Rejection(NamedTuple):
    status: int
    why: str


# What there is: method, parts of the path (a word in capitals stands for any), name.
OPEN, READ, ACT = "open", "read", "act"
PAGE, RUN_PAGE, LIST_PAGE, SESSION, OPEN_SESSION, HEALTH = (
    "page",
    "run page",
    "list page",
    "session",
    "open session",
    "health",
)
STATS, MARKETPLACE, RUNS, PROJECTION, DETAILS = "stats", "marketplace", "runs", "projection", "details"
EVENTS, LOG, STEER = "events", "log", "steer"
STEERED = ("pause", "resume", "idea", "answer")
ROUTES: Sequence[tuple[str, str, str, str]] = (
    ("GET", "", PAGE, READ),
    ("GET", "runs", LIST_PAGE, READ),
    ("GET", "runs/RUN", RUN_PAGE, READ),
    ("GET", "api/session", SESSION, OPEN),
    ("POST", "api/session", OPEN_SESSION, ACT),
    ("GET", "api/health", HEALTH, OPEN),
    ("GET", "api/stats", STATS, READ),
    ("GET", "api/marketplace", MARKETPLACE, READ),
    ("GET", "api/runs", RUNS, READ),
    ("GET", "api/runs/RUN", PROJECTION, READ),
    ("GET", "api/runs/RUN/items/ITEM", DETAILS, READ),
    ("GET", "api/runs/RUN/events", EVENTS, READ),
    ("GET", "api/runs/RUN/log", LOG, READ),
    *(("POST", f"api/runs/RUN/{what}", STEER, ACT) for what in STEERED),
)
PAGES = (PAGE, RUN_PAGE, LIST_PAGE)


def admit(request: Request, site: Site) -> Route | Rejection:
    """Admit a request, or say why it gets nothing."""
    if sum(len(name) + len(value) for name, value in request.headers) > MOST_HEADERS:
        return Rejection(431, "the headers are too long")
    if refused := _wrong_host(request, site) or _wrong_origin(request):
        return refused
    parts = path_parts(request.path)
    if parts is None or len(request.query) > MOST_QUERY:
        return Rejection(400, "this is no path of ours")
    found = [row for row in ROUTES if _words_of(row[1], parts) is not None]
    if not found:
        return Rejection(404, "there is nothing of that name")
    row = next((row for row in found if row[0] == request.method), None)
    if row is None:
        return Rejection(405, f"only {' or '.join(row[0] for row in found)}")
    _, pattern, name, need = row
    if refused := _from_elsewhere(request, name) or _unproven(request, site, need):
        return refused
    try:
        query = dict(parse_qsl(request.query.decode("latin-1"), max_num_fields=MOST_FIELDS))
    except ValueError:
        return Rejection(400, f"more than {MOST_FIELDS} fields")
    return Route(name, _words_of(pattern, parts) or [], query, _may_read(request, site))


# --- Hosts and origins.

_ADDRESS = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z.-]+))(?::([0-9]{1,5}))?")


def is_loopback(host: str) -> bool:
    """Check that a host, as one types it, is this machine to itself: an address, never a name but `localhost`."""
    return host == LOCALHOST or ((address := _address(host)) is not None and address.is_loopback)


def _address(host: str):  # type: ignore[no-untyped-def]  # of either version, which have no common name
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return None if getattr(address, "ipv4_mapped", None) or getattr(address, "scope_id", None) else address


def _wrong_host(request: Request, site: Site) -> Rejection | None:
    hosts = request.values("host")
    if len(hosts) != 1:
        return Rejection(400, "a request needs one Host header")
    found = _ADDRESS.fullmatch(hosts[0].lower())
    if found is None or int(found[3] or 80) != site.port:
        return Rejection(403, "this server has another host and port")
    host, is_six = found[1] or found[2], found[1] is not None
    address = _address(host)
    is_written_so = address is None or (address.version == 6) == is_six
    if is_written_so and (is_loopback(host) or (site.is_open and (address is not None or host == site.name.lower()))):
        return None
    return Rejection(403, "only an address of this machine or localhost may be the host")


def _wrong_origin(request: Request) -> Rejection | None:
    """Refuse an Origin that is not the very host of the request, which has been checked."""
    origins = request.values("origin")
    ours = f"http://{request.values('host')[0].lower()}"
    if origins and [origin.lower().removesuffix(":80") for origin in origins] != [ours.removesuffix(":80")]:
        return Rejection(403, "another origin than this server")
    return None


def _from_elsewhere(request: Request, name: str) -> Rejection | None:
    """Refuse what comes from a page of others, by the word of the browser: only a person may, and only to a page."""
    sites = request.values("sec-fetch-site")
    if all(site in ("same-origin", "none") for site in sites):
        return None
    is_visit = request.values("sec-fetch-mode") == ["navigate"] and request.values("sec-fetch-dest") == ["document"]
    return None if name in PAGES and is_visit else Rejection(403, "a page of others asks for this")


# --- Paths.


def path_parts(path: bytes) -> list[str] | None:
    """The parts of a path, each decoded by itself; None for what nobody who means well asks for."""
    if not path.startswith(b"/") or len(path) > MOST_PATH:
        return None
    parts = path[1:].split(b"/")
    try:
        decoded = [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        return None
    is_plain = all(part.isprintable() and "\\" not in part and part not in (".", "..") for part in decoded)
    is_whole = decoded == [""] or "" not in decoded
    return decoded if is_plain and is_whole else None


MOST_DIGITS = 18
RUN_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def _words_of(pattern: str, parts: Sequence[str]) -> list[str] | None:
    """The words of a path that a pattern leaves open, and its last one; None for another path."""
    own = pattern.split("/")
    if len(own) != len(parts):
        return None
    for expected, part in zip(own, parts, strict=True):
        fits = RUN_WORD.fullmatch(part) if expected == "RUN" else part if expected == "ITEM" else part == expected
        if not fits:
            return None
    return [part for expected, part in zip(own, parts, strict=True) if expected.isupper()] + [parts[-1]]


def whole_number(text: str) -> int | None:
    """The number that a query or a header says; None where it says none, or one that nothing here has."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


# --- Tokens.


def is_same(given: str, right: str) -> bool:
    """Compare in a time that does not tell how far they agree."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), right.encode())


def _knows_token(request: Request, site: Site) -> bool:
    given = request.values(TOKEN_HEADER)
    return len(given) == 1 and is_same(given[0], site.token)


def cookies(headers: Iterable[str], name: str) -> list[str]:
    """The values of a cookie: there may be several, which others on this host have set."""
    pairs = (part.strip().partition("=") for header in headers for part in header.split(";"))
    return [value for key, _, value in pairs if key == name]


def _unproven(request: Request, site: Site, need: str) -> Rejection | None:
    """Refuse who has not the token, or the cookie where that is enough."""
    knows = _knows_token(request, site)
    if need == ACT:
        comes_from_us = request.values("origin") or request.values("sec-fetch-site") == ["same-origin"]
        if not knows:
            return Rejection(401, "this needs the token that `coppice dashboard` printed")
        return None if comes_from_us else Rejection(403, "an Origin is missing, or Sec-Fetch-Site: same-origin")
    if need == OPEN or _may_read(request, site):
        return None
    return Rejection(401, "open the link that `coppice dashboard` printed")


def _may_read(request: Request, site: Site) -> bool:
    found = [is_same(each, site.reading_key) for each in cookies(request.values("cookie"), site.cookie_name)]
    return any(found) or _knows_token(request, site)


# --- Steering.

_PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.]{0,40}")


def steer_command(what: str, run: str, words: Mapping[str, str]) -> tuple[list[str], str]:
    """The command that does it, and its standard input; without a command, what is wrong."""
    place = words.get("where", "") if what == "idea" else words.get("slot", "")
    known = {"idea": {"text", "where"}, "answer": {"text", "slot"}}.get(what, set())
    if unknown := sorted({*words} - known):
        return [], f"{what} takes no {', '.join(unknown)[:100]!r}"
    if place and not _PLACE.fullmatch(place):
        return [], "a depth is a number, a node is like d1.n0 and a slot like d0.n0.i2"
    if what == "answer" and not place:
        return [], "answer: name the slot"
    where = ["--depth" if place.isdecimal() else "--node", place] if place else []
    command = {"idea": ["idea", run, "-", *where], "answer": ["answer", run, place, "-"]}.get(what, [what, run])
    return command, words.get("text", "")


def security_headers(policy: str = "default-src 'none'") -> dict[str, str]:
    """Headers of every answer.  `policy`: what a page may load and run, besides what none may."""
    own = [f"{name} 'none'" for name in ("frame-ancestors", "base-uri", "form-action") if name not in policy]
    return {
        "content-security-policy": "; ".join([policy, *own]),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }


# --- What leaves: also in a report, which may go to anybody.

_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)($|_)", re.IGNORECASE)
_SHORTEST_SECRET = 8


class Discretion:
    """Takes out of texts what nobody who looks at a run needs: secrets of the environment, and where files lie."""

    def __init__(self, environ: Mapping[str, str], folder: str) -> None:
        named = {name: value for name, value in environ.items() if _SECRET_NAME.search(name)}
        self._secrets = {name: value for name, value in named.items() if len(value) >= _SHORTEST_SECRET}
        folders = ((folder.rstrip("/"), ""), (environ.get("HOME", "").rstrip("/"), "~/"))
        self._places = [(f"{place}/", word) for place, word in folders if place]  # not of `/`: all begins with it
        known = [*(place for place, _ in self._places), *self._secrets.values()]
        self._in_json = [json.dumps(each)[1:-1] for each in known]

    def clean(self, text: str) -> str:
        for place, word in self._places:
            text = text.replace(place, word)
        return redact_text(text, self._secrets) if self._secrets else text

    def clean_json(self, value: Any) -> Any:
        """JSON of which every text is cleaned."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list | tuple):
            return [self.clean_json(each) for each in value]
        return {name: self.clean_json(each) for name, each in value.items()} if isinstance(value, dict) else value

    def json_text(self, value: Any) -> str:
        """Cleaned JSON as text.  Most has nothing to take out, as one look at the whole tells."""
        text = _compact_json(value)
        return _compact_json(self.clean_json(value)) if any(each in text for each in self._in_json) else text


def _compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
