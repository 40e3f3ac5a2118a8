"""The build graph: targets, the files between them, and the questions asked of it.

A target reads and writes ports: names with paths behind them.  A path that it reads is a file, a folder or a pattern
such as `src/**/*.py`.  A file has at most one writer.  Rooms limit how many targets run at once; in a build of several
runs they are called `run:room`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, NamedTuple

GLOB = re.compile(r"[*?\[]")
_GLOB_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def glob_regex(pattern: str) -> str:
    out = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern):
        if part in _GLOB_PARTS:
            out += _GLOB_PARTS[part]
        elif part.startswith("[") and part.endswith("]"):
            negated = "^" if part[1] == "!" else ""
            out += f"[{negated}" + re.sub(r"([][\\^&|~])", r"\\\1", part[1:-1].removeprefix("!")) + "]"
        else:
            out += re.escape(part)
    return out


def pattern_error(path: str) -> str:
    """Describe what is wrong with a pattern; empty when nothing is."""
    try:
        re.compile(glob_regex(path) if GLOB.search(path) else "")
    except re.error as error:
        return str(error)
    return ""


def covers_path(pattern: str, path: str) -> bool:
    """Check if `path` is that file, lies below that folder, or matches.  Names may hold anything, line breaks too."""
    if path == pattern or path.startswith(f"{pattern}/"):
        return True
    return GLOB.search(pattern) is not None and re.fullmatch(glob_regex(pattern), path, re.DOTALL) is not None


def covers_below(pattern: str, folder: str) -> bool:
    """Check if the pattern may match a path below `folder`, which is relative to the same place."""
    if folder == pattern or folder.startswith(f"{pattern}/"):
        return True
    names = [] if folder == "." else folder.split("/")
    for depth, part in enumerate(pattern.split("/")):
        if depth == len(names) or "**" in part:
            return True
        if not re.fullmatch(glob_regex(part), names[depth], re.DOTALL):
            break
    return False


# The room of all exclusive targets: who has its one place has the build for itself.
ALONE = "alone"
# The room of what a build makes itself, while an engine makes the rest.
HERE = "here"
# Engines, by which targets are made; MOST_ORDERS: so many at once of another than threads.
THREADS, SLURM = "threads", "slurm"
ENGINES, MOST_ORDERS = (THREADS, SLURM), 100

# A port is a name with the paths behind it; pairs rather than a dict, to be small a hundred thousand times.
Ports = tuple[tuple[str, tuple[str, ...]], ...]


class Limits(NamedTuple):
    """Limits on how a target runs.  They are not part of its recipe: changing them redoes nothing."""

    timeout: float | None = None
    retries: int = 0
    rooms: tuple[str, ...] = ()
    patience: float | None = None  # seconds to wait for what is out; None where nothing is waited for
    exclusive: bool = False  # it times things: it runs alone on its machine


class Target(NamedTuple):
    """Unit of work: a stage, the files it reads, the files that only it writes.  Paths start at the project root."""

    name: str
    stage: str
    reads: Ports
    writes: Ports
    params: Mapping[str, Any]
    limits: Limits = Limits()
    line: int = 0

    @property
    def run(self) -> str:
        return self.name.partition(":")[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        return paths(self.reads)

    @property
    def outputs(self) -> tuple[str, ...]:
        return paths(self.writes)


class CycleError(Exception):
    """Cycle of targets that wait for each other; `targets` goes round once, with the first repeated at the end."""

    def __init__(self, targets: tuple[Target, ...]) -> None:
        self.targets = targets
        super().__init__("a cycle: " + " -> ".join(t.name for t in targets))


class Graph:
    """Targets in an order in which each comes after all it reads from; within that, as the plan lists them."""

    def __init__(self, targets: Iterable[Target], in_order: bool = False) -> None:
        listed = list(targets)
        self.targets = listed if in_order else _sorted(listed)

    @cached_property
    def writer(self) -> dict[str, int]:
        """path -> the target that writes it."""
        return _writers(self.targets)

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """path -> the targets that read it."""
        out: dict[str, list[int]] = defaultdict(list)
        for i, target in enumerate(self.targets):
            for _, group in target.reads:
                for path in group:
                    out[path].append(i)
        return out

    @cached_property
    def index(self) -> dict[str, int]:
        return {t.name: i for i, t in enumerate(self.targets)}

    def above(self, i: int) -> list[int]:
        """The targets that write what target `i` reads."""
        writer = self.writer
        return sorted({writer[path] for path in self.targets[i].inputs if path in writer})

    def below(self, i: int) -> list[int]:
        """The targets that read what target `i` writes."""
        readers = self.readers
        return [j for path in self.targets[i].outputs for j in readers.get(path, ())]

    def touching(self, path: str) -> list[int]:
        """The targets that read or write `path`."""
        return [*self.readers.get(path, ()), *([self.writer[path]] if path in self.writer else ())]

    def upstream(self, wanted: Iterable[int]) -> set[int]:
        """Collect `wanted` and all that they are made from."""
        wanted = set(wanted)
        return wanted if len(wanted) == len(self.targets) else _closure(wanted, self.above)

    def downstream(self, changed: Iterable[int]) -> set[int]:
        """Collect `changed` and all that is made from them."""
        return _closure(changed, self.below)


def step_of(name: str) -> str:
    """Give `run:step` of a target's name."""
    run, colon, target = name.partition(":")
    return f"{run}{colon}{target.partition('.')[0]}"


