"""`coppice tree` makes a spec of flags or holds them against it, then goes a depth further or only tells."""

import json
import re
from pathlib import Path

import pytest
import yaml
from kit.gitting import repository
from kit.project import PATIENCE, ROOT, Project, Said
from kit.stepping import CONFIG, SHAPE, planted, stand, swept

GAINS = (1, 2, -1, 4, 8, 16)
NEW = ("--config", "agent.yaml", "--ideas-per-node", "2", "--max-depth", "3")
GUIDE = """\
    --tree-run-id --ideas-per-node --beam-width --max-depth --sweep-config-limit --max-total-idea-evals
    --stop-on-empty-frontier --no-stop-on-empty-frontier --dedupe-scope --keep-rejected-worktrees
    --keep-failed-artifacts --lock-stale-seconds --force --report-only --validate-only --dry-run --config
    --max-parallel-evals --max-parallel-per-node --parallel-backend --eval-retries --eval-timeout-seconds --strict-fail
"""
# A flag, what it makes of the spec, another value of it, and what is no value at all.
FLAGS = [
    ("--beam-width 2", "beam_width: 2", "--beam-width 1", "--beam-width 0"),
    ("--sweep-config-limit 1", "sweep_config_limit: 1", "--sweep-config-limit 2", "--sweep-config-limit 0"),
    ("--max-total-idea-evals 9", "max_total_idea_evals: 9", "--max-total-idea-evals 8", "--max-total-idea-evals 1.5"),
    ("--stop-on-empty-frontier", "stop_on_empty_frontier: true", "--no-stop-on-empty-frontier", ""),
    ("--no-stop-on-empty-frontier", "stop_on_empty_frontier: false", "--stop-on-empty-frontier", ""),
    ("--dedupe-scope global", "dedupe_scope: global", "--dedupe-scope none", "--dedupe-scope all"),
    ("--keep-rejected-worktrees", "keep_rejected_worktrees: true", "", ""),
    ("--keep-failed-artifacts", "keep_failed_artifacts: true", "", ""),
    ("--max-parallel-evals 2", "max_parallel_evals: 2", "--max-parallel-evals 1", "--max-parallel-evals 1001"),
    ("--max-parallel-per-node 1", "max_parallel_per_node: 1", "--max-parallel-per-node 2", "--max-parallel-per-node x"),
    ("--parallel-backend threads", "parallel_backend: threads", "", "--parallel-backend processes"),
    ("--parallel-backend threadpool", "parallel_backend: threads", "", "--parallel-backend pool"),
    ("--eval-retries 1", "eval_retries: 1", "--eval-retries 0", "--eval-retries -1"),
    ("--eval-timeout-seconds 90", "eval_timeout_seconds: 90", "--eval-timeout-seconds 2m", "--eval-timeout-seconds 0"),
    ("--eval-timeout-seconds 2m", "eval_timeout_seconds: 120", "--eval-timeout-seconds 2h", "--eval-timeout-seconds {"),
    ("--strict-fail", "strict_fail: true", "", ""),
    ("--dry-run", "dry_run: true", "", ""),
]
# What a spec without the key does, typed as a flag; and one that says something else.
DEFAULTS = [
    ("--beam-width 1", "--beam-width 2", "1"),
    ("--stop-on-empty-frontier", "--no-stop-on-empty-frontier", "true"),
    ("--dedupe-scope node_plus_ancestors", "--dedupe-scope none", "node_plus_ancestors"),
    ("--max-parallel-evals 1", "--max-parallel-evals 2", "1"),
    ("--parallel-backend threadpool", "", ""),
    ("--eval-retries 0", "--eval-retries 1", "0"),
    ("", "--sweep-config-limit 1", "no limit"),
    ("", "--max-total-idea-evals 100", "no limit"),
    ("", "--max-parallel-per-node 2", "no limit"),
    ("", "--eval-timeout-seconds 60", "no limit"),
    ("", "--keep-rejected-worktrees", "false"),
    ("", "--keep-failed-artifacts", "false"),
    ("", "--strict-fail", "false"),
    ("", "--dry-run", "false"),
]


@pytest.fixture
def search(project: Project) -> Project:
    planted(project, *GAINS)
    return project


