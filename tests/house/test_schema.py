"""`coppice schema`: the JSON Schema of specs, as editors use it: good specs pass, and what it refuses is refused."""

import json
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from jsonschema import Draft7Validator, Draft202012Validator
from kit.mistakes import Mistake
from kit.project import ROOT, Project
from test_spec_errors import MISTAKES, mutated, stocked

from pipeline import kinds
from pipeline.commands.upkeep import HELLO, SCHEMA, schema_text

VALIDATORS = {name: Draft202012Validator(kinds.schema([name])) for name in kinds.KINDS}
WHOLE = Draft202012Validator(kinds.schema())


class EditorLoader(yaml.SafeLoader):
    """YAML as JSON has it: a date is text."""


EditorLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def mistakes(text: str) -> list[str]:
    """Of the schema of all kinds, told by that of the kind."""
    spec: Any = yaml.load(text, EditorLoader)
    kind = str(spec.get("kind")) if isinstance(spec, dict) else ""
    found = [error.message for error in VALIDATORS.get(kind, WHOLE).iter_errors(spec)]
    assert bool(found) != WHOLE.is_valid(spec)
    return found


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SPECS = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "specs").glob("*.yaml"))}
for page in PAGES:
    for position, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)):
        if re.search(r"^kind: ", block, re.MULTILINE):
            SPECS[f"{page.name}-{position}"] = block
        elif block.startswith("roles:"):
            least = (
                "kind: tree\nrepo: .\nideas_per_node: 1\nmax_depth: 1\nsweep: {run: x}\nmetrics: {m: {primary: true}}"
            )
            roles = {"ideas", "coder"} - {*re.findall(r"^  (\w+):", block, re.MULTILINE)}
            more = "".join(f"  {role}: {{backend: manual, folder: x}}\n" for role in sorted(roles))
            SPECS[f"{page.name}-{position}"] = f"{least}\n{block}{more}"
SPECS["init"] = HELLO


@pytest.mark.parametrize("names", [[name] for name in kinds.KINDS] + [[*kinds.KINDS]])
def test_a_schema_is_one_for_editors_that_know_only_draft_7_too(names: list[str]) -> None:
    for draft in (Draft202012Validator, Draft7Validator):
        draft.check_schema(kinds.schema(names))


@pytest.mark.parametrize("name", ["an unknown key", "kind missing"])
def test_what_an_older_draft_knows_of_it_is_enough_for_keys(name: str) -> None:
    older = Draft7Validator(kinds.schema())
    assert older.is_valid(yaml.load(SPECS["init"], EditorLoader))
    bad = {"an unknown key": {**LEAST["steps"], "stepz": {}}, "kind missing": {"steps": LEAST["steps"]["steps"]}}
    assert not older.is_valid(bad[name])


def test_what_stands_several_times_in_a_schema_is_written_once() -> None:
    written = Counter(line.strip(" ,") for line in schema_text(kinds.KINDS).splitlines() if len(line.strip()) > 200)
    assert not {line for line, times in written.items() if times > 2}


@pytest.mark.parametrize("name", SPECS)
def test_good_specs_pass(name: str) -> None:
    assert not mistakes(SPECS[name])


# Mistakes that the reader alone finds, by why.
READER_ONLY = {
    "YAML says it: a key twice, a merge, a date, no number, a NUL": [
        "key given twice at the top",
        "key given twice in a step",
        "two steps of one name",
        "merge key",
        "with a date",
        "a date as a value",
        "with an impossible date",
        "with not a number",
        "NUL in a word",
    ],
    "a command is a language of its own, and names in braces have to be known": [
        "a command that never names its output",
        "a command that names one of two outputs",
        "unknown placeholder",
        "a brace alone",
        "an expression in braces",
        "a format in braces",
        "empty braces",
        "several files inside a word",
        "several outputs inside a word",
        "in without reads, argv",
        "in without reads, shell",
        "with an unknown placeholder",
        "with a brace alone",
        "output with an unknown placeholder",
        "env with an unknown placeholder",
        "several files behind a pattern inside a word",
        "a backslash before a name in a shell line",
        "case inside a substitution",
    ],
    "a size or a path that nobody can use shows when it is worked out": [
        "a limit of memory that no command could keep",
        "a limit of log that no command could keep",
        "a limit of file_size that no command could keep",
        "a limit of output that no command could keep",
        "visible of $HOME/x",
        "visible of /data/${USER}",
        "visible of ~root/x",
        "visible of ~",
        "visible of ~/",
        "visible of ~/a/../..",
        "visible of /",
        "visible of /usr/..",
        "visible of /proc/meminfo",
    ],
    "two places must agree: rows, ports, rooms, steps, cages": [
        "no network without a cage",
        "no network for steps without a cage",
        "a network of its own without a cage",
        "a step without the cage that its network needs",
        "landlock with a network of its own",
        "a network of its own in the landlock of all steps",
        "a call below a cage for all",
        "a call below limits for all",
        "for rows of different names",
        "a port read and written",
        "unknown room",
        "unknown step in a gather",
        "unknown port in a gather",
        "a gather of nothing",
    ],
    "how many there are, and what they are called, shows when they are multiplied out": [
        "a matrix by accident",
        "a range by accident",
        "a range beyond 64 bits",
        "many steps beyond the limit together",
        "a range of nothing",
        "a range in steps of zero",
        "values that collide in target names",
        "two targets with one output",
        "a matrix that writes one output",
        "an output below another output",
    ],
    "where a path leads": [
        "output outside the run",
        "output outside by a detour",
        "an output in HOME",
        "output outside by a value",
        "absolute output",
        "output among the records",
        "a folder as output",
        "the run's folder as output",
        "output with a pattern",
        "output with a line break",
        "pattern that means nothing",
    ],
    "what is on the disk, or made by a step": [
        "call of a file that is missing",
        "a missing input",
        "a missing input among several",
        "a missing folder",
        "pattern without a match",
        "reads what no step writes",
        "reads its own run folder",
        "a cycle",
        "a step that reads what it writes",
        "a tree search of a bank that is not there",
        "a tree search of a file that is no bank",
    ],
    "a limit that is in no key": [
        "timeout beyond reason",
        "a size beyond any machine",
        "a size of more digits than any",
        "a size of nothing with a unit",
        "env that Coppice sets itself",
    ],
}


