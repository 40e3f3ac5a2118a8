"""A model behind HTTP: a real server, which says what a test wants it to say."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from threading import Event, Thread
from traceback import format_exception
from typing import Any, NamedTuple

import certifi
import pytest
from kit.answering import AnsweringServer, QuestionHandler, answering
from kit.project import PATIENCE, Project
from kit.searches import Search, agent

from pipeline.machine.process import BuildStopping, NotBegun, Processes
from pipeline.models.ask import ask
from pipeline.models.complaints import REFUSAL_STATUS, wait_asked, wait_in_words
from pipeline.models.contract import Answer, BackendUnavailable, CallContext, CallFailed, Question, Usage
from pipeline.models.endpoints import LARGEST_ANSWER

KEY = "sk-or-so-0123456789"
USAGE = {"prompt_tokens": 1000, "completion_tokens": 50}


class Say(NamedTuple):
    """One reply; `hold`: until then it sends a blank now and then, which is no more than a sign of life."""

    status: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()
    hold: Event | None = None
    lost: bool = False  # the connection is closed before a word


def said(text: Any = "a thought", **more: Any) -> Say:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": more.pop("finish_reason", "stop")}
    return Say(200, {"model": "m-2026", "choices": [choice], "usage": USAGE, **more})


class Server(AnsweringServer):
    """Says the replies of its list in turn, the last one again and again; knows what it was asked."""

    def __init__(self) -> None:
        self.replies: list[Say] = [said()]
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        super().__init__()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may have left: that is what some tests are about."""

    def answer(self, handler: QuestionHandler, asked: Any) -> None:
        reply = self.replies[min(len(self.seen), len(self.replies) - 1)]
        self.seen.append((handler.path, dict(handler.headers), asked))
        if reply.lost:
            handler.close_connection = True
            return
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        length = {"Content-Length": str(len(body) + 1_000_000 * bool(reply.hold))}
        handler.begin(reply.status, {**length, **dict(reply.headers)})
        while reply.hold and not reply.hold.wait(0.02):
            handler.wfile.write(b" ")
        handler.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with answering(Server()) as made:
        yield made


@pytest.fixture
def desk(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> CallContext:
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return CallContext(processes, "x")


def told(desk: CallContext, server: Server, prompt: str = "think", **backend: Any) -> Answer:
    url = f"http://127.0.0.1:{server.server_port}/v1/"
    keys = {"backend": "openai", "url": url, "model": "m", "key_env": "MINE", **backend}
    return ask(keys, Question("ideas", prompt, os.getcwd(), "log", "d0.n0.i2"), desk)


def now(status: int, body: Any = "busy") -> Say:
    return Say(status, body, (("Retry-After", "0"),))


def test_an_answer_comes_with_what_it_cost(desk: CallContext, server: Server) -> None:
    price = {"input": 2.0, "output": 10.0, "cached": 0.5}
    answer = told(desk, server, price=price)
    assert answer._replace(seconds=0) == Answer("a thought", Usage(0.0025, 1000, 50), 0, "m-2026")
    assert answer.seconds > 0
    assert told(desk, server).usage == Usage(None, 1000, 50)
    server.replies = [said(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 400}})]
    assert told(desk, server, price=price).usage == Usage(0.0019, 1000, 50, 400)


