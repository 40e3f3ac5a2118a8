"""Every feature of `kind: steps` does for real what docs/steps.md says of it."""

import json
import os
import stat
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import Project, Said

NASTY = ["a b", "it's", 'say "hi"', "$(touch pwned)", "`touch pwned`", "; touch pwned", "a\nb", "tab\there", "ünï ☃ 𝄞", "*", "~", "$HOME", "\\n"]
NASTY += ["-rf", "--", "", " ", "#", "&", "{out}", "{in}", "{{", "}", "%s", "!", "\\"]


def steps(yaml: str) -> str:
    return "kind: steps\nsteps:\n" + "\n".join(f"  {line}" for line in yaml.strip("\n").split("\n")) + "\n"


def built(project: Project, *words: str) -> Said:
    said = project.call("run", *words)
    assert said.code == 0, said
    return said


def failed(project: Project, *words: str) -> str:
    """What is said of targets that fail."""
    said = project.call("run", *words)
    assert said.code == 1, said
    assert "Traceback" not in said.err
    return said.out + said.err


def ran(project: Project) -> list[str]:
    """What the steps noted in `ran` since the last look, sorted."""
    note = project.root / "ran"
    lines = sorted(note.read_text().split()) if note.exists() else []
    note.unlink(missing_ok=True)
    return lines


def log_of(project: Project, target: str) -> str:
    run, _, name = target.partition(":")
    return project.read(f"runs/{run}/.coppice/logs/{name}.log")


# -- commands


@pytest.mark.parametrize(
    "run", ["[sh, -c, 'printf %s \"$1\" > \"$2\"', sh, '{v}', '{out}']", "printf %s {v} > {out}"], ids=["argv", "shell"]
)
def test_values_reach_a_command_as_they_are(project: Project, run: str) -> None:
    rows = json.dumps([{"n": str(n), "v": value} for n, value in enumerate(NASTY)], ensure_ascii=False)
    project.spec("x", steps(f"echo:\n  for: {rows}\n  run: {json.dumps(run) if run[0] != '[' else run}\n  writes: '{{n}}.txt'"))
    built(project)
    assert [project.read(f"runs/x/{n}.txt") for n in range(len(NASTY))] == NASTY
    assert not (project.root / "pwned").exists()


def test_files_of_any_name_are_one_word_each(project: Project) -> None:
    names = ["a b.txt", "it's.txt", "$(x).txt", "ünï.txt", "-n.txt"]
    for name in names:
        project.write(name, f"{name}\n")
    reads = json.dumps([*names[:4], "./-n.txt"], ensure_ascii=False)
    project.spec("x", steps(f"line:\n  run: cat -- {{in}} > {{out}}\n  reads: {reads}\n  writes: 'deep folder/ö/a b.txt'"))
    project.spec("y", steps(f"words:\n  run: [sh, -c, 'out=$1; shift; cat -- \"$@\" > \"$out\"', sh, '{{out}}', '{{in}}']\n  reads: {reads}\n  writes: b"))
    built(project)
    assert project.read("runs/x/deep folder/ö/a b.txt") == project.read("runs/y/b") == "".join(f"{n}\n" for n in names)


def test_ports_name_files_and_in_is_all_of_them_in_order(project: Project) -> None:
    for name in "abc":
        project.write(name, name)
    spec = "s:\n  run: 'cat {late} > {one}; cat {in} > {two}'\n  reads: {late: c, early: [a, b]}\n  writes: {one: 1, two: 2}"
    project.spec("x", steps(spec))
    built(project)
    assert (project.read("runs/x/1"), project.read("runs/x/2")) == ("c", "cab")


def test_braces_that_are_meant_are_written_twice(project: Project) -> None:
    project.spec("x", steps("line:\n  run: 'printf {{}} > {out}'\n  writes: a\nwords:\n  run: [sh, -c, 'printf \"$0\" > \"$1\"', '{{{{x}}}}', '{out}']\n  writes: b{{}}"))
    built(project)
    assert (project.read("runs/x/a"), project.read("runs/x/b{}")) == ("{}", "{{x}}")


