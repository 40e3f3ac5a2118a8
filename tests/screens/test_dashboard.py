"""`coppice dashboard` as a stranger meets it: by the bytes of real connections to a real server.

What is refused is refused; what is not does no harm; and no answer has a secret or a place of this machine in it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.browsing import CHROMIUM
from kit.project import COPPICE, PATIENCE, Project, environment
from kit.serving import Served, blocks_of, request_bytes, served
from kit.tree_runs import IDEAS, searched, small_search

from pipeline.screens.access import MOST_HEADERS
from pipeline.screens.server import HEADER_SECONDS, MOST_BODY

SECRET = "sk-0123456789abcdef"
# An idea whose words are markup, ends of scripts, control characters and a secret.
HOSTILE = "<img src=x onerror=alert(1)> </script> [a](javascript:b) \x1b[31m\u202e " + SECRET
ESCAPES = "\x1b[2J\x1b]0;title\x07red\x1b[0m\rover " + SECRET + "\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("served") / "project")
    searched(made, ideas={HOSTILE: ("a", 5), **IDEAS})
    return made


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Served]:
    with served(project, "x", OPENAI_API_KEY=SECRET) as made:
        assert made.projection()["state"]["word"] == "done"
        yield made


@pytest.fixture
def seen(server: Served, project: Project) -> Iterator[list[bytes]]:
    """Answers that a test got: nothing that nobody is to know is in any."""
    answers: list[bytes] = []
    yield answers
    reading = server.ask("/api/session", "POST").headers["set-cookie"].partition("=")[2].partition(";")[0]
    hidden = [server.token, reading, SECRET, str(project.root), os.path.expanduser("~/")]
    assert not [word for word in hidden for answer in answers if word.encode() in answer]


WITHOUT_TOKEN = {
    "no token": ({}, 401),
    "wrong token": ({"X_Coppice_Token": "wrong"}, 401),
    "empty token": ({"X_Coppice_Token": ""}, 401),
    "forged cookie": ({"Cookie": "coppice-PORT=forged"}, 401),
}
WITH_TOKEN = {
    "foreign host": ("/api/runs", {"host": "evil.example"}, 403),
    "name of a rebinding": ("/api/runs", {"host": "127.0.0.1.evil.example:PORT"}, 403),
    "localhost of somebody": ("/api/runs", {"host": "localhost.evil.example:PORT"}, 403),
    "no host": ("/api/runs", {"host": ""}, 400),
    "another port": ("/api/runs", {"host": "127.0.0.1:1"}, 403),
    "mapped address": ("/api/runs", {"host": "[::ffff:127.0.0.1]:PORT"}, 403),
    "address with a zone": ("/api/runs", {"host": "[::1%25lo]:PORT"}, 403),
    "every address": ("/api/runs", {"host": "[::]:PORT"}, 403),
    "two hosts": ("/api/runs", {"Host": "evil.example"}, 400),
    "HTTP/1.0 without a host": ("/api/runs", {"host": "", "version": "1.0"}, 400),
    "HTTP/1.0 with a foreign host": ("/api/runs", {"host": "evil.example", "version": "1.0"}, 403),
    "origin null": ("/api/runs", {"Origin": "null"}, 403),
    "foreign origin": ("/api/runs", {"Origin": "http://evil.example"}, 403),
    "another port's origin": ("/api/runs", {"Origin": "http://127.0.0.1:1"}, 403),
    "page of another site": ("/api/runs", {"Sec_Fetch_Site": "cross-site"}, 403),
    "page of another port": ("/api/runs", {"Sec_Fetch_Site": "same-site"}, 403),
    "frame": ("/", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
    "up and down": ("/x/../api/runs", {}, 400),
    "up, encoded": ("/x/%2e%2e/api/runs", {}, 400),
    "up, half encoded": ("/x/.%2e/api/runs", {}, 400),
    "encoded slash": ("/api%2fruns", {}, 404),
    "double slash": ("//api/runs", {}, 400),
    "backslash": ("/api\\runs", {}, 400),
    "absolute form": ("http://127.0.0.1:PORT/api/runs", {}, 400),
    "line end in a path": ("/api/runs/x/items/a%0d%0aSet-Cookie:%20a=b", {}, 400),
    "NUL in a path": ("/api/runs/x/items/%00", {}, 400),
    "item outside": ("/api/runs/x/items/..%2f..%2f..%2fetc%2fpasswd", {}, 404),
    "run outside": ("/api/runs/..%2f..%2fetc/log?path=/etc/passwd", {}, 404),
    "log outside": ("/api/runs/x/log?path=/etc/passwd", {}, 404),
    "log up": ("/api/runs/x/log?path=runs/x/../../../../../../etc/passwd", {}, 404),
    "log of nothing that is shown": ("/api/runs/x/log?path=runs/x/manifest.json", {}, 404),
    "log with a NUL": ("/api/runs/x/log?path=%00", {}, 404),
    "log of the spec": ("/api/runs/x/log?path=specs/x.yaml", {}, 404),
    "another run's item": ("/api/runs/y/items/d0.n0", {}, 404),
    "option for a run": ("/api/runs/--help", {}, 404),
    "another method": ("/api/runs", {"method": "DELETE"}, 405),
    "other methods asked for": ("/api/runs", {"method": "OPTIONS", "Access_Control_Request_Method": "POST"}, 405),
    "pause by GET": ("/api/runs/x/pause", {}, 405),
    "form of another site": ("/api/runs/x/pause", {"method": "POST", "Origin": "http://evil.example"}, 403),
    "form of a file": ("/api/runs/x/pause", {"method": "POST", "Origin": "null"}, 403),
    "POST from nowhere": ("/api/runs/x/pause", {"method": "POST"}, 403),
    "huge header": ("/api/runs", {"X_Much": "a" * MOST_HEADERS}, 431),
    "header without end": ("/api/runs", {"X_Much": "a" * 40 * MOST_HEADERS}, 400),
    "huge path": ("/" + "a" * 3000, {}, 400),
    "no method": ("/api/runs", {"method": "\x00"}, 400),
    "upgrade": ("/api/runs/x/events", {"Upgrade": "websocket", "Connection": "Upgrade", "host": "evil.example"}, 403),
}


def probe(server: Served, path: str, **more: str) -> bytes:
    port = f"{server.port}"
    words = {name: value.replace("PORT", port) for name, value in {"host": server.host, **more}.items()}
    return request_bytes(path.replace("PORT", port), **words)


@pytest.mark.parametrize("name", WITH_TOKEN)
def test_even_who_has_the_token_is_refused_who_comes_from_elsewhere_or_asks_for_it(
    server: Served, seen: list[bytes], name: str
) -> None:
    path, more, status = WITH_TOKEN[name]
    answer = server.raw(probe(server, path, **{"X_Coppice_Token": server.token, **more}))
    seen.append(answer.head.encode() + answer.body)
    assert answer.status == status, answer
    assert "access-control-allow" not in answer.head.lower()
    assert "set-cookie" not in answer.head.lower()


@pytest.mark.parametrize("name", WITHOUT_TOKEN)
def test_who_has_no_token_learns_nothing(server: Served, seen: list[bytes], name: str) -> None:
    more, status = WITHOUT_TOKEN[name]
    for path in ("/api/runs", "/api/runs/x", "/api/runs/x/events", "/api/stats", "/api/runs/x/items/d0.n0"):
        answer = server.raw(probe(server, path, **more))
        seen.append(answer.head.encode() + answer.body)
        assert answer.status == status, answer
        assert b"d0.n0" not in answer.body
    for page in ("/", "/runs/x", "/api/session"):
        answer = server.raw(probe(server, page, **more))
        seen.append(answer.head.encode() + answer.body)
        assert answer.status == 200, "a door"
        assert b"d0.n0" not in answer.body
        assert b"gain" not in answer.body
    steered = server.raw(probe(server, "/api/runs/x/pause", method="POST", Origin=server.base, **more))
    assert steered.status == status


def test_what_was_refused_has_changed_nothing(server: Served, project: Project) -> None:
    assert server.projection()["state"]["word"] == "done"
    assert not (project.root / "runs/x/steering.jsonl").exists()


def test_every_answer_forbids_frames_sniffing_keeping_and_foreign_script(server: Served) -> None:
    for path in ("/", "/runs/x", "/api/runs", "/api/runs/x", "/api/runs/nope", "/nope"):
        for token in (server.token, "wrong"):
            head = server.raw(probe(server, path, X_Coppice_Token=token)).head.lower()
            policy = re.search("content-security-policy: (.*)\r", head)
            assert policy, head
            assert "default-src 'none'" in policy[1]
            assert "frame-ancestors 'none'" in policy[1]
            assert "unsafe" not in policy[1]
            assert "x-content-type-options: nosniff" in head
            assert "referrer-policy: no-referrer" in head
            assert "cache-control: no-store" in head
            assert "server: " not in head


def test_the_link_has_the_token_where_no_browser_sends_it(server: Served) -> None:
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/#token=[\w-]{{40,}}", server.link)


def test_the_cookie_lets_one_read_and_change_nothing(server: Served, project: Project) -> None:
    cookie = server.ask("/api/session", "POST").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert server.token not in cookie
    pair = cookie.partition(";")[0]
    assert server.raw(probe(server, "/api/runs", Cookie=pair)).status == 200
    assert server.raw(probe(server, "/api/runs/x/pause", method="POST", Cookie=pair, Origin=server.base)).status == 401
    assert not (project.root / "runs/x/steering.jsonl").exists()


def test_ideas_of_others_are_no_markup_and_no_secret_leaves(server: Served, seen: list[bytes]) -> None:
    answers = [server.ask(path) for path in ("/api/runs/x", "/runs/x", "/")]
    rows = blocks_of(server.projection())["tree"]["rows"]
    answers += [server.ask(f"/api/runs/x/items/{row['item']}") for row in rows if row["item"]]
    seen += [answer.content for answer in answers]
    assert all(answer.status_code == 200 for answer in answers)
    hostile = [answer for answer in answers if "onerror=alert" in answer.text]
    assert hostile
    for answer in hostile:
        kind = answer.headers["content-type"]
        assert kind == "application/json" or "<img src=x onerror" not in answer.text


def log_path(server: Served) -> str:
    """A log that the projection or the details of an item name."""
    items = [row["item"] for row in blocks_of(server.projection())["tree"]["rows"] if row["item"]]
    blocks = [block for item in items for block in server.ask(f"/api/runs/x/items/{item}").json()]
    return next(block["path"] for block in blocks if block.get("look") in ("log", "diff") and block["path"])


def test_a_log_that_is_shown_can_be_followed_and_moves_no_cursor(
    server: Served, project: Project, seen: list[bytes]
) -> None:
    path = log_path(server)
    first = server.ask(f"/api/runs/x/log?path={path}").json()
    with (project.root / path).open("a") as file:
        file.write(ESCAPES + "half a li")
    more = server.ask(f"/api/runs/x/log?path={path}&from={first['next']}")
    assert more.json()["text"].startswith("over ")
    assert "half" not in more.json()["text"]
    assert not set("\x1b\x07\r") & set(more.json()["text"])
    seen.append(more.content)
    (project.root / path).write_text("short\n")
    assert server.ask(f"/api/runs/x/log?path={path}&from={more.json()['next']}").json()["text"] == "short\n"


def test_a_log_that_became_a_way_out_is_no_log(server: Served, project: Project, seen: list[bytes]) -> None:
    path = log_path(server)
    file = project.root / path
    for target in ("/etc/passwd", "../../../specs/x.yaml", "/dev/zero"):
        file.unlink()
        file.symlink_to(target)
        answer = server.ask(f"/api/runs/x/log?path={path}")
        seen.append(answer.content)
        assert answer.status_code == 404, answer.text
    file.unlink()
    os.mkfifo(file)
    assert server.ask(f"/api/runs/x/log?path={path}").status_code == 404
    file.unlink()
    file.write_text("back\n")
    assert server.ask(f"/api/runs/x/log?path={path}").json()["text"] == "back\n"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"text": 3}', 400),
        (b'{"text": "a", "file": "/etc/passwd"}', 400),
        (b'{"text": "a", "where": "--depth"}', 400),
        (b'{"text": "a", "where": "0; ls"}', 400),
        (b'{"text": "' + b"a" * MOST_BODY + b'"}', 413),
        (b"[" * 100_000, 400),
    ],
)
def test_what_is_no_idea_is_refused_in_words(server: Served, content: bytes, status: int) -> None:
    answer = server.ask("/api/runs/x/idea", "POST", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.text.strip()
    form = server.ask("/api/runs/x/idea", "POST", data={"text": "a"})
    assert form.status_code == 400, "what a form of another page could send"


def test_what_the_command_refuses_is_said_in_its_words(server: Served) -> None:
    answer = server.post("/api/runs/x/idea", text="no idea")
    assert answer.status_code == 409
    assert "takes its ideas from a folder" in answer.text
    assert server.post("/api/runs/x/answer", text="").status_code == 400
    assert server.post("/api/runs/nope/pause").status_code == 409


def test_who_does_not_come_to_the_point_is_left(server: Served) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as slow:
        slow.sendall(b"GET /api/runs HTTP/1.1\r\nHost: ")
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as silent:
            answer = server.raw(probe(server, "/api/health"))
            assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})
            for each in (slow, silent):
                try:
                    assert each.recv(100) == b""
                except ConnectionResetError:
                    continue
    assert time.monotonic() - began >= HEADER_SECONDS


def test_what_seed_documents_is_there(server: Served) -> None:
    assert server.ask("/api/health").json() == {"status": "ok"}
    assert server.ask("/api/stats").json() == {"ledgers": []}
    assert server.ask("/api/marketplace").json()["tickets"] == []
    assert "text/html" in server.ask("/").headers["content-type"]
    [run] = server.ask("/api/runs").json()
    assert (run["run"], run["kind"], run["building"], run["paused"]) == ("x", "tree", False, False)


def test_it_is_small(server: Served) -> None:
    assert server.projection()
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        pytest.skip("this system tells no memory of a process by /proc")
    resident = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert resident
    assert int(resident[1]) < 45_000


# --- Starting and ending.


def test_a_port_in_use_is_one_line_with_what_to_do(server: Served, project: Project) -> None:
    said = project.call("dashboard", "--port", f"{server.port}")
    assert said.code == 69
    assert said.err.count("\n") == 1
    assert "--port 0" in said.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example"])
def test_another_host_than_this_machine_needs_a_word_and_says_what_it_means(project: Project, host: str) -> None:
    said = project.call("dashboard", "--host", host)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "--open-to-network" in said.err
    assert "nothing is encrypted" in said.err


def test_without_anybody_to_read_the_link_nothing_is_served(project: Project) -> None:
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *COPPICE, "dashboard", "--port", "0"]
    said = subprocess.run(words, cwd=project.root, env=environment({}), capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (128 + signal.SIGPIPE, "")


def test_without_the_extra_it_says_how_to_get_it(project: Project) -> None:
    lacking = "import sys; sys.modules['uvicorn'] = None"
    program = f"{lacking}; from pipeline.commands.main import main; sys.exit(main(['dashboard']))"
    words = [sys.executable, "-c", program]
    where = {"cwd": project.root, "env": environment({})}
    said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, **where)
    assert said.returncode == 69
    assert said.stderr.count("\n") == 1
    assert f"{sys.executable} -m pip install -e " in said.stderr  # of a checkout; on PyPI the name is somebody else's
    assert "[dashboard]" in said.stderr


def test_what_is_no_run_is_said_before_anything_is_served(project: Project) -> None:
    said = project.call("dashboard", "y")
    assert said.code == 2
    assert said.err == "coppice: dashboard: 'y' is no run; allowed: x\n"
    assert project.call("dashboard", "--port", "99999").code == 2


# --- In a browser.


@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
def test_the_link_opens_the_page_in_a_browser_and_from_there_a_run_is_steered(tmp_path: Path) -> None:
    """And nothing is loaded from elsewhere, nothing fails, and no address or text has the token any more."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    asked: set[str] = set()
    with served(small_search(Project(tmp_path))) as server, sync_playwright() as playwright:
        assert server.post("/api/runs/x/pause").status_code == 200
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context()
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda request: asked.add(request.url.partition("/api")[0].partition("/runs")[0].rstrip("/"))
        )
        page.goto(f"{server.base}/runs/x")
        page.get_by_text("Open the link that coppice dashboard printed").wait_for()
        page.goto("about:blank")
        page.goto(server.link)
        page.get_by_role("link", name="x", exact=True).click()
        page.locator("#top h1").wait_for()
        assert page.url == f"{server.base}/runs/x"
        assert server.token not in page.content()
        other = context.new_page()
        other.goto(f"{server.base}/runs/x")
        other.locator("#top h1").wait_for()
        page.get_by_role("button", name="resume").click()
        page.get_by_text("x is not paused any more").wait_for()
        browser.close()
        assert not server.ask("/api/runs").json()[0]["paused"]
    assert asked - {"about:blank"} == {server.base}
    assert said == []


@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
def test_the_theme_is_chosen_on_the_list_of_runs_as_well_and_kept_for_all_pages(server: Served) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{server.base}/runs#{server.link.partition('#')[2]}")
        page.get_by_role("button", name="theme: auto").click()
        page.get_by_role("button", name="theme: light").click()
        page.get_by_role("button", name="theme: dark").wait_for()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        page.get_by_role("link", name="x", exact=True).click()
        page.locator("#theme").filter(has_text="theme: dark").wait_for()
        browser.close()
