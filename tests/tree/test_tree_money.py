"""The bill of a search: every call that was paid for once, whatever became of its answer."""

import json
import signal
import time
from collections.abc import Callable
from contextlib import chdir
from typing import Any

import pytest
from kit.project import PATIENCE, Project
from kit.searches import Search, agent

from pipeline.models.calls import Call, call_line
from pipeline.models.contract import Usage
from pipeline.store.noop import folder
from pipeline.tree.report.money import bill_of, budget_table, fold_money
from pipeline.tree.rules.positions import RunLayout, parse_slot

USAGE = {"usd": "usd", "input_tokens": "in", "output_tokens": "out", "cached_tokens": "cached"}
CODE = 'echo "gain=1$(basename "$PWD" | tail -c 2)" > "plus/$(basename "$PWD")"\n'
PAID = """printf '{"usd": %s, "in": 100, "cached": 80, "out": 10}\\n'\n"""


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def search_of(project: Project, coder: str, ideas: int = 2, **keys: Any) -> Search:
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder", usage=USAGE)}
    search = Search(project, {f"{n}": "gain=11" for n in range(ideas)}, roles=roles, max_depth=1, **keys)
    project.write("agent.coder", coder)
    return search


def money(search: Search) -> dict[str, Any]:
    found: dict[str, Any] = search.record("manifest.json")["money"]
    return found


def test_failed_calls_and_retries_are_on_the_bill(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}exit 3\n", eval_retries=1)
    search.build()
    found = money(search)
    assert (found["calls"], found["usd"], found["failed_calls"], found["failed_usd"]) == (4, 1.0, 4, 1.0)
    assert (found["input_tokens"], found["cached_tokens"], found["output_tokens"]) == (400, 320, 40)
    assert found["over_time"][-1] == {"eval_id": "d0.n0.i1", "usd": 1.0, "unknown_calls": 0}


def test_an_outage_that_was_paid_for_is_on_the_bill_before_and_after_the_answer(project: Project) -> None:
    search = search_of(project, f"{PAID % 0.1}exit 75\n", ideas=1)
    search.build(code=69)
    project.write("agent.coder", f"{CODE}{PAID % 0.5}")
    search.build()
    found = money(search)
    assert (found["calls"], found["usd"], found["failed_usd"]) == (2, 0.6, 0.1)


def test_answers_that_are_wanted_anew_do_not_drop_what_the_old_ones_cost(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}")
    search.build()
    assert money(search)["usd"] == 0.5
    project.call("forget", "x:d0.n0.i1.implement")
    search.build()
    assert (money(search)["calls"], money(search)["usd"]) == (3, 0.75)
    assert search.record("manifest.json")["state"]["spent"]["usd"] == 0.5, "the search decides by what is in use"
    search.build()
    assert money(search)["usd"] == 0.75


def test_a_retry_and_the_summary_say_that_the_budget_counts_only_what_is_in_use(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}exit 3\n", budget={"usd": 2})
    search.build()
    assert "Not counted here" not in project.read("runs/x/TREE_SUMMARY.md")
    project.write("agent.coder", f"{CODE}{PAID % 0.5}")
    said = project.call("retry", "x")
    assert said.code == 0, said
    assert "the budget of 2 USD counts answers in use" in said.out
    assert "the bill keeps both: 0.5 USD up to now" in said.out
    assert (money(search)["usd"], search.record("manifest.json")["state"]["spent"]["usd"]) == (1.5, 1.0)
    page = project.read("runs/x/TREE_SUMMARY.md")
    assert "Not counted here: 0.5 USD for answers that are not in use" in page
    assert [line.rpartition(", ")[2].split()[0] for line in page.splitlines() if "a build of" in line] == [
        "ended",
        "which",
    ], "the last build writes the page before its end"


def test_while_a_depth_is_not_over_the_budget_counts_what_has_ended(project: Project) -> None:
    coder = f"{CODE}case $PWD in *i1) exit 75;; esac\n{PAID % 0.25}"
    search = search_of(project, coder, budget={"usd": 2.0, "per_eval": {"usd": 0.5}})
    search.build(code=69)
    state = search.record("manifest.json")["state"]
    assert (state["spent"]["evals"], state["spent"]["usd"], state["left"]["usd"]) == (1, 0.25, 1.25)
    assert state["held_usd"] == {"unknown": 0, "reserved": 0.5}
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "Neither spent nor left: 0.5 USD are reserved for evaluations that have not ended." in page


