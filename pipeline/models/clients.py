"""Recipes for five clients: Claude Code, Codex, aider, Gemini CLI and opencode.

A recipe says how the client is started for a coder and for a role that only answers, what of our environment it gets,
what it leaves behind, and how the answer and the cost are read from what it prints.  It is applied when the client is
asked: a better recipe makes no finished work stale."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.models.contract import MISSING, json_documents, last_value_at, total_amount, valid_amount, value_at

CODER = "coder"


class Reading(NamedTuple):
    """The words and numbers in a client's output: its answer (None for none), and numbers by the names in USAGE_NAMES.

    `input_tokens` are all of the prompt; `cached_tokens` are those of them that were read from a cache.  `is_whole`:
    the client said that it was done."""

    text: str | None
    amounts: Mapping[str, float]
    is_whole: bool = True


class Recipe(NamedTuple):
    """`run`: the words for all roles; `model`: before the model's name; then those for a coder or another role.

    `sandbox_off`: in place of these where a sandbox of its own cannot start.  `last_words`: after all others.
    `settings`: words that depend on the variables.  `options`: keys of the role that have an option.  `home_with_key`:
    variables set to a scratch folder with `files` when another one, a key, is set.  `scratch`: variables set to a path
    in the scratch folder, unless the role has them.  `litter`: files left in the working folder.  `config`: its
    settings in HOME.  `logins`: where it keeps who is logged in, for those without a key."""

    run: tuple[str, ...]
    model: str
    for_coder: tuple[str, ...]
    for_others: tuple[str, ...]
    read: Callable[[str, str | None], Reading]
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    sandbox_off: tuple[str, ...] | None = None
    last_words: tuple[str, ...] = ()
    settings: Callable[[Mapping[str, str]], Sequence[str]] = lambda _: ()
    options: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    home_with_key: Mapping[str, str] = {}
    scratch: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    litter: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()


class Invocation(NamedTuple):
    """A program as it is started: words with names in braces, and its environment.

    `passed`: our variables that hold keys; `plain`: those that do not; `visible`: its files in HOME.  `places`:
    variables set to a path in its scratch folder, where `files` lie; `litter`: what it leaves in its work."""

    run: Sequence[str]
    env: Mapping[str, str] = {}
    passed: Sequence[str] = ()
    places: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    litter: Sequence[str] = ()
    plain: Sequence[str] = ()
    visible: Sequence[str] = ()


# Ways to the network, which any client may need.
NETWORK = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


# What each turn of a client must tell.
_NEEDED = ("usd", "input_tokens", "output_tokens")


def _turn_sums(turns: Sequence[Any], paths: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The sums over turns of the numbers at some paths.

    A name is left out if a turn does not tell the first number of what it must tell, or one that cannot be."""
    sums = {}
    for name, places in paths.items():
        told = [[value_at(path, turn) for path in places] for turn in turns]
        total = total_amount([value for values in told for value in values])
        if total is not None and (name not in _NEEDED or all(valid_amount(first) is not None for first, *_ in told)):
            sums[name] = total
    return sums


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_claude(printed: str, _written: str | None) -> Reading:
    documents = json_documents(printed)
    last = {name: last_value_at(name, documents) for name in ("usage", "total_cost_usd")}
    read, made = (f"usage.cache_{name}_input_tokens" for name in ("read", "creation"))
    paths = {
        "usd": ("total_cost_usd",),
        "input_tokens": ("usage.input_tokens", made, read),
        "cached_tokens": (read,),
        "cache_write_tokens": (made,),
        "output_tokens": ("usage.output_tokens",),
    }
    return Reading(
        _text(last_value_at("result", documents)),
        _turn_sums([last], paths),
        any(last_value_at(name, documents) is not MISSING for name in ("result", "is_error")),
    )


def _read_codex(printed: str, written: str | None) -> Reading:
    turns = [each for each in json_documents(printed) if value_at("type", each) == "turn.completed"]
    paths = {
        "input_tokens": ("usage.input_tokens",),
        "cached_tokens": ("usage.cached_input_tokens",),
        "output_tokens": ("usage.output_tokens",),
    }
    return Reading(written, _turn_sums(turns, paths), bool(turns))


def _read_gemini(printed: str, _written: str | None) -> Reading:
    document = next((each for each in reversed(json_documents(printed)) if isinstance(each, dict)), {})
    models = value_at("stats.models", document)
    paths = {
        "input_tokens": ("tokens.prompt", "tokens.tool"),
        "cached_tokens": ("tokens.cached",),
        "output_tokens": ("tokens.candidates", "tokens.thoughts"),
    }
    amounts = _turn_sums([*models.values()] if isinstance(models, dict) else [], paths)
    return Reading(_text(value_at("response", document)), amounts, "response" in document)


