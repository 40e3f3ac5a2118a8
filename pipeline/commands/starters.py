"""Starters: a first search over code, made for what is found in a folder, with recorded ideas that change nothing.

States: looked at (what can be measured, how) -> written (spec, measuring script, two ideas) -> hidden from git, whose
work tree must stay clean: the files are named in .git/info/exclude.  No program of the user is run, and nothing that is
there is overwritten."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import SpecError
from pipeline.git.repository import RepoLocation, locate_repo

SEARCH = "search"
SKIPPED_SCRIPTS = re.compile(r"(test_.*|.*_test|setup|conftest|noxfile|dodo|__init__)\.py|.*\.cfg")
# Names of what measures or is to be measured, the likeliest first.
LIKELY = ("bench", "measure", "score", "eval", "train", "model", "run", "main", "search")
COMMENTS = {".py": "#", ".sh": "#", ".c": "//", "Makefile": "#"}
FILES_LOOKED_AT = 2000
NO_FOLDERS = {"node_modules", "venv", "__pycache__", "runs", "build", "dist"}


class Program(NamedTuple):
    """Program that a search can measure: its command and what is built before, a file of it to change, and what counts.

    `number`: it prints the number that counts; otherwise its time does."""

    command: str
    build: str
    file: str
    number: bool
    words: str


def find_program(folder: str) -> tuple[Program | None, bool]:
    """The program in a folder, and whether there is a pytest suite.  By names and texts alone: nothing is run."""
    top = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    suite = any(re.fullmatch(r"test_.*\.py|.*_test\.py", name) for name in _names_below(folder))
    found = [*_scripts(folder, top), *_compiled(folder, top)]
    if found:
        return min(found, key=lambda each: _likeliness(each.file)), suite
    if suite:
        file = next((name for name in top if name.endswith(".py")), "")
        return Program("python3 -m pytest -q", "", file, False, "the time of its pytest suite"), suite
    return None, suite


def _names_below(folder: str) -> Iterator[str]:
    count = 0
    for _, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in NO_FOLDERS)
        count += len(names)
        yield from names
        if count > FILES_LOOKED_AT:
            return


def _likeliness(file: str) -> tuple[int, str]:
    stem = Path(file).stem.lower()
    return next((n for n, word in enumerate(LIKELY) if stem.startswith(word)), len(LIKELY)), file


def _scripts(folder: str, names: list[str]) -> Iterator[Program]:
    for name in names:
        text = _text(folder, name) if name.endswith((".py", ".sh")) else ""
        word = _quoted(name)
        if name.endswith(".py") and not SKIPPED_SCRIPTS.fullmatch(name) and ("__main__" in text or "print(" in text):
            number = "print(" in text
            what = "the last number that it prints" if number else "its time"
            yield Program(f"python3 {word}", "", name, number, f"{what}, {name} being a Python script")
        elif name.endswith(".sh"):
            yield Program(f"sh {word}", "", name, False, f"the time of {name}, a shell script")


def _compiled(folder: str, names: list[str]) -> Iterator[Program]:
    sources = [name for name in names if name.endswith(".c")]
    if "Makefile" in names:
        targets = re.findall(r"^([\w.-]+)\s*:(?!=)", _text(folder, "Makefile"), re.MULTILINE)
        file = sources[0] if sources else "Makefile"
        if aim := next((name for name in ("bench", "run") if name in targets), ""):
            yield Program(f"make -s {aim}", "make -s", file, False, f"the time of `make {aim}`")
        elif made := next((name for name in targets if f"{name}.c" in sources), ""):
            yield Program(f"./{made}", "make -s", file, False, f"the time of {made}, which make builds")
        else:
            yield Program("make -s -B", "", file, False, "the time of `make`")
    elif len(sources) == 1:
        build = f"cc -O2 -o coppice-program {_quoted(sources[0])}"
        yield Program("./coppice-program", build, sources[0], False, f"the time of {sources[0]}, a C program")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.+-]+", name) else "'" + name.replace("'", "'\\''") + "'"


def _text(folder: str, name: str) -> str:
    return Path(folder, name).read_text(encoding="utf-8", errors="replace")


MEASURE = '''\
"""Measures a candidate in its checkout: `python3 measure.py RESULTS.csv`, a row for each time that it runs."""

import re
import subprocess
import sys
import time

BUILD = {build!r}  # before, not timed; empty for nothing
COMMAND = {command!r}  # a line for /bin/sh
TIMES = {times}  # each is a block: how much they differ shows how much is luck
COLUMN = {column!r}  # `value` is the last number that it prints


def run(line):
    began = time.perf_counter()
    done = subprocess.run(line, shell=True, capture_output=True, text=True, errors="replace")
    seconds = time.perf_counter() - began
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    if done.returncode:
        sys.exit(f"`{{line}}` ended with {{done.returncode}}")
    return seconds, re.findall(r"[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?", done.stdout)


if BUILD:
    run(BUILD)
rows = ["config_id,status,block," + COLUMN]
for block in range(TIMES):
    seconds, numbers = run(COMMAND)
    if COLUMN == "value" and not numbers:
        sys.exit(f"`{{COMMAND}}` printed no number; print one, or change COLUMN and `metrics:` to seconds")
    rows.append(f"0,ok,{{block}},{{numbers[-1] if COLUMN == 'value' else seconds}}")
with open(sys.argv[1], "w") as file:
    file.write("\\n".join(rows) + "\\n")
'''
SPEC = """\
# yaml-language-server: $schema=.schema.json
# A first search over code: it measures {words}.
#
#   coppice plan search     what it would do, and what it may cost
#   coppice search          does it: two recorded ideas that change nothing, so neither should be promoted
#
# Keys: docs/tree.md of Coppice. Ideas of your own: a folder each in search/ideas, with idea.md and change.patch.

