"""Clients by recipe: how they are started, what they get, and how their answers, costs and complaints are read."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.core.cages import CAGE, LANDLOCK, PLAIN
from pipeline.machine.process import Exit, Processes
from pipeline.models.ask import LONGEST_OUTPUT, ask
from pipeline.models.clients import RECIPES, invocation_of, secret_names
from pipeline.models.complaints import FAILED, OUT, REFUSED, Complaint, judge_call, program_complaint
from pipeline.models.contract import OUTAGES, Answer, BackendUnavailable, CallContext, CallFailed, Question, Usage
from pipeline.tree.spec.roles import CLIENTS, CLIENTS_WITH_COST, OUTAGE_KINDS

NOW = 1_760_000_000.0
# What each prints when it has answered, as recorded from the real one.
CLAUDE = {
    "type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "result": "done",
    "stop_reason": "end_turn", "total_cost_usd": 0.00267,
    "usage": {"input_tokens": 600, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 400,
              "output_tokens": 50},
}  # fmt: skip
STEP = {"input": 600, "output": 50, "reasoning": 0, "cache": {"write": 0, "read": 400}}
OPENCODE = [
    {"type": "text", "part": {"type": "text", "text": "I look."}},
    {"type": "step_finish", "part": {"type": "step-finish", "tokens": STEP, "cost": 0.001}},
    {"type": "text", "part": {"type": "text", "text": "done"}},
    {"type": "step_finish", "part": {"type": "step-finish", "tokens": STEP, "cost": 0.002}},
]
GEMINI_TOKENS = {"prompt": 1000, "candidates": 50, "cached": 400, "thoughts": 5, "tool": 0}
AIDER = """
Aider v0.86.2
Main model: openai/gpt-4o with diff edit format
Git repo: .git with 1 files
Repo-map: disabled

done

