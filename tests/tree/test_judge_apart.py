"""A judge apart: the candidate's code answers, the root's files score the answers with a truth that it never sees."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, adding, agent, command, idea, told, write_idea

from pipeline.store.folders import delete_tree
from pipeline.tree.run.answers import NO_ANSWERS, WHOLE_ROOM, AnswerRoom, collect_answers

# Writes a guess for each config; an idea may change `guess`, or do something at the `end`.
ANSWER = """\
answers=$1 limit=$2
guess=10
end() { :; }
echo "answer $(basename "$PWD")" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
i=0
while [ "$i" -lt "$limit" ]; do
  echo "$((guess + i))" > "$answers/$i"
  i=$((i + 1))
done
end
"""
# The nearer a guess is to the truth, the more it is worth; the best is 100.
JUDGE = """\
answers=$1 results=$2 truth=$(cat "$3") limit=$4
echo "judge $(basename "$PWD")" >> "$LIST"
[ -e "$LIST.hook" ] && . "$LIST.hook"
echo config_id,status,gain,risk > "$results"
i=0
while [ "$i" -lt "$limit" ]; do
  read -r guess < "$answers/$i" || exit 4
  case $guess in *[!0-9]*) echo "ValueError: no number for $i"; exit 3 ;; esac
  far=$((truth + i - guess))
  echo "$i,ok,$((100 - ${far#-})),5" >> "$results"
  i=$((i + 1))
