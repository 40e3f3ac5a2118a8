"""What a `kind: proof` spec may say, and how each mistake is told: file, line, and what would be right."""

from pathlib import Path

import pytest
from kit.mistakes import Mistake, read_mistakes, refused_mistake
from kit.project import Project

from pipeline.lean.backends.keys import DEFAULT_LEDGER
from pipeline.lean.model import LeanKeys
from pipeline.proof.read import read
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings, StrategyWorker
from pipeline.spec import parse
from pipeline.spec_fields import StorePlace
from pipeline.tactics.moves import FAMILIES

LEAST = "kind: proof\nbank: bank.jsonl\nprofile: 0\n"


def spec(text: str) -> ProofSpec:
    return read(parse(text.encode(), "specs/x.yaml"), "x")


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
    assert (found.profile, found.pass_at, found.ledger, found.store) == (
        None,
        (1, 4),
        "other.db",
        StorePlace("../store", sign=False),
    )


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


MISTAKES = read_mistakes(Path(__file__).with_name("bad_specs.txt"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_told_with_its_line(project: Project, mistake: Mistake) -> None:
    refused_mistake(project, mistake)


def test_a_bank_that_is_not_there_is_told_before_anything_runs(project: Project) -> None:
    project.spec("x", LEAST)
    said = project.call("x")
    assert said.code == 2
    assert "specs/x.yaml:2: bank.jsonl is missing, which x:bank reads" in said.err
    assert not (project.root / "runs/.ledger").exists()