Tokens: 1.5k sent, 400 cache hit, 50 received. Cost: $0.0025 message, $0.0025 session.
Applied edit to a.py
Tokens: 2.0k sent, 70 received. Cost: $0.0030 message, $0.0055 session.
"""
PRINTED = {
    "claude": (json.dumps(CLAUDE), Usage(0.00267, 1000, 50, 400)),
    "codex": (
        '{"type":"turn.completed","usage":{"input_tokens":1000,"cached_input_tokens":400,"output_tokens":50}}',
        Usage(None, 1000, 50, 400),
    ),
    "aider": (AIDER, Usage(0.0055, 3500, 120, 400)),
    "gemini": (
        json.dumps({"response": "done", "stats": {"models": {"g": {"tokens": GEMINI_TOKENS}}}}, indent=2),
        Usage(None, 1000, 55, 400),
    ),
    "opencode": ("\n".join(map(json.dumps, OPENCODE)), Usage(0.003, 2000, 100, 800)),
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CallContext]:
    """Programs on the PATH that are called like the clients, write down how they were asked, and print `said`."""
    monkeypatch.chdir(tmp_path)
    Path("work").mkdir()
    Path("bin").mkdir()
    for name in RECIPES:
        program = Path("bin", name)
        program.write_text(
            '#!/bin/sh\nprintf "%s\\n" "$0" "$@" > "$TELL/argv"; env > "$TELL/env"; cat > "$TELL/stdin"\n'
            'for word in "$@"; do case $word in */answer.md) printf done > "$word";; esac; done\n'
            '[ -f "$GEMINI_CLI_HOME/.gemini/settings.json" ] && cp "$GEMINI_CLI_HOME/.gemini/settings.json" "$TELL"\n'
            'touch .aider.left new.py; cat "$TELL/said"; cat "$TELL/errors" >&2; exit "$(cat "$TELL/status")"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:{os.environ['PATH']}")
    monkeypatch.setenv("TELL", str(Path.cwd()))
    with closing(Processes(["x"])) as processes:  # which knows this PATH
        yield CallContext(processes, "x")


def told(name: str, said: str, role: str = "coder", status: int = 0, errors: str = "", **keys: Any) -> Answer:
    for file, text in (("said", said), ("errors", errors), ("status", str(status))):
        Path(file).write_text(text)
    context: CallContext = keys.pop("desk")
    question = Question(role, "do it {now}", str(Path("work").absolute()), str(Path("log").absolute()), "d0.n0.i0")
    return ask({"backend": name, "pass": ["TELL"], CAGE: {"sandbox": PLAIN}, **keys}, question, context)


def test_the_spec_knows_the_same_clients_and_kinds() -> None:
    assert {*CLIENTS} == {*RECIPES}
    assert {*OUTAGE_KINDS} < {*OUTAGES}


@pytest.mark.parametrize("name", RECIPES)
def test_a_client_is_asked_read_and_leaves_nothing(desk: CallContext, name: str) -> None:
    said, usage = PRINTED[name]
    answer = told(name, said, desk=desk, model="m{1}", args=["--more", "{x}"])
    assert answer.text.strip() == "done"
    assert answer.usage == usage
    argv = Path("argv").read_text().splitlines()
    assert {"m{1}", "--more", "{x}"} < {*argv}
    if "--message-file" not in argv:
        assert Path("stdin").read_text() == "do it {now}"
    assert sorted(path.name for path in Path("work").iterdir()) == (
        ["new.py"] if name == "aider" else [".aider.left", "new.py"]
    )


@pytest.mark.parametrize("name", RECIPES)
def test_the_spec_knows_which_clients_tell_their_cost(name: str) -> None:
    assert ("usd" in RECIPES[name].read(PRINTED[name][0], None).amounts) == (name in CLIENTS_WITH_COST)


@pytest.mark.parametrize("name", RECIPES)
def test_cached_tokens_of_a_client_have_their_own_price_where_it_tells_no_cost(desk: CallContext, name: str) -> None:
    said, usage = PRINTED[name]
    price = {"input": 1.0, "output": 10.0, "cached": 0.1}
    own = (600 * 1.0 + 400 * 0.1 + usage.output_tokens * 10.0) / 1_000_000
    assert told(name, said, desk=desk, price=price).usage.usd == pytest.approx(own if usage.usd is None else usage.usd)
    assert told(name, said, desk=desk, price="free").usage.usd == 0.0


# What tells no cost that can be: name, what is printed, what the log says of it.
UNTOLD = {
    "claude, no block": ("claude", json.dumps({"is_error": False, "result": "done"}), "no input_tokens"),
    "claude, negative": ("claude", json.dumps({**CLAUDE, "total_cost_usd": -1}), "unknown"),
    "codex, negative": (
        "codex",
        PRINTED["codex"][0] + '\n{"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":50}}',
        "no input_tokens",
    ),
    "opencode, a step without its cost": (
        "opencode",
        "\n".join(
            map(json.dumps, [*OPENCODE, {"type": "step_finish", "part": {"type": "step-finish", "tokens": STEP}}])
        ),
        "unknown",
    ),
    "aider, a message without its cost": ("aider", AIDER + "Tokens: 3.0k sent, 70 received.\n", "unknown"),
    "claude, cached tokens alone": (
        "claude",
        json.dumps({**CLAUDE, "usage": {"cache_read_input_tokens": 400, "output_tokens": 50}, "total_cost_usd": None}),
        "no input_tokens",
    ),
    "opencode, no price of this model": (
        "opencode",
        "\n".join(json.dumps({**each, "part": {**each["part"], "cost": 0}}) for each in OPENCODE),  # type: ignore[dict-item]
        "unknown",
    ),
}


@pytest.mark.parametrize("case", UNTOLD)
def test_what_a_client_does_not_tell_is_unknown_and_not_nothing(desk: CallContext, case: str) -> None:
    name, said, words = UNTOLD[case]
    assert told(name, said, desk=desk).usage.usd is None
    assert f"usage, in what {name} printed: " in Path("log").read_text()
    assert words in Path("log").read_text()


def test_what_a_client_spent_is_unknown_if_not_all_that_it_printed_is_read(desk: CallContext) -> None:
    flood = json.dumps({"type": "text", "part": {"type": "text", "text": "x" * 1000}}) + "\n"
    said = "\n".join([PRINTED["opencode"][0], flood * (LONGEST_OUTPUT // len(flood) + 1), PRINTED["opencode"][0]])
    assert told("opencode", said, desk=desk).usage.usd is None


@pytest.mark.parametrize(
    ("said", "status", "usd"),
    [
        (json.dumps({**CLAUDE, "is_error": True, "api_error_status": 429, "total_cost_usd": None}), 1, 0.0),
        (json.dumps({**CLAUDE, "is_error": True, "api_error_status": 429, "total_cost_usd": 0.25}), 1, 0.25),
        ("", 137, None),
    ],
)
def test_a_refused_question_cost_what_was_told_and_a_broken_off_one_is_unknown(
    desk: CallContext, said: str, status: int, usd: float | None
) -> None:
    with pytest.raises(BackendUnavailable) as out:
        told("claude", said, "ideas", status, desk=desk)
    assert out.value.usage.usd == usd


@pytest.mark.parametrize("name", RECIPES)
def test_keys_and_servers_are_passed_and_no_other_variable(
    desk: CallContext, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    recipe = RECIPES[name]
    for variable in (*recipe.keys, *recipe.urls, "OTHER_SECRET"):
        monkeypatch.setenv(variable, f"http://server.example/{variable}")
    told(name, PRINTED[name][0], desk=desk)
    seen = {line.partition("=")[0] for line in Path("env").read_text().splitlines()}
    assert {*recipe.keys, *recipe.urls} < seen
    assert "OTHER_SECRET" not in seen
    assert {*recipe.keys} < {*secret_names({"backend": name, "pass": ["X"]}), ""}


def test_gemini_with_a_key_has_a_home_whose_settings_say_so(desk: CallContext, monkeypatch: pytest.MonkeyPatch) -> None:
    told("gemini", PRINTED["gemini"][0], desk=desk)
    assert not Path("settings.json").exists()
    monkeypatch.setenv("GEMINI_API_KEY", "g-key")
    told("gemini", PRINTED["gemini"][0], desk=desk)
    assert json.loads(Path("settings.json").read_text())["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_each_call_of_opencode_has_a_database_and_a_scratch_folder_of_its_own(
    desk: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def places(**keys: Any) -> list[str]:
        told("opencode", PRINTED["opencode"][0], desk=desk, **keys)
        lines = dict(line.split("=", 1) for line in Path("env").read_text().splitlines() if "=" in line)
        return [lines[name] for name in ("OPENCODE_DB", "TMPDIR")]

    first, second = places(), places()
    assert not {*first} & {*second}
    assert not any(Path(path).parent.exists() for path in (*first, *second))
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert places(env={"OPENCODE_DB": "shared.db"}, **{"pass": ["TELL", "TMPDIR"]}) == ["shared.db", "/tmp"]


EDITS = {
    "claude": ("acceptEdits", "plan"),
    "codex": ("workspace-write", "read-only"),
    "gemini": ("auto_edit", "plan"),
    "opencode": ("build", "plan"),
    "aider": ("--yes-always", "ask"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_roles_that_only_answer_may_not_edit(name: str) -> None:
    edits, answers = EDITS[name]
    keys = {"backend": name}
    assert edits in invocation_of(keys, "coder", True, {}).run
    assert answers not in invocation_of(keys, "coder", True, {}).run
    for role in ("ideas", "planner", "reviewer"):
        assert answers in invocation_of(keys, role, True, {}).run


def test_codex_has_its_own_sandbox_wherever_that_can_start(desk: CallContext, grade: str) -> None:
    assert "workspace-write" in asked_words("codex", desk, PLAIN)
    assert ("danger-full-access" if grade == LANDLOCK else "workspace-write") in asked_words("codex", desk, grade)


def test_a_sandbox_of_a_sandbox_can_be_made_by_a_role(desk: CallContext, grade: str) -> None:
    bwrap = 'bwrap --unshare-user --unshare-net --ro-bind / / sh -c "! echo 1 > outer; echo inner" >&2'
    said = said_by("aider", bwrap, desk, grade)
    assert ("inner" in said) == (grade != LANDLOCK), said


def test_tools_of_codex_are_not_given_its_key() -> None:
    for role in ("coder", "ideas"):
        run = invocation_of({"backend": "codex"}, role, True, {}).run
        assert 'shell_environment_policy.exclude=["CODEX_API_KEY", "OPENAI_API_KEY"]' in run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HOME with settings and logins of all clients, and with what is none of theirs."""
    home = tmp_path / "home"
    for path in ("~/.npmrc", "~/.netrc", *(path for each in RECIPES.values() for path in (*each.config, *each.logins))):
        place = home / path.removeprefix("~/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"of {path}\n")
    monkeypatch.setenv("HOME", str(home))
    for recipe in RECIPES.values():
        for key in recipe.keys:
            monkeypatch.delenv(key, raising=False)
    return home


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", RECIPES)
def test_a_client_finds_its_settings_and_without_a_key_its_login_and_nothing_else_of_home(
    desk: CallContext, monkeypatch: pytest.MonkeyPatch, grade: str, name: str
) -> None:
    recipe = RECIPES[name]
    own = {f"of {path}" for path in (*recipe.config, *recipe.logins)}
    assert own_files(name, desk, grade) == own
    assert own_files(name, desk, grade, visible=["~/.npmrc"]) == {*own, "of ~/.npmrc"}
    monkeypatch.setenv(recipe.keys[0], "a-key-of-mine")
    assert own_files(name, desk, grade, **{"pass": ["TERM"]}) == {f"of {path}" for path in recipe.config}
    monkeypatch.delenv(recipe.keys[0])
    monkeypatch.setenv("OTHER", "no key")
    assert own_files(name, desk, grade, **{"pass": ["OTHER"]}) == own


def own_files(name: str, desk: CallContext, grade: str, visible: list[str] | None = None, **keys: Any) -> set[str]:
    """What a client can read below its HOME."""
    said = said_by(name, "find -L ~ -type f -exec cat {} + >&2", desk, grade, visible, **keys)
    return {line for line in said.splitlines() if line.startswith("of ")}


@pytest.mark.parametrize("name", RECIPES)
def test_a_client_can_write_beside_its_settings_and_changes_none_of_them(
    home: Path, desk: CallContext, grade: str, name: str
) -> None:
    before = {path: path.read_text() for path in home.rglob("*") if path.is_file()}
    files = " ".join((*RECIPES[name].config, *RECIPES[name].logins))
    script = (
        f'for file in {files}; do (echo x >> "$file") 2> /dev/null && echo changed >&2\n'
        'echo 1 > "$(dirname "$file")/.new" && echo written >&2; done'
    )
    said = said_by(name, script, desk, grade)
    assert said.count("written") == len(files.split())
    assert "changed" not in said
    assert {path: path.read_text() for path in home.rglob("*") if path.is_file()} == before


LAYOUTS = {
    "in a project": ("node_modules/.bin", "../@maker/tool/bin/tool.sh", "node_modules"),
    "for all": ("prefix/bin", "../lib/node_modules/@maker/tool/bin/tool.sh", "prefix/lib/node_modules"),
    "of bun": (
        ".bun/bin",
        "../install/global/node_modules/@maker/tool/bin/tool.sh",
        ".bun/install/global/node_modules",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_program_of_npm_finds_the_packages_beside_it(
    home: Path, desk: CallContext, monkeypatch: pytest.MonkeyPatch, grade: str, layout: str
) -> None:
    programs, link, packages = LAYOUTS[layout]
    (home / programs).mkdir(parents=True)
    for package, text in (
        ("@maker/tool/bin/tool.sh", SHIM),
        ("@maker/tool-linux/found", "the binary"),
        ("ink/found", "the library"),
    ):
        place = home / packages / package
        place.parent.mkdir(parents=True)
        place.write_text(text)
        place.chmod(0o755)
    (home / programs / "aider").symlink_to(link)
    monkeypatch.setenv("PATH", f"{home / programs}:/usr/bin:/bin")
    with closing(Processes(["x"])) as processes:
        desk = desk._replace(processes=processes)
        (home / programs / "codex").write_text("#!/bin/sh\naider\n")  # another that starts it
        (home / programs / "codex").chmod(0o755)
        for name in ("aider", "codex"):
            said = said_by(name, "", desk, grade)
            assert "the binary" in said
            assert "the library" in said


SHIM = """\
#!/bin/sh
here=$(dirname "$(realpath "$0")")
cat "$here/../../tool-linux/found" "$here/../../../ink/found" >&2
"""


def asked_words(name: str, desk: CallContext, grade: str) -> list[str]:
    """The words that a client is started with in a cage, where it prints them."""
    return said_by(name, 'printf "%s\\n" "$@" >&2', desk, grade).splitlines()


def said_by(
    name: str, script: str, desk: CallContext, grade: str, visible: list[str] | None = None, **keys: Any
) -> str:
    """What a client logs in a cage; `script` is what it does."""
    if script:
        Path("bin", name).write_text(f"#!/bin/sh\n{script}\n")
    Path("log").write_text("")
    with suppress(CallFailed):
        told(name, "", desk=desk, **{CAGE: {"sandbox": grade, "visible": visible or []}, **keys})
    return Path("log").read_text()


def test_codex_is_told_of_another_server() -> None:
    ours, of_role = {"OPENAI_BASE_URL": "http://x/v1", "OPENAI_API_KEY": "k"}, {"OPENAI_BASE_URL": "http://y/v1"}
    for keys, url in (({}, "http://x/v1"), ({"env": of_role}, "http://y/v1")):
        run = invocation_of({"backend": "codex", **keys}, "coder", True, ours)
        assert (
            f'model_providers.coppice={{{{name="coppice", base_url="{url}", wire_api="responses", '
            'env_key="OPENAI_API_KEY"}}' in run.run
        )
    assert "model_provider=coppice" in invocation_of({"backend": "codex", "env": of_role}, "coder", True, {}).run
    assert "model_provider=coppice" not in invocation_of({"backend": "codex"}, "coder", True, {}).run


def claude_says(**said: Any) -> str:
    return json.dumps({**CLAUDE, "is_error": True, **said})


def codex_says(message: str) -> str:
    return "\n".join(
        map(json.dumps, [{"type": "error", "message": "x"}, {"type": "turn.failed", "error": {"message": message}}])
    )


def opencode_says(**data: Any) -> str:
    return json.dumps({"type": "error", "error": {"name": "APIError", "data": data}})


def gemini_says(code: int, message: str, kind: str = "Error") -> str:
    document = {"session_id": "s", "error": {"type": kind, "message": message, "code": code}}
    return f"Attempt 1 failed {{\n  status: 429\n}}\n{json.dumps(document, indent=2)}\n"


# As the real programs ended against a server that said so: name, status, output, error output, how it counts.
UNEXPECTED = "\x1b[91m\x1b[1mError: \x1b[0mUnexpected error\n\n"
ENDS: dict[str, tuple[int, str, str, str]] = {
    "claude, model": (1, claude_says(api_error_status=404, result="There's an issue with the model"), "", "missing"),
    "claude, credit": (1, claude_says(api_error_status=400, result="Credit balance is too low"), "", "credit"),
    "claude, long": (1, claude_says(api_error_status=400, result="Prompt is too long"), "", FAILED),
    "claude, policy": (1, claude_says(result="API Error: appears to violate our Usage Policy"), "", REFUSED),
    "claude, refusal": (0, json.dumps({**CLAUDE, "stop_reason": "refusal"}), "", REFUSED),
    "claude, turns": (1, claude_says(subtype="error_max_turns"), "", FAILED),
    "codex, 429": (1, codex_says("exceeded retry limit, last status: 429 Too Many Requests"), "", "rate limit"),
    "codex, 401": (1, codex_says("unexpected status 401 Unauthorized: invalid x-api-key"), "", "login"),
    "codex, quota": (1, codex_says("Quota exceeded. Check your plan and billing details."), "", "credit"),
    "codex, credit": (
        1,
        codex_says('{"type": "error", "error": {"message": "Your credit balance is too low"}}'),
        "",
        "credit",
    ),
    "codex, long": (1, codex_says("Codex ran out of room in the model's context window."), "", FAILED),
    "opencode, 429": (
        1,
        opencode_says(message="slow", statusCode=429, responseHeaders={"retry-after": "2"}, responseBody="{}"),
        "",
        "rate limit",
    ),
    "opencode, quota": (
        1,
        opencode_says(message="m", statusCode=429, responseBody='{"error": {"type": "insufficient_quota"}}'),
        "",
        "credit",
    ),
    "opencode, another's database": (1, "", f"{UNEXPECTED}Failed query: \n    CREATE TABLE `x`\nparams: \n", "server"),
    "opencode, locked": (1, "", f"{UNEXPECTED}database is locked\n", "server"),
    "opencode, after it asked": (1, '{"type": "step_start"}', f"{UNEXPECTED}database is locked\n", FAILED),
    "gemini, 401": (145, "", gemini_says(401, '{"error":{"code":401,"message":"API key not valid"}}'), "login"),
    "gemini, 429": (173, "", gemini_says(429, "You exhausted your capacity; retry in 34s"), "rate limit"),
    "gemini, turns": (53, "", gemini_says(53, "Reached max session turns", "FatalTurnLimitedError"), FAILED),
    "aider, 401": (
        0,
        "\nlitellm.AuthenticationError: OpenAIException - invalid \nx-api-key\nThe API provider is not able\n",
        "",
        "login",
    ),
    "aider, 429": (0, "litellm.RateLimitError: slow\nRetrying in 32.0 seconds...\n", "", "rate limit"),
    "aider, quota": (0, "litellm.RateLimitError: You exceeded your \ncurrent quota\n", "", "credit"),
    "aider, credit": (0, "litellm.BadRequestError: Your credit balance is too low to \n", "", "credit"),
    "aider, long": (0, "litellm.BadRequestError: OpenAIException - prompt is too long: 9\n", "", FAILED),
    "aider, answered later": (0, f"litellm.RateLimitError: slow\nRetrying in 1 seconds...\n{AIDER}", "", "answered"),
    "words in passing": (
        0,
        "The API rate limit is handled now.\nlitellm.RateLimitError is caught.\n\ndone\n" * 9,
        "",
        "answered",
    ),
    "words of a failure": (1, "AssertionError: rate limit exceeded", "", FAILED),
    "a script's refusal": (77, "", "", REFUSED),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_call_counts(name: str) -> None:
    status, printed, errors, expected = ENDS[name]
    end = judge_call(Exit(status), program_complaint(printed, errors, {}, status != 0, NOW))
    assert (end.outage.kind if end.outage and end.how == OUT else end.how) == expected


# What a service or a program says, with which status and code, and how that counts.
SAYS: dict[tuple[str, int | None, str], str] = {
    **{("", status, ""): kind for status, kind in (
        (0, "network"), (401, "login"), (402, "credit"), (403, "login"), (404, "missing"), (408, "network"),
        (429, "rate limit"), (500, "server"), (502, "server"), (503, "overload"), (504, "server"), (529, "overload"),
    )},
    ("Prompt is too long", 400, ""): FAILED,
    ("Credit balance is too low", None, ""): "credit",
    ("Invalid API key · Please run /login", None, ""): "login",
    ("Claude AI usage limit reached|1760000000", None, ""): "rate limit",
    ("rate_limit_error", None, ""): "rate limit",
    ("billing_error", None, ""): "credit",
    ("insufficient_quota", None, ""): "credit",
    ("Overloaded", None, ""): "overload",
    ("Internal server error", None, ""): "server",
    ("API Error: Connection error.", None, ""): "network",
    ("getaddrinfo ENOTFOUND api.anthropic.com", None, ""): "network",
    # Words of a service that is out are not about the question, whatever it names.
    ("The content filter service is temporarily unavailable", 503, ""): "overload",
    ("Rate limit reached for gpt-4o. See our usage policies", 429, ""): "rate limit",
    ("Requested context length 9000 exceeds rate limit", 429, ""): "rate limit",
    ("too many tokens in request, see our usage policies", None, "rate_limit_exceeded"): "rate limit",
    ("Request blocked by the content filter", 400, "APIError"): REFUSED,
    ("This model's maximum context length is 9000 tokens", 400, "APIError"): FAILED,
}  # fmt: skip


@pytest.mark.parametrize("complaint", SAYS)
def test_a_status_or_a_code_of_a_service_that_is_out_counts_before_its_words(
    complaint: tuple[str, int | None, str],
) -> None:
    end = judge_call(Exit(1), Complaint(*complaint))
    assert (end.outage.kind if end.outage else end.how) == SAYS[complaint]


def test_the_time_that_a_client_passes_on_is_known() -> None:
    for name, after in (("opencode, 429", 2), ("gemini, 429", 34)):
        status, printed, errors, _ = ENDS[name]
        assert program_complaint(printed, errors, {}, status != 0, NOW).after == after


PATTERNS = {"rate limit": ["^ERR 7"], "credit": ["no more money"]}


@pytest.mark.parametrize(
    ("printed", "failed", "kind"),
    [
        ("hello\nERR 7: later\nbye", True, "rate limit"),
        ("ERR 7: later\nall is done", False, ""),
        ("work\nthere is no more money\n\n", False, "credit"),
        ("ERR 7\n" + "line\n" * 20, True, ""),
    ],
)
def test_patterns_count_at_the_end_alone(printed: str, failed: bool, kind: str) -> None:
    assert program_complaint(printed, "", PATTERNS, failed, NOW).kind == kind


@pytest.mark.parametrize("role", ["ideas", "coder"])
def test_aiders_outage_is_none_of_an_idea_and_of_a_coder_that_changed_nothing(desk: CallContext, role: str) -> None:
    said = ENDS["aider, 401"][1]
    if role == "coder":
        trouble = told("aider", said, role, desk=desk).trouble
    else:
        with pytest.raises(BackendUnavailable) as raised:
            told("aider", said, role, desk=desk)
        trouble = raised.value
    assert trouble is not None
    assert trouble.kind == "login"


# What a client printed that has ended well, but did not come to its end.
HALF = {
    "claude": PRINTED["claude"][0][:90],
    "codex": '{"type":"turn.started"}',
    "gemini": PRINTED["gemini"][0][:-3],
    "opencode": json.dumps(OPENCODE[0]),
}


@pytest.mark.parametrize("name", HALF)
def test_half_of_what_a_client_says_is_no_answer_but_a_coders_change_counts(desk: CallContext, name: str) -> None:
    with pytest.raises(BackendUnavailable, match=f"{name}: it ended well: .*no answer of the service") as half:
        told(name, HALF[name], "ideas", desk=desk)
    assert half.value.kind == "malformed"
    assert half.value.usage.usd is None
    assert told(name, HALF[name], desk=desk).usage.usd is None


def test_an_answer_that_is_too_large_is_nobodys_failure(desk: CallContext) -> None:
    large = json.dumps({**CLAUDE, "result": "x" * (LONGEST_OUTPUT + 1)})
    into_file = ["/bin/sh", "-c", f'head -c {LONGEST_OUTPUT + 1} /dev/zero > "$0"', "{answer_file}"]
    for name, said, keys in (("claude", large, {}), ("command", "", {"run": into_file})):
        with pytest.raises(BackendUnavailable, match="more than 8 MB") as raised:
            told(name, said, "ideas", desk=desk, **keys)
        assert raised.value.kind == "malformed"


def test_only_keys_are_removed_from_an_answer(desk: CallContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:proxy-word@proxy.example:3128")
    monkeypatch.setenv("GEMINI_API_KEY", "g-key-1234")
    text = "early_stopping=true on localhost by http://me:proxy-word@proxy.example:3128 with g-key-1234"
    told_text = told("gemini", json.dumps({"response": text, "stats": {"models": {}}}), desk=desk).text
    hidden = text.replace("proxy-word", "[HTTPS_PROXY]").replace("g-key-1234", "[GEMINI_API_KEY]")
    assert told_text == hidden
    assert "proxy-word" not in Path("log").read_text()


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HTTPS_PROXY", "me:pass/w@rd@proxy:3128", "pass/w@rd"),
        ("OPENAI_BASE_URL", "https://host/v1?api-version=2026-01-31&api-key=abcd-1234", "abcd-1234"),
        ("OPENCODE_CONFIG_CONTENT", '{"provider": {"x": {"options": {"apiKey": "abcd-1234"}}}}', "abcd-1234"),
    ],
)
def test_keys_within_settings_are_removed_too(
    desk: CallContext, monkeypatch: pytest.MonkeyPatch, name: str, value: str, secret: str
) -> None:
    monkeypatch.setenv(name, value)
    event = {"type": "text", "part": {"type": "text", "text": f"on 2026-01-31 it is {secret}"}}
    assert told("opencode", json.dumps(event), desk=desk).text == f"on 2026-01-31 it is [{name}]"
    assert secret not in Path("log").read_text()


def test_litter_that_cannot_be_removed_costs_no_answer(desk: CallContext) -> None:
    """Somebody still writes into it."""
    Path("writer.py").write_text(
        "import os\nfrom contextlib import suppress\nfrom itertools import count\n"
        "for n in count():\n    if not os.path.exists(os.environ['TELL'] + '/work'):\n        break\n"
        "    with suppress(OSError):\n        os.makedirs('.aider.cache/x', exist_ok=True)\n"
        "        open(f'.aider.cache/x/{n % 300}', 'w').close()\n"
    )
    Path("bin/aider").write_text(
        f'#!/bin/sh\nsetsid {sys.executable} "$TELL/writer.py" > /dev/null 2>&1 &\n'
        'until [ -e .aider.cache/x/299 ]; do sleep 0.01; done\ncat "$TELL/said"\n'
    )
    answer = told("aider", AIDER, desk=desk)
    Path("work").rename("gone")
    assert answer.text.strip() == "done"
    assert answer.usage == PRINTED["aider"][1]


def test_a_flood_of_words_is_cut_for_a_coder_and_no_answer_of_others(desk: CallContext) -> None:
    run = ["/bin/sh", "-c", f"yes a long line of chatter | head -c {LONGEST_OUTPUT * 2}; echo; echo the end"]
    answer = told("command", "", run=run, desk=desk)
    assert len(answer.text) < LONGEST_OUTPUT / 8
    assert "left out" in answer.text
    assert answer.text.endswith("the end\n")
    assert Path("log").stat().st_size < LONGEST_OUTPUT / 8
    with pytest.raises(BackendUnavailable, match="more than 8 MB") as large:
        told("command", "", "ideas", run=run, desk=desk)
    assert large.value.kind == "malformed"
    with pytest.raises(CallFailed, match="exit status 3"):
        told("command", "", run=["/bin/sh", "-c", f"yes chatter | head -c {LONGEST_OUTPUT * 2} >&2; exit 3"], desk=desk)
    assert Path("log").stat().st_size < LONGEST_OUTPUT / 4
