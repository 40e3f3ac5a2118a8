"""Starters: a first search over code, made for what is found in a folder, with recorded ideas that change nothing.

States: looked at (what can be measured, how) -> written (spec, two ideas, and a script that measures unless the program
writes the CSV of a sweep itself) -> hidden from git, whose work tree must stay clean: its folders or
files are named in .git/info/exclude.  No program of the user is run, and nothing that is there is overwritten."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pipeline.commands.programs import MeasuredTable, Program, Suite, has_src_layout, protected_paths
from pipeline.core.text import join_names, printable_line
from pipeline.errors import SpecError
from pipeline.git.command import split_names, users_git
from pipeline.git.repository import RepoLocation, locate_repo

SEARCH = "search"
COMMENTS = {".py": "#", ".sh": "#", ".c": "//", "Makefile": "#"}

MEASURE = '''\
"""Measures a candidate in its checkout: `python3 measure.py RESULTS.csv`, a row for each time that it runs."""

import re
import subprocess
import sys
import time

BUILD = {build!r}  # before, not timed; empty for nothing
COMMAND = {command!r}  # a line for /bin/sh; arguments and input, such as `< FILE`, go here: it has none else
TIMES = {times}  # each is a block: how much they differ shows how much is luck
COLUMN = {column!r}  # `value` is the last number that it prints


def run(line, quiet=False):
    began = time.perf_counter()
    done = subprocess.run(line, shell=True, capture_output=True, text=True, errors="replace")
    seconds = time.perf_counter() - began
    if not quiet or done.returncode:
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
    if done.returncode:
        sys.exit(f"`{{line}}` ended with {{done.returncode}}")
    return seconds, re.findall(r"[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?", done.stdout)


if BUILD:
    run(BUILD)
rows = ["config_id,status,block," + COLUMN]
for block in range(TIMES):
    began = time.perf_counter()
    seconds, numbers = run(COMMAND)
    while COLUMN == "seconds" and time.perf_counter() - began < 0.05:  # of a short one the fastest of several runs
        seconds = min(seconds, run(COMMAND, quiet=True)[0])
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
{protect}{tests}
{sweep}"""
SWEEP = """\
sweep:
  run: [python3, "{{in}}", "{{results}}"{seed}]   # runs in each candidate's checkout
  reads: search/measure.py                # the file to change when something else counts
  configs: 1
  blocks: {times}{seeded}
{env}  timeout: 10m
{alone}
metrics:
  {column}: {{primary: true, better: {better}}}{check}
"""
SWEEP_OF_TABLE = """\
sweep:
  run: {command}   # runs in each candidate's checkout
  configs: 1                              # check: as many as `config_id` has values
{blocks}{env}  timeout: 10m
{alone}
metrics:
  {column}: {{primary: true, better: {better}}}   # check: the column that counts, and if more of it is better
{others}"""
TESTS = """
tests:                                    # must pass before anything is measured
  run: {command}
{env}  timeout: 10m
"""
PROTECT = """
# What measures and tests: a candidate that changes it is void, since by that alone it could look better. Take out of
# it what a candidate is to change, or the whole line.
protect: {paths}
"""
ENV = "  env: {PYTHONPATH: src}                  # the candidate's packages, not installed ones\n"
TIMES = 8
LONGEST_WORDS = 300
ALONE = "  exclusive: true                         # it times things: nothing else of yours runs beside it\n"
# A time needs no seed, but with one `coppice calibrate` times the start several times, which shows what blocks do not.
SEED_OF_TIMES = (
    ', "{seed}"',
    "\n  # measure.py ignores the seed: by it `coppice calibrate search` sees how much the machine's speed drifts",
)


def search_files(program: Program, folder: str, repo: str, tests: Suite | None) -> dict[str, str]:
    """The files of a first search, by path from the project's folder."""
    # Any path is a string of JSON, and so of YAML; a plain one needs no quotes.
    path = repo if re.fullmatch(r"\.*[/\w][/\w.-]*|\.+", repo, re.ASCII) else json.dumps(repo)
    env = ENV if has_src_layout(folder) else ""
    files = {}
    if program.table:
        sweep = _sweep_of_table(program, program.table, env)
    else:
        column, check = ("seconds", "") if program.timed else ("value", "   # check: if more of it is better")
        seed, seeded = SEED_OF_TIMES if program.timed else ("", "")
        timing = {"seed": seed, "seeded": seeded, "times": TIMES, "alone": ALONE if program.timed else ""}
        sweep = SWEEP.format(**timing, column=column, better=program.better, check=check, env=env)
        measure = MEASURE.format(build=program.build, command=program.command, times=TIMES, column=column)
        files["search/measure.py"] = measure
    paths = protected_paths(program, tests)
    parts = {
        "protect": PROTECT.format(paths=json.dumps(paths)) if paths else "",
        "tests": TESTS.format(command=json.dumps(tests.command), env=env) if tests else "",
        "words": printable_line(program.words, LONGEST_WORDS),
    }
    files = {f"specs/{SEARCH}.yaml": SPEC.format(**parts, repo=path, sweep=sweep), **files}
    for name, (title, change) in _ideas(program, folder).items():
        files[f"search/ideas/{name}/idea.md"] = (
            f"IDEA: {title}\n\nRATIONALE: An example: it changes nothing, so it should not be promoted.\n\n"
            f"REQUIRED_CHANGES:\n- {title}\n"
        )
        files[f"search/ideas/{name}/change.patch"] = change
    return files


