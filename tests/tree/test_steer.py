"""A search can be steered from another terminal: paused, given an idea, answered; what was decided stays as it was."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from kit.building import until
from kit.project import PATIENCE, Project
from kit.searches import Search, adding, agent, idea, told

FORM = "IDEA: number %s\\n\\nRATIONALE: r\\n\\nREQUIRED_CHANGES:\\n- c\\n"
# Waits for the file `go` where `wait` is there.
WAIT = 'touch "$project/asked"; while [ -e "$project/wait" ] && [ ! -e "$project/go" ]; do sleep 0.01; done\n'
IDEAS = f'{WAIT}n=$(grep -c ^ideas "$project/list"); printf "{FORM}" "$n"\n'
EDIT = 'echo "gain=1$(basename "$PWD" | tail -c 2)" > "plus/$(basename "$PWD")"; echo Done.\n'
OWN = idea("my own")


def steered(project: Project, coder: str = EDIT, ideas: str = IDEAS, **keys: Any) -> Search:
    roles = {"ideas": agent("ideas"), "coder": agent("coder")}
    search = Search(project, {}, **{"roles": roles, "ideas_per_node": 2, **keys})
    project.write("agent.coder", coder)
    project.write("agent.ideas", ideas)
    project.write("mine.md", OWN)
    return search


@contextmanager
def building(search: Search) -> Iterator[subprocess.Popen[str]]:
    """A build that waits where it first asks, until there is a file `go`."""
    search.project.write("wait", "")
    with search.project.popen("run", "x", "-n", "2") as build:
        try:
            until((search.root / "asked").exists, build)
            yield build
        finally:
            if build.poll() is None:
                build.kill()


def events(search: Search, *names: str) -> list[dict[str, Any]]:
    path = search.root / "runs/x/events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] in names]


def said(search: Search, *words: str, code: int = 0) -> str:
    heard = search.project.call(*words)
    assert heard.code == code, heard
    return heard.err if code else heard.out


def promotions(search: Search) -> list[Any]:
    found = [search.record(f"depths/{depth}/promoted.json") for depth in (0, 1)]
    return [{name: each[name] for name in each if name != "spent"} for each in found]  # which has the seconds


def test_a_paused_build_starts_nothing_that_costs_and_decides_the_same_in_the_end(tmp_path: Path) -> None:
    undisturbed = steered(Project(tmp_path / "one"), WAIT + EDIT, f'printf "{FORM}" "$(basename "$PWD")"', max_depth=2)
    undisturbed.build("-n", "2")
    search = steered(Project(tmp_path / "two"), WAIT + EDIT, f'printf "{FORM}" "$(basename "$PWD")"', max_depth=2)
    with building(search) as build:
        assert "the build that runs waits" in said(search, "pause", "x")
        assert "already" in said(search, "pause", "x")
        before = search.project.read("list").splitlines()
        search.project.write("go", "")
        assert build.stdout is not None
        lines = []
        while not (lines and "d0.n0.i0.implement" in lines[-1]):
            lines.append(build.stdout.readline())
        assert any("x is paused" in line and "`coppice resume x`" in line for line in lines)
        assert search.project.read("list").splitlines() == before
        assert "goes on" in said(search, "resume", "x")
        rest = build.communicate()[0]
        assert build.returncode == 0, rest
    assert promotions(search) == promotions(undisturbed)
    assert sorted(search.executed()) == sorted(undisturbed.executed())
    assert [event["event"] for event in events(search, "paused", "resumed")] == ["paused", "resumed"]


def test_a_request_that_nobody_knows_stops_no_build(project: Project) -> None:
    """Written by a later version, or by hand."""
    search = steered(project)
    with building(search) as build:
        rows = [
            '{"at": 1, "event": "da\\u001bnce"}',
            '{"at": 1, "event": ["paused"]}',
            '{"at": "now", "event": "paused"}',
            "7",
        ]
        project.write("runs/x/steering.jsonl", "".join(f"{row}\n" for row in rows))
        assert build.stdout is not None
        assert (
            next(line for line in build.stdout if "asked" in line)
            == "x: asked for 'dance', which this version does not know\n"
        )
        project.write("go", "")
        out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, (out, err)


def test_a_build_that_waits_while_paused_is_ended_as_usual(project: Project) -> None:
    search = steered(project)
    with building(search) as build:
        said(search, "pause", "x")
        project.write("go", "")
        until((search.root / "runs/x/node_ideas/d0.n0/idea_000.md").exists, build)
        build.send_signal(signal.SIGINT)
        out, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 130, (out, err)
    assert "interrupted by signal 2" in err
    assert said(search, "run", "x", code=75).endswith("nothing was started; `coppice resume x` lets it go on\n")
    said(search, "resume", "x")
    assert "up to date" not in search.build().out
    assert said(search, "resume", "x") == "x is not paused\n"


def test_a_run_is_paused_before_a_build_and_what_is_up_to_date_says_nothing_of_it(project: Project) -> None:
    search = steered(project)
    assert "no build of x runs; the next one says so" in said(search, "pause", "x")
    assert "run x is paused since" in said(search, "run", code=75)
    assert "run x is paused since" in said(search, "advance", "x", code=75)
    assert search.executed() == []
    said(search, "resume", "x")
    search.build()
    said(search, "pause", "x")
    assert "up to date" in search.build().out
    (project.root / "sweep.sh").touch()  # in doubt, and as it was: nothing is held
    assert "up to date" in search.build().out


def test_a_broken_spec_under_edit_keeps_nobody_from_pausing(project: Project) -> None:
    search = steered(project)
    search.build()
    spec = project.read("specs/x.yaml")
    project.spec("x", f"{spec}sweeep: [\n")
    assert "x is paused" in said(search, "pause", "x")
    assert "x is not paused any more" in said(search, "resume", "x")
    project.spec("y", "kind: tree\nsweeep: [\n")
    assert "specs/y.yaml:" in said(search, "pause", "y", code=2), "nobody knows what it is"


def test_a_paused_run_holds_up_no_other_run(project: Project) -> None:
    search = steered(project)
    reads = 'kind: steps\nsteps: {s: {run: "echo > {out}", reads: [FILE], writes: a}}\n'
    project.spec("free", reads.replace("FILE", "sweep.sh"))
    project.spec("behind", reads.replace("FILE", "runs/x/node_ideas/d0.n0/idea_000.md"))
    said(search, "pause", "x")
    message = said(search, "run", code=75)
    assert "run x is paused since" in message
    assert message.endswith("coppice: left out: x, which is paused; `coppice resume x` lets it go on\n")
    assert (search.root / "runs/free/a").exists()
    assert not (search.root / "runs/behind/a").exists()
    assert search.executed() == []
    search.spec("y")
    said(search, "pause", "y")
    (search.root / "runs/free/a").unlink()
    resumes = "`coppice resume x`, `coppice resume y` let them go on\n"
    assert said(search, "run", code=75).endswith(f"coppice: left out: x, y, which are paused; {resumes}")
    assert said(search, "run", "x", "y", code=75).endswith(f": nothing was started; {resumes}")
    (search.root / "specs/y.yaml").unlink()
    assert "run x is paused since" in said(search, "run", code=75), "nothing else is left to do"
    assert "run x is paused since" in said(search, "run", "behind", code=75)
    said(search, "resume", "x")
    search.build()
    assert (search.root / "runs/behind/a").exists()


def test_an_idea_takes_the_place_of_a_model_and_is_nobody_elses_answer(project: Project) -> None:
    search = steered(project)
    assert "x:d0.n0.i0 gets the idea" in said(search, "idea", "x", "mine.md")
    search.build()
    assert [line for line in search.executed() if line.startswith("ideas")] == ["ideas d0.n0.i1.idea"]
    assert "nobody is asked as ideas: its backend is given" in said(
        search, "prompt", "x:d0.n0.i0", "--role=ideas", code=2
    )
    assert project.read("runs/x/node_ideas/d0.n0/idea_000.md") == OWN
    digest = sha256((OWN.strip() + "\n").encode()).hexdigest()
    record = search.record("node_ideas/d0.n0/idea_000.json")
    assert (record["source"], record["sha256"], record["usd"]) == ("given", digest, 0)
    (event,) = events(search, "idea_given")
    assert (event["slot"], event["sha256"]) == ("d0.n0.i0", digest)
    assert search.record("manifest.json")["evaluations"]["d0.n0.i0"]["idea_source"] == "given"
    assert project.call("tree", "--tree-run-id", "x", "--validate-only").code == 0
    search.spec("y")
    said(search, "run", "y")
    assert [line for line in search.executed() if line.startswith("ideas")] != []
    assert project.read("runs/y/node_ideas/d0.n0/idea_000.md") != OWN
    (search.root / "runs/x/given/d0.n0.i0.md").unlink()
    search.build()
    assert project.read("runs/x/node_ideas/d0.n0/idea_000.md") == project.read("runs/y/node_ideas/d0.n0/idea_000.md")


def test_a_build_that_runs_takes_an_idea_that_it_was_not_planned_with(project: Project) -> None:
    search = steered(project)
    project.write("runs/x/.coppice/claims/d0.n0.i1", "")  # of a build that was killed
    with building(search) as build:
        assert "x:d0.n0.i1 gets the idea: the build that runs tries it" in said(search, "idea", "x", "mine.md")
        assert "no free slot of 0 left" in said(search, "idea", "x", "mine.md", "--depth", "0", code=2)
        project.write("go", "")
        out, err = build.communicate(timeout=PATIENCE)
        assert build.returncode == 0, (out, err)
    assert "an idea was given for d0.n0.i1" in out
    assert [line for line in search.executed() if line.startswith("ideas")] == ["ideas d0.n0.i0.idea"]
    assert project.read("runs/x/node_ideas/d0.n0/idea_001.md") == OWN
    before = search.record("depths/0/promoted.json")
    again = search.build()  # planned with it now: made from the file; of what follows only what tells of the builds
    assert told(again, "built") == ["d0.n0.i1.idea", "report", "validate"]
    assert (search.executed(), search.record("depths/0/promoted.json")) == ([], before)
    assert "up to date" in search.build().out
    (search.root / "runs/x/given/d0.n0.i1.md").unlink()
    search.build()  # what was given is not kept as the answer of the model
    assert [line for line in search.executed() if line.startswith("ideas")] == ["ideas d0.n0.i1.idea"]


def test_an_idea_that_is_withdrawn_before_the_next_build_is_asked_for(project: Project) -> None:
    search = steered(project)
    with building(search) as build:
        said(search, "idea", "x", "mine.md")
        project.write("go", "")
        assert build.wait(timeout=PATIENCE) == 0
    search.executed()
    (search.root / "runs/x/given/d0.n0.i1.md").unlink()
    search.build()
    assert [line for line in search.executed() if line.startswith("ideas")] == ["ideas d0.n0.i1.idea"]
    assert project.read("runs/x/node_ideas/d0.n0/idea_001.md") != OWN


def test_an_idea_can_wait_for_a_depth_or_a_node(project: Project) -> None:
    search = steered(project, max_depth=2, beam_width=2)
    assert "d1.n0.i0 gets" in said(search, "idea", "x", "mine.md", "--depth", "1")
    project.write("other.md", idea("another"))
    assert json.loads(said(search, "idea", "x", "other.md", "--node", "d1.n1", "--json"))["slot"] == "d1.n1.i0"
    search.build()
    assert project.read("runs/x/node_ideas/d1.n0/idea_000.md") == OWN


WRONG_IDEAS = {
    ("idea", "x", "mine.md", "--depth", "7"): "idea: x tries no ideas at '7': give a depth from 0 to 0, or a node",
    ("idea", "x", "mine.md", "--depth", "0", "--node", "d0.n0"): "give --depth or --node, not both",
    ("idea", "x", "none.md"): "none.md: cannot be read: No such file",
    ("idea", "x", "README.md"): "README.md: IDEA is missing; an idea has the sections IDEA:, RATIONALE:, REQUIRED_",
    ("idea", "x", "twice.md"): "twice.md: line 3: IDEA is given twice",
    ("idea", "y", "mine.md"): "idea: 'y' is no run",
    ("idea", "x"): "name a run and a file with the idea",
    ("pause", "steps"): "specs/steps.yaml:1: kind: steps cannot be steered while it is built",
    ("resume", "y"): "resume: 'y' is no run",
    ("answer", "x"): "x has no role with `backend: manual`",
}


@pytest.mark.parametrize("words", WRONG_IDEAS)
def test_a_mistake_in_steering_takes_one_line_and_writes_nothing(project: Project, words: tuple[str, ...]) -> None:
    search = steered(project)
    project.spec("steps", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: a}}\n")
    project.write("README.md", "A page.\n")
    project.write("twice.md", f"IDEA: a\n\n{OWN}")
    message = said(search, *words, code=2)
    assert WRONG_IDEAS[words] in message
    assert message.count("\n") == 1
    assert not (search.root / "runs/x/given").exists()
    assert not (search.root / "runs/x/steering.jsonl").exists()


def test_an_idea_that_was_tried_is_refused_and_so_is_one_for_a_run_that_asks_nobody(project: Project) -> None:
    search = steered(project)
    said(search, "idea", "x", "mine.md")
    message = said(search, "idea", "x", "mine.md", code=2)
    assert message.startswith("coppice: mine.md: the same idea as that of d0.n0.i0 (dedupe_scope: node_plus_ancestors)")
    project.write("like.md", OWN.replace("Add a file", "Add a small file"))
    search.spec(dedupe={"similar": 0.5})
    assert "like.md: similar to that of d0.n0.i0 (0." in said(search, "idea", "x", "like.md", code=2)
    search.spec(dedupe={"similar": 1.0})
    assert "gets the idea" in said(search, "idea", "x", "like.md")
    search.idea("a", ":")
    search.spec(roles={"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "patches"}})
    assert "put the idea there" in said(search, "idea", "x", "mine.md", code=2)


def by_hand(project: Project) -> Search:
    roles = {"ideas": {"backend": "manual", "folder": "mine"}, "coder": {"backend": "manual", "folder": "mine"}}
    search = steered(project, roles=roles, ideas_per_node=1)
    (search.root / "mine").mkdir()
    project.write("change.patch", adding("plus/mine", "gain=20\n"))
    project.write("wrong.patch", "--- a/nothing\n+++ b/nothing\n@@ -1 +1 @@\n-0\n+1\n")
    return search


def test_what_a_person_is_to_answer_stands_on_all_screens_with_what_to_type(project: Project) -> None:
    search = by_hand(project)
    search.spec(ideas_per_node=2)
    search.build(code=69)
    commands = [f"coppice answer x d0.n0.i{n} FILE" for n in (0, 1)]
    shown = said(search, "watch", "x")
    assert re.search(r"Answers awaited . 2 rows", shown)
    assert "Awaited of a person: 2 answers; `coppice answer x` tells what each is about" in " ".join(shown.split())
    assert "`coppice answer x` tells for what; with an answer `coppice x` goes on" in " ".join(shown.split())
    summary = project.read("runs/x/TREE_SUMMARY.md").partition("## Answers awaited\n")[2].partition("##")[0]
    for command in commands:
        assert command in summary
        assert command in shown
    said(search, "answer", "x", "d0.n0.i0", "mine.md")
    assert commands[0] not in said(search, "watch", "x")


def test_a_person_answers_what_is_awaited(project: Project) -> None:
    search = by_hand(project)
    assert said(search, "answer", "x") == "nothing is awaited; `coppice x` goes on\n"
    search.build(code=69)
    assert said(search, "answer", "x").splitlines() == [
        "d0.n0.i0: awaits an idea: mine/d0.n0.i0.md",
        "    coppice answer x d0.n0.i0 FILE",
    ]
    assert "IDEA is missing" in said(search, "answer", "x", "d0.n0.i0", "change.patch", code=2)
    assert "no slot 'd9.n0.i0'" in said(search, "answer", "x", "d9.n0.i0", "mine.md", code=2)
    said(search, "answer", "x", "d0.n0.i0", "mine.md")
    search.build(code=69)
    (asked,) = json.loads(said(search, "answer", "x", "--json"))["awaited"]
    assert (asked["what"], asked["idea"], asked["worktree"]) == ("change", OWN, "runs/x/hand/d0.n0.i0")
    assert "is no change of d0.n0: " in said(search, "answer", "x", "d0.n0.i0", "wrong.patch", code=2)
    assert not (search.root / "mine/d0.n0.i0.patch").exists()
    said(search, "answer", "x", "d0.n0.i0", "change.patch")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert [event["what"] for event in events(search, "answered")] == ["idea", "change"]
    assert "nothing is awaited for d0.n0.i0" in said(search, "answer", "x", "d0.n0.i0", "mine.md", code=2)
