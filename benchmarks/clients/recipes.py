"""Recipes for clients: what a spec says of each, with the environment that leads it to the server.

They follow docs/backends.md, as long as the product has no recipes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PRICE = {"input": 1.25, "output": 10.0}
CACHED = 0.125
KEY = "sk-no-key-of-anyone"


class Recipe(NamedTuple):
    """`argv` without the program; `env` is what the client needs of the environment, given the server's URL."""

    argv: tuple[str, ...]
    model: str
    env: Callable[[str], Mapping[str, str]]
    keys: Mapping[str, Any] = {}
    read_only: Mapping[str, str] = {}
    files: Callable[[str], Mapping[str, str]] = lambda _url: {}


def _codex_config(url: str) -> Mapping[str, str]:
    lines = (
        'model_provider = "scripted"',
        "[model_providers.scripted]",
        'name = "scripted"',
        f'base_url = "{url}/v1"',
        'env_key = "CODEX_API_KEY"',
        'wire_api = "responses"',
        "request_max_retries = 0",
        "stream_max_retries = 0",
    )
    return {".codex/config.toml": "\n".join(lines) + "\n"}


def _opencode_config(url: str) -> Mapping[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    cost = {"input": 1.25, "output": 10.0, "cache_read": 0.125}
    model = {"name": "scripted", "cost": cost, "limit": {"context": 100_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    config = {"provider": {"local": provider}, "autoupdate": False, "share": "disabled"}
    return {".config/opencode/opencode.json": json.dumps(config)}


def _gemini_settings(_url: str) -> Mapping[str, str]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    return {".gemini/settings.json": json.dumps(settings)}


_CLAUDE = ("-p", "--output-format", "json", "--model", "{model}", "--permission-mode", "acceptEdits")
_CODEX = ("exec", "--json", "--ephemeral", "--sandbox", "workspace-write", "-m", "{model}")
_AIDER = ("--message-file", "{prompt_file}", "--yes-always", "--no-auto-commits", "--no-dirty-commits")
_AIDER += ("--no-gitignore", "--map-tokens", "0", "--chat-history-file", "/dev/null")
_AIDER += ("--input-history-file", "/dev/null", "--no-check-update", "--no-pretty", "--no-stream", "--model", "{model}")
_GEMINI = ("--model", "{model}", "--approval-mode", "auto_edit", "--skip-trust", "--output-format", "json")

RECIPES: dict[str, Recipe] = {
    "claude": Recipe(
        (*_CLAUDE, "--max-turns", "40", "--max-budget-usd", "2"),
        "claude-sonnet-4-5",
        lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY},
        {
            "usage": {
                "text": "result",
                "usd": "total_cost_usd",
                "input_tokens": [
                    "usage.input_tokens",
                    "usage.cache_creation_input_tokens",
                    "usage.cache_read_input_tokens",
                ],
                "output_tokens": "usage.output_tokens",
            }
        },
        {"acceptEdits": "plan"},
    ),
    "codex": Recipe(
        (*_CODEX, "--output-last-message", "{answer_file}", "-"),
        "scripted",
        lambda _url: {"CODEX_API_KEY": KEY},
        {"usage": {"input_tokens": "usage.input_tokens", "output_tokens": "usage.output_tokens"}, "price": PRICE},
        {"workspace-write": "read-only"},
        _codex_config,
    ),
    "aider": Recipe(_AIDER, "openai/gpt-4o", lambda url: {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY}),
    "gemini": Recipe(
        _GEMINI,
        "gemini-2.5-pro",
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
        {"usage": {"text": "response"}, "price": PRICE},
        {"auto_edit": "plan"},
        _gemini_settings,
    ),
    "opencode": Recipe(("run", "-m", "{model}"), "local/scripted", lambda _url: {}, {}, {}, _opencode_config),
}


def role(client: str, program: Path, edits: bool = True) -> dict[str, Any]:
    """A role of a spec; one that only answers gets the flag that forbids edits, where the client has one."""
    recipe = RECIPES[client]
    words = [word if edits else recipe.read_only.get(word, word) for word in recipe.argv]
    return {
        "backend": "command",
        "run": [str(program), *words],
        "model": recipe.model,
        "pass": [*environment_of(client, ""), "TMPDIR", "NO_PROXY"],
        "timeout": "3m",
        **recipe.keys,
    }


def shorthand(client: str, schema: str) -> dict[str, Any]:
    """The same by the product's own recipe; the program is found by PATH."""
    recipe = RECIPES[client]
    price = {**PRICE, "cached": CACHED} if '"cached"' in schema else PRICE
    priced = {"price": price} if "price" in recipe.keys else {}
    return {"backend": client, "model": recipe.model, "pass": ["TMPDIR"], "timeout": "3m", **priced}


def environment_of(client: str, url: str) -> dict[str, str]:
    return dict(RECIPES[client].env(url))


def schema_with_shorthands(root: Path) -> str:
    """The product's schema if it knows `backend: claude` and the others; otherwise empty."""
    command = [sys.executable, "-m", "pipeline", "schema"]
    schema = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return schema if all(f'"{client}"' in schema for client in RECIPES) else ""
