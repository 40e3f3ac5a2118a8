"""Branches of the winning chain: each idea of it as a commit in the user's repository, with its numbers.

They are stacked: each stands on the one before, the first on the commit that the search started from.  What makes a
commit is all in the records and in the user's name, so the same search makes the same commits."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.text import plain_text, visible_text
from pipeline.errors import SpecError
from pipeline.git.command import GitProblem
from pipeline.git.objects import BranchChange, branch_changes, change_branches, parent_commit, users_name, write_commit
from pipeline.git.repository import locate_repo
from pipeline.store.files import write_whole
from pipeline.tree.report.figures import best_path
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.markdown import format_money, format_number
from pipeline.tree.rules.positions import BRANCHES, RunLayout, parse_slot
from pipeline.tree.run.records import dump_record, load_if_intact, read_text
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.targets.builder import planned_config

LONGEST_SUBJECT = 72


def make_branches(run: str, targets: Sequence[Target], prefix: str, dry: bool) -> Mapping[str, Any]:
    """Make a branch for each idea of the winning chain; with `dry` only say which."""
    at = RunLayout(run)
    if not os.path.exists(at.of_run("root.json")):
        raise SpecError(f"branches: nothing is recorded of {run} yet; `coppice {run}` builds it")
    manifest = fold_manifest(run, planned_config(targets))
    chain = best_path(manifest)
    if len(chain) < 2:
        raise SpecError(f"branches: nothing was promoted in {run}, so there is nothing to make a branch of")
    _check_chain(run, manifest, chain)
    place = locate_repo(manifest["root"]["repo"])
    if not place.git_dir or place.folder != place.top:
        where = manifest["root"]["repo"]
        raise SpecError(f"branches: repo: {where} is a plain folder, not a git repository, which branches need")
    known = load_if_intact(at.of_run(BRANCHES)) or {}
    try:
        commits = _commits(RunRepo(run), manifest, chain, users_name(place.top))
        names = [f"{prefix}/{n}-{each['slot']}" for n, each in enumerate(commits, 1)]
        wanted = dict(zip(names, (each["commit"] for each in commits), strict=True))
        changes = branch_changes(place.common, wanted, known)
        if not dry:
            write_whole(at.of_run(BRANCHES), dump_record({**known, **wanted}))  # first: they are ours, if made
            change_branches(RunRepo(run).path, place.common, manifest["root"]["root_commit"], changes)
    except GitProblem as problem:
        raise SpecError(f"branches: {problem}") from problem
    return {"run": run, "repo": place.top, "branches": [_record(*each) for each in zip(changes, commits, strict=True)]}


def _check_chain(run: str, manifest: Mapping[str, Any], chain: Sequence[str]) -> None:
    """Refuse a chain whose numbers are not all there, as after an edit of the spec."""
    nodes, primary = [manifest["nodes"][name] for name in chain], manifest["run_config"]["primary"]
    sources = [manifest["evaluations"].get(node["artifacts"]["promoted_from_eval_id"]) for node in nodes[1:]]
    if not all(primary in node["metrics"] for node in nodes) or not all(
        each and each["scoring_summary"] and os.path.exists(each["idea_path"]) for each in sources
    ):
        raise SpecError(f"branches: {run} is not up to date; `coppice {run}` builds it")


def _record(change: BranchChange, made: Mapping[str, Any]) -> dict[str, Any]:
    return {"branch": change.name, "change": change.kind, **made}


def _commits(repo: RunRepo, manifest: Mapping[str, Any], chain: Sequence[str], who: str) -> list[dict[str, str]]:
    """The commits in order, in the run's own repository; each has the files of its node."""
    above, made = manifest["root"]["root_commit"], []
    for before, name in itertools.pairwise(chain):
        node = manifest["nodes"][name]
        slot = node["artifacts"]["promoted_from_eval_id"]
        candidate = repo.commit(parse_slot(slot))
        message = _message(manifest, before, name, slot)
        above = write_commit(repo.path, node["tree"], (above,), parent_commit(repo.path, candidate).date, message, who)
        made.append({"slot": slot, "node": name, "commit": above, "message": message})
    return made


def _message(manifest: Mapping[str, Any], before: str, name: str, slot: str) -> str:
    """The idea and its numbers: what it changed, how sure that is, what it cost, and where it stands."""
    each, primary = manifest["evaluations"][slot], manifest["run_config"]["primary"]
    old, new = (manifest["nodes"][node]["metrics"].get(primary) for node in (before, name))
    evidence, spent, configs = each["scoring_summary"]["recommendation"]["evidence"], each["spent"], each["by_config"]
    numbers = [f"{primary}: {format_number(old)} -> {format_number(new)}"]
    numbers += [f"p {evidence['p']:.3g}"] if evidence else []
    numbers += (
        [f"configs: {configs['better']} better, {configs['worse']} worse, {configs['same']} same"] if configs else []
    )
    cost = "not recorded"
    if spent:
        usd = format_money(spent["usd"], spent["unknown_calls"], "{:.2f} USD")
        cost = f"{usd}, {spent['tokens']} tokens, {spent['seconds']:.1f} s"
    subject = plain_text(each["idea_title"])
    subject = subject if len(subject) <= LONGEST_SUBJECT else f"{subject[: LONGEST_SUBJECT - 1]}…"
    where = f"Coppice run {manifest['tree_run_id']}: {slot}, which became {name}"
    text = read_text(each["idea_path"]).strip()
    return "\n".join([*map(message_text, (subject, "", text)), "", ", ".join(numbers), f"Cost: {cost}", where])


# What a site for repositories heeds in a message: mentions, issues that it closes, addresses, builds to skip, authors.
_HEEDED = re.compile(
    r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=\bGH)(?=-\d)|(?<=:)(?=//)|(?<=\[)(?=(?:skip|no|ci|actions)\b)|^(?=[\w-]+-by:)",
    re.IGNORECASE | re.MULTILINE,
)


def message_text(text: str) -> str:
    """Text of an idea in a message: it calls nobody, closes nothing and is all visible."""
    return _HEEDED.sub(" ", visible_text(text))