def test_a_command_has_nothing_on_its_standard_input(project: Project) -> None:
    project.spec("x", steps("s:\n  run: cat > {out}\n  writes: a\n  timeout: 10"))
    built(project)
    assert project.read("runs/x/a") == ""


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("[no-such-command, '{out}']", "cannot start 'no-such-command': No such file or directory"),
        ("[./not-runnable, '{out}']", "cannot start './not-runnable': Permission denied"),
        ("[./not-a-program, '{out}']", "cannot start './not-a-program': Exec format error"),
        ("'no-such-command > {out}'", "exit status 127"),
        ("'echo because; exit 3; : {out}'", "exit status 3"),
        ("'kill -9 $$; : {out}'", "killed by signal 9"),
        ("'true {out}'", "did not write runs/x/a"),
        ("'mkdir {out}'", "runs/x/a is not a plain file"),
        ("'ln -s /etc/hosts {out}'", "runs/x/a is not a plain file"),
        ("'mkfifo {out}'", "runs/x/a is not a plain file"),
    ],
)
def test_a_command_that_fails_says_how(project: Project, run: str, says: str) -> None:
    project.write("not-runnable", "#!/bin/sh\n")
    project.write("not-a-program", "\0").chmod(0o755)
    project.spec("x", steps(f"s:\n  run: {run}\n  writes: a"))
    assert says in failed(project)
    assert not os.path.lexists(project.root / "runs/x/a")


def test_more_words_than_the_system_takes_are_a_failure_of_the_target(project: Project) -> None:
    project.spec("x", steps("s:\n  for: {n: {range: 3000}}\n  run: [touch, '{out}']\n  writes: '{n}'").replace("kind", "max_targets: 3001\nkind"))
    project.spec("y", steps(f"s:\n  run: [echo, '{'w' * 200_000}', '{{out}}']\n  writes: a"))
    assert "cannot start 'echo': Argument list too long" in failed(project, "y")


def test_of_several_outputs_none_appears_when_one_is_missing(project: Project) -> None:
    project.spec("x", steps("s:\n  run: 'echo > {one}; : {two}'\n  writes: {one: 1.txt, two: deep/2.txt}"))
    assert "did not write runs/x/deep/2.txt" in failed(project)
    assert not (project.root / "runs/x/1.txt").exists()


def test_what_a_command_leaves_beside_its_output_is_removed(project: Project) -> None:
    project.spec("x", steps("s:\n  run: 'echo > {out}; echo > {out}.tmp; mkdir $(dirname {out})/scratch'\n  writes: a"))
    built(project)
    assert sorted(p.name for p in (project.root / "runs/x").iterdir()) == [".coppice", "a"]


def test_what_a_command_prints_is_in_its_log_and_nowhere_else(project: Project) -> None:
    project.spec("x", steps("s:\n  for: {n: [1, 2]}\n  run: 'echo out {n}; echo err {n} >&2; echo > {out}'\n  writes: '{n}'"))
    assert "err" not in built(project).out
    assert log_of(project, "x:s.2") == "out 2\nerr 2\n"


# -- matrix


def names(project: Project) -> list[str]:
    said = project.call("list", "--all", "-q", "--sort", "definition", "x")
    assert said.code == 0, said
    return said.out.split()[1:]


def test_a_matrix_is_the_product_of_its_values_in_the_order_written(project: Project) -> None:
    project.spec("x", steps("s:\n  for: {b: [2, 10], a: {range: [3, 0, -2]}}\n  run: 'echo {a} {b} > {out}'\n  writes: '{a}/{b}'"))
    assert names(project) == ["x:s.2.3", "x:s.2.1", "x:s.10.3", "x:s.10.1"]


def test_rows_are_taken_as_written(project: Project) -> None:
    project.spec("x", steps("s:\n  for: [{n: 1, w: b}, {w: a, n: 2}]\n  run: 'echo {w} > {out}'\n  writes: '{n}'"))
    assert names(project) == ["x:s.1.b", "x:s.2.a"]


