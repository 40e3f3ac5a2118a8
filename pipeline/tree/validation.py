"""Is all there that the records speak of, as it was recorded, and does it fit together?  Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.core.words import plural
from pipeline.tree.layout import MANIFEST, Layout
from pipeline.tree.manifest import folded
from pipeline.tree.manifest_evaluations import LIFECYCLE
from pipeline.tree.problem import Check, Fault, Problem, check
from pipeline.tree.records import Record
from pipeline.tree.tables import plain, table
from pipeline.tree.validate_decisions import decisions
from pipeline.tree.validate_files import bad, files, foreign, recorded
from pipeline.tree.validate_git import repository
from pipeline.tree.validate_state import consistency

# What a stored manifest has of those who watched the run, and of the moment.
PASSING = {*LIFECYCLE, "events", "tasks", "status", "deferred_cleanup"}
# Whatever does not fit together then only says so once more.
NOT_CONSISTENT = check("whether all fits together: not looked at while records are missing or changed", 0, [])


class Validation(NamedTuple):
    run: str
    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for each in self.checks for problem in each.problems)


def validated(run: str, config: Mapping[str, Any], stored: Record | None = None) -> Validation:
    """`stored`: what is in manifest.json, to be compared with what the records say.

    A file that is not as its receipt has it is named once; what is in it is not looked at any more."""
    outputs, lacking = recorded(run, config)
    whole = files(run, outputs, lacking)
    manifest = folded(run, config, without=bad(whole))
    all_known = not any(problem.path.endswith(".json") for problem in whole.problems)
    checks = [whole, foreign(run, outputs, config), *repository(manifest, all_known), decisions(run, bad(whole))]
    checks += consistency(manifest) if all_known else [NOT_CONSISTENT]
    if stored is not None:
        path = Layout(run).of_run(MANIFEST)
        checks.append(check("manifest.json and the records", 1, _differences(path, "", stored, manifest)))
    return Validation(run, tuple(checks))


def _differences(path: str, where: str, stored: Any, now: Any) -> Iterator[Fault]:
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for name in sorted({*stored, *now} - PASSING):
            inner = f"{where}.{name}" if where else name
            yield from _differences(path, inner, stored.get(name), now.get(name))
    elif stored != now:
        yield path, f"{where} is {_short(stored)}, the records say {_short(now)}", "it is written anew by every build"


def _short(value: Any) -> str:
    text = plain(str(value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def validation_report(validation: Validation) -> str:
    found = validation.problems
    rows = [[each.name, str(each.looked_at), str(len(each.problems))] for each in validation.checks]
    title = f"{plural(len(found), 'problem')} found" if found else "No problems found"
    lines = [f"# {title}", "", f"Search `{validation.run}`.", ""]
    lines += table(["check", "looked at", "problems"], rows, right=("looked at", "problems"))
    for each in validation.checks:
        if each.problems:
            lines += ["", f"## {each.name.capitalize()}", ""]
            lines += [f"- {plain(str(problem))}" for problem in each.problems]
    return "\n".join(lines) + "\n"
