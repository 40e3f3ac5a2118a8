"""A mistake in the spec of a search is one message: where, what is wrong, what would be right; nothing is executed."""

import pytest
from kit.project import Project, Said
from kit.searches import START

GOOD = """\
kind: tree
repo: repo
ideas_per_node: 2
beam_width: 2
max_depth: 2
roles:
  ideas: {backend: patches, folder: ideas}
  coder: {backend: patches}
tests: {run: "echo tests >> executed"}
checks: {ahead: {run: "echo {days} >> executed", reads: {days: data.csv}, cut: days}}
sweep:
  run: "echo sweep >> executed; cp {data} {results}"
  reads: {data: data.csv}
metrics:
  gain: {primary: true}
  risk: {better: lower, guard: true}
score: {explore: 0.03}
budget: {usd: 3}
"""

DATA, SCORE = "  reads: {data: data.csv}", "score: {explore: 0.03}\n"


def paired(score: str) -> tuple[str, str]:
    """What makes the spec one with blocks, and with this `score`."""
    metrics = "metrics:\n  gain: {primary: true}\n"
    old = f"{DATA}\n{metrics}  risk: {{better: lower, guard: true}}\n{SCORE}"
    return old, f"{DATA}\n  blocks: 9\n{metrics}score: {score}  # here\n"


