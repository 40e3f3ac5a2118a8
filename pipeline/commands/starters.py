"""Starters: a first search over code, made for what is found in a folder, with recorded ideas that change nothing.

States: looked at (what can be measured, how) -> written (spec, two ideas, and a script that measures unless the program
writes the CSV of a sweep itself) -> hidden from git, whose work tree must stay clean: the files are named in
.git/info/exclude.  No program of the user is run, and nothing that is there is overwritten."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.core.text import printable_line
from pipeline.errors import SpecError
from pipeline.git.repository import RepoLocation, locate_repo

SEARCH = "search"
SKIPPED_SCRIPTS = re.compile(r"(test_.*|.*_test|setup|conftest|noxfile|dodo|__init__)\.py")
# Names of what measures or is to be measured, the likeliest first.
LIKELY = ("bench", "measure", "score", "eval", "train", "model", "run", "main", "search")
COMMENTS = {".py": "#", ".sh": "#", ".c": "//", "Makefile": "#"}
FILES_LOOKED_AT = 2000
# Columns of a sweep's CSV that are no metrics, one that is a time, and one of which less is better.
NO_METRICS = {"config_id", "params", "seed", "status", "error", "block"}
TIME = re.compile(r"sec|time|durat|latency|(^|_)m?s$", re.IGNORECASE)
LESS = re.compile(rf"loss|err|rmse|mse|mae|cost|regret|perplex|drawdown|{TIME.pattern}", re.IGNORECASE)
# What a script says of the number of its blocks, the surest first.
BLOCKS = (r"(?:KFold|ShuffleSplit)\(\s*(\d+)", r"n_splits\s*=\s*(\d+)", r"\bcv\s*=\s*(\d+)", r"range\(\s*(\d+)\s*\)")
NO_FOLDERS = {"node_modules", "venv", "__pycache__", "runs", "build", "dist"}


class Program(NamedTuple):
    """Program that a search can measure: its command and what is built before, a file of it to change, and what counts.

    `number`: how it prints the number that counts; None where its time does.  `table`: it writes the CSV of a sweep
    itself; `script`: the file that measures, if it is one, which is not the one to change where there is another."""

    command: str
    build: str
    file: str
    number: str | None
    words: str
    script: str = ""
    table: MeasuredTable | None = None

    @property
    def timed(self) -> bool:
        return bool(TIME.search(self.table.metrics[0])) if self.table else self.number is None

    @property
    def better(self) -> str:
        """The direction of what counts, as far as its name tells."""
        names = self.table.metrics[:1] if self.table else re.findall(r"[A-Za-z_]+", self.number or "")
        return "lower" if self.timed or any(map(LESS.search, names)) else "higher"


class MeasuredTable(NamedTuple):
    """The CSV that a script writes: its metrics, the first of them the one that counts, and how many blocks it has.

    `blocks`: 0 without a column `block`; None where the script does not say how many there are."""

    metrics: tuple[str, ...]
    blocks: int | None


class Suite(NamedTuple):
    """Tests of a folder: what runs them, and its name."""

    command: tuple[str, ...]
    name: str


def find_program(folder: str) -> tuple[Program | None, Suite | None]:
    """The program in a folder, and its tests.  By names and texts alone: nothing is run."""
    top = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    suite = _find_suite(folder)
    found = [*_scripts(folder, top), *_compiled(folder, top)]
    if found:
        best = min(found, key=lambda each: (each.table is None, *_likeliness(each.file)))
        return best._replace(file=_file_to_change(folder, top, best)), suite
    if suite:
        file = next((name for name in top if name.endswith(".py")), "")
        return Program(" ".join(suite.command), "", file, None, f"the time of its {suite.name} suite"), suite
    return None, suite


def _find_suite(folder: str) -> Suite | None:
    """The tests of a folder: a plain unittest suite in one folder is run by unittest, anything else by pytest."""
    paths = [path for path in _paths_below(folder) if re.fullmatch(r"test_.*\.py|.*_test\.py", os.path.basename(path))]
    texts = [_text(folder, path) for path in paths]
    places = {os.path.dirname(path) for path in paths}
    plain = all(re.search(r"^\s*(?:import|from) unittest\b", text, re.MULTILINE) for text in texts)
    named = all(os.path.basename(path).startswith("test_") for path in paths)
    if not paths:
        return None
    if not plain or not named or len(places) > 1 or any(re.search(r"\bpytest\b", text) for text in texts):
        return Suite(("python3", "-m", "pytest", "-q"), "pytest")
    (place,) = places
    below = ("discover", "-s", place) if place else ()
    return Suite(("python3", "-m", "unittest", *below), "unittest")


def _paths_below(folder: str) -> Iterator[str]:
    count = 0
    for at, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in NO_FOLDERS)
        count += len(names)
        paths = (f"{at}/{name}" for name in names if os.path.isfile(f"{at}/{name}"))  # not what nobody can read
        yield from (os.path.normpath(os.path.relpath(path, folder)) for path in paths)
        if count > FILES_LOOKED_AT:
            return


def _file_to_change(folder: str, names: list[str], program: Program) -> str:
    """The file that an example changes: not the script that measures, if there is another of its kind.

    One that the script imports comes first."""
    if not program.script:
        return program.file
    ending = Path(program.script).suffix
    others = [n for n in names if n.endswith(ending) and n != program.script and not SKIPPED_SCRIPTS.fullmatch(n)]
    imported = re.findall(r"^\s*(?:from|import)\s+(\w+)", _text(folder, program.script), re.MULTILINE)
    return next((n for n in (*(f"{name}.py" for name in imported), *others) if n in others), program.script)


def _likeliness(file: str) -> tuple[int, str]:
    stem = Path(file).stem.lower()
    return next((n for n, word in enumerate(LIKELY) if stem.startswith(word)), len(LIKELY)), file


def _scripts(folder: str, names: list[str]) -> Iterator[Program]:
    for name in names:
        text = _text(folder, name) if name.endswith((".py", ".sh")) else ""
        word = _quoted(name)
        if name.endswith(".py") and not SKIPPED_SCRIPTS.fullmatch(name) and ("__main__" in text or "print(" in text):
            printed = re.findall(r"\bprint\((.*?)\)[ \t]*(?:#.*)?$", text, re.MULTILINE | re.DOTALL)
            number = "".join(printed[-1:]) if "print(" in text else None
            if table := _find_table(text):
                to = "" if "AGENTIC_RESULTS_CSV" in text else ' "{results}"' if "sys.argv" in text else ' > "{results}"'
                words = f"{table.metrics[0]}, a column of the CSV that {name} writes"
                yield Program(f"python3 {word}{to}", "", name, number, words, name, table)
                continue
            what = "its time" if number is None else "the last number that it prints"
            yield Program(f"python3 {word}", "", name, number, f"{what}, {name} being a Python script", name)
        elif name.endswith(".sh"):
            yield Program(f"sh {word}", "", name, None, f"the time of {name}, a shell script", name)


def _find_table(text: str) -> MeasuredTable | None:
    """The CSV of a sweep that a script writes, by the header that stands in it as one string or as a list."""
    line = re.search(r"""["'](config_id(?:,\w+)+)(?:\\[rn])*["']""", text)
    listed = re.search(r"""[\[(]\s*(["']config_id["'](?:\s*,\s*["']\w+["'])+)\s*,?\s*[\])]""", text)
    if not (found := line or listed):
        return None
    columns = re.findall(r"\w+", found[1])
    metrics = sorted((name for name in columns if name not in NO_METRICS), key=lambda name: bool(TIME.search(name)))
    said = (match[1] for pattern in BLOCKS for match in re.finditer(pattern, text))
    blocks = next((int(number) for number in said if int(number) > 1), None) if "block" in columns else 0
    return MeasuredTable(tuple(metrics), blocks) if metrics else None


def _compiled(folder: str, names: list[str]) -> Iterator[Program]:
    sources = [name for name in names if name.endswith(".c")]
    if "Makefile" in names:
        targets = re.findall(r"^([\w.-]+)\s*:(?!=)", _text(folder, "Makefile"), re.MULTILINE)
        file = sources[0] if sources else "Makefile"
        if aim := next((name for name in ("bench", "run") if name in targets), ""):
            yield Program(f"make -s {aim}", "make -s", file, None, f"the time of `make {aim}`")
        elif made := next((name for name in targets if f"{name}.c" in sources), ""):
            yield Program(f"./{made}", "make -s", file, None, f"the time of {made}, which make builds")
        else:
            yield Program("make -s -B", "", file, None, "the time of `make`")
    elif len(sources) == 1:
        build = f"cc -O2 -o coppice-program {_quoted(sources[0])}"
        yield Program("./coppice-program", build, sources[0], None, f"the time of {sources[0]}, a C program")


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
{sweep}"""
SWEEP = """\
sweep:
  run: [python3, "{{in}}", "{{results}}"{seed}]   # runs in each candidate's checkout
  reads: search/measure.py                # the file to change when something else counts
  configs: 1
  blocks: {times}{seeded}
  timeout: 10m
{alone}
metrics:
  {column}: {{primary: true, better: {better}}}{check}
"""
SWEEP_OF_TABLE = """\
sweep:
  run: {command}   # runs in each candidate's checkout
  configs: 1                              # check: as many as `config_id` has values
{blocks}  timeout: 10m
{alone}
protect: [{script}]   # what measures is out of a candidate's reach

metrics:
  {column}: {{primary: true, better: {better}}}   # check: the column that counts, and if more of it is better
{others}"""
TESTS = """
tests:                                    # must pass before anything is measured
  run: [{command}]
  timeout: 10m
"""
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
    files = {}
    if program.table:
        sweep = _sweep_of_table(program, program.table)
    else:
        column, check = ("seconds", "") if program.timed else ("value", "   # check: if more of it is better")
        seed, seeded = SEED_OF_TIMES if program.timed else ("", "")
        timing = {"seed": seed, "seeded": seeded, "times": TIMES, "alone": ALONE if program.timed else ""}
        sweep = SWEEP.format(**timing, column=column, better=program.better, check=check)
        measure = MEASURE.format(build=program.build, command=program.command, times=TIMES, column=column)
        files["search/measure.py"] = measure
    tested = TESTS.format(command=", ".join(map(json.dumps, tests.command))) if tests else ""
    words = printable_line(program.words, LONGEST_WORDS)
    files = {f"specs/{SEARCH}.yaml": SPEC.format(words=words, repo=path, tests=tested, sweep=sweep), **files}
    for name, (title, change) in _ideas(program, folder).items():
        files[f"search/ideas/{name}/idea.md"] = (
            f"IDEA: {title}\n\nRATIONALE: An example: it changes nothing, so it should not be promoted.\n\n"
            f"REQUIRED_CHANGES:\n- {title}\n"
        )
        files[f"search/ideas/{name}/change.patch"] = change
    return files


def _sweep_of_table(program: Program, table: MeasuredTable) -> str:
    """The keys of a sweep whose program writes the CSV itself."""
    column, *others = table.metrics
    check = "check: as many as `block` has values"
    number = f"{TIMES if table.blocks is None else table.blocks}"
    return SWEEP_OF_TABLE.format(
        command=json.dumps(program.command),
        blocks="" if table.blocks == 0 else f"  blocks: {number:<32}# {check}\n",
        script=json.dumps(program.script),
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
        paths = [*files, os.path.normpath(f"{folder}/runs")]
        if changed := _hide_from_git(place, paths):
            yield f"wrote {changed}: git does not see these files; remove the lines there to commit them"
    less = "less" if program.better == "lower" else "more"
    yield f"found: {printable_line(program.words, LONGEST_WORDS)}; that is what counts, and {less} of it is better"
    if program.table:
        yield f"check in specs/{SEARCH}.yaml how many blocks it writes, which column counts, and if more is better"
    if suite:
        untested = "a pytest suite, but python3 has no pytest: `tests:` is left out"
        yield f"found: {f'a {suite.name} suite, which has to pass (`tests:`)' if tested else untested}"
    else:
        yield "not found: a pytest or unittest suite; `tests:` takes any command"
    yield "next:"
    yield from [] if os.path.samefile(folder, ".") else [f"  cd {shlex.quote(folder)}"]
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
