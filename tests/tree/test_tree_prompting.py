"""Prompts, verdicts, and changes that come as text."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import ROOT

from pipeline.tree.rules.assignment import SECTIONS, parse_idea
from pipeline.tree.rules.edits import AnswerChange, read_answer
from pipeline.tree.rules.prompts import (
    FORM_WRITTEN,
    NEEDED_NAMES,
    PROMPT_NAMES,
    failed_tests_text,
    prompt_mistakes,
    render_prompt,
    review_verdict,
)
from pipeline.tree.run.prompting import default_prompt_path
from pipeline.tree.spec.roles import ROLE_BACKENDS


def default_prompt_text(role: str) -> str:
    return Path(default_prompt_path(role)).read_text(encoding="utf-8")


def test_every_role_has_a_prompt_of_ours_without_mistakes() -> None:
    assert {*PROMPT_NAMES} == {*NEEDED_NAMES} == {*ROLE_BACKENDS}
    for role, names in PROMPT_NAMES.items():
        assert prompt_mistakes(role, default_prompt_text(role)) == ()
        text = render_prompt(default_prompt_text(role), {name: f"<<{name}>>" for name in names})
        assert not [name for name in names if f"<<{name}>>" not in text]


def test_our_prompts_are_shipped() -> None:
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["pipeline"]
    assert "tree/run/prompts/*.md" in shipped
    assert {path.stem for path in Path(default_prompt_path("ideas")).parent.iterdir()} == {*PROMPT_NAMES}


def test_our_prompts_ask_for_what_is_understood() -> None:
    shown = default_prompt_text("ideas")[default_prompt_text("ideas").index(f"{SECTIONS[0]}:") :]
    assert parse_idea(shown).defects == ()
    form = read_answer(FORM_WRITTEN, whole_files=True)
    assert [edit.path for edit in form.edits] == ["src/model.py"]
    assert not form.mistakes
    assert review_verdict("APPROVE") is True
    assert review_verdict("REJECT") is False
    assert "a single word, APPROVE or REJECT" in default_prompt_text("reviewer")


@given(st.text(alphabet="$a{}\n ", max_size=12), st.text(alphabet="$a{}\\g<1>", max_size=8))
def test_a_template_without_mistakes_can_be_filled_with_anything(text: str, value: str) -> None:
    template = text.replace("a", "idea")
    if not prompt_mistakes("planner", template):
        filled = render_prompt(template, {"idea": value, "context": ""})
        assert value in filled


@pytest.mark.parametrize(
    ("role", "template", "says"),
    [
        ("planner", "on\n$ide", ["line 2: $ide is unknown in a prompt for planner; did you mean 'idea'?", "$idea is"]),
        (
            "planner",
            "$idea $diff",
            ["line 1: $diff is unknown in a prompt for planner; allowed: context,"],
        ),
        ("planner", "${idea} costs 5 $", ["line 1: a $ that is meant as such is written twice: $$"]),
        ("planner", "$idea $5", ["line 1: a $"]),
        ("planner", "$idea ${context", ["line 1: a $"]),
        ("planner", "$$idea", ["$idea is missing: planner has to know it"]),
        ("coder", "$idea", ["$review is missing"]),
        ("reviewer", "$idea $plan", ["$diff is missing"]),
        ("ideas", "", ["$context is missing"]),
        ("planner", "$idea for 5 $$", []),
    ],
)
def test_mistakes_say_where_and_what_would_be_right(role: str, template: str, says: list[str]) -> None:
    found = prompt_mistakes(role, template)
    assert len(found) == len(says)
    assert all(said.startswith(start) for said, start in zip(found, says, strict=True))


APPROVALS = [
    "APPROVE",
    "approve",
    "Approved",
    "APPROVE.",
    "APPROVED: clean",
    "approve - fine",
    "Approve (small)",
    "approve!",
]
REJECTIONS = ["REJECT", "rejected", "Reject: looks ahead", "reject it", "Changes requested", "Request changes: x"]
UNCLEAR = [
    "",
    "APPROVE or REJECT",
    "APPROVE/REJECT",
    "APPROVE, if not REJECT",
    "approve: only if the window is shifted",
    "approve, unless it looks ahead",
    "approve it is not",
    "approver",
    "disapprove",
    "not approved",
    "I approve",
    "LGTM",
    "[ ] APPROVE",
    "approve-ish",
    "approve with changes",
]
CASES = [(text, said) for texts, said in ((APPROVALS, True), (REJECTIONS, False), (UNCLEAR, None)) for text in texts]


@pytest.mark.parametrize(("line", "said"), CASES)
@pytest.mark.parametrize("dress", ["{}", "**{}**", "## {}", "> `{}`", "\n \n{}\nAPPROVE\nREJECT", "Verdict: **{}**"])
def test_the_first_line_decides_however_it_is_dressed(line: str, said: bool | None, dress: str) -> None:
    if line or "\n" not in dress:
        assert review_verdict(dress.format(line)) is said


@given(st.lists(st.sampled_from(["approve", "reject", "not", "APPROVED", " ", ",", ".", "\n", "changes requested"])))
def test_who_also_rejects_in_the_first_line_does_not_approve(words: list[str]) -> None:
    text = "".join(words)
    first = next((line for line in text.splitlines() if line.strip()), "").lower()
    if review_verdict(text):
        assert first.strip().startswith("approve")
        assert "reject" not in first
        assert "changes requested" not in first


DIFF = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n one\n+```\n ```\n"


OTHER = "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-old\n+new\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Here:\n```diff\n{DIFF}```\nDone.", DIFF),
        (f"```patch\n{DIFF}```", DIFF),
        (f"````diff\n{DIFF}````", DIFF),
        (f"```diff\n{OTHER}```\nand:\n```diff  \n{DIFF}```\n", OTHER + DIFF),
        (f"```python\nx\n```\n```diff\n{DIFF}```\n```sh\nls\n```\n", DIFF),
        (f"\n\n{DIFF}", DIFF),
        (DIFF.partition("\n")[2], DIFF.partition("\n")[2]),
        (f"```diff\r\n{DIFF}```\r\n", DIFF),
        (f"I changed it:\n{DIFF}", ""),
        (f"```\n{DIFF}```", ""),
        (f"```diff\n{DIFF}", ""),
        ("---\ntitle: x\n---\n", ""),
        ("", ""),
    ],
)
def test_a_diff_is_all_blocks_of_its_kind_or_all_of_the_answer(text: str, found: str) -> None:
    assert read_answer(text) == AnswerChange(diff=found)


def test_git_applies_what_is_found(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n```\n")
    (tmp_path / "g").write_text("old\n")
    change = read_answer(f"I have done it.\n\n```diff\n{OTHER}```\nand\n```diff\n{DIFF}```\n").diff
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=change.encode(), check=True, timeout=60)
    assert ((tmp_path / "f").read_text(), (tmp_path / "g").read_text()) == ("one\n```\n```\n", "new\n")


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ('File "/home/al/p/cand/x.tried/src/a.py", line 1', 'File "src/a.py", line 1'),
        ("rootdir: /home/al/p/cand/x.tried", "rootdir: ."),
        ("/home/al/p/data.csv\n/home/al/lib/m.py, /home/al.", "{project}/data.csv\n~/lib/m.py, ~."),
        ("file:///home/al/a \x1b[31m/home/al/b\x1b[0m", "file://~/a ~/b"),
        ("/home/alice/a /mnt/home/al/a src/home/al", "/home/alice/a /mnt/home/al/a src/home/al"),
        ("/usr/lib/a.py / //", "/usr/lib/a.py / //"),
    ],
)
def test_a_failure_names_no_folder_of_this_machine(printed: str, told: str) -> None:
    folders = {"/home/al": "~", "/home/al/p": "{project}", "/home/al/p/cand/x.tried": ".", "/": "top"}
    assert f"\n\n{told}\n" in failed_tests_text("exit status 1", printed, folders)
