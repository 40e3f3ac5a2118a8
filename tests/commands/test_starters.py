"""coppice init --kind tree: a first search over what is found, which runs as it is and leaves git's work tree clean."""

import os
from pathlib import Path

import pytest
from kit.gitting import run_git, write
from test_init import coppice, files, init

from pipeline.commands.starters import find_program, search_files

PYTHON = {"train.py": 'print("accuracy", 0.75, "+/-", 0.02)\n', "README": "A model.\n"}
C = {
    "fast.c": '#include <stdio.h>\nint main(void) { puts("fast"); }\n',
    "Makefile": "fast: fast.c\n\tcc -o fast fast.c\n",
}
SHELL = {"bench.sh": "echo done\n"}
BENCH = {
    "fast.c": C["fast.c"],
    "fast_test.c": "int main(void) { return 0; }\n",
    "Makefile": "all: fast\n\ntest check: fast\n\tcc -o t fast_test.c && ./t\n\nbench: fast\n\t./fast\n",
    "bench.sh": "./fast\n",
}
SRC = {
    "src/total/__init__.py": "ONE = 1\n",
    "tests/test_total.py": "from total import ONE\n\n\ndef test_it() -> None:\n    assert ONE == 1\n",
    "Makefile": "install:\n\tfalse\n\ntest:\n\tfalse\n",
    "pyproject.toml": "",
    "env/pyvenv.cfg": "",
    "env/lib/tests/test_numpy.py": "",
}
SHAPES = {
    "python": (PYTHON, "the last number that it prints, train.py", "value: {primary: true, better: higher}"),
    "loss": (
        {"train.py": 'print("accuracy", 0.75)\nprint(\n    f"test_loss: {0.3}"\n)  # the last one\n'},
        "the last number that it prints, train.py being a Python script; that is what counts, and less of it is better",
        "value: {primary: true, better: lower}   # check: if more of it is better",
    ),
    "c": (C, "the time of fast, which make builds", "seconds: {primary: true, better: lower}"),
    "shell": (SHELL, "the time of bench.sh, a shell script", "seconds: {primary: true, better: lower}"),
    "suite": (
        {"code.py": "ONE = 1\n", "tests/test_code.py": "def test_it() -> None:\n    assert True\n"},
        "the time of its pytest suite",
        "seconds: {primary: true, better: lower}",
    ),
}

EVALUATE = """\
from sklearn.model_selection import KFold, cross_val_score

from model import make_model

scores = cross_val_score(make_model(), cv=KFold(20, shuffle=True))
print("config_id,status,block,seconds,accuracy")
"""
# The script of docs/first-search.md, without what it imports.
TABLE = {
    "evaluate.py": 'from model import GAIN\nprint("config_id,status,block,seconds,loss")\n'
    'for block in range(6):\n    print(f"0,ok,{block},1.5,{GAIN + block}")\n',
    "model.py": "GAIN = 1\n",
    "tests/test_model.py": "import unittest\n\nfrom model import GAIN\n\n\nclass Tests(unittest.TestCase):\n"
    "    def test_it(self) -> None:\n        self.assertEqual(GAIN, 1)\n",
}


def repository(folder: Path, content: dict[str, str]) -> Path:
    folder.mkdir()
    write(folder, content)
    run_git(folder, "init", "--quiet")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message=Start")
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_a_first_search_is_made_for_what_is_there(tmp_path: Path, shape: str) -> None:
    content, words, metric = SHAPES[shape]
    folder = repository(tmp_path / "code", content)
    said = init(folder, "--kind", "tree")
    assert (said.returncode, said.stderr) == (0, "")
    assert f"found: {words}" in said.stdout
    assert ("coppice calibrate search" in said.stdout) is metric.startswith("seconds")
    assert "check search/measure.py: it is run as it is, without arguments and input" in said.stdout
    spec = (folder / "specs/search.yaml").read_text()
    assert metric in spec
    assert ("equal numbers are nothing to judge" in spec) is metric.startswith("value")
    assert ("\n  exclusive: true " in spec) is metric.startswith("seconds"), "what is timed runs alone"
    assert run_git(folder, "status", "--porcelain") == ""
    assert coppice(folder, "plan").returncode == 0


