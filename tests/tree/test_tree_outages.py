"""Outages of a search are waited for, then they stop the run; nothing of them is kept, all that is finished is."""

import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

import pytest
from kit.building import ends, until
from kit.project import COPPICE, PATIENCE, Project, environment
from kit.searches import TESTED, Search, adding, agent, command, idea

from pipeline.core.graph import Limits, Target
from pipeline.core.outcome import Wait
from pipeline.git.command import GitProblem, git
from pipeline.machine.job import Job, NoPlaces, SharedResources, StageOutage, Workers
from pipeline.machine.lock import lock_runs
from pipeline.machine.process import BuildStopping, Processes
from pipeline.models.calls import Calls, unended_calls
from pipeline.models.clients import secret_names
from pipeline.store.receipts import Receipts
from pipeline.tree.run.asker import RoleAsker, advice_on_mistake


class Refusal(NamedTuple):
    status: int
    after: str = ""
    body: bytes = b"not now"


# Which question in order it is, and whose -> a refusal, or None for an answer.
Script = Callable[[int, str], Refusal | None]


class Model(ThreadingHTTPServer):
    """A model behind HTTP that answers by the words of the question, unless its script refuses."""

    daemon_threads = True

    def __init__(self, script: Script, listens: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.script, self.lock = script, Lock()
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.thread = Thread(target=self.serve_forever, args=(0.01,))
        self.server_bind()  # not heard before it listens: connections are refused
        if listens:
            self.listen()

    def listen(self) -> None:
        self.server_activate()
        self.thread.start()

    def role(self, name: str, **keys: Any) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.server_port}/{name}"
        return {"backend": "openai", "url": url, "model": "m", "retries": 0, **keys}

    def close(self) -> None:
        if self.thread.is_alive():
            self.shutdown()
            self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        prompt, role = json.loads(body)["messages"][0]["content"], self.path.split("/")[1]
        with self.server.lock:
            self.server.asked.append(prompt)
            refusal = self.server.script(len(self.server.asked) - 1, role)
            if refusal is None:
                self.server.answered.append(prompt)
        if refusal:
            headers = {"Retry-After": refusal.after} if refusal.after else {}
            return self.reply(refusal.status, refusal.body, headers)
        choice = {"message": {"role": "assistant", "content": answer_to(role, prompt)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        return self.reply(200, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode(), {})

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


def answer_to(role: str, prompt: str) -> str:
    number = int(sha256(prompt.encode()).hexdigest()[:4], 16)
    if role == "ideas":
        return idea(f"Gain {number}.")
    gain = int(re.findall(r"Gain (\d+)", prompt)[-1])
    return f"```diff\n{adding(f'plus/g{gain}', f'gain=$((gain + {gain % 97}))')}```\n"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Model]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    models: list[Model] = []

    def start(script: Script = lambda n, role: None, **options: Any) -> Model:
        models.append(Model(script, **options))
        return models[-1]

    yield start
    for each in models:
        each.close()


def search_by(project: Project, server: Model, **spec: Any) -> Search:
    roles = {"ideas": server.role("ideas"), "coder": server.role("coder")}
    keys: dict[str, Any] = {"ideas_per_node": 3, "beam_width": 2, "max_depth": 2, "max_parallel_evals": 3}
    return Search(project, {}, **{"roles": roles, "patience": "1h", **keys, **spec})


def promotions(search: Search) -> list[Any]:
    found = [search.record(f"depths/{depth}/promoted.json") for depth in (0, 1)]
    return [(each["beam"], each["decisions"], each["stop_reason"]) for each in found]


def events(search: Search, *names: str) -> list[dict[str, Any]]:
    lines = search.project.read("runs/x/events.jsonl").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] in names]


def wait_for_line(build: subprocess.Popen[str], word: str) -> str:
    assert build.stdout is not None
    return next(line for line in build.stdout if word in line)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch, closing(Model(lambda n, role: None)) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        search = search_by(Project(tmp_path_factory.mktemp("undisturbed") / "project"), server)
        search.build()
        return promotions(search)


SOON = "0.02"


def credit_gone_for_a_while(n: int, _role: str) -> Refusal | None:
    return Refusal(402, SOON) if 4 <= n < 12 else None


