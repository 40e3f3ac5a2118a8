"""Files of mistakes: a spec with something wrong, and what the one message about it has to say.

    === the name of the case
    kind: steps
    steps: a: b  # here
    --- not YAML

The line at fault ends in `# here`; otherwise `--- line N` gives it. All else after `---` stands in the message.

A file may begin with `=== GOOD`, a spec without a fault. Its cases are then changes of that one: lines with `-` are
replaced by those with `+`, and where no line goes, they are added at the end."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kit.project import Project, Said

MOST = 700  # characters of a message


class Mistake(NamedTuple):
    name: str
    spec: str
    line: int
    says: list[str]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def read_mistakes(file: Path, words: Mapping[str, str] | None = None) -> list[Mistake]:
    """The cases of a file; `words` are short for what would be the same in each."""
    cases, good = file.read_text(encoding="utf-8").split("\n=== ")[1:], good_spec(file)
    return [read_mistake(text, good.rstrip("\n"), words or {}) for text in cases[bool(good) :]]


def good_spec(file: Path) -> str:
    """The one that the cases change; "" where each is a whole spec."""
    name, _, spec = file.read_text(encoding="utf-8").split("\n=== ")[1].partition("\n")
    return spec if name == "GOOD" else ""


def read_mistake(text: str, good: str, words: Mapping[str, str]) -> Mistake:
    name, *lines = text.rstrip().split("\n")
    says = [line[4:] for line in lines if line.startswith("--- ")]
    body = [line for line in lines if not line.startswith("--- ")]
    spec = "\n".join(changed(good.split("\n"), body) if good and is_change(body) else body)
    for word, meant in words.items():
        spec = spec.replace(word, meant)
    marked = [n for n, line in enumerate(spec.split("\n"), 1) if line.endswith("# here")]
    (line,) = [int(part[5:]) for part in says if re.fullmatch(r"line \d+", part)] or marked
    return Mistake(name, spec + "\n", line, [part for part in says if not part.startswith("line ")])


def is_change(body: list[str]) -> bool:
    return all(line[:1] in ("-", "+") for line in body)


def changed(good: list[str], body: list[str]) -> list[str]:
    gone, new = ([line[1:] for line in body if line[0] == sign] for sign in "-+")
    if not gone:
        return [*good, *new]
    (at,) = [n for n in range(len(good)) if good[n : n + len(gone)] == gone]
    return [*good[:at], *new, *good[at + len(gone) :]]


def refused(project: Project, said: Said, where: str) -> str:
    """The message, after checking all that holds for every refusal."""
    assert said.code == 2, said
    assert not said.out, "a refusal belongs on standard error"
    assert said.err.startswith(f"coppice: {where}"), said.err
    assert said.err.count("\n") == 1, said.err
    assert said.err[:-1].isprintable(), said.err
    assert "Traceback" not in said.err
    assert len(said.err) < MOST
    assert not (project.root / "executed").exists(), "something was executed"
    return said.err


def refused_mistake(project: Project, mistake: Mistake) -> str:
    """The message about it, after checking that it has the line and says what it should."""
    project.spec("x", mistake.spec)
    message = refused(project, project.call("run", "x"), f"specs/x.yaml:{mistake.line}: ")
    for part in mistake.says:
        assert part in message
    return message