def _sweep_of_table(program: Program, table: MeasuredTable, env: str) -> str:
    """The keys of a sweep whose program writes the CSV itself."""
    column, *others = table.metrics
    check = "check: as many as `block` has values"
    number = f"{TIMES if table.blocks is None else table.blocks}"
    return SWEEP_OF_TABLE.format(
        command=json.dumps(program.command),
        blocks="" if table.blocks == 0 else f"  blocks: {number:<32}# {check}\n",
        env=env,
        column=column,
        better=program.better,
        alone=ALONE if program.timed else "",
        others=f"  # its other columns: {', '.join(others)}\n" if others else "",
    )


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
        beside = shlex.quote(f"../{os.path.basename(place.folder)}-search")
        where = "" if code == "." else f"cd {shlex.quote(code)}; "
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
    place: RepoLocation, folder: str, program: Program, suite: Suite | None, tested: bool, files: Mapping[str, str]
) -> Iterator[str]:
    """Hide the files from git, if they are inside of it, and say what was found and what comes next."""
    top = os.path.realpath(folder)
    if place.git_dir and f"{top}/".startswith(f"{place.top}/"):
        paths = _hidden_paths(folder, files)
        if changed := _hide_from_git(place, paths):
            added = join_names([f"{path}/" for path in paths if path not in files])
            unseen = f"git does not see these files, nor what comes into {added}"
            yield f"wrote {changed}: {unseen}; remove the lines there to commit them"
    less = "less" if program.better == "lower" else "more"
    yield f"found: {printable_line(program.words, LONGEST_WORDS)}; that is what counts, and {less} of it is better"
    if program.table:
        yield f"check in specs/{SEARCH}.yaml how many blocks it writes, which column counts, and if more is better"
    else:
        bare = "it is run as it is, without arguments and input; if it needs any, they go into COMMAND there"
        yield f"check {SEARCH}/measure.py: {bare}"
    if suite:
        untested = "a pytest suite, but python3 has no pytest: `tests:` is left out"
        yield f"found: {f'a {suite.name} suite, which has to pass (`tests:`)' if tested else untested}"
    else:
        yield "not found: tests, of pytest, unittest, make or a test.sh; `tests:` takes any command"
    yield "next:"
    yield from [] if os.path.samefile(folder, ".") else [f"  cd {shlex.quote(folder)}"]
    yield f"  coppice plan {SEARCH}      # what it would do; starts from the last commit, so commit what is not yet"
    yield f"  coppice {SEARCH}           # do it"


def _hidden_paths(folder: str, files: Iterable[str]) -> list[str]:
    """Paths that git is to overlook: folders of the search, or only its own files where git sees others beside them."""
    paths = [os.path.normpath(f"{folder}/runs")]
    for inner in (os.path.normpath(f"{folder}/{name}") for name in ("specs", SEARCH)):
        listed = users_git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".", cwd=inner)
        own = [path for path in files if path.startswith(f"{inner}/")]
        alone = {f"{inner}/{name}" for name in split_names(listed)} <= set(own)
        paths += [inner] if alone and not os.path.islink(inner) else own
    return paths


def _hide_from_git(place: RepoLocation, paths: list[str]) -> str:
    """Name paths in .git/info/exclude, so that the work tree stays clean; that file, if it was changed."""
    names = (os.path.relpath(os.path.realpath(path), place.top) for path in paths)
    lines = ["/" + re.sub(r"([\\*?[])", r"\\\1", name) for name in names]
    exclude = Path(place.common, "info/exclude")
    text = exclude.read_text(encoding="utf-8", errors="surrogateescape") if exclude.exists() else ""
    missing = [line for line in lines if line not in text.splitlines()]
    if missing:
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("" if not text or text.endswith("\n") else "\n")
            file.writelines(f"{line}\n" for line in missing)
    return str(exclude) if missing else ""
