"""What surrounds a step: its environment, timeouts, retries and rooms."""

import json
import os
import sys
import time

import pytest
from kit.building import built, ends, failed, log_of, ran, steps
from kit.project import Project

DUMP = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
DUMP_FUNCTION = "import json, os\ndef f(reads, writes):\n    json.dump(dict(os.environ), open(writes[0], 'w'))\n"


@pytest.mark.parametrize(
    "do", [{"run": [sys.executable, "-c", DUMP, "{out}"]}, {"call": "f.py:f"}], ids=["run", "call"]
)
def test_a_step_sees_path_home_locale_and_what_it_declares(
    project: Project, do: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANGUAGE", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_TIME", "TZ", "NOT_SET"):
        monkeypatch.delenv(name, raising=False)
    seen = {"HOME": "/home/me", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PASSED": "as it is"}
    for name, value in {**seen, "SECRET_TOKEN": "t0ken", "PYTHONPATH": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    project.write("f.py", DUMP_FUNCTION)
    env = {"SEED": "s{seed}", "EMPTY": "", "NOT_SET": None}
    step = {"for": {"seed": [7]}, **do, "env": env, "writes": "a"}
    project.spec("x", json.dumps({"kind": "steps", "env": ["PASSED"], "steps": {"s": step}}))
    built(project)
    found = json.loads(project.read("runs/x/a"))
    assert found.pop("COPPICE_FOLDER")
    assert found == {**seen, "PATH": os.environ["PATH"], "SEED": "s7", "EMPTY": ""}


def test_values_passed_through_are_nowhere_in_the_records(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    function = "import os\ndef f(reads, writes):\n    print(os.environ['TOKEN'])\n    open(writes[0], 'w').close()\n"
    project.write("f.py", function)
    spec = """
        r: {run: 'echo $TOKEN; echo $TOKEN >&2; echo > {out}', env: [TOKEN], writes: a}
        c: {call: f.py:f, env: [TOKEN], writes: b}
    """
    project.spec("x", steps(spec))
    said = built(project)
    assert "s3cr3t-value" not in said.out + said.err
    files = [p for p in (project.root / "runs").rglob("*") if p.is_file()]
    assert not [p for p in files if b"s3cr3t-value" in p.read_bytes()]
    assert log_of(project, "x:r") == "[TOKEN]\n[TOKEN]\n"
    assert log_of(project, "x:c") == "[TOKEN]\n"


def test_a_value_passed_through_does_not_count_and_one_that_is_set_does(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = steps("s: {run: 'echo s >> ran; echo > {out}', env: {PASSED: , FIXED: one}, writes: a}")
    for passed, fixed, expected in (("1", "one", ["s"]), ("2", "one", []), ("2", "two", ["s"]), ("2", "one", [])):
        monkeypatch.setenv("PASSED", passed)
        project.spec("x", spec.replace("one", fixed))
        built(project)
        assert ran(project) == expected


def test_a_timeout_ends_the_command_and_its_children(project: Project) -> None:
    run = "echo begun; sleep 61 & echo $! > ../pid; sleep 62; echo > {out}"
    project.spec("x", steps(f"s: {{run: '{run}', timeout: 0.3, writes: a}}"))
    start = time.monotonic()
    assert "timed out after 0.3 s" in failed(project)
    assert time.monotonic() - start < 10
    assert ends(int((project.root.parent / "pid").read_text()))
    assert log_of(project, "x:s").startswith("begun\n")


SLOW = """
import time
def slow(reads, writes):
    time.sleep(60)
def good(reads, writes):
    open(writes[0], 'w').close()
"""


def test_a_timeout_ends_a_function_and_the_next_one_works(project: Project) -> None:
    project.write("f.py", SLOW)
    project.spec("x", steps("a: {call: f.py:slow, timeout: 0.5s, writes: a}\nb: {call: f.py:good, writes: b}"))
    assert "timed out after 0.5 s" in failed(project, "-n", "1", "--continue")
    assert (project.root / "runs/x/b").exists()


@pytest.mark.parametrize(("retries", "code", "tries"), [(0, 1, 1), (1, 1, 2), (2, 0, 3), (5, 0, 3)])
def test_a_failed_command_is_tried_again_so_often(project: Project, retries: int, code: int, tries: int) -> None:
    run = "echo s >> ran; [ $(wc -l < ran) -ge 3 ] && echo > {out}"
    project.spec("x", steps(f"s: {{run: '{run}', retries: {retries}, writes: a}}"))
    assert project.call("run").code == code
    assert ran(project) == ["s"] * tries


# Each target writes down who is in, and leaves when as many have come as should be in at once.  A line is written at
# once, so that lines do not mix.
CROWD = """
kind: steps
rooms: {{two: 2}}
steps:
  s:
    for: {{n: {{range: 6}}}}
    run: 'mkdir -p in; touch in/s{{n}}; echo $(ls in) >> seen; {wait}; rm in/s{{n}}'
    room: {room}
    writes: s{{n}}
  t:
    for: {{n: {{range: 3}}}}
    run: 'mkdir -p in; touch in/t{{n}}; echo $(ls in) >> seen; {wait}; rm in/t{{n}}'
    room: {room}
    writes: t{{n}}
"""
WAIT = "i=0; while [ {until} ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done; [ $i -lt 1000 ] && echo > {{out}}"


@pytest.mark.parametrize(
    ("room", "jobs", "most", "most_of_s"), [("two", 8, 2, 2), ("2", 8, 4, 2), ("two", 1, 1, 1), ("5", 3, 3, 3)]
)
def test_as_many_at_once_as_a_room_has_places_and_never_more(
    project: Project, room: str, jobs: int, most: int, most_of_s: int
) -> None:
    wait = WAIT.format(until=f"$(wc -l < seen) -lt {most}")
    project.spec("x", CROWD.format(room=room, wait=wait))
    built(project, "-n", str(jobs))
    crowds = [line.split() for line in project.read("seen").splitlines()]
    assert len(crowds) == 9
    assert max(map(len, crowds)) == most
    assert max(sum(name[0] == "s" for name in crowd) for crowd in crowds) == most_of_s


def test_what_waits_for_a_room_leaves_its_place_to_others(project: Project) -> None:
    wait = WAIT.format(until="! -e runs/x/free")
    spec = f"""
        crowded: {{for: {{n: [1, 2, 3]}}, run: {json.dumps(wait)}, room: 1, writes: '{{n}}'}}
        free: {{run: 'echo > {{out}}', writes: free}}
    """
    project.spec("x", steps(spec))
    built(project, "-n", "2")


def test_as_many_run_at_once_as_asked_for(project: Project) -> None:
    wait = "touch here.{n}; " + WAIT.format(until="$(ls here.* | wc -l) -lt 4")
    project.spec("x", steps(f"s: {{for: {{n: {{range: 4}}}}, run: {json.dumps(wait)}, writes: '{{n}}'}}"))
    built(project, "-n", "4")


def test_equal_work_is_done_once_however_much_runs_at_once(project: Project) -> None:
    project.spec("x", steps("s: {for: {n: {range: 8}}, run: 'echo s >> ran; echo > {out}', writes: 's{n}'}"))
    said = built(project, "-n", "8").out
    assert ran(project) == ["s"]
    assert "1 built, 7 recalled" in said


def test_equal_work_that_fails_is_tried_by_the_next(project: Project) -> None:
    run = "echo s >> ran; [ $(wc -l < ran) -ge 3 ] && echo > {out}"
    project.spec("x", steps(f"s: {{for: {{n: {{range: 4}}}}, run: '{run}', writes: 's{{n}}'}}"))
    assert "1 built, 1 recalled, 0 fresh, 2 failed" in failed(project, "-n", "4", "--continue")
    assert ran(project) == ["s"] * 3


UNSET = """
    a: {for: {n: [1, 2]}, run: 'echo > {out}', writes: '{n}'}
    b: {run: 'echo $UNSET > {out}', env: {UNSET: '1'}, writes: b}
    c: {run: 'echo > {out}', writes: c}
"""


def test_a_variable_to_pass_through_that_is_not_set_is_told_once_for_a_build(project: Project) -> None:
    project.spec("x", "kind: steps\nenv: [UNSET, PATH]\n" + steps(UNSET).partition("\n")[2])
    note = "coppice: x: UNSET is not set; what wants it runs without it, or fails\n"
    for words, expected in (([], note), (["-a"], note), (["--reporter", "zero", "-a"], note), (["-a", "x:b"], "")):
        assert project.call("run", *words).err == expected
    assert project.coppice("-a", UNSET="1").stderr == ""


def test_the_log_says_where_one_attempt_ends_and_the_next_begins(project: Project) -> None:
    project.spec("x", steps("s: {run: 'printf cut; exit 3; touch {out}', retries: 2, writes: s}"))
    assert "(exit status 3, 3 attempts" in failed(project)
    lines = [
        "cut",
        "---- attempt 1 failed: exit status 3 ----",
        "cut",
        "---- attempt 2 failed: exit status 3 ----",
        "cut",
    ]
    assert log_of(project, "x:s") == "\n".join(lines)
