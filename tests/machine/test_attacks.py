"""Attacks of a hostile candidate, done for real: what comes of each in each grade is what the table says of it.

`PYTHONPATH=.:tests python tests/machine/test_attacks.py` renews the table of docs/sandbox.md."""

import json
import os
import platform
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from kit import attacking
from kit.attacks import ATTACKS, BETTER, GRADES, OPEN, RECORDED, Attack
from kit.project import ROOT
from kit.searches_attacked import SEARCHES
from kit.users import NO_PYTHON, USER, USERS, environment_in, identity, is_confined, python_of

from pipeline.machine.kernel import landlock_version

PAGE = ROOT / "docs/sandbox.md"
BEGIN, END = "<!-- attacks -->\n", "<!-- /attacks -->\n"
KEY = "a-key-that-nobody-may-learn-4711"
# Signals to others were first refused by version 6 of Landlock.
SIGNALS = ("kill_process", "stop_process", "pidfd_signal", "signal_coordinator", "signal_guard")

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="attacks call the kernel by the numbers of Linux on x86-64",
)


def prepare(base: Path, user: str) -> None:
    """What only root can put there: a program that is root whoever starts it, and a file that only root can read."""
    (base / "data").mkdir()
    if os.geteuid() == 0:
        shutil.copy("/bin/cat", base / "data/setuid-cat")
        (base / "data/setuid-cat").chmod(0o4755)
        shutil.copy("/bin/true", base / "root-program")
        (base / "root-only").write_text(KEY)
        (base / "root-only").chmod(0o600)
    if identity(user):
        for path in (base, base / "data"):
            os.chown(path, USER, USER)
    base.chmod(0o755)


@lru_cache(maxsize=8)
def outcomes(user: str, grade: str) -> dict[str, Any]:
    """What came of all attacks, done by this user in this grade; skips where that cannot be had."""
    with TemporaryDirectory(prefix="coppice-attacks-", ignore_cleanup_errors=True) as base:
        prepare(Path(base), user)
        environment = {**environment_in(f"{base}/home"), attacking.KEY: KEY}
        if not (python := python_of(user, environment, "kit.attacking")):
            return {"lacking": NO_PYTHON}
        words = [python, attacking.__file__, grade, base]
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=240, check=False, **identity(user)
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def expected(grade: str, user: str) -> dict[str, str]:
    left_out = SIGNALS if grade == "landlock" and landlock_version() < 6 else ()
    return {name: each.word(grade, user == "root") for name, each in ATTACKS.items() if name not in left_out}


def can_be_better(name: str, grade: str) -> bool:
    """Check if something else than the cage may refuse it."""
    return bool(ATTACKS[name].system) or (grade == "plain" and is_confined())


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("user", USERS)
def test_what_comes_of_each_attack_is_what_the_table_says(user: str, grade: str) -> None:
    found = outcomes(user, grade)
    if why := found.get("lacking"):
        pytest.skip(why)
    wrong = []
    for name, word in expected(grade, user).items():
        got, detail = found["results"][name]
        is_better = BETTER.index(got) >= BETTER.index(word)
        if got != word and not (is_better and can_be_better(name, grade)):
            wrong.append(f"{name}: {got} and not {word}: {detail}")
    assert not wrong
    assert found["left"] == []


ROWS = {**ATTACKS, **SEARCHES}


@pytest.mark.parametrize("user", USERS)
def test_each_attack_would_work_if_nothing_held_it(user: str) -> None:
    """An attack that never works proves nothing: what plain does not hold does harm there, or this machine is named."""
    found = outcomes(user, "plain")
    if why := found.get("lacking"):
        pytest.skip(why)
    results = found["results"]
    asleep = [name for name, word in expected("plain", user).items() if word == OPEN and results[name][0] != OPEN]
    assert not [name for name in asleep if not can_be_better(name, "plain")]
    if asleep:
        pytest.skip(f"this machine itself refuses: {', '.join(f'{name} ({ATTACKS[name].system})' for name in asleep)}")


def test_old_versions_of_landlock_are_named() -> None:
    if 0 < landlock_version() < 6:
        pytest.skip(f"Landlock of version {landlock_version()} refuses no signals: {', '.join(SIGNALS)}")


def test_what_is_open_in_a_cage_has_a_reason() -> None:
    caged = [grade for grade in GRADES if grade != "plain"]
    weak = {name for name, each in ROWS.items() if any({OPEN, RECORDED} & {*each.both(grade)} for grade in caged)}
    assert weak == {name for name, each in ROWS.items() if each.why}


def cell(each: Attack, grade: str) -> str:
    """A word, or both where root is another matter; a weakness stands out."""
    words = [f"**{word}**" if word == OPEN else word for word in each.both(grade)]
    return words[0] if len({*words}) == 1 else f"{words[0]}; root: {words[1]}"


def table() -> str:
    lines, reasons = [], dict.fromkeys(each.why for each in ROWS.values() if each.why)
    number = {why: n for n, why in enumerate(reasons, 1)}
    for kind in dict.fromkeys(each.kind for each in ROWS.values()):
        lines += [f"| **{kind}** | plain | landlock | isolated | trusted |", "|---|---|---|---|---|"]
        for each in (each for each in ROWS.values() if each.kind == kind):
            mark = f" ({number[each.why]})" if each.why else ""
            lines.append(f"| {each.says}{mark} | {' | '.join(cell(each, grade) for grade in GRADES)} |")
        lines.append("")
    return "\n".join([*lines, *(f"{n}. {why}" for why, n in number.items()), ""])


def with_table() -> str:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def test_the_page_has_the_table() -> None:
    """`PYTHONPATH=.:tests python tests/machine/test_attacks.py` renews it."""
    assert BEGIN in PAGE.read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == with_table()
    for name in ("README.md", "CHANGELOG.md"):
        assert f" {len(ROWS)} attacks" in (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(with_table(), encoding="utf-8")
