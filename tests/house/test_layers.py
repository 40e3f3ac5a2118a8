"""The house: which folder may import which, what is pure, and that modules stay few, deep and plainly named.

Each rule collects what breaks it and expects nothing: a failure names the modules. Numbers in capitals are ratchets:
whoever gets below one lowers it."""

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest
from kit.project import ROOT, Project
from kit.searches import Search, command

from pipeline.kinds import stages
from pipeline.lean.toolchain import cache

PACKAGE = ROOT / "pipeline"
KINDS = ["steps", "tree", "proof", "mcts"]

# From the inside out: a folder, or a module at the top, imports only what stands before it.
ORDER = [
    *["errors", "spec", "core", "trust", "tactics/text", "tactics/families", "tactics", "lean", "goals"],
    *["store", "machine", "spec_fields", "spec_engines", "kinds", "git", "models"],
    *["lean/repl", "lean/toolchain", "lean/dojo", "lean/backends", "views/pages", "views"],
    *["steps/spec", "steps"],
    *["tree/rules", "tree/spec", "tree/targets", "tree/run", "tree/report", "tree"],
    *["proof/schedule", "proof/spec", "proof/run", "proof/workers", "proof"],
    *["mcts/search", "mcts/spec", "mcts/report", "mcts"],
    *["engines", "build", "screens", "dodo", "commands", "cli", "__main__"],
]
# They touch nothing of the world, and import of us only each other.
PURE = {"errors", "core", "trust", "tactics", "tactics/text", "tactics/families", "goals", "lean"}
PURE |= {"views/pages", "tree/rules", "tree/targets", "proof/schedule", "proof/spec", "mcts/search", "mcts/report"}
PURE |= {"spec", "spec_fields", "spec_engines", "tree/spec", "steps/spec", "mcts/spec"}  # what a text says
# No files, clock, randomness, processes.
IMPURE = {"asyncio", "datetime", "os", "pathlib", "random", "secrets", "shutil", "signal", "socket", "subprocess"}
IMPURE |= {"concurrent", "tempfile", "threading", "time", "urllib", "uuid"}
# Only they may import these from outside the standard library.
OUTSIDE = {
    "doit": ["build/runner", "commands", "dodo"],
    "yaml": ["spec"],
    "psutil": ["machine/guard", "machine/lock", "lean/repl", "lean/dojo"],
    "git": ["git"],
    "httpx": ["models"],
    "lean_dojo": ["lean/dojo"],
    "numpy": ["trust"],
    "textual": ["screens/terminal"],
    "rich": ["screens/terminal"],  # textual draws with it
    "starlette": ["screens"],
    "uvicorn": ["screens"],
}
# One module each that a rule above leaves out, and why.
BESIDES = {
    ("views/junit", "store"),  # its file appears whole, like an output
    ("commands/run", "cli"),  # `coppice run` asks first, too, whether anything is to be done
    ("spec_fields", "machine"),  # to say which variables of the environment a command may not be given
}
# Say of what, or to whom: `told(x)` is `history_section(node)`.
VAGUE = "told shown found made said asked written ended known kept given taken done seen heard spoken meant passed"
VAGUE += " counted named listed opened parsed settled measured compared noted tried wanted waited looked left stood"
SIDES = {("views/pages/charts", "LEFT")}  # of a picture, not what remains
# A docstring names a thing or what is done: a noun or a verb, no clause.
CLAUSES = "what of whether whoever who"
MOST_MODULES, MOST_IN_FOLDER, LONGEST, SHORTEST = 296, 20, 450, 60
LONGEST_FUNCTION, LONG_FUNCTION = 45, 20  # lines: of any, and of nine in ten
MOST_CLAUSES = 2  # in two files whose bytes are part of the version of Lean

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """A module of the package: its path from there without `.py`, the folder it is in, all it imports anywhere."""

    def __init__(self, file: Path) -> None:
        self.path = file.relative_to(PACKAGE).with_suffix("").as_posix()
        self.folder = self.path.rpartition("/")[0] or self.path
        self.text = file.read_text(encoding="utf-8")
        self.lines = self.text.count("\n")

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed when it is looked at: each process that collects tests imports this."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> set[str]:
        return set(imports(self.tree))

    def __str__(self) -> str:
        return self.path

    @property
    def ours(self) -> Iterator[tuple[str, str]]:
        """The modules of ours that it imports, each with its folder."""
        for name in self.imports:
            path = name.replace(".", "/").removeprefix("pipeline/")
            if name.startswith("pipeline.") and path != "__version__":
                is_folder = (PACKAGE / path).is_dir()
                yield path, path if is_folder else path.rpartition("/")[0] or path

    def functions(self) -> Iterator[Function]:
        """Methods and inner ones, too."""
        yield from (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def names(self) -> Iterator[str]:
        """Functions, classes and constants at the top of it, and the methods of its classes."""
        for node in self.tree.body:
            if isinstance(node, Function | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (inner.name for inner in node.body if isinstance(inner, Function))
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                yield from constants(node)

    def docstrings(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, Function | ast.ClassDef | ast.Module):
                yield ast.get_docstring(node) or ""


def constants(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """Of what is assigned, but for a constant that is its own word: DONE = "done"."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        many = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
        pairs = zip(target.elts, node.value.elts, strict=True) if many else [(target, node.value)]
        for name, value in pairs:
            is_own_word = isinstance(name, ast.Name) and getattr(value, "value", None) == name.id.lower()
            if isinstance(name, ast.Name) and not is_own_word:
                yield name.id


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (PACKAGE.parent / node.module.replace(".", "/")).is_dir()
            yield from ([f"{node.module}.{alias.name}" for alias in node.names] if whole else [node.module])


MODULES = [Module(file) for file in sorted(PACKAGE.rglob("*.py")) if file != PACKAGE / "__init__.py"]
FOLDERS = sorted({file.parent for file in PACKAGE.rglob("__init__.py")} - {PACKAGE})


def within(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def top(path: str) -> str:
    return path.partition("/")[0]


def strays(modules: list[Module], allowed: set[str]) -> list[tuple[str, str]]:
    """Imports from folders that are not allowed, nor an exception."""
    found = [(module.path, path, folder) for module in modules for path, folder in module.ours]
    return [(of, path) for of, path, folder in found if folder not in allowed and (of, folder) not in BESIDES]


@pytest.mark.parametrize("folder", ORDER)
def test_imports_point_inward(folder: str) -> None:
    inside = [module for module in MODULES if module.folder == folder]
    assert inside
    assert not strays(inside, set(ORDER[: ORDER.index(folder) + 1]))


def test_kinds_do_not_know_each_other() -> None:
    found = [(module, path) for module in MODULES if top(module.path) in KINDS for path, _ in module.ours]
    assert not [(str(of), path) for of, path in found if top(path) in KINDS and top(path) != top(of.path)]


def test_what_is_pure_touches_nothing_of_the_world() -> None:
    pure = [module for module in MODULES if module.folder in PURE]
    assert {module.folder for module in pure} == PURE
    assert not [(str(module), name) for module in pure for name in module.imports if name.partition(".")[0] in IMPURE]
    assert not strays(pure, PURE)


def test_views_know_only_what_is_pure_and_each_other() -> None:
    assert not strays([module for module in MODULES if module.folder == "views"], PURE | {"views"})


def test_libraries_stay_in_their_rooms() -> None:
    known = {"pipeline", *sys.stdlib_module_names}
    outside = [(str(m), name.partition(".")[0]) for m in MODULES for name in m.imports]
    assert not [(of, name) for of, name in outside if name not in known and not within(of, OUTSIDE.get(name, []))]


def test_every_exception_is_one_still() -> None:
    assert {(module.path, folder) for module in MODULES for _, folder in module.ours} >= BESIDES


def test_every_folder_has_a_place_and_a_map_of_what_is_in_it() -> None:
    assert {module.folder for module in MODULES} == set(ORDER)
    for folder in FOLDERS:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        inside = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert text.count("\n") >= 2, folder
        assert not [name for name in inside if not re.search(rf"\b{name}\b", text)], folder


def test_kinds_have_the_same_rooms() -> None:
    fronts = [{path.stem for path in (PACKAGE / kind).glob("*.py")} for kind in KINDS]
    assert all({"read", "plan", "stages", "describe"} <= front for front in fronts)
    assert all((PACKAGE / kind / "spec" / "model.py").exists() for kind in KINDS)


def test_modules_are_few_and_deep() -> None:
    inside = [module for module in MODULES if not module.path.endswith("__init__")]
    assert len(MODULES) + 1 <= MOST_MODULES
    assert max(Counter(module.folder for module in MODULES).values()) <= MOST_IN_FOLDER
    assert not [module.path for module in inside if module.lines > LONGEST]
    assert 110 <= statistics.median(module.lines for module in inside) <= 230
    readers = Counter(path for module in MODULES for path, _ in module.ours)
    beside = {path: module.folder for module in MODULES for path, _ in module.ours}
    short = [module for module in inside if module.lines < SHORTEST and readers[module.path] == 1]
    assert not [module.path for module in short if beside[module.path] == module.folder]


def test_a_class_name_stands_once() -> None:
    names = Counter(node.name for module in MODULES for node in module.tree.body if isinstance(node, ast.ClassDef))
    assert not [name for name, times in names.items() if times > 1]


def test_functions_are_seen_whole() -> None:
    lengths = {f"{m}:{f.name}": (f.end_lineno or 0) - f.lineno + 1 for m in MODULES for f in m.functions()}
    assert not [name for name, lines in lengths.items() if lines > LONGEST_FUNCTION]
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= LONG_FUNCTION


def test_names_say_of_what() -> None:
    vague = set(VAGUE.split())
    assert not {(m.path, name) for m in MODULES for name in m.names() if name.lower() in vague} - SIDES


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    first = [(str(m), text.split(maxsplit=1)[0].lower()) for m in MODULES for text in m.docstrings() if text]
    assert len([word for word in first if word[1] in CLAUSES.split()]) <= MOST_CLAUSES


def compared_stages(module: Module) -> Iterator[object]:
    """All that a module of a kind compares the name of a target's stage with."""
    imported = import_module(f"pipeline.{module.path.replace('/', '.').removesuffix('.__init__')}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "stage":
            with_what = ast.Expression(node.comparators[0])
            found = eval(compile(with_what, module.path, "eval"), vars(imported))
            yield from [found] if isinstance(found, str) else found


@pytest.mark.parametrize("kind", KINDS)
def test_the_stages_that_code_speaks_of_are_those_that_there_are(kind: str) -> None:
    own = [module for module in MODULES if module.path.startswith(f"{kind}/")]
    spoken = {stage for module in own for stage in compared_stages(module)}
    assert spoken <= stages(kind).keys()
    assert spoken or kind == "steps"


def test_the_rules_see_imports_inside_functions_and_of_submodules() -> None:
    text = "def f():\n    from pipeline.store import state\n    import yaml\nfrom pipeline.core.graph import Target\n"
    assert set(imports(ast.parse(text))) == {"pipeline.store.state", "yaml", "pipeline.core.graph"}


def in_python(project: Project, program: str) -> set[str]:
    """The modules that `program` has read from files."""
    look = (
        f"import sys; sys.path[0] = {str(ROOT)!r}\n{program}\n"
        "origins = {n: getattr(getattr(m, '__spec__', m), 'origin', '') for n, m in sys.modules.items()}\n"
        "print('loaded:', *(n for n, origin in origins.items() if origin not in ('built-in', 'frozen')))"
    )
    start = [sys.executable, "-I", "-S", project.write("look.py", look)]
    ended = subprocess.run(start, cwd=project.root, capture_output=True, text=True, timeout=60, check=True)
    names = ended.stdout.rpartition("loaded:")[2].split()
    return {name for name in names if name not in ("__main__", "__future__") and not name.startswith("encodings")}


def test_saying_that_nothing_is_to_be_done_imports_only_what_is_built_in(project: Project) -> None:
    project.spec("x", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    for _ in range(2):
        assert project.coppice().returncode == 0
    loaded = in_python(project, "from pipeline.cli import noop; assert noop([])")
    assert loaded == {"pipeline", "pipeline.cli", "pipeline.store", "pipeline.store.noop"}


def test_loading_a_plan_again_imports_no_yaml(project: Project) -> None:
    project.spec("x", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    assert project.coppice().returncode == 0
    loaded = in_python(project, "from pipeline.build import project; assert project.load(['x'])['x'].targets")
    assert "pipeline.build.project" in loaded
    assert not {"yaml", "doit", "pipeline.spec", "pipeline.steps"} & loaded


def test_counting_targets_imports_no_doit_and_nothing_to_start_processes_with(project: Project) -> None:
    project.spec("x", "kind: steps\nsteps: {s: {for: {n: [1, 2]}, run: 'echo > {out}', writes: '{n}'}}\n")
    count = "import site; site.main(); from pipeline.commands.main import main; main(['plan', '--graph-only', 'x'])"
    loaded = in_python(project, count)
    assert {"yaml", "pipeline.steps.plan"} <= loaded
    assert not {"doit", "subprocess", "inspect", "json", "pipeline.core.freshness", "pipeline.machine.job"} & loaded


def test_what_is_going_to_be_done_in_a_search_by_blocks_is_told_without_numpy(project: Project) -> None:
    sweep = command("sh {in} {results} {blocks}", "sweep.sh", blocks=8)
    Search(project, {"a": ":"}, sweep=sweep, metrics={"gain": {"primary": True}})
    ask = "import site; site.main(); from pipeline.commands.main import main; main(['plan', 'x'])"
    loaded = in_python(project, ask)
    assert "pipeline.trust.rule" in loaded
    assert not {"numpy", "httpx", "ctypes"} & loaded


def test_nothing_beside_the_package_is_imported_by_it() -> None:
    beside = ["benchmarks", "examples", "tests", "dodo", "conftest"]
    assert not [
        (module.path, name) for module in MODULES for name in module.imports if name.partition(".")[0] in beside
    ]


def test_tests_of_every_folder_are_collected(request: pytest.FixtureRequest) -> None:
    """pytest leaves out some folders by their names, `build` for one."""
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")}
    options = request.config.getini("norecursedirs")
    assert not [path for path in own if any(Path(path).match(f"*/{pattern}/*") for pattern in options)]
    assert {path.split("/")[1] for path in own} - {"house"} <= {folder.name for folder in FOLDERS}


def test_typing_information_is_shipped() -> None:
    assert Path(PACKAGE / "py.typed").exists()


def is_refused(start: Callable[[], object]) -> bool:
    try:
        start()
    except RuntimeError as error:
        return "while tests are collected" in str(error)
    return False


# These lines are executed while tests are collected.
STARTED = is_refused(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
READ = is_refused((cache.cache_folder() / "anything").open)


def test_nothing_is_fetched_or_started_while_tests_are_collected() -> None:
    """Nor is it read from the cache of somebody who has fetched it before: tests/conftest.py refuses both."""
    assert STARTED
    assert READ
    assert not is_refused(lambda: subprocess.run([sys.executable, "-c", ""], check=True))


def layers_block() -> str:
    """The folders at the top and the modules beside them, from the outside in, each with the first sentence it has."""
    rows = []
    for place in (place for place in reversed(ORDER) if "/" not in place):
        file = PACKAGE / place / "__init__.py" if (PACKAGE / place).is_dir() else PACKAGE / f"{place}.py"
        text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
        rows.append(f"{place:12} {re.split(r'(?<=[.]) ', text)[0]}\n")
    return "".join(rows)


def test_the_page_about_the_architecture_has_the_layers_as_they_are() -> None:
    assert f"```\n{layers_block()}```\n" in (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
