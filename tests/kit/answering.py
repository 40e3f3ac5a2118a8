"""A small HTTP server for JSON: whoever derives from it answers each question as a test wants it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeVar


class AnsweringServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), QuestionHandler)

    def answer(self, handler: "QuestionHandler", asked: Any) -> None:
        """Answer one question, by `handler.begin` and what is written to its `wfile`."""
        raise NotImplementedError


class QuestionHandler(BaseHTTPRequestHandler):
    server: AnsweringServer

    def do_POST(self) -> None:
        self.server.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


S = TypeVar("S", bound=AnsweringServer)


@contextmanager
def answering(server: S) -> Iterator[S]:
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