def test_what_an_outage_cost_is_on_the_bill_and_the_budget_says_why_it_has_less(project: Project) -> None:
    coder = f"{CODE}case $PWD in *i1) {PAID.strip() % 0.1}; exit 75;; esac\n{PAID % 0.25}"
    search = search_of(project, coder, budget={"usd": 2.0})
    search.build(code=69)
    found = search.record("manifest.json")
    assert (found["money"]["usd"], found["state"]["spent"]["usd"]) == (0.35, 0.25)
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "Not counted here: 0.1 USD for work that has not ended" in page


def test_the_amounts_of_the_budget_add_up_with_calls_of_unknown_price(project: Project) -> None:
    keys = {"budget": {"usd": 2.0, "per_eval": {"usd": 0.3}}}
    search = search_of(project, f"{CODE}case $PWD in *i1) echo '{{}}';; *) {PAID.strip() % 0.25};; esac\n", **keys)
    search.build()
    state = search.record("manifest.json")["state"]
    assert state["held_usd"] == {"unknown": 0.3, "reserved": 0}
    assert state["spent"]["usd"] + 0.3 + state["left"]["usd"] == 2.0
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "Neither spent nor left: 0.3 USD count for 1 call of unknown price." in page
    assert "Not counted here" not in page
    project.call("forget", "x:d0.n0.i1.implement")
    search.build()
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "Not counted here: 0 USD + 1 call of unknown price for answers that are not in use any more" in page


def test_what_a_spec_without_prices_has_begun_can_be_read_but_not_built(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}")
    search.build()
    search.spec(budget={"usd": 2}, roles={**search.keys["roles"], "coder": agent("coder")})
    for words in (["tree", "--tree-run-id", "x", "--report-only"], ["explain", "x:d0.n0.i0"], ["list", "x"], ["log"]):
        assert project.call(*words).code == 0
    for command in ("run", "plan"):
        said = project.call(command, "x")
        assert (said.code, "nobody knows what command costs" in said.err) == (2, True), said


def test_what_was_asked_ahead_of_its_turn_is_on_the_bill_once(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.01}", ideas=5, budget={"usd": 1.0, "per_eval": {"usd": 0.4}})
    search.build("-n", "4")
    assert (money(search)["calls"], money(search)["usd"], money(search)["recalled_usd"]) == (5, 0.05, 0.0)


def test_what_a_build_asked_ahead_and_paid_for_is_not_said_to_be_saved(project: Project) -> None:
    keys = {"budget": {"usd": 2.0, "per_eval": {"usd": 0.8}}}
    search = search_of(project, f"{CODE}{PAID % 0.3}", ideas=3, **keys)
    assert "saved" not in search.build("-n", "2").err
    assert json.loads(project.call("log", "x", "--json").out)["x"][0]["saved"] == 0
    search.spec("y")
    assert "and 0.90 USD" in search.build("-n", "2", "y").err, "three answers, each saved once"


def test_another_run_that_recalls_the_answers_pays_nothing(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}")
    search.build()
    search.spec("y")
    search.build()
    found = search.record("manifest.json", "y")["money"]
    assert (found["calls"], found["usd"], found["recalled_usd"]) == (0, 0, 0.5)
    assert "Recalled, and not paid here: 0.5 USD." in project.read("runs/y/TREE_SUMMARY.md")


@pytest.mark.parametrize("per_eval", [None, {"usd": 0.3}])
def test_a_report_without_a_number_is_unknown_and_never_under_counted(
    project: Project, per_eval: dict[str, float] | None
) -> None:
    budget: dict[str, Any] = {"usd": 1.0, **({"per_eval": per_eval} if per_eval else {})}
    search = search_of(project, f"{CODE}echo '{{}}'\n", ideas=2, budget=budget, max_total_idea_evals=4)
    search.spec(max_depth=2)
    search.build()
    state = search.record("manifest.json")["state"]
    assert state["spent"]["usd"] == 0
    assert state["spent"]["unknown_calls"] >= 2
    if per_eval is None:
        assert search.stop(0) == "budget_usd_unknown"
        assert state["left"]["usd"] == 0
    else:
        assert search.stop(0) is None
        assert state["left"]["usd"] == 0.4, "two at their ceilings"
    ended = [each for each in search.record("manifest.json")["events"] if each["event"] == "completed"]
    assert {(each["usd"], each["unknown_calls"]) for each in ended} == {(0, 1)}
    page = project.read("runs/x/TREE_SUMMARY.md")
    assert f"Paid: 0 USD + {state['spent']['unknown_calls']} calls of unknown price" in page
    step = "ahead" if per_eval else "implement"
    assert "what it cost is unknown" in project.read(f"runs/x/.coppice/logs/d0.n0.i0.{step}.log")
    project.call("forget", "x:d0.promote")
    plan = project.call("plan", "x").out
    assert "of unknown price for" in plan
    assert "USD for one" not in plan, "no mean of what is not known"