# What stands in GOOD, what instead of it (its line is that of `# here`, or the first), and what the message says.
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "an unknown key": ("beam_width: 2", "beam_widht: 2", ("unknown key 'beam_widht'", "did you mean 'beam_width'?")),
    "repo is missing": ("repo: repo\n", "", ("'repo' is missing",)),
    "repo is not there": ("repo: repo", "repo: gone", ("repo: gone does not exist; name a folder",)),
    "repo is a file": ("repo: repo", "repo: data.csv", ("repo: data.csv is a file; name a folder",)),
    "repo is all of the project": ("repo: repo", "repo: .", ("repo: . holds runs/, which a search changes",)),
    "repo is empty": ("repo: repo", "repo:", ("repo",)),
    "no ideas": ("ideas_per_node: 2", "ideas_per_node: 0", ("ideas_per_node", "1")),
    "half an idea": ("ideas_per_node: 2", "ideas_per_node: 1.5", ("ideas_per_node", "whole number")),
    "a beam of words": ("beam_width: 2", "beam_width: wide", ("beam_width", "wide")),
    "a depth of zero": ("max_depth: 2", "max_depth: 0", ("max_depth",)),
    "a depth by accident": ("max_depth: 2", "max_depth: 2000", ("max_depth", "1000")),
    "more evaluations than anybody wants": (
        "ideas_per_node: 2\nbeam_width: 2\nmax_depth: 2",
        "ideas_per_node: 1000\nbeam_width: 1000\nmax_depth: 1000  # here",
        ("ideas_per_node, beam_width and max_depth make 999001000 evaluations; 50000 is most",),
    ),
    "a scope": ("max_depth: 2", "max_depth: 2\ndedupe_scope: node  # here", ("dedupe_scope: 'node' is unknown",)),
    "neither yes nor no": (
        "max_depth: 2",
        "max_depth: 2\nstrict_fail: maybe  # here",
        ("strict_fail", "true or false"),
    ),
    "another parallel backend": (
        "max_depth: 2",
        "max_depth: 2\nparallel_backend: ray  # here",
        ("parallel_backend", "'ray'", "threads"),
    ),
    "no place for an evaluation": (
        "max_depth: 2",
        "max_depth: 2\nmax_parallel_evals: 0  # here",
        ("max_parallel_evals",),
    ),
    "a timeout without end": (
        "max_depth: 2",
        "max_depth: 2\neval_timeout_seconds: -1  # here",
        ("eval_timeout_seconds",),
    ),
    "roles is missing": (
        "roles:\n  ideas: {backend: patches, folder: ideas}\n  coder: {backend: patches}\n",
        "",
        ("'roles' is missing",),
    ),
    "no coder": ("  coder: {backend: patches}\n", "", ("roles", "'coder' is missing")),
    "an unknown role": ("  coder: ", "  programmer: {backend: none}  # here\n  coder: ", ("programmer",)),
    "an unknown backend": ("{backend: patches}", "{backend: gpt}", ("role coder: backend 'gpt' cannot be coder",)),
    "no folder of ideas": ("{backend: patches, folder: ideas}", "{backend: patches}", ("'folder' is missing",)),
    "changes of ideas that are not recorded": (
        "roles:\n  ideas: {backend: patches, folder: ideas}",
        "roles:\n  ideas: {backend: command, run: [agent]}  # here",
        ("roles: coder: patches applies the recorded changes of `ideas: {backend: patches, …}`",),
    ),
    "changes of ideas by hand": (
        "roles:\n  ideas: {backend: patches, folder: ideas}",
        "roles:\n  ideas: {backend: manual, folder: ideas}  # here",
        ("roles: coder: patches needs recorded ideas; use manual, command or openai",),
    ),
    "a key in the spec": (
        "  coder: {backend: patches}",
        "  coder: {backend: command, run: [agent, --key, sk-abcdefghijklmnop1234567]}",
        ("this is an API key", "a spec is shared"),
    ),
    "no sweep": ("sweep:\n", "sweeps:\n", ("sweep",)),
    "a sweep without a command": (
        '  run: "echo sweep >> executed; cp {data} {results}"\n',
        "",
        ("sweep: 'run' is missing",),
    ),
    "an empty command": ('  run: "echo sweep >> executed; cp {data} {results}"', "  run: ''", ("an empty line",)),
    "an empty list": ('  run: "echo sweep >> executed; cp {data} {results}"', "  run: []", ("the list is empty",)),
    "a name that is not known": ("cp {data} {results}", "cp {dato} {results}", ("'{dato}'", "did you mean 'data'?")),
    "a port that has a meaning of its own": (
        "  reads: {data: data.csv}",
        "  reads: {data: data.csv, tree: data.csv}",
        ("{tree} has a meaning of its own; give the port another name",),
    ),
    "a file that is not there": (
        "data: data.csv",
        "data: gone.csv",
        ("gone.csv is missing, which x:d0.n0.sweep reads",),
    ),
    "{limit} without a limit": (
        "cp {data} {results}",
        "cp {data} {results} {limit}",
        ("{limit} stands for `sweep_config_limit:` or the number of `configs:`",),
    ),
    "{configs} without configs": (
        "cp {data} {results}",
        "cp {configs} {results}",
        ("{configs} stands for a file with the `configs:` of the sweep; say which there are",),
    ),
    "a mode": ("  reads: {data", "  mode: each  # here\n  reads: {data", ("sweep: mode", "'each'", "per_config")),
    "rows of nothing": (
        "sweep:\n",
        "sweep:\n  mode: per_config  # here\n",
        ("mode per_config runs a command a config; say in `configs:` which there are",),
    ),
    "rows that do not know what they are about": (
        '  run: "echo sweep',
        '  mode: per_config\n  configs: {n: [1, 2]}\n  run: "# here\n    echo sweep',
        ("must name what it is about: {config_id}, or a value of it",),
    ),
    "configs of nothing": (
        "  reads: {data",
        "  configs: []  # here\n  reads: {data",
        ("0 configs; there must be from 1",),
    ),
    "a NUL in a config": (
        "  reads: {data",
        '  configs: {a: ["1\\02"]}  # here\n  reads: {data',
        ("a NUL character cannot be passed on",),
    ),
    "configs that differ": (
        "  reads: {data",
        "  configs: [{a: 1}, {b: 2}]  # here\n  reads: {data",
        ("all configs must have the same names",),
    ),
    "a value with the name of a file": (
        "  reads: {data",
        "  configs: {results: [1]}  # here\n  reads: {data",
        ("'results' cannot be the name of a value",),
    ),
    "more configs than there are": (
        "  reads: {data: data.csv}",
        "  reads: {data: data.csv}\n  configs: 3\nsweep_config_limit: 4  # here",
        ("sweep_config_limit: 4 is more than the 3 configs of the sweep",),
    ),
    "no metrics": (
        "metrics:\n  gain: {primary: true}\n  risk: {better: lower, guard: true}\n",
        "metrics: {}\n",
        ("metrics",),
    ),
    "no primary metric": (
        "metrics:\n  gain: {primary: true}",
        "metrics:\n  gain: {}  # here",
        ("one of them must have `primary: true`; 0 of 2 have it",),
    ),
    "two primary metrics": (
        "metrics:\n  gain: {primary: true}\n  risk: {better: lower, guard: true}",
        "metrics:\n  gain: {primary: true}  # here\n  risk: {primary: true}",
        ("one of them must have `primary: true`; 2 of 2 have it",),
    ),
    "a direction": ("better: lower", "better: down", ("metrics: risk: better", "'down'", "higher")),
    "a negative weight": ("{better: lower,", "{weight: -1,", ("metrics: risk: weight", "-1")),
    "weights of nothing": (
        "metrics:\n  gain: {primary: true}\n  risk: {better: lower, guard: true}",
        "metrics:\n  gain: {primary: true, weight: 0}  # here\n  risk: {weight: 0}",
        ("one metric at least must weigh more than 0",),
    ),
    "a metric that is a column of ours": ("  risk:", "  status:", ("status is a column that every sweep has",)),
    "a way of scoring": ("{explore: 0.03}", "{method: best}", ("score: method", "'best'", "weighted_means")),
    "paired without blocks": (
        "{explore: 0.03}",
        "{method: paired}",
        ("score: method: paired needs", "`sweep: blocks:`"),
    ),
    "a number of the other method": ("{explore: 0.03}", "{alpha: 0.1}", ("score: alpha means nothing with method",)),
    "a margin without blocks": ("guard: true}", "guard: true, margin: 1}", ("risk: margin means nothing with method",)),
    "a guard without a margin": (
        f"{DATA}\nmetrics:\n  gain: {{primary: true}}\n  risk: {{better: lower, guard: true}}\n{SCORE}",
        f"{DATA}\n  blocks: 9\nmetrics:\n  gain: {{primary: true}}\n  risk: {{guard: true}}  # here\n",
        ("metrics: risk: a guard needs a `margin` with method paired", "in its own units"),
    ),
    "a margin of what must get better": (
        f"{DATA}\nmetrics:\n  gain: {{primary: true}}\n  risk: {{better: lower, guard: true}}\n{SCORE}",
        f"{DATA}\n  blocks: 9\nmetrics:\n  gain: {{primary: true, margin: 1}}  # here\n",
        ("metrics: gain: a margin is for a guard",),
    ),
    "alpha as a percentage": (*paired("{alpha: 5}"), ("score: alpha", "from 0.001 to 0.5")),
    "an odd number of draws": (*paired("{draws: 1001}"), ("score: draws", "must be even")),
    "too few draws": (
        *paired("{draws: 1000, alpha: 0.001}"),
        ("alpha of 0.001 over 2 depths needs more draws than 1000",),
    ),
    "a number of weighted_means": (*paired("{explore: 1}"), ("score: explore means nothing with method paired",)),
    "no blocks": ("data.csv}\nmetrics", "data.csv}\n  blocks: 0  # here\nmetrics", ("sweep: blocks",)),
    "a block twice": ("data.csv}\nmetrics", "data.csv}\n  blocks: [a, a]  # here\nmetrics", ("a is there twice",)),
    "a block with a comma": (
        "data.csv}\nmetrics",
        "data.csv}\n  blocks: ['a,b']  # here\nmetrics",
        ("'a,b' cannot be the name of a block",),
    ),
    "rho without an order": (
        "data.csv}\nmetrics",
        "data.csv}\n  blocks: {rho: 0.2}  # here\nmetrics",
        ("rho", "with `order: time` only"),
    ),
    "rho of one": (
        "data.csv}\nmetrics",
        "data.csv}\n  blocks: {order: time, rho: 1}  # here\nmetrics",
        ("must be from 0 to 0.9",),
    ),
    "more blocks in time than can be weighed": (
        "data.csv}\nmetrics",
        "data.csv}\n  blocks: {order: time, ids: 1001}  # here\nmetrics",
        ("1001 blocks in the order of time", "1000 is most"),
    ),
    "a column of ours": (
        "data.csv}\nmetrics",
        "data.csv}\n  blocks: {column: status}  # here\nmetrics",
        ("'status' cannot be it",),
    ),
    "blocks that the spec does not name": (
        "cp {data} {results}",
        "cp {data} {results} {blocks}",
        ("{blocks} stands for the ids of the blocks",),
    ),
    "grades upside down": ("{explore: 0.03}", "{strong: 0.01}", ("score: must have strong >= promising >= mixed",)),
    "a drop beyond the clamp": ("{explore: 0.03}", "{clamp: 0.01}", ("a drop must be from 0 to below `clamp`",)),
    "a constant that is none": (
        "{explore: 0.03}",
        "{explor: 0.03}",
        ("unknown key 'explor'", "did you mean 'explore'?"),
    ),
    "a budget in words": ("{usd: 3}", "{usd: three}", ("budget: usd", "three")),
    "a negative budget": ("{usd: 3}", "{usd: -3}", ("budget: usd", "-3")),
    "a budget in euros": ("{usd: 3}", "{eur: 3}", ("unknown key 'eur'",)),
    "a test that is none": ('{run: "echo tests >> executed"}', "{cmd: x}", ("unknown key 'cmd'",)),
    "no checks": (
        '{ahead: {run: "echo {days} >> executed", reads: {days: data.csv}, cut: days}}',
        "{}",
        ("checks: there are none",),
    ),
    "a check without a name": ("checks: {ahead:", "checks: {1:", ("checks: '1' is not a name",)),
    "an unknown key of a check": (", cut: days}", ", cuts: 3, cot: days}", ("checks: ahead: unknown key 'cot'",)),
    "a name that a check does not know": ('"echo {days}', '"echo {days} {limit}', ("checks: ahead: '{limit}'",)),
    "results of what is no canary": (", cut: days}", ', env: {A: "{results}"}}', ("checks: ahead: '{results}'",)),
    "a cut of what is not read": (
        ", cut: days}",
        ", cut: prices}",
        ("cut: 'prices' is not read by it; give one of days",),
    ),
    "a cut of several files": ("{days: data.csv}", "{days: [data.csv, b.csv]}", ("cut: 'days' is several files",)),
    "a cut that the command does not see": ("echo {days} >>", "echo >>", ("it never names {days}",)),
    "a key of a canary": (", cut: days}", ", cuts: 3}", ("cuts is said of a canary; name in `cut:`",)),
    "no cuts": (", cut: days}", ", cut: days, cuts: 0}", ("checks: ahead: cuts", "from 1 to 100")),
    "a cut after the end": (", cut: days}", ", cut: days, from: 1.0}", ("checks: ahead: from", "below 1")),
    "a tolerance below nothing": (
        ", cut: days}",
        ", cut: days, tolerance: -1}",
        ("checks: ahead: tolerance", "0 or more"),
    ),
    "a step": ("kind: tree", "kind: tree\nsteps: {}  # here", ("unknown key 'steps'",)),
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("errors") / "project")
    for path, text in START.items():
        project.write(f"repo/{path}", text)
    project.write("ideas/1/idea.md", "An idea.\n")
    project.write("data.csv", "config_id,status,gain,risk\n0,ok,1,1\n")
    return project


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_message_with_file_and_line(ready: Project, name: str) -> None:
    old, new, says = CASES[name]
    assert GOOD.count(old) == 1
    spec = GOOD.replace(old, new)
    ready.spec("x", spec)
    message = refused(ready, ready.call("run"))
    for part in says:
        assert part in message
    marked = [n for n, line in enumerate(spec.splitlines(), 1) if "# here" in line]
    if marked:
        assert message.startswith(f"coppice: specs/x.yaml:{marked[0]}: ")
    elif new and "is missing" not in message:
        assert message.startswith(f"coppice: specs/x.yaml:{GOOD[: GOOD.index(old)].count(chr(10)) + 1}: ")


def refused(project: Project, said: Said) -> str:
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("coppice: specs/x.yaml:")
    assert said.err.count("\n") == 1
    assert len(said.err) < 700
    assert "Traceback" not in said.err
    assert not (project.root / "executed").exists()
    return said.err


def test_the_spec_without_a_mistake_is_planned(ready: Project) -> None:
    ready.spec("x", GOOD)
    said = ready.call("list", "--all", "x")
    assert said.code == 0, said
    assert "x:d1.n1.i1.score" in said.out
