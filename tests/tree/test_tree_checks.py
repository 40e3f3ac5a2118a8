"""Checks before a sweep: what fails them is not measured, and a canary sees what looks into days to come."""

from typing import Any

import pytest
from kit.project import Project
from kit.searches import TESTED, Search, command, stage, told

# A decision every third day: the price of a day, `ahead` days from it; cut data ends with the day.
DECIDE = """\
data=$1 results=$2
ahead=0 header=time,stock,weight extra= scale=1
for idea in plus/*; do . "./$idea"; done
tail -n 1 "$data" | cut -d, -f1 >> "$LIST.ends"
basename "$data" >> "$LIST.names"
awk -F, -v ahead="$ahead" -v header="$header" -v extra="$extra" -v scale="$scale" '
  NR > 1 { time[NR] = $1; price[NR] = $2 }
  END {
    print header
    for (n = 2; n <= NR; n += 3) {
      seen = n + ahead > NR ? NR : n + ahead
      printf "%s,a,%.3f\\n%s,b,%s\\n", time[n], price[seen] * scale, time[n], 1
    }
    if (extra != "") print extra
  }
' "$data" > "$results"
"""
PRICES = "time,price\n" + "".join(f"2001-01-{day:02},{day * day}\n" for day in range(1, 32))
LINT = "! grep -q tab plus/*"


def canary(**more: Any) -> dict[str, Any]:
    line = "sh {code} {prices} {results}"
    return command(line, {"code": "decide.sh", "prices": "prices.csv"}, cut="prices", **more)


def searched(project: Project, ideas: dict[str, str], **spec: Any) -> Search:
    project.write("decide.sh", DECIDE)
    project.write("prices.csv", PRICES)
    return Search(project, ideas, **spec)


def checked(search: Search, slot: str) -> Any:
    return search.record(f"eval/{slot}/checks.json")


def test_what_fails_a_check_is_not_measured_and_the_first_that_fails_says_why(project: Project) -> None:
    ideas = {"1-good": "gain=20", "2-tab": "gain=99 # tab", "3-ahead": "gain=99 ahead=2"}
    checks = {"lint": {"run": LINT}, "look-ahead": canary()}
    search = searched(project, ideas, checks=checks, **TESTED)
    search.build()
    assert [line for line in search.executed() if line.startswith("sweep")] == ["sweep d0.n0", "sweep d0.n0.i0"]
    assert [search.summary(f"d0.n0.i{i}")["status"] for i in range(3)] == ["completed", "failed", "failed"]
    assert search.summary("d0.n0.i1")["why"] == "checks: lint: exit status 1"
    assert [each["name"] for each in checked(search, "d0.n0.i1")["checks"]] == ["lint"], "and nothing after it runs"
    assert search.summary("d0.n0.i2")["why"].startswith("checks: look-ahead: a decision changes when the data after")
    assert search.project.read("runs/x/eval/d0.n0.i2/checked.txt") == ""
    passed, made = (search.project.read(f"runs/x/eval/d0.n0.i0/{name}") for name in ("checked.txt", "tree.txt"))
    assert passed.strip() == made.strip() != ""


def test_a_canary_names_the_first_decision_that_changed_and_counts_the_cuts(project: Project) -> None:
    search = searched(project, {"ahead": "gain=99 ahead=1"}, checks={"look-ahead": canary(cuts=4)})
    search.build()
    (found,) = checked(search, "d0.n0.i0")["checks"]
    first = found["cuts"][0]["time"]
    day = int(first[-2:])
    words = f"{first}, stock a: weight {(day + 1) ** 2:.3f} -> {day**2:.3f}"
    assert found["why"] == (f"a decision changes when the data after {first} is cut off: {words} (so with 4 of 4 cuts)")
    assert [cut["change"] != "" for cut in found["cuts"]] == [True] * 4
    assert found["decisions"] == 22


