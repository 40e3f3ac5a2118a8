"""A search goes to its end: every idea becomes a record with its reason, and none of them stops the run."""

import json
import shutil
import subprocess
from hashlib import sha256
from typing import Any

import pytest
from kit.gitting import contents, repository, run_git, write
from kit.project import Project
from kit.searches import TESTED, Search, adding, agent, by_config, command, files, idea, stage, told

MIXED = {
    "1win": "gain=$((gain + 3))",
    "2lose": "gain=$((gain - 3))",
    "3broken": ": broken",
    "4fails": "bad=0 gain=99",
    "5win-less": "gain=$((gain + 1))",
}


@pytest.fixture
def mixed(project: Project) -> Search:
    return Search(project, MIXED, **TESTED)


def test_every_idea_is_a_record_with_its_reason_and_none_stops_the_run(mixed: Search) -> None:
    mixed.idea("6again", "gain=$((gain + 3))", idea("1WIN").replace("- Add", "*  Add") + "\n\n")
    mixed.idea("7empty-diff", ":")
    mixed.project.write("ideas/7empty-diff/change.patch", "")
    mixed.idea("8no-file", ":")
    (mixed.root / "ideas/8no-file/change.patch").unlink()
    mixed.idea("9astray", ":")
    mixed.project.write("ideas/9astray/change.patch", adding("plus/start", "gain=99"))
    mixed.project.write("ideas/9nonsense/change.patch", "no patch at all\n")
    mixed.project.write("ideas/9nonsense/idea.md", idea("nonsense"))
    mixed.spec(ideas_per_node=12, beam_width=2)
    mixed.build()
    assert [mixed.why(f"d0.n0.i{n}") for n in (0, 4)] == ["d1.n0", "d1.n1"]
    expected = {
        1: "primary_metric_regressed",
        2: "failed: tests: exit status 1",
        3: "bad on purpose",
        5: "the same idea as d0.n0.i0",
        6: "no change is recorded",
        7: "no change is recorded",
        8: "the patch does not apply",
        9: "the patch does not apply",
        10: "no idea",
        11: "no idea",
    }
    for n, why in expected.items():
        assert why in mixed.why(f"d0.n0.i{n}"), n
    task = mixed.record("depths/0/assigned.json")["tasks"]["d0.n0.i5"]
    assert (task["empty"], task["duplicate_of"]) == ("duplicate", "d0.n0.i0")
    assert mixed.summary("d0.n0.i5")["status"] == "skipped"
    assert mixed.summary("d0.n0.i8")["status"] == "failed"
    assert mixed.stop(0) == "max_depth_reached"
    swept = [line for line in mixed.executed() if line.startswith("sweep")]
    assert swept == [f"sweep d0.n0{slot}" for slot in ("", ".i0", ".i1", ".i3", ".i4")]


@pytest.mark.parametrize("mode", ["whole", "per_config"])
def test_nobody_gets_better_by_failing_where_it_is_bad(project: Project, mode: str) -> None:
    """The mean over what is left would be higher in both: the worst config is the one that is missing."""
    how = {} if mode == "whole" else {"sweep": by_config({"n": [0, 1, 2]})}
    search = Search(project, {"1fails": "bad=0", "2fails": "bad=0 gain=11", "3wins": "gain=11"}, **how)
    search.build()
    assert search.why("d0.n0.i2") == "d1.n0"
    for slot in ("d0.n0.i0", "d0.n0.i1"):
        assert "config 0, status: 'error' instead of ok" in search.why(slot)
        assert search.summary(slot)["status"] == "completed"
        assert search.summary(slot)["scoring_summary"] is None
        assert search.summary(slot)["rows_used"] == 2


