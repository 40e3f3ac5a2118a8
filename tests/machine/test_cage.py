"""Cages: a command works in each as it does without, sees what is named, and nothing of it is left."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread

import psutil
import pytest
from kit.project import PATIENCE, ROOT

from pipeline.core.cages import FULL, ISOLATED, LANDLOCK, PLAIN, CageKeys
from pipeline.machine.cage import Cage
from pipeline.machine.failures import describe_exit, describe_start_failure
from pipeline.machine.grades import lacking
from pipeline.machine.limits import CageLimits
from pipeline.machine.process import KILL_AFTER, BuildStopping, Environment, Exit, Processes
from pipeline.machine.visibility import HIDE, OWN, READ, WRITE, seen_paths

PATH = os.environ["PATH"]
SH = "/bin/sh"
NEVER = 1 << 50  # a limit that nothing reaches


@pytest.fixture(params=[PLAIN, LANDLOCK, ISOLATED])
def any_grade(request: pytest.FixtureRequest) -> str:
    if why := lacking(CageKeys(request.param)):
        pytest.skip(why)
    return str(request.param)


@pytest.fixture
def tree() -> Path:
    """The folder in which commands start, made when they do; below the folder of the test."""
    return Path("tree").absolute()


def cage_of(grade: str, tree: Path, **more: object) -> Cage:
    """A cage whose command may write to its folder alone; also `plain` is watched."""
    tree.mkdir(exist_ok=True)
    return Cage(grade, FULL, CageLimits(file_size=NEVER), str(tree), (str(tree),))._replace(**more)  # type: ignore[arg-type]


def run(processes: Processes, cage: Cage, *words: str, timeout: float | None = PATIENCE, **env: str) -> Exit:
    """Run words, or a line of a shell; its output is in `log`."""
    argv = words if len(words) > 1 else (SH, "-c", *words)
    named = Environment({"PATH": PATH, "HOME": os.environ.get("HOME", "/"), **env})
    return processes.run(argv, named, "log", timeout, cwd=cage.folder, cage=cage)


def printed() -> str:
    return Path("log").read_text(errors="surrogateescape")


# --- What is seen.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, in which we are, with an empty home beside it."""
    real = tmp_path.resolve()
    for name in ("project/tree", "project/runs", "home"):
        (real / name).mkdir(parents=True)
    monkeypatch.chdir(real / "project")
    monkeypatch.setenv("HOME", str(real / "home"))
    return real / "project"


def right_to(path: Path | str, seen: Mapping[str, str]) -> str:
    """The right that counts for a path, of the deepest folder that is named; nothing where none is."""
    path = Path(path)
    return next((seen[str(each)] for each in (path, *path.parents) if str(each) in seen), "")


def seen(project: Path, *words: str, env: Mapping[str, str] | None = None, **more: object) -> dict[str, str]:
    cage = cage_of(ISOLATED, project / "tree", **more)
    named = {"PATH": PATH, "HOME": str(project.parent / "home"), **(env or {})}
    return seen_paths(cage, words or ("true",), named)


def test_of_two_paths_the_deeper_one_counts(project: Path) -> None:
    for name in ("data/secret/open", "data/more"):
        (project / name).mkdir(parents=True)
    data = project / "data"
    found = seen(
        project,
        visible=(str(data),),
        hidden=(str(data / "secret"),),
        writable=(str(project / "tree"), str(data / "secret/open")),
    )
    rights = [right_to(data / name, found) for name in ("x", "more", "secret", "secret/x", "secret/open/x")]
    assert rights == [READ, READ, HIDE, HIDE, WRITE]
    assert [*found] == sorted(found, key=lambda path: path.count("/"))  # mounts of inner ones must come later


def test_what_is_hidden_is_not_shown_by_naming_it(project: Path) -> None:
    (project / "secret").mkdir()
    (project / "secret/key").write_text("key")
    key = str(project / "secret/key")
    for more in ({"visible": (key,)}, {}):
        found = seen(project, "cat", key, env={"KEY": key}, hidden=(str(project / "secret"),), **more)
        assert right_to(key, found) in (HIDE, "", OWN)


