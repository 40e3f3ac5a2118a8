"""The graph all tools build: ideas in groups of 8, each implement -> sweep -> score, then a promotion.

Pure: a number of targets in; targets, spec text and the expected bytes of every output out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

GROUP_SIZE = 8
BRANCHING = 4
TARGETS_PER_GROUP = 3 * GROUP_SIZE + 1
RUN = "bench"
OUTPUT_ROOT = f"runs/{RUN}"
SEED = "promo/seed.txt"
"""What the root group reads in place of a parent's promotion: every idea has the same two inputs."""

IN_PROCESS = "call: action.py:digest"
AS_COMMAND = "run: md5sum {in} > {out}"

SPEC = """\
kind: steps
max_targets: {count}
steps:
  implement:
    for: &ideas
{rows}
    {action}
    reads: ["src/{{idea}}.txt", "promo/{{parent}}.txt"]
    writes: "implement/{{idea}}.txt"
  sweep:
    for: *ideas
    {action}
    reads: ["implement/{{idea}}.txt"]
    writes: "sweep/{{idea}}.txt"
  score:
    for: *ideas
    {action}
    reads: ["sweep/{{idea}}.txt"]
    writes: "score/{{idea}}.txt"
  promote:
    for: {{group: [{groups}]}}
    {action}
    reads: [{{step: score}}]
    writes: "promo/{{group}}.txt"
"""


@dataclass(frozen=True)
class Idea:
    """One row of the spec: what is implemented, in which group, from which promotion."""

    name: str
    group: str
    parent: str

    @property
    def source(self) -> str:
        return f"src/{self.name}.txt"


@dataclass(frozen=True)
class Target:
    """One output and the inputs it lists, a line each."""

    output: str
    inputs: tuple[str, ...]


def ideas(count: int) -> list[Idea]:
    """The ideas of a graph with exactly `count` targets."""
    groups, rest = divmod(count, TARGETS_PER_GROUP)
    if rest or not groups:
        raise ValueError(f"{count} targets: not a multiple of {TARGETS_PER_GROUP}, which a group has")
    return [_idea(number) for number in range(groups * GROUP_SIZE)]


def _idea(number: int) -> Idea:
    group = number // GROUP_SIZE
    parent = f"g{(group - 1) // BRANCHING:04d}" if group else "seed"
    return Idea(f"i{number:05d}", f"g{group:04d}", parent)


def targets(rows: Iterable[Idea]) -> Iterator[Target]:
    """All targets, every one after what it reads."""
    group: list[Idea] = []
    for idea in rows:
        yield from _lineage(idea)
        group.append(idea)
        if len(group) == GROUP_SIZE:
            scores = tuple(_output("score", member.name) for member in group)
            yield Target(_output("promo", idea.group), scores)
            group = []


def _lineage(idea: Idea) -> Iterator[Target]:
    base = SEED if idea.parent == "seed" else _output("promo", idea.parent)
    yield Target(_output("implement", idea.name), (idea.source, base))
    yield Target(_output("sweep", idea.name), (_output("implement", idea.name),))
    yield Target(_output("score", idea.name), (_output("sweep", idea.name),))


def _output(step: str, name: str) -> str:
    return f"{OUTPUT_ROOT}/{step}/{name}.txt"


def spec_text(rows: list[Idea], action: str) -> str:
    """The YAML that every tool starts from; `action` is the line that says how a target is made."""
    lines = (f"    - {{idea: {row.name}, group: {row.group}, parent: {row.parent}}}" for row in rows)
    groups = dict.fromkeys(row.group for row in rows)
    count = len(groups) * TARGETS_PER_GROUP
    return SPEC.format(count=count, rows="\n".join(lines), groups=", ".join(groups), action=action)


def first_sources(rows: Iterable[Idea]) -> dict[str, bytes]:
    """The project's own files as they are before any edit."""
    sources = {row.source: f"input of {row.name}\n".encode() for row in rows}
    return {SEED: b"where the search starts\n"} | sources


def expected(graph: Iterable[Target], sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """The bytes each output must have: one line an input, its md5 and its path."""
    contents: dict[str, bytes] = {}
    digests = {path: hashlib.md5(data).hexdigest() for path, data in sources.items()}
    for target in graph:
        made = "".join(f"{digests[path]}  {path}\n" for path in target.inputs).encode()
        contents[target.output] = made
        digests[target.output] = hashlib.md5(made).hexdigest()
    return contents


def downstream(graph: Iterable[Target], source: str) -> set[str]:
    """The outputs that an edit of `source` makes stale."""
    touched = {source}
    for target in graph:
        if not touched.isdisjoint(target.inputs):
            touched.add(target.output)
    return touched - {source}