def test_all_that_a_spec_sets_is_asked_for_and_nothing_else(desk: CallContext, server: Server) -> None:
    told(desk, server, "x\udcff", temperature=0.5, seed=7, max_tokens=9, body={"reasoning_effort": "low"})
    ((path, headers, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    expected = {"model": "m", "temperature": 0.5, "seed": 7, "max_tokens": 9, "reasoning_effort": "low"}
    assert body == {**expected, "stream": False, "messages": [{"role": "user", "content": "x\udcff"}]}


def test_an_answer_in_parts_is_its_text_without_the_thoughts(desk: CallContext, server: Server) -> None:
    parts = [{"type": "thinking", "thinking": [], "text": "hm"}, {"type": "text", "text": "a "}, {"text": "thought"}]
    server.replies = [said(parts)]
    assert told(desk, server).text == "a thought"


def test_a_local_server_needs_no_key(desk: CallContext, server: Server) -> None:
    assert told(desk, server, key_env=None).text == "a thought"
    assert "Authorization" not in server.seen[0][1]


def test_certificates_are_read_once_by_a_process(
    desk: CallContext, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = shutil.copy(certifi.where(), tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", certificates)
    told(desk, server)
    os.unlink(certificates)
    assert told(desk, server).text == "a thought"


def test_a_package_that_lacks_what_it_needs_is_unavailable_with_how_to_get_it(
    desk: CallContext, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "httpx.py").write_text("import not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "httpx", raising=False)
    with pytest.raises(BackendUnavailable, match=r"^ideas: backend openai needs .* -m pip install -e .*\[openai\]'?$"):
        told(desk, server)
    assert not server.seen


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_a_server_that_is_busy_is_asked_again_when_it_says(desk: CallContext, server: Server, status: int) -> None:
    server.replies = [now(status), now(status), said()]
    assert told(desk, server, retries=2).text == "a thought"
    assert len(server.seen) == 3


NOW = 1_760_000_000.0
WAITS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"Retry-After": "7"}, 7),
    ({"retry-after": "2.5"}, 2.5),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "-3"}, None),
    ({"Retry-After": formatdate(NOW + 60, usegmt=True)}, 60),
    ({"Retry-After": formatdate(0, usegmt=True)}, 0),
    ({"Retry-After": "Mon, 01 Jan 999999 00:00:00 GMT"}, None),
    ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0.5s"}, 360.5),
    ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "6m0s"}, None),
    ({"x-ratelimit-reset-requests": "120ms", "x-ratelimit-reset-tokens": "1s"}, 1),
    ({"X-RateLimit-Reset": str(int((NOW + 5) * 1000))}, 5),
    (
        {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2025-10-09T08:54:10Z"},
        50,
    ),
]


@pytest.mark.parametrize(("headers", "seconds"), WAITS)
def test_a_wait_is_what_the_headers_ask_for(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_asked(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.2s.", 1.2),
        ("try again in 3 hours 12 minutes", 3 * 3600 + 12 * 60),
        ("Please retry in 34.07s.", 34.07),
        ("Claude AI usage limit reached|1760000060", 60),
        ("try again in 120 milliseconds", 0.12),
        ("Please try again in 6m0s.", 360),
        ("Try again later or check your quotas.", None),
        ("Your limit resets 5 March", None),
        ("Retry 3 more times", None),
    ],
)
def test_a_wait_is_found_in_words(said: str, seconds: float | None) -> None:
    assert wait_in_words(said, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_a_longer_wait_is_handed_up_at_once_with_its_kind(desk: CallContext, server: Server) -> None:
    server.replies = [Say(429, "busy", (("Retry-After", "60"),))]
    with pytest.raises(BackendUnavailable) as out:
        told(desk, server, retries=5)
    assert (out.value.kind, out.value.after) == ("rate limit", 60)
    assert len(server.seen) == 1


def test_a_server_that_stays_broken_is_unavailable_after_all_tries(desk: CallContext, server: Server) -> None:
    server.replies = [now(500, {"error": {"message": "out of\n memory"}})]
    with pytest.raises(BackendUnavailable, match=r"ideas: http://127.*: status 500 \(3 tries\): out of memory: the"):
        told(desk, server, retries=2)
    assert len(server.seen) == 3
    assert Path("log").read_text().count("status 500") == 3


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422, 301, 501])
def test_a_refusal_is_final_and_says_in_a_line_what_the_server_says(
    desk: CallContext, server: Server, status: int
) -> None:
    server.replies = [Say(status, {"error": {"message": "no such model\n" * 50}}, (("Location", "/elsewhere"),))]
    with pytest.raises(BackendUnavailable, match=f"status {status}: no such model no such model.*…"):
        told(desk, server)
    assert len(server.seen) == 1


COMPLAINING = [b"bad gateway", {"error": "bad gateway"}, {"detail": "bad gateway"}, [{"error": "bad gateway"}]]


@pytest.mark.parametrize("body", COMPLAINING)
def test_complaints_are_found_where_servers_put_them(desk: CallContext, server: Server, body: Any) -> None:
    server.replies = [Say(400, body)]
    with pytest.raises(BackendUnavailable, match=r"status 400: bad gateway$"):
        told(desk, server)


