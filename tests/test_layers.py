"""Imports point inward, and what starts fast imports nothing heavy."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from conftest import ROOT, Project
from searches import Search, command

from pipeline.kinds import stages

PACKAGE = ROOT / "pipeline"
KINDS = ["mcts", "proof", "steps", "tree"]

# What the modules of a layer may import of this package, besides their own layer.
MAY_IMPORT = {
    "core": [],
    "errors": [],
    "edge": ["core", "errors"],
    "spec": ["errors"],
    "declared": ["core", "errors", "spec", "edge.process"],
    "abilities": ["core", "spec"],
    "kinds": ["abilities", "core", "errors", "edge.job", "spec"],
    "steps": ["core", "errors", "declared", "edge.ended", "edge.files", "edge.job", "edge.process", "spec"],
    "tree": [
        "core",
        "errors",
        "declared",
        "edge.confine",
        "edge.ended",
        "edge.files",
        "edge.git",
        "edge.job",
        "edge.process",
        "edge.receipts",
        "edge.roles",
        "edge.state",
        "spec",
        "trust",
    ],
    "trust": [],
    "goals": ["errors"],
    "tactics": ["goals"],
    "mcts": [
        "banks",
        "core",
        "errors",
        "declared",
        "edge.job",
        "edge.lean.model",
        "edge.ledger",
        "edge.process",
        "edge.state",
        "goals",
        "spec",
        "tactics",
        "trust.student",
    ],
    "banks": [
        "core",
        "errors",
        "declared",
        "edge.job",
        "edge.lean",
        "edge.process",
        "goals",
        "spec",
        "tactics",
    ],
    "proof": [
        "banks",
        "core",
        "errors",
        "declared",
        "edge.ended",
        "edge.files",
        "edge.job",
        "edge.lean",
        "edge.ledger",
        "edge.load",
        "edge.process",
        "goals",
        "spec",
        "tactics",
    ],
    "views": ["core"],
    "views.junit": ["core", "views", "edge.files"],  # its file appears whole, like an output
    "build": ["abilities", "core", "errors", "edge", "spec", "kinds", "views", "dodo", "cli"],
    "dodo": [],
    "cli": ["edge.noop", "build.main"],
    "__main__": ["cli"],
}
# They touch nothing of the world, and import of us only each other.
PURE = [
    "core",
    "errors",
    "trust",
    "goals",
    "banks.pages",
    "edge.lean.model",
    "edge.ledger.model",
    "tactics",
    *(f"banks.{name}" for name in ("counterexamples", "plan", "settings")),
    *(f"mcts.{name}" for name in ("as_json", "calls", "centralized", "choices", "clocks", "comparison")),
    *(f"mcts.{name}" for name in ("distributed", "draws", "expanding", "graph", "interventions", "journal", "keys")),
    *(f"mcts.{name}" for name in ("limits", "model", "nodes", "plan", "priors", "refusing", "replaying", "rewards")),
    *(f"mcts.{name}" for name in ("scripts", "settings", "settling", "shown", "splitting", "steering", "tally")),
    *(f"mcts.{name}" for name in ("trace", "tree", "trying", "values")),
    "proof.model",
    *(f"proof.{name}" for name in ("bandits", "effort", "journal", "queues", "replaying", "schedule", "shape")),
    *(f"proof.{name}" for name in ("throttle", "trials")),
    *(f"tree.{name}" for name in ("beam", "budget", "gate", "ideas", "literal_keys", "prompting", "results")),
    *(f"tree.{name}" for name in ("paired", "pairs", "touching", "summary_holdout")),
    *(f"tree.{name}" for name in ("draft", "layout", "model", "outlook", "plan", "positions", "shown")),
    *(f"tree.plan_{part}" for part in ("cascade", "depths", "holdout", "ideas", "protect", "sweeps")),
    *(f"tree.{name}" for name in ("differing", "explaining", "measures", "measures_paired")),
    *(
        f"tree.{name}"
        for name in ("by_config", "rounding", "scoring", "sheet", "slots", "summary", "summary_tables", "tables")
    ),
]
# Only they may import these from outside the standard library.
OUTSIDE = {
    "doit": ["build", "dodo"],
    "yaml": ["spec"],
    "psutil": ["edge.guard", "edge.lean.dojo_process", "edge.lean.memory", "edge.takeover"],
    "git": ["edge.git"],
    "httpx": ["edge.roles"],
    "lean_dojo": ["edge.lean"],
    "numpy": ["trust"],
}
# No files, clock, randomness, processes.
IMPURE = {"asyncio", "datetime", "io", "os", "pathlib", "random", "secrets", "shutil", "signal", "socket", "subprocess"}
IMPURE |= {"concurrent.futures", "tempfile", "threading", "time", "urllib", "uuid"}


def modules() -> Iterator[tuple[str, set[str]]]:
    """Each module's name within the package, and all that it imports anywhere in it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield name, set(imported(ast.parse(path.read_text())))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (PACKAGE.parent / node.module.replace(".", "/")).is_dir()
            yield from ([f"{node.module}.{alias.name}" for alias in node.names] if whole else [node.module])