@pytest.mark.parametrize("name", [".env", ".git/config", "runs/x/receipts", "runs/.state"])
def test_runs_git_and_settings_of_the_project_are_hidden(project: Path, name: str) -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("x")
    assert right_to(project / name, seen(project, visible=(str(project),))) == HIDE
    assert right_to(project / "other", seen(project, visible=(str(project),))) == READ


def test_a_path_of_a_run_that_is_named_is_seen_alone(project: Path) -> None:
    for name in ("one", "two"):
        (project / f"runs/x/{name}").parent.mkdir(exist_ok=True)
        (project / f"runs/x/{name}").write_text(name)
    found = seen(project, "cat", str(project / "runs/x/one"), visible=(str(project),))
    assert [right_to(project / f"runs/x/{name}", found) for name in ("one", "two")] == [READ, HIDE]
    assert right_to(project / "runs/x/one", seen(project, "ls", f"{project}/runs", visible=(str(project),))) == HIDE


@pytest.mark.parametrize("text", ["{}", "--from={}", "cat '{}' | wc", "a:{}:b", "x={};echo"])
def test_paths_in_words_and_variables_are_seen(project: Path, text: str) -> None:
    data = project.parent / "elsewhere"
    data.write_text("1")
    assert right_to(data, seen(project)) in ("", OWN)
    assert right_to(data, seen(project, "cat", text.format(data))) == READ
    assert right_to(data, seen(project, env={"DATA": text.format(data)})) == READ


def test_paths_with_blanks_are_seen_where_a_shell_would_see_them(project: Path) -> None:
    data = project.parent / "a b"
    data.write_text("1")
    for words in (["cat", str(data)], [SH, "-c", f"cat '{data}'"]):
        assert right_to(data, seen(project, *words)) == READ


def test_home_is_ones_own_and_no_folder_above_it_is_shown(project: Path) -> None:
    home = project.parent / "home"
    (home / ".bashrc").write_text("")
    for name in (home, home.parent, "/", "/tmp"):
        found = seen(project, "ls", str(name), env={"DATA": str(name)})
        assert right_to(home / ".bashrc", found) == OWN
    assert right_to(home / ".bashrc", seen(project, "cat", f"{home}/.bashrc")) == READ  # named by itself


def test_a_virtual_environment_is_seen_with_the_python_behind_it(project: Path) -> None:
    behind, venv = project.parent / "pythons/3", project.parent / "venv"
    for folder in (behind / "bin", behind / "lib", venv / "bin", venv / "lib"):
        folder.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {behind}/bin\nversion = 3\n")
    for words, env in (([str(venv)], {}), (["true"], {"PATH": f"{venv}/bin:{PATH}"})):
        found = seen(project, *words, env=env)
        assert right_to(behind / "bin/python", found) == READ
        assert right_to(venv / "lib/x.py", found) == READ


def test_of_a_prefix_that_holds_more_only_programs_are_seen(project: Path) -> None:
    home = project.parent / "home"
    for folder in (".local/bin", ".local/lib", ".local/share"):
        (home / folder).mkdir(parents=True)
    found = seen(project, env={"PATH": f"{home}/.local/bin:{PATH}"})
    rights = [right_to(home / f".local/{name}/x", found) for name in ("bin", "lib", "share")]
    assert rights == [READ, READ, OWN]


def test_what_a_link_leads_to_is_seen(project: Path) -> None:
    real = project.parent / "real"
    real.mkdir()
    (project / "link").symlink_to(real)
    found = seen(project, visible=(str(project / "link"),))
    assert [right_to(path, found) for path in (project / "link", real)] == [READ, READ]


# --- Commands work as they do elsewhere.

ENDS = ["true", "exit 7", "exit 127", "kill -9 $$", "kill $$", "kill -ABRT $$", "kill -SEGV $$; :"]


@pytest.mark.parametrize("line", ENDS)
def test_how_a_command_ended_is_told_in_the_same_words(
    processes: Processes, any_grade: str, tree: Path, line: str
) -> None:
    without = processes.run([SH, "-c", line], Environment({"PATH": PATH}), "log")
    ended = run(processes, cage_of(any_grade, tree), line)
    assert ended == without
    assert describe_exit(ended, None) == describe_exit(without, None)


