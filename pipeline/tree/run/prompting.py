"""Values for prompts: the node's records, the run's repository, and the brief of the target.

Records that are read here are no inputs of a target: they say in which words a question is asked.  All of them are
complete before the target can start, and hold no times, so that the same question has the same words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from statistics import stdev
from typing import Any, NamedTuple

from pipeline.core.graph import covers_path
from pipeline.git.objects import LINK, read_blobs, sized_entries
from pipeline.machine.job import StageFailed
from pipeline.store.files import read_bytes
from pipeline.tree.rules.budget import budget_left, ledger_of
from pipeline.tree.rules.positions import ROOT, NodePlace, RunLayout, parse_place, slots_of
from pipeline.tree.rules.prompts import (
    FILES_AT_HAND,
    FORM_AT_HAND,
    FORM_WRITTEN,
    PROMPT_NAMES,
    ContextTexts,
    RepoFile,
    context_tokens,
    files_section,
    history_section,
    is_data,
    mark_off,
    prompt_mistakes,
    render_prompt,
)
from pipeline.tree.rules.scoring import block_means
from pipeline.tree.rules.sheet import CheckedRows, check_rows
from pipeline.tree.run.records import Record, load, load_if_intact, read_text
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of

# Values where there is nothing to say.
NO_CONSTRAINTS, NO_PLAN, FIRST_REVIEW = "None beyond those above.", "None.", "Nothing."
NEARLY_THE_SAME = "An idea that shares {:.0%} or more of its words with an idea above is dropped without being tried."


def default_prompt_path(role: str) -> str:
    return os.path.join(os.path.dirname(__file__), "prompts", f"{role}.md")


def fill_template(reads: Mapping[str, Sequence[str]], role: str, values: Mapping[str, str]) -> str:
    """The prompt of a role, by its own template or by ours."""
    path = reads.get(f"{role}_prompt", [default_prompt_path(role)])[0]
    template = read_text(path)
    if wrong := prompt_mistakes(role, template):
        raise StageFailed(f"{path}: {wrong[0]}", 2)
    return render_prompt(template, mark_off(values))


class PromptValues(NamedTuple):
    """Values for the prompts of one target.  `repo`: the run's repository; `roles`: with all of their keys."""

    run: str
    repo: str
    place: NodePlace
    brief: Mapping[str, Any]
    roles: Mapping[str, Mapping[str, Any]]

    def for_ideas(self, context: Record, before: Sequence[str], params: Mapping[str, Any]) -> dict[str, str]:
        """Values for who has ideas; `before`: those for the same node, of which blank ones are none."""
        history = history_section(context, [text for text in before if text.strip()], self.reasons(context["tried"]))
        constraints = params["constraints"] or NO_CONSTRAINTS
        if (similar := params.get("similar")) is not None:
            constraints += f"\n{NEARLY_THE_SAME.format(similar)}"
        return self.of_role("ideas", context["tree"], {"context": history, "constraints": constraints})

    def for_planner(self, tree: str, idea: str, context: Record) -> dict[str, str]:
        history = history_section(context, (), self.reasons(context["tried"]))
        return self.of_role("planner", tree, {"idea": idea, "context": history})

    def of_role(self, role: str, tree: str, values: Mapping[str, str]) -> dict[str, str]:
        """All values of a role's prompt; `tree`: the files that it is about."""
        about = "\n".join(text for name, text in values.items() if name != "constraints")
        known = {
            **values,
            "measure": self.measure_section(whole=role in ("ideas", "planner")),
            "files": self.files_section(role, tree, about),
            "form": FORM_WRITTEN if context_tokens(self.roles[role]) else self._form_at_hand(),
        }
        return {name: known[name] for name in PROMPT_NAMES[role]}

    def _form_at_hand(self) -> str:
        return "\n".join([FORM_AT_HAND, *filter(None, [self.brief.get("left_out", "")])])

    def files_section(self, role: str, tree: str, about: str) -> str:
        tokens = context_tokens(self.roles[role])
        if not tokens:
            return FILES_AT_HAND
        entries = sized_entries(self.repo, tree)
        files = [RepoFile(path, each.size, each.entry.mode != LINK) for path, each in entries.items()]

        def read(paths: Sequence[str]) -> dict[str, bytes]:
            blobs = read_blobs(self.repo, (entries[path].entry.blob for path in paths))
            return {path: blobs[entries[path].entry.blob] for path in paths}

        protect = [*self.brief["protect"], *paths_within(self.brief["repo"], self.brief["protect_project"])]
        held = [*paths_within(self.brief["repo"], self.brief["withheld"])]

        def withheld(path: str) -> bool:
            protected = is_data(path) and any(covers_path(pattern, path) for pattern in protect)
            return protected or any(covers_path(each, path) for each in held)

        texts = ContextTexts(about, "\n".join(self.brief["commands"]))
        return files_section(files, texts, tokens, read, withheld)

    def measure_section(self, whole: bool) -> str:
        """The measure of the search; `whole`: with the numbers so far.

        Whoever codes or reviews gets none: the same idea on the same code is the same work at every position."""
        lines = [*self.brief["lines"], *([*self._baseline_lines(), *self._budget_lines()] if whole else [])]
        return "\n".join(f"- {line}" for line in lines)

    def _baseline_lines(self) -> Iterator[str]:
        """Values of the start and of this node, and how much the primary metric differs where the code is the same."""
        at, rows = RunLayout(self.run), {}
        for where, name in ((ROOT, "At the start"), (self.place, "With the code as it is")):
            if where == ROOT or self.place != ROOT:
                rows[name] = self._rows(at.csv(where))
        for name, checked in rows.items():
            means = [_mean_text(checked, metric["name"]) for metric in self.brief["sheet"]["metrics"]]
            yield f"{name}: {', '.join(means)}."
        last = [*rows.values()][-1]
        yield from _spread_lines(last, self.brief["primary"])

    def _rows(self, path: str) -> CheckedRows:
        params = self.brief["sheet"]
        sheet = sheet_of(params, read_bytes(path))
        return check_rows(sheet, expected_by_sheet(params, sheet))

    def _budget_lines(self) -> Iterator[str]:
        depth, spent = self.place.depth, {}
        if depth:
            spent = load(RunLayout(self.run).of_depth(depth - 1, "promoted.json"))["spent"]
        yield f"This is step {depth + 1} of at most {self.brief['max_depth']}."
        left = budget_left(ledger_of(self.brief["budget"], spent=spent))
        # no time: it differs each time that the same is done
        words = {"evals": left.evals, "USD": left.usd, "tokens": left.tokens}
        if known := [f"{amount:g} {name}" for name, amount in words.items() if amount is not None]:
            yield f"Left of the budget before this step: {', '.join(known)}."

    def reasons(self, tried: Sequence[Record]) -> list[str]:
        """The decision on each idea of a node's history; empty where the records are not those of the history."""
        at = RunLayout(self.run)
        origin = load_if_intact(at.of_node(self.place, "origin.json")) or {"ancestors": []}
        found: list[tuple[str, str]] = []
        for name in origin["ancestors"]:
            place = parse_place(name)
            decisions = (load_if_intact(at.of_depth(place.depth, "promoted.json")) or {}).get("decisions", {})
            for slot in slots_of(place.depth, place.node + 1, self.brief["ideas_per_node"]):
                task = load_if_intact(at.of_eval(slot, "task.json"))
                if slot.place == place and task and task["idea"]:
                    found.append((task["idea"], _decision_text(decisions.get(str(slot)))))
        if [text for text, _ in found] != [each["text"] for each in tried]:
            return [""] * len(tried)
        return [reason for _, reason in found]


