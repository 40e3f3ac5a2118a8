"""Edits in an answer: read, checked, applied to the text of files; nothing is applied by half, nothing is outside."""

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.edits import LONGEST_ANSWER, contents_after, path_mistake, read_answer

FILES = {
    "a.py": b"one\ntwo\nthree\ntwo\n",
    "src/b.txt": b"x\r\ny\r\n",
    "tail": b"no\nend",
    "bin": b"\0\1",
    "sp": b"a  \nb\n",
}


def block(path: str, search: str, replace: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def applied(text: str) -> dict[str, bytes]:
    answer = read_answer(text, True, FILES)
    assert not answer.mistakes
    contents, mistakes = contents_after(answer.edits, FILES.get, lambda _: "")
    assert not mistakes
    return contents


def mistakes(text: str) -> str:
    answer = read_answer(text, True, FILES)
    return "; ".join([*answer.mistakes, *contents_after(answer.edits, FILES.get, lambda _: "")[1]])


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (block("a.py", "one\n", "1\n"), {"a.py": b"1\ntwo\nthree\ntwo\n"}),
        ("I do:\n\n```python\n" + block("a.py", "one\n", "1\n") + "```\n", {"a.py": b"1\ntwo\nthree\ntwo\n"}),
        (block("**`a.py`**:\n```", "three\n", "").replace("```", "```py"), {"a.py": b"one\ntwo\ntwo\n"}),
        (block("### File: a.py", "one\n", "1\n") + block("", "three\ntwo\n", "3\n"), {"a.py": b"1\ntwo\n3\n"}),
        (block("a.py", "one\n", "1\n") + block("a.py", "1\n", "I\n"), {"a.py": b"I\ntwo\nthree\ntwo\n"}),
        (block("src/b.txt", "y\n", "z\nw\n"), {"src/b.txt": b"x\r\nz\r\nw\r\n"}),
        (block("tail", "end\n", "END\n"), {"tail": b"no\nEND"}),
        (block("sp", "a\n", "c\n"), {"sp": b"c\nb\n"}),
        (block("new/__init__.py", "", "n\n"), {"new/__init__.py": b"n\n"}),
        ("new.py\n\n```python\nn = 1\n```\n", {"new.py": b"n = 1\n"}),
        ("```python:src/c.py\nn = 1\n```\n", {"src/c.py": b"n = 1\n"}),
        ("```src/b.txt\nz\n```\n", {"src/b.txt": b"z\r\n"}),
        (
            "new.md\n````\n```sh\nls\n```\n````\n" + block("tail", "no\n", "yes\n"),
            {"new.md": b"```sh\nls\n```\n", "tail": b"yes\nend"},
        ),
        ("tail\n```\nend\n```\nso it ends\n```\n```\n", {"tail": b"end\n"}),
        ('```python title="src/c.py"\nn = 1\n```\n', {"src/c.py": b"n = 1\n"}),
        (block("tail", "no\n", "1\n") + "\nDone.\n\n```sh\nls\n```\nv2.0:\n```\nnew\n```\n", {"tail": b"1\nend"}),
        ("So I would run it:\n```sh\nls a.py\n```\nand that is all.\n", {}),
    ],
)  # fmt: skip
def test_what_an_answer_says_is_what_the_files_become(text: str, contents: dict[str, bytes]) -> None:
    assert applied(text) == contents
    assert applied(text.replace("\n", "\r\n")) == contents


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (block("a.py", "two\n", "2\n"), "line 2: a.py: the SEARCH text stands there more than once; add lines"),
        (block("a.py", "thre\n", "3\n"), "is not there, as whole lines; lines like its first: 'three'"),
        (block("sp", "b \n", "c\n") + block("no.py", "x\n", "y\n"), "no.py: there is no such file; for a new one"),
        (block("a.py", "", "y\n"), "SEARCH is empty, but the file exists"),
        (block("bin", "a\n", "y\n"), "the file is binary"),
        (block("a.py", "one\n", "\0\n"), "the text holds a NUL"),
        (block("", "one\n", "1\n"), "line 2: the SEARCH block has no path in the line above it"),
        ("a.py\n<<<<<<< SEARCH\none\n=======\n1\n", "line 2: the SEARCH block does not end with >>>>>>> REPLACE"),
        (block("a.py", "one\n=======\ntwo\n", "1\n"), "has 2 lines =======; one is right"),
        ("a.py\n<<<<<<< SEARCH\none\n" + block("tail", "no\n", "1\n"), "line 2: the SEARCH block does not end"),
        (block("../a.py", "", "y\n"), "'../a.py' is no path from the root of the repository"),
        (block("/etc/passwd", "", "y\n"), "'/etc/passwd' is no path"),
        (block(".GIT/hooks/x", "", "y\n"), "is a file of git itself"),
        (block("a\0b", "", "y\n"), "has a character that no path"),
        (block("new", "", "y\n") + block("new/b", "", "y\n"), "line 7: new/b: new cannot be both a file and a folder"),
        (block("new/b", "", "y\n") + block("new", "", "y\n"), "line 7: new: new cannot be both a file and a folder"),
        ("new.py\n```\nx = 1\n", "the block of new.py is not closed: the answer was cut off"),
        (block("a.py", "one\n", "1\n") + "```diff\n--- a/a.py\n+++ b/a.py\n```\n", "in one form"),
        (
            "`a.py`:\n```\none\n```\n" + block("a.py", "one\n", "1\n"),
            "line 2: a.py is given whole, and by SEARCH blocks",
        ),
        ("a.py\n```\n1\n```\n" * 2, "line 6: a.py is given whole, and whole once more: give each file in one way"),
        (
            "a.py\n```\n1\n```\nMakefile\n```\nall:\n```\n",
            "line 6: there is no file Makefile; if the block is to be one",
        ),
        ("src/c\n```\n1\n```\n\n```diff\n--- a/a.py\n+++ b/a.py\n```\n", "it has a diff and whole files"),
        (
            "```diff\nold\n```\n```diff\n--- a/tail\n+++ b/tail\n```\n",
            "line 1: the diff block does not say of which file",
        ),
        ("```diff\n--- a/tail\n+++ b/tail\n```\n" * 2, "line 5: tail is in another diff block too"),
        ("x" * (LONGEST_ANSWER + 1), "8000001 characters; 8000000 is most"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, says: str) -> None:
    assert says in mistakes(text)


