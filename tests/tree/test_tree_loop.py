"""Ideas, plans, code and reviews come from programs that may do anything; what counts is the difference in files."""

import json
import shutil
from typing import Any

import pytest
from kit.building import ends
from kit.gitting import run_git
from kit.project import Project
from kit.searches import TESTED, Search, adding, agent, idea
from test_cascade import until

from pipeline.core.cages import ISOLATED, CageKeys
from pipeline.machine.grades import lacking

ROLES = ("ideas", "planner", "coder", "reviewer")
FORM = "IDEA: number %s\\n\\nRATIONALE: r\\n\\nREQUIRED_CHANGES:\\n- c\\n"
IDEA = f'n=$(grep -c ^ideas "$project/list"); printf "{FORM}" "$n"\n'
TWICE = 'if [ -e "$project/said" ]; then echo APPROVED; else touch "$project/said"; echo REJECTED: too short; fi\n'
EDIT = 'echo "gain=1$(basename "$PWD" | tail -c 2)" > "plus/$(basename "$PWD")"; echo Done.\n'


def looped(project: Project, coder: str, reviewer: str = "echo APPROVED\n", **keys: Any) -> Search:
    """A search in which a coder and a reviewer work on recorded ideas."""
    roles = {
        "ideas": {"backend": "patches", "folder": "ideas"},
        "coder": agent("coder", timeout=10),
        "reviewer": agent("reviewer"),
    }
    search = Search(project, {"1one": ":"}, **{"roles": roles, **keys})
    project.write("agent.coder", coder)
    project.write("agent.reviewer", reviewer)
    return search


def calls(search: Search, slot: str = "d0.n0.i0") -> list[dict[str, Any]]:
    return [json.loads(line) for line in search.project.read(f"runs/x/eval/{slot}/calls.jsonl").splitlines()]


def candidate(search: Search, slot: str = "d0.n0.i0") -> dict[str, Any]:
    found: dict[str, Any] = search.record(f"eval/{slot}/candidate.json")
    return found


def review(search: Search, number: int) -> str:
    return search.project.read(f"runs/x/eval/d0.n0.i0/review_round_{number}.md")


# -- all roles


def full(project: Project, **keys: Any) -> Search:
    search = Search(project, {}, roles={role: agent(role) for role in ROLES}, ideas_per_node=2, **keys)
    for role, does in zip(ROLES, (IDEA, "echo A plan.\n", EDIT, "echo APPROVED\n"), strict=True):
        project.write(f"agent.{role}", does)
    return search


def test_every_role_is_asked_and_every_call_recorded(project: Project) -> None:
    search = full(project, max_depth=2, constraints="Keep it short: $5.")
    search.build()
    assert [call["role"] for call in calls(search)] == ["planner", "coder", "reviewer"]
    ideas = [json.loads(project.read(f"runs/x/node_ideas/d0.n0/idea_{n:03}.calls.jsonl")) for n in (0, 1)]
    assert [call["text"].splitlines()[0] for call in ideas] == ["IDEA: number 1", "IDEA: number 2"]
    assert "Keep it short: $5." in ideas[0]["prompt"]
    assert "number 1" in ideas[1]["prompt"], "the second knows what the first is about"
    assert "A plan." in calls(search)[1]["prompt"]
    assert "+gain=10" in calls(search)[2]["prompt"], "the reviewer sees the difference"
    below = json.loads(project.read("runs/x/node_ideas/d1.n0/idea_000.calls.jsonl"))["prompt"]
    for known in ("number 1", "number 2", "plus/d0.n0.i1 | +1 -0", "gain: 11 -> 12", "Kept.", "Not kept."):
        assert known in below
    assert search.why("d0.n0.i1") == "d1.n0"


