"""`python -m benchmarks.clients`: real clients in a search of depth 2, in a table: what works, what is counted rightly.

Exit code 1 if anything does not work, is counted wrongly, or leaves files where none belong."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clients.installed import PACKAGES, CannotInstall, install
from benchmarks.clients.probed import (
    CANARIES,
    LOGIN,
    SCRIPT,
    describe_probe,
    probing_words,
    processes_with,
    read_probe,
)
from benchmarks.clients.recipes import RECIPES, environment_with, role
from benchmarks.clients.searched import Outcome, Search
from tests.kit.scripted_models import ASIDE, PRICES, ScriptedModels, serving

ROLES = ("ideas", "planner", "coder", "reviewer")
ALL_ROLES = ("claude", "codex")  # clients that are tried in all four
CAP = 600.0  # seconds after which a search hangs
# Usual ways to run a search; each gives keys of the spec.
WAYS: dict[str, Callable[[Search], dict[str, Any]]] = {
    "coder": lambda _search: {},
    "protect": lambda _search: {"protect": ["README"]},
    "holdout": Search.seal,
    "4 at once": lambda _search: {"max_parallel_evals": 4, "ideas_per_node": 4},
}


@dataclass
class Tried:
    """One row: amounts as recorded and as the server counted them; files by where they were left."""

    client: str
    way: str
    seconds: float
    sandbox: str = ""
    tools: str = ""
    completed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    same_nodes: bool = False
    tokens: tuple[int, int] = (0, 0)
    true_tokens: tuple[int, int] = (0, 0)
    usd: float = 0.0
    true_usd: float = 0.0
    left: dict[str, list[str]] = field(default_factory=dict)
    words: str = ""

    @property
    def works(self) -> bool:
        return self.same_nodes and not self.failed and not self.words

    @property
    def usage_right(self) -> bool:
        """aider rounds tokens to hundreds."""
        pairs = zip(self.tokens, self.true_tokens, strict=True)
        return all(abs(told - true) <= max(0.02 * true, 100) for told, true in pairs)

    @property
    def cost_right(self) -> bool:
        """aider rounds each call to two digits."""
        return abs(self.usd - self.true_usd) <= 0.01 * self.true_usd

    @property
    def is_right(self) -> bool:
        is_clean = not {"repository", "candidates", "processes"} & {*self.left}
        return self.works and self.usage_right and self.cost_right and is_clean


def plain(url: str) -> dict[str, Any]:
    """The server as a model behind HTTP, with its true price."""
    price = PRICES["scripted"]
    return {
        "backend": "openai",
        "url": f"{url}/v1",
        "model": "scripted",
        "price": {"input": price.input, "output": price.output},
    }


def try_client(
    client: str,
    program: Path,
    way: str,
    folder: Path,
    expected: Outcome,
    everywhere: bool = False,
    sandbox: str = "",
) -> Tried:
    """Run one search.

    `everywhere`: the client has all four roles, and otherwise the code alone.  `sandbox`: the grade of its cage, in
    which it runs a script that says what its tools can do."""
    with serving(ScriptedModels(command=f"sh {SCRIPT} {{}} {folder / 'project'}" if sandbox else "")) as models:
        models.command = models.command.format(models.url)
        caged = {"sandbox": sandbox, "args": probing_words(client, models.command)} if sandbox else {}
        clients = ROLES if everywhere else ("coder",)
        roles = {**dict.fromkeys(ROLES, plain(models.url)), **dict.fromkeys(clients, role(client, **caged))}
        search = Search(folder, roles)
        search.write_spec(**WAYS[way](search))
        search.write_home({".netrc": LOGIN, **RECIPES[client].files(models.url)})
        before = search.files()
        began = time.monotonic()
        env = {**CANARIES, **environment_with(program, client, models.url)}
        code, printed = search.build(CAP, **env)
        tried = Tried(client, "all roles" if everywhere else way, time.monotonic() - began)
        outcome = search.outcome() if (search.run / "manifest.json").exists() else None
        if code or outcome is None:
            tried.words = next((line for line in reversed(printed.splitlines()) if line.strip()), f"exit code {code}")
        _count(tried, search, models, set(clients))
    if outcome is not None:
        tried.completed = sum(state == "completed" for state in outcome.states.values())
        tried.failed = outcome.failures
        tried.same_nodes = outcome.nodes == expected.nodes
    tried.left = search.left_since(before)
    if left := processes_with(str(folder)):
        tried.left["processes"] = left
    if sandbox:
        said = [call["text"] or "" for call in search.calls() if call["role"] == "coder"]
        tried.sandbox, tried.tools = sandbox, describe_probe(read_probe([*models.bodies, *said]))
    return tried


def _count(tried: Tried, search: Search, models: ScriptedModels, roles: set[str]) -> None:
    theirs = [entry for entry in models.answers() if entry.role in {*roles, ASIDE}]
    usages = [call["usage"] for call in search.calls() if call["role"] in roles]
    tried.tokens = (sum(u["input_tokens"] for u in usages), sum(u["output_tokens"] for u in usages))
    tried.true_tokens = (sum(e.tokens.input for e in theirs), sum(e.tokens.output for e in theirs))
    tried.usd, tried.true_usd = sum(u["usd"] or 0.0 for u in usages), sum(e.usd for e in theirs)


def reference(folder: Path, way: str) -> Outcome:
    """The same search with the server itself in all roles."""
    with serving(ScriptedModels()) as models:
        search = Search(folder, dict.fromkeys(ROLES, plain(models.url)))
        search.write_spec(**WAYS[way](search))
        code, printed = search.build(CAP)
        if code:
            raise SystemExit(f"the search without any client failed:\n{printed}")
        return search.outcome()


def table(rows: Iterable[Tried]) -> str:
    head = (
        "client",
        "way",
        "sandbox",
        "works",
        "its tools",
        "usage right",
        "cost right",
        "recorded / true USD",
        "s",
        "left in",
    )
    lines = [head, ("---",) * len(head)]
    for row in rows:
        left = "; ".join(f"{place}: {len(names)} ({names[0]})" for place, names in row.left.items() if names)
        words = "yes" if row.works else f"no: {row.words or next(iter(row.failed.values()), 'other nodes')}"[:90]
        right = ["yes" if each else "no" for each in (row.usage_right, row.cost_right)]
        costs = f"{row.usd:.6f} / {row.true_usd:.6f}"
        said = (row.client, row.way, row.sandbox, words, row.tools)
        lines.append((*said, *right, costs, f"{row.seconds:.0f}", left or "nothing"))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--clients", default=",".join(PACKAGES), help="which of them")
    parser.add_argument("--ways", default=",".join([*WAYS, "all roles"]), help="ways to run the search")
    parser.add_argument("--sandbox", help="grades, such as plain,landlock,isolated: what its tools can do in each")
    parser.add_argument("--into", type=Path, default=Path("/tmp/coppice-clients"), help="where clients are installed")
    parser.add_argument("--json", type=Path, help="keep the rows there")
    options = parser.parse_args()
    ways = ["coder"] if options.sandbox else options.ways.split(",")
    tries = [(way, grade) for way in ways for grade in (options.sandbox or "").split(",")]
    rows: list[Tried] = []
    # not in /tmp: Codex takes a HOME there for a mistake
    with TemporaryDirectory(prefix="coppice-bench-", dir="/var/tmp") as made:
        folder = Path(made)
        expected = {way: reference(folder / f"reference {way}", way) for way in WAYS if way in [*ways, "coder"]}
        for client in options.clients.split(","):
            try:
                program = install(client, options.into)
            except CannotInstall as problem:
                rows.append(Tried(client, "install", 0.0, words=str(problem)))
                continue
            for way, grade in tries:
                everywhere = way == "all roles"
                if everywhere and client not in ALL_ROLES:
                    continue
                known = "coder" if everywhere else way
                place = folder / f"{client} {way} {grade}".replace(" ", "-")
                rows.append(try_client(client, program, known, place, expected[known], everywhere, grade))
                print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print("Versions: " + ", ".join(f"{package.name} {package.version}" for package in PACKAGES.values()) + "\n")
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(
        not all(row.works and row.usage_right and row.cost_right and not row.left.get("repository") for row in rows)
    )


if __name__ == "__main__":
    sys.exit(main())