def test_values_are_the_text_in_the_file(project: Project) -> None:
    project.spec("x", steps("s:\n  for: {v: [0.10, 010, yes, 1e3, 0x1F, 1_000, 2020-01-01]}\n  run: 'printf %s {v} > {out}'\n  writes: '{v}'"))
    assert names(project) == [f"x:s.{v}" for v in ("0.10", "010", "yes", "1e3", "0x1F", "1_000", "2020-01-01")]
    built(project)
    assert project.read("runs/x/0.10") == "0.10"


def test_a_function_gets_values_of_the_type_yaml_gives_them(project: Project) -> None:
    project.write("f.py", "import json\ndef f(reads, writes, **more):\n    json.dump(more, open(writes[0], 'w'))\n")
    spec = "s:\n  for: [{a: 1, b: 0.5, c: true, d: text}]\n  call: f.py:f\n  with: {a: '{a}', b: '{b}', c: '{c}', d: ['{d}!', 'x{a}', 2], e: {f: null}}\n  writes: a"
    project.spec("x", steps(spec))
    built(project)
    assert json.loads(project.read("runs/x/a")) == {"a": 1, "b": 0.5, "c": True, "d": ["text!", "x1", 2], "e": {"f": None}}


# -- gathers


def test_a_gather_takes_the_outputs_whose_values_agree(project: Project) -> None:
    spec = """
part:
  for: {n: [1, 2], m: [a, b]}
  run: 'echo {n}{m} | tee {main} > {side}'
  writes: {main: "{n}{m}.main", side: "{n}{m}.side"}
by-n:
  for: {n: [2], other: [x]}
  run: 'echo {in} > /dev/null; cat {in} > {out}'
  reads: [{step: part, port: main}]
  writes: by-{n}
whole:
  run: 'cat {parts} {in} | wc -l > {out}'
  reads: {parts: {step: part}, more: [{step: by-n}, seed]}
  writes: whole
"""
    project.write("seed", "seed\n")
    project.spec("x", steps(spec))
    built(project)
    assert project.read("runs/x/by-2") == "2a\n2b\n"
    assert project.read("runs/x/whole").strip() == str(8 + 8 + 2 + 1)


# -- what is read


def note(reads: str) -> str:
    return steps(f"s:\n  run: 'echo s >> ran; cat {{in}} > /dev/null; echo > {{out}}'\n  reads: {reads}\n  writes: a\n  env: [EXTRA]")


