"""Clients as roles of a spec, `backend: NAME`, with what leads each of them to the server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.models import clients

PRICE = {"input": 1.25, "output": 10.0, "cached": 0.125}
KEY = "sk-no-key-of-anyone"


class Recipe(NamedTuple):
    """`env` and `files` (below HOME) lead the client to the server of a URL; `price` is for one that tells no USD."""

    model: str
    env: Callable[[str], Mapping[str, str]]
    price: Mapping[str, float] = {}
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


RECIPES: dict[str, Recipe] = {
    "claude": Recipe("claude-sonnet-4-5", lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}),
    "codex": Recipe("scripted", lambda _url: {"CODEX_API_KEY": KEY}, PRICE, _codex_config),
    "aider": Recipe("openai/gpt-4o", lambda url: {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY}),
    "gemini": Recipe(
        "gemini-2.5-pro",
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
        PRICE,
        _gemini_settings,
    ),
    "opencode": Recipe("local/scripted", lambda _url: {}, {}, _opencode_config),
}


def role(client: str, **keys: Any) -> dict[str, Any]:
    """A role of a spec by the product's own recipe; the program is found by PATH."""
    recipe = RECIPES[client]
    priced = {"price": recipe.price} if recipe.price else {}
    passed = {} if "TMPDIR" in clients.RECIPES[client].scratch else {"pass": ["TMPDIR"]}
    return {"backend": client, "model": recipe.model, "timeout": "3m", **passed, **priced, **keys}


def environment_with(program: Path, client: str, url: str) -> dict[str, str]:
    """Environment in which the client is on the PATH and asks the server."""
    return {**RECIPES[client].env(url), "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