def paths(ports: Ports) -> tuple[str, ...]:
    if not ports:
        return ()
    out = ports[0][1]
    for _, group in ports[1:]:
        out += group
    return out


def target_of_stage(targets: Sequence[Target], stage: str) -> Target:
    """The one target of a stage."""
    (target,) = (each for each in targets if each.stage == stage)
    return target


def path_of_port(target: Target, port: str) -> str:
    """The one file that a target writes at a port."""
    (path,) = dict(target.writes)[port]
    return path


def _writers(targets: Sequence[Target]) -> dict[str, int]:
    return {path: i for i, t in enumerate(targets) for _, group in t.writes for path in group}


def _closure(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    seen = set(start)
    front = list(seen)
    while front:
        for j in step(front.pop()):
            if j not in seen:
                seen.add(j)
                front.append(j)
    return seen


def _sorted(listed: Sequence[Target]) -> list[Target]:
    """Stable topological order; the smallest listed position goes first."""
    readers: dict[str, list[int]] = {path: [] for t in listed for _, group in t.writes for path in group}
    waits: list[int] = []
    for i, target in enumerate(listed):
        made = [readers[path] for _, group in target.reads for path in group if path in readers]
        for beside in made:
            beside.append(i)
        waits.append(len(made))
    ready = [i for i, count in enumerate(waits) if not count]  # in order, so it is a heap
    order: list[Target] = []
    while ready:
        order.append(target := listed[heappop(ready)])
        for _, group in target.writes:
            for path in group:
                for j in readers[path]:
                    waits[j] -= 1
                    if not waits[j]:
                        heappush(ready, j)
    if len(order) < len(listed):
        raise CycleError(tuple(_one_cycle(listed, _writers(listed), waits)))
    return order


def _one_cycle(listed: Sequence[Target], writer: Mapping[str, int], waits: Sequence[int]) -> Iterator[Target]:
    """Walk up from any target that still waits: above it there is always another one, so the walk must close."""
    i = next(i for i, count in enumerate(waits) if count)
    walk: list[int] = []
    while i not in walk:
        walk.append(i)
        i = min(writer[p] for p in listed[i].inputs if p in writer and waits[writer[p]])
    yield from (listed[j] for j in [*walk[walk.index(i) :], i])


def rooms_of(target: Target) -> tuple[str, ...]:
    """List the rooms in which a target needs a place; none for a target that may run anywhere."""
    own = tuple(f"{target.run}:{room}" for room in target.limits.rooms)
    return (*own, ALONE) if target.limits.exclusive else own


def room_label(room: str) -> str:
    """A room that is a number in the spec is called after its step."""
    return room.removeprefix("step ").rpartition(" ")[0] if room.startswith("step ") else room


# Folders that programs leave behind, and nobody's change: new ones are in no candidate.
JUNK_FOLDERS = (
    "__pycache__", ".venv", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox",
    ".ipynb_checkpoints",
)  # fmt: skip
MEGABYTE = 1_000_000


class Leavings(NamedTuple):
    """Files that are left out of a change: new ones above `file_mb`, the largest of more than `change_mb` together, and
    folders of junk; `folders`: names of such beside the usual ones."""

    file_mb: float = 5.0
    change_mb: float = 50.0
    folders: tuple[str, ...] = ()

    @property
    def junk(self) -> tuple[str, ...]:
        return (*JUNK_FOLDERS, *self.folders)

    @property
    def as_params(self) -> dict[str, Any]:
        return {**self._asdict(), "folders": [*self.folders]}

    @property
    def sentence(self) -> str:
        """The rule for the coder, in one line."""
        return (
            f"Left out of the change: new files over {self.file_mb:g} MB (all together {self.change_mb:g} MB), and new "
            f"folders named {', '.join(self.junk)}."
        )