def test_of_several_documents_all_are_shown(desk: CallContext, server: Server) -> None:
    server.replies = [Say(400, b'{"error": "bad gateway"}\n{"error": "no model"}')]
    with pytest.raises(BackendUnavailable, match=r'status 400: {"error": "bad gateway"} {"error": "no model"}$'):
        told(desk, server)


@pytest.mark.parametrize(
    ("reply", "why", "usage"),
    [
        (said(None), "no text at", Usage(None, 1000, 50)),
        (said(" \n"), "no text at", Usage(None, 1000, 50)),
        (said([{"type": "thinking", "thinking": "hm"}]), "no text at", Usage(None, 1000, 50)),
        (said("half a th", finish_reason="length"), "cut off", Usage(None, 1000, 50)),
    ],
)
def test_what_is_no_answer_has_failed_and_may_have_cost(
    desk: CallContext, server: Server, reply: Say, why: str, usage: Usage
) -> None:
    server.replies = [reply]
    with pytest.raises(CallFailed, match=why) as failure:
        told(desk, server)
    assert (failure.value.exit, failure.value.usage) == (1, usage)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        said("", finish_reason="content_filter"),
        Say(200, {"choices": [{"message": {"content": None, "refusal": "I cannot help."}}], "usage": USAGE}),
        Say(400, {"error": {"code": "content_policy_violation", "message": "flagged"}}),
    ],
)
def test_a_refusal_of_the_model_is_the_candidates_matter(desk: CallContext, server: Server, reply: Say) -> None:
    server.replies = [reply]
    with pytest.raises(CallFailed, match="the model refuses to answer") as refused:
        told(desk, server)
    assert refused.value.exit == REFUSAL_STATUS


KINDS = [
    (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "credit"),
    (429, {"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, "rate limit"),
    (200, {"error": {"message": "Provider returned error", "code": 429}}, "rate limit"),
    (200, {"error": {"message": "no credit left", "code": 402}}, "credit"),
    (200, {"choices": [{"message": {"content": "ha"}, "error": {"code": 502}}]}, "malformed"),
    (400, {"error": {"message": "Unknown parameter: 'sed'."}}, ""),
    (400, {"error": {"message": "API key not valid.", "status": "INVALID_ARGUMENT"}}, "login"),
    (503, "no healthy upstream", "overload"),
]


@pytest.mark.parametrize(("status", "body", "kind"), KINDS)
def test_an_outage_says_what_is_out(desk: CallContext, server: Server, status: int, body: Any, kind: str) -> None:
    server.replies = [Say(status, body)]
    with pytest.raises(BackendUnavailable) as out:
        told(desk, server)
    assert out.value.kind == kind


def test_too_long_a_prompt_is_the_questions_own_fault(desk: CallContext, server: Server) -> None:
    server.replies = [Say(400, {"error": {"code": "context_length_exceeded", "message": "too many tokens"}})]
    with pytest.raises(CallFailed, match="the prompt is too long"):
        told(desk, server)


def test_an_answer_that_is_cut_or_too_large_is_malformed_and_not_asked_for_again(
    desk: CallContext, server: Server
) -> None:
    for reply in (Say(200, b" " * (LARGEST_ANSWER + 1)), said()._replace(headers=(("Content-Length", "100000"),))):
        server.replies, asked = [reply], len(server.seen)
        with pytest.raises(BackendUnavailable, match=r"larger than 8 MB|in the middle") as out:
            told(desk, server, retries=3, timeout=20)
        assert out.value.kind == "malformed"
        assert len(server.seen) == asked + 1


def anthropic(text: str = "a thought", **more: Any) -> Say:
    usage = {"input_tokens": 500, "output_tokens": 50}
    usage |= {"cache_creation_input_tokens": 100, "cache_read_input_tokens": 400}
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return Say(200, {"type": "message", "model": "c-2026", "content": parts, "usage": usage, **more})


def test_anthropics_protocol_is_spoken_too(desk: CallContext, server: Server) -> None:
    server.replies = [anthropic(stop_reason="end_turn")]
    answer = told(desk, server, backend="anthropic", temperature=0.5)
    assert answer._replace(seconds=0) == Answer("a thought", Usage(None, 1000, 50, 400), 0, "c-2026")
    ((path, headers, body),) = server.seen
    assert path == "/v1/messages"
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert body["max_tokens"] == 8192
    assert body["messages"] == [{"role": "user", "content": "think"}]


@pytest.mark.parametrize(("stop", "status"), [("refusal", REFUSAL_STATUS), ("max_tokens", 1)])
def test_ends_of_an_answer_that_are_none(desk: CallContext, server: Server, stop: str, status: int) -> None:
    server.replies = [anthropic(stop_reason=stop)]
    with pytest.raises(CallFailed) as failure:
        told(desk, server, backend="anthropic")
    assert failure.value.exit == status


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Say(200, b"<html>"), "not JSON: <html>"),
        (Say(200, b"[" * 100_000), "not JSON"),
        (Say(200, []), "no message at"),
        (Say(200, {"choices": []}), "no message at"),
        (said({"text": "a thought"}), "no message at"),
        (Say(200, {"choices": {"0": 1}, "usage": 5}), "no message at"),
        (Say(200, {"error": {"message": "too many requests", "code": 429}}), "too many requests"),
    ],
)
def test_what_is_no_answer_of_such_a_service_is_nobodys_failure(
    desk: CallContext, server: Server, reply: Say, why: str
) -> None:
    server.replies = [reply]
    with pytest.raises(BackendUnavailable, match=f"ideas: .*{why}"):
        told(desk, server)
    assert len(server.seen) == 1


