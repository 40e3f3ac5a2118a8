"""What is held out: nobody sees it before the search has stopped; then it is opened once, and every opening is told."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.project import Project, Said
from kit.searches import Search, agent, by_config, command
from test_cascade import IDEAS, SWEEP, until

from pipeline.tree.run.seal import arm_tripwire, tripwire_reason

HELD = [str(n) for n in range(6, 14)]
SEARCHED = "0,1,2,3,4,5"


def search(project: Project, ideas: dict[str, str] = IDEAS, **keys: Any) -> Search:
    project.write("blocks.sh", SWEEP)
    sweep = command("sh {in} {results} {blocks}", "blocks.sh", blocks=14)
    given = {"sweep": sweep, "metrics": {"gain": {"primary": True}}, "holdout": {"blocks": HELD}, **keys}
    return Search(project, ideas, **given)


def opened(found: Search, *words: str, code: int = 0) -> Said:
    said = found.project.call("holdout", "x", *words)
    assert said.code == code, said
    assert "Traceback" not in said.out + said.err, said
    return said


def told(found: Search, *words: str) -> Any:
    return json.loads(opened(found, "--json", *words).out)


def ledger(found: Search) -> list[Any]:
    return [json.loads(line) for line in found.project.read("runs/x/holdout.jsonl").splitlines()]


def test_the_search_is_asked_for_all_other_blocks_and_knows_of_no_others(project: Project) -> None:
    found = search(project)
    found.build()
    assert {line.split()[1] for line in found.executed()} == {SEARCHED}
    written = [p for p in (found.root / "runs/x").rglob("*") if p.is_file() and ".git" not in str(p) and p.suffix]
    assert not [path for path in written if b'"13"' in path.read_bytes() or b",13," in path.read_bytes()]
    assert "Sealed: `coppice holdout x` opens it once" in found.project.read("runs/x/TREE_SUMMARY.md")
    assert found.record("manifest.json")["holdout"] == {"openings": [], "lacking": 0, "result": None}


def test_it_is_opened_for_the_final_node_and_told_of(project: Project) -> None:
    found = search(project)
    found.build()
    found.executed()
    said = told(found)
    assert found.executed() == [f"d0.n0 {','.join(HELD)}", f"d1.n0 {','.join(HELD)}"]
    result = said["result"]
    assert (result["final"], result["source"], result["blocks"]) == ("d1.n0", "d0.n0.i0", HELD)
    evidence = result["comparison"]["evidence"]
    assert (evidence["verdict"], evidence["blocks"], evidence["alpha"]) == ("promoted", 8, 0.05)
    line = "d1.n0 against the start on 8 blocks held out: gain"
    assert line in opened(found).out
    assert line in found.project.read("runs/x/TREE_SUMMARY.md")
    assert found.record("manifest.json")["holdout"]["result"] == result
    assert found.project.call("tree", "--tree-run-id", "x", "--validate-only").code == 0


def test_a_sweep_that_fails_on_what_is_held_out_says_so(project: Project) -> None:
    found = search(project)
    found.build()
    project.write("list.hook", "exit 3\n")
    said = opened(found, code=1)
    assert "the sweep of d0.n0 on what is held out failed: exit status 3" in said.out + said.err


def test_the_same_question_is_answered_from_the_record(project: Project) -> None:
    found = search(project)
    found.build()
    first = told(found)
    found.executed()
    assert told(found) == first
    assert found.executed() == []
    assert len(ledger(found)) == 1
    assert "up to date" in found.build().out


def test_before_the_search_has_stopped_it_stays_closed(project: Project) -> None:
    found = search(project)
    assert "the search has not stopped yet" in opened(found, code=2).err
    assert not (found.root / "runs/x/holdout.jsonl").exists()
    found.build()
    found.idea("better", "gain=3 noise=1.5")
    found.executed()
    assert "the search has not stopped yet by the spec as it is" in opened(found, code=2).err
    assert found.executed() == []


def test_it_stays_closed_when_nothing_was_promoted(project: Project) -> None:
    found = search(project, {"worse": "gain=-2 noise=2"})
    found.build()
    assert "nothing was promoted" in opened(found, code=2).err
    assert not (found.root / "runs/x/holdout.jsonl").exists()


def changed(found: Search) -> None:
    """The search ends with another node."""
    found.idea("better", "gain=3 noise=1.5")
    found.build()
    found.executed()


def test_a_second_candidate_is_refused_and_with_reopen_it_is_written_down(project: Project) -> None:
    found = search(project)
    found.build()
    first = told(found)
    changed(found)
    said = opened(found, code=2)
    assert "was opened before (for d1.n0, commit" in said.err
    assert "--reopen" in said.err
    assert found.executed() == []
    again = told(found, "--reopen")
    assert [line["reopened"] for line in again["openings"]] == [False, True]
    assert again["result"] != first["result"]
    for text in (opened(found).out, found.project.read("runs/x/TREE_SUMMARY.md")):
        assert "Opened 2 times: only what was found the first time is fresh." in text
        assert text.count(", by --reopen") == 1


def test_other_parts_are_another_question(project: Project) -> None:
    found = search(project)
    found.build()
    told(found)
    found.spec(holdout={"blocks": HELD[1:]})
    found.build()
    assert "a second look is not fresh" in opened(found, code=2).err
    assert len(told(found, "--reopen")["openings"]) == 2


def test_a_block_that_was_searched_before_is_not_fresh(project: Project) -> None:
    found = search(project, holdout=None)
    found.build()
    found.spec(holdout={"blocks": HELD})
    found.build()
    said = opened(found, code=2)
    assert "of the blocks 6, 7, 8" in said.err
    assert "were searched before" in said.err
    assert ledger_is_absent(found)
    assert told(found, "--reopen")["openings"][0]["reopened"] is True


def ledger_is_absent(found: Search) -> bool:
    return not (found.root / "runs/x/holdout.jsonl").exists()


def test_a_kill_while_it_is_measured_is_no_second_opening(project: Project) -> None:
    found = search(project)
    found.build()
    found.executed()
    hook = '[ "$where" != d1.n0 ] || { touch "$LIST.born"; sleep 300; }\n'
    project.write("list.hook", hook)
    build = project.popen("holdout", "x")
    until((found.root / "list.born").exists)
    assert len(ledger(found)) == 1, "it is on the disk before anything is measured"
    build.kill()
    build.communicate()
    project.write("list.hook", "")
    assert len(told(found)["openings"]) == 1
    assert found.executed() == [f"d0.n0 {','.join(HELD)}", *[f"d1.n0 {','.join(HELD)}"] * 2]
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")


def test_removing_the_ledger_makes_nothing_fresh_and_is_told(project: Project) -> None:
    found = search(project)
    found.build()
    told(found)
    (found.root / "runs/x/holdout.jsonl").unlink()
    changed(found)
    assert "was opened before" in opened(found, code=2).err
    said = told(found, "--reopen")
    assert (len(said["openings"]), said["lacking"]) == (2, 1)
    assert [line["event"] for line in ledger(found)] == ["opened", "restored", "opened"]
    assert "From holdout.jsonl 1 line had been taken" in opened(found).out


def test_removing_the_copy_too_is_still_noticed(project: Project) -> None:
    found = search(project)
    found.build()
    told(found)
    (found.root / "runs/x/holdout.jsonl").unlink()
    (found.root / "runs/x/repo.git/refs/coppice/x/holdout").unlink()
    changed(found)
    assert "no line says when or for what" in opened(found, code=2).err


def test_configs_keep_their_numbers(project: Project) -> None:
    row = """\