FAULTS: dict[str, Script] = {
    "429 with Retry-After": lambda n, role: Refusal(429, SOON) if n % 3 == 1 else None,
    "429 without Retry-After": lambda n, role: Refusal(429) if n == 2 else None,
    "500": lambda n, role: Refusal(500, SOON) if n % 4 == 0 else None,
    "502": lambda n, role: Refusal(502, SOON, b"<html>Bad gateway") if n in (0, 1, 2, 9) else None,
    "credit gone for a while": credit_gone_for_a_while,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_search_with_outages_ends_as_one_without_and_asks_nothing_twice(
    project: Project, model: Callable[..., Model], undisturbed: list[Any], fault: str
) -> None:
    server = model(FAULTS[fault])
    search = search_by(project, server)
    search.build()
    assert promotions(search) == undisturbed
    assert len(server.asked) > len(server.answered) == len({*server.answered})
    waits = events(search, "waiting")
    assert waits
    assert {wait["role"] for wait in waits} <= {"ideas", "coder"}
    assert [event["stop_reason"] for event in events(search, "failed", "stopped", "requeued")] == ["max_depth_reached"]


def test_a_server_that_is_not_there_is_waited_for(
    project: Project, model: Callable[..., Model], undisturbed: list[Any]
) -> None:
    server = model(listens=False)
    search = search_by(project, server)
    with project.popen("run", "x") as build:
        line = wait_for_line(build, "waits: ")
        assert "d0.n0.i0.idea" in line
        assert "tried again in" in line
        server.listen()
        build.communicate(timeout=PATIENCE)
    assert build.returncode == 0
    assert promotions(search) == undisturbed
    assert events(search, "waiting")[0]["kind"] == "network"


def test_after_patience_the_run_stops_and_the_next_build_asks_only_what_was_not_answered(
    project: Project, model: Callable[..., Model], undisturbed: list[Any]
) -> None:
    server = model(lambda n, role: Refusal(402, "7200") if n >= 5 else None)
    search = search_by(project, server)
    said = search.build(code=69)
    assert len(server.answered) == 5
    assert len(server.asked) <= 5 + 3  # those that were under way; then nobody asked
    assert "0 failed, " in said.out
    assert "`coppice x` goes on" in said.err
    (stop,) = events(search, "stopped")
    assert stop["stop_reason"] == "model_unavailable"
    assert "402" in stop["why"]
    manifest = search.record("manifest.json")
    assert manifest["state"]["stop_reason"] == "model_unavailable"
    assert {each["task_state"] for each in manifest["evaluations"].values()} <= {"queued", "completed"}
    assert not events(search, "failed")
    # another one goes on
    server.script = lambda n, role: None
    search.build()
    assert promotions(search) == undisturbed
    assert len(server.answered) == len({*server.answered})
    assert search.record("manifest.json")["state"]["stop_reason"] == "max_depth_reached"
    assert project.call("run", "x").code == 0


def test_no_patience_stops_at_the_first_outage(project: Project, model: Callable[..., Model]) -> None:
    server = model(lambda n, role: Refusal(429, SOON))
    search = search_by(project, server, patience=0)
    search.build(code=69)
    assert len(server.asked) == 1
    assert not events(search, "waiting")


def test_a_key_that_lets_nobody_in_stops_the_build_at_once_and_the_variable_is_named(
    project: Project, model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "wrong-key-1234")
    server = model(lambda n, role: Refusal(401))
    roles = {name: server.role(name, key_env="MY_KEY") for name in ("ideas", "coder")}
    search = search_by(project, server, roles=roles)
    said = search.build(code=69)
    assert len(server.asked) <= 3, "those that were asked at once"
    assert not events(search, "waiting")
    assert "check the key in MY_KEY" in " ".join(said.err.split()), said
    assert "wrong-key-1234" not in said.out + said.err
    server.script = lambda n, role: None
    monkeypatch.delenv("MY_KEY")
    assert "coppice: x: MY_KEY is not set; " in search.build(code=69).err
    monkeypatch.setenv("MY_KEY", "right-key-1234")
    assert "MY_KEY" not in search.build().err


def test_a_login_that_is_refused_after_an_answer_is_waited_for(project: Project, model: Callable[..., Model]) -> None:
    server = model(lambda n, role: Refusal(401, SOON) if n == 1 else None)
    search = search_by(project, server, ideas_per_node=2, max_depth=1, max_parallel_evals=1)
    search.build()
    assert [event["kind"] for event in events(search, "waiting")] == ["login"]


def asker(processes: Processes, role: dict[str, Any], say: Callable[[Any], None]) -> RoleAsker:
    os.makedirs("runs/x", exist_ok=True)
    Path("runs/x/root.json").write_text('{"tree": "0"}')
    target = Target("x:d0.n0.i0.implement", "implement", (), (), {}, Limits(patience=60.0), 1)
    job = Job(
        target, {}, {}, os.path.abspath("log"), processes, Workers(processes), SharedResources(), places=NoPlaces(say)
    )
    return RoleAsker(job, {"coder": {"backend": "command", **role}}, Calls(os.path.abspath("journal")), "")


def test_a_program_that_is_gone_is_waited_for_and_one_that_was_never_there_is_not(processes: Processes) -> None:
    program, said = Path("program").absolute(), list[Wait]()
    again = lambda: program.write_text("#!/bin/sh\necho done\n") and program.chmod(0o755)  # noqa: E731
    asking = asker(processes, {"run": [str(program)]}, lambda wait: (said.append(wait), again()))
    question = asking.question("coder", "do it", os.getcwd())
    with pytest.raises(StageOutage, match=r"cannot start '.*program': .*not waited for: no call of this build"):
        asking.ask_with_retries(question)
    assert not said
    again()
    asking = asking._replace(job=asking.job._replace(shared=SharedResources()))  # the next build
    for _ in range(2):
        assert asking.ask_with_retries(question).text == "done\n"
        program.unlink()
    assert [wait.kind for wait in said] == ["missing"]


def test_a_client_without_a_key_names_the_variables_and_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in secret_names({"backend": "claude"}):
        monkeypatch.delenv(name, raising=False)
    assert advice_on_mistake({"backend": "claude"}, "login") == (
        "set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or log in with the client; "
        "not waited for: no call of this build has got in yet"
    )


def test_a_call_that_a_stop_kept_from_being_sent_is_on_no_bill(processes: Processes) -> None:
    asking = asker(processes, {"run": ["true"]}, print)
    processes.stopping = True
    with pytest.raises(BuildStopping):
        asking.ask_with_retries(asking.question("coder", "do it", os.getcwd()))
    assert unended_calls("journal") == []


def test_of_two_backends_the_one_that_works_is_asked_all_that_it_can_be(
    project: Project, model: Callable[..., Model]
) -> None:
    fine, out = model(), model(lambda n, role: Refusal(401))
    roles = {"ideas": fine.role("ideas"), "coder": out.role("coder")}
    search = search_by(project, fine, roles=roles, patience="0.1")
    said = search.build("--continue", code=69)
    assert len(fine.answered) == 3
    assert len(out.asked) <= 5
    assert "0 failed, 3 kept back by an outage" in said.out
    assert [event["stop_reason"] for event in events(search, "stopped")] == ["model_unavailable"]


def test_an_answer_that_may_have_been_paid_for_is_asked_three_times_at_most(
    project: Project, model: Callable[..., Model]
) -> None:
    """Changed patience makes nothing stale: only what is left is asked."""
    server = model(lambda n, role: Refusal(200, body=b"<html>") if role == "coder" else None)
    search = search_by(project, server, ideas_per_node=1, max_depth=1, patience="8s")
    search.build(code=69)
    assert len(server.asked) == 1 + 3
    server.script = lambda n, role: None
    search.spec(patience="9h")
    search.build()
    assert len(server.asked) == 1 + 3 + 1


def test_an_interrupt_ends_a_wait_at_once(project: Project, model: Callable[..., Model]) -> None:
    search = search_by(project, model(lambda n, role: Refusal(429, "1000")))
    with project.popen("run", "x") as build:
        wait_for_line(build, "waits: ")
        build.send_signal(signal.SIGINT)
        build.communicate(timeout=20)
    assert build.returncode == 128 + signal.SIGINT
    assert not events(search, "stopped", "failed")


BUSY = 'touch "$LIST.busy"; [ -e "$LIST.long" ] && sleep 1000; sleep 0.2; rm "$LIST.busy"\n'


def ready_to_sweep(project: Project, server: Model, **spec: Any) -> Search:
    """A search whose last idea has its code, and can be measured; those before it are still to be coded."""
    search = search_by(project, server, max_depth=1, **spec)
    assert project.call("run", "x:d0.n0.i2.implement").code == 0
    project.write("list.hook", BUSY)
    search.executed()
    return search


@pytest.mark.parametrize(("at_once", "exclusive"), [(1, False), (2, False), (2, True)])
def test_what_needs_no_model_is_done_while_calls_wait_for_it(
    project: Project, model: Callable[..., Model], at_once: int, exclusive: bool
) -> None:
    """A call is made again once there is a place for it: none beside what has the machine or the only place."""
    server = model()
    sweep = {**command("sh {in} {results} {limit}", "sweep.sh"), "exclusive": exclusive}
    search = ready_to_sweep(project, server, max_parallel_evals=at_once, patience="40s", sweep=sweep)
    answered, beside, note = len(server.asked), [], search.root / "list"

    def refuse_until_it_is_measured(n: int, _role: str) -> Refusal | None:
        if (search.root / "list.busy").exists():
            beside.append(n)
        return None if note.exists() and "sweep d0.n0.i2\n" in note.read_text() else Refusal(429, SOON)

    server.script = refuse_until_it_is_measured
    search.build("-n", str(at_once))
    assert {"sweep d0.n0.i0", "sweep d0.n0.i1", "sweep d0.n0.i2"} <= {*search.executed()}
    refused = len(server.asked) - len(server.answered)
    assert refused or exclusive, "an exclusive sweep may begin before any call"
    assert len({*server.asked[answered : answered + refused]}) <= at_once, "more wait than there are places"
    assert not beside or (at_once, exclusive) == (2, False)
    assert len(server.answered) == len({*server.answered})


def test_an_interrupt_ends_the_wait_for_a_place_at_once(project: Project, model: Callable[..., Model]) -> None:
    """The pause of the call is over, and its place is taken by a sweep."""
    server = model()
    search = ready_to_sweep(project, server, max_parallel_evals=1)
    server.script = lambda n, role: Refusal(429, SOON)
    project.write("list.long", "")
    with project.popen("run", "x", "-n", "1") as build:
        until((search.root / "list.busy").exists, build)
        build.send_signal(signal.SIGINT)
        build.communicate(timeout=20)
    assert build.returncode == 128 + signal.SIGINT
    assert not events(search, "stopped", "failed")


def test_a_call_that_waits_ends_what_it_began_though_another_target_has_failed(
    project: Project, model: Callable[..., Model]
) -> None:
    """Nothing more is started then, so no thread is left to give it a place."""
    server = model(lambda n, role: None if (project.root / "failed").exists() else Refusal(429, SOON))
    search = search_by(project, server, ideas_per_node=1, max_depth=1, max_parallel_evals=1)
    project.spec("z", "kind: steps\nsteps:\n  bad:\n    run: touch failed; exit 3; touch {out}\n    writes: a.txt\n")
    assert project.call("run", "x", "z", "-n", "1").code == 1
    assert len(server.answered) == 1
    assert search.record("node_ideas/d0.n0/idea_000.json")["why"] == ""


def test_a_question_that_never_gets_an_answer_keeps_back_its_own_evaluation_alone(
    project: Project, model: Callable[..., Model]
) -> None:
    server = model()
    roles = {"ideas": server.role("ideas"), "coder": server.role("coder", price="free")}
    search = search_by(project, server, roles=roles, max_depth=1, max_parallel_evals=1)
    asked_first: list[str] = []

    def refuse_the_first(n: int, role: str) -> Refusal | None:
        if role != "coder":
            return None
        asked_first.append(server.asked[n])
        return Refusal(200, body=b"<html>") if server.asked[n] == asked_first[0] else None

    server.script = refuse_the_first
    search.build("-n", "1", code=69)
    assert server.asked.count(asked_first[0]) == 3
    assert [search.summary(f"d0.n0.i{n}")["status"] for n in (1, 2)] == ["completed", "completed"]
    assert project.call("answer", "x", "d0.n0.i1", "--give-up").code == 2
    assert project.call("answer", "x", "d0.n0.i0", "--give-up").code == 0
    asked = len(server.asked)
    search.build("-n", "1")
    assert (len(server.asked), search.summary("d0.n0.i0")["status"]) == (asked, "failed")
    assert search.summary("d0.n0.i0")["why"].startswith("given up by a person: ")
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")
    server.script = lambda n, role: None
    assert project.call("retry", "x").code == 0
    assert search.summary("d0.n0.i0")["status"] == "completed"
    assert len(server.answered) == len({*server.answered}) == 3 + 3


def test_a_paused_run_asks_nobody_until_it_is_resumed_and_keeps_no_other_from_asking(
    project: Project, model: Callable[..., Model]
) -> None:
    server = model(lambda n, role: Refusal(429, SOON))
    search = search_by(project, server, ideas_per_node=1, max_depth=1, constraints="Rule of x.")
    search.spec("y", constraints="Rule of y.")
    with project.popen("run", "x", "y", "-n", "2") as build:
        wait_for_line(build, "x:d0.n0.i0.idea: waits: ")
        assert project.call("pause", "x").code == 0
        wait_for_line(build, "x is paused")
        before = len(server.asked)
        server.script = lambda n, role: Refusal(429, SOON) if "Rule of x." in server.asked[n] else None
        until((search.root / "runs/y/depths/0/promoted.json").exists, build)
        assert any("Rule of y." in prompt for prompt in server.answered)
        after = sum("Rule of x." in prompt for prompt in server.asked[before:])
        assert after <= 1, "a call that had begun before the pause may come to its end, no other"
        server.script = lambda n, role: None
        assert project.call("resume", "x").code == 0
        out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, (out, err)
    assert any("Rule of x." in prompt for prompt in server.answered)
    assert len(server.answered) == len({*server.answered})


def test_a_kill_while_it_waits_loses_nothing(
    project: Project, model: Callable[..., Model], undisturbed: list[Any]
) -> None:
    server = model(lambda n, role: Refusal(429, "1000") if n >= 6 else None)
    search = search_by(project, server)
    with project.popen("run", "x") as build:
        wait_for_line(build, "waits: ")
        build.kill()
        build.communicate(timeout=PATIENCE)
    assert ends(build.pid)
    server.script = lambda n, role: None
    search.build()
    assert promotions(search) == undisturbed
    assert len(server.answered) == len({*server.answered})


# -- commands that are killed from outside

KILLS = '[ -e plus/bad ] && { echo >> "$LIST.kills"; [ "$(wc -l < "$LIST.kills")" -le MOST ] && kill -9 $$; }\n:\n'


def killed_search(project: Project, most: int, **spec: Any) -> Search:
    project.write("list.hook", KILLS.replace("MOST", str(most)))
    return Search(project, {"bad": "gain=14", "good": "gain=12"}, **spec)


def test_a_sweep_that_was_killed_is_run_again(project: Project) -> None:
    search = killed_search(project, 2, patience="1h")
    search.build()
    assert len(project.read("list.kills").splitlines()) == 3
    assert search.why("d0.n0.i0") == "d1.n0"
    waits = events(search, "waiting")
    assert [(wait["eval_id"], wait["role"], wait["kind"]) for wait in waits] == [("d0.n0.i0", "sweep", "killed")] * 2
    assert search.record("eval/d0.n0.i0/sweep.cost.json")["attempts"] == 1
    assert search.record("eval/d0.n0.i0/sweep.cost.json")["seconds"] < 1  # the time it waited is no cost


def test_a_sweep_that_is_killed_again_and_again_stops_the_run_when_the_others_are_done(project: Project) -> None:
    search = killed_search(project, 99, patience="0.05")
    said = search.build(code=69)
    assert "outage x:d0.n0.i0.sweep (" in said.out
    assert search.summary("d0.n0.i1")["status"] == "completed"
    assert [event["stop_reason"] for event in events(search, "stopped")] == ["killed_from_outside"]
    assert "x:d0.n0.i0.sweep" in project.call("why", "x").out
    project.write("list.hook", ":\n")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not events(search, "failed")


# -- git itself that is killed from outside

GIT = """#!/bin/sh
case " $* " in *" WORD "*) mv PLACE/armed PLACE/spent 2>/dev/null && kill -9 $$;; esac
exec REAL "$@"
"""


@pytest.mark.parametrize("word", ["add", "diff-tree", "reset"])
def test_a_git_that_was_killed_is_nobodys_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str
) -> None:
    text = GIT.replace("WORD", word).replace("PLACE", str(project.root)).replace("REAL", str(which("git")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(text)
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    project.write("agent.coder", 'echo gain=12 > plus/a; touch "$project/armed"\n')
    project.write("by_hand/d0.n0.i0.md", idea("a"))
    roles = {"ideas": {"backend": "manual", "folder": "by_hand"}, "coder": agent("coder")}
    search = Search(project, {}, roles=roles, patience="1h")
    search.build()
    assert (project.root / "spent").exists()
    assert [wait["kind"] for wait in events(search, "waiting")] == ["killed"]
    assert search.why("d0.n0.i0") == "d1.n0"
    assert len(project.read("runs/x/eval/d0.n0.i0/calls.jsonl").splitlines()) == 1


def mending_search(project: Project, coder: str, tests: str, **keys: Any) -> Search:
    """A coder whose first change fails the tests, as it is told."""
    project.write("agent.coder", f"case $prompt in *'seed 7 is bad'*) {coder};; *) echo broken=1 > plus/a;; esac\n")
    project.write("by_hand/d0.n0.i0.md", idea("a"))
    roles = {"ideas": {"backend": "manual", "folder": "by_hand"}, "coder": agent("coder", **keys)}
    search = Search(project, {}, roles=roles, **TESTED)
    noting = 'echo "test $(basename "$PWD")" >> "$LIST"\n'
    project.write("tests.sh", f"{noting}{tests}\nif grep -q broken plus/*; then echo seed 7 is bad; exit 1; fi\n")
    return search


def test_tests_that_are_killed_before_the_coder_hears_of_them_are_run_again(project: Project) -> None:
    """And it hears only of what counts."""
    kill = 'if [ -e plus/a ] && [ ! -e "$LIST.kills" ]; then echo half > "$LIST.kills"; echo half of it; kill -9 $$; fi'
    search = mending_search(project, "echo gain=12 > plus/a", kill)
    search.spec(patience="1h")
    search.build()
    waits = events(search, "waiting")
    assert [(wait["eval_id"], wait["role"], wait["kind"]) for wait in waits] == [("d0.n0.i0", "test", "killed")]
    asked = [json.loads(line) for line in project.read("runs/x/eval/d0.n0.i0/calls.jsonl").splitlines()]
    assert [call["exit"] for call in asked] == [0, 0]
    assert "instructions):\n\nseed 7 is bad\n" in asked[1]["prompt"]
    assert search.record("eval/d0.n0.i0/candidate.json")["test_rounds"] == 1
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_model_that_is_out_when_it_is_to_mend_its_code_goes_on_from_there(project: Project) -> None:
    """What it had changed by then is nothing that may be kept, and no test is run again for it."""
    out = """printf '{"type": "result", "is_error": true, "result": "Credit balance is too low"}'; exit 1"""
    mends = f'[ -e "$project/up" ] || {{ echo gain=99 > plus/b; {out}; }}; echo gain=12 > plus/a'
    search = mending_search(project, mends, ":", partial="keep")
    search.build(code=69)
    assert not (search.root / "runs/x/eval/d0.n0.i0/candidate.json").exists()
    tries = ["coder d0.n0.i0", "coder d0.n0.i0", "test d0.n0.i0.tried"]
    assert [line for line in search.executed() if "i0" in line] == tries
    project.write("up", "")
    search.build()
    assert search.executed() == ["coder d0.n0.i0", "sweep d0.n0.i0", "test d0.n0.i0.tests"]
    assert search.record("eval/d0.n0.i0/candidate.json")["files"] == 1
    assert search.why("d0.n0.i0") == "d1.n0"


def test_reporters_tell_an_outage_from_a_failure(project: Project) -> None:
    search = killed_search(project, 99)
    said = project.call("run", "x", "--reporter", "json", "--junit", "junit.xml")
    assert said.code == 69
    tasks = {task["name"]: task for task in json.loads(said.out)["tasks"]}
    assert tasks["x:d0.n0.i0.sweep"]["outage"] == "killed_from_outside"
    assert tasks["x:d0.n0.i1.sweep"]["outage"] is None
    junit = project.read("junit.xml")
    assert 'failures="0" errors="1"' in junit
    assert 'type="killed_from_outside"' in junit
    assert search.record("manifest.json")["evaluations"]["d0.n0.i0"]["task_state"] == "queued"


def test_a_failure_beside_an_outage_is_a_failure(project: Project) -> None:
    """The exit code is 69 only where nobody has failed."""
    killed_search(project, 99)
    project.spec("steps", "kind: steps\nsteps:\n  bad:\n    run: exit 3; touch {out}\n    writes: a.txt\n")
    said = project.call("run", "--continue", "x", "steps")
    assert said.code == 1, said
    assert "1 failed, 1 kept back by an outage" in said.out


# -- a retry by choice


def failing_search(project: Project) -> Search:
    """A coder that gives up the second idea until it is mended."""
    coder = 'n=$(basename "$PWD"); echo gain=12 > "plus/$n"; [ -e "$project/fixed" ] || case $n in *i1) exit 3;; esac\n'
    project.write("agent.coder", coder)
    roles = {"ideas": {"backend": "manual", "folder": "by_hand"}, "coder": agent("coder")}
    for n, name in enumerate("abc"):
        project.write(f"by_hand/d0.n0.i{n}.md", idea(name))
    return Search(project, {}, roles=roles, ideas_per_node=3)


def test_a_retry_does_what_failed_again_and_nothing_else(project: Project) -> None:
    search = failing_search(project)
    search.build()
    assert search.summary("d0.n0.i1")["status"] == "failed"
    search.executed()
    with chdir(search.root), lock_runs(["x"]):
        dry = project.call("retry", "x", "--dry-run")  # also beside a build
    assert dry.code == 0
    assert "x: 1 evaluation failed and is done again\n  d0.n0.i1: " in dry.out
    assert "about 1 call, 0.00 USD" in dry.out
    assert "d0 is decided anew" in dry.out
    project.write("fixed", "")
    search.build()
    assert search.executed() == []  # a failure is a result, and nothing was done
    said = project.call("retry", "x", "d0.n0.i1")
    assert said.code == 0, said
    assert search.executed() == ["coder d0.n0.i1", "sweep d0.n0.i1"]
    assert search.summary("d0.n0.i1")["status"] == "completed"
    assert "nothing to retry" in project.call("retry", "x").out
    assert search.executed() == []


@pytest.mark.parametrize(("refusal", "code"), [("paused since", 75), ("sweep.sh is missing", 2), ("-n -1: give 1", 2)])
def test_a_retry_that_is_refused_has_forgotten_nothing(project: Project, refusal: str, code: int) -> None:
    search = failing_search(project)
    search.build()
    before = project.read("runs/x/.coppice/receipts")
    if code == 75:
        project.call("pause", "x")
    if "sweep.sh" in refusal:
        (project.root / "sweep.sh").rename(project.root / "away")
    said = project.call("retry", "x", *(["--process=-1"] if "-n" in refusal else []))
    assert (said.code, refusal in said.err, said.out) == (code, True, ""), said
    assert project.read("runs/x/.coppice/receipts") == before
    assert search.summary("d0.n0.i1")["status"] == "failed"


def test_a_retry_that_could_not_forget_is_no_event(project: Project) -> None:
    search = failing_search(project)
    search.build()
    size = (search.root / "runs/x/.coppice/receipts").stat().st_size
    limited = ["sh", "-c", f'ulimit -f {size // 512}; exec "$@"', "sh", *COPPICE, "retry", "x"]
    said = subprocess.run(limited, cwd=search.root, env=environment({}), capture_output=True, text=True, check=False)
    assert (said.returncode, "receipts: File too large" in said.stderr) == (1, True), said
    assert not (search.root / "runs/x/steering.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "d0.n0.i9"], "'x:d0.n0.i9' is no evaluation"),
        (["x", "d0.n0.i0"], "x:d0.n0.i0 has not failed, it is completed"),
        (["y"], "there is no run 'y'"),
    ],
)
def test_what_has_not_failed_is_not_retried(project: Project, words: list[str], message: str) -> None:
    failing_search(project).build()
    said = project.call("retry", *words)
    assert (said.code, message in said.err) == (2, True), said


# -- a full disk

FILLS = """\
if [ "$(basename "$PWD")" = d0.n0.i0 ] && [ ! -e "$LIST.filled" ]; then
  echo > "$LIST.filled"
  head -c 99000000 /dev/zero > "$LIST.ballast" 2> "$LIST.err"
  exit 1
fi
"""


def mounted(tmp_path: Path, size: str) -> Iterator[Project]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield Project(folder / "project")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Project]:
    yield from mounted(tmp_path, "8m")


