"""Settings of a Lean, the first target and the last lines of kinds that prove.

The first target of a run that proves records which Lean it asks; what that is stands in toolchain.json, which counts
as an input of all that follows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.graph import Limits, Ports, Target
from pipeline.core.recipe import LIMITS
from pipeline.core.text import plural
from pipeline.errors import SpecError, cut_text
from pipeline.goals.bank import Goal, Refusal, doubts, refusal_line

DEFAULT_LEDGER = "runs/.ledger/ledger.db"


class LeanKeys(NamedTuple):
    """Settings of the Lean.  `memory`: megabytes after which a process makes place for a new one.

    `project`: the folder of a repository, whose toolchain is used."""

    backend: str = "wasm"
    processes: int = 2
    memory: int = 1400
    project: str = ""


TOOLCHAIN = "toolchain"
# stage -> what it reads, and what it writes; a name without a dot is the spec's.
TOOLCHAIN_FILES = {TOOLCHAIN: (("project",), ("toolchain.json",))}


class RunSource(NamedTuple):
    """A spec as far as its targets need it; `line` is its line in the file."""

    name: str
    line: int
    bank: str
    lean: LeanKeys


def toolchain_target(of: RunSource) -> Target:
    params = {"backend": of.lean.backend, "project": of.lean.project}
    return target_of_run(of, TOOLCHAIN, TOOLCHAIN_FILES, params)


def target_of_run(
    of: RunSource, stage: str, files: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]], params: Mapping[str, Any]
) -> Target:
    reads, writes = (file_ports(of, names) for names in files[stage])
    return Target(f"{of.name}:{stage}", stage, reads, writes, params, Limits(), of.line)


def file_ports(of: RunSource, names: tuple[str, ...]) -> Ports:
    """A port for each file, called like it; no project has no port."""
    given = {"bank": of.bank, "project": of.lean.project}
    paths = {name: given.get(name, f"runs/{of.name}/{name}") for name in names}
    return tuple((name, (path,)) for name, path in paths.items() if path)


def lean_limits(lean: LeanKeys) -> Mapping[str, Any]:
    """Settings of the Lean as limits: what decides is which Lean it is, and that stands in toolchain.json."""
    return {LIMITS: {"lean": lean._asdict()}}


MOST_ROWS = 10  # rows that are listed


def bank_lines(bank: str, refused: Iterable[Refusal], goals: Iterable[Goal], target: Target) -> Iterator[str]:
    """Lines about rows that do not count, and about goals that may not say what they seem to.

    `target`: one that asks the Lean of the goals, which may know more than the core library."""
    lean = target.params["limits"]["lean"]
    has_library = lean["backend"] != "wasm" and bool(lean["project"])
    doubted = [each for goal in goals for each in doubts(goal, has_library)]
    yield from _titled_list("row", "of the bank not counted", [refusal_line(bank, each) for each in refused])
    yield from _titled_list("warning", "about what the bank says", [refusal_line(bank, each) for each in doubted])


def _titled_list(what: str, of: str, told: Sequence[str]) -> Iterator[str]:
    if told:
        more = f"\n  and {len(told) - MOST_ROWS} more" if len(told) > MOST_ROWS else ""
        named = "".join(f"\n  {each}" for each in told[:MOST_ROWS])
        yield f"{plural(len(told), what)} {of}:{named}{more}\n"


def describe_target(target: Target, left_out: str = "", spread: str = "") -> dict[str, Sequence[str]]:
    """The stage, params and limits of a target in words; of the param `spread` each value by itself."""
    words = {name: value for name, value in target.params.items() if name not in (LIMITS, left_out, spread)}
    every = {**words, **target.params.get(spread, {}), **target.params.get(LIMITS, {})}
    return {"stage": [target.stage], **{name: [json.dumps(each, ensure_ascii=False)] for name, each in every.items()}}


def path_of_port(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path


def not_built(run: str, what: str = "it") -> SpecError:
    return SpecError(f"{run}: nothing is recorded of {what} yet; `coppice {run}` builds it")


def replay_agrees(replay: Mapping[str, Any]) -> bool:
    """Check that a replay found no difference."""
    return bool(replay["same"])


def difference_lines(differences: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each difference that a replay found."""
    return [
        f"{each['path']}:{each['line']}: recorded {cut_text(each['recorded'])}, decided again {cut_text(each['now'])}"
        for each in differences
    ]
