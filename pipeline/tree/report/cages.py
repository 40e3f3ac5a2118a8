"""The cages that held: of the commands that measured a candidate, and of the programs that were asked for it.

They are those of the records, made when the command ran or the answer was kept: a result that was recalled has the cage
that it was measured in.  Records of older versions name none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pipeline.core.cages import PLAIN
from pipeline.core.text import plural
from pipeline.models.calls import Call, DamagedCall, read_calls
from pipeline.tree.spec.model import ANSWER, JUDGE, ROLES
from pipeline.tree.spec.roles import PROGRAM_BACKENDS

NOT_RECORDED = "not recorded"
NO_CAGE = "none"


class HeldCage(NamedTuple):
    """The cage of a step or of a role; None where it was not recorded."""

    sandbox: str | None
    network: str | None

    @property
    def text(self) -> str:
        if self.sandbox is None:
            return NOT_RECORDED
        return NO_CAGE if self.sandbox == PLAIN else f"{self.sandbox}, network {self.network}"


def held_cages(costs: Mapping[str, Mapping[str, Any]], paths: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """The cages of an evaluation, by step and role: from the costs of what ran, and from the files of its calls."""
    ran = {step: cost for step, cost in costs.items() if cost["attempts"]}
    found = {step: HeldCage(cost.get("sandbox"), cost.get("network")) for step, cost in ran.items()}
    for call in (call for path in paths for call in _intact_calls(path)):
        if call.backend in PROGRAM_BACKENDS:
            found[call.role] = HeldCage(call.sandbox or None, call.network or None)
    return {name: held._asdict() for name, held in found.items()}


def _intact_calls(path: str) -> Iterator[Call]:
    """The calls of a file up to a damaged line, which validation names."""
    if os.path.exists(path):
        with suppress(DamagedCall):
            yield from read_calls(path)


def cages_text(cages: Mapping[str, Mapping[str, Any]]) -> str:
    """The cages of one evaluation in words; equal ones once."""
    return "; ".join(f"{', '.join(names)}: {held.text}" for held, names in by_cage(cages).items())


def by_cage(cages: Mapping[str, Mapping[str, Any]]) -> dict[HeldCage, list[str]]:
    """The names of what each cage held, in their order."""
    found: dict[HeldCage, list[str]] = {}
    for name, each in cages.items():
        found.setdefault(HeldCage(each["sandbox"], each["network"]), []).append(name)
    return found


def cage_lines(manifest: Mapping[str, Any]) -> list[str]:
    """A paragraph on the cages of a whole search, counted; none before anything ran."""
    commands: Counter[HeldCage] = Counter()
    roles: Counter[HeldCage] = Counter()
    for each in manifest["evaluations"].values():
        for name, held in each["cages"].items():
            (roles if name in ROLES else commands)[HeldCage(**held)] += 1
    parts = [*_counts("Cages", commands, "command"), *_counts("Cages of roles", roles, "program")]
    apart = ["Judged apart."] if parts and manifest["run_config"].get("judged_apart") else []
    uncaged = [text for text in (uncaged_text(manifest),) if text]
    return ["", " ".join([*parts, *apart, *uncaged])] if parts else []


def uncaged_text(manifest: Mapping[str, Any]) -> str:
    """A sentence on results that were made in no cage although the spec does not say `plain`; empty if there are none.

    `auto` is what a machine has.  So they are believed, here and where there are walls; but never without this word."""
    asked = manifest["run_config"].get("cages_asked", {})
    plain = [name.partition(" ")[0] for name, words in asked.items() if words.get("sandbox") == PLAIN]
    free = {_STEP_NAMES.get(name, name) for name in plain}
    number = sum(
        held["sandbox"] == PLAIN and name not in free and name not in ROLES
        for each in manifest["evaluations"].values()
        for name, held in each["cages"].items()
    )
    verb = "was" if number == 1 else "were"
    cure = "a grade that is named, such as `sandbox: isolated`, measures anew"
    return f"{plural(number, 'result')} {verb} made in no cage, for want of one: {cure}." if number else ""


# The steps of an evaluation, by the names that their commands have in what the spec asks for.
_STEP_NAMES = {"tests": "test", "check": "checks", ANSWER: "sweep", JUDGE: "sweep"}


def _counts(title: str, counts: Counter[HeldCage], unit: str) -> Iterator[str]:
    if counts:
        words = [f"{held.text} ({plural(number, unit)})" for held, number in counts.most_common()]
        yield f"{title}: {'; '.join(words)}."