def test_the_commit_is_there_before_its_sweep_which_runs_on_exactly_these_files(project: Project) -> None:
    """What a sweep or a test leaves in its checkout, the next one does not see, nor does the commit."""
    look = 'git -C "$PWD" rev-parse HEAD HEAD^{{tree}} > "$(basename "$PWD")"; mv "$(basename "$PWD")" "$HEADS"; '
    rubbish = 'find . -path ./.git -prune -o -type f -print | sort > "$HEADS/$(basename "$PWD").files"; touch rubbish'
    search = Search(project, {"1a": "gain=11", "2b": "gain=12"})
    (search.root / "heads").mkdir()
    spy = command(f"{look}{rubbish} plus/rubbish; sh {{in}} {{results}} {{limit}}", "sweep.sh")
    spy["env"]["HEADS"] = "{project}/heads"
    spied = command(f"{look}{rubbish}; : {{in}}", "tests.sh")
    spied["env"]["HEADS"] = "{project}/heads"
    search.spec(sweep=spy, tests=spied)
    search.build()
    for slot, name in (("d0.n0.i0", "1a"), ("d0.n0.i1", "2b")):
        candidate = search.record(f"eval/{slot}/candidate.json")
        for where in (slot, f"{slot}.tests"):
            assert project.read(f"heads/{where}").split() == [candidate["commit"], candidate["tree"]]
            assert project.read(f"heads/{where}.files").split() == ["./README", f"./plus/{name}", "./plus/start"]
        sweep, csv = search.record(f"eval/{slot}/sweep.json"), project.read(f"runs/x/artifacts/{slot}.csv")
        assert sweep["tree"] == candidate["tree"]
        assert sweep["csv_sha256"] == sha256(csv.encode()).hexdigest()
        assert project.read(f"runs/x/eval/{slot}/sweep.log") == ""
        repo = str(search.root / "runs/x/repo.git")
        assert run_git(repo, "rev-parse", f"refs/coppice/x/{slot}", GIT_DIR=repo).strip() == candidate["commit"]


def test_the_winner_is_a_node_with_a_worktree_a_ref_and_its_sweep_as_baseline(mixed: Search) -> None:
    mixed.build()
    code = mixed.record("nodes/d1.n0/code.json")
    assert code["commit"] == mixed.record("eval/d0.n0.i0/candidate.json")["commit"]
    assert (mixed.root / "runs/x/wt/d1.n0/plus/1win").read_text() == MIXED["1win"] + "\n"
    repo = str(mixed.root / "runs/x/repo.git")
    assert run_git(repo, "rev-parse", "refs/coppice/x/d1.n0", GIT_DIR=repo).strip() == code["commit"]
    artifacts = mixed.root / "runs/x/artifacts"
    assert (artifacts / "d1.n0.csv").read_bytes() == (artifacts / "d0.n0.i0.csv").read_bytes()
    assert mixed.record("nodes/d1.n0/origin.json")["from_eval"] == "d0.n0.i0"
    assert mixed.project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")
    assert not [*(mixed.root / "runs/x/cand").iterdir()], "candidates' checkouts are gone"


def test_commands_leave_only_what_they_wrote_themselves(mixed: Search) -> None:
    mixed.build()
    assert not [*(mixed.root / "runs/x").rglob("configs.json")]
    assert not [*(mixed.root / "runs/x/eval").glob("*/out*")]


# -- where a search starts

GIT_STARTS = ["repository", "folder in a repository", "plain folder"]


def start(search: Search, place: str) -> None:
    """The search's code in such a place."""
    plain = search.root / "repo"
    if place == "plain folder":
        return
    top = search.root / "elsewhere"
    inner = top if place == "repository" else top / "inner"
    repository(top, {"other": "no part of it\n"} if inner != top else files(plain, "**/*"))
    if inner != top:
        write(inner, files(plain, "**/*"))
        run_git(top, "add", "--all")
        run_git(top, "commit", "--quiet", "--message=more")
    search.spec(repo=str(inner.relative_to(search.root)))


@pytest.mark.parametrize("place", GIT_STARTS)
def test_a_search_starts_from_any_place_and_leaves_it_as_it_was(project: Project, place: str) -> None:
    search = Search(project, {"1win": "gain=11"})
    start(search, place)
    top = search.root / ("repo" if place == "plain folder" else "elsewhere")
    before = contents(top)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    after = contents(top)
    assert {name: after.get(name) for name in before} == before
    added = {name for name in after if name not in before and not name.endswith(("coppice", "coppice/x"))}
    assert added == ({".git/refs/coppice/x/root"} if place == "repository" else set())


