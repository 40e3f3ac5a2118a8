"""What a `kind: proof` spec may say, and how each mistake is told: file, line, and what would be right."""

import pytest
from kit.project import Project

from pipeline.errors import SpecError
from pipeline.goals.proving import DEFAULT_LEDGER, LeanKeys
from pipeline.proof.read import read
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings, StrategyWorker
from pipeline.spec import parse
from pipeline.tactics.moves import FAMILIES

LEAST = "kind: proof\nbank: bank.jsonl\nprofile: 0\n"


def spec(text: str) -> ProofSpec:
    return read(parse(text.encode(), "specs/x.yaml"), "x")


def wrong(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        spec(text)
    return str(caught.value)


def test_the_least_that_a_spec_says() -> None:
    found = spec(LEAST)
    assert found.search == SearchSettings({"micro": 8.0})
    assert (found.lean, found.pace, found.ledger) == (LeanKeys(), Pace(), DEFAULT_LEDGER)
    assert (found.profile, found.pass_at, found.store, found.at_once, found.rooms) == (0, (1,), None, 1, {})


def test_every_key_is_read() -> None:
    found = spec(
        "kind: proof\nstore: ../store\nbank: b/bank.jsonl\nlean: {backend: wasm, processes: 3, memory: 1200}\n"
        "strategies: {micro: {timeout: 20s}}\nbandit: ucb1\nspeculation: 1\nlevels: 3\nlevel_factor: 2.5\n"
        "escalate_threshold: 0.5\ntactic_cache: false\ntimeout: 10m\nsamples: 4\nseed: 7\nmax_light: 5\nmax_heavy: 1\n"
        "cpu_target: 0.75\npass_at: [1, 4]\nledger: other.db\n"
    )
    assert found.search == SearchSettings({"micro": 20.0}, "ucb1", 1, 3, 2.5, 0.5, False, 600.0, 4, 7)
    assert found.lean == LeanKeys("wasm", 3, 1200, "")
    assert found.pace == Pace(5, 1, 0.75)
    assert (found.profile, found.pass_at, found.ledger, found.store) == (None, (1, 4), "other.db", "../store")


def test_a_list_of_strategies_has_the_documented_budgets() -> None:
    assert spec("kind: proof\nbank: b\nstrategies: [micro]\n").search.strategies == {"micro": 8.0}
    assert spec("kind: proof\nbank: b\nstrategies: {micro: }\n").search.strategies == {"micro": 8.0}


def test_one_worker_may_be_several_strategies() -> None:
    found = spec(
        "kind: proof\nbank: b\nstrategies:\n  quick: {worker: micro, families: [finishers], timeout: 2s}\n"
        "  induct: {worker: micro, families: [induction, finishers]}\n  twin: {worker: micro}\n  micro:\n"
    )
    assert found.search.strategies == {"quick": 2.0, "induct": 8.0, "twin": 8.0, "micro": 8.0}
    assert found.worker_for("quick") == StrategyWorker("micro", ("finishers",))
    assert found.worker_for("induct") == StrategyWorker("micro", ("finishers", "induction"))
    assert found.worker_for("twin") == found.worker_for("micro") == StrategyWorker("micro")
    assert "micro" not in found.strategy_workers


def test_all_families_are_as_good_as_none() -> None:
    found = spec(f"kind: proof\nbank: b\nstrategies: {{micro: {{families: [{', '.join(FAMILIES)}]}}}}\n")
    assert found.worker_for("micro") == StrategyWorker("micro")


def test_no_throttle_unless_it_is_asked_for() -> None:
    assert spec(LEAST).pace.cpu_target is None
    assert spec(LEAST + "cpu_target: none\n").pace.cpu_target is None


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("kind: proof\nprofile: 0\n", 1, "spec: 'bank' is missing"),
        ("kind: proof\nbank: b\n", 1, "give it `strategies:`, or a `profile:`"),
        ("kind: proof\nbank: b\nprofile: 0\nstrategies: [micro]\n", 3, "keep one of them"),
        ("kind: proof\nbank: b\nprofile: 1\n", 3, "profile: 1: worker 'copilot' is not built yet"),
        ("kind: proof\nbank: b\nprofile: -1\n", 3, "profile: expected a whole number, 0 or more"),
        ("kind: proof\nbank: b\nstrategies:\n- micro\n- sketch\n", 5, "strategies: worker 'sketch' is not built yet"),
        ("kind: proof\nbank: b\nstrategies: [micros]\n", 3, "did you mean 'micro'?"),
        ("kind: proof\nbank: b\nstrategies: []\n", 3, "strategies: there is none; name one of: micro"),
        ("kind: proof\nbank: b\nstrategies: [micro, micro]\n", 3, "strategies: 'micro' is given twice"),
        ("kind: proof\nbank: b\nstrategies: {micro: {timeouts: 3}}\n", 3, "did you mean 'timeout'?"),
        ("kind: proof\nbank: b\nstrategies: {micro: {timeout: soon}}\n", 3, "strategy micro: timeout: expected a time"),
        ("kind: proof\nbank: b\nstrategies:\n  micro:\n  micro: {timeout: 3}\n", 5, "micro"),
        ("kind: proof\nbank: b\nstrategies:\n  quick: {timeout: 3}\n", 4, "strategy quick: worker 'quick' is unknown"),
        ("kind: proof\nbank: b\nstrategies:\n  quick: {timeout: 3}\n", 4, "or say with `worker:` whose strategy it is"),
        ("kind: proof\nbank: b\nstrategies:\n  q: {worker: mikro}\n", 4, "strategy q: worker 'mikro' is unknown; did"),
        ("kind: proof\nbank: b\nstrategies:\n  q: {worker: copilot}\n", 4, "worker 'copilot' is not built yet"),
        ("kind: proof\nbank: b\nstrategies:\n  cache: {worker: micro}\n", 4, "strategies: 'cache' is taken"),
        ("kind: proof\nbank: b\nstrategies:\n  sketch: {worker: micro}\n", 4, "strategies: 'sketch' is taken"),
        ("kind: proof\nbank: b\nstrategies:\n  2 fast: {worker: micro}\n", 4, "strategies: '2 fast' is not a name"),
        ("kind: proof\nbank: b\nstrategies: {micro: {families: [logik]}}\n", 3, "did you mean 'logic'?"),
        ("kind: proof\nbank: b\nstrategies: {micro: {families: []}}\n", 3, "families: there is none"),
        (
            "kind: proof\nbank: b\nstrategies: {micro: {families: logic}}\n",
            3,
            "strategy micro: families: expected a list",
        ),
        ("kind: proof\nbank: b\nstrategies: {micro: {families: [logic, logic]}}\n", 3, "'logic' is given twice"),
        ("kind: proof\nbank: ''\nprofile: 0\n", 2, "bank: expected a path"),
        (LEAST + "bandit: thompson\n", 4, "bandit: 'thompson' is unknown; allowed: contextual, discounted, seed, ucb1"),
        (LEAST + "speculation: 0\n", 4, "speculation: expected a whole number, from 1"),
        (LEAST + "levels: 99\n", 4, "levels: expected a whole number, from 1 to 12, found '99'"),
        (LEAST + "level_factor: 0.5\n", 4, "level_factor: expected a number from 1 to 1000, found '0.5'"),
        (LEAST + "escalate_threshold: 2\n", 4, "escalate_threshold: expected a number from 0 to 1, found '2'"),
        (LEAST + "cpu_target: 0\n", 4, "cpu_target: expected a load per CPU, more than 0 and at most 1, or none"),
        (LEAST + "cpu_target: yes\n", 4, "cpu_target: expected a load per CPU"),
        (LEAST + "max_light: many\n", 4, "max_light: expected a whole number"),
        (LEAST + "tactic_cache: 1\n", 4, "tactic_cache: expected true or false"),
        (LEAST + "timeout: 0\n", 4, "timeout: expected a time such as 90, 90s, 10m or 2h"),
        (LEAST + "pass_at: 2\n", 4, "pass_at: up to 1, as many as `samples:` says, found [2]"),
        (LEAST + "samples: 3\npass_at: []\n", 5, "pass_at: up to 3"),
        (LEAST + "lean: {backend: coq}\n", 4, "lean: backend: 'coq' is unknown"),
        (LEAST + "lean: {memory: 1}\n", 4, "lean: memory: expected a whole number, 256 or more"),
        (LEAST + "lean: {processes: 0}\n", 4, "lean: processes: expected a whole number, from 1"),
        (LEAST + "lean: {project: mathlib4}\n", 4, "lean: project: the backend wasm has the core library alone"),
        (LEAST + "lean: {backend: leandojo}\n", 4, "lean: backend leandojo proves in a repository; name it"),
        (LEAST + "lean: {backend: native, project: nowhere}\n", 4, "lean: project: nowhere is no folder"),
        (LEAST + "cpu_targt: 1\n", 4, "did you mean 'cpu_target'?"),
        (LEAST + "ledger: ''\n", 4, "ledger: expected a path"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, what: str) -> None:
    message = wrong(text)
    assert message.startswith(f"specs/x.yaml:{line}: ")
    assert what in message


def test_a_bank_that_is_not_there_is_told_before_anything_runs(project: Project) -> None:
    project.spec("x", LEAST)
    said = project.call("x")
    assert said.code == 2
    assert "specs/x.yaml:1: bank.jsonl is missing, which x:bank reads" in said.err
    assert not (project.root / "runs/.ledger").exists()
