"""A server that speaks as models do, by a script: chat completions, responses, messages, Gemini; plain and streaming.

What it is asked for is one of our roles.  Ideas are knobs to set, code is the edit that sets one, in the format of the
client that asks: with the tools that it offers, or in text.  Every answer follows from what was asked; every request is
kept with its key, what was answered and what that cost.  Standard library only: benchmarks use it too."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

KNOBS = 64
BREAKS = 9  # a value that the tests of the repository do not let pass


def knob_file(knob: int, value: int = 0) -> tuple[str, str]:
    """A file of the repository that is searched, and the line in it."""
    return f"knobs/knob_{knob}.txt", f"knob {knob} = {value}"


# By words of their prompts; of anything else a client asks on its own account, such as for a title.
ROLES = {
    "ideas": re.compile(r"Propose ONE idea"),
    "planner": re.compile(r"Plan how to implement one idea"),
    "coder": re.compile(r"Implement one idea in a program"),
    "reviewer": re.compile(r"Review a change to a program"),
}
ASIDE = "aside"
_IDEA = re.compile(r"Set knob (\d+) to (\d+)")
_TITLES = re.compile(r"title generator|generate a (?:short )?title|conversation title", re.IGNORECASE)


class Price(NamedTuple):
    """USD for a million tokens; cached ones are those of the input that were sent before."""

    input: float
    cached: float
    output: float


# As the clients have them in their own tables, where they have one.
PRICES = {
    "claude-sonnet-4-5": Price(3.0, 0.3, 15.0),
    "claude-haiku-4-5-20251001": Price(1.0, 0.1, 5.0),
    "gpt-4o": Price(2.5, 1.25, 10.0),
    "scripted": Price(1.25, 0.125, 10.0),
}


class Tokens(NamedTuple):
    """`input` holds the cached ones, too."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def usd(self, model: str) -> float:
        price = PRICES.get(model, PRICES["scripted"])
        fresh = (self.input - self.cached) * price.input
        return (fresh + self.cached * price.cached + self.output * price.output) / 1e6


NONE = Tokens()


@dataclass(frozen=True)
class Request:
    """What was asked, whatever the protocol; `results`: how many tool calls have their result."""

    protocol: str
    model: str
    system: str
    prompt: str
    tools: frozenset[str]
    results: int
    stream: bool

    @property
    def role(self) -> str:
        if _TITLES.search(self.system):
            return ASIDE
        return next((role for role, words in ROLES.items() if words.search(self.prompt)), ASIDE)

    @property
    def key(self) -> str:
        """Equal for the same question at the same step."""
        return sha256(f"{self.role}\0{self.results}\0{self.prompt}".encode(errors="replace")).hexdigest()


class ToolCall(NamedTuple):
    """`arguments` of a tool that takes a plain text is that text."""

    name: str
    arguments: Mapping[str, Any] | str


class Reply(NamedTuple):
    text: str
    call: ToolCall | None
    tokens: Tokens


class Fault(NamedTuple):
    """A disturbance in place of an answer; `seconds` it takes, or asks to wait where `status` is not 200.

    `shape`: `complaint`, `malformed`, `cut`, `slow` or `huge`."""

    shape: str
    status: int = 200
    seconds: float | None = None
    words: str = "the service is busy"
    code: str = ""


@dataclass
class Entry:
    """A line of the log: times in seconds of the monotonic clock; `answered` is `answer` or what came in its place."""

    number: int
    protocol: str
    model: str
    role: str
    idea: str
    step: int
    key: str
    at: float
    answered: str = ""
    tokens: Tokens = NONE
    usd: float = 0.0
    sent: float | None = None
    prompt: str = field(default="", repr=False)


# ---- the script -----------------------------------------------------------------------------------------------


def next_idea(prompt: str) -> tuple[int, int]:
    """A knob that is not named in the prompt, and its value; the order is shuffled in the same way each time."""
    named = {int(knob) for knob, _ in _IDEA.findall(prompt)}
    left = [knob for knob in sorted(range(KNOBS), key=lambda knob: knob * 37 % 101) if knob not in named]
    return left[0], BREAKS if left[0] % 16 == 5 else 1 + left[0] % 5