def paths_within(repo: str, paths: Sequence[str]) -> Iterator[str]:
    """Paths of the project that lie in the repository, however they are written, from there on."""
    for path in map(os.path.realpath, paths):
        within = os.path.relpath(path, os.path.realpath(repo))
        if within.partition("/")[0] != "..":
            yield within


def _decision_text(decision: Mapping[str, Any] | None) -> str:
    if decision is None:
        return ""
    if place := decision["promoted_to_node_id"]:
        return f"It became {place}: {decision['why']}."
    why = decision["why"]
    words = {"rank": "passed, but was outranked", "same_code": "passed, but is no code of its own", "completed": ""}
    check = words.get(decision["failed_check"], f"did not pass the check `{decision['failed_check']}`")
    return f"{check}{': ' if check else ''}{why}."


def _mean_text(rows: CheckedRows, metric: str) -> str:
    values = [row.metrics[metric] for row in rows.rows]
    return f"{metric} {fsum(values) / len(values):.6g}" if values else f"{metric} unknown"


def _spread_lines(rows: CheckedRows, primary: str) -> Iterator[str]:
    by_config: dict[int, list[float]] = {}
    for row in rows.rows:
        by_config.setdefault(row.config_id, []).append(row.metrics[primary])
    means = [fsum(values) / len(values) for values in by_config.values()]
    blocks = [*dict.fromkeys(row.block for row in rows.rows)]
    if len(blocks) > 1 and len(rows.rows) == len(blocks) * len(by_config):
        values = block_means(rows.rows, blocks, primary)
        yield f"Over its {len(blocks)} blocks {primary} has a standard deviation of {stdev(values):.4g}."
    if len(means) > 1:
        yield f"Over its {len(means)} configs {primary} goes from {min(means):.6g} to {max(means):.6g}."
