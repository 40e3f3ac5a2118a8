"""Starters: a first search over code, made for what is found in a folder, with recorded ideas that change nothing.

What can be measured, how, and what tests it, is found by names and texts alone: nothing is run, and nothing written.
The files are a spec, two ideas, and a script that measures unless the program writes the CSV of a sweep itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.core.text import printable_line

SEARCH = "search"
COMMENTS = {".py": "#", ".sh": "#", ".c": "//", "Makefile": "#"}
MAKEFILE = "Makefile"
SOURCES = (".py", ".c", ".sh")
SKIPPED_SCRIPTS = re.compile(r"(test_.*|.*_test|setup|conftest|noxfile|dodo|__init__)\.py")
TEST_SCRIPTS = ("test.sh", "tests.sh", "run_tests.sh", "run-tests.sh", "runtests.sh")
TEST_NAME = re.compile(r"(^|[/_-])tests?[/_.-]")
PYTHON_PACKAGE = {"pyproject.toml", "setup.py", "setup.cfg"}
MOST_TEST_PLACES = 6
# Names of what measures or is to be measured, the likeliest first.
LIKELY = ("bench", "measure", "score", "eval", "train", "model", "run", "main", "search")
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
    itself; `script`: the file that measures or builds, if it is one; it may be the one to change, too."""

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
    """The CSV that a script writes: its metrics, the first of them the one that counts, and its blocks, as in a spec.

    `blocks`: empty without a column `block`."""

    metrics: tuple[str, ...]
    blocks: str


class Suite(NamedTuple):
    """Tests of a folder: the line that runs them, their name, and where they are, as entries of `protect:`."""

    command: str
    name: str
    places: tuple[str, ...]


def find_program(folder: str) -> tuple[Program | None, Suite | None]:
    """The program in a folder, and its tests.  By names and texts alone: nothing is run."""
    top = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    targets = _make_targets(folder, top)
    found = [*_scripts(folder, top), *_compiled(top, targets)]
    best = min(found, key=_rank) if found else None
    suite = _find_suite(folder, top, targets, best)
    if best:
        return best._replace(file=_file_to_change(folder, top, best)), suite
    source = next((name for name in top if name.endswith((".py", ".c")) and not SKIPPED_SCRIPTS.fullmatch(name)), "")
    if suite:
        build = suite.command if suite.command.startswith("make ") else ""
        return Program(suite.command, build, source, None, f"the time of its {suite.name} suite"), suite
    if MAKEFILE in top:
        return Program("make -s -B", "", source, None, "the time of `make`", MAKEFILE), suite
    return None, suite


def protected_paths(program: Program, suite: Suite | None) -> list[str]:
    """Entries of `protect:`: what measures and tests from inside a candidate."""
    paths = dict.fromkeys((program.script, *(suite.places if suite else ())))
    return [path for path in paths if path not in ("", program.file)]


def has_src_layout(folder: str) -> bool:
    """Check for packages in `src/`, where Python finds them only if told, or an installed copy in their place."""
    return any(path.startswith("src/") and path.endswith(".py") for path in _paths_below(folder))


def _find_suite(folder: str, top: list[str], targets: list[str], best: Program | None) -> Suite | None:
    """The tests of a folder: those of make where it makes the program, else of Python; a script where there are none.

    Without a program, make has the first word, except in a Python package."""
    paths = list(_paths_below(folder))
    made = best.script == MAKEFILE if best else not PYTHON_PACKAGE.intersection(top)
    by_make = _make_suite(folder, targets, paths)
    if suite := (by_make if made else None) or _python_suite(folder, paths) or by_make:
        return suite
    if script := next((name for name in TEST_SCRIPTS if name in top), ""):
        line, places = f"{_shell(folder, script)} {script}", (script, *_tests_named_in(folder, script, paths))
        if best and best.script == MAKEFILE:
            return Suite(f"{best.build} && {line}", script, (MAKEFILE, *places))
        return Suite(line, script, places)
    return None


def _make_suite(folder: str, targets: list[str], paths: list[str]) -> Suite | None:
    target = next((name for name in ("test", "check") if name in targets), "")
    places = (MAKEFILE, *_tests_named_in(folder, MAKEFILE, paths)) if target else ()
    return Suite(f"make -s {target}", f"`make {target}`", places) if target else None