def _read_opencode(printed: str, _written: str | None) -> Reading:
    parts = [part for each in json_documents(printed) if isinstance(part := value_at("part", each), dict)]
    steps = [part for part in parts if part.get("type") == "step-finish"]
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    paths = {
        "usd": ("cost",),
        "input_tokens": ("tokens.input", "tokens.cache.read", "tokens.cache.write"),
        "cached_tokens": ("tokens.cache.read",),
        "cache_write_tokens": ("tokens.cache.write",),
        "output_tokens": ("tokens.output", "tokens.reasoning"),
    }
    amounts = _turn_sums(steps, paths)
    if not amounts.get("usd"):  # it says 0 of a model whose price it does not know
        amounts.pop("usd", None)
    return Reading(texts[-1] if texts else None, amounts, bool(steps))


# What aider prints around the model's words.
_CHATTER = re.compile(
    r"^(?:Update git |HTTPS?ConnectionPool|Aider v|Main model: |Weak model: |Editor model: |Model: |Git repo: "
    r"|Repo-map: |Initial repo scan|https://aider\.chat/|Warning |Tokens: |Added .* to the chat|Applied edit to "
    r"|Use /help|Restored previous|Warn: |Can't initialize).*\n?",
    re.MULTILINE,
)
_TOKENS = re.compile(r"^Tokens: (?P<sent>\S+) sent,(?P<cache>.*?) (?P<received>\S+) received\.", re.MULTILINE)
_HITS, _WRITES = re.compile(r"(\S+) cache hit"), re.compile(r"(\S+) cache write")
_SESSION = re.compile(r"^Tokens: [^\n]*\n?[^\n]*Cost: \$(\S+) message, \$(\d[\d.,]*) session", re.MULTILINE)
_SCALES = {"k": 1_000, "M": 1_000_000}


def _scaled(text: str) -> float | None:
    match = re.fullmatch(r"([\d.,]+)([kM]?)", text)
    return float(match[1].replace(",", "")) * _SCALES.get(match[2], 1) if match else None


def _read_aider(printed: str, _written: str | None) -> Reading:
    """Tokens of all messages, as it rounds them; the cost of the session, which its last message has."""
    lines, costs = [*_TOKENS.finditer(printed)], [*_SESSION.finditer(printed)]
    turns = [
        {
            "input_tokens": _scaled(line["sent"]),
            "cached_tokens": _scaled(hit[1]) if (hit := _HITS.search(line["cache"])) else None,
            "cache_write_tokens": _scaled(made[1]) if (made := _WRITES.search(line["cache"])) else None,
            "output_tokens": _scaled(line["received"]),
        }
        for line in lines
    ]
    amounts = _turn_sums(turns, {name: (name,) for turn in turns for name in turn})
    if costs and len(costs) == len(lines):
        amounts["usd"] = float(costs[-1][2].rstrip(".").replace(",", ""))
    return Reading(_CHATTER.sub("", printed).strip() + "\n", amounts)


_CODEX_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")


def _codex_settings(variables: Mapping[str, str]) -> Sequence[str]:
    """Words that keep its key from its tools, and for the server of OPENAI_BASE_URL, which it reads nowhere."""
    keyless = ("-c", f"shell_environment_policy.exclude={json.dumps(_CODEX_KEYS)}")
    if not (url := variables.get("OPENAI_BASE_URL")):
        return keyless
    key = next((name for name in _CODEX_KEYS if variables.get(name)), "")
    parts = {"name": "coppice", "base_url": url, "wire_api": "responses", **({"env_key": key} if key else {})}
    setting = ", ".join(f"{name}={json.dumps(value)}" for name, value in parts.items())
    return (*keyless, "-c", f"model_providers.coppice={{{setting}}}", "-c", "model_provider=coppice")