def test_cuts_are_spread_over_the_end_at_times_of_decisions_and_alike_for_the_same_content(project: Project) -> None:
    search = searched(project, {"good": "gain=20"}, checks={"look-ahead": canary(cuts=3, **{"from": 0.25})})
    search.build()
    (found,) = checked(search, "d0.n0.i0")["checks"]
    times = [cut["time"] for cut in found["cuts"]]
    made = [f"2001-01-{day:02}" for day in range(10, 31, 3)]
    assert [time in part for time, part in zip(times, (made[:2], made[2:4], made[4:]), strict=True)] == [True] * 3
    assert search.project.read("list.ends").split()[-4:] == ["2001-01-31", *times], "the command saw what was said"
    assert {*search.project.read("list.names").split()} == {"prices.csv"}
    assert not [*(search.root / "runs/x").glob("eval/*/out.checks*")], "the cut files are gone"
    search.build("x", "--always-execute")
    assert checked(search, "d0.n0.i0")["checks"] == [found]


def test_a_root_that_fails_its_checks_stops_the_search_before_anything_is_paid_for(project: Project) -> None:
    search = searched(project, {"good": "gain=20"}, checks={"look-ahead": canary()})
    project.write("repo/plus/start", "ahead=1\n")
    said = search.build(code=1)
    assert "the checks of the root failed: look-ahead: a decision changes when" in said.out + said.err
    assert stage(told(said, "built"), "sweep", "implement") == []
    project.write("repo/plus/start", ":\n")
    search.build()


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("exit 3", "with all of the data: exit status 3"),
        ("rm() { :; }; results=/dev/null", "with all of the data: it ended without writing its results"),
        ("scale=nan", "its decisions cannot be used: line 2: weight is nan"),
        ("scale=inf", "line 2: weight is inf"),
        ("extra=2001-02-29,a,1", "2001-02-29 is no time of the data that it was given"),
        ("extra=2001-01-02,a", "line 24 has 2 cells, the header has 3"),
        ("header=time", "line 2 has 3 cells, the header has 1"),
        ('[ "$(wc -l < $data)" -eq 32 ] || exit 7', "with the data up to 2001-01-"),
        ('[ "$(wc -l < $data)" -eq 32 ] || extra=2001-01-01,c,1', "2001-01-01, stock c: nothing -> decided"),
        ('[ "$(wc -l < $data)" -ne 32 ] || extra=2001-01-01,c,1', "2001-01-01, stock c: decided -> nothing"),
        ('[ "$(wc -l < $data)" -eq 32 ] || header=time,stock,part', "columns time,stock,weight -> time,stock,part"),
        ("head -c 70000000 /dev/zero > $results; exit 0", "line 1 of its results has more than 256 KB"),
        ("head -c 7000 /dev/urandom > $results; exit 0", "with all of the data: its decisions cannot be used: line"),
        ("printf 'time,stock,weight\\n' > $results; exit 0", "nothing is decided at a time after which the data could"),
        ("ln -sf $data $results; exit 0", "with all of the data: its results cannot be read"),
    ],
)
def test_whatever_a_candidate_writes_is_its_own_failure_in_words(project: Project, shell: str, says: str) -> None:
    search = searched(project, {"odd": shell}, checks={"look-ahead": canary(cuts=1)})
    search.build()
    summary = search.summary("d0.n0.i0")
    assert summary["status"] == "failed"
    assert says in summary["why"], summary["why"]
    assert search.executed().count("sweep d0.n0.i0") == 0


@pytest.mark.parametrize(
    ("data", "more", "says"),
    [
        ("time,price\n", {}, "cut: prices.csv: it has no rows"),
        ("", {}, "it has no rows"),
        (PRICES, {"column": "day"}, "there is no column day; it has time, price"),
        ("time,price\n2001-01-02,1\n2001-01-01,1\n", {}, "line 3: 2001-01-01 after 2001-01-02: times must rise"),
        ("time,price\n9,1\n10,1\n9,2\n", {}, "line 4: the time 9 is in two places"),
        ("price,time\n9\n", {"column": "time"}, "line 2: the time is missing"),
    ],
)
def test_data_that_cannot_be_cut_is_nobodys_result(project: Project, data: str, more: Any, says: str) -> None:
    search = searched(project, {"good": "gain=20"}, checks={"look-ahead": canary(**more)})
    project.write("prices.csv", data)
    said = search.build(code=1)
    assert says in said.out + said.err, said
    assert not (search.root / "runs/x/nodes/d0.n0/checks.json").exists()