kind: tree
repo: {repo}
ideas_per_node: 2
max_depth: 1

roles:                                    # recorded: no model, no cost
  ideas: {{backend: patches, folder: search/ideas}}
  coder: {{backend: patches}}

# For a model put these four lines in place of the three above (other clients: docs/backends.md), then more depths:
# roles:
#   ideas: {{backend: claude}}
#   coder: {{backend: claude}}
# budget: {{usd: 5, per_eval: {{usd: 1}}}}
{tests}
sweep:
  run: [python3, "{{in}}", "{{results}}"{seed}]   # runs in each candidate's checkout
  reads: search/measure.py                # the file to change when something else counts
  configs: 1
  blocks: {times}{seeded}
  timeout: 10m

metrics:
  {column}: {{primary: true, better: {better}}}
"""
TESTS = """
tests:                                    # must pass before anything is measured
  run: [python3, -m, pytest, -q]
  timeout: 10m
"""
TIMES = 8
# A time needs no seed, but with one `coppice calibrate` times the start several times, which shows what blocks do not.
SEED_OF_TIMES = (
    ', "{seed}"',
    "\n  # measure.py ignores the seed: by it `coppice calibrate search` sees how much the machine's speed drifts",
)


def search_files(program: Program, folder: str, repo: str, tested: bool) -> dict[str, str]:
    """The files of a first search, by path from the project's folder."""
    column, better = ("value", "higher") if program.number else ("seconds", "lower")
    measure = MEASURE.format(build=program.build, command=program.command, times=TIMES, column=column)
    keys = {"words": program.words, "repo": repo, "times": TIMES, "column": column, "better": better}
    seed, seeded = ("", "") if program.number else SEED_OF_TIMES
    spec = SPEC.format(**keys, seed=seed, seeded=seeded, tests=TESTS if tested else "")
    files = {f"specs/{SEARCH}.yaml": spec, "search/measure.py": measure}
    for name, (title, change) in _ideas(program, folder).items():
        files[f"search/ideas/{name}/idea.md"] = (
            f"IDEA: {title}\n\nRATIONALE: An example: it changes nothing, so it should not be promoted.\n\n"
            f"REQUIRED_CHANGES:\n- {title}\n"
        )
        files[f"search/ideas/{name}/change.patch"] = change
    return files


