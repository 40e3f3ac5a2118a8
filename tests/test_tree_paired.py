"""A search by blocks, really run: what is promoted, what is not, and what that rests on."""

from typing import Any

from conftest import Project
from searches import Search, command

# A row a (config, block); the noise of a block is shared by all configs and ideas, that of an idea is its own.
SWEEP = """\
results=$1 blocks=$2
gain=0 noise=0 risk=5
for idea in plus/*; do . "./$idea"; done
awk -v gain="$gain" -v noise="$noise" -v risk="$risk" -v blocks="$blocks" 'BEGIN {
  print "config_id,block,status,gain,risk"
  for (c = 0; c < 3; c++) for (b = 0; b < blocks; b++)
    printf "%d,%d,ok,%.4f,%.4f\\n", c, b, 10 + c + 3 * sin(7 * b) + gain + noise * sin(b * b + c / 9), risk + sin(b) / 9
}' > "$results"
"""
IDEAS = {
    "better": "gain=2 noise=1",
    "luck": "gain=0.2 noise=1",
    "worse": "gain=-2 noise=1",
    "risky": "gain=2 noise=1 risk=6",
}
BLOCKS = 20


def search(project: Project, ideas: dict[str, str] = IDEAS, blocks: int = BLOCKS, **keys: Any) -> Search:
    project.write("blocks.sh", SWEEP)
    sweep = command(f"sh {{in}} {{results}} {blocks}", "blocks.sh", blocks=keys.pop("declared", {}))
    metrics = {"gain": {"primary": True}, "risk": {"better": "lower", "guard": True, "margin": 0.5}}
    return Search(project, ideas, **{"sweep": sweep, "metrics": metrics, **keys})


def verdicts(found: Search, depth: int = 0) -> dict[str, Any]:
    evidence = found.record(f"depths/{depth}/weighed.json")["evidence"]
    return {slot: (each["parent"]["verdict"], each["parent"]["reasons"]) for slot, each in evidence.items()}


def test_only_what_chance_does_not_explain_is_promoted(project: Project) -> None:
    found = search(project)
    found.build()
    assert verdicts(found) == {
        "d0.n0.i0": ("promoted", ["gain"]),
        "d0.n0.i1": ("indecisive", ["could_be_chance"]),
        "d0.n0.i2": ("rejected", ["risk_regressed:risk"]),
        "d0.n0.i3": ("rejected", ["no_gain_worth_having"]),
    }
    assert found.why("d0.n0.i0") == "d1.n0"
    summary = found.summary("d0.n0.i0")
    assert (summary["rows_used"], summary["rows_expected"]) == (3 * BLOCKS, 3 * BLOCKS)


def test_what_is_recorded_can_be_worked_out_again(project: Project) -> None:
    found = search(project)
    found.build()
    assert "No problems found" in found.project.read("runs/x/VALIDATION_REPORT.md")