results=$1 id=$2 gain=0
where=$(basename "$PWD" | sed -E 's/[.](first|rest|holdout)//')
echo "$where $id" >> "$LIST"
for idea in plus/*; do . "./$idea"; done
for b in 0 1 2 3 4 5; do echo "$b"; done | awk -v gain="$gain" -v id="$id" '
BEGIN { print "block,gain" } { printf "%s,%.4f\\n", $1, id + gain * (1 + sin($1) / 4) }' > "$results"
"""
    found = search(project, {"a": "gain=2"}, sweep_config_limit=None)
    found.project.write("row.sh", row)
    found.spec(sweep={**by_config({"n": [1, 2, 3]}), "blocks": 6}, holdout={"configs": [1]})
    found.build()
    assert {line.split()[1] for line in found.executed()} == {"0", "2"}
    result = told(found)["result"]
    assert (result["configs"], result["rows"]) == ([1], 6)
    assert {line.split()[1] for line in found.executed()} == {"1"}
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")


@pytest.mark.parametrize("how", ["limit", "configs"])
def test_configs_are_held_out_of_a_sweep_as_a_whole_too(project: Project, how: str) -> None:
    limit = 'echo "$2" >> "$LIST"\nn=$2\n'
    listed = 'grep -o "config_id\\": [0-9]*" "$2" | tr -dc "0-9\\n" | tr "\\n" " " >> "$LIST"; echo >> "$LIST"\nn=5\n'
    rest = 'gain=10\nfor idea in plus/*; do . "./$idea"; done\n{ echo config_id,status,gain; i=0\n'
    ids = "seq 0 $((n - 1))" if how == "limit" else 'grep -o "config_id\\": [0-9]*" "$2" | tr -dc "0-9\\n"'
    rest += f'for i in $({ids}); do echo "$i,ok,$((gain + i))"; done; }} > "$1"\n'
    found = search(project, {"a": "gain=12"}, sweep_config_limit=None)
    found.project.write("whole.sh", (limit if how == "limit" else listed) + rest)
    sweep = command(f"sh {{in}} {{results}} {{{how}}}", "whole.sh", configs=5)
    found.spec(sweep=sweep, holdout={"configs": [3, 4]})
    found.build()
    assert {*found.executed()} == ({"3"} if how == "limit" else {"0 1 2 "})
    result = told(found)["result"]
    assert {*found.executed()} == ({"5"} if how == "limit" else {"3 4 "})
    assert (result["configs"], result["rows"], result["comparison"]["evidence"]) == ([3, 4], 2, None)
    assert result["comparison"]["primary_delta"] == 2


def test_sealed_data_takes_the_place_of_what_the_search_reads(project: Project) -> None:
    found = search(project)
    project.write("open.txt", "0\n")
    project.write("sealed.txt", "5\n")
    run = "sh {code} {results} {blocks}; echo $(cat {data}) >> {project}/read"
    found.spec(
        sweep=command(run, {"code": "blocks.sh", "data": "open.txt"}, blocks=14),
        holdout={"blocks": HELD, "reads": {"data": "sealed.txt"}},
    )
    found.build()
    assert {*found.project.read("read").split()} == {"0"}
    told(found)
    assert found.project.read("read").split()[-2:] == ["5", "5"]


def test_what_another_run_makes_of_it_is_not_made_before_the_seal_is_open(project: Project) -> None:
    found = search(project)
    project.write("open.txt", "0\n")
    steps = "kind: steps\nsteps:\n  late: {run: 'echo 5 > {out}; echo made >> made', writes: late.txt}\n"
    project.spec("data", steps)
    run = "sh {code} {results} {blocks}; echo $(cat {data}) >> {project}/read"
    found.spec(
        sweep=command(run, {"code": "blocks.sh", "data": "open.txt"}, blocks=14),
        holdout={"blocks": HELD, "reads": {"data": "runs/data/late.txt"}},
    )
    found.build("x")
    assert not (found.root / "made").exists()
    told(found)
    assert found.project.read("made") == "made\n"
    assert found.project.read("read").split()[-2:] == ["5", "5"]


def test_a_cascade_and_a_holdout_go_together(project: Project) -> None:
    found = search(project, cascade={"blocks": 3, "keep": 1})
    found.build()
    assert not [line for line in found.executed() if "6" in line.split()[1].split(",")]
    told(found)
    assert found.executed() == [f"d0.n0 {','.join(HELD)}", f"d1.n0 {','.join(HELD)}"]


SEALED = {"blocks": HELD, "reads": {"data": "sealed.txt"}}


def with_sealed_data(project: Project, ideas: dict[str, str], **keys: Any) -> Search:
    """Who sees what is held out takes its gain from there."""
    found = search(project, ideas)
    project.write("open.txt", "0\n")
    project.write("sealed.txt", "gain=9\n")
    sweep = command("sh {code} {results} {blocks}", {"code": "blocks.sh", "data": "open.txt"}, blocks=14)
    found.spec(sweep=sweep, holdout=SEALED, **keys)
    return found


THIEF = 'gain=2 noise=1.5; . "$(dirname "$LIST")/sealed.txt"'


@pytest.mark.parametrize("tests", [None, command(". ./plus/a; : {in}", "row.sh")], ids=["sweep", "tests"])
def test_a_candidate_cannot_open_what_is_sealed(project: Project, tests: Any, grade: str) -> None:
    found = with_sealed_data(project, {"a": THIEF, "b": "gain=2 noise=1.5"}, tests=tests, sandbox=grade)
    if tests:
        project.write("repo/plus/a", "")
        project.write("repo/plus/start", ":\n")
        project.write("ideas/a/change.patch", "--- a/plus/a\n+++ b/plus/a\n@@ -0,0 +1 @@\n+" + THIEF + "\n")
    found.build()
    assert found.summary("d0.n0.i0")["status"] == "failed"
    said = found.project.read(f"runs/x/eval/d0.n0.i0/{'test' if tests else 'sweep'}.log")
    assert re.search("denied|No such file", said)
    assert found.why("d0.n0.i1") == "d1.n0"
    assert told(found)["result"]["comparison"]["evidence"]["verdict"] == "promoted"


def test_an_agent_cannot_open_what_is_sealed(project: Project, grade: str) -> None:
    found = with_sealed_data(project, {"a": "gain=2 noise=1.5"})
    project.write("agent.coder", 'cat "$project/sealed.txt" 2> said > stolen; echo "gain=2" > plus/a\n')
    found.spec(roles={**found.keys["roles"], "coder": agent("coder")}, sandbox=grade)
    found.build()
    change = project.read("runs/x/eval/d0.n0.i0/change.patch")
    assert re.search("denied|No such file", change)
    assert "gain=9" not in change


def test_whoever_touches_what_is_sealed_is_void(project: Project) -> None:
    """It need not have been able to read it."""
    found = with_sealed_data(
        project, {"a": 'gain=2; touch -a "$(dirname "$LIST")/sealed.txt"', "b": "gain=2 noise=1.5"}
    )
    found.build()
    assert found.why("d0.n0.i0") == "failed: void: the sealed holdout was read while it ran (sealed.txt)"
    assert found.why("d0.n0.i1") == "d1.n0"


def read(path: Path) -> None:
    path.read_text()


def read_and_hide(path: Path) -> None:
    path.read_text()
    os.utime(path, ns=(0, path.stat().st_mtime_ns))


@pytest.mark.parametrize("how", [read, read_and_hide, Path.unlink])
def test_the_tripwire_sees_who_reads_though_nothing_hides_the_file(tmp_path: Path, how: Callable[[Path], None]) -> None:
    path = tmp_path / "sealed.txt"
    path.write_text("secret\n")
    wire = arm_tripwire([str(path)], hidden=False)
    assert tripwire_reason(wire, hidden=False) == ""
    assert tripwire_reason(arm_tripwire([str(path)], hidden=False), hidden=False) == "", (
        "it is not tripped by being set"
    )
    how(path)
    assert tripwire_reason(wire, hidden=False).startswith("void: the sealed holdout was read")


WHOLE = command("sh {in} {results} {limit}", "blocks.sh", configs=4)
WRONG: dict[str, dict[str, Any]] = {
    "name what is held out, either": {"holdout": {}},
    "either `blocks: [...]` or `configs: [...]`": {"holdout": {"blocks": HELD, "configs": [1]}},
    "say in `sweep: blocks:` which blocks there are": {"sweep": command("sh {in} {results}", "blocks.sh", blocks={})},
    "name {blocks} in `sweep: run:`": {"sweep": command("sh {in} {results}", "blocks.sh", blocks=14)},
    "'99' is none of the blocks": {"holdout": {"blocks": [*HELD, "99"]}},
    "14 of 14 blocks; some must be held out": {"holdout": {"blocks": [str(n) for n in range(14)]}},
    "2 can decide nothing; hold out 5 or more": {"holdout": {"blocks": HELD[:2]}},
    "the sweep reads no 'data'": {"holdout": {"blocks": HELD, "reads": {"data": "x"}}},
    "say in `sweep: configs:` which configs there are": {"holdout": {"configs": [1]}},
    "by {limit} only the last ones can be held out": {"sweep": WHOLE, "holdout": {"configs": [1]}},
    "no config is left to be searched": {"sweep": WHOLE, "holdout": {"configs": [0, 1, 2, 3]}},
    "`mode: per_config`, or name {configs}": {
        "sweep": command("sh {in} {results}", "blocks.sh", configs=4),
        "holdout": {"configs": [1]},
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_what_a_holdout_needs_is_said(project: Project, message: str) -> None:
    found = search(project, sweep_config_limit=None)
    found.spec(**WRONG[message])
    said = found.build(code=2)
    assert message in said.err
    assert "specs/x.yaml:" in said.err


def test_a_run_without_a_holdout_has_nothing_to_open(project: Project) -> None:
    found = search(project, holdout=None)
    found.build()
    assert "its spec has no `holdout:`" in opened(found, code=2).err
