"""Programs that a search can measure, and the tests of a folder: found by names and texts alone, no program is run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    """The CSV that a script writes: its metrics, the first of them the one that counts, and how many blocks it has.

    `blocks`: 0 without a column `block`; None where the script does not say how many there are."""

    metrics: tuple[str, ...]
    blocks: int | None


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
    """What measures and tests from inside a candidate, as entries of `protect:`."""
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
    said = (match[1] for pattern in BLOCKS for match in re.finditer(pattern, text))
    blocks = next((int(number) for number in said if int(number) > 1), None) if "block" in columns else 0
    return MeasuredTable(tuple(metrics), blocks) if metrics else None


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