PROTECTED: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "make": (
        BENCH,
        ("BUILD = 'make -s'", "COMMAND = 'make -s bench'", 'run: "make -s test"', "+++ b/fast.c"),
        '["Makefile", "fast_test.c"]',
    ),
    "make that installs": (
        {"Makefile": "install:\n\tfalse\n\nbench:\n\ttrue\n"},
        ("BUILD = 'make -s bench'", "COMMAND = 'make -s bench'"),
        '["Makefile"]',
    ),
    "script that tests": (
        C | {"test.sh": "#!/bin/bash\n./fast\n"},
        ("COMMAND = './fast'", 'run: "make -s && bash test.sh"', "+++ b/fast.c"),
        '["Makefile", "test.sh"]',
    ),
    "package": (
        SRC,
        ("COMMAND = 'python3 -m pytest -q'", 'run: "python3 -m pytest -q"', "  env: {PYTHONPATH: src} "),
        '["tests/**"]',
    ),
    "script that measures": (
        PYTHON | {"train.py": "import layers\nprint(layers.SIZE)\n", "layers.py": "SIZE = 3\n", "plot.py": ""},
        ("COMMAND = 'python3 train.py'", "+++ b/layers.py"),
        '["train.py"]',
    ),
    "script with a package": (
        {"train.py": "from net import SIZE\nprint(SIZE)\n", "net/__init__.py": "SIZE = 3\n"},
        ("+++ b/coppice-note-2.md",),
        '["train.py"]',
    ),
    "script that is all": (PYTHON | {"plot.py": ""}, ("+++ b/train.py",), ""),
    "a table of itself": (
        {"evaluate.py": 'print("config_id,status,accuracy")\n'},
        ("+++ b/coppice-note-2.md",),
        '["evaluate.py"]',
    ),
}


@pytest.mark.parametrize("shape", PROTECTED)
def test_what_measures_and_tests_is_found_and_out_of_reach_of_what_is_changed(tmp_path: Path, shape: str) -> None:
    content, words, protected = PROTECTED[shape]
    write(tmp_path, content)
    program, suite = find_program(str(tmp_path))
    assert program is not None
    text = "".join(search_files(program, str(tmp_path), ".", suite).values())
    for word in words:
        assert word in text
    assert f"protect: {protected}\n" in text if protected else "protect:" not in text