_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
}
_OPENCODE_FILES = (
    *("opencode.json", "opencode.jsonc", "config.json", "AGENTS.md", "agent", "agents"),
    *("command", "commands", "mode", "modes", "plugin", "plugins", "skill", "skills", "tool", "tools"),
)
RECIPES: dict[str, Recipe] = {
    "claude": Recipe(
        ("claude", "-p", "--output-format", "json", "--no-session-persistence"),
        "--model",
        ("--permission-mode", "acceptEdits"),
        ("--permission-mode", "plan"),
        _read_claude,
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        ("ANTHROPIC_BASE_URL",),
        options={"max_turns": "--max-turns", "max_usd": "--max-budget-usd"},
        env={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        config=("~/.claude/settings.json",),
        logins=("~/.claude/.credentials.json",),
    ),
    "codex": Recipe(
        ("codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check", "-o", "{answer_file}"),
        "-m",
        ("--sandbox", "workspace-write"),
        ("--sandbox", "read-only"),
        _read_codex,
        _CODEX_KEYS,
        ("OPENAI_BASE_URL",),
        sandbox_off=("--sandbox", "danger-full-access"),
        last_words=("-",),
        config=("~/.codex/config.toml",),
        logins=("~/.codex/auth.json",),
        settings=_codex_settings,
    ),
    "aider": Recipe(
        (
            *("aider", "--message-file", "{prompt_file}", "--yes-always", "--no-auto-commits", "--no-dirty-commits"),
            *("--no-gitignore", "--chat-history-file", "/dev/null", "--input-history-file", "/dev/null"),
            *("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings", "--no-analytics"),
            *("--no-suggest-shell-commands", "--no-detect-urls", "--no-pretty", "--no-stream", "--no-fancy-input"),
        ),
        "--model",
        (),
        ("--chat-mode", "ask"),
        _read_aider,
        (
            *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY"),
            *("GROQ_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY"),
        ),
        ("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL", "OLLAMA_API_BASE"),
        env={"COLUMNS": "400"},  # it breaks lines at the width of the terminal
        litter=(".aider*",),
        config=("~/.aider.conf.yml", "~/.aider.model.settings.yml", "~/.aider.model.metadata.json"),
        logins=("~/.aider/oauth-keys.env",),
    ),
    "gemini": Recipe(
        ("gemini", "--output-format", "json", "--skip-trust"),
        "--model",
        ("--approval-mode", "auto_edit"),
        ("--approval-mode", "plan"),
        _read_gemini,
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        # With a key, a home of its own: it takes another server only if its settings say that there is a key.
        home_with_key={"GEMINI_CLI_HOME": "GEMINI_API_KEY"},
        files={".gemini/settings.json": json.dumps(_GEMINI_SETTINGS)},
        config=("~/.gemini/settings.json",),
        logins=(
            *("~/.gemini/oauth_creds.json", "~/.gemini/google_accounts.json", "~/.gemini/.env"),
            "~/.config/gcloud/application_default_credentials.json",
        ),
    ),
    "opencode": Recipe(
        ("opencode", "run", "--format", "json", "--title", "coppice"),  # a title of its own costs a call
        "-m",
        ("--agent", "build"),
        ("--agent", "plan"),
        _read_opencode,
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
        ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"),
        env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        # Two that start at once both make the tables of a new database, or meet its lock; logins are in another file.
        # Each call leaves 5 MB of a library in TMPDIR.
        scratch={"OPENCODE_DB": "opencode.db", "TMPDIR": "tmp"},
        config=tuple(f"~/.config/opencode/{name}" for name in _OPENCODE_FILES),  # it writes into the folder
        logins=("~/.local/share/opencode/auth.json",),
    ),
}


def invocation_of(keys: Mapping[str, Any], role: str, can_nest: bool, variables: Mapping[str, str]) -> Invocation:
    """The client of a role as it is started.  `can_nest`: a sandbox of its own can start; `variables`: ours, as far as
    they are set, beside which those of the role count."""
    recipe, env, own_pass = RECIPES[keys["backend"]], keys.get("env", {}), keys.get("pass", ())
    variables = {**variables, **env}
    mode = recipe.for_coder if role == CODER else recipe.for_others
    mode = mode if can_nest or recipe.sandbox_off is None else recipe.sandbox_off
    options = [*recipe.settings(variables)]
    options += [recipe.model, keys["model"]] if "model" in keys else []
    for key, option in recipe.options.items():
        options += [option, f"{keys[key]:g}"] if key in keys else []
    run = [*recipe.run, *mode, *map(_literal, options)]
    homes = {name: "" for name, key in recipe.home_with_key.items() if variables.get(key)}
    given = {*env, *(name for name in own_pass if variables.get(name))}
    scratch = {name: path for name, path in recipe.scratch.items() if name not in given}
    return Invocation(
        [*run, *map(_literal, keys.get("args", ())), *recipe.last_words],
        {**recipe.env, **env},
        tuple(name for name in dict.fromkeys((*recipe.keys, *own_pass)) if name not in env),
        {**homes, **scratch},
        recipe.files if homes else {},
        recipe.litter,
        tuple(name for name in (*recipe.urls, *NETWORK) if name not in env),
        (*recipe.config, *(() if any(variables.get(name) for name in recipe.keys) else recipe.logins)),
    )


def _literal(word: str) -> str:
    return word.replace("{", "{{").replace("}", "}}")


def secret_names(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables of a role that hold keys: no change may hold their values."""
    recipe = RECIPES.get(keys["backend"])
    return (*(recipe.keys if recipe else ()), *keys.get("pass", ()))
