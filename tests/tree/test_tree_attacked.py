"""Searches that are attacked by their own candidates: what comes of each in each grade is what the table says of it."""

import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from kit.attacks import BETTER, CONTAINED, GRADES, OPEN, RECORDED, REFUSED
from kit.project import Project
from kit.searches import adding, idea, write_idea
from kit.searches_attacked import CODED, KILLING, MEASURED, SEARCHED, SEARCHES, Found
from kit.users import NO_PYTHON, USER, USERS, environment_in, identity, is_confined, python_of

from pipeline.core.cages import CageKeys
from pipeline.machine.grades import lacking

# Harm that the build itself speaks of.
SAID = ("kill_itself",)
KEY = "a-key-that-nobody-may-learn-4712"
TOKEN = f"coppice-{os.getpid()}"
ANSWER = """\
answers=$1 gain=10
try() { . "./$1"; }
for idea in plus/*; do try "$idea"; done
echo "$gain" > "$answers/gain"
"""
JUDGE = """\
{ echo config_id,status,gain; for config in 0 1; do echo "$config,ok,$(cat "$1/gain")"; done; } > "$2"
"""
DECIDE = """\
data=$1 results=$2 ahead=0 cut=yes
for idea in plus/*; do grep -q ahead= "$idea" && . "./$idea"; done
awk -F, -v ahead="$ahead" '
  NR > 1 { time[NR] = $1; price[NR] = $2 }
  END {
    print "time,weight"
    for (n = 2; n <= NR; n++) print time[n] "," price[(n + ahead > NR) ? NR : n + ahead]
  }
' "$data" > "$results"
"""
PRICES = "time,price\n" + "".join(f"2001-01-{day:02},{day * day}\n" for day in range(1, 32))
SPEC: dict[str, Any] = {
    "kind": "tree",
    "repo": "repo",
    "max_depth": 1,
    "sweep_config_limit": 2,
    "patience": 0,
    "roles": {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": {"backend": "patches"}},
    "metrics": {"gain": {"primary": True}},
}
LOOK_AHEAD = {
    "run": "sh decide.sh {prices} {results}",
    "reads": {"prices": "prices.csv"},
    "cut": "prices",
    "cuts": 1,
}
ONE = {"run": "mkdir -p {output}/answers && sh answer.sh {output}/answers && sh judge.sh {output}/answers {results}"}
APART = {"answer": {"run": "sh answer.sh {answers}"}, "judge": {"run": "sh judge.sh {answers} {results}"}}


def attacked(project: Project, grade: str, search: str) -> list[str]:
    """Write a search whose ideas are these attacks, and one more that is honest; their names, by slots."""
    for name, text in (("answer.sh", ANSWER), ("judge.sh", JUDGE), ("decide.sh", DECIDE), ("plus/start", ":\n")):
        project.write(f"repo/{name}", text)
    project.write("prices.csv", PRICES)
    project.write("truth", "12\n")
    codes = {name: each.shell for name, each in SEARCHED.items() if each.search == search}
    codes = {name: f"{shell}\n".replace("PROJECT", str(project.root)) for name, shell in codes.items()}
    spec = {**SPEC, "sandbox": grade, "sweep": APART if grade == "trusted" else ONE}
    if search == CODED:  # one idea, whose coder attacks and leaves the other attack in the code
        code = codes["remember_decisions"].replace("TOKEN", TOKEN)
        project.write("agent.sh", f"{codes['coder_writes']}mkdir -p plus\ncat > plus/code <<'END'\n{code}END\n")
        roles = {**SPEC["roles"], "coder": {"backend": "command", "run": ["sh", "{project}/agent.sh"]}}
        spec |= {"roles": roles, "checks": {"look-ahead": LOOK_AHEAD}}
        ideas = {"coded": ":\n"}
    else:
        ideas = {**codes, "honest": "gain=11\n"}
    for number, (name, shell) in enumerate(ideas.items()):
        write_idea(project, f"{number:02}", idea(name), adding(f"plus/{name}", shell))
    project.spec("x", yaml.safe_dump({**spec, "ideas_per_node": len(ideas)}, sort_keys=False))
    return [*codes]


def build(project: Project, python: str, environment: Mapping[str, str], user: str) -> tuple[int, str]:
    if identity(user):
        for folder, _, files in os.walk(project.root):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                os.chown(path, USER, USER)
    words = [python, "-m", "pipeline", "run", "-n", "1", "x"]
    how = {**identity(user), "cwd": project.root}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False, **how)
    return done.returncode, done.stdout + done.stderr


@lru_cache(maxsize=8)
def outcomes(user: str, grade: str) -> dict[str, tuple[str, str]]:
    """What came of all attacks, done by this user in this grade, and by what one sees it; empty if nobody can."""
    results: dict[str, tuple[str, str]] = {}
    for search in (MEASURED, CODED, KILLING):
        with TemporaryDirectory(prefix="coppice-attacked-", ignore_cleanup_errors=True) as base:
            os.chmod(base, 0o755)
            project = Project(Path(base, "project"))
            names = attacked(project, grade, search)
            environment = {**environment_in(base), "ATTACK_KEY": KEY}
            if not (python := python_of(user, environment, "numpy, git, pipeline.commands.main")):
                return {}
            code, said = build(project, python, environment, user)
            if search == MEASURED:
                honest = project.root / f"runs/x/artifacts/d0.n0.i{len(names)}.csv"
                assert code == 0, said
                assert ",11" in honest.read_text(), said
            for slot, name in enumerate(names):
                results[name] = weigh(name, 0 if search == CODED else slot, project, code, said)
            Path("/dev/shm", TOKEN).unlink(missing_ok=True)
    return results


def weigh(name: str, number: int, project: Project, code: int, said: str) -> tuple[str, str]:
    """What came of an attack, and by what one sees it."""
    found = Found(project.root, code, said, f"d0.n0.i{number}", KEY)
    logs = [*project.root.glob(f"runs/x/eval/{found.slot}/*.log"), *project.root.glob("runs/x/.coppice/logs/*.log")]
    own = [path for path in logs if found.slot in str(path)]
    log = "".join(path.read_text(errors="replace") for path in own)
    detail = f"{code} {found.why} {found.gains!r} {log[-300:]!r} {said[-600:]!r}"
    if SEARCHED[name].did_harm(found):
        return RECORDED if name in SAID else OPEN, detail
    if any(error in log for error in ("ermission denied", "ead-only", "o such", "onexistent", "not permitted")):
        return REFUSED, detail
    return CONTAINED, detail


# As root, where it is root that cages hold otherwise: in containers.
TRIALS = [(user, grade) for user in USERS for grade in GRADES if user == "user" or grade in ("isolated", "trusted")]


@pytest.mark.parametrize(("user", "grade"), TRIALS)
def test_what_comes_of_an_attack_on_a_search_is_what_the_table_says(user: str, grade: str) -> None:
    if why := lacking(CageKeys(grade)):
        pytest.skip(why)
    found = outcomes(user, grade)
    if not found:
        pytest.skip(NO_PYTHON)
    wrong = []
    for name, each in SEARCHES.items():
        got, detail = found[name]
        word = each.word(grade, user == "root")
        if got != word and not (is_confined() and BETTER.index(got) >= BETTER.index(word)):
            wrong.append(f"{name}: {got} and not {word}: {detail}")
    assert not wrong, "\n".join(wrong)