def idea_of(request: Request) -> tuple[int, int]:
    if request.role == "ideas":
        return next_idea(request.prompt)
    found = _IDEA.search(request.prompt)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def answer(request: Request, rejected: frozenset[int] = frozenset(), command: str = "") -> Reply:
    """`rejected`: knobs that no reviewer lets pass; `command`: what a coder runs by its shell, before its edit."""
    knob, value = idea_of(request)
    (path, line), call, text = knob_file(knob, value), None, "OK"
    match request.role:
        case "ideas":
            text = (
                f"IDEA: Set knob {knob} to {value}.\n\nRATIONALE: It was not tried yet.\n\n"
                f"REQUIRED_CHANGES:\n- {path}: it has to say: {line}\n"
            )
        case "planner":
            text = f"1. {path} says: {line}. Nothing else changes."
        case "reviewer":
            text = "REJECT\nThis knob is not to be set." if knob in rejected else "APPROVE\nIt does what the idea says."
        case "coder":
            call, text = _edit(request, knob, value, command)
    asked = (len(request.system) + len(request.prompt)) // 4 + 50 * request.results
    said = len(text if call is None else json.dumps(call.arguments)) // 4 + 10
    return Reply(text, call, Tokens(asked, asked // 2 if request.results else 0, said))


def _edit(request: Request, knob: int, value: int, command: str) -> tuple[ToolCall | None, str]:
    """The next step of an edit by the client's own tools; or all of it in text, for a client that offers none."""
    (path, new), old = knob_file(knob, value), knob_file(knob)[1]
    steps = next((steps(path, old, new) for tool, steps in EDITS.items() if tool in request.tools), None)
    if steps is not None:
        shells = (ToolCall(tool, {argument: command}) for tool, argument in SHELLS.items() if tool in request.tools)
        steps = [*([next(shells)] if command else []), *steps]
        done = request.results >= len(steps)
        return (None, f"It says now: {new}.") if done else (steps[request.results], "")
    if "SEARCH/REPLACE" in request.system:
        block = f"{path}\n```\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"
        return None, f"I set the knob.\n\n{block}"
    diff = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
    return None, f"```diff\n{diff}```\n"


def _patch(path: str, old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"


def _exact(names: tuple[str, str, str], path: str, old: str, new: str) -> dict[str, str]:
    return dict(zip(names, (path, old, new), strict=True))


# By a tool that only one client has; the first that is offered.
EDITS: dict[str, Callable[[str, str, str], list[ToolCall]]] = {
    "Edit": lambda *edit: [  # Claude Code
        ToolCall("Read", {"file_path": edit[0]}),
        ToolCall("Edit", _exact(("file_path", "old_string", "new_string"), *edit)),
    ],
    "apply_patch": lambda *edit: [ToolCall("apply_patch", _patch(*edit))],
    "exec_command": lambda *edit: [  # Codex, for a model that it does not know
        ToolCall("exec_command", {"cmd": f"apply_patch <<'END'\n{_patch(*edit)}END\n"})
    ],
    "replace": lambda *edit: [  # Gemini CLI
        ToolCall("replace", {**_exact(("file_path", "old_string", "new_string"), *edit), "instruction": "Set it."})
    ],
    "edit": lambda *edit: [  # opencode
        ToolCall("read", {"filePath": edit[0]}),
        ToolCall("edit", _exact(("filePath", "oldString", "newString"), *edit)),
    ],
}


# By a client's tool that runs commands: its argument.
SHELLS = {"Bash": "command", "exec_command": "cmd", "run_shell_command": "command", "bash": "command"}


# ---- protocols: how each asks, and how each is answered ---------------------------------------------------------


def _texts(content: Any) -> str:
    """The texts of a message: itself, or the parts of it that are text."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content or () if isinstance(part, dict) and "text" in part)


def _parts(messages: list[dict[str, Any]], kind: str) -> int:
    return sum(
        part.get("type") == kind for each in messages if isinstance(each["content"], list) for part in each["content"]
    )


def _read_chat(_path: str, body: dict[str, Any]) -> Request:
    said = {role: [m for m in body["messages"] if m["role"] == role] for role in ("system", "user", "tool")}
    texts = {role: "\n".join(_texts(each["content"]) for each in messages) for role, messages in said.items()}
    tools = frozenset(tool["function"]["name"] for tool in body.get("tools") or ())
    many = (body["model"], texts["system"], texts["user"], tools, len(said["tool"]), bool(body.get("stream")))
    return Request("chat", *many)


def _read_responses(_path: str, body: dict[str, Any]) -> Request:
    given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    prompt = "\n".join(_texts(item["content"]) for item in given if item.get("role") == "user")
    results = sum(str(item.get("type", "")).endswith("_call_output") for item in given)
    tools = frozenset(tool.get("name", tool["type"]) for tool in body.get("tools") or ())
    system = body.get("instructions") or ""
    return Request("responses", body["model"], system, prompt, tools, results, bool(body.get("stream")))


def _read_messages(_path: str, body: dict[str, Any]) -> Request:
    users = [each for each in body["messages"] if each["role"] == "user"]
    prompt = "\n".join(_texts(each["content"]) for each in users)
    tools = frozenset(tool["name"] for tool in body.get("tools") or ())
    many = (_texts(body.get("system", "")), prompt, tools, _parts(users, "tool_result"), bool(body.get("stream")))
    return Request("messages", body["model"], *many)


def _read_gemini(path: str, body: dict[str, Any]) -> Request:
    parts = [part for each in body["contents"] if each.get("role", "user") == "user" for part in each["parts"]]
    declared = (each for tool in body.get("tools") or () for each in tool.get("functionDeclarations", ()))
    system = _texts((body.get("systemInstruction") or {}).get("parts", ""))
    results = sum("functionResponse" in part for part in parts)
    model, _, method = path.rpartition("/")[2].partition(":")
    tools = frozenset(each["name"] for each in declared)
    return Request("gemini", model, system, _texts(parts), tools, results, method.startswith("stream"))


def _write_chat(request: Request, reply: Reply, name: str) -> list[tuple[str, Any]]:
    used = reply.tokens
    usage = {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached},
    }
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.call:
        function = {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
        message["tool_calls"] = [{"index": 0, "id": f"call_{name}", "type": "function", "function": function}]
    whole = {"id": name, "created": 1, "model": request.model, "usage": usage}
    reason = {"index": 0, "finish_reason": "tool_calls" if reply.call else "stop"}
    if not request.stream:
        return [("", {**whole, "object": "chat.completion", "choices": [{**reason, "message": message}]})]
    chunk = {**whole, "object": "chat.completion.chunk"}
    first = {**chunk, "usage": None, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    return [("", first), ("", {**chunk, "choices": [{**reason, "delta": {}}]}), ("", "[DONE]")]


def _write_responses(request: Request, reply: Reply, name: str) -> list[tuple[str, Any]]:
    used = reply.tokens
    usage = {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input + used.output,
    }
    item: dict[str, Any] = {"id": f"item_{name}", "status": "completed"}
    if reply.call is None:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item |= {"type": "message", "role": "assistant", "content": content}
    elif isinstance(reply.call.arguments, str):
        item |= {"type": "custom_tool_call", "call_id": f"call_{name}"}
        item |= {"name": reply.call.name, "input": reply.call.arguments}
    else:
        item |= {"type": "function_call", "call_id": f"call_{name}"}
        item |= {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
    whole = {"id": name, "object": "response", "model": request.model, "status": "completed"}
    whole |= {"output": [item], "usage": usage}
    if not request.stream:
        return [("", whole)]
    events = {
        "response.created": {"response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        "response.output_item.done": {"output_index": 0, "item": item},
        "response.completed": {"response": whole},
    }
    return [(kind, {"type": kind, **event}) for kind, event in events.items()]


def _write_messages(request: Request, reply: Reply, name: str) -> list[tuple[str, Any]]:
    used = reply.tokens
    usage = {"input_tokens": used.input - used.cached, "cache_read_input_tokens": used.cached}
    usage |= {"cache_creation_input_tokens": 0, "output_tokens": used.output}
    block: dict[str, Any] = {"type": "text", "text": reply.text}
    empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
    if reply.call:
        head = {"type": "tool_use", "id": f"toolu_{name}", "name": reply.call.name}
        block, empty = {**head, "input": reply.call.arguments}, {**head, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.call.arguments)}
    reason = {"stop_reason": "tool_use" if reply.call else "end_turn", "stop_sequence": None}
    whole = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": request.model}
    if not request.stream:
        return [("", {**whole, **reason, "content": [block], "usage": usage})]
    begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    events = {
        "message_start": {"message": begun},
        "content_block_start": {"index": 0, "content_block": empty},
        "content_block_delta": {"index": 0, "delta": delta},
        "content_block_stop": {"index": 0},
        "message_delta": {"delta": reason, "usage": {"output_tokens": used.output}},
        "message_stop": {},
    }
    return [(kind, {"type": kind, **event}) for kind, event in events.items()]


def _write_gemini(_request: Request, reply: Reply, _name: str) -> list[tuple[str, Any]]:
    used = reply.tokens
    part: dict[str, Any] = {"text": reply.text}
    if reply.call:
        part = {"functionCall": {"name": reply.call.name, "args": reply.call.arguments}}
    usage = {"promptTokenCount": used.input, "cachedContentTokenCount": used.cached}
    usage |= {"candidatesTokenCount": used.output, "totalTokenCount": used.input + used.output}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    return [("", {"candidates": [candidate], "usageMetadata": usage})]


class Protocol(NamedTuple):
    path: re.Pattern[str]
    read: Callable[[str, dict[str, Any]], Request]
    write: Callable[[Request, Reply, str], list[tuple[str, Any]]]


PROTOCOLS = (
    Protocol(re.compile(r"/chat/completions$"), _read_chat, _write_chat),
    Protocol(re.compile(r"/responses$"), _read_responses, _write_responses),
    Protocol(re.compile(r"/messages$"), _read_messages, _write_messages),
    Protocol(re.compile(r":(?:stream)?[gG]enerateContent$"), _read_gemini, _write_gemini),
)


# ---- the server -------------------------------------------------------------------------------------------------


class ScriptedModels(ThreadingHTTPServer):
    """`fault` says what comes in place of the answer to a request, by its number from 1 on; `seconds` each takes."""

    daemon_threads = True

    def __init__(
        self,
        fault: Callable[[int, Request], Fault | None] = lambda _number, _request: None,
        seconds: float = 0.0,
        rejected: frozenset[int] = frozenset(),
        command: str = "",
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault, self.seconds, self.rejected, self.command = fault, seconds, rejected, command
        self.log: list[Entry] = []
        self.unknown: list[str] = []  # paths that no protocol has
        self.bodies: list[str] = []  # of requests of coders, where there is a command
        self.ending = Event()
        self._lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def enter(self, request: Request) -> Entry:
        knob, value = idea_of(request)
        with self._lock:
            head = (len(self.log) + 1, request.protocol, request.model, request.role, f"{knob}={value}")
            entry = Entry(*head, request.results, request.key, time.monotonic(), prompt=request.prompt)
            self.log.append(entry)
        return entry

    def answers(self) -> list[Entry]:
        """Answers that were sent whole: those that are to be paid."""
        return [entry for entry in self.log if entry.answered == "answer" and entry.sent is not None]

    def bill(self) -> float:
        return sum(entry.usd for entry in self.answers())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may have been killed."""


@contextmanager
def serving(server: ScriptedModels) -> Iterator[ScriptedModels]:
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedModels
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, json.dumps({"object": "list", "data": [], "models": []}).encode())

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = self.path.partition("?")[0]
        protocol = next((each for each in PROTOCOLS if each.path.search(path)), None)
        if protocol is None:
            self.server.unknown.append(path)
            self._send(404, b'{"error": {"message": "there is no such path"}}')
            return
        request = protocol.read(path, json.loads(body))
        entry = self.server.enter(request)
        if self.server.command:
            self.server.bodies.append(body.decode(errors="replace"))
        if fault := self.server.fault(entry.number, request):
            entry.answered = f"{fault.shape} {fault.status}"
            self._disturb(fault)
        else:
            self._answer(protocol, request, entry)
        entry.sent = time.monotonic()

    def _answer(self, protocol: Protocol, request: Request, entry: Entry) -> None:
        reply = answer(request, self.server.rejected, self.server.command)
        self.server.ending.wait(self.server.seconds)
        events = protocol.write(request, reply, f"{entry.number:06}")
        if request.stream:
            lines = [(f"event: {kind}\n" if kind else "") + f"data: {_dump(event)}\n\n" for kind, event in events]
            self._send(200, "".join(lines).encode(), kind="text/event-stream")
        else:
            self._send(200, _dump(events[0][1]).encode())
        entry.answered, entry.tokens, entry.usd = "answer", reply.tokens, reply.tokens.usd(request.model)

    def _disturb(self, fault: Fault) -> None:
        match fault.shape:
            case "malformed":
                self._send(200, b"<html><body>upstream sent an unexpected response")
            case "cut":
                self._send(200, b'{"id": "1", "choices": [{"index": 0, "message": {"role"', whole=1000)
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
            case "slow":
                self.server.ending.wait(fault.seconds)
                self._send(504, b'{"error": {"message": "upstream took too long"}}')
            case "huge":
                self._huge()
            case _:
                wait = {} if fault.seconds is None else {"Retry-After": f"{fault.seconds:g}"}
                error = {"message": fault.words, "type": fault.code or "error", "code": fault.code or None}
                self._send(fault.status, json.dumps({"error": error}).encode(), **wait)

    def _huge(self, megabytes: int = 60) -> None:
        head, tail = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "', b'"}}]}'
        self._send(200, head, whole=len(head) + len(tail) + (megabytes << 20))
        for _ in range(megabytes):
            self.wfile.write(b"x" * (1 << 20))
        self.wfile.write(tail)

    def _send(
        self, status: int, body: bytes, kind: str = "application/json", whole: int | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if whole is None else whole))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


def _dump(event: Any) -> str:
    return event if isinstance(event, str) else json.dumps(event)
