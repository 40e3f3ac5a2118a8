"""One tool's own copy of the project on disk: written, cleaned, edited and checked byte for byte."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from benchmarks import shape
from benchmarks.measure import Failed, Usage, run
from benchmarks.peers import FILES, TOOLS

PARENTS = ("PYTHON", "MAKE", "MFLAGS", "NINJA", "DOIT", "SNAKEMAKE", "COPPICE", "VIRTUAL_ENV")
"""Variables of whatever started the benchmark that would change how a tool behaves."""

Fingerprint = tuple[int, int] | None


class Project:
    """The same graph for every tool; only the files the tool itself reads differ."""

    def __init__(self, folder: Path, name: str, exe: Path, count: int, jobs: int, cap: float) -> None:
        self.folder, self.name, self.exe, self.jobs, self.cap = folder, name, exe, jobs, cap
        self.tool = TOOLS[name]
        self.rows = shape.ideas(count)
        self.graph = list(shape.targets(self.rows))
        self.outputs = {target.output for target in self.graph}
        self.log = folder.with_name(f"{folder.name}.log")
        self._write()

    def _write(self) -> None:
        files = {"specs/bench.yaml": shape.spec_text(self.rows, self.tool.spec_action).encode()}
        files |= {name: (FILES / source).read_bytes() for name, source in self.tool.files.items()}
        for name, content in files.items():
            _write_new(self.folder / name, content)
        for name, content in shape.first_sources(self.rows).items():
            if not (self.folder / name).exists():
                _write_new(self.folder / name, content)
        if self.tool.generate:
            command = self.tool.generate_command(self.exe)
            subprocess.run(command, cwd=self.folder, env=environment(), check=True)
        names = [*files, *shape.first_sources(self.rows), self.tool.generated]
        self.inputs = {name.split("/")[0] for name in names}
        self._make_folders()

    def _make_folders(self) -> None:
        if not self.tool.makes_folders:
            for name in {Path(output).parent for output in self.outputs}:
                (self.folder / name).mkdir(parents=True, exist_ok=True)

    def clean(self) -> set[str]:
        """Back to a fresh checkout: whatever the tool made or remembered is gone. All has to be made."""
        for entry in self.folder.iterdir():
            if entry.name in self.inputs or entry.name == "__pycache__":
                continue
            self.put_aside(entry)
        self._make_folders()
        return self.outputs

    @property
    def aside(self) -> Path:
        return self.folder.parent.parent / "aside"

    def put_aside(self, path: Path) -> None:
        """Removed at the end only: for five minutes ext4 avoids what was removed, and whoever creates files pays."""
        self.aside.mkdir(exist_ok=True)
        path.rename(self.aside / f"{time.time_ns()}.{path.name}")

    def edit(self, idea: shape.Idea) -> set[str]:
        """New content in one source, never seen before; returns what it makes stale."""
        (self.folder / idea.source).write_text(f"edited at {time.time_ns()}\n")
        return shape.downstream(self.graph, idea.source)

    def forget_graph(self) -> set[str]:
        """The graph has to be made from the YAML again; no target has."""
        for name in self.tool.caches:
            if (self.folder / name).exists():
                (self.folder / name).unlink()
        return set()

    def settle(self) -> None:
        """Unmeasured: everything built, and every byte right."""
        self.build()
        self.check_bytes(self.outputs)

    def build(self, sample: bool = False, prefix: tuple[str, ...] = ()) -> Usage:
        command = [*prefix, *self.tool.build_command(self.exe, self.jobs)]
        return run(command, self.folder, environment(), self.log, self.cap, sample)

    def load_graph(self, sample: bool = False) -> Usage:
        command = self.tool.graph_command(self.exe, self.jobs)
        usage = run(command, self.folder, environment(), self.log, self.cap, sample)
        printed = self.log.read_text()
        if self.tool.counted and (said := self.tool.count(printed)) != len(self.graph):
            raise Failed(f"the graph has {said} targets, not {len(self.graph)}: {printed[-300:]}")
        return usage

    def fingerprints(self) -> dict[str, Fingerprint]:
        """What tells a file that was written again from one that was left alone."""
        return {output: _fingerprint(self.folder / output) for output in self.outputs}

    def check(self, before: dict[str, Fingerprint], must_redo: set[str]) -> None:
        """Exactly what had to be redone was redone, and it has the right bytes."""
        now = self.fingerprints()
        redone = {output for output, seen in now.items() if seen != before[output]}
        if redone != must_redo:
            odd = sorted(redone ^ must_redo)
            raise Failed(f"redid {len(redone)} targets, not {len(must_redo)}; first difference {odd[0]}")
        self.check_bytes(must_redo)

    def check_bytes(self, outputs: set[str]) -> None:
        names = shape.first_sources(self.rows)
        contents = shape.expected(self.graph, {name: (self.folder / name).read_bytes() for name in names})
        wrong = sorted(output for output in outputs if _content(self.folder / output) != contents[output])
        if wrong:
            raise Failed(f"{len(wrong)} of {len(self.graph)} outputs have the wrong bytes; first {wrong[0]}")


def environment() -> dict[str, str]:
    """This process's environment without what its own start put there."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PARENTS)}


def _write_new(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _fingerprint(path: Path) -> Fingerprint:
    try:
        seen = path.stat()
    except FileNotFoundError:
        return None
    return seen.st_ino, seen.st_mtime_ns