def _tests_named_in(folder: str, file: str, paths: list[str]) -> tuple[str, ...]:
    words = (os.path.normpath(word) for word in re.findall(r"[\w./+-]+", _text(folder, file)))
    return tuple({word: 1 for word in words if word in paths and word.endswith(SOURCES) and TEST_NAME.search(word)})


def _python_suite(folder: str, paths: list[str]) -> Suite | None:
    """The Python tests among the files: a plain unittest suite in one folder is run by unittest, else by pytest."""
    paths = [path for path in paths if re.fullmatch(r"test_.*\.py|.*_test\.py", os.path.basename(path))]
    if not paths:
        return None
    texts = [_text(folder, path) for path in paths]
    folders = {os.path.dirname(path) for path in paths}
    plain = all(re.search(r"^\s*(?:import|from) unittest\b", text, re.MULTILINE) for text in texts)
    named = all(os.path.basename(path).startswith("test_") for path in paths)
    places = tuple({re.sub(r"^((?:[^/]+/)*?tests?)/.*", r"\1/**", path, flags=re.DOTALL): 1 for path in paths})
    if len(places) > MOST_TEST_PLACES or not all(re.fullmatch(r"[\w./*+-]+", place) for place in places):
        places = ()
    if not plain or not named or len(folders) > 1 or any(re.search(r"\bpytest\b", text) for text in texts):
        return Suite("python3 -m pytest -q", "pytest", places)
    (folder,) = folders
    return Suite(
        f"python3 -m unittest discover -s {quoted(folder)}" if folder else "python3 -m unittest", "unittest", places
    )


def _paths_below(folder: str) -> Iterator[str]:
    count = 0
    for at, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in NO_FOLDERS)
        inner[:] = [name for name in inner if not os.path.exists(f"{at}/{name}/pyvenv.cfg")]
        count += len(names)
        paths = (f"{at}/{name}" for name in names if os.path.isfile(f"{at}/{name}"))  # not what nobody can read
        yield from (os.path.normpath(os.path.relpath(path, folder)) for path in paths)
        if count > FILES_LOOKED_AT:
            return


def _file_to_change(folder: str, top: list[str], program: Program) -> str:
    """The file that an example changes: one that a script uses comes before the script; empty where none is known."""
    if program.script in ("", MAKEFILE):
        return program.file
    text = _text(folder, program.script)
    if program.script.endswith(".py"):
        words = re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE)
        names = [f"{word}.py" for word in words]
        measures = any(os.path.isdir(f"{folder}/{place}{word}") for word in words for place in ("", "src/"))
    else:
        names = [name for word in re.findall(r"[\w.+-]+", text) for name in (word, f"{word}.c")]
        measures = False
    used = (name for name in names if name in top and name.endswith(SOURCES) and name != program.script)
    none = "" if measures or program.table else program.script
    return next((name for name in used if not SKIPPED_SCRIPTS.fullmatch(name)), none)


def _rank(program: Program) -> tuple[bool, int, str]:
    name = "bench" if program.command == "make -s bench" else program.file or MAKEFILE
    return program.table is None, *_likeliness(name)


def _likeliness(file: str) -> tuple[int, str]:
    stem = Path(file).stem.lower()
    return next((n for n, word in enumerate(LIKELY) if stem.startswith(word)), len(LIKELY)), file


def _scripts(folder: str, names: list[str]) -> Iterator[Program]:
    for name in names:
        text = _text(folder, name) if name.endswith((".py", ".sh")) else ""
        word = quoted(name)
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
        elif name.endswith(".sh") and name not in TEST_SCRIPTS:
            yield Program(f"{_shell(folder, name)} {word}", "", name, None, f"the time of {name}, a shell script", name)


def _find_table(text: str) -> MeasuredTable | None:
    """The CSV of a sweep that a script writes, by the header that stands in it as one string or as a list."""
    line = re.search(r"""["'](config_id(?:,\w+)+)(?:\\[rn])*["']""", text)
    listed = re.search(r"""[\[(]\s*(["']config_id["'](?:\s*,\s*["']\w+["'])+)\s*,?\s*[\])]""", text)
    if not (found := line or listed):
        return None
    columns = re.findall(r"\w+", found[1])
    metrics = sorted((name for name in columns if name not in NO_METRICS), key=lambda name: bool(TIME.search(name)))
    return MeasuredTable(tuple(metrics), _find_blocks(text) if "block" in columns else "") if metrics else None