def test_the_section_on_money_is_narrow_and_has_roles_depths_and_time(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}", ideas=3)
    search.build()
    lines = project.read("runs/x/TREE_SUMMARY.md").partition("## Money\n")[2].partition("\n## ")[0].splitlines()
    assert lines[1] == "Paid: 0.75 USD, for 3 calls."
    assert max(map(len, lines)) <= 120
    assert [line.split()[1] for line in lines if line.startswith(("| coder", "| depth 0", "| d0"))] == [
        *["coder", "depth"],
        *[f"d0.n0.i{n}" for n in range(3)],
    ]
    assert [line.split()[3] for line in lines if line.startswith("| d0")] == ["0.2500", "0.5000", "0.7500"]


def asking_search(project: Project) -> Search:
    """Ideas of an agent, one of which its coder gives up in the first depth; each call costs."""
    project.write("agent.ideas", f'echo "IDEA: $(basename "$PWD")"\n{PAID % 0.5}')
    project.write("agent.coder", f'{CODE}{PAID % 0.25}case $PWD in *d0*i1) [ -e "$project/fixed" ] || exit 3;; esac\n')
    roles = {name: agent(name, usage=USAGE) for name in ("ideas", "coder")}
    return Search(project, {}, roles=roles, ideas_per_node=2, max_depth=2, beam_width=1)


def test_a_retry_says_what_is_asked_anew_after_it_and_what_that_is_at_the_most(project: Project) -> None:
    search = asking_search(project)
    search.build()
    before = search.record("manifest.json")["money"]
    assert (before["calls"], before["usd"]) == (8, 3.0)
    project.write("fixed", "")
    said = project.call("retry", "x")
    words = " ".join(said.out.split())
    assert "about 1 call, 0.25 USD" in words
    assert "in d1 and below the role ideas must know how each earlier idea ended" in words
    assert "they are asked anew there, though the same be promoted: about 4 calls, 1.50 USD" in words
    assert "in all about 5 calls, 1.75 USD" in words
    after = search.record("manifest.json")
    assert (after["money"]["calls"], after["money"]["usd"]) == (13, 4.75)
    (event,) = [event for event in after["events"] if event["event"] == "retried"]
    assert event["slots"] == ["d0.n0.i1"]
    assert "UTC: a retry was begun for d0.n0.i1" in project.read("runs/x/TREE_SUMMARY.md")


def test_the_past_cost_of_one_evaluation_is_of_those_that_ended(project: Project) -> None:
    coder = f"{CODE}case $PWD in *i1) exit 75;; esac\n{PAID % 0.25}"
    search = search_of(project, coder)
    search.build(code=69)
    project.write("agent.coder", f"{CODE}{PAID % 0.1}case $PWD in *i1) exit 75;; esac\n")
    assert project.call("run", "x").code == 69
    said = project.call("plan", "x")
    assert "so far: 0.35 USD for 1 evaluation and 1 begun, 0.2500 USD for one" in said.out


def test_a_retry_says_that_a_search_that_had_stopped_may_go_on_and_what_that_is_at_the_most(project: Project) -> None:
    search = search_of(project, f"{CODE}{PAID % 0.25}exit 3\n", ideas=1, budget={"usd": 9, "per_eval": {"usd": 0.5}})
    search.spec(max_depth=3)
    search.build()
    assert search.stop(0) == "empty_frontier"
    said = " ".join(project.call("retry", "x", "--dry-run").out.split())
    assert "the search had stopped after d0: it may go on now, by at most 2 evaluations more:" in said
    assert "cost: at most 1.00 USD (2 x `per_eval`, if that is right)" in said
    assert "calls: at most 3 of coder for each evaluation" in said


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_call_that_was_broken_off_is_on_the_bill_at_an_unknown_price(project: Project, how: signal.Signals) -> None:
    """Also when it was made again, and no budget counts it."""
    hangs = '[ -e "$project/go" ] || { touch "$project/asked-${PWD##*/}"; sleep 300; }\n'
    search = search_of(project, f"{hangs}{CODE}{PAID % 0.25}", ideas=2, max_parallel_evals=2, budget={"usd": 5})
    build = project.popen("run", "-n", "2")
    until(lambda: len([*search.root.glob("asked-*")]) == 2)
    build.send_signal(how)
    build.communicate()
    said = project.call("plan", "x")
    assert "0 USD + 2 calls of unknown price (2 broken off or under way)" in said.out, said
    project.write("go", "")
    for _ in range(2):
        search.build()
        found = money(search)
        assert (found["calls"], found["usd"], found["unknown_calls"], found["unended_calls"]) == (4, 0.5, 2, 2)
        assert found["by_role"]["coder"]["unended_calls"] == found["by_depth"]["0"]["unended_calls"] == 2
        assert search.record("manifest.json")["state"]["spent"]["unknown_calls"] == 0
        project.call("forget", "x:d0.n0.promote")
    page = " ".join(project.read("runs/x/TREE_SUMMARY.md").split())
    assert "Paid: 0.5 USD + 2 calls of unknown price (2 broken off or under way), for 4 calls." in page
    assert "Not counted here: 0 USD + 2 calls of unknown price for calls that were broken off." in page