def test_a_slow_answer_is_not_paid_for_twice_and_is_nobodys_failure(desk: CallContext, server: Server) -> None:
    held = Event()
    server.replies = [said()._replace(hold=held)]
    with pytest.raises(BackendUnavailable, match=r"no answer within 0\.3 s"):
        told(desk, server, timeout=0.3)
    held.set()
    assert len(server.seen) < 2


def test_a_connection_that_is_refused_is_tried_again_and_then_unavailable(desk: CallContext, server: Server) -> None:
    with pytest.raises(
        BackendUnavailable, match=r"http://127\.0\.0\.1:1/chat/completions: no connection \(2 tries\): Connect"
    ):
        told(desk, server, url="http://127.0.0.1:1", retries=1)
    assert Path("log").read_text().count("no connection") == 2


@pytest.mark.parametrize("price", [{"input": 2.0, "output": 10.0}, "free", None])
def test_an_outage_after_which_nobody_knows_if_it_was_paid_for_is_not_free(
    desk: CallContext, server: Server, price: Any
) -> None:
    """Neither is the question sent again at once."""
    held, short, priced = Event(), (("Content-Length", "100000"),), {} if price is None else {"price": price}
    unread = {
        "late": (said()._replace(hold=held), "time-out"),
        "lost": (said()._replace(lost=True), "network"),
        "cut": (said()._replace(headers=short), "malformed"),
        "large": (Say(200, b" " * (LARGEST_ANSWER + 1)), "malformed"),
        "not JSON": (Say(200, b"<html>"), "malformed"),
        "no message": (Say(200, {"choices": []}), "malformed"),
        "an error in its middle": (Say(200, {"choices": [{"message": {}, "error": {"code": 502}}]}), "malformed"),
    }
    for reply, kind in unread.values():
        server.replies, asked = [reply], len(server.seen)
        with pytest.raises(BackendUnavailable) as out:
            told(desk, server, retries=2, timeout=0.5 if reply.hold else 20, **priced)
        assert (out.value.kind, out.value.usage.usd) == (kind, 0.0 if price == "free" else None)
        assert len(server.seen) == asked + 1
    held.set()


@pytest.mark.parametrize(
    "reply", [now(429), now(500), Say(401, "who?"), Say(200, {"error": {"message": "too many requests", "code": 429}})]
)
def test_a_request_that_was_refused_cost_nothing(desk: CallContext, server: Server, reply: Say) -> None:
    server.replies = [reply]
    with pytest.raises(BackendUnavailable) as out:
        told(desk, server)
    assert out.value.usage == Usage()


def test_an_outage_that_tells_its_usage_has_its_price(desk: CallContext, server: Server) -> None:
    server.replies = [Say(200, {"choices": [], "error": {"message": "overloaded"}, "usage": USAGE})]
    with pytest.raises(BackendUnavailable) as out:
        told(desk, server, price={"input": 2.0, "output": 10.0})
    assert out.value.usage == Usage(0.0025, 1000, 50)


