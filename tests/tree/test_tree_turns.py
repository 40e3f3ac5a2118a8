"""Slots that are admitted by turns: the money is never overspent, and none is refused that could have been paid."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.graph import Target
from pipeline.models.calls import answered_call, call_line
from pipeline.models.contract import Answer, Question, Usage
from pipeline.tree.run.decisions import admit_stage, wave_stage
from pipeline.tree.run.records import SlotTask, load_as, save
from pipeline.trust.series import round_significant

CENTS = st.integers(1, 100).map(lambda cents: cents / 100)


class Job(NamedTuple):
    target: Target
    reads: dict[str, list[str]]
    writes: dict[str, list[str]]


class Turns:
    """The slots of one depth, played without a build: `costs` are what each would spend, of `ceiling` at most."""

    def __init__(self, folder: str, limit: float, ceiling: float | None, costs: list[float | None], wave: int) -> None:
        self.at, self.costs, self.wave = Path(folder), costs, wave
        self.params = {
            "budget": {"evals": None, "usd": limit, "tokens": None, "seconds": None},
            "ceiling": {"evals": 1, "usd": ceiling, "tokens": None, "seconds": None},
        }
        save(self.path("assigned"), {"spent": {}})
        for n in range(len(costs)):
            save(self.path(f"{n}.proposed"), SlotTask(f"idea {n}", "", ""))

    def path(self, name: str) -> str:
        return str(self.at / name)

    def job(self, first: int, reads: dict[str, list[str]], writes: dict[str, list[str]]) -> Any:
        before = {"purse": [], "calls": [], "assigned": [self.path("assigned")]}
        if first:
            before = {name: [self.path(f"{first - 1}.{name}")] for name in ("purse", "calls")} | {"assigned": []}
        return Job(Target("x:t", "t", (), (), self.params), {**before, **reads}, writes)

    def play(self) -> tuple[list[int], list[int]]:
        """The slots that were admitted, and those that were asked for ahead."""
        admitted, ahead = [], []
        for n in range(len(self.costs)):
            if n % self.wave == 0:
                these = range(n, min(n + self.wave, len(self.costs)))
                files = [[self.path(f"{i}.{name}") for i in these] for name in ("proposed", "ahead")]
                wave_stage(self.job(n, {"proposed": files[0]}, {"ahead": files[1]}))
                ahead += [i for i in these if not load_as(SlotTask, self.path(f"{i}.ahead")).empty]
            reads = {name: [self.path(f"{n}.{name}")] for name in ("proposed", "ahead")}
            admit_stage(self.job(n, reads, {name: [self.path(f"{n}.{name}")] for name in ("task", "purse")}))
            line = b""
            if not load_as(SlotTask, self.path(f"{n}.task")).empty:
                admitted.append(n)
                question = Question("coder", str(n), ".", os.devnull)
                line = call_line(answered_call({"backend": "command"}, question, Answer("", Usage(self.costs[n]))))
            Path(self.path(f"{n}.calls")).write_bytes(line)
        return admitted, ahead


@given(CENTS, CENTS, st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 4))
def test_no_turn_overspends_and_none_is_refused_that_fits(
    limit: float, ceiling: float, shares: list[float | None], wave: int
) -> None:
    costs = [None if share is None else round(share * ceiling, 4) for share in shares]
    with TemporaryDirectory() as folder:
        admitted, ahead = Turns(folder, limit, ceiling, costs, wave).play()
    charged = [ceiling if cost is None else cost for cost in costs]
    spent = 0.0
    for n in range(len(costs)):
        fits = round_significant(spent + ceiling) <= limit
        assert (n in admitted) == fits, "refused is what does not fit when all before it have ended, and nothing else"
        spent = round_significant(spent + (charged[n] if n in admitted else 0.0))
    assert spent <= limit
    assert {*ahead} <= {*admitted}, "what was asked for ahead is never refused"


@given(st.integers(1, 5), st.integers(1, 4))
def test_as_many_of_a_wave_as_fit_at_their_ceilings_are_asked_for_at_once(fitting: int, wave: int) -> None:
    with TemporaryDirectory() as folder:
        _, ahead = Turns(folder, fitting * 0.5, 0.5, [0.5] * wave, wave).play()
    assert ahead == [*range(min(wave, fitting))]


def test_a_refused_slot_says_what_does_not_suffice() -> None:
    with TemporaryDirectory() as folder:
        turns = Turns(folder, 1.0, 0.6, [0.6, 0.6], 1)
        assert turns.play() == ([0], [0])
        task = json.loads(Path(turns.path("1.task")).read_bytes())
    assert task["empty"] == "budget"
    assert task["lacking"] == ["usd"]
    assert task["why"] == "not enough of the budget is left: usd (limit 1)"


def test_without_a_ceiling_in_usd_no_turn_comes_after_a_call_of_unknown_price() -> None:
    """Whatever is known of others: `per_eval: tokens` alone lets slots in by turns."""
    with TemporaryDirectory() as folder:
        turns = Turns(folder, 5.0, None, [0.2, None, 0.2, 0.2], 1)
        assert turns.play() == ([0, 1], [0, 1])
        lacking = [load_as(SlotTask, turns.path(f"{n}.task")).lacking for n in (2, 3)]
    assert [[*each] for each in lacking] == [["usd_unknown"]] * 2