@pytest.mark.parametrize("patience", ["1h", 0])
def test_a_disk_that_was_full_for_a_moment_is_no_failure_of_a_candidate(small_disk: Project, patience: Any) -> None:
    search = Search(small_disk, {"1win": "gain=14", "2": "gain=11"}, patience=patience)
    small_disk.write("list.hook", FILLS)
    with small_disk.popen("run", "x") as build:
        if patience:
            assert "kB left" in wait_for_line(build, "waits: ")
            (small_disk.root / "list.ballast").unlink()
        said = build.communicate(timeout=PATIENCE)
    assert build.returncode == (0 if patience else 69), said  # whether there is room for manifest and state or not
    if not patience:
        (small_disk.root / "list.ballast").unlink()
        search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not events(search, "failed")
    assert [wait["kind"] for wait in events(search, "waiting")][:1] == (["disk full"] if patience else [])
    with chdir(small_disk.root):
        receipts = Receipts("x")  # no wait is an attempt
        assert {found.attempts for name in receipts.names() if (found := receipts.receipt(name))} == {1}, (
            "no wait is one"
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_while_the_store_waits_for_room_loses_no_result(
    small_disk: Project, tmp_path: Path, number: signal.Signals
) -> None:
    """Only the store is on the disk that is full."""
    search = Search(Project(tmp_path / "project"), {"1win": "gain=14"}, patience="1h", store=str(small_disk.root / "s"))
    project, ballast = search.project, small_disk.root / "ballast"
    ballast.parent.mkdir(exist_ok=True)
    project.write("list.hook", f'head -c 99000000 /dev/zero > "{ballast}" 2> "$LIST.err"\n')
    with project.popen("run", "x") as build:
        assert "sweep: " in wait_for_line(build, "waits: ")
        build.send_signal(number)
        build.communicate(timeout=PATIENCE)
    measured = [line for line in search.executed() if line.startswith("sweep")]
    assert measured
    ballast.unlink()
    project.write("list.hook", "")
    search.build()
    assert not {*measured} & {*search.executed()}


def test_a_full_disk_costs_no_answer_that_was_paid(small_disk: Project, model: Callable[..., Model]) -> None:
    """The disk is full when the coder's answer comes: it is not asked again, neither meanwhile nor afterwards."""
    ballast = small_disk.root / "ballast"

    def fill(number: int, _role: str) -> None:
        if number == 1:
            subprocess.run(f"cat /dev/zero > {ballast}", shell=True, capture_output=True, check=False)

    server = model(fill)
    search = search_by(small_disk, server, ideas_per_node=1, max_depth=1)
    with small_disk.popen("run", "x") as build:
        for _ in range(2):
            wait_for_line(build, "waits: ")
        ballast.unlink()
        out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, (out, err)
    search.build()
    assert len(server.asked) == 2


# The disk is full while the command runs, and there is room again when it has ended.
SQUEEZED = """\
if [ "$(basename "$PWD")" = d0.n0.i0 ]; then
  echo >> "$LIST.squeezed"
  if [ "$(wc -l < "$LIST.squeezed")" -le MOST ]; then
    head -c 99000000 /dev/zero > "$LIST.ballast" 2> /dev/null
    until [ -e "$LIST.seen" ]; do sleep 0.05; done
    rm "$LIST.ballast" "$LIST.seen"
    exit 2
  fi
fi
"""


@contextmanager
def full_looks(project: Project) -> Iterator[None]:
    """Say to a command that the disk has been full for longer than it takes to look at it."""
    over = Event()

    def look() -> None:
        while not over.wait(0.05):
            status = os.statvfs(project.root)
            is_full = status.f_bavail * status.f_frsize < 1024
            if is_full and not (project.root / "list.seen").exists() and not over.wait(1):
                (project.root / "list.seen").touch()

    thread = Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("end", "most", "promoted"), [("exit 2", 1, True), (": > $results; exit 0", 1, True), ("exit 2", 9, False)]
)
def test_a_command_that_met_a_full_disk_runs_again_but_not_for_ever(
    small_disk: Project, end: str, most: int, promoted: bool
) -> None:
    """A shell may also end well, with half of what it wrote."""
    search = Search(small_disk, {"1win": "gain=14", "2": "gain=11"}, patience="1h")
    small_disk.write("list.hook", SQUEEZED.replace("MOST", str(most)).replace("exit 2", end))
    with full_looks(small_disk):
        search.build()
    waits = [wait["kind"] for wait in events(search, "waiting") if wait["eval_id"] == "d0.n0.i0"]
    assert waits == ["disk full"] * (1 if promoted else 3)
    assert (search.why("d0.n0.i0") == "d1.n0") is promoted, "what fills the disk each time is the candidate's own"