@given(
    st.lists(st.sampled_from(["..", ".", "", "a", ".git", ".GIT ", "b.py", "~", "\n", "\0", "\\", "git~1"]), max_size=5)
)
def test_no_path_that_is_let_through_leads_outside(parts: list[str]) -> None:
    path = "/".join(parts)
    if not path_mistake(path):
        assert {*path.split("/")} <= {"a", "b.py", "~"}
        assert not path.startswith(("/", "~"))


LINES = st.lists(st.sampled_from(["a", "b", " b", "c", ""]), min_size=1, max_size=8)


@given(LINES, LINES, st.data())
def test_an_edit_does_what_git_would_do_with_the_same_change(
    old: list[str], new: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(old) - 1))
    last = data.draw(st.integers(first + 1, len(old)))
    search, content = old[first:last], "".join(f"{line}\n" for line in old).encode()
    answer = read_answer(block("f", "".join(f"{line}\n" for line in search), "".join(f"{line}\n" for line in new)))
    contents, wrong = contents_after(answer.edits, {"f": content}.get, lambda _: "")
    places = [n for n in range(len(old)) if old[n : n + len(search)] == search]
    assert bool(wrong) == (len(places) > 1)
    if not wrong:
        assert contents["f"].decode() == "".join(f"{line}\n" for line in [*old[:first], *new, *old[last:]])


@pytest.mark.parametrize(
    "line", ["```diff\n", "<<<<<<< SEARCH\n", "a.py\n```\n", "=======\n", "`" * 70 + "\n", "_" * 900 + "\n"]
)
def test_a_hostile_answer_costs_no_more_than_its_length(line: str) -> None:
    text = line * (2_000_000 // len(line))
    began = time.process_time()
    read_answer(text, whole_files=True)
    whole = time.process_time() - began
    began = time.process_time()
    read_answer(text[: len(text) // 8], whole_files=True)
    part = time.process_time() - began
    assert whole < 40 * part + 1.0


def test_git_reads_the_diff_that_is_found(tmp_path: Path) -> None:
    diff = "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"
    (tmp_path / "f").write_text("one\n")
    change = read_answer(f"I move it.\n\n```diff\n{diff}```\n").diff
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True, timeout=60)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=change.encode(), check=True, timeout=60)
    assert (tmp_path / "g").read_text() == "one\n"
