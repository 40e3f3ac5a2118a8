"""`roles:` of a spec: what is read, and each mistake in one message with its line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kit.project import ROOT

from pipeline.errors import SpecError
from pipeline.machine.process import Processes
from pipeline.models.ask import BACKENDS, ask
from pipeline.models.contract import CallContext, Question
from pipeline.spec import parse
from pipeline.tree.spec import roles as spec_roles
from pipeline.tree.spec.model import FOLDER_BACKENDS
from pipeline.tree.spec.roles import NEEDED_ROLES, ROLE_BACKENDS, read_roles

PAGE = (ROOT / "docs/backends.md").read_text()
PATCHES = {"ideas": "{backend: patches, folder: ideas}", "coder": "{backend: patches}"}


def read(text: str) -> dict[str, dict[str, Any]]:
    return read_roles(parse(text.encode(), "specs/x.yaml").fields("spec", ("roles",))["roles"])


def read_as(role: str, text: str) -> dict[str, Any]:
    """`text` begins on line 2; the roles that must be there are, on line 1 or so."""
    others = "".join(f"  {other}: {PATCHES[other]}\n" for other in NEEDED_ROLES if other != role)
    return read(f"roles:\n  {role}:{text if text[0] == chr(10) else f' {text}'}\n{others}")[role]


def test_a_role_that_is_not_given_is_done_without() -> None:
    found = read(f"roles: {{ideas: {PATCHES['ideas']}, coder: {PATCHES['coder']}}}")
    assert found == {
        "ideas": {"backend": "patches", "folder": "ideas"},
        "planner": {"backend": "none"},
        "coder": {"backend": "patches"},
        "reviewer": {"backend": "none"},
    }


def test_all_that_a_command_may_be_told_is_read_as_plain_data() -> None:
    text = """
    backend: command
    prompt: specs/prompts/coder.md
    run: [claude, -p, --model, "{model}", --settings, "{{}}"]
    model: some-model
    env: {LIMIT: "5", API_KEY: none}
    pass: [ANTHROPIC_API_KEY]
    timeout: 20m
    usage: {text: result, usd: total_cost_usd, input_tokens: [usage.in, usage.cache.0]}
    price: {input: 3, output: 15.5}"""
    found = read_as("coder", text)
    assert found == json.loads(json.dumps(found)) == {
        "backend": "command",
        "prompt": "specs/prompts/coder.md",
        "run": ["claude", "-p", "--model", "{model}", "--settings", "{{}}"],
        "model": "some-model",
        "env": {"LIMIT": "5", "API_KEY": "none"},
        "pass": ["ANTHROPIC_API_KEY"],
        "timeout": 1200.0,
        "usage": {"text": ["result"], "usd": ["total_cost_usd"], "input_tokens": ["usage.in", "usage.cache.0"]},
        "price": {"input": 3, "output": 15.5},
    }  # fmt: skip


def test_all_that_a_model_may_be_told_is_read_as_plain_data() -> None:
    text = """
    backend: openai
    url: https://models.example/v1/
    model: m
    key_env: MY_KEY
    temperature: 0.7
    seed: 1
    max_tokens: 4000
    body: {reasoning_effort: low, stop: [a, b]}
    timeout: 90
    retries: 0
    price: {input: 0.1, output: 0}"""
    assert read_as("reviewer", text) == {
        "backend": "openai",
        "url": "https://models.example/v1/",
        "model": "m",
        "key_env": "MY_KEY",
        "temperature": 0.7,
        "seed": 1,
        "max_tokens": 4000,
        "body": {"reasoning_effort": "low", "stop": ["a", "b"]},
        "timeout": 90.0,
        "retries": 0,
        "price": {"input": 0.1, "output": 0},
    }


def test_what_is_read_can_be_asked(processes: Processes) -> None:
    tail = read_as("reviewer", '{backend: command, run: [/bin/sh, -c, "cat; echo {{}}"]}')
    question = Question("reviewer", "REJECT\n", str(Path.cwd()), str(Path.cwd() / "log"))
    assert ask(tail, question, CallContext(processes, "x")).text == "REJECT\n{}\n"


def test_every_backend_can_be_had_by_some_role_and_has_its_keys() -> None:
    names = {name for names in ROLE_BACKENDS.values() for name in names}
    assert {*BACKENDS, *FOLDER_BACKENDS} == {*spec_roles.BACKENDS} == names


OPENAI = "backend: openai, url: 'http://x/v1', model: m"


@pytest.mark.parametrize("needed", NEEDED_ROLES)
def test_somebody_has_to_have_ideas_and_somebody_to_write_code(needed: str) -> None:
    with pytest.raises(SpecError, match=rf"specs/x\.yaml:1: roles: '{needed}' is missing"):
        read("roles: {" + ", ".join(f"{other}: {PATCHES[other]}" for other in NEEDED_ROLES if other != needed) + "}")


RANDOM = "f00dfacecafe0123456789abcdefBADA"
LITERAL = [
    (f"{{{OPENAI}, key: {RANDOM}}}", RANDOM),
    (f"{{{OPENAI}, api_key: short}}", "short"),
    (f"{{{OPENAI}, key_env: {RANDOM}}}", RANDOM),
    (f"{{{OPENAI}, key_env: sk-proj-abc0123456789defg}}", "sk-proj"),
    (f"{{{OPENAI}, prompt: sk-ant-api03-abc0123456789}}", "sk-ant"),
    (f"{{{OPENAI}, body: {{user: [xai-abc0123456789defg]}}}}", "xai-abc"),
    (f"{{{OPENAI}, folder: sk-proj-abc0123456789defg}}", "sk-proj"),
    ("{backend: sk-proj-abc0123456789defg}", "sk-proj"),
    ("{backend: command, run: [x, --api-key, sk-proj-abc0123456789defg]}", "sk-proj"),
    ("{backend: command, run: [x, '-HAuthorization: Bearer abcdefgh01234567']}", "abcdefgh"),
    (f"{{backend: command, run: [x], env: {{MY_TOKEN: {RANDOM}}}}}", RANDOM),
    (f"{{backend: command, run: [x], pass: [{RANDOM}]}}", RANDOM),
    ("{backend: command, run: [x], pass: [AIzaSyA0123456789abcdefghijklmnopqrs]}", "AIza"),
]


@pytest.mark.parametrize(("text", "key"), LITERAL)
def test_a_literal_key_is_refused_and_not_repeated(text: str, key: str) -> None:
    with pytest.raises(SpecError, match=r"specs/x\.yaml:2: role coder.*(key_env: NAME|pass: \[MY_TOKEN\])") as error:
        read_as("coder", text)
    assert key not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "{backend: command, run: [x, --risk-adjusted-return-01234567], pass: [ANTHROPIC_API_KEY, OPENAI_API_KEY_2]}",
        "{backend: command, run: [x], env: {OPENAI_API_KEY: local, KEY_FILE: /home/me/keys/some-file-2026}}",
        f"{{{OPENAI}, key_env: MY_COMPANYS_LANGUAGE_MODEL_KEY_1}}",
    ],
)
def test_names_that_only_look_a_bit_like_keys_are_fine(text: str) -> None:
    assert read_as("coder", text)


# -- the page for users


def blocks() -> list[str]:
    found = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [block for block in found if block.startswith("roles:")]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("block", blocks())
def test_the_snippets_in_the_documentation_are_read(block: str) -> None:
    given = re.findall(r"^  (\w+):", block, re.MULTILINE)
    assert read(block + "".join(f"  {role}: {PATCHES[role]}\n" for role in NEEDED_ROLES if role not in given))


@pytest.mark.parametrize("name", spec_roles.BACKENDS)
def test_every_key_of_a_backend_is_documented_and_no_other(name: str) -> None:
    keys = {*spec_roles.BACKENDS[name].fields} - {"backend", *(each.key for each in spec_roles.PROMPT_FIELDS)}
    assert {*re.findall(r"^\| `(\w+)` \|", section(f"`{name}`"), re.MULTILINE)} == keys


def test_which_role_may_have_which_backend_is_documented() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \|.*?\| (`.*`) \|$", section("Roles"), re.MULTILINE))
    assert {role: tuple(re.findall(r"`(\w+)`", names)) for role, names in table.items()} == ROLE_BACKENDS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no credit", {"server": ["no credit"]}),
        ("[a, b]", {"server": ["a", "b"]}),
        ('{rate limit: "^E 7", credit: [x, y]}', {"rate limit": ["^E 7"], "credit": ["x", "y"]}),
    ],
)
def test_patterns_of_outages_are_read_by_kind(text: str, found: dict[str, list[str]]) -> None:
    assert read_as("coder", f"{{backend: claude, model: m, max_turns: 3, outage: {text}}}") == {
        "backend": "claude", "model": "m", "max_turns": 3, "outage": found
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{backend: codex, outage: "("}', r":2: role coder: outage: '\(' is no regular expression: missing"),
        ("{backend: codex, outage: {credits: x}}", "outage: 'credits' is no kind of outage; did you mean 'credit'"),
        ("{backend: codex, max_turns: 3}", "max_turns"),
        ("{backend: anthropic, model: m, url: 'https://x/v1/messages'}", "leave /messages out"),
    ],
)
def test_mistakes_in_keys_of_clients_are_told(text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_as("coder", text)