HOG = """\
if [ "$(basename "$PWD")" = d0.n0.i0 ]; then
  head -c 999000000 /dev/zero > hog 2> /dev/null || { sleep 1; exit 1; }
fi
"""


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[Project]:
    yield from mounted(tmp_path, "160m")


def test_a_candidate_that_fills_the_disk_has_failed_and_the_others_have_its_room(larger_disk: Project) -> None:
    search = Search(larger_disk, {"1hog": "gain=14", "2": "gain=11"}, patience=0)
    larger_disk.write("list.hook", HOG)
    search.build()
    why = search.summary("d0.n0.i0")["why"]
    assert re.fullmatch(r"sweep: exit status 1: it wrote 1\d\d MB where 1\d\d MB were free, and filled .* at /.*", why)
    assert search.why("d0.n0.i1") == "d1.n0"
    status = os.statvfs(larger_disk.root)
    assert status.f_bavail * status.f_frsize > 100 << 20, "its room was given back"
    assert not events(search, "waiting")


def test_a_disk_that_others_have_filled_is_no_failure_of_a_candidate(larger_disk: Project) -> None:
    search = Search(larger_disk, {"1": "gain=14", "2": "gain=11"}, patience=0)
    larger_disk.write("list.hook", HOG.replace("> hog", '> "$LIST.ballast"'))
    search.build(code=69)
    (larger_disk.root / "list.ballast").unlink()
    larger_disk.write("list.hook", ":\n")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not events(search, "failed")