def test_a_refused_call_is_not_on_the_bill(project: Project) -> None:
    search = search_of(project, "exit 75\n", ideas=1)
    search.build(code=69)
    assert (money(search)["calls"], money(search)["unended_calls"]) == (0, 0)


CALL = Call("k", "coder", "command", "", "", "", "", "", Usage(0.2), 1.0, 0, "")


def folded(project: Project, journals: dict[str, bytes], records: dict[str, bytes]) -> dict[str, Any]:
    """The bill of journals by target, and of calls in the records by slot."""
    for target, content in journals.items():
        project.write(f"{folder('x')}/calls/{target}/calls.jsonl", content)
    for slot, content in records.items():
        project.write(RunLayout("x").of_eval(parse_slot(slot), "calls.jsonl"), content)
    with chdir(project.root):
        return fold_money("x", [parse_slot(slot) for slot in records])


def test_a_damaged_line_takes_no_other_call_off_the_bill_and_files_of_others_do_not_hinder_it(project: Project) -> None:
    line = call_line(CALL)
    journals = {"d0.n0.i0.implement": line + line[:40] + b"\n" + line, "notes.of.mine": b"", "d0.n0.ix.idea": b""}
    project.write(f"{folder('x')}/calls/.DS_Store", "")
    own = project.root / folder("x") / "calls/d0.n0.i0.implement"
    own.mkdir(parents=True)
    (own / "tests.log").symlink_to("gone")
    found = folded(project, journals, {})
    assert (found["calls"], found["usd"], found["unknown_calls"]) == (3, 0.4, 1)
    (own / "asked.log").write_text("{\n")
    found = folded(project, {}, {})
    assert (found["calls"], found["usd"], found["unknown_calls"], found["unended_calls"]) == (4, 0.4, 2, 1)


def test_an_answer_that_the_run_has_paid_for_is_not_recalled_from_elsewhere(project: Project) -> None:
    line = call_line(CALL)
    other = call_line(CALL._replace(key="other", usage=Usage(0.5)))
    slots = {"d0.n0.i0": line, "d0.n0.i1": line, "d0.n0.i2": other}
    found = folded(project, {"d0.n0.i0.implement": line}, slots)
    assert (found["usd"], found["recalled_usd"], found["again_usd"]) == (0.2, 0.5, 0.2)


@pytest.mark.parametrize(("paid", "said"), [(0.3 + 1e-12, ""), (0.4, "Not counted here: 0.1 USD for")])
def test_what_is_not_counted_is_money_and_no_rounding_of_it(paid: float, said: str) -> None:
    none = {"usd": None, "tokens": None, "seconds": None, "evals": None}
    spent = {"evals": 1, "usd": 0.3, "tokens": 0, "seconds": 0.0, "unknown_calls": 0}
    state = {"spent": spent, "left": none, "held_usd": {}, "depth_progress_by_depth": {}, "stop_reason": "x"}
    bill = {**bill_of(())._asdict(), "usd": paid, **dict.fromkeys(("recalled_usd", "again_usd"), 0.0)}
    bill |= dict.fromkeys(("recalled_unknown_calls", "again_unknown_calls"), 0)
    config = {"budget": none, "ceiling": none}
    lines = budget_table({"state": state, "run_config": config, "money": bill, "evaluations": {}})
    assert [line for line in lines if "Not counted" in line] == [line for line in lines if said and said in line]
    assert any("Not counted" in line for line in lines) == bool(said)