done
"""
APART: dict[str, Any] = {
    "answer": {"run": "sh answer.sh {answers} {limit}", "env": {"LIST": "{project}/list"}},
    "judge": command("sh judge.sh {answers} {results} {truth} {limit}", {"truth": "truth.txt"}),
}
HONEST = {"nearer": "guess=20"}


def search(project: Project, ideas: dict[str, str], sweep: Any = APART, **keys: Any) -> Search:
    project.write("repo/answer.sh", ANSWER)
    project.write("repo/judge.sh", JUDGE)
    project.write("truth.txt", "30\n")
    return Search(project, ideas, sweep=sweep, **keys)


def gains(found: Search, where: str) -> list[str]:
    return [row.split(",")[2] for row in found.project.read(f"runs/x/artifacts/{where}.csv").splitlines()[1:]]


def test_an_honest_idea_is_promoted_by_one_process_more(project: Project) -> None:
    found = search(project, HONEST)
    found.build()
    assert found.executed() == ["answer d0.n0", "answer d0.n0.i0", "judge d0.n0.i0.judge", "judge d0.n0.judge"]
    assert found.why("d0.n0.i0") == "d1.n0"
    assert (gains(found, "d0.n0"), gains(found, "d0.n0.i0")) == (["80"] * 3, ["90"] * 3)
    assert "No problems found" in project.read("runs/x/VALIDATION_REPORT.md")
    assert found.record("manifest.json")["run_config"]["judged_apart"] is True
    assert project.read("runs/x/eval/d0.n0.i0/out/answers/0") == "20\n"
    assert not (found.root / "runs/x/eval/d0.n0.i0/out.answers").exists()
    assert "up to date" in found.build().out


FORGED = "config_id,status,gain,risk\\n0,ok,99,5\\n1,ok,99,5\\n2,ok,99,5\\n"
WRITES = f"printf '{FORGED}' > \"$AGENTIC_OUTPUT_DIR/results.csv\""
NOT_PLAIN = "of its answers 0 is no plain file of its own, nor a folder"
FORGERS = {
    "a-results": (f"end() {{ {WRITES}; }}", "no change"),
    "b-at-exit": (f"trap '{WRITES}' EXIT", "no change"),
    "c-link": ('end() { ln -sf "$(dirname "$LIST")/truth.txt" "$answers/0"; }', f"failed: sweep: {NOT_PLAIN}"),
    "d-hard-link": (
        'end() { ln -f "$answers/1" "$answers/0"; }',
        f"failed: sweep: {NOT_PLAIN}",
    ),
    "e-pipe": ('end() { rm "$answers/0"; mkfifo "$answers/0"; }', f"failed: sweep: {NOT_PLAIN}"),
    "f-huge": (
        'end() { truncate -s 300M "$answers/more"; }',
        "failed: sweep: its answers are too large: 256 MB are most",
    ),
    "g-nothing": ('end() { rm -r "$answers"; }', f"failed: sweep: {NO_ANSWERS}"),
    "h-elsewhere": (
        'end() { rm -r "$answers"; ln -s "$(dirname "$LIST")" "$answers"; }',
        f"failed: sweep: {NO_ANSWERS}",
    ),
    "i-no-number": (
        'end() { echo "1 1" > "$answers/1"; }',
        "failed: sweep: bad answer: exit status 3: ValueError: no number for 1",
    ),
    "j-lacking": ('end() { rm "$answers/2"; }', "failed: sweep: bad answer: exit status "),
    "k-own-failure": ("end() { exit 7; }", "failed: sweep: exit status 7"),
    "l-results": ("end() { exit ${AGENTIC_RESULTS_CSV:+9}; }", "no change"),  # nobody tells it of any
}


def test_a_forger_is_refused_and_the_search_goes_on(project: Project) -> None:
    found = search(project, {**{name: shell for name, (shell, _) in FORGERS.items()}, **HONEST})
    found.build()
    for number, (name, (_, why)) in enumerate(FORGERS.items()):
        slot = f"d0.n0.i{number}"
        if why == "no change":
            assert gains(found, slot) == ["80"] * 3, name
            assert found.why(slot) != "d1.n0", name
        else:
            assert found.why(slot).startswith(why), (name, found.why(slot))
    assert found.why(f"d0.n0.i{len(FORGERS)}") == "d1.n0"
    assert not [*(found.root / "runs/x/eval").glob("*/out.answers")]


def test_the_judge_runs_the_files_of_the_start(project: Project) -> None:
    """Whatever the candidate makes of the judge, or of what the judge would import."""
    found = search(project, {})
    line = JUDGE.splitlines()[0]
    own = f"printf '{FORGED}' > \"$2\"; exit 0"
    change = f"--- a/judge.sh\n+++ b/judge.sh\n@@ -1 +1,2 @@\n+{own}\n {line}\n"
    write_idea(project, "a", idea("Judge it better"), change)
    write_idea(project, "b", idea("Nearer"), adding("plus/b", "guess=20\n"))
    found.spec(ideas_per_node=2)
    found.build()
    assert gains(found, "d0.n0.i0") == ["80"] * 3
    assert found.why("d0.n0.i1") == "d1.n0"


def test_no_process_of_a_candidate_sees_the_truth(project: Project, grade: str) -> None:
    """Neither what answers, nor its tests, nor who writes it."""
    found = search(
        project,
        {"thief": 'guess=$(cat "$(dirname "$LIST")/truth.txt") || exit 9'},
        tests=command("! cat {project}/truth.txt; : {in}", "tests.sh"),
        sandbox=grade,
    )
    found.build()
    assert found.why("d0.n0.i0") == "failed: sweep: exit status 9"
    for step in ("sweep", "test"):
        assert re.search("denied|No such file", project.read(f"runs/x/eval/d0.n0.i0/{step}.log"))
    project.write("agent.coder", 'cat "$project/truth.txt" 2> said > stolen; echo > plus/a\n')
    found.spec(roles={**found.keys["roles"], "coder": agent("coder")})
    found.build()
    change = project.read("runs/x/eval/d0.n0.i0/change.patch")
    assert re.search("denied|No such file", change)
    assert "b/stolen" in change


def test_answers_count_as_they_were_when_the_command_ended(project: Project) -> None:
    """A hook of the judge stands for a process of the candidate that lives on."""
    found = search(project, {"a": "guess=11", "b": "guess=12"})
    project.write(
        "list.hook",
        'case $PWD in *i0.judge) echo 30 > "$(dirname "$answers")/out/answers/0" ;;\n'
        '*i1.judge) chmod u+w "$answers/0"; echo 30 > "$answers/0" ;; esac\n',
    )
    found.build()
    assert gains(found, "d0.n0.i0") == ["81"] * 3
    assert found.why("d0.n0.i1") == "failed: sweep: bad answer: the answers were changed while they were judged"


def test_another_truth_judges_anew_and_the_old_one_is_recalled(project: Project) -> None:
    found = search(project, HONEST)
    found.build()
    found.executed()
    project.write("truth.txt", "10\n")
    found.build()
    assert found.executed() == ["answer d0.n0", "answer d0.n0.i0", "judge d0.n0.i0.judge", "judge d0.n0.judge"]
    assert found.why("d0.n0.i0") != "d1.n0"
    project.write("truth.txt", "30\n")
    found.build()
    assert found.executed() == []
    assert found.why("d0.n0.i0") == "d1.n0"


def test_of_the_start_a_failure_names_the_judge_and_stops_the_search(project: Project) -> None:
    found = search(project, HONEST)
    project.write("list.hook", "echo 'KeyError: 7'; exit 3\n")
    said = found.build(code=1)
    start = "the sweep of the root, which all is compared with, failed: "
    assert f"{start}the judge: exit status 3: KeyError: 7; it is commit" in said.out + said.err
    project.write("repo/answer.sh", "exit 0\n")
    said = found.build(code=1)
    assert f"{start}{NO_ANSWERS}; it is commit" in said.out + said.err


def test_a_judge_that_is_not_there_is_nobodys_failure(project: Project) -> None:
    judge = {**APART["judge"], "run": ["{project}/judge", "{answers}", "{truth}"]}
    found = search(project, HONEST, {**APART, "judge": judge})
    found.build(code=69)
    assert not (found.root / "runs/x/artifacts/d0.n0.csv").exists()


def test_configs_are_answered_and_judged_one_by_one(project: Project) -> None:
    sweep = {
        "mode": "per_config",
        "configs": {"n": [1, 1]},
        "answer": {**APART["answer"], "run": "sh answer.sh {answers} {n}"},
        "judge": {**APART["judge"], "run": "sh judge.sh {answers} {results} {truth} {n}"},
    }
    found = search(project, {"a": "guess=20", "b": 'end() { rm "$answers/0"; }'}, sweep, sweep_config_limit=None)
    found.build("-n", "2")
    rows = project.read("runs/x/artifacts/d0.n0.i0.csv").splitlines()
    assert [row.split(",")[-2:] for row in rows] == [["gain", "risk"], ["90", "5"], ["90", "5"]]
    assert found.why("d0.n0.i0") == "d1.n0"
    assert project.read("runs/x/artifacts/d0.n0.i1.csv").count(f"error,{NO_ANSWERS}") == 2
    assert len([line for line in found.executed() if line.startswith("judge d0.n0.i0.rows-")]) == 2


BLOCKS_ANSWER = """\
gain=0 noise=1
echo "answer $2" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
for block in $(echo "$2" | tr , ' '); do echo "$gain $noise $(cat "$3")" > "$1/$block"; done
"""
BLOCKS_JUDGE = """\
echo "judge $2 $(cat "$3")" >> "$LIST"
for block in $(echo "$2" | tr , ' '); do echo "$block $(cat "$1/$block")"; done | awk '
BEGIN { print "config_id,block,status,gain" }
{ for (c = 0; c < 3; c++)
    printf "%d,%s,ok,%.4f\\n", c, $1, 10 + c + 3 * sin(7 * $1) + $2 + $3 * sin($1 * $1 + c / 9) }