def test_git_without_room_is_no_problem_of_a_candidate(small_disk: Project) -> None:
    small_disk.root.mkdir(exist_ok=True)
    repo, work = small_disk.root / "repo", small_disk.root / "work"
    subprocess.run(["git", "init", "--quiet", "--bare", repo], check=True)
    work.mkdir()
    (work / "large").write_bytes(os.urandom(3_000_000))
    with (small_disk.root / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"x" * 100_000):
            status = os.statvfs(small_disk.root)
            if status.f_bavail * status.f_frsize < 1_500_000:
                break
    with pytest.raises(OSError, match="git add") as raised:
        git("add", "--all", repo=str(repo), work=str(work), index=f"{repo}/index")
    assert raised.value.errno == errno.ENOSPC
    (small_disk.root / "ballast").unlink()
    git("add", "--all", repo=str(repo), work=str(work), index=f"{repo}/index")
    with pytest.raises(GitProblem):
        git("add", "no such file", repo=str(repo), work=str(work), index=f"{repo}/index")


@pytest.mark.parametrize(
    ("words", "lacked"),
    [
        ("fatal: sha1 file '<stdout>' write error. Out of diskspace", True),
        ("error: file write error: No space left on device", True),
        ('error: open("No space left on device"): Permission denied', False),
    ],
)
def test_git_may_say_that_there_was_no_room_when_there_is_some_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, lacked: bool
) -> None:
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(OSError if lacked else GitProblem, match="git add: "):
        git("add", "--all", repo=str(tmp_path))