def _ideas(program: Program, folder: str) -> Mapping[str, tuple[str, str]]:
    """Two harmless changes: a file that nobody reads, and a comment at the end of one, or a second such file."""
    found = {}
    for number in (1, 2):
        name = next(n for i in range(100) if not os.path.lexists(f"{folder}/{(n := f'coppice-note-{number + i}.md')}"))
        change = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+A note that nobody reads.\n"
        head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n"
        found[f"{number}-note"] = (f"Add {name}, a note that nobody reads.", head + change)
    mark = COMMENTS.get(Path(program.file).suffix) or COMMENTS.get(program.file, "")
    lines = Path(folder, program.file).read_bytes().split(b"\n") if program.file and mark else []
    if len(lines) > 1 and lines[-1] == b"" and b"\r" not in lines[-2] and re.fullmatch(r"[\w.+-]+", program.file):
        count = len(lines) - 1
        try:
            last = lines[-2].decode()
        except UnicodeDecodeError:
            return found
        head = f"--- a/{program.file}\n+++ b/{program.file}\n@@ -{count} +{count},2 @@\n"
        change = f"{head} {last}\n+{mark} A comment that changes nothing.\n"
        found = {"1-note": found["1-note"], "2-comment": (f"Add a comment at the end of {program.file}.", change)}
    return found


def repository_of(code: str, project: str) -> RepoLocation:
    """The place of the code; refused where a search from `project` could not start."""
    place = locate_repo(code)
    inside = f"{os.path.realpath(project)}/".startswith(f"{place.folder}/")
    if (place.folder != place.top or not place.git_dir) and inside:
        beside = f"../{os.path.basename(place.folder)}-search"
        where = "" if code == "." else f"cd {code}; "
        raise SpecError(
            f"init: {code} is no git repository, and a search writes its results into the project: make one beside"
            f" it, {where}coppice init {beside} --kind tree --repo ."
        )
    return place


def has_pytest() -> bool:
    """Check that the python3 which will run the tests has pytest."""
    try:
        asked = subprocess.run(["python3", "-c", "import pytest"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def notes(
    place: RepoLocation, folder: str, program: Program, suite: bool, tested: bool, files: Mapping[str, str]
) -> Iterator[str]:
    """Hide the files from git, if they are inside of it, and say what was found and what comes next."""
    top = os.path.realpath(folder)
    if place.git_dir and f"{top}/".startswith(f"{place.top}/"):
        paths = [*files, os.path.normpath(f"{folder}/runs")]
        if changed := _hide_from_git(place, paths):
            yield f"wrote {changed}: git does not see these files; remove the lines there to commit them"
    yield f"found: {program.words}; that is what counts"
    if suite:
        untested = "a pytest suite, but python3 has no pytest: `tests:` is left out"
        yield f"found: {'a pytest suite, which has to pass (`tests:`)' if tested else untested}"
    else:
        yield "not found: a pytest suite; `tests:` takes any command"
    yield "next:"
    yield from [] if os.path.samefile(folder, ".") else [f"  cd {folder}"]
    yield f"  coppice plan {SEARCH}      # what it would do; starts from the last commit, so commit what is not yet"
    yield f"  coppice {SEARCH}           # do it"


def _hide_from_git(place: RepoLocation, paths: list[str]) -> str:
    """Name files in .git/info/exclude, so that the work tree stays clean; that file, if it was changed."""
    lines = [f"/{os.path.relpath(os.path.realpath(path), place.top)}" for path in paths]
    exclude = Path(place.common, "info/exclude")
    text = exclude.read_text(encoding="utf-8", errors="surrogateescape") if exclude.exists() else ""
    missing = [line for line in lines if line not in text.splitlines()]
    if missing:
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("" if not text or text.endswith("\n") else "\n")
            file.writelines(f"{line}\n" for line in missing)
    return str(exclude) if missing else ""