' > "$4"
"""


def by_blocks(project: Project, ideas: dict[str, str], count: int, **keys: Any) -> Search:
    project.write("repo/answer.sh", BLOCKS_ANSWER)
    project.write("repo/judge.sh", BLOCKS_JUDGE)
    project.write("data.txt", "open\n")
    project.write("truth.txt", "known\n")
    project.write("sealed.txt", "unknown\n")
    sweep = {
        "answer": command("sh answer.sh {answers} {blocks} {in}", "data.txt"),
        "judge": command("sh judge.sh {answers} {blocks} {truth} {results}", {"truth": "truth.txt"}),
        "blocks": count,
    }
    return Search(project, ideas, sweep=sweep, metrics={"gain": {"primary": True}}, sweep_config_limit=None, **keys)


def test_a_cascade_asks_both_for_the_same_blocks(project: Project) -> None:
    ideas = {"better": "gain=2 noise=1.5", "worse": "gain=-2 noise=2"}
    found = by_blocks(project, ideas, 12, cascade={"blocks": 4, "keep": 1})
    found.build()
    first, rest = "0,1,2,3", "4,5,6,7,8,9,10,11"
    of_each = [*[first] * 3, *[rest] * 2]
    assert found.executed() == sorted([f"answer {b}" for b in of_each] + [f"judge {b} known" for b in of_each])
    assert found.why("d0.n0.i0") == "d1.n0"


def test_a_sealed_truth_is_read_by_the_judge_alone_when_it_is_opened(project: Project, grade: str) -> None:
    held = [str(n) for n in range(6, 14)]
    ideas = {"better": 'gain=2 noise=1.5; cat "$(dirname "$LIST")/sealed.txt" && gain=9'}
    found = by_blocks(project, ideas, 14, holdout={"blocks": held, "reads": {"truth": "sealed.txt"}}, sandbox=grade)
    found.build()
    said = project.call("holdout", "x")
    assert said.code == 0, said
    rows = project.read("runs/x/holdout/d1.n0/results.csv").splitlines()
    start = project.read("runs/x/holdout/d0.n0/results.csv").splitlines()
    gain = sum(float(row.split(",")[3]) for row in rows[1:]) - sum(float(row.split(",")[3]) for row in start[1:])
    assert 0 < gain / (len(rows) - 1) < 3  # with what it may not see it would be 9


def test_a_prompt_says_who_answers_and_who_judges(project: Project) -> None:
    found = search(project, {})
    project.write("agent.ideas", "exit 1\n")
    found.spec(roles={"ideas": agent("ideas"), "coder": agent("coder")})
    found.build("x:d0.n0.node")
    said = project.call("prompt", "x:d0.n0.i0", "--role", "ideas")
    assert "Command of the sweep, which writes answers into {answers}: `sh answer.sh {answers} {limit}`." in said.out
    assert "A judge then scores these answers alone: `sh judge.sh {answers} {results} {truth} {limit}`." in said.out


def test_a_dry_run_judges_nothing(project: Project) -> None:
    found = search(project, HONEST, dry_run=True)
    found.build()
    assert found.executed() == []


def test_a_given_baseline_is_judged_by_nobody(project: Project) -> None:
    found = search(project, HONEST, baseline_csv="start.csv")
    project.write("start.csv", "config_id,status,gain,risk\n0,ok,80,5\n1,ok,80,5\n2,ok,80,5\n")
    found.build()
    assert found.executed() == ["answer d0.n0.i0", "judge d0.n0.i0.judge"]
    assert found.why("d0.n0.i0") == "d1.n0"


def test_the_start_is_judged_with_other_seeds_too(project: Project) -> None:
    found = by_blocks(project, {"better": "gain=2 noise=1.5"}, 6)
    sweep = found.keys["sweep"]
    found.spec(sweep={**sweep, "judge": {**sweep["judge"], "run": f"{sweep['judge']['run']}; echo {{seed}} >> $LIST"}})
    said = project.call("calibrate", "x", "--seeds", "2", "--depths", "100")
    assert said.code == 0, said
    assert [line for line in found.executed() if line.isdigit()] == ["0", "1", "2"]


def test_with_protected_files_both_are_watched(project: Project) -> None:
    found = search(project, {"a": "guess=20", "b": "echo > judge.sh"}, protect=["judge.sh"])
    found.build()
    assert found.why("d0.n0.i0") == "d1.n0"
    assert found.why("d0.n0.i1").startswith("failed: void: judge.sh is protected and was written to")


# -- collecting answers


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "out/answers").mkdir(parents=True)
    return tmp_path / "out"


def collected(output: Path, room: AnswerRoom = WHOLE_ROOM) -> str:
    copies = str(output.with_name("copies"))
    delete_tree(copies)
    return collect_answers(str(output), copies, room)


def test_copies_have_fixed_modes_and_times(output: Path) -> None:
    (output / "answers/a/b").mkdir(parents=True)
    (output / "answers/a/b/c").write_bytes(b"\0\xff")
    (output / "answers/a/b/c").chmod(0o4711)
    assert collected(output) == ""
    copies = output.with_name("copies")
    for path, mode in ((copies, 0o555), (copies / "a", 0o555), (copies / "a/b/c", 0o444)):
        assert (path.stat().st_mode & 0o7777, path.stat().st_mtime_ns) == (mode, 0)
    assert (copies / "a/b/c").read_bytes() == b"\0\xff"


def test_no_answers_are_a_failure(output: Path) -> None:
    assert collected(output) == NO_ANSWERS


def test_no_more_answers_are_copied_than_there_is_room_for(output: Path) -> None:
    """Files and folders count, and a file is read no further than the room goes."""
    (output / "answers/a").mkdir()
    (output / "answers/a/b").write_bytes(b"12345678")
    assert collected(output, AnswerRoom(2, 8)) == ""
    assert collected(output, AnswerRoom(1, 8)) == "its answers are too many: 10000 files and folders are most"
    assert collected(output, AnswerRoom(2, 7)) == "its answers are too large: 256 MB are most"


def test_folders_in_folders_have_an_end(output: Path) -> None:
    deep = output / "answers" / "/".join("d" * 25)
    deep.mkdir(parents=True)
    assert "lies more than 20 folders deep" in collected(output)


@pytest.mark.parametrize("name", ["socket", "folder link", "all", "gone"])
def test_what_is_no_file_is_never_opened(output: Path, name: str) -> None:
    """Nor is a link followed where a folder was, whether the last or one on the way."""
    secret = output.parent / "secret/answers"
    secret.mkdir(parents=True)
    (secret / "truth").write_text("30")
    if name == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(output / "answers/s"))
    elif name == "folder link":
        (output / "answers/s").symlink_to(secret)
    else:
        (output / "answers").rmdir()
        output.rmdir()
        if name == "all":
            output.symlink_to(secret.parent)
    why = NO_ANSWERS if name in ("all", "gone") else "of its answers s is no plain file of its own, nor a folder"
    assert collected(output) == why


def test_every_forger_is_told_apart_from_what_was_built(project: Project) -> None:
    """The example of forgers above can fail: without a judge apart the first of them wins."""
    found = search(project, {"a": f"end() {{ {WRITES}; }}"})
    found.spec(
        sweep=command(
            "sh answer.sh {output} {limit}; [ -e {results} ] || sh judge.sh {output} {results} {in} {limit}",
            "truth.txt",
        )
    )
    found.build()
    assert found.why("d0.n0.i0") == "d1.n0"
    assert told(found.build(), "built") == []
