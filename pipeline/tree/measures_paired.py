"""What a verdict by blocks rests on, number by number: blocks, chance, the size of the effect, guards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.tree.measures import Line, Measured
from pipeline.tree.scoring import Comparison, Rules
from pipeline.trust.evidence import DEGENERATE, IDENTICAL, STOPPED, TESTED
from pipeline.trust.noninferiority import PASSED
from pipeline.trust.verdicts import FEWEST_BLOCKS

# Of what was not tested: what it lacks.
UNTESTED = {
    IDENTICAL: "a difference from the parent in some block",
    DEGENERATE: "differences that are not all alike",
    STOPPED: "a better place on the first blocks, to be measured on the others",
}


def weighed(found: Comparison, rules: Rules) -> Iterator[Line]:
    """All of them together are what promotes."""
    it, paired = found.evidence, rules.paired
    assert it is not None
    assert paired is not None
    yield "blocks", it["blocks"] >= FEWEST_BLOCKS, _blocks(it)
    yield "chance", it["standing"] == TESTED and it["p"] <= it["alpha"], _chance(rules.primary, it)
    mean, least = it["mean"], paired.smallest_effect
    yield "effect", mean >= least and mean > 0, _effect(rules.primary, mean, least)
    yield from ((f"guard {each['name']}", each["verdict"] == PASSED, _guard(each)) for each in it["guards"])


def _blocks(it: Mapping[str, Any]) -> Measured:
    count, most = it["blocks"], it["detectable"]
    found = f"; an effect of {most:.4g} would be found four times in five" if most else ""
    found = f" in the order of time, neighbours correlated {it['rho']:.2f}{found}" if it["rho"] else found
    more = FEWEST_BLOCKS - count
    return Measured(f"{count} blocks{found}", count, FEWEST_BLOCKS, more, f"{more} more")


def _chance(name: str, it: Mapping[str, Any]) -> Measured:
    """The mean that would have done is the critical value times the standard error: the bound is the mean less that."""
    if it["standing"] != TESTED:
        return Measured(f"not tested: {it['standing']}", needs=UNTESTED[it["standing"]])
    mean, lower = it["mean"], it["lower"]
    what = f"{name} {mean:+.6g}, SE {it['se']:.4g}, estimate {it['estimate']:+.6g}, bound {lower:+.6g}"
    what += f"; p {it['p']:.4g} against an alpha of {it['alpha']:.4g}"
    return Measured(what, mean, mean - lower, -lower, f"a mean of {mean - lower:+.6g} with this noise: {-lower:+.6g}")


def _effect(name: str, mean: float, least: float) -> Measured:
    what = f"{name} {mean:+.6g}, {f'at least {least:g}' if least else 'more than 0'} is worth having"
    return Measured(what, mean, least, least - mean, f"{'' if least else 'more than '}{least - mean:+.6g}")


def _guard(it: Mapping[str, Any]) -> Measured:
    """By how much more than its margin the loss may be, as far as the blocks can tell."""
    limit, margin, more = it["limit"], it["margin"] or 0.0, FEWEST_BLOCKS - (it["df"] + 1)
    what = f"{it['verdict']}: changed by {it['mean']:+.6g}, at worst by {limit:+.6g}; {-margin:+g} is allowed"
    what += "; the margin is small for this noise" if it["tight"] else ""
    needs = f"{-margin - limit:.6g} less of a loss, or a margin of more than {-limit:.6g}"
    needs = f"{more} more blocks" if more > 0 else needs
    return Measured(what, limit, -margin, -margin - limit, needs)