def test_the_same_search_is_replayed_without_whoever_answered(project: Project) -> None:
    """Also where the same words were about other code: the second idea of both nodes is the same."""
    search = full(project, max_depth=2, beam_width=2, max_review_rounds=1)
    project.write(
        "agent.ideas",
        IDEA.replace("printf", "case $prompt in *Kept*) n=9;; esac; printf"),
    )
    project.write(
        "agent.coder", 'echo "gain=\\$((gain + 1))" > "plus/$(ls plus | wc -l)$(basename "$PWD")"; echo Done.\n'
    )
    project.write("agent.reviewer", f"case $prompt in *number?2*) {TWICE.strip()};; *) echo APPROVED;; esac\n")
    search.build()
    assert search.executed()
    recorded = search.root / "recorded"
    for path in (search.root / "runs/x").rglob("*calls.jsonl"):
        if ".coppice" not in path.parts:
            project.write(f"recorded/{path.parent.name}.{path.name}", path.read_bytes())
    assert len([*recorded.iterdir()]) > 4
    before = [search.record(f"depths/{depth}/promoted.json") for depth in (0, 1)]
    assert [search.why("d0.n0.i0"), search.why("d0.n0.i1")] == ["d1.n1", "d1.n0"]
    assert calls(search, "d1.n0.i0")[1]["prompt"] == calls(search, "d1.n1.i0")[1]["prompt"], "what the coder was asked"
    for role in ROLES:
        (search.root / f"agent.{role}").unlink()
    shutil.rmtree(search.root / "runs")
    search.spec(roles={role: {"backend": "replay", "folder": "recorded"} for role in ROLES})
    search.build()
    assert {line.split()[0] for line in search.executed()} == {"sweep"}
    again = [search.record(f"depths/{depth}/promoted.json") for depth in (0, 1)]
    assert [depth["decisions"] for depth in again] == [depth["decisions"] for depth in before]
    assert [depth["beam"] for depth in again] == [depth["beam"] for depth in before]


def test_a_replay_that_misses_an_answer_fails_and_is_nobodys_failure(project: Project) -> None:
    search = full(project)
    (search.root / "recorded").mkdir()
    search.spec(roles={**search.keys["roles"], "coder": {"backend": "replay", "folder": "recorded"}})
    said = search.build(code=69)
    assert "no answer is recorded in recorded for call" in said.out + said.err
    assert not (search.root / "runs/x/eval/d0.n0.i0/candidate.json").exists()


# -- rounds


def test_an_objection_goes_back_to_the_coder_who_goes_on_from_there(project: Project) -> None:
    coder = 'case $prompt in *"too short"*) echo gain=12 > plus/b;; *) echo gain=11 > plus/a;; esac; echo Done.\n'
    search = looped(project, coder, TWICE, max_review_rounds=1)
    search.build()
    assert [call["role"] for call in calls(search)] == ["coder", "reviewer"] * 2
    assert (candidate(search)["rounds"], candidate(search)["files"]) == (2, 2)
    assert (review(search, 1), review(search, 2)) == ("REJECTED: too short\n", "APPROVED\n")
    assert search.why("d0.n0.i0") == "d1.n0"


@pytest.mark.parametrize("says", ["REJECTED", "Looks good to me.", "", "APPROVED if the tests pass, provided that"])
def test_what_nobody_approved_is_neither_swept_nor_promoted(project: Project, says: str) -> None:
    search = looped(project, EDIT, f"echo '{says}'\n", max_review_rounds=1, **TESTED)
    search.build()
    assert search.why("d0.n0.i0") == "failed: the reviewer did not approve it"
    assert (candidate(search)["approved"], candidate(search)["rounds"]) == (False, 2)
    assert len(candidate(search)["commit"]) == 40, "kept for people to look at"
    of_root = ["sweep d0.n0", "test d0.n0.tests"]
    assert search.executed() == ["coder d0.n0.i0", "coder d0.n0.i0", "reviewer d0.n0.i0", *of_root]


def test_code_goes_on_without_approval_only_where_the_spec_says_so(project: Project) -> None:
    search = looped(project, EDIT, "echo REJECTED\n", proceed_on_max_review_rounds=True)
    search.build()
    assert "sweep d0.n0.i0" in search.executed()
    assert candidate(search)["rounds"] == 1


def test_a_recorded_change_is_reviewed_too(project: Project) -> None:
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "patches"}}
    search = Search(project, {"1one": "gain=12"}, roles={**roles, "reviewer": agent("reviewer")})
    project.write("agent.reviewer", "echo REJECTED\n")
    search.build()
    assert search.why("d0.n0.i0") == "failed: the reviewer did not approve it"
    assert review(search, 1) == "REJECTED\n"


# -- what a coder may do

BLOCK = f"cat <<'END'\nHere it is:\n\n```diff\n{adding('plus/block', 'gain=12')}```\nEND\n"
GIT = "git -c user.name=a -c user.email=a@b"
CODERS = {
    "a diff in its answer": (BLOCK, "d1.n0"),
    "a diff that does not apply": (BLOCK.replace("plus/block", "plus/start"), "the patch does not apply"),
    "exit 1": ("echo gain=12 > plus/a; echo out of credit >&2; echo no more; exit 1\n", "sh: exit status 1: no more"),
    "nothing": ("echo I changed everything.\n", "nothing was changed"),
    "its own commits": (f"echo gain=12 > plus/a; {GIT} add plus/a; {GIT} commit -qm x; echo Done.\n", "d1.n0"),
    "its own branch": (f"{GIT} checkout -q -b mine; echo gain=12 > plus/a; {GIT} add .; {GIT} commit -qm x\n", "d1.n0"),
    "a commit taken back": (f"touch plus/a; {GIT} add .; {GIT} commit -qm x; git reset -q --hard HEAD~\n", "nothing"),
    ".git deleted": ("rm -rf .git; echo gain=12 > plus/a\n", "d1.n0"),
    ".git of its own": ("rm -rf .git; git init -q .; echo gain=12 > plus/a\n", "d1.n0"),
    "git says it is clean": ('git diff --quiet && test -z "$(git status -s)" && echo gain=12 > plus/a\n', "d1.n0"),
    "a nested repository": ("mkdir in; git init -q in; echo 1 > in/f; echo gain=12 > plus/a\n", "d1.n0"),
    "a closed folder": ("mkdir no; echo 1 > no/f; chmod 0 no; echo gain=12 > plus/a\n", "d1.n0"),
    "its folder deleted": ('rm -rf "$PWD"\n', ""),
    "a pipe": ("mkfifo plus/pipe; echo gain=12 > a\n", ""),
    "no words": ("echo gain=12 > plus/a\n", "d1.n0"),
}  # fmt: skip


def test_whatever_a_coder_does_only_the_difference_in_files_counts(project: Project) -> None:
    search = looped(project, 'n=$(basename "$PWD"); . "$project/coder.${n#*.i}"\n', beam_width=len(CODERS))
    shutil.rmtree(search.root / "ideas")
    for n, (name, (does, _)) in enumerate(CODERS.items()):
        search.idea(f"{n:02}", ":", idea(name))
        project.write(f"coder.{n}", does.replace("gain=12", f"gain=12 n{n}="))
    search.spec(ideas_per_node=len(CODERS), max_parallel_evals=2)
    search.build()
    for n, (name, (_, why)) in enumerate(CODERS.items()):
        found = search.why(f"d0.n0.i{n}")
        assert found.startswith("d1.") if why == "d1.n0" else why in found, (name, found)
        assert [call["role"] for call in calls(search, f"d0.n0.i{n}")][:1] == ["coder"], name
    assert not [*(search.root / "runs/x/cand").iterdir()]


def test_git_works_for_a_coder_in_its_cage_and_its_commits_reach_nobody(project: Project) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    clean = 'git diff --quiet && test -z "$(git status -s)" && test "$(git rev-list --all HEAD | wc -l)" = 1'
    line = f"{clean} && echo gain=12 > plus/a && git add . && git commit -qm mine && git branch mine"
    coder = {"backend": "command", "run": ["sh", "-c", line], "sandbox": "isolated"}
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": coder}
    search = Search(project, {"1one": ":"}, roles=roles)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    refs = run_git(search.root / "runs/x/repo.git", "for-each-ref", "--format=%(refname)").split()
    assert refs == [f"refs/coppice/x/{name}" for name in ("d0.n0", "d0.n0.i0", "d1.n0", "root")]


@pytest.mark.parametrize("repairs", [2, 0])
def test_an_answer_that_cannot_be_used_was_paid_for_all_the_same(project: Project, repairs: int) -> None:
    """And the coder is told what was wrong with it: at once, or in the next round."""
    good = adding("plus/good", "gain=12").replace("\\", "\\\\")
    answers = "case $prompt in *'does not apply'*) cat good;; *) cat bad;; esac\n".replace("cat ", 'cat "$project"/')
    search = looped(project, answers, max_review_rounds=1)
    project.write("good", f"```diff\n{good}```\n")
    project.write("bad", f"```diff\n{adding('plus/start', 'gain=99')}```\n")
    search.spec(roles={**search.keys["roles"], "coder": agent("coder", max_repairs=repairs)})
    search.build()
    assert [call["role"] for call in calls(search)] == ["coder", "coder", "reviewer"]
    assert ("the patch does not apply" in review(search, 1)) == (not repairs)
    assert candidate(search)["rounds"] == (1 if repairs else 2)
    assert search.why("d0.n0.i0") == "d1.n0"


@pytest.mark.parametrize("rounds", [1, 0])
def test_a_failed_test_goes_back_to_the_coder_with_its_output(project: Project, rounds: int) -> None:
    """And a kill before the coder has answered changes nothing in what it is asked."""
    coder = "case $prompt in *'seed 7 is bad'*) x=;; *) x='# broken';; esac; echo gain=12 $x > plus/a\n"
    search = looped(project, coder, **TESTED, max_test_rounds=rounds)
    project.write(
        "tests.sh",
        'if grep -q broken plus/*; then echo "$PWD/plus/a, $HOME/lib: seed 7 is bad in 0.$$ s"; exit 1; fi\n',
    )
    search.spec()
    search.build()
    asked = [call for call in calls(search) if call["role"] == "coder"]
    assert len(asked) == 1 + rounds
    assert search.why("d0.n0.i0") == ("d1.n0" if rounds else "failed: tests: exit status 1")
    assert candidate(search).get("test_rounds") == (rounds or None)
    if rounds:
        assert "The tests failed: exit status 1" in asked[1]["prompt"]
        assert "\nplus/a, ~/lib: seed 7 is bad in … s" in asked[1]["prompt"]
        assert str(search.root) not in asked[1]["prompt"]
        assert "seed 7 is bad" in review(search, 1)


def test_a_coder_that_is_asked_anew_hears_nothing_of_tests_of_a_former_time(project: Project) -> None:
    search = looped(project, "echo gain=12 > plus/a\n", **TESTED)
    project.write("tests.sh", "! [ -e plus/a ]\n")
    search.build()
    assert candidate(search)["test_rounds"] == 1
    project.write("tests.sh", "true\n")
    project.call("forget", "x:d0.n0.i0.implement")
    search.build()
    assert candidate(search).get("test_rounds") is None


def test_changing_how_often_a_coder_hears_of_tests_asks_nobody_again(project: Project) -> None:
    search = looped(project, EDIT, **TESTED)
    search.build()
    search.executed()
    search.spec(max_test_rounds=3)
    search.build()
    assert not [line for line in search.executed() if "coder" in line]


@pytest.mark.parametrize("keep", ["keep", "drop"])
def test_what_a_program_changed_before_it_failed_is_kept_where_the_spec_says_so(project: Project, keep: str) -> None:
    search = looped(project, "echo gain=12 > plus/a; echo out of turns; exit 3\n")
    search.spec(roles={**search.keys["roles"], "coder": agent("coder", partial=keep)})
    said, kept = search.build(), keep == "keep"
    assert candidate(search).get("partial") == ("sh: exit status 3: out of turns" if kept else None)
    assert search.why("d0.n0.i0") == ("d1.n0" if kept else "failed: sh: exit status 3: out of turns")
    words = "kept though its coder failed: sh: exit status 3: out of turns"
    explained = project.call("explain", "x:d0.n0.i0").out
    for text in (explained, " ".join(project.read("runs/x/TREE_SUMMARY.md").split())):
        assert (words in text) == kept
    assert (", partial" in said.out) == kept
    assert [(call["exit"], call.get("partial")) for call in calls(search)] == (
        [(0, "sh: exit status 3: out of turns"), (0, None)] if kept else [(3, None)]
    )


# A coder that reaches its limit, and leaves a folder behind; then it comes to its end.
LIMITED = """\
echo >> "$project/asked"
case $prompt in
*"do b too"*) echo gain=13 > plus/b;;
*) mkdir -p .venv && echo x > .venv/x; echo gain=12 > plus/a; exit 3;;
esac
"""
STRICT = """\
case $prompt in *plus/b*) ;; *) echo REJECTED; echo do b too; exit 0;; esac
if [ -e "$project/out" ]; then rm "$project/out"; exit 75; fi
echo APPROVED
"""


@pytest.mark.parametrize("broken_off", [False, True])
def test_what_is_said_of_a_coders_work_is_of_its_last_call_and_the_same_after_an_outage(
    project: Project, broken_off: bool
) -> None:
    search = looped(project, LIMITED, STRICT, max_review_rounds=2, patience=0)
    search.spec(roles={**search.keys["roles"], "coder": agent("coder", partial="keep")})
    if broken_off:
        project.write("out", "")
        search.build(code=69)
    search.build()
    made = candidate(search)
    assert (made["files"], made.get("partial"), made["left_out"]) == (2, None, [".venv/"])
    assert len(project.read("asked").splitlines()) == 2
    coded = [call for call in calls(search) if call["role"] == "coder"]
    assert [call.get("partial") for call in coded] == ["sh: exit status 3", None]


def test_what_a_failed_program_left_is_kept_with_its_failure_or_asked_for_again_after_a_kill(project: Project) -> None:
    """Many files take a moment to be read; the kill comes as soon as anything of the call is kept."""
    many = "mkdir -p many; n=0; while [ $n -lt 1000 ]; do echo $n > many/$n; n=$((n+1)); done; "
    search = looped(project, f"echo gain=12 > plus/a; {many}exit 3\n")
    search.spec(roles={**search.keys["roles"], "coder": agent("coder", partial="keep")})
    build, journal = project.popen("run"), search.root / "runs/x/.coppice/calls/d0.n0.i0.implement/calls.jsonl"
    until(lambda: build.poll() is not None or (journal.exists() and bool(journal.read_bytes())))
    build.kill()
    build.communicate()
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert candidate(search)["partial"] == "sh: exit status 3"


def test_a_coder_that_hangs_is_ended_with_whatever_it_left_running_and_asked_again(project: Project) -> None:
    hangs = 'sleep 300 & echo $! > "$project/pids"; echo gain=99 > plus/half; wait\n'
    search = looped(project, hangs)
    roles = search.keys["roles"]
    search.spec(roles={**roles, "coder": agent("coder", timeout=0.5)})
    assert "sh: timed out after 0.5 s: there was no answer in time" in search.build(code=69).out
    assert ends(int(project.read("pids")))
    project.write("agent.coder", EDIT)
    search.build()
    assert candidate(search)["files"] == 1
    assert search.why("d0.n0.i0") == "d1.n0"


# What a coder prints that speaks as Claude Code does.
TELLS = """printf '{"type": "result", "is_error": %s, "total_cost_usd": %s, "result": "%s"}\\n' """


def test_an_outage_of_a_coders_service_spends_no_slot_and_its_cost_is_counted_later(project: Project) -> None:
    search = looped(project, f"{TELLS} true 0.25 'Credit balance is too low'; exit 1\n")
    roles = search.keys["roles"]
    usage = {"text": "result", "usd": "total_cost_usd"}
    search.spec(roles={**roles, "coder": agent("coder", usage=usage), "reviewer": {"backend": "none"}})
    for _ in range(2):
        said = search.build(code=69)
        assert "exit status 1: Credit balance is too low: the service refuses (credit)" in said.out
    assert not (search.root / "runs/x/eval/d0.n0.i0/candidate.json").exists()
    project.write("agent.coder", f"{EDIT} {TELLS} false 1.5 Done.\n")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert [(call["exit"], call["usage"]["usd"]) for call in calls(search)] == [(75, 0.25), (75, 0.25), (0, 1.5)]
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")


def test_a_coder_that_ends_well_though_its_model_was_not_reached_has_not_failed(project: Project) -> None:
    """As aider does; one that was reached in the end has answered."""
    refused = "echo litellm.AuthenticationError: AuthenticationError: OpenAIException - no such key\n"
    search = looped(project, refused)
    assert "sh: it ended well: litellm.AuthenticationError" in search.build(code=69).out
    project.write("agent.coder", refused + EDIT)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_model_that_refuses_is_not_asked_again(project: Project) -> None:
    search = looped(project, "echo I will not.; exit 77\n", eval_retries=3)
    search.build()
    assert "the model refuses to answer" in search.why("d0.n0.i0")
    assert [call["exit"] for call in calls(search)] == [77]


def test_a_replicate_asks_its_models_anew_and_measures_equal_code_once(project: Project) -> None:
    search = full(project)
    search.build()
    search.executed()
    search.spec("y")
    search.build("y")
    assert search.executed() == []
    search.spec("z", replicate=2)
    search.build("z")
    done = [line.split()[0] for line in search.executed()]
    assert {*done} == {*ROLES}


def test_what_a_coder_leaves_in_the_background_changes_nothing_later(project: Project) -> None:
    late = '(sleep 0.2; echo gain=99 > "$PWD/plus/late"; touch "$project/late") & echo gain=12 > plus/a; echo Done.\n'
    search = looped(project, late)
    search.build()
    assert candidate(search)["files"] == 1
    assert not (search.root / "late").exists()


def test_a_failed_call_is_made_again_on_a_clean_ground_as_often_as_the_spec_says(project: Project) -> None:
    once = '[ -e "$project/once" ] || { touch "$project/once"; touch plus/half; exit 7; }; echo gain=12 > plus/a\n'
    search = looped(project, once, eval_retries=1)
    search.build()
    assert [call["exit"] for call in calls(search)] == [7, 0, 0]
    assert candidate(search)["files"] == 1
    assert search.why("d0.n0.i0") == "d1.n0"


def test_a_reviewer_that_fails_leaves_the_code_to_look_at(project: Project) -> None:
    search = looped(project, EDIT, "exit 5\n")
    search.build()
    assert search.why("d0.n0.i0") == "failed: sh: exit status 5"
    assert len(candidate(search)["commit"]) == 40
    assert candidate(search)["approved"] is False


# -- what cannot be used at all


@pytest.mark.parametrize("role", ["ideas", "coder", "reviewer"])
def test_a_program_that_is_missing_fails_the_target_and_nobody_else(project: Project, role: str) -> None:
    search = full(project)
    roles = search.keys["roles"]
    search.spec(roles={**roles, role: {"backend": "command", "run": ["no-such-agent"]}})
    said = search.build(code=69)
    assert f"{role}: cannot start 'no-such-agent'" in said.out + said.err
    assert not [*(search.root / "runs/x/eval").glob("d0.n0.i0/candidate.json")]
    search.executed()
    search.spec(roles=roles)
    search.build()
    assert search.why("d0.n0.i1") == "d1.n0"


def test_an_idea_that_could_not_be_had_is_an_empty_slot_that_says_why(project: Project) -> None:
    search = full(project)
    project.write("agent.ideas", "echo out of tokens; exit 3\n")
    search.build()
    assert "no idea number 0: sh: exit status 3: out of tokens" in search.why("d0.n0.i0")
    assert search.stop(0) == "max_depth_reached"


# -- texts

ODD = {
    "options": "--upload-pack=touch pwned\n-rf /\n",
    "shell": "IDEA: $(touch pwned) `touch pwned`; touch pwned\n\nRATIONALE: ${HOME}\n\nREQUIRED_CHANGES:\n- $idea $$\n",
    "markdown": "## IDEA: **bold** [a](b)\n\n**RATIONALE:** <b>\n```diff\nno\n```\nREQUIRED_CHANGES:\n- | a | b |\n",
    "unicode": "IDEA: ünï ☃ \u202e rtl \U0001f600\n\nRATIONALE: \u2028\n\nREQUIRED_CHANGES:\n- \u0000\x07\n",
    "NUL": "IDEA: a\0b\n\0\nRATIONALE: \0\n\nREQUIRED_CHANGES:\n- \0\n",
    "only NUL": "\0\n",
    "braces": "IDEA: {results} {{x}} %s %(a)s\n\nRATIONALE: {\n\nREQUIRED_CHANGES:\n- }\n",
    "one word": "x",
    "long": "IDEA: " + "long " * 20_000 + "\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- c\n",
    "many lines of nothing": "\n \n\t\n",
    "carriage returns": "IDEA: a\r\n\rRATIONALE: b\r\n\r\nREQUIRED_CHANGES:\r\n- c\r\n",
    "trailers": "IDEA: a\n\nSigned-off-by: me <me@x>\n\nRATIONALE: -- \n\nREQUIRED_CHANGES:\n- diff --git a/x b/x\n",
}


