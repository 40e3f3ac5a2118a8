"""What `plan` says of a search before anything of it runs."""

import subprocess

from kit.project import Project
from kit.searches import TESTED, Search, agent, command

USAGE = {"usd": "usd"}
ASKED = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": agent("coder", usage=USAGE)}


def outlook(search: Search) -> list[str]:
    said = search.project.call("plan", "x")
    assert said.code == 0, said
    return [line.removeprefix("x: ") for line in said.out.splitlines() if line.startswith("x: ")]


def test_all_evaluations_are_counted_by_depth(project: Project) -> None:
    search = Search(project, {"1": "", "2": ""}, beam_width=3, max_depth=3)
    assert outlook(search)[0] == "at most 14 evaluations (2 at depth 0, 6 at depth 1, 6 at depth 2)"
    assert outlook(search)[1] == "cost: nothing is paid for"


def test_the_cost_is_what_the_evaluations_may_cost_at_most_and_never_above_the_budget(project: Project) -> None:
    each = {"usd": 0.5, "tokens": 1000}
    search = Search(project, {"1": "", "2": ""}, roles=ASKED, budget={"per_eval": each})
    right = "2 x `per_eval`, if that is right"
    assert f"cost: at most 1.00 USD ({right}), at most 2,000 tokens ({right})" in outlook(search)
    search.spec(budget={"usd": 0.7, "per_eval": each}, max_total_idea_evals=1)
    lines = outlook(search)
    assert "budget: 1 evaluations, 0.70 USD" in lines
    right = "1 x `per_eval`, if that is right"
    assert f"cost: at most 0.50 USD ({right}), at most 1,000 tokens ({right})" in lines
    search.spec(budget={"usd": 0.7}, max_review_rounds=2, eval_retries=1)
    more = "and what one depth takes beyond it, which `per_eval: usd` would bound"
    bound = f"cost: 0.70 USD (the budget), {more}, tokens: nothing bounds it: `budget: tokens` would"
    assert bound in outlook(search)
    assert "calls: at most 18 of coder for each evaluation" in outlook(search), "3 rounds, 2 corrections, 1 retry"
    search.spec(tests={"run": ["true"]}, roles={**ASKED, "coder": {**ASKED["coder"], "max_repairs": 0}})
    assert "calls: at most 8 of coder for each evaluation" in outlook(search), "once more when the tests have failed"


def test_plan_says_that_nothing_bounds_a_bill_of_unknown_price(project: Project) -> None:
    roles = {**ASKED, "coder": agent("coder")}
    search = Search(project, {"1": "", "2": ""}, roles=roles)
    blind = "the price of role coder is unknown"
    assert any(f"usd: nothing bounds it: {blind}; add `price:`" in line for line in outlook(search))
    search.spec(budget={"per_eval": {"usd": 0.5}})
    assert any(f"at most 1.00 USD (2 x `per_eval`, if that is right; {blind})" in line for line in outlook(search))
    search.spec(roles={**ASKED, "coder": agent("coder", price="free")}, budget=None)
    assert not any("USD" in line or "usd" in line for line in outlook(search))


def test_the_time_is_that_of_the_commands_as_far_as_they_are_limited(project: Project) -> None:
    search = Search(project, {"1": "", "2": "", "3": ""}, max_parallel_evals=2, **TESTED)
    assert outlook(search)[-2] == "time: no limit for some commands; 2 at once"
    search.spec(
        tests=command("sh {in}", "tests.sh", timeout=60),
        sweep=command("sh {in} {results} {limit}", "sweep.sh", timeout="2m"),
    )
    assert outlook(search)[-2] == "time: at most 3 min 00 s of commands for each, 6 min 00 s for all, 2 at once"


def test_a_run_that_was_built_says_nothing_more_about_it(project: Project) -> None:
    search = Search(project, {"1": "gain=11"})
    search.build()
    assert outlook(search) == []


def test_plan_says_by_what_is_promoted(project: Project) -> None:
    search = Search(project, {"1": ""})
    assert "verdicts: weighted_means: no telling luck from progress; for that say what `sweep: blocks:` there are" in (
        outlook(search)
    )
    search.spec(sweep={**search.keys["sweep"], "blocks": 12}, metrics={"gain": {"primary": True}})
    assert "verdicts: paired, by 12 blocks, alpha 0.05 of a run" in outlook(search)


def test_plan_says_that_the_build_would_stop_at_uncommitted_changes(project: Project) -> None:
    search = Search(project, {"1": ""})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(search.root / "repo")]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        subprocess.run([*git, *words], check=True)
    assert not any(line.startswith("start: ") for line in outlook(search))
    project.write("repo/README", "Edited.\n")
    (line,) = [line for line in outlook(search) if line.startswith("start: ")]
    assert "the build would stop at x:root: " in line
    assert line.endswith("commit, stash or ignore: README")
    assert "Root working tree must be clean" in search.build(code=1).out
    subprocess.run([*git, "checkout", "-q", "--", "."], check=True)
    search.spec(protect=["evalute.py"])
    (line,) = [line for line in outlook(search) if line.startswith("start: ")]
    assert "the build would stop at x:protected: protect: evalute.py is nothing in commit " in line
    assert "protect: evalute.py is nothing in commit " in search.build(code=1).out
