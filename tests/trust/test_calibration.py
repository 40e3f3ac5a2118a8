"""Noise whose truth is known: what is told of it agrees with that, on average over baselines."""

from typing import Any

import numpy as np
import pytest

from pipeline.trust.calibration import Proportion, Rule, measure_promotions, p_values, with_power
from pipeline.trust.noise import fit_noise, likeness_of_repeats
from pipeline.trust.rule import weigh

IDEAS_AT_ONCE, BLOCKS, LEVEL = 7, 50, 0.05


def process(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    x = 1 - rng.standard_exponential(shape) if kind == "left" else rng.standard_normal(shape)
    for b in range(1, shape[-1] if kind == "alike" else 0):
        x[..., b] = 0.4 * x[..., b - 1] + (1 - 0.4**2) ** 0.5 * x[..., b]
    return x


def states_and_truth(kind: str, baselines: int, depths: int) -> tuple[Any, Any]:
    """Measurements of the same code, and differences of ideas without effect to their baseline."""
    rng = np.random.default_rng(2)
    real = process(rng, (depths, IDEAS_AT_ONCE + 1, BLOCKS), kind)
    return process(rng, (baselines, 6, BLOCKS), kind), real[:, 1:] - real[:, :1]


@pytest.mark.parametrize(("kind", "off"), [("normal", 0.015), ("alike", 0.04), ("left", 0.03)])
def test_false_promotions_are_as_many_as_are_told(kind: str, off: float) -> None:
    """On average over baselines: one alone does not know its noise that well."""
    states, truth = states_and_truth(kind, 40, 3000)
    rule = Rule(LEVEL)
    true = Proportion(int(rule.passes(truth, 1).any(axis=1).sum()), len(truth)).rate
    told_ = [
        measure_promotions(noise, rule, IDEAS_AT_ONCE, BLOCKS, 100, i).passed.rate
        for i, s in enumerate(states)
        if (noise := fit_noise(s, states=True))
    ]
    assert abs(np.mean(told_) - true) < off
    assert (true > 0.15) == (kind == "alike")


def test_a_rule_that_is_broken_is_not_certified() -> None:
    """Blocks in time order, taken for unordered: signs that are flipped block by block would say 5 %."""
    states, _ = states_and_truth("alike", 1, 2)
    noise = fit_noise(states[0], states=True)
    assert noise is not None
    assert measure_promotions(noise, Rule(LEVEL), 7, BLOCKS, 500, 1).passed.interval[0] > LEVEL
    assert measure_promotions(noise, Rule(LEVEL, ordered=True), 7, BLOCKS, 500, 1).passed.interval[0] < LEVEL


@pytest.mark.parametrize(("ideas", "blocks", "rho"), [(1, 10, None), (7, 20, None), (7, 20, 0.4), (3, 5, None)])
def test_many_depths_are_judged_as_each_of_them_is(ideas: int, blocks: int, rho: float | None) -> None:
    depths = 1 - np.random.default_rng(ideas).standard_exponential((20, ideas, blocks)) + 0.3
    if rho is None:  # blocks without order are put in one, which says which goes with which random number
        depths = np.stack([np.array(sorted(depth.T.tolist(), key=sorted)).T for depth in depths])
    how: Any = {"ordered": rho is not None, "rho": rho, "draws": 2000}
    found = p_values(depths, seed=3, group=10, **how)
    each = [weigh(depth.tolist(), alpha=0.05, seed=3 + i // 10, **how).ideas for i, depth in enumerate(depths)]
    assert np.abs(found - [[idea.p for idea in ideas] for ideas in each]).max() <= 1 / 2001 + 1e-9  # a tie


def test_power_grows_with_the_effect_and_with_blocks() -> None:
    noise = fit_noise(np.random.default_rng(2).standard_normal((6, 20)), states=True)
    assert noise is not None
    rule, found = Rule(LEVEL), {}
    for blocks in (20, 80):
        cell = measure_promotions(noise, rule, 4, blocks, 400, 1)
        found[blocks] = with_power(cell, noise, rule, [0.2, 0.5, 1.0], 400, 1)
    rates = [[each.promoted.rate for each in cell.power] for cell in found.values()]
    assert rates[0] == sorted(rates[0])
    assert all(few <= many for few, many in zip(*rates, strict=True))
    few, many = (cell.detectable or 0.0 for cell in found.values())
    assert 1.6 < few / many < 2.4  # the square root of 4
    at = with_power(found[20], noise, rule, [few], 400, 1).power[0]
    assert 0.75 <= at.passed.rate <= 0.85


def test_an_effect_must_also_be_worth_having() -> None:
    noise = fit_noise(np.random.default_rng(2).standard_normal((6, 20)), states=True)
    assert noise is not None
    rule = Rule(LEVEL, smallest_effect=2.0)
    cell = with_power(measure_promotions(noise, rule, 4, 20, 400, 1), noise, rule, [2.0], 400, 1)
    assert cell.promoted.hits == 0 < cell.passed.hits
    assert cell.power[0].passed.rate == 1
    assert 0.4 < cell.power[0].promoted.rate < 0.6


def test_the_same_content_gives_the_same_answer() -> None:
    rows = np.random.default_rng(4).standard_normal((5, 15))
    one, other = fit_noise(rows, states=False), fit_noise(rows.copy(), states=False)
    assert one is not None
    assert one == other
    assert (one.depths(1, 5, 3, 9) == one.depths(1, 5, 3, 9)).all()
    assert (one.depths(1, 5, 3, 9) != one.depths(2, 5, 3, 9)).any()


def test_an_effect_of_an_evaluation_is_no_noise() -> None:
    rows = np.random.default_rng(4).standard_normal((5, 15))
    assert fit_noise(rows + 100, states=False).size == pytest.approx(fit_noise(rows, states=False).size)  # type: ignore[union-attr]
    assert fit_noise(np.ones((3, 9)), states=False) is None


def test_the_interval_is_wilsons() -> None:
    assert Proportion(5, 100).interval == pytest.approx((0.0215, 0.1118), abs=1e-4)
    assert Proportion(0, 50).interval[0] == 0.0


def repeated(rng: np.random.Generator, depths: int, ideas: int, folds: int, repeats: int) -> Any:
    """Means over the folds of some data, which each repeat cuts anew; all ideas by the same cuts."""
    data = rng.standard_normal((depths, ideas, 40 * folds))
    cuts = [
        data[:, :, rng.permutation(40 * folds)].reshape(depths, ideas, folds, 40).mean(axis=3) for _ in range(repeats)
    ]
    return np.concatenate(cuts, axis=2)


def test_simulated_repeats_promote_as_many_as_real_ones_whether_weighed_rightly_or_not() -> None:
    rng, of_repeat = np.random.default_rng(4), [n // 5 for n in range(20)]
    truth = repeated(rng, 1500, 3, 5, 4)
    noise = fit_noise(truth[0].tolist(), states=False, repeats=of_repeat)
    assert noise is not None
    for rule in (Rule(LEVEL, repeats=4), Rule(LEVEL)):
        real = rule.passes(truth, 1).any(axis=1).mean()
        told = measure_promotions(noise, rule, 3, 20, 1500, 1).passed.rate
        assert told == pytest.approx(real, abs=0.05)
        assert (told < 0.09) == (rule.repeats == 4)


@pytest.mark.parametrize(("repeats", "folds"), [(2, 3), (10, 2)])
def test_the_size_of_noise_of_repeats_is_that_of_their_folds(repeats: int, folds: int) -> None:
    rng, of_repeat = np.random.default_rng(1), [n // folds for n in range(repeats * folds)]
    fitted = [fit_noise(rng.normal(size=(3, repeats * folds)), False, of_repeat) for _ in range(300)]
    assert np.mean([noise.size**2 for noise in fitted if noise]) == pytest.approx(1.0, abs=0.08)


def test_a_seed_moves_all_repeats_as_much_as_one() -> None:
    rng, of_repeat = np.random.default_rng(0), [n // 5 for n in range(20)]
    noise = fit_noise(rng.normal(size=(12, 1)) + 0.2 * rng.normal(size=(12, 20)), True, of_repeat)
    assert noise is not None
    (size,) = noise.sizes
    told = noise.depths(1, 4000, 1, 20).mean(axis=2).std()
    assert told == pytest.approx((2 * (noise.level**2 + size**2 / 5)) ** 0.5, rel=0.05)


def test_the_fast_rule_for_simulations_agrees_on_repeats() -> None:
    depths = repeated(np.random.default_rng(5), 6, 4, 5, 4)
    fast = p_values(depths, seed=1, repeats=4, draws=4000)
    exact = [
        [
            idea.p
            for idea in weigh(d.tolist(), alpha=0.05, seed=1, draws=4000, repeats=[n // 5 for n in range(20)]).ideas
        ]
        for d in depths
    ]
    assert fast == pytest.approx(np.array(exact), abs=0.05)


@pytest.mark.parametrize(("folds", "repeats"), [(5, 4), (10, 5)])
def test_repeats_are_seen_in_what_they_measure_and_not_in_independent_blocks(folds: int, repeats: int) -> None:
    rng, of_repeat = np.random.default_rng(6), [n // folds for n in range(folds * repeats)]
    rows = repeated(rng, 40, 1, folds, repeats)[:, 0].tolist()
    plain = rng.standard_normal((200, folds * repeats)).round(1).tolist()  # rounded: ties must not look like repeats
    seen = [likeness_of_repeats([row], of_repeat) <= 0.05 for row in rows]
    unseen = [likeness_of_repeats([row], of_repeat) <= 0.05 for row in plain]
    assert sum(seen) >= 38
    assert sum(unseen) <= 20