def test_a_folder_cannot_be_cut(project: Project) -> None:
    search = searched(project, {"good": "gain=20"})
    project.write("days/prices.csv", PRICES)
    reads = {"code": "decide.sh", "prices": "days"}
    search.spec(checks={"look-ahead": {**canary(), "reads": reads}})
    said = search.build(code=1)
    assert "checks: look-ahead: cut: prices is no single file; name one CSV" in said.out + said.err


def test_an_edit_of_a_check_redoes_checks_and_no_sweep_of_what_passes_still(project: Project) -> None:
    search = searched(project, {"good": "gain=20", "tab": "gain=30 # tab"}, checks={"lint": {"run": LINT}}, **TESTED)
    search.build()
    search.spec(checks={"lint": {"run": "true"}})
    said = search.build()
    redone = stage(told(said, "built"), "implement", "test", "checks", "sweep")
    assert redone == ["d0.n0.checks", "d0.n0.i0.checks", "d0.n0.i1.checks", "d0.n0.i1.sweep"]
    search.spec(checks={"lint": {"run": "true", "timeout": "1m"}})
    assert stage(told(search.build(), "built"), "checks") == []


def test_each_run_of_a_check_has_its_own_timeout(project: Project) -> None:
    search = searched(project, {"slow": "sleep 60"}, checks={"look-ahead": canary(timeout=5)}, max_parallel_evals=2)
    search.build()
    assert search.summary("d0.n0.i0")["why"] == "checks: look-ahead: with all of the data: timed out after 5 s"


def test_what_checks_cost_counts(project: Project) -> None:
    search = searched(project, {"good": "sleep 0.3"}, checks={"look-ahead": canary(cuts=2)})
    search.build()
    cost = search.record("eval/d0.n0.i0/checks.cost.json")
    assert cost["seconds"] >= 0.9
    manifest = search.record("manifest.json")
    found = manifest["evaluations"]["d0.n0.i0"]
    assert found["seconds"]["checks"] == cost["seconds"]
    assert found["spent"]["seconds"] >= cost["seconds"]
    assert found["files"]["checks"] == "runs/x/eval/d0.n0.i0/checks.json"
    assert manifest["run_config"]["checks"] == ["look-ahead"]
    assert "look-ahead, data up to" in search.project.read("runs/x/eval/d0.n0.i0/checks.log")


def test_the_manifest_says_which_step_failed_and_validation_finds_nothing(project: Project) -> None:
    search = searched(project, {"tab": "gain=30 # tab"}, checks={"lint": {"run": f"echo looking; {LINT}"}}, **TESTED)
    search.build()
    error = search.record("manifest.json")["evaluations"]["d0.n0.i0"]["error"]
    log = "runs/x/eval/d0.n0.i0/checks.log"
    assert error == {"stage": "checks", "why": "checks: lint: exit status 1", "exit": 1, "log": log}
    assert "looking" in search.project.read(log)
    assert search.project.read("runs/x/VALIDATION_REPORT.md").startswith("# No problems found")


def test_what_touches_a_protected_file_is_void_before_a_check_runs(project: Project) -> None:
    search = searched(project, {"good": "gain=20"}, checks={"lint": {"run": LINT}}, protect=["README"])
    search.idea("touch", "")
    project.write("ideas/touch/change.patch", "--- a/README\n+++ b/README\n@@ -1 +1 @@\n-A model.\n+Mine.\n")
    search.spec(ideas_per_node=2)
    search.build()
    assert [search.summary(f"d0.n0.i{i}")["status"] for i in range(2)] == ["completed", "failed"]
    assert search.summary("d0.n0.i1")["why"] == "void: README is protected and was changed"
    assert checked(search, "d0.n0.i1")["checks"] == []
    assert "sweep d0.n0.i1" not in search.executed()


def test_what_touches_a_protected_file_while_a_check_runs_is_void_too(project: Project) -> None:
    search = searched(project, {"sly": "echo Mine. > README"}, checks={"look-ahead": canary()}, protect=["README"])
    search.build()
    assert search.summary("d0.n0.i0")["why"].startswith("void: README is protected and")
    assert "sweep d0.n0.i0" not in search.executed()
