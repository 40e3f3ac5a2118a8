"""What a spec protects is the root's whenever a command runs, and a candidate that touches it is void."""

from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, adding, agent, told

HARNESS = 'echo config_id,status,gain,risk > "$1"; for i in 0 1 2; do echo "$i,ok,$(cat gain),1" >> "$1"; done\n'
WRITTEN = "void: sweep.sh is protected and was written to while the command ran"
GAIN = "--- a/gain\n+++ b/gain\n@@ -1 +1 @@\n-10\n+12\n"


def protecting(project: Project, *paths: str, patch: str = GAIN, **spec: Any) -> Search:
    """One idea, a patch; what measures is in the repo, and is protected."""
    search = Search(project, {})
    project.write("repo/sweep.sh", HARNESS)
    project.write("repo/gain", "10\n")
    project.write("ideas/a/idea.md", "IDEA: a\n\nRATIONALE: b\n\nREQUIRED_CHANGES:\n- c\n")
    project.write("ideas/a/change.patch", patch)
    sweep = {"run": ["sh", "sweep.sh", "{results}"]}
    search.spec(**{"sweep": sweep, "protect": [*paths] or ["sweep.sh"], **spec})
    return search


def test_a_candidate_that_leaves_it_alone_is_promoted(project: Project) -> None:
    ways = {"tests": {"run": ["true"]}, "checks": {"one": {"run": ["true"]}, "two": {"run": ["true"]}}}
    search = protecting(project, "sweep.sh", "plus/**", **ways)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    kept = {search.record(f"eval/d0.n0.i0/{what}.cost.json")["sandbox"] for what in ("test", "checks", "sweep")}
    assert kept == {"plain"}
    record = search.record("protected.json")
    assert {*record["files"]} == {"sweep.sh", "plus/start"}


def test_in_which_order_it_is_named_does_not_matter(project: Project) -> None:
    search = protecting(project, "sweep.sh", "plus/**")
    search.build()
    search.spec(protect=["plus/**", "sweep.sh", "sweep.sh"])
    assert told(search.build(), "built") == []


def test_a_candidate_that_edits_it_is_void(project: Project) -> None:
    patch = f"--- a/sweep.sh\n+++ b/sweep.sh\n@@ -1 +1 @@\n-{HARNESS}+{HARNESS.replace('ok,', 'ok,9')}"
    search = protecting(project, patch=patch)
    search.build()
    why = "void: sweep.sh is protected and was changed"
    assert search.why("d0.n0.i0") == f"failed: {why}"
    assert search.summary("d0.n0.i0")["status"] == "failed"
    assert search.record("eval/d0.n0.i0/checks.json")["why"] == why
    assert search.record("eval/d0.n0.i0/sweep.json")["status"] == "skipped"


def test_a_void_candidate_is_not_run_at_all_not_even_by_the_tests(project: Project) -> None:
    search = protecting(project, patch=adding("conftest.py", "x = 1"), tests={"run": ["echo", "ran"]})
    search.build()
    assert "conftest.py was added" in search.record("eval/d0.n0.i0/test.json")["why"]
    assert project.read("runs/x/nodes/d0.n0/test.log") == "ran\n"
    assert project.read("runs/x/eval/d0.n0.i0/test.log") == ""


