"""The documentation has every key, command and option that the code has, and no others; its examples run."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from doit.plugin import PluginEntry
from kit.building import built
from kit.mcts_comparisons import compared, made_up
from kit.project import ROOT, Project

from pipeline.build.names import COMMANDS
from pipeline.commands.command import MEANINGLESS_OPTIONS
from pipeline.commands.exits import BAD_INPUT, BROKEN, FAILED, LOCKED, OUTPUT_CLOSED
from pipeline.core.outcome import FRESH, Outcome
from pipeline.errors import UNAVAILABLE
from pipeline.goals.attempts import ATTEMPT_COLUMNS, GOAL_COLUMNS
from pipeline.goals.bank import Bank
from pipeline.lean.model import ERRORS, Theorem
from pipeline.machine.job import Job, SharedResources, Workers
from pipeline.machine.process import ALLOWED, MARK, Processes
from pipeline.mcts import read as mcts_read
from pipeline.mcts.plan import COMPARE_FILES, SEARCH_FILES, TRACE, plan
from pipeline.mcts.read import FLAGS as MCTS_FLAGS
from pipeline.mcts.read import SCENARIO_FLAGS
from pipeline.mcts.report.figures import COLUMNS as MCTS_COLUMNS
from pipeline.mcts.run import TheoremResult
from pipeline.mcts.search import journal
from pipeline.mcts.search.trace import TraceTally
from pipeline.mcts.search_stage import write_outputs
from pipeline.mcts.spec import model
from pipeline.mcts.spec.model import MctsSpec
from pipeline.proof.plan import FILES
from pipeline.proof.read import VARIABLES
from pipeline.proof.records import SearchRecord
from pipeline.proof.report import COLUMNS, results_record
from pipeline.spec import parse
from pipeline.tree.rules.beam import EMPTY_FRONTIER, MAX_DEPTH, STRICT_FAILURE
from pipeline.tree.rules.budget import BUDGET_STOPS
from pipeline.views.reporters import task_record

STEPS = (ROOT / "docs/steps.md").read_text()
WORDS = (ROOT / "docs/commands.md").read_text()


def section(text: str, title: str) -> str:
    """From a heading to the next one of its level."""
    level = title.partition(" ")[0]
    start = text.index(f"\n{title}") + 1
    end = re.search(rf"^#{{1,{len(level)}}} ", text[start + len(title) :], re.MULTILINE)
    return text[start : start + len(title) + end.start()] if end else text[start:]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_what_a_step_sees_of_the_environment_is_documented() -> None:
    documented = section(STEPS, "### `env`").replace("`LC_…`", " ".join(v for v in ALLOWED if v.startswith("LC_")))
    assert not [name for name in (*ALLOWED, MARK) if name not in documented]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    text = section(WORDS, f"### `coppice {'[run]' if name == 'run' else name}")
    command = PluginEntry("COMMAND", name, COMMANDS[name]).get()
    expected: set[str] = set()
    for option in command.cmd_options:
        if option["name"] not in MEANINGLESS_OPTIONS:
            inverse = [f"--{option['inverse']}"] if option.get("inverse") else []
            short = [f"-{option['short']}"] if option.get("short") else []
            expected |= {f"--{option['long']}", *inverse, *short}
    assert set(re.findall(r"(?<=`)--?[a-z][a-z-]*", text)) == expected


def test_every_command_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^### `coppice \[?(\w+)", WORDS, re.MULTILINE))
    assert documented == {*COMMANDS}


def test_every_field_of_the_json_report_is_documented() -> None:
    text = section(WORDS, "### The document of `--reporter json`")
    documented = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert documented == {*task_record("x:a", Outcome(FRESH)), "tasks", "stopped"}


def test_every_exit_code_is_documented() -> None:
    table = section(WORDS, "## Exit codes")
    assert not [
        code
        for code in (0, FAILED, BAD_INPUT, BROKEN, UNAVAILABLE, LOCKED, OUTPUT_CLOSED, 130, 143)
        if not re.search(rf"^\| .*\b{code}\b.* \|", table, re.M)
    ]


SOURCES = {
    "words.txt": "a\nof\nthe\nto\n",
    "backtest.sh": 'echo "$1 $2" > "$3"\necho "$2" > "$4"\n',
    "notes.md": "notes\n",
    "src/a.py": "",
    "data/deep/a.csv": "1\n",
}


def named(block: str, position: int) -> tuple[str, str]:
    """A block may say in its first line which file it is."""
    name = re.match(r"# (\S+\.(?:yaml|py))\n", block)
    return (name[1] if name else f"specs/example-{position}.yaml"), block


@pytest.fixture
def examples(project: Project) -> Project:
    for path, text in SOURCES.items():
        project.write(path, text)
    for i, block in enumerate([*blocks(STEPS, "yaml"), *blocks(STEPS, "python")]):
        project.write(*named(block, i))
    return project


def test_the_examples_of_specs_are_built_as_they_stand(examples: Project) -> None:
    said = built(examples)
    assert examples.read("runs/demo/by-size/2.txt") == "of\nto\n"
    assert " 0 failed" in said.out
    specs = [*(examples.root / "specs").iterdir()]
    assert len(specs) == len(blocks(STEPS, "yaml")) > 5


def test_the_examples_of_commands_say_what_is_shown(examples: Project) -> None:
    for other in (examples.root / "specs").glob("example-*.yaml"):
        other.unlink()
    for block in blocks(WORDS, "console"):
        for words, shown in exchanges(block):
            said = examples.call(*words)
            assert said.code == 0, said
            printed = [timeless(line) for line in said.out.splitlines()]
            assert not [line for line in shown if timeless(line) not in printed], said.out


def exchanges(block: str) -> Iterator[tuple[list[str], list[str]]]:
    for part in block.split("$ coppice")[1:]:
        words, *shown = part.rstrip().split("\n")
        yield words.split() or ["run"], [line for line in shown if line != "…"]


def timeless(line: str) -> str:
    return re.sub(r"\d+\.\d+ s", "0.0 s", line)


@pytest.mark.parametrize(
    "page", sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL))
    beside = [(ROOT / page).parent / link for link in links if not re.match(r"[a-z]+:", link)]
    assert not [str(path) for path in beside if not Path(path).exists()]


PACKAGE = ROOT / "pipeline"
FOLDERS = "|".join(sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
NAMED_MODULE = re.compile(rf"`(?:pipeline/)?((?:{FOLDERS})/[a-z_/]+(?:\.py)?)`")


def test_every_module_that_a_page_names_is_there() -> None:
    pages = {path: path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
    named = [(path.name, module) for path, text in pages.items() for module in NAMED_MODULE.findall(text)]
    assert len(named) > 50
    assert not [row for row in named if not any((PACKAGE / f"{row[1]}{end}").exists() for end in ("", ".py"))]


TREE = (ROOT / "docs/tree.md").read_text()


PROOF = (ROOT / "docs/proof-keys.md").read_text()
SEARCH = SearchRecord("", "", 0.0, "", 1, (), "", {})


def test_every_field_of_the_results_of_a_proof_run_is_documented_and_no_other() -> None:
    expected = results_record(Bank(), SEARCH, [], ())
    assert set(re.findall(r"^\| `(\w+)` \|", section(PROOF, "### results.json"), re.MULTILINE)) == {*expected}


def test_every_file_of_a_proof_run_and_every_column_is_documented() -> None:
    written = {name for _, names in FILES.values() for name in names} | {"toolchain.json"}
    assert set(re.findall(r"^\| `(\w+\.\w+)` \| `", section(PROOF, "## Files of a run"), re.MULTILINE)) == written
    assert not [name for name in COLUMNS if f"`{name}`" not in section(PROOF, "### results.csv")]
    assert not [
        name for name in (*ATTEMPT_COLUMNS, *GOAL_COLUMNS) if f"`{name}`" not in section(PROOF, "## The ledger")
    ]


def test_every_variable_of_bank_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(ORCH_\w+)` \| (\S+) \|", WORDS, re.MULTILINE)
    assert rows == [(flag.variable, str(flag.default)) for flag in VARIABLES]


def test_the_examples_of_proof_specs_can_be_planned(project: Project) -> None:
    project.write("bench/bank.jsonl", "")
    for n, block in enumerate(blocks(PROOF, "yaml")):
        project.spec(f"example-{n}", block)
    assert project.call("plan", "--graph-only").code == 0


def test_every_stop_reason_is_documented() -> None:
    reasons = {*BUDGET_STOPS.values(), MAX_DEPTH, EMPTY_FRONTIER, STRICT_FAILURE}
    assert not [reason for reason in reasons if f"`{reason}`" not in TREE]


def test_the_example_of_a_tree_spec_can_be_planned(project: Project) -> None:
    (project.root / "my-model").mkdir()
    (project.root / "ideas").mkdir()
    project.spec("faster", blocks(TREE, "yaml")[0].replace("../my-model", "my-model"))
    said = project.call("plan", "--graph-only", "faster")
    assert said.code == 0, said


MCTS = (ROOT / "docs/mcts-keys.md").read_text()
SCHEMA = json.loads((ROOT / "pipeline/mcts/search/trace.schema.json").read_text())
IN_TRACE = SCHEMA["properties"]
COMPARED = compared(made_up())


def first_cells(text: str, title: str) -> list[str]:
    """Of the tables of a section, without those of sections within it."""
    own = section(text, title)
    return re.findall(r"^\| `([\w.]+)` \|", re.split(r"^#+ ", own[len(title) :], flags=re.MULTILINE)[0], re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("## The trace", [*IN_TRACE, *IN_TRACE["reason"]["enum"]]),
        ("### Fields of `node`", IN_TRACE["node"]["properties"]),
        ("### Fields of `attempts`", IN_TRACE["attempts"]["items"]["properties"]),
        ("### Fields of `tree`", IN_TRACE["tree"]["properties"]),
        (
            "### Fields of `block`, `delay` and `reroute`",
            {field for group in model.GROUPS for field in IN_TRACE[group]["properties"]},
        ),
        ("## The journal", {"begin", *journal.REPLAY_STEPS}),
        ("### comparison.json", COMPARED),
        ("### Fields of `scenarios`", COMPARED["scenarios"]["baseline"]),
        ("### Fields of `paired`", COMPARED["paired"]["baseline"]),
    ],
)
def test_every_field_of_an_mcts_run_is_documented_and_no_other(title: str, expected: Iterable[str]) -> None:
    assert sorted(first_cells(MCTS, title)) == sorted(expected)


def test_every_flag_of_mcts_is_documented_by_the_key_that_it_stands_for() -> None:
    rows = re.findall(r"^\| `--(mcts-[\w-]+).*?\| (.*) \|$", section(WORDS, "### `coppice mcts"), re.MULTILINE)
    assert [name for name, _ in rows] == [flag.key.replace("_", "-") for flag in MCTS_FLAGS]
    for key, flag in SCENARIO_FLAGS.items():
        assert dict(rows)[flag.key.replace("_", "-")].startswith(f"`{model.spec_word(key)}`")


def test_every_word_for_an_error_of_a_tactic_is_documented() -> None:
    [row] = [line for line in MCTS.splitlines() if line.startswith("| `error` | if it did not")]
    sources = [(ROOT / "pipeline" / name).read_text() for name in ("mcts/run.py", "tactics/script.py")]
    ours = [word for text in sources for word in re.findall(r'Refused\("(.+?)"\)|error="(\w+)"', text)]
    expected = {"error", *ERRORS, *(one or other for one, other in ours)} - {"elab"}  # of statements
    assert set(re.findall(r"`([^`]+)`", row)) == expected


@pytest.fixture
def planned(project: Project, monkeypatch: pytest.MonkeyPatch) -> MctsSpec:
    project.write("bench/bank.jsonl", (ROOT / "bench/bank.jsonl").read_bytes())
    monkeypatch.chdir(project.root)
    spec = "kind: mcts\nbank: bench/bank.jsonl\ngoals: [swap_exists_forall]\npriors: ledger\nmode: centralized\n"
    return mcts_read.read(parse(spec.encode(), "specs/x.yaml"), "x")


def test_every_file_of_an_mcts_run_and_every_column_is_documented(planned: MctsSpec) -> None:
    text = section(MCTS, "## Files of a run")
    written = [path.removeprefix("runs/x/") for target in plan(planned) for path in target.outputs]
    own = {re.sub(r"^(goals|rows)/.*", r"\1/GOAL.json", path) for path in written if not path.startswith("searches/")}
    assert {*re.findall(r"^\| `([\w./]+)` \| `", text, re.MULTILINE)} == own
    of_search = re.findall(r"^\| `([\w.]+)` \| [^`]", text, re.MULTILINE)
    assert of_search == [f"GOAL_{TRACE}", *(name for name in SEARCH_FILES if name != TRACE)]
    assert {*COMPARE_FILES} <= own
    [place] = {str(Path(path).parent) for path in written if path.startswith("searches/")}
    for said, name in (("centralized", "SCENARIO"), ("/0/", "/SEED/"), ("swap_exists_forall", "GOAL")):
        place = place.replace(said, name)
    assert f"| `{place}/…` | `search.SCENARIO.SEED.GOAL` |" in text
    assert set(re.findall(r"`(\w+)`", section(MCTS, "### comparison.csv"))) == {*MCTS_COLUMNS}


def test_every_field_of_what_a_search_leaves_is_documented(planned: MctsSpec, tmp_path: Path) -> None:
    [target] = [target for target in plan(planned) if target.stage == "search"]
    writes = {port: [str(tmp_path / port)] for port, _ in target.writes}
    lean = {"backend": "wasm", "version": "1"}
    job = Job(target, {}, writes, "", Processes("x"), Workers(Processes("x")), SharedResources())
    write_outputs(
        job, Theorem("goal", "True"), lean, TheoremResult("open", (), False, "", 1, {"tactics": 1}), TraceTally(), 1.0
    )
    for name in ("run_config.json", "run_status.json", "summary.json"):
        left: dict[str, Any] = json.loads((tmp_path / name).read_text())
        assert sorted(first_cells(MCTS, f"### {name}")) == sorted(left)


def test_the_examples_of_mcts_specs_can_be_planned(project: Project) -> None:
    project.write("bench/bank.jsonl", (ROOT / "bench/bank.jsonl").read_bytes())
    pages = (MCTS, (ROOT / "docs/mcts.md").read_text())
    for n, block in enumerate(block for page in pages for block in blocks(page, "yaml") if "kind: mcts" in block):
        project.spec(f"example-{n}", block)
    said = project.call("plan", "--graph-only")
    assert said.code == 0, said
    assert len([*(project.root / "specs").iterdir()]) == len(pages)


MOST_WORDS = 40
WORD_ROW = re.compile(r"^\| (\w+) \| (\S[^|]*\.\S*) \| `([\w/]+)` \|$", re.MULTILINE)


def test_every_word_lives_in_a_module_that_names_it() -> None:
    page = (ROOT / "docs/words.md").read_text()
    rows = WORD_ROW.findall(page)
    listed = re.findall(r"^\| (?!word )(\w+)", page, re.MULTILINE)
    assert listed == [word for word, _, _ in rows]
    assert len({*listed}) == len(listed) <= MOST_WORDS
    texts = {module: (ROOT / f"pipeline/{module}.py").read_text(encoding="utf-8") for _, _, module in rows}
    named = {(word, module): re.search(rf"\b{word}", texts[module], re.IGNORECASE) for word, _, module in rows}
    assert not [row for row, match in named.items() if not match]


def test_what_is_to_be_installed_are_the_packages_of_the_extras_and_never_our_name_on_pypi() -> None:
    """There it is somebody else's.  The toolchain's own line is left: its bytes are part of the version of Lean."""
    wanted = {
        each
        for names in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].values()
        for each in names
    }
    texts = {path: path.read_text() for path in (*ROOT.glob("docs/*.md"), ROOT / "README.md", *PACKAGE.rglob("*.py"))}
    ours = [path.name for path, text in texts.items() if re.search(r"install '?coppice\b", text)]
    assert sorted(ours) == ["views.md", "wasm.py"]  # the one warns of it
    lines = [line for text in texts.values() for line in re.findall(r"pip install ((?:'[\w.-]+[<>=][^']*' ?)+)", text)]
    named = {name for line in lines for name in re.findall(r"'([^']+)'", line)}
    assert len(named) > 3
    assert named - {each.partition(";")[0] for each in wanted} == set()