@pytest.mark.parametrize("case", MISTAKES, ids=str)
def test_a_mistake_is_found_by_the_schema_or_it_is_known_why_not(case: Mistake) -> None:
    try:
        found = mistakes(case.spec)
    except yaml.YAMLError:
        found = ["not YAML"]
    assert bool(found) != any(case.name in names for names in READER_ONLY.values()), found


def test_every_case_that_the_reader_alone_finds_is_there_once() -> None:
    names = [name for listed in READER_ONLY.values() for name in listed]
    assert len(names) == len({*names} & {case.name for case in MISTAKES})


@settings(max_examples=100, deadline=None)
@given(spec=mutated())
def test_what_the_schema_refuses_is_refused(spec: str) -> None:
    assume("\t" not in spec)  # of which editors and we think differently
    with TemporaryDirectory() as folder:
        ready = stocked(Project(Path(folder) / "project"))
        ready.write("specs/x.yaml", spec.encode())
        if ready.call("plan", "--graph-only", "x").code == 0:
            assert not mistakes(spec)


# A value that no key takes.
NONSENSE = [[[]]]


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_no_key_is_left_unread(kind: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the schema of a key refuses, its reader does, whatever else the spec has."""
    monkeypatch.chdir(project.root)
    project.write("repo/a.py", "")
    project.write("bank.jsonl", '{"id": "one", "goal": "1 = 1"}\n')
    for key in kinds.schema([kind])["properties"]:
        spec = {**LEAST[kind], key: NONSENSE}
        project.spec("x", json.dumps(spec))
        assert mistakes(json.dumps(spec)), key
        assert project.call("plan", "--graph-only", "x").code == 2, key


LEAST: dict[str, dict[str, Any]] = {
    "steps": {"kind": "steps", "steps": {"a": {"run": "touch {out}", "writes": "a"}}},
    "tree": {
        "kind": "tree",
        "repo": "repo",
        "ideas_per_node": 1,
        "max_depth": 1,
        "roles": {role: {"backend": "manual", "folder": "f"} for role in ("ideas", "coder")},
        "sweep": {"run": "x {results}"},
        "metrics": {"m": {"primary": True}},
    },
    "proof": {"kind": "proof", "bank": "bank.jsonl", "strategies": ["micro"]},
    "mcts": {"kind": "mcts", "bank": "bank.jsonl", "mode": "distributed", "agents": 1, "inflight": 1},
}


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_the_command_prints_the_schema_of_a_kind(project: Project, kind: str) -> None:
    said = project.call("schema", kind)
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == kinds.schema([kind])


def test_the_command_prints_the_schema_of_all_and_refuses_others(project: Project) -> None:
    assert json.loads(project.call("schema").out) == kinds.schema()
    assert "schema: there is no kind 'stepz'; did you mean 'steps'?" in project.call("schema", "stepz").err
    assert "one kind at a time" in project.call("schema", "steps", "tree").err


def test_init_writes_the_schema_and_the_line_that_names_it_to_editors(project: Project) -> None:
    assert project.call("init").code == 0
    first = project.read("specs/hello.yaml").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={SCHEMA}"
    assert json.loads(project.read(f"specs/{SCHEMA}")) == kinds.schema()