ERRORS = {
    "a number": ("[3, {a: b}]", "protect: expected text, found a mapping"),
    "nothing": ("[]", "protect: the list is empty"),
    "an empty path": ('[""]', "protect: '' is all there is"),
    "all": ("[.]", "protect: '.' is all there is"),
    "all of the project": ('"{project}"', "protect: '{project}' is all there is"),
    "absolute": ("[/etc/passwd]", "protect: '/etc/passwd' is not a path of `repo:`; what is beside it is {project}/…"),
    "home": ("[~/x]", "protect: '~/x' is not a path of `repo:`"),
    "leads out": ("[a/../../x]", "protect: 'a/../../x' leads out by '..'"),
    "leads out of the project": ('["{project}/../x"]', "leads out by '..'"),
    "another brace": ('["{tree}/x"]', "protect: '{tree}/x': only {project}/ at the beginning may stand in braces"),
    "later": ('["a/{project}/x"]', "only {project}/ at the beginning"),
    "a pattern that is none": ('["[z-a]"]', "protect: '[z-a]' is not a pattern: bad character range"),
    "what we look after": ('["{project}/runs/x.csv"]', "Coppice itself looks after runs/"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_mistake_is_one_message_with_file_and_line(project: Project, name: str) -> None:
    text, says = ERRORS[name]
    protecting(project)
    spec = (project.root / "specs/x.yaml").read_text().partition("protect:")[0]
    project.write("specs/x.yaml", f"{spec}protect: {text}\n")
    said = project.call("run")
    assert said.code == 2, said
    assert said.err.startswith(f"coppice: specs/x.yaml:{spec.count(chr(10)) + 1}: protect: ")
    assert says in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("sweeep.sh", "protect: sweeep.sh is nothing in commit"),
        ("bench/**", "protect: bench/** is nothing in commit"),
        ("{project}/data", "protect: {project}/data is not there; create it, or correct the path"),
        ("{project}/ideas/*.txt", "protect: {project}/ideas/*.txt is not there"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_measured(project: Project, path: str, says: str) -> None:
    said = protecting(project, "sweep.sh", path).build(code=1)
    assert says in said.out + said.err
    assert not (project.root / "runs/x/artifacts").exists()


def test_a_link_that_is_protected_leads_to_what_is(project: Project) -> None:
    search = protecting(project, "run", "plus")
    (project.root / "repo/run").symlink_to("sweep.sh")
    said = search.build(code=1)
    assert "protect: run is a symbolic link to sweep.sh, which is not protected; name that too" in said.out + said.err
    search.spec(protect=["run", "sweep.sh"])
    search.build()


def test_one_path_needs_no_list_and_a_folder_is_all_in_it(project: Project) -> None:
    search = protecting(project)
    search.spec(protect="./plus/")
    search.build()
    assert {*search.record("protected.json")["files"]} == {"plus/start"}


def test_without_it_there_is_no_such_target(project: Project) -> None:
    search = protecting(project)
    sweep = {"run": ["sh", "-c", 'echo x > "$0/seen"; sh sweep.sh "$1"', "{project}", "{results}"]}
    search.spec(protect=None, sweep=sweep)
    search.build()
    assert not (project.root / "runs/x/protected.json").exists()
    assert project.read("seen") == "x\n"


def test_modules_in_a_folder_of_pythonpath_are_looked_at_too(project: Project) -> None:
    patch = adding("src/csv.py", "x = 1")
    search = protecting(project, "sweep.py", patch=patch)
    project.write("repo/sweep.py", "import json\n")
    env = {"PYTHONPATH": "{tree}/src/:/usr/lib/nothing:{project}/lib:lib/.:"}
    search.spec(sweep={"run": ["sh", "sweep.sh", "{results}"], "env": env})
    search.build()
    assert search.record("protected.json")["looked_in"] == ["lib", "src"]
    says = "void: src/csv.py takes the place of Python's own module csv for the protected files that are run from there"
    assert search.why("d0.n0.i0") == f"failed: {says}"


def test_what_the_baseline_does_to_it_stops_the_search(project: Project) -> None:
    search = protecting(project)
    search.spec(sweep={"run": ["sh", "-c", 'sh sweep.sh "$0"; touch sweep.sh', "{results}"]})
    said = search.build(code=1)
    assert WRITTEN in said.out + said.err
    assert "commit" in said.out + said.err


def test_tests_are_watched_and_a_void_one_is_not_tried_again(project: Project) -> None:
    tests = {"run": ["sh", "-c", "grep -q 12 gain && echo >> sweep.sh; echo ran"]}
    search = protecting(project, tests=tests, eval_retries=3)
    search.build()
    assert search.why("d0.n0.i0") == f"failed: {WRITTEN}"
    assert project.read("runs/x/eval/d0.n0.i0/test.log") == "ran\n"


def test_one_void_row_makes_all_of_a_sweep_void(project: Project) -> None:
    line = '[ "$0" = 1 ] && grep -q 12 gain && echo >> sweep.sh; echo "gain,risk\n$(cat gain),1" > "$1"'
    sweep = {"run": ["sh", "-c", line, "{config_id}", "{results}"], "mode": "per_config", "configs": 3}
    search = protecting(project, sweep=sweep)
    search.build()
    assert search.why("d0.n0.i0") == f"failed: {WRITTEN}"
    assert project.read("runs/x/artifacts/d0.n0.i0.csv") == ""


def test_what_is_changed_in_the_project_stops_the_search_until_it_is_put_back_or_taken(project: Project) -> None:
    project.write("data/prices", "1")
    search = protecting(project, "sweep.sh", "{project}/data/**")
    search.build()
    project.write("data/prices", "2")
    search.idea("b", ":")
    search.spec(ideas_per_node=2)
    said = search.build(code=1)
    assert "{project}/data/** is protected, and is not as it was when x began" in said.out + said.err
    project.write("data/prices", "1")
    search.build()
    before = search.record("protected.json")
    project.write("data/prices", "2")
    assert project.call("forget", "x:protected").code == 0
    search.build()
    assert search.record("protected.json")["project"] != before["project"]


def test_a_record_that_was_changed_does_not_choose_which_code_is_measured(project: Project) -> None:
    search = protecting(project)
    search.build()
    path = "runs/x/eval/d0.n0.i0/candidate.json"
    record = search.record("eval/d0.n0.i0/candidate.json")
    root = search.record("root.json")["commit"]
    hook = f"sed 's/{record['commit']}/{root}/' {path} > c; cp c {path}; "
    search.spec(
        protect=None,
        tests={"run": ["sh", "-c", f'cd "$0" && if [ -e {path} ]; then {hook} fi', "{project}"]},
    )
    said = search.build(code=1)
    assert "the records of x:d0.n0.i0.sweep name different files: one was changed; build again" in said.out + said.err


def test_a_coder_cannot_have_git_write_other_files_than_it_has_committed(project: Project) -> None:
    project.write(
        "agent.coder",
        """\
        echo gain=12 > plus/new
        git config filter.x.clean cat
        git config filter.x.smudge 'sed s/12/99/'
        echo '* filter=x' > "$(git rev-parse --git-common-dir)/info/attributes"
        """,
    )
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder")}
    search = Search(project, {"more": ""}, roles=roles)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert project.read("runs/x/artifacts/d0.n0.i0.csv").splitlines()[1] == "0,ok,,12,5"
    assert project.read("runs/x/wt/d1.n0/plus/new") == "gain=12\n"
