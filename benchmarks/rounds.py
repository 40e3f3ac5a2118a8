"""All tools through one scenario, interleaved: a disturbance of the machine meets them in the same round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.measure import Failed
from benchmarks.project import Project
from benchmarks.report import BASELINE, Rounds, result
from benchmarks.scenarios import SCENARIOS, Scenario, action_seconds, count_fsyncs, measure

Say = Callable[[str], None]


def compare(name: str, projects: list[Project], rounds: int, warmups: int, say: Say) -> list[dict[str, Any]]:
    """An entry of the report for each tool; warm-up rounds have negative numbers and are not counted."""
    scenario = SCENARIOS[name]
    taking_part = [project for project in projects if project.tool.in_process or not scenario.in_process_only]
    taken = {project.name: Rounds() for project in taking_part}

    def step(project: Project, what: str, act: Callable[[Project, Rounds], None]) -> None:
        if not taken[project.name].error:
            _try(act, project, taken[project.name])
            say(f"{name} {len(project.graph)} {what} {project.name}: {_last(taken[project.name])}")

    if not scenario.from_nothing:
        for project in taking_part:
            step(project, "build", lambda project, _: project.settle())
    for number in range(-warmups, rounds):
        for project in _rotated(taking_part, number):
            step(project, f"round {number + 1}/{rounds}", _round(scenario, counted=number >= 0))
    if scenario.judged == "bookkeeping_ms":
        for project in taking_part:
            step(project, "fsyncs", _fsyncs)
    return _results(name, scenario, taking_part, taken)


def _try(act: Callable[[Project, Rounds], None], project: Project, measured: Rounds) -> None:
    try:
        act(project, measured)
    except Failed as problem:
        measured.error = str(problem)


def _round(scenario: Scenario, counted: bool) -> Callable[[Project, Rounds], None]:
    def act(project: Project, measured: Rounds) -> None:
        usage = measure(project, scenario)
        if not counted:
            return
        measured.usages.append(usage)
        if scenario.judged == "bookkeeping_ms":
            measured.action_s.append(action_seconds(project))

    return act


def _fsyncs(project: Project, measured: Rounds) -> None:
    measured.fsyncs = count_fsyncs(project)


def _rotated(projects: list[Project], number: int) -> list[Project]:
    """Nobody is always first, or always behind the same other."""
    first = number % len(projects) if projects else 0
    return projects[first:] + projects[:first]


def _last(measured: Rounds) -> str:
    if measured.error:
        return f"ERROR {measured.error}"
    if not measured.usages:
        return "ok"
    usage = measured.usages[-1]
    return f"cpu {usage.cpu_s:.3f} s, wall {usage.wall_s:.3f} s, peak {usage.peak_mb:.1f} MB"


def _results(name: str, scenario: Scenario, projects: list[Project], taken: dict[str, Rounds]) -> list[dict[str, Any]]:
    ninja = taken.get(BASELINE, Rounds())
    baseline = [] if ninja.error else ninja.usages
    return [
        result(name, scenario.judged, len(project.graph), project.name, taken[project.name], baseline)
        for project in projects
    ]
