"""Which changes touch what is protected, case by case; and that no change at all can make the question fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.protection import FileDifference, GitEntry, ProtectedFiles, imported_modules, void_reason

FILE, RUNNABLE, LINK = "100644", "100755", "120000"
A, B = "a" * 40, "b" * 40
HARNESS = b"import csv\nfrom bench import load\nimport backtest, numpy.linalg\ndef f():\n    from ..up import x\n"
PROTECTED = ProtectedFiles(
    "t" * 40,
    ("sweep.py", "bench/**", "tests", "caf\u00e9.py", "tools/run.py", "Makefile"),
    dict.fromkeys(
        (
            "caf\u00e9.py",
            "sweep.py",
            "tools/run.py",
            "Makefile",
            "bench/deep/load.py",
            "tests/test_a.py",
            "tests/data.csv",
        ),
        (FILE, A),
    ),
    {"sweep.py": imported_modules(HARNESS), "bench/deep/load.py": ["json"], "tests/test_a.py": [], "tools/run.py": []},
)


def added(path: str, mode: str = FILE) -> FileDifference:
    return path, None, (mode, B)


def changed(path: str, mode: str = FILE) -> FileDifference:
    return path, (FILE, A), (mode, B)


VOID = {
    "changed": (changed("sweep.py"), "sweep.py is protected and was changed"),
    "removed": (("sweep.py", (FILE, A), None), "sweep.py is protected and was removed"),
    "mode": (("sweep.py", (FILE, A), (RUNNABLE, A)), "sweep.py is protected and has the mode 100755, not 100644"),
    "link": (changed("sweep.py", LINK), "sweep.py is protected and was replaced by a symbolic link"),
    "folder is a link": (added("bench", LINK), "bench is a symbolic link now, where a folder with protected files is"),
    "folder is a file": (added("bench/deep"), "bench/deep is a file now, where"),
    "added to a pattern": (added("bench/more.txt"), "bench/more.txt was added where all is protected"),
    "with a line break": (added("bench/more\n.txt"), r"bench/more\n.txt was added where all is protected"),
    "added to a folder": (added("tests/test_b.py"), "tests/test_b.py was added where all is protected"),
    "upper case": (added("SWEEP.py"), "SWEEP.py is at the protected sweep.py where upper and lower case are one"),
    "upper case folder": (added("Tests", LINK), "Tests is at the protected tests where upper and lower case are one"),
    "in upper case": (added("Tests/x"), "Tests/x is at the protected tests where upper and lower case are one"),
    "with an accent of its own": (added("Cafe\u0301.py"), "is at the protected caf\u00e9.py where upper and"),
    "makefile": (added("GNUmakefile"), "GNUmakefile is what make reads in place of the protected Makefile"),
    "site": (added("sitecustomize.py"), "sitecustomize.py was added: Python runs it before any program"),
    "user site": (added("lib/usercustomize.py"), "lib/usercustomize.py was added"),
    "conftest": (changed("plus/conftest.py"), "plus/conftest.py was changed: pytest runs it before any test"),
    "pth": (added("lib/x.pth"), "lib/x.pth was added: Python runs it where modules are installed"),
    "ini": (added("pytest.ini"), "pytest.ini was added: it says what a test runner loads and runs"),
    "cfg": (changed("setup.cfg"), "setup.cfg was changed: it says"),
    "project": (changed("pyproject.toml"), "pyproject.toml was changed: it says"),
    "compiled": (added("__pycache__/backtest.cpython-311.pyc"), "was added: compiled code that nobody can read"),
    "in place of a source": (added("lib/backtest.pyc"), "lib/backtest.pyc was added: compiled code"),
    "stdlib": (added("csv.py"), "csv.py takes the place of the module csv, which the protected sweep.py imports"),
    "stdlib of stdlib": (added("types.py"), "types.py takes the place of Python's own module types"),
    "stdlib below": (added("bench/json.py"), "bench/json.py was added where all is protected"),
    "stdlib as package": (added("random/__init__.py"), "random/__init__.py takes the place of Python's own module"),
    "stdlib as a link": (added("random", LINK), "random takes the place of Python's own module random"),
    "package": (
        added("numpy/__init__.py"),
        "takes the place of the module numpy, which the protected sweep.py imports",
    ),
    "package over module": (added("backtest/__init__.py"), "takes the place of the module backtest"),
    "binary": (added("backtest.cpython-311-x86_64-linux-gnu.so"), "takes the place of the module backtest"),
    "submodule": (added("numpy/linalg.py"), "takes the place of the module numpy.linalg"),
    "imported name": (added("bench.py"), "bench.py takes the place of the module bench"),
    "package over what is protected": (
        added("sweep/__init__.py"),
        "sweep/__init__.py takes the place of the module sweep, which the protected sweep.py is part of",
    ),
    "binary over what is protected": (added("sweep.abi3.so"), "takes the place of the module sweep, which"),
    "package around what is protected": (
        added("tools/__init__.py"),
        "takes the place of the module tools, which the protected tools/run.py is part of",
    ),
    "module around what is protected": (added("tools.py"), "takes the place of the module tools, which"),
    "package in that": (added("tools/run/__init__.py"), "takes the place of the module tools.run, which"),
    "relative": (added("up.py"), "up.py takes the place of the module up"),
}
FINE = {
    "makefile elsewhere": added("lib/GNUmakefile"),
    "other file": changed("model.py"),
    "new file": added("plus/new.py"),
    "new module that nobody protected imports": added("newer.py"),
    "a module that is imported and was there": changed("backtest.py"),
    "a module of Python's that was there": changed("csv.py"),
    "a name of Python's elsewhere": added("plus/csv.py"),
    "a folder with no module": added("numpy/readme.txt"),
    "a file without suffix": added("random"),
    "removed": ("conftest.py", (FILE, A), None),
    "longer name": added("sweep.py.txt"),
    "a folder that is no package, which loses against a file": added("sweep/more.py"),
    "beside what is protected": added("tools/more.py"),
    "beside a pattern": added("bench2/x.txt"),
    "two dots": added("csv.old.py"),
}


@pytest.mark.parametrize("name", VOID)
def test_what_touches_it_is_void_and_named(name: str) -> None:
    difference, says = VOID[name]
    why = void_reason(PROTECTED, [changed("model.py"), difference])
    assert why.startswith("void: ")
    assert says in why


@pytest.mark.parametrize("name", FINE)
def test_all_else_may_be_changed(name: str) -> None:
    assert void_reason(PROTECTED, [FINE[name]]) == ""


def test_several_are_told_and_many_are_counted() -> None:
    why = void_reason(PROTECTED, [added(f"tests/{n}") for n in range(5)])
    assert why.count("was added") == 3
    assert why.endswith("(and 2 more)")


def test_imports_are_found_anywhere_in_a_file_and_in_none_that_is_not_python() -> None:
    assert imported_modules(HARNESS) == ["backtest", "bench.load", "csv", "numpy.linalg", "up.x"]
    for text in (b"", b"\0", b"def f(:", b"\xff\xfe", b"(" * 5000, b"# coding: nonsense\n", b"from . import *"):
        assert imported_modules(text) == []


NAMES = st.text(st.characters(codec=None, exclude_characters="\0/"), min_size=1, max_size=8)
PATHS = st.lists(NAMES | st.sampled_from(["bench", "sweep.py", "tests", "__init__.py"]), min_size=1, max_size=4)
ENTRIES: st.SearchStrategy[GitEntry] = st.tuples(st.sampled_from([FILE, RUNNABLE, LINK]), st.sampled_from([A, B]))


@given(PATHS.map("/".join), st.none() | ENTRIES, st.none() | ENTRIES)
def test_any_change_is_answered_on_one_line_of_plain_text(
    path: str, before: GitEntry | None, after: GitEntry | None
) -> None:
    why = void_reason(PROTECTED, [(path, before, after)])
    assert why == "" or why.startswith("void: ")
    assert why.isprintable()
    assert len(why) < 400