MODULES = [(name, found) for name, found in modules() if name not in ("__init__", "")]


def within(name: str, places: list[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


@pytest.mark.parametrize(("name", "found"), MODULES, ids=[name for name, _ in MODULES])
def test_imports_point_inward(name: str, found: set[str]) -> None:
    layer = name.partition(".")[0]
    allowed = [layer, *MAY_IMPORT.get(name, MAY_IMPORT[layer])]
    ours = {module.removeprefix("pipeline.") for module in found if module.startswith("pipeline.")}
    assert not [module for module in ours - {"__version__"} if not within(module, allowed)]
    outside = {module.split(".")[0] for module in found} - {"pipeline"} - set(sys.stdlib_module_names)
    assert not [module for module in outside if not within(name, OUTSIDE.get(module, []))]
    if within(name, PURE):
        assert found.isdisjoint(IMPURE)
        assert not [module for module in ours - {"__version__"} if not within(module, PURE)]


def compared_stages(module: str) -> Iterator[object]:
    """All that a module of a kind compares the name of a target's stage with."""
    imported = import_module(f"pipeline.{module}")
    for node in ast.walk(ast.parse(Path(str(imported.__file__)).read_text())):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "stage":
            with_what = ast.Expression(node.comparators[0])
            found = eval(compile(with_what, module, "eval"), vars(imported))
            yield from [found] if isinstance(found, str) else found


@pytest.mark.parametrize("kind", KINDS)
def test_the_stages_that_code_speaks_of_are_those_that_there_are(kind: str) -> None:
    own = [name for name, _ in MODULES if name.startswith(f"{kind}.")]
    spoken = {stage for name in own for stage in compared_stages(name)}
    assert spoken <= stages(kind).keys()
    assert spoken or kind == "steps"


def test_every_layer_and_every_kind_has_a_rule() -> None:
    assert {name.split(".")[0] for name, _ in MODULES} == {rule.split(".")[0] for rule in MAY_IMPORT}
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "shown.py").exists()} == set(KINDS)


def test_the_rules_see_imports_inside_functions_and_of_submodules() -> None:
    text = "def f():\n    from pipeline.store import state\n    import yaml\nfrom pipeline.core.graph import Target\n"
    assert set(imported(ast.parse(text))) == {"pipeline.store.state", "yaml", "pipeline.core.graph"}


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
    assert loaded == {"pipeline", "pipeline.cli", "pipeline.edge", "pipeline.store.noop"}


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
    assert not {"doit", "subprocess", "inspect", "pipeline.machine.job"} & loaded


def test_what_is_going_to_be_done_in_a_search_by_blocks_is_told_without_numpy(project: Project) -> None:
    sweep = command("sh {in} {results} {blocks}", "sweep.sh", blocks=8)
    Search(project, {"a": ":"}, sweep=sweep, metrics={"gain": {"primary": True}})
    ask = "import site; site.main(); from pipeline.commands.main import main; main(['plan', 'x'])"
    loaded = in_python(project, ask)
    assert "pipeline.trust.rule" in loaded
    assert not {"numpy", "httpx", "ctypes"} & loaded


def test_nothing_beside_the_package_is_imported_by_it() -> None:
    beside = ["benchmarks", "examples", "tests", "dodo", "conftest"]
    assert not [(name, module) for name, found in MODULES for module in found if within(module, beside)]


def test_typing_information_is_shipped() -> None:
    assert Path(PACKAGE / "py.typed").exists()


# Of whatever is fetched or started there is an event that Python tells of.
STRICT = """
import sys
STARTS = {"subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system", "socket.connect"}

def refuse(event, args):
    if event in STARTS:
        raise RuntimeError(f"{event} {args[:2]} while tests are collected")

sys.addaudithook(refuse)
"""


def test_nothing_is_fetched_or_started_while_tests_are_collected(tmp_path: Path) -> None:
    """Also by who has nothing in the caches of the home folder yet."""
    (tmp_path / "strict.py").write_text(STRICT)
    own = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "pytest", "-p", "strict", "-p", "no:cacheprovider", "--collect-only", "-q", "tests"]
    collected = subprocess.run(words, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout[-2000:]
    assert not (tmp_path / "cache").exists()