def starts(processes: Processes, cage: Cage | None, tree: Path, words: Sequence[str]) -> tuple[object, ...]:
    """What comes of starting it, as far as somebody is told."""
    Path("log").write_bytes(b"")
    try:
        ended = processes.run(words, Environment({"PATH": PATH}), "log", PATIENCE, cwd=str(tree), cage=cage)
    except OSError as error:
        return type(error), *describe_start_failure(error, words[0])
    return (ended,)


@pytest.mark.parametrize("program", ["no-such", "./no-such", "./no-right", "./folder", "./file/x", "/no/such"])
def test_a_program_that_cannot_be_started_is_the_same_mistake_as_elsewhere(
    processes: Processes, any_grade: str, tree: Path, program: str
) -> None:
    cage = cage_of(any_grade, tree)
    (tree / "folder").mkdir()
    (tree / "no-right").write_text("#!/bin/sh\n")
    (tree / "file").write_text("")
    assert starts(processes, cage, tree, [program]) == starts(processes, None, tree, [program])


def test_a_folder_that_is_gone_is_a_mistake(processes: Processes, any_grade: str, tree: Path) -> None:
    cage = cage_of(any_grade, tree)
    tree.rmdir()
    with pytest.raises(FileNotFoundError, match="tree"):
        run(processes, cage, "true")


def test_a_script_without_its_interpreter_is_the_same_mistake_as_elsewhere(
    processes: Processes, any_grade: str, tree: Path
) -> None:
    cage = cage_of(any_grade, tree)
    (tree / "script").write_text("#!/no/such/program\n")
    (tree / "script").chmod(0o755)
    assert starts(processes, cage, tree, ["./script"]) == starts(processes, None, tree, ["./script"])


def test_streams_pass_through_and_its_folder_is_its_own(processes: Processes, any_grade: str, tree: Path) -> None:
    cage = cage_of(any_grade, tree)
    with TemporaryFile() as given, TemporaryFile() as out:
        given.write(b"given")
        given.seek(0)
        words = [SH, "-c", "pwd -P; cat; echo error >&2"]
        env = Environment({"PATH": PATH})
        ended = processes.run(words, env, "log", cwd=str(tree), stdin=given, stdout=out, cage=cage)
        assert ended == Exit(0)
        assert os.pread(out.fileno(), 999, 0) == f"{tree.resolve()}\ngiven".encode()
    assert printed() == "error\n"


def test_output_is_in_order_and_without_secrets(processes: Processes, any_grade: str, tree: Path) -> None:
    env = Environment({"PATH": PATH, "KEY": "hush-hush"}, {"KEY": "hush-hush"})
    words = [SH, "-c", "echo one; printf hush >&2; sleep 0.05; echo -hush; echo two >&2"]
    assert processes.run(words, env, "log", cwd=str(tree), cage=cage_of(any_grade, tree)) == Exit(0)
    assert printed() == "one\n[KEY]\ntwo\n"


