"""A dashboard that serves a project, and ways to ask it: in order, and byte by byte."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from kit.project import PATIENCE, Project


class Raw(NamedTuple):
    """An answer as it came; status 0 stands for a connection that was closed without one."""

    status: int
    head: str
    body: bytes


class Event(NamedTuple):
    name: str
    version: str
    data: Any


class Served(NamedTuple):
    process: subprocess.Popen[str]
    link: str
    port: int
    token: str

    @property
    def base(self) -> str:
        return self.link.partition("/#")[0]

    @property
    def host(self) -> str:
        return self.base.removeprefix("http://")

    def ask(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        """As our own page would, with the token."""
        headers = {"X-Coppice-Token": self.token, "Origin": self.base, **more.pop("headers", {})}
        return httpx.request(method, f"{self.base}{path}", headers=headers, timeout=PATIENCE, **more)

    def post(self, path: str, **words: str) -> httpx.Response:
        return self.ask(path, "POST", json=words)

    def projection(self, run: str = "x") -> Any:
        answer = self.ask(f"/api/runs/{run}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def raw(self, request: bytes) -> Raw:
        """Send bytes and read until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(request)
            answer = b""
            while chunk := received(connection):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        return Raw(int(head.split()[1]) if head else 0, head.decode("latin-1"), body)

    @contextmanager
    def events(self, run: str = "x", **headers: str) -> Iterator[Iterator[Event]]:
        named = {"X-Coppice-Token": self.token, **{name.replace("_", "-"): value for name, value in headers.items()}}
        path = f"{self.base}/api/runs/{run}/events"
        with httpx.stream("GET", path, headers=named, timeout=PATIENCE) as answer:
            assert answer.status_code == 200
            yield _events_in(answer.iter_lines())


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


def _events_in(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            yield Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
            fields = {}


@contextmanager
def served(project: Project, *words: str, command: str = "dashboard", **env: str) -> Iterator[Served]:
    """A dashboard on a free port; it has to end in order with Ctrl-C."""
    with project.popen(command, "--port", "0", *words, **env) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        found = re.fullmatch(r"http://.*:(\d+)/#token=(\S+)", link)
        try:
            assert found, (link, process.poll() is None or process.communicate())
            yield Served(process, link, int(found[1]), found[2])
        finally:
            process.send_signal(signal.SIGINT)
            try:
                rest = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert (process.returncode, rest[1]) == (0, ""), rest
        assert rest[0].endswith("ended\n"), rest


def request_bytes(path: str, host: str, method: str = "GET", version: str = "1.1", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/{version}", f"Host: {host}"] if host else [f"{method} {path} HTTP/{version}"]
    headers = {"Connection": "close", **headers}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def blocks_of(projection: Mapping[str, Any]) -> dict[str, Any]:
    return {block["name"]: block for block in projection["blocks"]}
