"""A search over knobs: files of one number each, a sweep that adds up what they are worth, and what came of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.clients.probed import PROBE, SCRIPT
from tests.kit.scripted_models import KNOBS, knob_file

ROOT = Path(__file__).resolve().parents[2]
RUN = "knobs"
# Knob k at v is worth v times a number that only the sweep knows; some harm, none touches `risk`.
SWEEP = """\
set -eu
results=$1 seconds=$2 place=$3 rows=$4
if mv "$place/kill-sweep" "$place/sweep.$$" 2>/dev/null; then
  echo $$ > "$place/victim.part" && mv "$place/victim.part" "$place/victim"
  while :; do sleep 0.05; done
fi
sleep "$seconds"
awk -v results="$results" -v rows="$rows" '
  { gain += $4 * (($2 * 29 + 20) % 23 - 8) }
  END {
    print "config_id,status,gain,risk" > results
    for (config = 0; config < rows; config++) print config ",ok," 100 + gain + config ",5" > results
  }' knobs/*
"""


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "pipeline", *words]


class Search:
    """A project in `folder` with one search: `keys` of its spec come over the usual ones."""

    def __init__(self, folder: Path, roles: Mapping[str, Any], **keys: Any) -> None:
        self.root, self.home, self.scratch = folder / "project", folder / "home", folder / "tmp"
        self.place = folder / "place"
        for made in (self.root / "specs", self.root / "repo/knobs", self.home, self.scratch, self.place):
            made.mkdir(parents=True)
        for path, line in map(knob_file, range(KNOBS)):
            (self.root / "repo" / path).write_text(f"{line}\n")
        (self.root / "repo" / SCRIPT).write_text(PROBE)
        (self.root / "repo/README").write_text("Sixty-four knobs, one a file.\n")
        (self.root / "sweep.sh").write_text(SWEEP)
        (self.root / "data.txt").write_text("of today\n")
        self._commit()
        self.keys: dict[str, Any] = {
            "kind": "tree",
            "repo": "repo",
            "ideas_per_node": 2,
            "beam_width": 1,
            "max_depth": 2,
            "sweep_config_limit": 3,
            "stop_on_empty_frontier": False,
            "roles": roles,
            "tests": {"run": "! grep -rq '= 9' knobs"},
            "sweep": self.sweep(3),
            "metrics": {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True}},
        }
        self.write_spec(**keys)

    def sweep(self, rows: int, more: str = "", seconds: float = 0.1) -> dict[str, Any]:
        run = f'sh {{sweep}} {{results}} {seconds:g} "{self.place}" {rows} {more}'
        return {"run": run, "reads": {"sweep": "sweep.sh", "data": "data.txt"}}

    def seal(self) -> dict[str, Any]:
        """Keys that hold a config and a file of data back, so that every command of a role is confined."""
        (self.root / "sealed.txt").write_text("of later\n")
        held = {"configs": [2], "reads": {"data": "sealed.txt"}}
        return {"sweep": {**self.sweep(2, "{configs}"), "configs": 3}, "sweep_config_limit": None, "holdout": held}

    def write_spec(self, **keys: Any) -> None:
        """A key that is None is dropped."""
        self.keys = {name: value for name, value in {**self.keys, **keys}.items() if value is not None}
        (self.root / f"specs/{RUN}.yaml").write_text(yaml.safe_dump(self.keys, sort_keys=False))

    def write_home(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)

    def _commit(self) -> None:
        name = ["-c", "user.name=Nobody", "-c", "user.email=nobody@localhost"]
        for words in (["init", "--quiet"], ["add", "."], [*name, "commit", "--quiet", "-m", "Knobs at zero"]):
            subprocess.run(["git", *words], cwd=self.root / "repo", check=True)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        packages = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        place = {"HOME": str(self.home), "TMPDIR": str(self.scratch), "PYTHONPATH": os.pathsep.join(packages)}
        return {**kept, **place, "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1", **more}

    def start(self, words: tuple[str, ...], **env: str) -> subprocess.Popen[str]:
        """In a session of its own, so that all of it can be stopped at once."""
        return subprocess.Popen(
            command_line(*words),
            cwd=self.root,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def build(self, seconds: float, *words: str, **env: str) -> tuple[int, str]:
        """Exit code and output of a build, or another command, which is killed if it takes longer."""
        process = self.start(words or ("run", RUN), **env)
        try:
            printed = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -signal.SIGKILL, f"{process.communicate()[0]}\ntook longer than {seconds:g} s"
        return process.returncode, printed

    def files(self) -> dict[str, set[str]]:
        """Files in the repository, in HOME and in TMPDIR, and what is in the checkouts of nodes."""
        places = {"repository": self.root / "repo", "HOME": self.home, "TMPDIR": self.scratch}
        left = {name: {str(path) for path in _files_below(place)} for name, place in places.items()}
        return {**left, "candidates": set()}

    def left_since(self, before: Mapping[str, set[str]]) -> dict[str, list[str]]:
        """Files that were left; in candidates all that is no knob counts."""
        now = {**self.files(), "candidates": self._changed_files()}
        return {name: sorted(now[name] - before[name]) for name in now if now[name] - before[name]}

    def _changed_files(self) -> set[str]:
        changes = (line for path in self.run.glob("eval/*/change.patch") for line in path.read_text().splitlines())
        paths = {line.split(" b/", 1)[1] for line in changes if line.startswith("diff --git ")}
        return {path for path in paths if not path.startswith("knobs/knob_")}

    @property
    def run(self) -> Path:
        return self.root / "runs" / RUN

    def outcome(self) -> Outcome:
        return read_outcome(self.run)

    def calls(self) -> list[dict[str, Any]]:
        """Calls that are recorded; those of a target that has ended stand in its journal and in its output, too."""
        lines = {line for path in self.run.glob("**/calls.jsonl") for line in path.read_bytes().split(b"\n")[:-1]}
        return [json.loads(line) for line in sorted(lines)]


def _files_below(place: Path) -> Iterator[Path]:
    """All but the ref that a run keeps in the user's repository."""
    paths = (path.relative_to(place) for path in place.rglob("*") if not path.is_dir())
    return (path for path in paths if not path.is_relative_to(".git/refs/coppice"))


class Outcome(NamedTuple):
    """What a manifest says: nodes with their files' hashes, evaluations by how they ended, what was spent."""

    stop: str
    nodes: dict[str, str]
    states: dict[str, str]
    failures: dict[str, str]
    usd: float


def read_outcome(run: Path) -> Outcome:
    manifest = json.loads((run / "manifest.json").read_text())
    evaluations = manifest["evaluations"]
    failures = {name: it["error"]["why"] for name, it in evaluations.items() if it["error"]}
    return Outcome(
        manifest["state"]["stop_reason"] or "",
        {name: node["tree"] for name, node in manifest["nodes"].items()},
        {task["eval_id"]: task["task_state"] for task in manifest["tasks"]},
        failures,
        manifest["state"]["spent"]["usd"],
    )
