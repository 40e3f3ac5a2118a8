"""Who may ask a dashboard for what: tables of requests, each with what becomes of it, and why."""

import string
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.screens.access import (
    DETAILS,
    EVENTS,
    HEALTH,
    LIST_PAGE,
    MOST_FIELDS,
    MOST_HEADERS,
    MOST_PATH,
    MOST_QUERY,
    OPEN_SESSION,
    PAGE,
    PROJECTION,
    ROUTES,
    RUN_PAGE,
    STEER,
    Rejection,
    Request,
    Route,
    Site,
    admit,
    is_loopback,
    is_same,
    path_parts,
    security_headers,
    whole_number,
)

SITE = Site(8350, "the-token")
OURS = {"host": "127.0.0.1:8350"}
COOKIE = {"cookie": f"coppice-8350={SITE.reading_key}"}
TOKEN = {"x-coppice-token": "the-token"}
FROM_US = {"origin": "http://127.0.0.1:8350", "sec-fetch-site": "same-origin"}


def ask(path: str = "/api/runs", method: str = "GET", site: Site = SITE, query: str = "", **headers: str) -> str:
    """The name of the route, or the status of the refusal."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asked(path, method, site, query, {**OURS, **COOKIE, **named})


def asked(path: str, method: str, site: Site, query: str, headers: dict[str, str]) -> str:
    rows = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    found = admit(Request(method, path.encode(), query.encode(), rows), site)
    return f"{found.status}" if isinstance(found, Rejection) else found.name


def test_whoever_has_the_cookie_or_the_token_may_read() -> None:
    assert ask() == "runs"
    assert asked("/api/runs", "GET", SITE, "", {**OURS, **TOKEN}) == "runs"
    assert asked("/api/runs", "GET", SITE, "", OURS) == "401"
    assert asked("/api/health", "GET", SITE, "", OURS) == HEALTH


@pytest.mark.parametrize("host", ["127.0.0.1:8350", "localhost:8350", "LOCALHOST:8350", "[::1]:8350", "127.8.8.8:8350"])
def test_this_machine_is_our_host(host: str) -> None:
    assert ask(host=host) == "runs"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example:8350",
        "127.0.0.1.evil.example:8350",
        "localhost.evil.example:8350",
        "localhost.:8350",
        "localhost@evil.example:8350",
        "user@localhost:8350",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8351",
        "127.0.0.1:",
        "127.0.0.1:8350:8350",
        "127.0.0.1:+8350",
        "127.1:8350",
        "0x7f.0.0.1:8350",
        "2130706433:8350",
        "0.0.0.0:8350",
        "10.0.0.1:8350",
        "[::]:8350",
        "::1:8350",
        "[::1%25lo]:8350",
        "[::1%lo]:8350",
        "[::ffff:127.0.0.1]:8350",
        "[127.0.0.1]:8350",
        "[fe80::1]:8350",
        "127.0.0.1:8350, evil.example",
        "127.0.0.1:8350/",
        "١٢٧.0.0.1:8350".encode().decode("latin-1"),
    ],
)
def test_another_host_is_refused_before_anything_else(host: str) -> None:
    assert ask(host=host) == "403"
    assert ask("/no/such/thing", host=host) == "403"


def test_one_host_is_needed() -> None:
    assert asked("/api/runs", "GET", SITE, "", COOKIE) == "400"
    twice = [(b"host", b"127.0.0.1:8350"), (b"host", b"evil.example")]
    for rows in (twice, twice[::-1]):
        found = admit(Request("GET", b"/api/health", b"", rows), SITE)
        assert isinstance(found, Rejection)
        assert found.status == 400


OPEN = Site(8350, "the-token", is_open=True, name="build.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.1:8350", "runs"),
        ("[fe80::1]:8350", "runs"),
        ("build.example:8350", "runs"),
        ("BUILD.example:8350", "runs"),
        ("evil.example:8350", "403"),
        ("10.0.0.1:80", "403"),
        ("10.0.0.1.evil.example:8350", "403"),
    ],
)
def test_open_to_a_network_any_address_is_our_host_but_no_name_that_others_may_lend_us(
    host: str, expected: str
) -> None:
    assert ask(host=host, site=OPEN) == expected


@pytest.mark.parametrize(
    "origin",
    [
        *["null", "", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8351", "https://127.0.0.1:8350"],
        *["http://127.0.0.1:8350.evil.example", "http://localhost:8350", "http://127.0.0.1:8350/", "file://"],
    ],
)
def test_another_origin_is_refused(origin: str) -> None:
    assert ask(origin=origin) == "403"
    assert ask("/api/health", origin=origin) == "403"
    assert ask("/api/runs/x/pause", "POST", origin=origin, x_coppice_token="the-token") == "403"


def test_our_origin_is_that_of_the_very_host() -> None:
    assert ask(origin="http://127.0.0.1:8350") == "runs"
    assert ask(host="LOCALHOST:8350", origin="http://localhost:8350") == "runs"
    assert ask(host="[::1]:8350", origin="http://[::1]:8350") == "runs"
    assert ask(site=Site(80, "t"), host="localhost", origin="http://localhost", x_coppice_token="t") == "runs"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none, cross-site", "x"])
def test_pages_of_others_get_nothing_but_a_person_may_come_from_them_to_a_page(site: str) -> None:
    visit = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert ask(sec_fetch_site=site) == "403"
    assert ask("/api/health", sec_fetch_site=site) == "403"
    assert ask(sec_fetch_site=site, **visit) == "403"
    assert ask("/", sec_fetch_site=site) == "403"
    assert ask("/", sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe") == "403"
    assert ask("/", sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="script") == "403"
    assert ask("/", sec_fetch_site=site, **visit) == PAGE
    assert ask("/runs/x", sec_fetch_site=site, **visit) == RUN_PAGE
    assert ask("/runs", sec_fetch_site=site, **visit) == LIST_PAGE


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_pages_and_what_is_typed_get_what_there_is(site: str) -> None:
    assert ask(sec_fetch_site=site) == "runs"


def test_only_who_has_the_token_and_comes_from_us_changes_anything() -> None:
    def post(**headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return asked("/api/runs/x/pause", "POST", SITE, "", {**OURS, **named})

    token, origin = "the-token", "http://127.0.0.1:8350"
    assert post(x_coppice_token=token, origin=origin) == STEER
    assert post(x_coppice_token=token, sec_fetch_site="same-origin") == STEER
    assert post(x_coppice_token=token) == "403", "who does not say where it comes from"
    assert post(x_coppice_token=token, sec_fetch_site="none") == "403"
    assert post(origin=origin) == "401"
    assert post(origin=origin, cookie=COOKIE["cookie"]) == "401", "the cookie only reads"
    assert post(origin=origin, cookie=f"coppice-8350={token}") == "401"
    assert post(x_coppice_token=SITE.reading_key, origin=origin) == "401", "nor does what is in it"
    assert post(x_coppice_token="", origin=origin) == "401"
    assert post(x_coppice_token=f"{token}, {token}", origin=origin) == "401"


def test_the_cookie_tells_nothing_of_the_token_and_is_of_one_server_alone() -> None:
    assert "the-token" not in SITE.reading_key
    assert SITE.reading_key != Site(8350, "another").reading_key
    assert asked("/api/runs", "GET", SITE, "", {**OURS, "cookie": "coppice-8351=" + SITE.reading_key}) == "401"
    others = f"coppice-8350=forged; a=b; coppice-8350={SITE.reading_key}"
    assert asked("/api/runs", "GET", SITE, "", {**OURS, "cookie": others}) == "runs", "whatever others have set"


def test_the_token_counts_in_no_address_and_no_body() -> None:
    assert asked("/api/runs", "GET", SITE, "token=the-token", OURS) == "401"
    assert asked("/", "GET", SITE, "token=the-token", OURS) == "401"
    basic = b64encode(b"x:the-token").decode()
    assert asked("/api/runs", "GET", SITE, "", {**OURS, "authorization": f"Basic {basic}"}) == "401"


@pytest.mark.parametrize(
    "path",
    [
        "/x/../api/runs",
        "/../api/runs",
        "/./api/runs",
        "/api/./runs",
        "/api//runs",
        "//api/runs",
        "//evil.example/api",
        "/api/runs/",
        "/%2e%2e/api/runs",
        "/%2E%2e/api",
        "/api/runs/%2e%2e",
        "/api/runs/..",
        "/api\\runs",
        "/api/runs/x/items/..\\..",
        "/api/runs/x/items/%5c",
        "/api/runs/x/items/%00",
        "/api/runs/x/items/a%0d%0ab",
        "/api/runs/x/items/%1b[2J",
        "/api/runs/x/items/%ff",
        "http://127.0.0.1:8350/api/runs",
        "*",
        "",
        "/" + "a" * MOST_PATH,
    ],
)
def test_a_path_that_means_to_lead_astray_is_refused(path: str) -> None:
    assert ask(path) == "400"


@pytest.mark.parametrize(
    "path", ["/api%2fruns", "/api%2Fruns%2Fx", "/%61pi/runs/x%2f..", "/api/runs/-x", "/api/runs/.x"]
)
def test_an_encoded_slash_parts_nothing(path: str) -> None:
    assert ask(path) in ("404", "400")
    assert path_parts(path.encode()) == [
        part.replace("%2f", "/").replace("%2F", "/").replace("%61", "a") for part in path[1:].split("/")
    ]


def test_an_item_may_have_any_name_that_can_be_read() -> None:
    route = admit(
        Request(
            "GET",
            b"/api/runs/x/items/a%2Fb%20c%C3%A9",
            b"",
            [(b"host", b"localhost:8350"), (b"x-coppice-token", b"the-token")],
        ),
        SITE,
    )
    assert isinstance(route, Route)
    assert (route.name, [*route.words[:2]]) == (DETAILS, ["x", "a/b cé"])


def test_words_of_a_route_are_its_run_and_what_comes_last() -> None:
    assert ask("/api/runs/x") == PROJECTION
    assert ask("/api/runs/x/events", query="since=4") == EVENTS
    assert ask("/api/session", "POST", x_coppice_token="the-token", sec_fetch_site="same-origin") == OPEN_SESSION


def test_a_long_query_is_refused() -> None:
    assert ask(query="a=" + "b" * MOST_QUERY) == "400"


def test_more_fields_than_anybody_needs_are_refused() -> None:
    assert ask(query="&".join(["a=b"] * (MOST_FIELDS + 1))) == "400"


def test_a_number_is_short_and_of_digits() -> None:
    assert [whole_number(text) for text in ("12", "", "-1", "1e3", "²", "9" * 5000)] == [12, *[None] * 5]


def test_long_headers_are_refused() -> None:
    assert ask(x_much="b" * MOST_HEADERS) == "431"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "get"])
def test_other_methods_do_nothing(method: str) -> None:
    for _, path, _, _ in ROUTES:
        assert ask("/" + path.replace("RUN", "x").replace("ITEM", "i"), method, **FROM_US_WORDS) == "405"


FROM_US_WORDS = {name.replace("-", "_"): value for name, value in {**FROM_US, **TOKEN}.items()}


def test_what_changes_something_is_never_a_get_and_the_other_way_round() -> None:
    for method, path, _, need in ROUTES:
        assert (method == "POST") == (need == "act")
        if method == "POST" and path != "api/session":
            assert ask("/" + path.replace("RUN", "x"), "GET", **FROM_US_WORDS) == "405"


WORDS = st.text(string.printable, max_size=30)


@given(WORDS, WORDS, st.sampled_from(["GET", "POST"]), WORDS)
def test_nobody_gets_in_by_chance(path: str, host: str, method: str, token: str) -> None:
    headers = {"host": host, "x-coppice-token": token, "origin": f"http://{host}"}
    assert asked(f"/{path}", method, SITE, "", headers) in ("400", "403")
    headers["host"] = headers["origin"] = "127.0.0.1:8350"
    headers["origin"] = "http://127.0.0.1:8350"
    assert asked(f"/api/runs/x/{method.lower()}", method, SITE, "", headers) in ("401", "404")
    assert asked("/api/runs", "GET", SITE, "", headers) == "401"


@given(st.binary(max_size=60))
def test_parts_of_a_path_never_lead_up_or_away(path: bytes) -> None:
    parts = path_parts(b"/" + path) or []
    assert not {".", ".."} & {*parts}
    assert all(part.isprintable() and "\\" not in part for part in parts)


def test_hosts_to_serve_at_that_need_no_word() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.0.0.9")))
    assert not any(
        map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "example", "localhost.example", "::ffff:127.0.0.1"))
    )


def test_tokens_are_compared_whole() -> None:
    assert is_same("the-token", "the-token")
    assert not any(is_same(given, "the-token") for given in ("", "the-toke", "the-token ", "THE-TOKEN", "thé"))


def test_headers_let_no_page_frame_sniff_or_keep_us() -> None:
    headers = security_headers("default-src 'none'; connect-src 'self'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers
