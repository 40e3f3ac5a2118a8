"""`coppice prompt` shows the very text that a role was sent or would get, and changes nothing."""

import json
import re
from hashlib import sha256
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, agent

ROLES = ("ideas", "planner", "coder", "reviewer")
DOES = {
    "ideas": "printf 'IDEA: More gain.\\n\\nRATIONALE: r\\n\\nREQUIRED_CHANGES:\\n- Add a file.\\n'\n",
    "planner": "echo Add the file plus/a.\n",
    "coder": "echo gain=12 >> plus/a\n",
    "reviewer": "echo APPROVED\n",
}
# Out of order until there is a file `up`.
OUT = """[ -e "$project/up" ] || { printf '{"type": "result", "is_error": true, "result": "No credit"}'; exit 1; }\n"""


def search_by_roles(project: Project, out: str = "", **keys: Any) -> Search:
    search = Search(project, {}, roles={role: agent(role) for role in ROLES}, ideas_per_node=1, **keys)
    for role, does in DOES.items():
        project.write(f"agent.{role}", (OUT if role == out else "") + does)
    return search


def shown(project: Project, role: str, slot: str = "d0.n0.i0") -> dict[str, Any]:
    said = project.call("prompt", f"x:{slot}", "--role", role, "--json")
    assert said.code == 0, said
    record: dict[str, Any] = json.loads(said.out)
    return record


def sent(project: Project, role: str) -> list[str]:
    """The prompts in what a target has published."""
    path = "node_ideas/d0.n0/idea_000.calls.jsonl" if role == "ideas" else "eval/d0.n0.i0/calls.jsonl"
    calls = [json.loads(line) for line in project.read(f"runs/x/{path}").splitlines()]
    return [call["prompt"] for call in calls if call["role"] == role]


def files(project: Project) -> dict[str, str]:
    paths = (path for path in project.root.rglob("*") if path.is_file() and path.name != "list")
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in paths}


def test_of_a_slot_that_is_done_all_that_was_sent_is_shown(project: Project) -> None:
    search = search_by_roles(project, max_review_rounds=1)
    reviewer = 'if [ -e "$project/seen" ]; then echo APPROVED; else touch "$project/seen"; echo REJECT; fi\n'
    project.write("agent.reviewer", reviewer)
    search.build()
    search.executed()
    before = files(project)
    for role in ROLES:
        record = shown(project, role)
        assert (record["prompts"], record["sent"], record["lacks"]) == (sent(project, role), True, []), role
        assert len(record["prompts"]) == (2 if role in ("coder", "reviewer") else 1)
    said = project.call("prompt", "x:d0.n0.i0")
    first, second = sent(project, "coder")
    assert said.out == f"---- coder: question 1 of 2 ----\n{first}\n---- coder: question 2 of 2 ----\n{second}\n"
    assert "sent to the role coder" in said.err
    assert search.executed() == []
    assert files(project) == before


@pytest.mark.parametrize("out", ROLES)
def test_what_is_shown_before_a_role_has_answered_is_what_it_is_sent_then(project: Project, out: str) -> None:
    search = search_by_roles(project, out)
    search.build(code=69)
    search.executed()
    before, record = files(project), shown(project, out)
    assert (search.executed(), files(project)) == ([], before)
    assert record["sent"] is False
    assert record["lacks"] == (["the diff of the change", "the report of the coder"] if out == "reviewer" else [])
    known = [shown(project, role) for role in ROLES[: ROLES.index(out)]]
    assert [each["sent"] for each in known] == [True] * len(known)
    project.write("up", "")
    search.build()
    assert [each["prompts"] for each in known] == [sent(project, each["role"]) for each in known]
    (text,) = record["prompts"]
    if out == "reviewer":
        parts = re.split(r"\[the diff of the change\]|\[the report of the coder\]", text)
        assert re.fullmatch("(?s:.*)".join(map(re.escape, parts)), sent(project, out)[0])
    else:
        assert [text] == sent(project, out)


def test_an_edited_template_shows_at_once_what_it_makes(project: Project) -> None:
    search = search_by_roles(project)
    project.write("coder.md", "Do $idea by $plan. $review")
    search.spec(roles={**search.keys["roles"], "coder": agent("coder", prompt="coder.md")})
    search.build()
    project.write("coder.md", "Please do $idea by $plan. $review $files")
    record = shown(project, "coder")
    assert record["sent"] is False
    assert record["prompts"][0].startswith("Please do IDEA: More gain.")
    assert record["lacks"] == ["the plan"]  # it is asked for anew, too
    project.write("coder.md", "Please do $ide")
    said = project.call("prompt", "x:d0.n0.i0")
    assert (said.code, "coder.md: line 1: $ide is unknown" in said.err) == (2, True), said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x:d0.n0.i9"], "'x:d0.n0.i9' is no evaluation"),
        (["x:d0.n0.i0", "--role", "coda"], "--role coda is unknown; did you mean 'coder'?"),
        (["x:d0.n0.i0", "--role", "ideas"], "nobody is asked as ideas: its backend is patches"),
        (["x:d0.n0.i0", "--role", "reviewer"], "nobody is asked as reviewer: its backend is none"),
        (["x:d0.n0.i1"], "x:d0.n0.i1: the role coder was not asked"),
        (["x:d1.n0.i0"], "x: nothing is recorded of"),
        (["y:d0.n0.i0"], "there is no run 'y'"),
    ],
)
def test_where_nobody_is_asked_there_is_no_prompt(project: Project, words: list[str], message: str) -> None:
    search = Search(project, {"a": "gain=12"}, ideas_per_node=2, max_depth=2)
    project.write("agent.coder", DOES["coder"])
    search.spec(roles={"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder")})
    project.call("run", "x:d0.promote")
    said = project.call("prompt", *words)
    assert (said.code, message in said.err) == (2, True), said