@pytest.fixture
def begun(search: Project) -> Project:
    tree(search, *NEW)
    return search


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same, for commands that are refused: each leaves it as it is."""
    project = planted(Project(tmp_path_factory.mktemp("standing") / "project"), *GAINS)
    tree(project, *NEW)
    return project


def tree(project: Project, *words: str, code: int = 0) -> Said:
    said = project.call("tree", "--tree-run-id", "x", *words)
    assert said.code == code, said
    assert "Traceback" not in said.err
    return said


def refused(project: Project, *words: str) -> str:
    """One line, and nothing is there that was not there before."""
    before = present(project)
    said = project.call("tree", *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
    assert present(project) == before
    return said.err.removeprefix("coppice: ").rstrip("\n")


def present(project: Project) -> dict[Path, bytes]:
    """Without caches."""
    found = (path for path in project.root.rglob("*") if path.is_file() and ".coppice" not in path.parts)
    return {path: path.read_bytes() for path in found}


# -- a new search


def test_config_and_flags_become_the_spec_and_the_first_depth_is_built(search: Project) -> None:
    said = tree(search, *NEW)
    assert search.read("specs/x.yaml") == f"{CONFIG}kind: tree\nideas_per_node: 2\nmax_depth: 3\n"
    found = stand(said)
    assert (found["current_depth"], found["max_depth"], found["stop_reason"]) == (1, 3, None)
    assert found["promoted"][0]["node"] == "d1.n0"
    assert search.read("runs/x/TREE_SUMMARY.md")
    assert search.read("runs/x/manifest.json")
    assert "x: depth 0: " in said.err


def test_again_and_again_until_it_stops(begun: Project) -> None:
    assert swept(begun) == ["d0.n0", "d0.n0.i0", "d0.n0.i1"]
    assert stand(tree(begun))["current_depth"] == 2
    last = stand(tree(begun, *NEW))
    assert (last["current_depth"], last["stop_reason"]) == (3, "max_depth_reached")
    swept(begun)
    assert stand(tree(begun)) == last
    assert swept(begun) == []
    assert begun.call("run", "x").out.startswith("up to date: ")


@pytest.mark.parametrize(("flag", "key", "other", "_bad"), FLAGS)
def test_every_flag_gets_into_the_spec_and_must_agree_with_it_from_then_on(
    search: Project, flag: str, key: str, other: str, _bad: str
) -> None:
    dry = () if "dry" in flag else ("--dry-run",)
    search.write("agent.yaml", CONFIG.replace("reads:", "configs: 5\n  reads:"))
    words = (*NEW, *dry, *flag.split())
    assert stand(tree(search, *words))["current_depth"] == 1
    text = search.read("specs/x.yaml")
    assert f"\n{key}\n" in text
    tree(search, *words)
    tree(search, *flag.split())
    assert search.read("specs/x.yaml") == text
    if other:
        line = text.splitlines().index(key) + 1
        said = refused(search, "--tree-run-id", "x", *other.split())
        assert said == f"{other} contradicts specs/x.yaml:{line}: {key}"


@pytest.mark.parametrize("bad", [bad for *_, bad in FLAGS if bad])
def test_a_value_that_is_none_is_refused_and_no_spec_is_written(search: Project, bad: str) -> None:
    name, value = bad.split()
    said = refused(search, "--tree-run-id", "x", *NEW, name, value)
    assert said.startswith(f"tree: {name}: ")
    assert f"'{value}'" in said
    assert "expected" in said or "allowed: " in said


@pytest.mark.parametrize(("same", "other", "means"), DEFAULTS)
def test_a_key_that_the_spec_has_not_means_its_default(begun: Project, same: str, other: str, means: str) -> None:
    tree(begun, *same.split())
    if other:
        key = other.removeprefix("--no-").removeprefix("--").split()[0].replace("-", "_")
        said = refused(begun, "--tree-run-id", "x", *other.split())
        assert said == f"{other} contradicts specs/x.yaml: {key} is not in it, which means {means}"


def test_shape_must_agree_too(standing: Project) -> None:
    assert refused(standing, "--tree-run-id", "x", "--ideas-per-node", "3") == (
        "--ideas-per-node 3 contradicts specs/x.yaml:11: ideas_per_node: 2"
    )
    assert "--max-depth 4 contradicts specs/x.yaml:12: max_depth: 3" in refused(
        standing, "--tree-run-id", "x", "--max-depth", "4"
    )


def test_a_spec_written_by_hand_is_held_against_the_flags_as_the_reader_has_it(search: Project) -> None:
    search.spec("x", f"kind: tree\n{CONFIG}{SHAPE}eval_timeout_seconds: 2m\nbeam_width: 0x2\n")
    words = ("--eval-timeout-seconds", "120", "--beam-width", "2", "--parallel-backend", "threads")
    assert stand(tree(search, *words))["current_depth"] == 1


def test_the_spec_may_be_called_yml(search: Project) -> None:
    search.write("specs/x.yml", f"kind: tree\n{CONFIG}{SHAPE}")
    assert stand(tree(search))["current_depth"] == 1
    assert "contradicts specs/x.yml" in refused(search, "--tree-run-id", "x", "--beam-width", "3")


# -- the config


def test_a_flag_that_the_config_contradicts_is_refused(search: Project) -> None:
    search.write("agent.yaml", f"{CONFIG}beam_width: 2\n")
    wrong = refused(search, "--tree-run-id", "x", *NEW, "--beam-width", "3")
    assert wrong == "--beam-width 3 contradicts agent.yaml:10: beam_width: 2"
    tree(search, *NEW, "--beam-width", "2")
    assert search.read("specs/x.yaml").count("beam_width") == 1


MISTAKES = {
    "repo: code": ("repo: nowhere", "agent.yaml:2: repo: nowhere does not exist"),
    "backend: patches}": ("backend: patchez}", "agent.yaml:5: role coder: backend 'patchez' cannot be coder"),
    "primary: true": ("primary: maybe", "agent.yaml:9: "),
    "# what no flag says": ("kind: steps", "agent.yaml:1: kind: steps is not for this command"),
    "metrics:": ("metrix:", "agent.yaml:9: spec: unknown key 'metrix'; did you mean 'metrics'?"),
    "reads: sweep.sh": ("reads: runs/y/none.txt", "agent.yaml:7: reads: no step writes runs/y/none.txt"),
    "repo: code\n": ("repo: code\n\tx: y\n", "agent.yaml:3: not YAML"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_the_config_is_told_with_its_line_and_leaves_no_spec_behind(search: Project, what: str) -> None:
    instead, message = MISTAKES[what]
    search.spec("y", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: some.txt}}\n")
    search.write("agent.yaml", CONFIG.replace(what, instead))
    assert message in refused(search, "--tree-run-id", "x", *NEW)
    assert not (search.root / "runs/x").exists()


def test_flags_that_do_not_go_with_the_config_are_named(search: Project) -> None:
    search.write("agent.yaml", CONFIG.replace("reads:", "configs: 5\n  reads:"))
    said = refused(search, "--tree-run-id", "x", *NEW, "--sweep-config-limit", "6")
    assert said == "tree: --sweep-config-limit: 6 is more than the 5 configs of the sweep"


@pytest.mark.parametrize("text", ["{repo: code}  # all", f"{CONFIG}...\n"])
def test_a_config_that_nothing_can_be_added_to_is_refused(search: Project, text: str) -> None:
    search.write("agent.yaml", text)
    assert refused(search, "--tree-run-id", "x", *NEW).startswith("agent.yaml: other keys cannot stand below its last")


def test_a_config_may_end_without_a_new_line(search: Project) -> None:
    search.write("agent.yaml", f"{CONFIG}beam_width: 2")
    assert stand(tree(search, *NEW))["current_depth"] == 1


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_a_config_may_be_json(search: Project, indent: int | str | None) -> None:
    search.write("agent.json", json.dumps(yaml.safe_load(CONFIG), indent=indent))
    words = ("--config", "agent.json", "--ideas-per-node", "2", "--max-depth", "3")
    assert stand(tree(search, *words))["current_depth"] == 1
    assert yaml.safe_load(search.read("specs/x.yaml")) == yaml.safe_load(CONFIG) | {
        "kind": "tree", "ideas_per_node": 2, "max_depth": 3,
    }  # fmt: skip
    assert stand(tree(search, "--config", "agent.json"))["current_depth"] == 2


def test_a_mistake_in_json_is_told_at_its_line(search: Project) -> None:
    config = yaml.safe_load(CONFIG)
    search.write("agent.json", json.dumps({**config, "beam_widht": 2}, indent=1))
    line = search.read("agent.json").split("\n").index(' "beam_widht": 2') + 1
    words = ("--tree-run-id", "x", "--config", "agent.json", "--ideas-per-node", "2", "--max-depth")
    said = refused(search, *words, "3")
    assert said.startswith(f"agent.json:{line}: spec: unknown key 'beam_widht'")
    search.write("agent.json", json.dumps({**config, "max_depth": 2}, indent=1))
    assert "--max-depth" in refused(search, *words, "3")
    search.write("agent.json", "{}")
    assert "is missing" in refused(search, *words, "3")


def test_a_config_that_is_not_there_is_refused(search: Project) -> None:
    said = refused(search, "--tree-run-id", "x", "--config", "none.yaml")
    assert said == "none.yaml: cannot be read: No such file or directory"


def test_given_again_the_config_must_say_the_same(begun: Project) -> None:
    begun.write("agent.yaml", CONFIG.replace("# what no flag says", "# said otherwise"))
    assert stand(tree(begun, "--config", "agent.yaml"))["current_depth"] == 2
    begun.write("agent.yaml", CONFIG.replace("run: sh", "run: dash"))
    different = "agent.yaml:7: sweep: run: dash {in} {results} {project} contradicts specs/x.yaml:7: sh {in} {results}"
    assert different in refused(begun, "--tree-run-id", "x", "--config", "agent.yaml")
    begun.write("agent.yaml", f"{CONFIG}tests: {{run: 'true'}}\n")
    said = refused(begun, "--tree-run-id", "x", "--config", "agent.yaml")
    assert said == "agent.yaml:10: tests: is not in specs/x.yaml, the spec of this run"


# -- what is asked for


def test_it_wants_the_id_of_a_search_and_no_other_words(standing: Project) -> None:
    assert "tree: --tree-run-id is missing" in refused(standing)
    assert "tree: no 'x': it takes options alone" in refused(standing, "x")
    assert "'plan' is the name of a command" in refused(standing, "--tree-run-id", "plan", *NEW)
    assert "is not a name for a run" in refused(standing, "--tree-run-id", "../x", *NEW)


def test_without_a_spec_and_a_config_it_says_what_to_do(standing: Project) -> None:
    said = refused(standing, "--tree-run-id", "xx", "--max-depth", "2")
    assert said.startswith("there is no run 'xx': no specs/xx.yaml; did you mean 'x'?; for a new one give its repo, ")
    assert "--config FILE" in said


def test_a_run_of_another_kind_is_refused(search: Project) -> None:
    search.spec("x", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: s}}\n")
    said = refused(search, "--tree-run-id", "x")
    assert said == "specs/x.yaml:1: kind: steps is built by `coppice x`; this is for kind: tree"


@pytest.mark.parametrize("words", ["--bogus", "--no-dry-run", "--no-strict-fail", "--beam-width", "--eval-retries"])
def test_other_options_are_refused(standing: Project, words: str) -> None:
    assert words.removeprefix("--") in refused(standing, "--tree-run-id", "x", *words.split())


def test_of_several_that_begin_the_same_search_at_once_one_does_and_no_spec_is_torn(search: Project) -> None:
    started = [search.popen("tree", "--tree-run-id", "x", *NEW) for _ in range(4)]
    ended = [(*each.communicate(timeout=PATIENCE), each.returncode) for each in started]
    assert {code for *_, code in ended} <= {0, 75}, ended
    assert 0 in [code for *_, code in ended]
    assert search.read("specs/x.yaml") == f"{CONFIG}kind: tree\nideas_per_node: 2\nmax_depth: 3\n"
    assert [*(search.root / "specs").iterdir()] == [search.root / "specs/x.yaml"]


def test_options_of_the_invocation_are_not_in_the_spec(search: Project) -> None:
    tree(search, *NEW, "--force", "--lock-stale-seconds", "60")
    assert search.read("specs/x.yaml") == f"{CONFIG}kind: tree\nideas_per_node: 2\nmax_depth: 3\n"


# -- a dry run


def test_a_dry_run_sweeps_nothing_and_is_the_same_each_time(search: Project, tmp_path: Path) -> None:
    other = planted(Project(tmp_path / "other"), *GAINS)
    search.write("agent.yaml", CONFIG.replace("reads:", "configs: 5\n  reads:"))
    other.write("agent.yaml", CONFIG.replace("reads:", "configs: 5\n  reads:"))
    first, second = ([tree(each, *NEW, "--dry-run").out for _ in range(3)] for each in (search, other))
    assert first == second
    assert json.loads(first[-1])["stop_reason"]
    assert swept(search) == []


def test_a_dry_run_starts_from_a_clean_work_tree_too(search: Project) -> None:
    repository(search.root / "mine", {"plus/start": "10\n"})
    search.write("mine/new", "")
    search.write("agent.yaml", CONFIG.replace("repo: code", "repo: mine"))
    assert "commit, stash or ignore: new" in tree(search, *NEW, "--dry-run", code=1).err


# -- only told


def test_report_and_validation_are_written_anew_from_records_and_nothing_runs(begun: Project) -> None:
    summary = begun.read("runs/x/TREE_SUMMARY.md")
    begun.write("runs/x/TREE_SUMMARY.md", "")
    begun.write("sweep.sh", "exit 9\n")
    begun.write("code/plus/start", "an uncommitted change\n")
    assert tree(begun, "--report-only").out == "runs/x/TREE_SUMMARY.md\n"
    assert begun.read("runs/x/TREE_SUMMARY.md").splitlines()[0] == summary.splitlines()[0]
    assert tree(begun, "--validate-only").out == "runs/x/VALIDATION_REPORT.md: 0 problems\n"
    assert begun.read("runs/x/VALIDATION_REPORT.md")
    both = tree(begun, "--report-only", "--validate-only", "--ideas-per-node", "2").out
    assert both == "runs/x/TREE_SUMMARY.md\nruns/x/VALIDATION_REPORT.md: 0 problems\n"
    assert len(swept(begun)) == 3


def test_validation_that_finds_something_says_how_much_and_ends_with_1(begun: Project) -> None:
    begun.write("runs/x/artifacts/d0.n0.i0.csv", "edited\n")
    said = tree(begun, "--validate-only", code=1)
    assert re.fullmatch(r"runs/x/VALIDATION_REPORT.md: [1-9]\d* problems?\n", said.out)
    assert "artifacts/d0.n0.i0.csv" in begun.read("runs/x/VALIDATION_REPORT.md")


def test_validation_names_lines_of_the_log_that_are_no_events(standing: Project) -> None:
    log = standing.root / "runs/x/events.jsonl"
    content = log.read_bytes()
    log.write_bytes(b'{"event": "build"}\n' + content + b'{"at": 1.5, "event": "never ended')
    try:
        assert tree(standing, "--validate-only", code=1).out == "runs/x/VALIDATION_REPORT.md: 1 problem\n"
        assert "events.jsonl:1: is no event with" in standing.read("runs/x/VALIDATION_REPORT.md")
    finally:
        log.write_bytes(content)
    assert tree(standing, "--validate-only").out.endswith(": 0 problems\n")


@pytest.mark.parametrize("only", ["--report-only", "--validate-only"])
def test_there_must_be_something_to_tell_of(search: Project, only: str) -> None:
    said = refused(search, "--tree-run-id", "x", only, *NEW)
    assert said == "there is no run 'x': no specs/x.yaml, and nothing recorded to tell of"
    search.spec("x", f"kind: tree\n{CONFIG}{SHAPE}")
    said = refused(search, "--tree-run-id", "x", only)
    assert said == "x: nothing is recorded of it yet; `coppice advance x` starts it"


@pytest.mark.parametrize("only", ["--report-only", "--validate-only"])
@pytest.mark.parametrize("option", ["--force", "--lock-stale-seconds 60"])
def test_what_is_only_told_takes_no_lock(standing: Project, only: str, option: str) -> None:
    assert "take no lock" in refused(standing, "--tree-run-id", "x", only, *option.split())


def test_what_is_only_told_must_not_be_contradicted(standing: Project) -> None:
    assert "contradicts" in refused(standing, "--tree-run-id", "x", "--report-only", "--beam-width", "7")


# -- told of


def test_every_flag_is_in_the_help_and_in_the_documentation_and_no_other(project: Project) -> None:
    for words in (["tree", "--help"], ["help", "tree"]):
        assert {*re.findall(r"--[a-z-]+", project.call(*words).out)} == {*GUIDE.split()}
    documented = (ROOT / "docs/tree-command.md").read_text()
    assert {*re.findall(r"(?<=`)--[a-z-]+", documented)} >= {*GUIDE.split()}
    assert {*re.findall(r"^\| `(--[a-z-]+)", documented, re.MULTILINE)} <= {*GUIDE.split()}