CHANGES = {
    "a file edited": ("src/a.py", "src/a.py", True),
    "a file edited below a folder": ("src/", "src/deep/b.py", True),
    "a folder without its slash": ("src", "src/deep/b.py", True),
    "a new file in a folder": ("src/", "src/deep/new.txt", True),
    "a new folder in a folder": ("src/", "src/new/new.txt", True),
    "a new file that matches": ("src/**/*.py", "src/deep/new.py", True),
    "a new file beside a flat pattern": ("src/*.py", "src/deep/new.py", False),
    "a new file that matches a flat pattern": ("src/*.py", "src/new.py", True),
    "a new file that does not match": ("src/**/*.py", "src/deep/new.txt", False),
    "a question mark": ("src/?.py", "src/z.py", True),
    "two letters for a question mark": ("src/?.py", "src/zz.py", False),
    "one of a class": ("src/[a-m].py", "src/b.py", True),
    "none of a class": ("src/[!b-m].py", "src/b.py", False),
    "compiled Python": ("src/", "src/__pycache__/a.pyc", False),
    "git's own": (".", ".git/index", False),
    "another file": ("src/a.py", "src/c.py", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_read_and_only_that_makes_stale(project: Project, name: str) -> None:
    reads, path, stale = CHANGES[name]
    for file in ("src/a.py", "src/z1.py", "src/deep/b.py", ".git/HEAD"):
        project.write(file, "1")
    spec = note(f"'{reads}'").replace("cat {in} > /dev/null; ", ": {in}; ").replace(">> ran", ">> ../ran")
    project.spec("x", spec)
    count = project.root.parent / "ran"
    built(project)
    built(project)
    assert count.read_text() == "s\n"
    project.write(path, "2")
    built(project)
    assert count.read_text() == "s\n" * (1 + stale)


def test_odd_names_below_a_folder_are_files_not_patterns(project: Project) -> None:
    names = ("src/*", "src/a[1].txt", "src/what?", "src/two\nlines")
    for name in (*names, "src/a1.txt"):
        project.write(name, "1")
    project.spec("x", steps("s:\n  run: 'echo s >> ran; echo > {out}'\n  reads: src\n  writes: a"))
    built(project)
    for name in names:
        project.write(name, "2")
        built(project)
        assert ran(project)[-1:] == ["s"], name


def test_a_linked_folder_below_a_folder_counts(project: Project) -> None:
    project.write("src/a", "1")
    elsewhere = project.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("1")
    (project.root / "src/linked").symlink_to(elsewhere)
    (project.root / "src/round").symlink_to(".")
    project.spec("x", steps("s:\n  run: 'echo s >> ran; echo > {out}'\n  reads: src\n  writes: a"))
    built(project)
    (elsewhere / "data").write_text("2")
    built(project)
    assert ran(project) == ["s", "s"]


def test_a_pipe_among_files_does_not_hang(project: Project) -> None:
    project.write("src/a", "1")
    os.mkfifo(project.root / "src/pipe")
    project.spec("x", steps("s:\n  run: 'echo > {out}'\n  reads: src\n  writes: a"))
    assert project.coppice("x", timeout=20).returncode == 0


def test_a_file_that_goes_or_comes_back_counts(project: Project) -> None:
    for name in ("src/a", "src/b"):
        project.write(name, name)
    project.spec("x", note("src/"))
    for step, expected in ((None, ["s"]), ("gone", ["s"]), ("back", [])):
        if step:
            (project.root / "src/b").unlink() if step == "gone" else project.write("src/b", "src/b")
        built(project)
        assert ran(project) == expected, step


def test_touching_a_file_redoes_nothing(project: Project) -> None:
    project.write("in", "1")
    project.spec("x", note("in"))
    built(project)
    os.utime(project.root / "in", (1, 1))
    built(project)
    assert ran(project) == ["s"]


def test_files_outside_the_project_are_read_like_any_other(project: Project) -> None:
    outside = project.root.parent / "outside"
    for place in ("../outside", str(outside)):
        outside.write_text("1")
        project.spec("x", note(place))
        built(project)
        outside.write_text("2")
        built(project)
        assert ran(project) == ["s", "s"]


def test_a_symbolic_link_counts_by_the_contents_it_leads_to(project: Project) -> None:
    for name in ("one", "same", "other"):
        project.write(name, name if name == "other" else "1")
    link = project.root / "link"
    link.symlink_to("one")
    project.spec("x", note("link"))
    built(project)
    for target, expected in (("same", []), ("other", ["s"])):
        link.unlink()
        link.symlink_to(target)
        ran(project)
        built(project)
        assert ran(project) == expected
    project.write("other", "edited")
    built(project)
    assert ran(project) == ["s"]


def test_read_only_sources_are_no_obstacle(project: Project) -> None:
    project.write("src/in", "1").chmod(0o444)
    (project.root / "src").chmod(0o555)
    project.spec("x", note("src/in"))
    built(project)
    (project.root / "src").chmod(0o755)
    assert ran(project) == ["s"]


def test_a_run_reads_what_another_run_writes(project: Project) -> None:
    project.write("in", "1")
    project.spec("b-first", steps("make:\n  run: 'echo make >> ran; cat {in} > {out}'\n  reads: in\n  writes: made\nmore:\n  run: 'echo more >> ran; echo > {out}'\n  writes: more"))
    project.spec("a-second", steps("use:\n  run: 'echo use >> ran; cat {in} > {out}'\n  reads: runs/b-first/made\n  writes: used"))
    built(project, "a-second")
    assert ran(project) == ["make", "use"]
    project.write("in", "2")
    built(project, "a-second")
    assert project.read("runs/a-second/used") == "2"
    assert ran(project) == ["make", "use"]


def test_a_folder_read_above_runs_does_not_include_runs(project: Project) -> None:
    project.write("in.txt", "1")
    project.spec("x", steps("s:\n  run: 'echo s >> ../ran; : {in}; echo > {out}'\n  reads: [., '**/*.txt']\n  writes: a.txt"))
    for _ in range(3):
        built(project)
    assert (project.root.parent / "ran").read_text() == "s\n"


def test_position_of_inputs_counts(project: Project) -> None:
    for name in "ab":
        project.write(name, name)
    for reads, expected in (("[a, b]", "ab"), ("[b, a]", "ba")):
        project.spec("x", steps(f"s:\n  run: cat {{in}} > {{out}}\n  reads: {reads}\n  writes: out"))
        built(project)
        assert project.read("runs/x/out") == expected


@pytest.mark.parametrize(("by_content", "expected"), [("true", []), ("false", ["s"])])
def test_the_name_of_an_input_counts_unless_by_content_says_otherwise(project: Project, by_content: str, expected: list[str]) -> None:
    for name in ("old", "new"):
        project.write(name, "same")
        project.spec("x", note(name) + f"    by_content: {by_content}\n")
        built(project)
        last = ran(project)
    assert last == expected


# -- environment


DUMP = "import json, os\ndef f(reads, writes):\n    json.dump(dict(os.environ), open(writes[0], 'w'))\n"


@pytest.mark.parametrize("how", ["run", "call"])
def test_a_step_sees_path_home_locale_and_what_it_declares(project: Project, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGUAGE", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_TIME", "TZ", "NOT_SET"):
        monkeypatch.delenv(name, raising=False)
    given = {"HOME": "/home/me", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "SECRET_TOKEN": "t0ken", "PASSED": "as it is", "PYTHONPATH": "/nowhere"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    project.write("f.py", DUMP)
    do = "call: f.py:f" if how == "call" else f"run: ['{sys.executable}', -I, -c, 'import f_ as f', '{{out}}']"
    if how == "run":
        program = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
        do = f"run: ['{sys.executable}', -c, {json.dumps(program)}, '{{out}}']"
    project.spec("x", "env: [PASSED]\n" + steps(f"s:\n  for: {{seed: [7]}}\n  {do}\n  env: {{SEED: 's{{seed}}', EMPTY: '', NOT_SET: }}\n  writes: a"))
    built(project)
    seen = json.loads(project.read("runs/x/a"))
    expected = {"HOME": "/home/me", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    expected |= {"PASSED": "as it is", "SEED": "s7", "EMPTY": ""}
    assert seen.pop("COPPICE_FOLDER")
    assert seen == expected


def test_values_passed_through_are_nowhere_in_the_records(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    project.write("f.py", "import os\ndef f(reads, writes):\n    print(os.environ['TOKEN'])\n    open(writes[0], 'w').close()\n")
    project.spec("x", steps("r:\n  run: 'echo $TOKEN; echo $TOKEN >&2; echo > {out}'\n  env: [TOKEN]\n  writes: a\nc:\n  call: f.py:f\n  env: [TOKEN]\n  writes: b"))
    said = built(project)
    files = [p for p in (project.root / "runs").rglob("*") if p.is_file()]
    assert "s3cr3t-value" not in said.out + said.err
    assert not [p for p in files if b"s3cr3t-value" in p.read_bytes()]
    assert log_of(project, "x:r") == "[TOKEN]\n[TOKEN]\n"
    assert log_of(project, "x:c") == "[TOKEN]\n"


def test_a_value_passed_through_does_not_count_and_one_that_is_set_does(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = steps("s:\n  run: 'echo s >> ran; echo > {out}'\n  env: {PASSED: , FIXED: one}\n  writes: a")
    for passed, fixed, expected in (("1", "one", ["s"]), ("2", "one", []), ("2", "two", ["s"]), ("2", "one", [])):
        monkeypatch.setenv("PASSED", passed)
        project.spec("x", spec.replace("one", fixed))
        built(project)
        assert ran(project) == expected


# -- limits


def gone(pid: int) -> bool:
    """Ended, though perhaps not waited for: who inherits it here may be in no hurry."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_timeout_ends_the_command_and_its_children(project: Project) -> None:
    project.spec("x", steps("s:\n  run: 'echo begun; sleep 61 & echo $! > ../pid; sleep 62; echo > {out}'\n  timeout: 0.3\n  writes: a"))
    start = time.monotonic()
    assert "timed out after 0.3 s" in failed(project)
    assert time.monotonic() - start < 10
    assert gone(int((project.root.parent / "pid").read_text()))
    assert log_of(project, "x:s").startswith("begun\n")


def test_a_timeout_ends_a_function_and_the_next_one_works(project: Project) -> None:
    project.write("f.py", "import time\ndef slow(reads, writes):\n    time.sleep(60)\ndef good(reads, writes):\n    open(writes[0], 'w').close()\n")
    project.spec("x", steps("a:\n  call: f.py:slow\n  timeout: 0.5s\n  writes: a\nb:\n  call: f.py:good\n  writes: b"))
    said = project.call("run", "-n", "1", "--continue")
    assert (said.code, "timed out after 0.5 s" in said.out + said.err) == (1, True)
    assert (project.root / "runs/x/b").exists()


@pytest.mark.parametrize(("retries", "code", "tries"), [(0, 1, 1), (1, 1, 2), (2, 0, 3), (5, 0, 3)])
def test_a_failed_command_is_tried_again_so_often(project: Project, retries: int, code: int, tries: int) -> None:
    project.spec("x", steps(f"s:\n  run: 'echo s >> ran; [ $(wc -l < ran) -ge 3 ] && echo > {{out}}'\n  retries: {retries}\n  writes: a"))
    assert project.call("run").code == code
    assert ran(project) == ["s"] * tries


CROWD = """
kind: steps
rooms: {{two: 2}}
steps:
  s:
    for: {{n: {{range: 6}}}}
    run: 'mkdir -p in; touch in/s{{n}}; printf "%s\\n\\n" "$(ls in)" >> seen; sleep 0.05; rm in/s{{n}}; echo > {{out}}'
    room: {room}
    writes: s{{n}}
  t:
    for: {{n: {{range: 3}}}}
    run: 'mkdir -p in; touch in/t{{n}}; printf "%s\\n\\n" "$(ls in)" >> seen; sleep 0.05; rm in/t{{n}}; echo > {{out}}'
    room: {room}
    writes: t{{n}}
"""


@pytest.mark.parametrize(("room", "jobs", "most", "most_s"), [("two", 8, 2, 2), ("2", 8, 4, 2), ("two", 1, 1, 1), ("5", 3, 3, 3)])
def test_never_more_at_once_than_a_room_has_places(project: Project, room: str, jobs: int, most: int, most_s: int) -> None:
    project.spec("x", CROWD.format(room=room))
    built(project, "-n", str(jobs))
    crowds = [crowd.split() for crowd in project.read("seen").split("\n\n")]
    assert max(map(len, crowds)) <= most
    assert max(sum(name[0] == "s" for name in crowd) for crowd in crowds) <= most_s


def test_what_waits_for_a_room_leaves_its_place_to_others(project: Project) -> None:
    wait = "i=0; while [ ! -e runs/x/free ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done; [ -e runs/x/free ] && echo > {out}"
    spec = steps(f"crowded:\n  for: {{n: [1, 2, 3]}}\n  run: {json.dumps(wait)}\n  room: 1\n  writes: '{{n}}'\nfree:\n  run: 'echo > {{out}}'\n  writes: free")
    project.spec("x", spec)
    built(project, "-n", "2")


def test_as_many_run_at_once_as_asked_for(project: Project) -> None:
    wait = "touch here.{n}; i=0; while [ $(ls here.* | wc -l) -lt 4 ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done; [ $i -lt 1000 ] && echo > {out}"
    project.spec("x", steps(f"s:\n  for: {{n: {{range: 4}}}}\n  run: {json.dumps(wait)}\n  writes: '{{n}}'"))
    built(project, "-n", "4")


# -- functions


FUNCTIONS = """
import os, sys
CALLS = 0
def good(reads, writes):
    print('to the log'); print('and this', file=sys.stderr); os.write(1, b'raw\\n')
    open(writes[0], 'w').write(sys.stdin.read() + os.getcwd())
def raises(reads, writes):
    raise ValueError('no such luck')
def leaves(reads, writes):
    sys.exit(3)
def leaves_well(reads, writes):
    open(writes[0], 'w').close()
    sys.exit()
def dies(reads, writes):
    print('last words', flush=True)
    os._exit(5)
def killed(reads, writes):
    os.kill(os.getpid(), 9)
def interrupted(reads, writes):
    raise KeyboardInterrupt
def away(reads, writes):
    os.chdir('/')
    open(os.path.join('/', writes[0]) if os.path.isabs(writes[0]) else os.path.join(sys.path[0], writes[0]), 'w').close()
def silent(reads, writes):
    sys.stdout.close()
    open(writes[0], 'w').close()
def key(reads, writes):
    return {}['raises']
def no_arguments():
    pass
not_a_function = 3
"""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", "ValueError: no such luck"),
        ("leaves", "sys.exit(3)"),
        ("dies", "exit status 5"),
        ("killed", "killed by signal 9"),
        ("interrupted", "KeyboardInterrupt"),
        ("key", "KeyError('raises')"),
        ("no_arguments", "TypeError: no_arguments() takes 0 positional arguments but 2 were given"),
        ("not_a_function", "TypeError: 'int' object is not callable"),
        ("nowhere", "f.py has no function nowhere"),
    ],
)
def test_a_function_that_fails_says_how_and_the_next_one_works(project: Project, function: str, says: str) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps(f"a:\n  call: f.py:{function}\n  writes: a\nb:\n  call: f.py:good\n  writes: b"))
    said = project.call("run", "-n", "1", "--continue")
    assert said.code == 1
    assert says in said.out + said.err
    assert project.read("runs/x/b") == str(project.root)


@pytest.mark.parametrize("function", ["leaves_well", "away", "silent"])
def test_a_function_may_leave_move_or_close_its_output(project: Project, function: str) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps(f"a:\n  call: f.py:{function}\n  writes: a\nb:\n  call: f.py:good\n  writes: b"))
    built(project, "-n", "1")
    assert project.read("runs/x/b") == str(project.root)
    assert log_of(project, "x:b") == "raw\nto the log\nand this\n" or sorted(log_of(project, "x:b").split("\n")) == ["", "and this", "raw", "to the log"]


def test_a_traceback_is_in_the_log_of_the_target(project: Project) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps("a:\n  call: f.py:raises\n  writes: a"))
    failed(project)
    assert "in raises" in log_of(project, "x:a")


def test_a_file_that_cannot_be_imported_is_a_failure_of_the_target(project: Project) -> None:
    project.write("f.py", "def f(:\n")
    project.spec("x", steps("a:\n  call: f.py:f\n  writes: a"))
    assert "SyntaxError" in failed(project)


def test_a_function_gets_lists_or_a_mapping_where_ports_are_named(project: Project) -> None:
    project.write("f.py", "def f(reads, writes, **_):\n    open(writes if isinstance(writes, str) else writes['o'][0] if isinstance(writes, dict) else writes[0], 'w').write(repr(reads))\n")
    project.write("in", "1")
    project.spec("x", steps("a:\n  call: f.py:f\n  reads: [in, f.py]\n  writes: a\nb:\n  call: f.py:f\n  reads: {p: in, q: [in, f.py]}\n  writes: {o: b}\nc:\n  call: f.py:f\n  writes: c"))
    built(project)
    assert [project.read(f"runs/x/{n}") for n in "abc"] == ["['in', 'f.py']", "{'p': ['in'], 'q': ['in', 'f.py']}", "[]"]


def test_editing_the_file_of_a_function_makes_it_stale(project: Project) -> None:
    code = "from pathlib import Path\nimport sibling\ndef f(reads, writes):\n    with open('ran', 'a') as note:\n        note.write('f\\n')\n    Path(writes[0]).write_text(sibling.TEXT)\n"
    project.write("lib/f.py", code)
    project.write("sibling.py", "TEXT = 'one'\n")
    project.spec("x", steps("a:\n  call: lib/f.py:f\n  reads: sibling.py\n  writes: a"))
    for path, text, expected in ((None, "", ["f"]), ("lib/f.py", code + "#\n", ["f"]), ("sibling.py", "TEXT = 'two'\n", ["f"]), ("lib/f.py", code + "#\n", [])):
        if path:
            project.write(path, text)
        built(project)
        assert ran(project) == expected
    assert project.read("runs/x/a") == "two"


# -- outputs and the store


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 5_000_000])
def test_an_output_of_any_size_is_recalled_as_it_was(project: Project, size: int) -> None:
    project.write("make.sh", f"echo s >> ran; head -c {size} /dev/zero | tr '\\0' x > \"$1\"; chmod 755 \"$1\"\n")
    project.spec("x", steps("s:\n  run: [sh, make.sh, '{out}']\n  reads: make.sh\n  writes: a"))
    built(project)
    out = project.root / "runs/x/a"
    out.unlink()
    assert "recalled" in built(project).out
    assert ran(project) == ["s"]
    assert out.read_bytes() == b"x" * size
    assert out.stat().st_mode & stat.S_IXUSR


def test_an_output_that_was_not_runnable_is_not_when_recalled(project: Project) -> None:
    project.spec("x", steps("s:\n  run: 'echo > {out}'\n  writes: a"))
    built(project)
    (project.root / "runs/x/a").unlink()
    built(project)
    assert not (project.root / "runs/x/a").stat().st_mode & stat.S_IXUSR


def test_an_empty_file_is_an_input_like_any_other(project: Project) -> None:
    project.write("in", "")
    project.spec("x", note("in"))
    built(project)
    built(project)
    assert ran(project) == ["s"]


def test_a_folder_where_an_output_belongs_is_a_failure_that_says_so(project: Project) -> None:
    project.write("runs/x/a/precious", "1")
    project.spec("x", steps("s:\n  run: 'echo > {out}'\n  writes: a"))
    assert "runs/x/a is a folder; remove it" in failed(project)
    assert project.read("runs/x/a/precious") == "1"


def test_a_shared_store_recalls_what_another_checkout_made(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other checkout")
    for place in (project, other):
        place.spec("x", "store: ../store\n" + steps("s:\n  run: 'echo s >> ran; echo made > {out}'\n  writes: a"))
    built(project)
    assert "recalled" in built(other).out
    assert (ran(project), ran(other), other.read("runs/x/a")) == (["s"], [], "made\n")


@pytest.mark.parametrize("name", ["two words", "ünï ☃", "it's", "per%cent", "$(touch pwned)", "{brace}", "glob[1]*", "new\nline"])
def test_a_checkout_may_lie_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path / name)
    project.write("f.py", "def f(reads, writes):\n    print(open(reads[0]).read(), file=open(writes[0], 'w'))\n")
    project.write("src/a b", "1")
    project.spec("x", steps("s:\n  run: 'cat {in} > {out}'\n  reads: src/*\n  writes: a b\nc:\n  call: f.py:f\n  reads: a b\n  writes: c\nabs:\n  run: 'pwd > {out}'\n  writes: d"))
    built(project)
    project.write("src/a b", "2")
    built(project)
    assert project.read("runs/x/c") == "2\n"
    assert project.read("runs/x/d") == f"{project.root}\n"