def test_what_is_no_file_is_not_looked_into(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", PYTHON)
    (folder / "test_gone.py").symlink_to("nowhere")
    os.mkfifo(folder / "test_pipe.py")
    assert find_program(str(folder))[1] is None


@pytest.mark.parametrize("name", ["we: ird #1", "123", "- x", "no", "'q\" {a} ü", "line\nbreak"])
def test_any_name_of_a_folder_and_of_a_program_will_do(tmp_path: Path, name: str) -> None:
    repository(tmp_path / name, {f"{name}.sh": "echo done\n"})
    said = init(tmp_path, "search of it", "--kind", "tree", "--repo", name)
    assert (said.returncode, said.stderr) == (0, "")
    assert "\n  cd 'search of it'\n" in said.stdout
    planned = coppice(tmp_path / "search of it", "plan")
    assert planned.returncode == 0, planned.stderr


def test_specs_and_ideas_that_are_added_leave_the_work_tree_clean_and_nothing_else_is_hidden(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", C | {"search/own.c": "", "specs/notes.md": "Ours.\n"})
    run_git(folder, "rm", "--quiet", "--cached", "search/own.c", "specs/notes.md")
    run_git(folder, "commit", "--quiet", "--message=Not yet")
    init(folder, "--kind", "tree")
    assert run_git(folder, "status", "--porcelain", "--untracked-files=all").split() == [
        *("??", "search/own.c", "??", "specs/notes.md")
    ], "what somebody else wrote is seen"
    inner = folder / "in[n]er"
    inner.mkdir()
    said = init(inner, "--kind", "tree", "--repo", "..")
    assert "git does not see these files, nor what comes into runs/, specs/, search/;" in said.stdout
    write(inner, {"specs/more.yaml": "", "search/ideas/3/idea.md": "", "runs/x": ""})
    assert "in[n]er" not in run_git(folder, "status", "--porcelain")


@pytest.mark.parametrize("shape", ["python", "c"])
def test_it_runs_to_its_end_and_promotes_none_of_the_changes_that_change_nothing(tmp_path: Path, shape: str) -> None:
    folder = repository(tmp_path / "code", SHAPES[shape][0])
    init(folder, "--kind", "tree")
    built = coppice(folder)
    assert built.returncode == 0, built.stderr
    assert "Evaluations: 2 completed, 0 failed" in built.stderr
    assert shape != "python" or "the start: value 0.75." in built.stderr, "not the 0.02 behind it"
    assert run_git(folder, "status", "--porcelain") == ""
    assert coppice(folder).stdout.startswith("up to date")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", PYTHON)
    init(folder, "--kind", "tree")
    before = files(folder)
    said = init(folder, "--kind", "tree")
    assert said.returncode == 2
    assert said.stderr == "coppice: init: specs/search.yaml is there already; nothing was written\n"
    assert files(folder) == before


def test_a_plain_folder_gets_its_project_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    write(folder, SHELL)
    said = init(folder, "--kind", "tree")
    assert said.returncode == 2
    assert said.stderr.endswith("coppice init ../code-search --kind tree --repo .\n")
    assert files(folder) == SHELL
    said = init(folder, *said.stderr.rpartition("coppice init ")[2].split())
    assert said.returncode == 0, said.stderr
    assert files(folder) == SHELL
    assert coppice(tmp_path / "code-search").returncode == 0


WRONG = {
    ("--kind", "prof"): "there is no kind 'prof'; did you mean 'proof'?",
    ("--kind", "three"): "there is no kind 'three'; did you mean 'tree'?",
    ("--repo", "."): "--repo is for a search over code; add --kind tree",
    ("--kind", "tree", "--repo", "none"): "none is no folder; name one that holds the code",
    (
        "--kind",
        "tree",
    ): "no Python or shell script, C program or Makefile at the top of it, and no tests of pytest or un",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_mistake_takes_one_line_and_writes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = repository(tmp_path / "code", {"README": "Nothing else.\n"})
    said = init(folder, *words)
    assert said.returncode == 2
    assert WRONG[words] in said.stderr
    assert said.stderr.count("\n") == 1
    assert files(folder).keys() == {"README"}


def test_the_lines_for_a_model_are_a_search_and_a_timed_one_can_be_calibrated(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", SHELL)
    init(folder, "--kind", "tree")
    spec = folder / "specs/search.yaml"
    text = spec.read_text()
    recorded = text[text.index("roles: ") : text.index("# For a model")]
    lines = text[text.index("# roles:") : text.index("# budget: ")]
    with_model = text.replace(recorded, "").replace(lines, lines.replace("# ", ""))
    spec.write_text(with_model.replace("# budget: ", "budget: "))
    planned = coppice(folder, "plan", "search")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "budget: 5.00 USD" in planned.stdout
    spec.write_text(text)
    found = coppice(folder, "calibrate", "search", "--seeds", "1", "--depths", "100")
    assert found.returncode == 0, found.stderr
    assert "2 measurements of the root, each with its seed" in found.stdout


def test_a_script_that_writes_the_csv_of_a_sweep_is_used_as_it_is_and_out_of_reach(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", TABLE)
    said = init(folder, "--kind", "tree")
    assert (said.returncode, said.stderr) == (0, "")
    assert "found: loss, a column of the CSV that evaluate.py writes" in said.stdout
    assert "found: a unittest suite, which has to pass" in said.stdout
    assert not (folder / "search/measure.py").exists()
    spec = (folder / "specs/search.yaml").read_text()
    for words in (
        "blocks: 6 ",
        'protect: ["evaluate.py", "tests/**"]',
        "loss: {primary: true, better: lower}",
        "columns: seconds",
        "`answer:` and `judge:` in place of `run:`",
    ):
        assert words in spec
    assert "+++ b/model.py" in (folder / "search/ideas/2-comment/change.patch").read_text()
    built = coppice(folder)
    assert built.returncode == 0, built.stderr
    assert "Evaluations: 2 completed, 0 failed" in built.stderr


@pytest.mark.parametrize(
    ("folds", "blocks"),
    [
        ("KFold(20, shuffle=True)", "20 "),
        ("RepeatedKFold(n_splits=10, n_repeats=4)", "{ids: 40, repeats: 4} "),
        ("RepeatedStratifiedKFold(5, 4)", "{ids: 20, repeats: 4} "),
        ("RepeatedKFold()", "{ids: 50, repeats: 10} "),
    ],
)
def test_a_header_says_which_column_counts_and_the_folds_how_many_blocks(
    tmp_path: Path, folds: str, blocks: str
) -> None:
    folder = repository(tmp_path / "code", {"evaluate.py": EVALUATE.replace("KFold(20, shuffle=True)", folds)})
    assert init(folder, "--kind", "tree").returncode == 0
    spec = (folder / "specs/search.yaml").read_text()
    assert "accuracy: {primary: true, better: higher}" in spec
    assert f"blocks: {blocks}" in spec
    assert coppice(folder, "plan").returncode == 0


def test_of_notebooks_it_says_how_one_becomes_a_script(tmp_path: Path) -> None:
    folder = repository(tmp_path / "code", {"a model.ipynb": "{}", "data.csv": ""})
    said = init(folder, "--kind", "tree")
    assert said.returncode == 2
    assert "a model.ipynb is a notebook" in said.stderr
    assert "`jupyter nbconvert --to script 'a model.ipynb'` makes a script" in said.stderr
