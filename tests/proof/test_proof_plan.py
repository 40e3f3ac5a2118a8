"""A proof spec as targets, and what of it decides which attempts are made."""

import pytest
from kit.project import Project

from pipeline.core.graph import Target
from pipeline.core.recipe import make_recipe
from pipeline.proof.describe import describe, outlook
from pipeline.proof.plan import plan
from pipeline.proof.read import read
from pipeline.proof.workers import micro
from pipeline.spec import parse

LEAST = "kind: proof\nbank: bench/bank.jsonl\nprofile: 0\n"


def targets(text: str, name: str = "x") -> dict[str, Target]:
    return {target.stage: target for target in plan(read(parse(text.encode(), "specs/x.yaml"), name))}


def recipes(text: str, name: str = "x") -> dict[str, object]:
    return {stage: make_recipe(target, "code") for stage, target in targets(text, name).items()}


def test_the_targets_and_their_files() -> None:
    files = {stage: (target.name, target.inputs, target.outputs) for stage, target in targets(LEAST).items()}
    run = "runs/x"
    assert files == {
        "toolchain": ("x:toolchain", (), (f"{run}/toolchain.json",)),
        "bank": ("x:bank", ("bench/bank.jsonl", f"{run}/toolchain.json"), (f"{run}/bank.json",)),
        "prove": (
            "x:prove",
            (f"{run}/bank.json", f"{run}/toolchain.json"),
            (f"{run}/search.json", f"{run}/proofs.jsonl", f"{run}/journal.jsonl"),
        ),
        "check": ("x:check", (f"{run}/proofs.jsonl", f"{run}/toolchain.json"), (f"{run}/checked.json",)),
        "report": (
            "x:report",
            (f"{run}/bank.json", f"{run}/search.json", f"{run}/proofs.jsonl", f"{run}/checked.json"),
            (
                f"{run}/results.json",
                f"{run}/results.csv",
                f"{run}/results.html",
                f"{run}/proofs.lean",
                f"{run}/proofs.zip",
            ),
        ),
    }


LIMITS = ("lean: {processes: 4, memory: 900}", "max_light: 3", "max_heavy: 5", "cpu_target: 0.5", "ledger: other.db")


@pytest.mark.parametrize("line", LIMITS)
def test_what_limits_a_search_redoes_nothing(line: str) -> None:
    assert recipes(f"{LEAST}{line}\n") == recipes(LEAST)


def test_another_name_or_place_redoes_nothing() -> None:
    assert recipes(LEAST, "y") == recipes(LEAST)
    assert recipes(LEAST.replace("bench/", "")) == recipes(LEAST)


ARMS = ("micro: ", "micro: {families: [logic]}", "micro: {families: [cases]}")
DECIDING = (
    "bandit: ucb1", "speculation: 1", "levels: 3", "level_factor: 2", "tactic_cache: false", "timeout: 1h",
    "samples: 2", "seed: 1",
)  # fmt: skip


@pytest.mark.parametrize("line", DECIDING)
def test_what_decides_on_attempts_makes_the_search_stale_and_no_more(line: str) -> None:
    """What an attempt is known by stays: those that there are, are recalled."""
    before, after = recipes(LEAST), recipes(f"{LEAST}{line}\n")
    assert [stage for stage in before if before[stage] != after[stage]] == ["prove"]
    kept = [targets(text)["prove"].params["codes"] for text in (LEAST, f"{LEAST}{line}\n")]
    assert kept[0] == kept[1]


def codes(strategies: str) -> dict[str, str]:
    text = f"kind: proof\nbank: b\nstrategies: {{{strategies}}}\n"
    found: dict[str, str] = targets(text)["prove"].params["codes"]
    return found


def test_families_make_other_attempts_and_a_plain_worker_is_what_it_was() -> None:
    assert codes("micro: ") == codes("micro: {timeout: 3s}") == {"micro": micro.CODE}
    assert codes("twin: {worker: micro}") == {"twin": micro.CODE}
    assert codes("micro: {families: [finishers]}") == {"micro": f"{micro.CODE} finishers"}
    assert codes("micro: {families: [logic, cases]}") == codes("micro: {families: [cases, logic]}")


def test_families_make_the_search_stale_and_no_more() -> None:
    twin = targets("kind: proof\nbank: b\nstrategies: {twin: {worker: micro, families: [logic]}}\n")["prove"]
    assert twin.params["ways"] == {"twin": {"worker": "micro", "families": ("logic",)}}
    plain, before, after = ({**targets(f"kind: proof\nbank: b\nstrategies: {{{text}}}\n")} for text in ARMS)
    assert make_recipe(plain["prove"], "") == make_recipe(targets(LEAST)["prove"], "")
    assert make_recipe(before["prove"], "") != make_recipe(after["prove"], "") != make_recipe(plain["prove"], "")
    assert make_recipe(before["bank"], "") == make_recipe(after["bank"], "")


def test_another_backend_is_another_toolchain() -> None:
    before, after = recipes(LEAST), recipes(LEAST + "lean: {backend: native}\n")
    assert [stage for stage in before if before[stage] != after[stage]] == ["toolchain"]


def test_what_is_reported_redoes_no_search() -> None:
    text = LEAST + "samples: 3\n"
    before, after = recipes(text), recipes(text + "pass_at: [1, 3]\n")
    assert [stage for stage in before if before[stage] != after[stage]] == ["report"]


def test_a_target_says_what_it_does_in_words_of_the_spec() -> None:
    words = describe(targets(LEAST)["prove"])
    assert words["stage"] == ["prove"]
    assert words["strategies"] == ['{"micro": 8.0}']
    assert words["levels"] == ["2"]
    assert words["pace"] == ['{"max_light": 8, "max_heavy": 2, "cpu_target": null}']


def test_the_outlook_is_what_one_goal_may_take() -> None:
    said = outlook([*targets(LEAST).values()])
    assert said == ["at most 40.0 s of attempts on a goal, in 2 levels; what the ledger has is recalled"]
    assert "at most 2 min 00 s of attempts on a goal" in outlook([*targets(LEAST + "samples: 3\n").values()])[0]
    assert ", 1 h 00 min in all;" in outlook([*targets(LEAST + "timeout: 1h\n").values()])[0]


def test_a_plan_needs_no_lean(project: Project) -> None:
    project.write("bench/bank.jsonl", "")
    project.spec("x", LEAST)
    said = project.call("plan", "--graph-only", "x")
    assert said == (0, "5 targets\n", "")


def test_an_edited_project_is_another_toolchain() -> None:
    """All of it that is text: what lake built is made from that."""
    assert [*targets(LEAST + "lean: {backend: native, project: docs}\n")["toolchain"].inputs] == ["docs"]