def test_words_and_variables_may_be_anything(processes: Processes, any_grade: str, tree: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe n\xc3\xa4me\n'\"$(x);*")
    cage = cage_of(any_grade, tree)
    (tree / odd).write_text(odd, errors="surrogateescape")
    env = {"ODD": odd, "EMPTY": "", "EQUALS": "=a=b", "/": "/", "SLASHES": "//x//", "TMPDIR": "/no/such"}
    line = 'printf "%s\\n" "$1" "$ODD" "$EMPTY" "$EQUALS" "$SLASHES"; cat "$1"'
    assert run(processes, cage, SH, "-c", line, "sh", odd, **env) == Exit(0)
    assert printed() == f"{odd}\n{odd}\n\n=a=b\n//x//\n{odd}"


def test_paths_that_are_no_text_may_be_seen_and_written(processes: Processes, any_grade: str, tree: Path) -> None:
    odd = Path(os.fsdecode(b"odd \xff")).absolute()
    odd.mkdir()
    (odd / "in").write_text("in\n")
    cage = cage_of(any_grade, tree, writable=(str(tree), str(odd)))
    assert run(processes, cage, SH, "-c", 'cat "$1"/in; echo out > "$1"/out', "sh", str(odd)) == Exit(0)
    assert (printed(), (odd / "out").read_text()) == ("in\n", "out\n")


def test_a_thousand_paths_are_seen_and_written(processes: Processes, grade: str, tree: Path) -> None:
    made = [Path(f"{kind}{n}").absolute() for kind in ("seen", "own") for n in range(500)]
    for path in made:
        path.mkdir()
        (path / "x").write_text("1\n")
    seen, own = [str(path) for path in made[:500]], [str(path) for path in made[500:]]
    cage = cage_of(grade, tree, visible=tuple(seen), writable=(str(tree), *own))
    line = "for n in $(seq 0 499); do cat ../seen$n/x; echo 2 > ../own$n/x; done | wc -l"
    start = time.monotonic()
    assert run(processes, cage, line) == Exit(0)
    assert printed().strip() == "500"
    assert {(Path(path) / "x").read_text() for path in own} == {"2\n"}
    assert time.monotonic() - start < PATIENCE / 4


def test_very_long_lines_are_run(processes: Processes, any_grade: str, tree: Path) -> None:
    words = [f"/{'x' * 60}/{n}" for n in range(10_000)]
    start = time.monotonic()
    assert run(processes, cage_of(any_grade, tree), SH, "-c", "echo $#", "sh", *words) == Exit(0)
    assert run(processes, cage_of(any_grade, tree), f"echo {'word/word ' * 12_000} | wc -w") == Exit(0)
    assert printed().split() == ["10000", "12000"]
    assert time.monotonic() - start < PATIENCE / 4


def test_more_words_than_a_program_can_have_are_the_same_mistake_as_elsewhere(
    processes: Processes, any_grade: str, tree: Path
) -> None:
    words = [SH, "-c", ":", "x" * (1 << 18)]
    assert starts(processes, cage_of(any_grade, tree), tree, words) == starts(processes, None, tree, words)


def test_programs_at_odd_places_start(processes: Processes, grade: str, tree: Path) -> None:
    """By a link on the PATH into a place that is on none, and by an interpreter that only `env` finds."""
    place, on_path = Path("place/bin").absolute(), Path("on path").absolute()
    place.mkdir(parents=True)
    (place.parent / "lib").mkdir()
    on_path.mkdir()
    (place.parent / "lib/part").write_text("part\n")
    (place / "program").write_text(f"#!/usr/bin/env inter\ncat {place.parent}/lib/part\n")
    (place / "program").chmod(0o755)
    (on_path / "linked").symlink_to(place / "program")
    shutil.copy(SH, on_path / "inter")
    assert run(processes, cage_of(grade, tree), "linked", "x", PATH=f"{on_path}:{PATH}") == Exit(0)
    assert printed() == "part\n"


def test_our_python_starts_with_what_is_installed_for_it(processes: Processes, grade: str, tree: Path) -> None:
    line = "import psutil, sqlite3, ssl, sys; print(sys.prefix)"
    assert run(processes, cage_of(grade, tree), sys.executable, "-c", line) == Exit(0)
    assert printed().strip() == sys.prefix


# --- What a command sees, and what it changes.


def test_a_command_sees_and_changes_what_it_is_given_alone(processes: Processes, grade: str, tree: Path) -> None:
    for name in ("seen", "output", "hidden", "other"):
        Path(name).mkdir()
        Path(name, "x").write_text(f"{name}\n")
    here = tree.parent
    (here / "seen/inner").mkdir()
    (here / "seen/inner/x").write_text("inner\n")
    more = {"writable": (str(tree), f"{here}/output"), "hidden": (f"{here}/hidden", f"{here}/seen/inner")}
    cage = cage_of(grade, tree, visible=(f"{here}/seen",), **more)
    line = """cd ..
        for name in seen output hidden other seen/inner; do cat $name/x; done 2>/dev/null
        for name in seen hidden other . tree output; do echo new > $name/new; done 2>/dev/null
        touch $HOME/x ${TMPDIR:-/tmp}/x && echo own
        : """
    assert run(processes, cage, line) == Exit(0)
    assert printed() == "seen\noutput\nown\n"
    assert sorted(map(str, Path().rglob("new"))) == ["output/new", "tree/new"]


def test_files_in_shared_memory_are_files_as_others(
    processes: Processes, grade: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.chdir(folder)
        Path("data").write_text("named\n")
        Path("other").write_text("other\n")
        cage = cage_of(grade, Path("tree").absolute())
        assert run(processes, cage, f"cat {folder}/data; cat ../other; cp ../data new") == Exit(0)
        assert printed().splitlines()[0] == "named"
        assert "\nother" not in printed()
        assert Path("tree/new").read_text() == "named\n"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cages have their temporary folders for this test alone."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def test_temporary_files_are_its_own_and_none_is_left(
    processes: Processes, grade: str, tree: Path, scratch: Path
) -> None:
    line = """folder=${TMPDIR:-/tmp}; ls -d $folder/closed && exit 1
        mkdir -p $folder/closed/in $HOME/x; touch $folder/closed/in/x
        chmod 0 $folder/closed/in $folder/closed"""
    for _ in range(2):
        assert run(processes, cage_of(grade, tree), line) == Exit(0)
    assert not [*scratch.iterdir()]


def test_a_very_deep_temporary_folder_breaks_nothing(
    processes: Processes, grade: str, tree: Path, scratch: Path
) -> None:
    line = "import os\nos.chdir(os.environ.get('TMPDIR', '/tmp'))\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    assert run(processes, cage_of(grade, tree), sys.executable, "-c", line) == Exit(0)
    assert not [*scratch.iterdir()]


SCRATCH = """import os, sys, time
from pipeline.machine.cage import Cage, caged_scratch
with caged_scratch(Cage("landlock")) as cage:
    os.makedirs(f"{cage.scratch}/shut/x")
    os.chmod(f"{cage.scratch}/shut", 0)
    os.chmod(cage.scratch, 0)
    print(cage.scratch, flush=True)
    time.sleep(600)
"""


def test_temporary_files_of_a_killed_build_go_with_the_next_one_and_those_of_others_stay(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}

    def start() -> tuple[subprocess.Popen[bytes], Path]:
        build = subprocess.Popen([sys.executable, "-c", SCRATCH], env=env, stdout=subprocess.PIPE)
        assert build.stdout
        return build, Path(build.stdout.readline().decode().strip())

    started = [start() for _ in range(3)]
    for build, _ in started[:2]:
        build.kill()
        build.wait()
    (tmp_path / "coppice-scratch-link").symlink_to(started[2][1])
    started.append(start())
    assert [folder.exists() for _, folder in started] == [False, False, True, True]
    for build, _ in started:
        build.kill()
        build.communicate()


# --- Ends.


def test_a_timeout_is_heard_in_the_cage_first(processes: Processes, any_grade: str, tree: Path) -> None:
    line = "trap 'echo heard; exit 3' TERM; touch ready; while :; do sleep 0.05; done"
    assert run(processes, cage_of(any_grade, tree), line, timeout=3) == Exit(3, timed_out=True)
    assert printed().rpartition("heard")[1]


def test_a_timeout_ends_who_does_not_listen(processes: Processes, any_grade: str, tree: Path) -> None:
    start = time.monotonic()
    ended = run(processes, cage_of(any_grade, tree), "trap '' TERM; while :; do sleep 0.05; done", timeout=0.3)
    assert ended == Exit(-signal.SIGKILL, timed_out=True)
    assert KILL_AFTER < time.monotonic() - start < PATIENCE


def test_a_timeout_that_nobody_heeds_costs_no_time(processes: Processes, any_grade: str, tree: Path) -> None:
    start = time.monotonic()
    assert run(processes, cage_of(any_grade, tree), "sleep", "600", timeout=1).timed_out
    assert time.monotonic() - start < 1 + KILL_AFTER


def test_a_stop_ends_all_and_is_heard(processes: Processes, any_grade: str, tree: Path) -> None:
    cage, ended = cage_of(any_grade, tree), list[Exit]()
    line = "trap 'exit 5' TERM; touch ready$1; while :; do sleep 0.05; done"

    def one(n: int) -> None:
        ended.append(run(processes, cage, SH, "-c", line, "sh", str(n)))

    threads = [Thread(target=one, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    while len([*tree.glob("ready*")]) < 4:
        assert all(thread.is_alive() for thread in threads)
    processes.stop()
    for thread in threads:
        thread.join(PATIENCE)
    assert ended == [Exit(5)] * 4
    with pytest.raises(BuildStopping):
        run(processes, cage, "true")


def marked(mark: str) -> list[int]:
    """Processes whose words have this mark."""
    found = []
    for each in psutil.process_iter():
        try:
            found += [each.pid] if any(mark in word for word in each.cmdline()) else []
        except psutil.Error:
            continue
    return found


def gone(mark: str) -> bool:
    """Check if there are no such processes, or soon none."""
    end = time.monotonic() + PATIENCE
    while left := marked(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return not left


DAEMONS = """import os, sys, time
mark, depth = sys.argv[1], int(sys.argv[2])
for _ in range(depth):  # each starts the next, in a session of its own
    if os.fork():
        time.sleep(600)
    os.setsid()
open(f"ready{depth}", "w").close()
time.sleep(600)
"""
START = 'setsid python3 daemons.py "$1" "$2" & while [ ! -e ready$2 ]; do sleep 0.01; done'


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_daemons_and_what_they_have_started_end_with_the_command(
    processes: Processes, any_grade: str, tree: Path, depth: int
) -> None:
    """They hold the log open, and have left their sessions."""
    cage, mark = cage_of(any_grade, tree), f"mark-{os.getpid()}-{depth}"
    (tree / "daemons.py").write_text(DAEMONS)
    assert run(processes, cage, SH, "-c", START, "sh", mark, str(depth)) == Exit(0)
    assert not [pid for pid in marked(mark) if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def test_a_daemon_that_goes_on_printing_holds_nobody_up(processes: Processes, any_grade: str, tree: Path) -> None:
    """Also while another command runs, beside which nobody can tell whose daemon it is."""
    cage = cage_of(any_grade, tree)
    other = processes.start([SH, "-c", "sleep 600"], {"PATH": PATH})
    start = time.monotonic()
    assert run(processes, cage, "setsid yes mark & sleep 0.2; echo done > done") == Exit(0)
    assert (tree / "done").exists()
    assert time.monotonic() - start < PATIENCE / 4
    processes.end(other)


def test_twenty_at_once_do_not_end_each_other(processes: Processes, any_grade: str, tree: Path) -> None:
    """Nor what we start ourselves meanwhile, nor do those in cages end with the threads that started others."""
    cage = cage_of(any_grade, tree)

    def one(n: int) -> list[Exit]:
        return [run(processes, cage, f"setsid sleep 60 & sleep 0.0{n % 7}; exit {n}") for _ in range(3)]

    def git(_: int) -> int:
        return subprocess.run(["git", "--version"], stdout=subprocess.DEVNULL, check=False).returncode

    with ThreadPoolExecutor(24) as pool:
        ended, beside = pool.map(one, range(20)), pool.map(git, range(60))
        assert [*ended] == [[Exit(n)] * 3 for n in range(20)]
        assert {*beside} == {0}


COORDINATOR = """import os, sys
from pipeline.machine.cage import Cage
from pipeline.machine.process import Environment, Processes
grade, tree, mark = sys.argv[1:]
cage = Cage(grade, "full", folder=tree, writable=(tree,))
words = ["/bin/sh", "-c", "setsid sleep 600 & touch ready; while :; do sleep 0.1; done", mark]
Processes(["x"]).run(words, Environment({"PATH": os.environ["PATH"], "COPPICE_FOLDER": os.path.abspath("runs/x")}),
                     "log", cwd=tree, cage=cage)
"""


def test_a_build_that_is_killed_leaves_nothing(grade: str, tree: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    mark = f"mark-{os.getpid()}-{grade}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", COORDINATOR, grade, str(tree), mark], cwd=tmp_path, env=env) as build:
        while not (tree / "ready").exists():
            assert build.poll() is None
            time.sleep(0.01)
        assert len(marked(mark)) > 1
        build.kill()
    assert gone(mark)


# --- What a candidate leaves where it may write.


def test_what_lies_in_its_own_folders_shows_nothing_else(project: Path, processes: Processes, grade: str) -> None:
    """Though the words of the spec name a path there: a candidate may have made it a link, or an environment."""
    (project / "secret").mkdir()
    (project / "secret/key").write_text("canary")
    tree = project / "tree"
    (tree / "link").symlink_to(project / "secret/key")
    (tree / "venv").mkdir()
    (tree / "venv/pyvenv.cfg").write_text(f"home = {project}/secret/bin\n")
    line = f"cat {tree}/link {project}/sec*/key; ls {tree}/venv"
    assert run(processes, cage_of(grade, tree), line, CONF=f"{tree}/venv") == Exit(0)
    assert "canary" not in printed()


def test_what_is_hidden_is_looked_for_anew_each_time(project: Path, processes: Processes, grade: str) -> None:
    """What is hidden, or visible, may be a link that leads elsewhere by now."""
    for name in ("data/one", "data/two"):
        (project / name).mkdir(parents=True)
        (project / name / "key").write_text(f"{name}\n")
    link, shown = project / "link", project / "shown"
    cage = cage_of(grade, project / "tree", visible=(f"{project}/data", str(shown)), hidden=(str(link),))
    for closed, opened in (("one", "two"), ("two", "one")):
        for each, target in ((link, closed), (shown, opened)):
            each.unlink(missing_ok=True)
            each.symlink_to(project / "data" / target)
        Path("log").write_bytes(b"")
        run(processes, cage, f"cat {project}/data/one/key {project}/data/two/key {shown}/key {link}/key 2>/dev/null; :")
        assert printed().split() == [f"data/{opened}"] * 2


def test_a_program_that_does_not_start_in_its_cage_alone_is_told_as_a_shell_does(
    processes: Processes, grade: str, tree: Path
) -> None:
    """It stands where it can be seen, and what runs it does not."""
    hidden, shown = Path("hidden").absolute(), Path("shown").absolute()
    for each in (hidden, shown):
        each.mkdir()
    shutil.copy(SH, hidden / "inter")
    (shown / "script").write_text(f"#!{hidden}/inter\n")
    (shown / "script").chmod(0o755)
    cage = cage_of(grade, tree, hidden=(str(hidden),))
    assert run(processes, cage, f"{shown}/script", "x").code in (126, 127)
    assert "script" in printed()


def test_who_starts_commands_is_in_no_group_of_theirs(processes: Processes, any_grade: str, tree: Path) -> None:
    """Else it would be ended with them, or held to their limits."""
    assert run(processes, cage_of(any_grade, tree, limits=CageLimits(memory=1 << 30, processes=50)), "true") == Exit(0)
    assert len({Path(f"/proc/self/task/{thread}/cgroup").read_text() for thread in os.listdir("/proc/self/task")}) == 1


def test_who_changes_the_first_process_of_its_cage_ends_with_it(processes: Processes, tree: Path) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    line = f'{sys.executable} -c \'open("/proc/1/mem", "r+b")\''
    assert run(processes, cage_of(ISOLATED, tree), line).code == 1
    assert "Read-only file system" in printed() or "Permission denied" in printed()


@pytest.mark.parametrize("nested", [False, True])
def test_no_control_groups_can_be_mounted(processes: Processes, tree: Path, nested: bool) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    line = "unshare -Ur true && echo nests; unshare -UrmC true && echo groups"
    line += "; unshare -Urm mount -t cgroup2 x /tmp && echo groups"
    run(processes, cage_of(ISOLATED, tree, nested=nested), line)
    assert printed().count("groups") == 0
    assert ("nests" in printed()) == nested
