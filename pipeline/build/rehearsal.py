"""Plays a build through without building anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.build.session import Session
from pipeline.core import recipe as recipes
from pipeline.core.forecast import HELD, MAYBE, RUN, Forecast
from pipeline.core.freshness import FAILED_BEFORE, FORGOTTEN, NEVER_BUILT, Reason, Receipt, intact, reasons
from pipeline.core.graph import Target
from pipeline.core.outcome import FRESH, IGNORED, RECALLED


def rehearse(session: Session, todo: Iterable[int]) -> dict[int, Forecast]:
    rehearsal = _Rehearsal(session)
    for i in sorted(todo):  # the graph's order: each after all it reads from
        rehearsal.target(i)
    return rehearsal.seen


class _Rehearsal:
    """`after` has the contents that files will have, as far as they change: None where nobody can know."""

    def __init__(self, session: Session) -> None:
        self.session, self.maker = session, session.maker
        self.after: dict[str, str | None] = {}
        self.seen: dict[int, Forecast] = {}

    def target(self, i: int) -> None:
        above = [self.seen[j] for j in self.session.graph.above(i) if j in self.seen]
        self.seen[i] = self._foreseen(self.session.graph.targets[i], i in self.session.suspects, above)

    def _foreseen(self, target: Target, in_doubt: bool, above: Sequence[Forecast]) -> Forecast:
        ignored_by = self._ignored_by(target, above)
        held_by = next((seen.held_by for seen in above if seen.held_by), "")
        if not in_doubt and not held_by and not ignored_by and self.after.keys().isdisjoint(target.inputs):
            return Forecast(FRESH)
        recipe = self.maker.recipe(target)
        receipt = self.maker.receipts[target.run].receipt(target.name)
        found = self._reasons(target, receipt, recipe) if in_doubt else ()
        if ignored_by:
            return Forecast(IGNORED, found, ignored_by)
        inputs = {p: self.after[p] if p in self.after else self.maker.files.content(p) for p in target.inputs}
        held_by = held_by or self._missing(inputs)
        action = (self._held_back if held_by else self._action)(target, receipt, recipe, inputs)
        return Forecast(action, found, held_by)

    def _reasons(self, target: Target, receipt: Receipt | None, recipe: Mapping[str, Any]) -> tuple[Reason, ...]:
        content = self.maker.files.content
        inputs = {path: content(path) for path in target.inputs} if receipt else {}
        outputs = {path: content(path) for path in target.outputs} if receipt else {}
        return tuple(reasons(receipt, recipe, inputs, outputs, "" if receipt else self._lacking(target)))

    def _lacking(self, target: Target) -> str:
        """Why there may be no receipt."""
        receipts = self.maker.receipts[target.run]
        if receipts.failure(target.name):
            return FAILED_BEFORE
        return FORGOTTEN if receipts.forgotten(target.name) else NEVER_BUILT

    def _ignored_by(self, target: Target, above: Iterable[Forecast]) -> str:
        """The target because of which this one is left out, if it is: itself or one above."""
        if self.maker.receipts[target.run].ignored(target.name):
            return target.name
        return next((seen.held_by for seen in above if seen.action == IGNORED), "")

    def _missing(self, inputs: Mapping[str, str | None]) -> str:
        return next((path for path, content in inputs.items() if content is None and path not in self.after), "")

    def _held_back(
        self, target: Target, _receipt: Receipt | None, recipe: dict[str, Any], inputs: Mapping[str, str | None]
    ) -> str:
        """It is left as it is, and what reads it too; which matters only when that is not as it should be."""
        contents = [content for content in inputs.values() if content is not None]
        if len(contents) == len(inputs) and self.maker.is_fresh(target, recipes.key(recipe, contents)):
            return FRESH
        self.after |= dict.fromkeys(target.outputs)
        return HELD

    def _action(
        self, target: Target, receipt: Receipt | None, recipe: dict[str, Any], inputs: Mapping[str, str | None]
    ) -> str:
        if None in inputs.values():
            self.after |= dict.fromkeys(target.outputs)
            return RUN if self._surely(target, receipt, recipe, inputs) else MAYBE
        key = recipes.key(recipe, inputs.values())  # type: ignore[arg-type]
        if self.maker.is_fresh(target, key):
            return FRESH
        stored = self.maker.stores[target.run].look(key)
        forgot = self.maker.receipts[target.run].forgotten(target.name)
        if stored and not forgot and len(stored.result.contents) == len(target.outputs):
            self.after |= dict(zip(target.outputs, stored.result.contents, strict=True))
            return RECALLED
        self.after |= dict.fromkeys(target.outputs)
        return RUN

    def _surely(
        self, target: Target, receipt: Receipt | None, recipe: dict[str, Any], inputs: Mapping[str, str | None]
    ) -> bool:
        """Is it redone whatever the inputs that are not known come out as?"""
        if receipt is None or receipt.unsettled or recipes.compact(receipt.recipe) != recipes.compact(recipe):
            return True
        old = list(receipt.inputs.values())
        if len(old) != len(inputs) or any(b not in (None, a) for a, b in zip(old, inputs.values(), strict=True)):
            return True
        return not intact(receipt, {path: self.maker.files.content(path) for path in target.outputs})