def test_a_disk_that_is_full_again_and_again_ends_no_build(small_disk: Project) -> None:
    """Whoever writes meets it: stages, the store, receipts, the manifest, git."""
    search = Search(small_disk, {"1win": "gain=14", "2": "gain=11", "3": "gain=12"}, patience="1h", max_depth=2)
    over = Event()

    def fill_and_free() -> None:
        for _ in range(6):
            with (small_disk.root / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
                for size in (1 << 16, 1):
                    with suppress(OSError):
                        while ballast.write(b"\0" * size) == size:
                            pass
            over.wait(0.4)
            (small_disk.root / "ballast").unlink()
            over.wait(0.2)

    with small_disk.popen("run", "x") as build:
        wait_for_line(build, "d0.n0.sweep")
        filler = Thread(target=fill_and_free)
        filler.start()
        said = build.communicate(timeout=PATIENCE)
        over.set()
        filler.join()
    assert build.returncode == 0, said
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not events(search, "failed")
    assert {task["task_state"] for task in search.record("manifest.json")["tasks"]} == {"completed", "skipped"}


FILLS_AS_CODER = """
echo >> "$project/asked"
if [ "$(wc -l < "$project/asked")" -le MOST ]; then
  head -c 99000000 /dev/zero > "$project/ballast" 2> /dev/null
  until [ -e "$project/list.seen" ]; do sleep 0.05; done
  rm "$project/ballast" "$project/list.seen"
  END
fi
echo gain=14 > plus/new
"""


@pytest.mark.parametrize(("end", "most", "asked"), [("echo gain=99 > plus/half; exit 0", 1, 2), ("exit 2", 9, 4)])
def test_a_coder_that_met_a_full_disk_is_asked_again_but_not_for_ever(
    small_disk: Project, end: str, most: int, asked: int
) -> None:
    """It may also end well, with half of what it wrote."""
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder")}
    search = Search(small_disk, {"1": "gain=11"}, patience="1h", roles=roles)
    small_disk.write("agent.coder", FILLS_AS_CODER.replace("MOST", str(most)).replace("END", end))
    with full_looks(small_disk):
        search.build()
    assert len(small_disk.read("asked").splitlines()) == asked
    made = search.record("eval/d0.n0.i0/candidate.json")
    assert (made["status"], made["files"]) == (("completed", 1) if most == 1 else ("failed", 0))
    assert [wait["kind"] for wait in events(search, "waiting")] == ["disk full"] * (asked - 1)