def test_an_idea_may_be_any_text(project: Project) -> None:
    search = looped(project, EDIT)
    shutil.rmtree(search.root / "ideas")
    for n, text in enumerate(ODD.values()):
        search.idea(f"{n:02}", ":", text)
    project.write("ideas/99/idea.md", b"IDEA: \xff\xfe not UTF-8\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- c\n")
    search.spec(ideas_per_node=len(ODD) + 1, beam_width=20)
    search.build()
    for n, name in enumerate([*ODD, "not UTF-8"]):
        expected = "no idea" if name == "many lines of nothing" else "d1.n"
        assert expected in search.why(f"d0.n0.i{n}") or "same code" in search.why(f"d0.n0.i{n}"), name
    assert not [*search.root.rglob("pwned")]


# -- people


def test_a_person_is_waited_for_and_the_search_goes_on_when_there_is_an_idea(project: Project) -> None:
    roles = {"ideas": {"backend": "manual", "folder": "mine"}, "coder": {"backend": "manual", "folder": "mine"}}
    search = Search(project, {}, roles=roles, ideas_per_node=2)
    (search.root / "mine").mkdir()
    said = search.build(code=69)
    assert "write an idea into mine/d0.n0.i0.md" in said.out + said.err
    project.write("mine/d0.n0.i0.md", idea("by hand"))
    project.write("mine/d0.n0.i1.md", "")
    said = search.build(code=69)
    assert "mine/d0.n0.i0.patch" in said.out + said.err
    assert (search.root / "runs/x/hand/d0.n0.i0/plus/start").exists(), "a worktree to work in"
    (search.root / "runs/x/hand/d0.n0.i0/plus/a").write_text("gain=12\n")
    run_git(search.root / "runs/x/hand/d0.n0.i0", "add", "-A")
    project.write("mine/d0.n0.i0.patch", run_git(search.root / "runs/x/hand/d0.n0.i0", "diff", "--cached", "--binary"))
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert not [*(search.root / "runs/x/hand").iterdir()]
    assert project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")
    assert "no idea" in search.why("d0.n0.i1")


def test_another_change_by_hand_costs_no_review_of_those_that_are_there(project: Project) -> None:
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "manual", "folder": "mine"}}
    search = Search(project, {"1a": ":", "2b": ":"}, roles={**roles, "reviewer": agent("reviewer")})
    project.write("agent.reviewer", "echo APPROVED\n")
    project.write("mine/d0.n0.i0.patch", adding("plus/a", "gain=12"))
    search.build("--continue", code=69)
    assert "reviewer d0.n0.i0" in search.executed()
    project.write("mine/d0.n0.i1.patch", adding("plus/b", "gain=13"))
    search.build()
    assert search.executed() == ["reviewer d0.n0.i1", "sweep d0.n0.i1"]


# -- secrets


def test_keys_are_passed_by_name_and_stand_nowhere(project: Project) -> None:
    search = looped(project, 'echo gain=12 > plus/a; echo "key $API_KEY"\n')
    roles = search.keys["roles"]
    search.spec(roles={**roles, "coder": agent("coder", **{"pass": ["API_KEY"]})})
    project.write("list.hook", 'echo "key <$API_KEY>"\n')
    done = project.coppice("run", API_KEY="s3cr3t-value")
    assert done.returncode == 0, done
    assert project.read("runs/x/eval/d0.n0.i0/sweep.log") == "key <>\n", "a candidate's program never has it"
    assert "s3cr3t-value" not in project.read("runs/x/.coppice/receipts")
    assert calls(search)[0]["text"] == "key [API_KEY]\n"


def test_prompts_are_files_that_may_be_edited(project: Project) -> None:
    search = looped(project, EDIT, "echo APPROVED\n")
    project.write("prompts/coder.md", "Do $idea, heed $review. Costs $$5.\n")
    roles = search.keys["roles"]
    search.spec(roles={**roles, "coder": agent("coder", prompt="prompts/coder.md")})
    search.build()
    assert calls(search)[0]["prompt"].startswith("Do IDEA: 1one")
    project.write("prompts/coder.md", "Do $idee.\n")
    said = search.build(code=1)
    assert (
        "prompts/coder.md: line 1: $idee is unknown in a prompt for coder; did you mean 'idea'?" in said.out + said.err
    )