def test_tokens_from_anthropics_cache_are_counted_among_those_of_the_prompt(desk: CallContext, server: Server) -> None:
    server.replies = [anthropic(stop_reason="end_turn")]
    answer = told(desk, server, backend="anthropic", price={"input": 1.0, "output": 10.0, "cached": 0.1})
    assert answer.usage == Usage(pytest.approx(0.00114), 1000, 50, 400), "without a price of its own, as the others"
    server.replies = [anthropic(stop_reason="end_turn")]
    price = {"input": 1.0, "output": 10.0, "cached": 0.1, "cache_write": 2.0}
    assert told(desk, server, backend="anthropic", price=price).usage.usd == pytest.approx(0.00114 + 0.0001)


@pytest.mark.parametrize("value", [None, "", " ", "two words", "ümlaut-0123456", "line\nbreak-0123456"])
def test_a_key_that_is_missing_or_none_is_unavailable_before_anything_is_sent(
    desk: CallContext, server: Server, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("MINE") if value is None else monkeypatch.setenv("MINE", value)
    with pytest.raises(BackendUnavailable, match="environment variable MINE") as failure:
        told(desk, server)
    assert not server.seen
    assert not (value or "").strip() or value not in str(failure.value)


@pytest.mark.parametrize(
    "reply",
    [
        said(f"your key is {KEY}"),
        Say(401, {"error": {"message": f"{'x' * 100} wrong key {KEY}, {KEY}"}}),
        Say(401, f"{'x' * 108}{KEY}".encode()),
        now(503, f"wrong {KEY}"),
        Say(200, f"not JSON {KEY}".encode()),
        Say(200, {"choices": [], "key": KEY}),
        Say(200, {"choices": [{"message": {"content": [KEY]}}]}),
    ],
)
def test_the_key_never_shows_up_even_if_the_server_repeats_it(desk: CallContext, server: Server, reply: Say) -> None:
    server.replies = [reply]
    try:
        shown = str(told(desk, server, retries=1))
    except (CallFailed, BackendUnavailable) as error:
        shown = "".join(format_exception(error)) + repr(vars(error))
    assert KEY[:8] not in shown + Path("log").read_text()


def test_the_end_of_the_build_is_not_kept_waiting(desk: CallContext, server: Server) -> None:
    """Neither by the wait between two tries nor by a server that does not answer."""
    held, seen = Event(), []
    server.replies = [Say(429, "busy", (("Retry-After", "1"),)), said()._replace(hold=held)]

    def asking() -> None:
        with pytest.raises(BuildStopping) as stopped:
            told(desk, server, retries=100)
        seen.append(stopped.type)

    threads = []
    for number in (1, 2):
        threads.append(Thread(target=asking))
        threads[-1].start()
        while len(server.seen) < number:
            assert threads[-1].is_alive()
            time.sleep(0.01)
    start = time.monotonic()
    desk.processes.stop()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    held.set()
    assert time.monotonic() - start < 10
    assert {*seen} == {NotBegun, BuildStopping}, "the first was refused: nothing of its next try was begun"
    with pytest.raises(NotBegun):
        told(desk, server)
    assert len(server.seen) == 2


IDEA = "IDEA: more\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- c\n"


@pytest.mark.parametrize(
    "outage", [Say(200, b"<html>"), Say(401, "no"), now(529), said()], ids=["no JSON", "401", "529", "late"]
)
def test_a_search_goes_on_where_an_outage_has_stopped_it(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch, outage: Say
) -> None:
    """No slot is spent on a server that does not answer, and none of it is in the store."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    held = Event()
    server.replies = [outage._replace(hold=held) if outage == said() else outage]
    url = f"http://127.0.0.1:{server.server_port}/v1"
    ideas = {"backend": "openai", "url": url, "model": "m", "timeout": 0.5, "retries": 0}
    project.write("agent.coder", 'echo gain=12 > "plus/$(basename "$PWD")"\n')
    search = Search(project, {}, roles={"ideas": ideas, "coder": agent("coder")}, ideas_per_node=2)
    stopped = search.build(code=69)
    held.set()
    assert "outage x:d0.n0.i0.idea" in stopped.out
    assert len(server.seen) == 1
    assert not (search.root / "runs/x/node_ideas").exists()
    server.replies = [said(IDEA)]
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