def test_a_dirty_repository_is_refused_for_a_new_run_and_no_matter_for_one_that_goes_on(project: Project) -> None:
    search = Search(project, {"1win": "gain=11", "2win": "gain=12"}, ideas_per_node=1)
    start(search, "repository")
    project.write("elsewhere/README", "An edit.\n")
    said = search.build(code=1)
    assert "commit, stash or ignore: README" in said.out + said.err
    assert not search.executed()
    run_git(search.root / "elsewhere", "checkout", "README")
    search.build()
    commit = search.record("root.json")["commit"]
    project.write("elsewhere/README", "An edit.\n")
    search.spec(ideas_per_node=2)
    search.build()
    assert search.why("d0.n0.i1") == "d1.n0"
    assert search.record("root.json")["commit"] == commit


def test_a_new_run_starts_from_what_is_committed_now_and_an_old_one_stays_where_it_was(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"})
    start(search, "repository")
    search.build()
    project.write("elsewhere/plus/more", "risk=4\n")
    run_git(search.root / "elsewhere", "add", "--all")
    run_git(search.root / "elsewhere", "commit", "--quiet", "--message=more")
    head = run_git(search.root / "elsewhere", "rev-parse", "HEAD").strip()
    search.spec(run="y")
    search.build("x", "y")
    assert search.record("root.json", "y")["commit"] == head
    assert search.record("root.json", "x")["commit"] != head
    assert ",4\n" in project.read("runs/y/artifacts/d0.n0.csv")


@pytest.mark.parametrize("what", ["submodule", "lfs"])
def test_what_a_candidate_would_not_get_is_refused_clearly(project: Project, what: str) -> None:
    search = Search(project, {"1win": "gain=11"})
    start(search, "repository")
    repo = search.root / "elsewhere"
    if what == "lfs":
        write(repo, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    else:
        row = f"160000,{run_git(repo, 'rev-parse', 'HEAD').strip()},inner"
        run_git(repo, "update-index", "--add", "--cacheinfo", row)
    run_git(repo, "add", ".gitattributes") if what == "lfs" else None
    run_git(repo, "commit", "--quiet", "--message=more")
    said = search.build(code=1)
    expected = "Git LFS is not supported" if what == "lfs" else "submodules are not supported"
    assert expected in said.out + said.err
    assert not search.executed()


def test_a_root_that_cannot_be_measured_ends_the_search_before_anything_is_paid_for(project: Project) -> None:
    """It is no candidate's failure: nothing of it is kept, the next build tries again."""
    search = Search(project, {"1win": "gain=11"})
    project.write("repo/plus/start", '[ -e "$(dirname "$LIST")/mended" ] || { echo no numpy >&2; exit 4; }\n')
    said = search.build(code=1)
    assert "the sweep of the root" in said.out + said.err
    assert "exit status 4" in said.out + said.err
    assert "no numpy" in project.read("runs/x/.coppice/logs/d0.n0.sweep.log")
    assert not (search.root / "runs/x/depths").exists()
    project.write("mended", "")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_root_whose_rows_are_not_complete_ends_the_search(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"})
    project.write("repo/plus/start", "bad=1\n")
    said = search.build(code=1)
    assert "config 1, status: 'error' instead of ok (bad on purpose)" in said.out + said.err
    assert not stage(told(said, "built"), "idea")


# -- recall: the same files with the same sweep are measured once


def test_the_same_code_in_another_slot_and_in_another_run_is_recalled(project: Project) -> None:
    search = Search(project, {"1win": "gain=11", "2same-code": "gain=11"}, beam_width=2, **TESTED)
    for name in ("1win", "2same-code"):
        project.write(f"ideas/{name}/change.patch", adding("plus/same", "gain=11"))
    said = search.build()
    assert search.executed() == ["sweep d0.n0", "sweep d0.n0.i0", "test d0.n0.i0.tests", "test d0.n0.tests"]
    assert "d0.n0.i1.sweep" in told(said, "recalled")
    assert search.why("d0.n0.i1") == "the same code as d0.n0.i0, which comes before it"
    search.spec(run="y", beam_width=1)
    said = search.build("y")
    assert search.executed() == []
    assert search.record("eval/d0.n0.i0/sweep.json", "y") == search.record("eval/d0.n0.i0/sweep.json", "x")


def test_one_config_that_is_changed_is_the_only_one_to_run(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"}, sweep=by_config({"n": [0, 1, 2]}), sweep_config_limit=None)
    search.build()
    rows = [f"row {where}.rows-{n} {n}" for where in ("d0.n0", "d0.n0.i0") for n in (0, 1, 2)]
    assert search.executed() == sorted(rows)
    search.spec(sweep=by_config({"n": [0, 5, 2]}))
    search.build()
    assert search.executed() == ["row d0.n0.i0.rows-1 1", "row d0.n0.rows-1 1"]
    search.spec(sweep=by_config({"n": [0, 5, 2, 7]}))
    search.build()
    assert search.executed() == ["row d0.n0.i0.rows-3 3", "row d0.n0.rows-3 3"]


def test_another_metric_runs_no_config_anew(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"}, sweep=by_config({"n": [0, 1, 2]}), sweep_config_limit=None)
    search.spec(metrics={"gain": {"primary": True}})
    search.build()
    search.executed()
    search.spec(metrics={"gain": {"primary": True}, "risk": {"better": "lower", "guard": True}})
    search.build()
    assert search.executed() == []
    assert [each["name"] for each in search.summary("d0.n0.i0")["scoring_summary"]["recommendation"]["metrics"]] == [
        "gain",
        "risk",
    ]


# -- what a candidate's program leaves as its results

GOOD = "config_id,status,gain,risk\\n0,ok,99,1\\n1,ok,99,1\\n2,ok,99,1\\n"
OUT = "$AGENTIC_OUTPUT_DIR"


def printed(text: str, change: str = "") -> str:
    """Shell that writes this as the results, after `change` by sed."""
    return f"printf '{text}' | sed '{change}' > \"$results\""


HOSTILE = {
    "symlink": ('ln -s "$0" "$results"', "its results cannot be read"),
    "fifo": ('mkfifo "$results"', "no plain file"),
    "folder": ('mkdir "$results"', "no plain file"),
    "huge": ('truncate -s 300M "$results"', "line 1 of its results has more than 256 KB"),
    "nothing": (":", "without writing its results"),
    "empty": (': > "$results"', "no results CSV"),
    "binary": ('head -c 3000 /dev/urandom > "$results"', ""),
    "not UTF-8": (printed(GOOD, "s/99/\\xff/"), "is not a finite number"),
    "a field without end": (printed(GOOD + '3,"') + '; head -c 200000 /dev/zero | tr "\\0" x >> "$results"', "not CSV"),
    "NUL": (printed(GOOD, "s/99/9\\x00/"), ""),
    "NaN": (printed(GOOD, "s/^1,ok,99/1,ok,nan/"), "config 1, gain: 'nan' is not a finite number"),
    "inf": (printed(GOOD, "s/^1,ok,99/1,ok,inf/"), "config 1, gain: 'inf' is not a finite number"),
    "twice": (printed(GOOD + "1,ok,99,1\\n"), "config 1, config_id: there are 2 rows"),
    "missing": (printed(GOOD, "/^1,/d"), "config 1, config_id: the row is missing"),
    "no column": (printed(GOOD, "s/gain/pain/"), "gain: the column is missing"),
    "its checkout deleted": ('rm -rf "$PWD"', "without writing its results"),
    "its output folder deleted": (f'rm -rf "{OUT}"', "without writing its results"),
    "its output folder a file": (f'rm -rf "{OUT}"; : > "{OUT}"', ""),
    "its output folder closed": (f'mkdir -p "{OUT}/a/b"; chmod 0 "{OUT}/a"', "without writing its results"),
    "crashed": ("kill -SEGV $$", "exit status 139"),
    "aborted": ("kill -ABRT $$", "exit status 134"),
}
EXTRA = printed(GOOD + "3,ok,-99,1\\n")


def test_whatever_a_candidate_leaves_as_its_results_is_a_record(project: Project) -> None:
    search = Search(project, {})
    for n, (shell, _) in enumerate(HOSTILE.values()):
        search.idea(f"{n:02}", f"{shell}\nexit 0")
    search.idea("98extra", f"{EXTRA}\nexit 0")
    search.idea("99win", "gain=11")
    search.spec(ideas_per_node=len(HOSTILE) + 2, max_parallel_evals=2)
    search.build()
    for n, (name, (_, why)) in enumerate(HOSTILE.items()):
        assert why in search.why(f"d0.n0.i{n}"), name
        assert not search.why(f"d0.n0.i{n}").startswith("d1"), name
    assert search.why(f"d0.n0.i{len(HOSTILE)}") == "d1.n0", "rows beyond the limit do not count"
    assert not [*(search.root / "runs/x/cand").iterdir()]


def test_whatever_a_candidate_leaves_as_a_row_is_a_record(project: Project) -> None:
    search = Search(project, {}, sweep=by_config({"n": [0, 1]}), sweep_config_limit=None)
    shells = {**{name: shell for name, (shell, _) in HOSTILE.items()}, "three rows": EXTRA}
    for n, shell in enumerate(shells.values()):
        search.idea(f"{n:02}", f"{shell}\nexit 0")
    search.idea("99win", "gain=11")
    search.spec(ideas_per_node=len(shells) + 1, max_parallel_evals=2)
    search.build()
    for n, name in enumerate(shells):
        assert not search.why(f"d0.n0.i{n}").startswith("d1"), name
    assert search.why(f"d0.n0.i{len(shells)}") == "d1.n0"


TRACEBACK = """\
cat >&2 <<'END'
  File "/x/model.py", line 2
    if True
SyntaxError: expected ':'
Ran 1 test in 0.001s
END
exit 1"""


def test_the_reason_of_a_failure_has_the_last_line_that_says_why(project: Project) -> None:
    search = Search(project, {"1error": TRACEBACK, "2silent": "echo nothing to tell; exit 1"})
    search.build()
    assert search.why("d0.n0.i0") == "failed: sweep: exit status 1: SyntaxError: expected ':'"
    assert search.why("d0.n0.i1") == "failed: sweep: exit status 1"


# -- retries and timeouts

ONCE = 'mark="$(dirname "$LIST")/tried.$(basename "$PWD")"; [ -e "$mark" ] || { touch "$mark"; exit 9; }'


def test_an_evaluation_that_fails_is_tried_again_as_often_as_the_spec_says(project: Project) -> None:
    search = Search(project, {"1flaky": f"{ONCE}\ngain=11", "2fails": "exit 5"}, eval_retries=1)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert search.why("d0.n0.i1") == "failed: sweep: exit status 5"
    assert search.record("eval/d0.n0.i0/sweep.cost.json")["attempts"] == 2
    record = search.record("eval/d0.n0.i1/sweep.json")
    assert (record["status"], record["exit"], record["why"]) == ("failed", 5, "exit status 5")
    assert "attempt 1 failed: exit status 5" in project.read("runs/x/eval/d0.n0.i1/sweep.log")
    assert search.executed() == [f"sweep d0.n0{slot}" for slot in ("", ".i0", ".i0", ".i1", ".i1")]


def test_a_timeout_ends_the_whole_process_group(project: Project) -> None:
    family = 'sleep 300 & echo $! > "$LIST.pids"; (trap "" TERM; sleep 300) & echo $! >> "$LIST.pids"; wait'
    search = Search(project, {"1hangs": family, "2wins": "gain=11"}, eval_timeout_seconds=0.5)
    search.build()
    assert search.why("d0.n0.i0") == "failed: sweep: timed out after 0.5 s"
    assert search.why("d0.n0.i1") == "d1.n0"
    for pid in project.read("list.pids").split():
        done = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False)
        assert done.stdout.strip()[:1] in ("", "Z")


# -- what is nobody's failure, and what is kept


def test_a_program_for_tests_that_is_missing_is_no_failure_of_the_candidate(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"}, tests={"run": ["no-such-program"]})
    said = search.build(code=69)
    assert "cannot start 'no-such-program'" in said.out + said.err
    assert not (search.root / "runs/x/eval/d0.n0.i0/test.json").exists()


# A hook, or a script: the first time in a slot it is ended as the kernel does it for want of memory, or a shutdown.
KILLED = """case "$PWD" in *d0.n0.i0*) [ -e "$LIST.killed" ] || { touch "$LIST.killed"; kill -%s $$; };; esac
"""


def test_an_evaluation_that_is_killed_from_outside_is_no_result(project: Project) -> None:
    """Neither here nor in a run that shares the store; what was finished stays, and the next build goes on."""
    search = Search(project, {"1win": "gain=11", "2loses": "gain=9"}, sweep_config_limit=2)
    project.write("list.hook", KILLED % "KILL")
    said = search.build("--continue", code=69)
    assert "exit status 137: it was killed from outside, as for want of memory" in said.out
    assert not (search.root / "runs/x/eval/d0.n0.i0/sweep.json").exists()
    assert search.record("eval/d0.n0.i1/sweep.json")["status"] == "completed"
    search.executed()
    search.spec("y")
    search.build("y")
    assert search.executed() == ["sweep d0.n0.i0"], "all that was finished is recalled"
    assert search.why("d0.n0.i0", "y") == "d1.n0"
    shutil.rmtree(search.root / "runs/.store")
    search.build("x")
    assert search.executed() == ["sweep d0.n0.i0"]
    assert search.why("d0.n0.i0") == "d1.n0"
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")


@pytest.mark.parametrize("number", ["KILL", "TERM", "HUP", "INT", "QUIT"])
@pytest.mark.parametrize("words", ["sh {in} {results} {limit}", ["sh", "{in}", "{results}", "{limit}"]])
def test_whatever_signal_comes_from_outside_decides_nothing(project: Project, number: str, words: Any) -> None:
    search = Search(project, {"1win": "gain=11"}, sweep=command(words, "sweep.sh"))
    project.write("list.hook", KILLED % number)
    assert "it was killed from outside" in search.build(code=69).out
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


STAGES = {
    "row": {"sweep": by_config({"n": [0, 1]}), "sweep_config_limit": None},
    "test": {"tests": command("sh {in}", "killed.sh")},
    "checks": {"checks": {"one": command("sh {in}", "killed.sh")}},
}


@pytest.mark.parametrize("stage", STAGES)
def test_whatever_measures_a_candidate_and_is_killed_is_made_again(project: Project, stage: str) -> None:
    project.write("killed.sh", KILLED % "KILL")
    search = Search(project, {"1win": "gain=11"}, **STAGES[stage])
    project.write("list.hook", KILLED % "KILL" if stage == "row" else ":")
    assert f"outage x:d0.n0.i0.{stage}" in search.build(code=69).out
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_program_that_the_spec_names_and_that_goes_away_is_no_failure_of_the_candidate(project: Project) -> None:
    """Though only the shell says so; what the candidate's own files do not find is the candidate's failure."""
    away = '#!/bin/sh\nexec "$@"\n'
    project.write("bin/wrap", away)
    (project.root / "bin/wrap").chmod(0o755)
    words = "{project}/bin/wrap sh {in} {results} {limit}"
    search = Search(project, {"1lacks": "no-such-program || exit 127"}, sweep=command(words, "sweep.sh"))
    search.build()
    assert search.why("d0.n0.i0") == "failed: sweep: exit status 127"
    search.idea("1lacks", "gain=12")
    (project.root / "bin/wrap").unlink()
    said = search.build(code=69)
    assert "exit status 127: the program is not there" in said.out
    project.write("bin/wrap", away)
    (project.root / "bin/wrap").chmod(0o755)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_what_is_left_of_candidates_is_what_the_spec_wants_kept(project: Project) -> None:
    leaves = 'echo trace > "$AGENTIC_OUTPUT_DIR/trace"; '
    search = Search(project, {"1fails": f"{leaves} exit 1", "2loses": f"{leaves} gain=9"})
    search.build()
    run = search.root / "runs/x"
    assert not (run / "eval/d0.n0.i0/out").exists()
    assert (run / "eval/d0.n0.i1/out/trace").read_text() == "trace\n"
    assert not [*(run / "cand").iterdir()]
    project.write("sweep.sh", f"{project.read('sweep.sh')}:\n")
    search.spec(keep_rejected_worktrees=True, keep_failed_artifacts=True)
    search.build()
    assert (run / "eval/d0.n0.i0/out/trace").exists()
    assert (run / "cand/d0.n0.i1/plus/2loses").exists()


def test_a_dry_run_asks_nobody_and_executes_nothing_and_decides_the_same_each_time(project: Project) -> None:
    shape = {"ideas_per_node": 3, "max_depth": 2, "beam_width": 2, "dry_run": True}
    search = Search(project, {}, **shape, **TESTED)
    search.spec("y", max_parallel_evals=4)
    search.build("x", "y", "-a")
    assert search.executed() == []
    decided = [files(search.root / f"runs/{run}", "depths/*/assigned.json", "artifacts/*") for run in ("x", "y")]
    assert decided[0] == decided[1]
    assert len(decided[0]) == 2 + 1 + 3 + 2 + 6 + 2


def test_the_project_itself_may_be_what_is_searched(project: Project) -> None:
    """Its runs/ are no part of the code."""
    search = Search(project, {"1win": "gain=11"}, repo=".")
    (search.root / "repo/plus").rename(search.root / "plus")
    project.write(".gitignore", "list\nspecs/\n")
    run_git(search.root, "init", "--quiet", "--initial-branch=main")
    run_git(search.root, "add", "--all", "--", ":!runs")
    run_git(search.root, "commit", "--quiet", "--message=start")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert "up to date" in search.build().out


def test_nothing_is_paid_for_while_the_tests_of_the_root_fail(project: Project) -> None:
    project.write("agent.coder", "echo gain=11 > plus/better\n")
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder")}
    search = Search(project, {"1win": ""}, roles=roles, tests=command("sh {in}; test -e cured", "tests.sh"))
    said = search.build(code=1)
    assert "the tests of the root failed: exit status 1; it is commit " in said.out + said.err
    assert "`coppice forget x:root`" in said.out + said.err
    assert search.executed() == ["test d0.n0.tests"]
    project.write("repo/cured", "")
    search.build()
    assert "coder d0.n0.i0" in search.executed()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_program_that_a_role_reads_is_asked_anew_when_it_was_edited(project: Project) -> None:
    project.write("agent.coder", "echo gain=11 > plus/better\n")
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder", reads=["agent.coder"])}
    search = Search(project, {"1win": ""}, roles=roles)
    search.build()
    assert "coder d0.n0.i0" in search.executed()
    project.write("agent.coder", "echo gain=12 > plus/better\n")
    search.build()
    assert "coder d0.n0.i0" in search.executed()
    assert search.summary("d0.n0.i0")["scoring_summary"]["recommendation"]["primary_delta"] == 2


def test_the_end_of_a_build_says_where_the_search_stands(project: Project) -> None:
    search = Search(project, {"1win": "gain=11"})
    said = search.build()
    assert said.err.splitlines()[-1] == (
        "x: Stopped: max_depth_reached, 1 of 1 depths done."
        " Evaluations: 1 completed, 0 failed, 0 skipped, 0 unfinished."
        " Best: d1.n0, gain 11 -> 12 (+1), score +0.0545 against the root. See runs/x/TREE_SUMMARY.md."
    )
    assert search.build().err == ""


def test_an_evaluation_that_is_only_scored_anew_has_not_ended_again(project: Project) -> None:
    search = Search(project, {"1win": "gain=11", "2fails": "exit 1"})
    search.build()
    before = project.read("runs/x/events.jsonl").splitlines()
    search.spec(score={"primary_weight": 9})
    search.build()
    added = [json.loads(line) for line in project.read("runs/x/events.jsonl").splitlines()[len(before) :]]
    assert {event["event"] for event in added} == {"build", "build_ended", "scored", "promotion", "stopped"}