def test_a_change_with_a_key_in_it_is_no_candidate_and_not_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it stay in the repository, nor is the coder asked again about what it left when it failed."""
    monkeypatch.setenv("MODEL_KEY", "very-secret-value")
    project.write(
        "agent.coder",
        'echo >> "$project/asked"; mkdir new\n'
        "case $prompt in *2b*) ln -s $MODEL_KEY new/leak; exit 1;; *3c*) echo $MODEL_KEY >> sweep.sh;;"
        " *) printf '\\0%s' $MODEL_KEY > new/leak;; esac\n",
    )
    coder = agent("coder", partial="keep", **{"pass": ["MODEL_KEY"]})
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": coder, "reviewer": agent("reviewer")}
    search = Search(project, {"1a": "", "2b": "", "3c": ""}, roles=roles, max_review_rounds=2)
    search.build()
    held = "failed: the change holds the value of MODEL_KEY, which is not to be written down"
    assert [search.why(f"d0.n0.i{n}") for n in range(3)] == [held, "failed: sh: exit status 1", held]
    assert len(project.read("asked").splitlines()) == 3
    written = [path for path in (search.root / "runs").rglob("*") if path.is_file()]
    assert not [path for path in written if b"very-secret-value" in path.read_bytes()]
    objects = run_git(search.root / "runs/x/repo.git", "cat-file", "--batch-all-objects", "--batch")
    assert "plus" in objects
    assert "very-secret-value" not in objects


JUNK = """\
mkdir -p .venv/bin sub/node_modules && echo x > .venv/bin/python && echo x > sub/node_modules/m.js
head -c 5000001 /dev/zero > blob
echo gain=14 > plus/own
"""


def test_what_a_coder_leaves_behind_is_no_part_of_the_candidate_and_is_named(project: Project) -> None:
    search = looped(project, JUNK)
    search.build()
    made = candidate(search)
    assert (made["files"], made["left_out"]) == (1, [".venv/", "blob", "sub/node_modules/"])
    assert "left out of the candidate: .venv/, blob, sub/node_modules/" in project.read(
        "runs/x/.coppice/logs/d0.n0.i0.implement.log"
    )
    assert search.why("d0.n0.i0") == "d1.n0"
    assert search.record("manifest.json")["evaluations"]["d0.n0.i0"]["left_out"] == made["left_out"]
    summary = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "left out of the candidate: .venv/, blob, sub/node_modules/;" in summary


def test_a_spec_says_what_else_is_left_out_and_the_coder_is_told(project: Project) -> None:
    search = looped(project, "mkdir out && echo x > out/log; echo 12345678 > blob; echo gain=14 > plus/own\n")
    search.spec(leave_out={"file_mb": 0.000008, "folders": ["out"]})
    search.build()
    made = candidate(search)
    assert (made["files"], made["left_out"]) == (1, ["blob", "out/"])
    (asked,) = (call["prompt"] for call in calls(search) if call["role"] == "coder")
    assert "Left out of the change: new files over 8e-06 MB" in asked
    assert asked.count("Left out") == 1


def test_large_files_that_the_project_has_stay_its_own(project: Project) -> None:
    search = looped(project, "echo more >> large; echo gain=14 > plus/own\n")
    project.write("repo/large", b"\n" * 5_000_001)
    search.build()
    made = candidate(search)
    assert made["files"] == 2
    assert "left_out" not in made


def test_filters_that_are_not_run_are_named(project: Project) -> None:
    search = looped(project, EDIT)
    project.write("repo/.gitattributes", "*.ipynb filter=nbstripout\n")
    said = search.build()
    assert "filters (nbstripout), which are not run" in said.out
    assert "nbstripout" in project.read("runs/x/.coppice/logs/root.log")


def test_an_idea_without_its_sections_is_tried_and_the_summary_names_what_it_lacks(project: Project) -> None:
    roles = {"ideas": agent("ideas"), "coder": agent("coder")}
    search = Search(project, {}, roles=roles, ideas_per_node=1, max_depth=1)
    project.write("agent.ideas", "echo 'I would try a random forest.'\n")
    project.write("agent.coder", EDIT)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    entry = search.record("manifest.json")["evaluations"]["d0.n0.i0"]
    assert [defect.split()[:3] for defect in entry["idea_defects"]] == [
        [name, "is", "missing;"] for name in ("IDEA", "RATIONALE", "REQUIRED_CHANGES")
    ]
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "tried though its text is not in the agreed form: IDEA is missing, RATIONALE is missing" in page