def _find_blocks(text: str) -> str:
    """The blocks that a script has by its text, as in a spec; `TIMES` where it does not say how many."""
    said = (match[1] for pattern in BLOCKS for match in re.finditer(pattern, text))
    folds = next((int(number) for number in said if int(number) > 1), None)
    if not re.search(r"\bRepeated\w*KFold\(", text):
        return str(folds or TIMES)
    named = re.search(r"n_repeats\s*=\s*(\d+)|\bRepeated\w*KFold\(\s*\d+\s*,\s*(\d+)", text)
    repeats = int(named[1] or named[2]) if named else 10  # as scikit-learn does without a word, of 5 folds
    return f"{{ids: {(folds or 5) * repeats}, repeats: {repeats}}}"


def _make_targets(folder: str, top: list[str]) -> list[str]:
    text = _text(folder, MAKEFILE) if MAKEFILE in top else ""
    lines = re.findall(r"^([\w.-][\w. -]*?)[ \t]*:(?!=|:=)", text, re.MULTILINE)
    return [name for line in lines for name in line.split() if not name.startswith(".")]


def _compiled(top: list[str], targets: list[str]) -> Iterator[Program]:
    sources = [name for name in top if name.endswith(".c")]
    made = next((name for name in targets if f"{name}.c" in sources), "")
    # What `make` alone does is known by its first target: it may install the candidate.
    builds = targets[:1] in (["all"], ["build"], [made])
    if aim := next((name for name in ("bench", "run") if name in targets), ""):
        command, file = f"make -s {aim}", f"{made}.c" if made else next(iter(sources), "")
        yield Program(command, "make -s" if builds else command, file, None, f"the time of `make {aim}`", MAKEFILE)
    elif made:
        build = "make -s" if builds else f"make -s {made}"
        yield Program(f"./{made}", build, f"{made}.c", None, f"the time of {made}, which make builds", MAKEFILE)
    elif len(sources) == 1 and not targets:
        build = f"cc -O2 -o coppice-program {quoted(sources[0])}"
        yield Program("./coppice-program", build, sources[0], None, f"the time of {sources[0]}, a C program")


def _shell(folder: str, script: str) -> str:
    return "bash" if re.match(r"#!.*\bbash\b", _text(folder, script)) else "sh"


def quoted(name: str) -> str:
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
    told = re.sub(r"(\\+/-|\\+-|±)\\s*[\\d.eE+-]+", "", done.stdout)  # how sure a number is does not count
    return seconds, re.findall(r"[-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?", told)


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
{apart}sweep:
  run: [python3, "{{in}}", "{{results}}"{seed}]   # runs in each candidate's checkout
  reads: search/measure.py                # the file to change when something else counts
  configs: 1
{blocks}{seeded}
{env}  timeout: 10m
{alone}
metrics:
  {column}: {{primary: true, better: {better}}}{check}
"""
SWEEP_OF_TABLE = """\
{apart}sweep:
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
UNTIMED = {
    "alone": "",
    "apart": "# If another program can score what it does: `answer:` and `judge:` in place of `run:`, see docs/tree.md\n",
}
TIMES = 8
OF_TIMES = f"  blocks: {TIMES}"
OF_NUMBERS = f"{OF_TIMES:<42}# equal numbers are nothing to judge: then none of this, and TIMES = 1"
LONGEST_WORDS = 300
TIMED = {
    "apart": "",
    "alone": "  exclusive: true                         # it times things: nothing else of yours runs beside it\n",
}
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
        timing = {
            "seed": seed,
            "seeded": seeded,
            "blocks": OF_TIMES if program.timed else OF_NUMBERS,
            **(TIMED if program.timed else UNTIMED),
        }
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
    return SWEEP_OF_TABLE.format(
        command=json.dumps(program.command),
        blocks=f"  blocks: {table.blocks:<32}# {check}\n" if table.blocks else "",
        env=env,
        column=column,
        better=program.better,
        **(TIMED if program.timed else UNTIMED),
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
