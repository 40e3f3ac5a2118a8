"""Questions, answers and rules as JSON, and back; what is as it mostly is, is left out of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.mcts.distributed import Team
from pipeline.mcts.interventions import Block, Delay, Interventions
from pipeline.mcts.model import Attempt, Budget, Expand, Expansion, Maths, Move, Outcome, Rules, Subgoal
from pipeline.mcts.steering import Steering


def changed(record: Any) -> dict[str, Any]:
    """The fields of a record that are not what they are by default."""
    defaults = record._field_defaults
    return {name: value for name, value in record._asdict().items() if name not in defaults or value != defaults[name]}


def subgoal_as_json(goal: Subgoal) -> dict[str, Any]:
    fields = changed(goal)
    return fields if goal.moves is None else fields | {"moves": [list(move) for move in goal.moves]}


def subgoal_from_json(fields: Mapping[str, Any]) -> Subgoal:
    moves = fields.get("moves")
    return Subgoal(**{**fields, "moves": None if moves is None else _moves(moves)})


def _moves(listed: list[tuple[str, float]]) -> tuple[Move, ...]:
    return tuple(Move(*move) for move in listed)


def outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    fields = changed(outcome)
    for name, told in (("moves", list), ("attempts", _attempt_as_json)):
        if name in fields:
            fields[name] = [told(each) for each in fields[name]]
    return fields


def _attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    fields = changed(attempt)
    return fields if not attempt.goals else fields | {"goals": [subgoal_as_json(goal) for goal in attempt.goals]}


def outcome_from_json(fields: Mapping[str, Any]) -> Outcome:
    attempts = tuple(_attempt_from_json(each) for each in fields.get("attempts", ()))
    return Outcome(**{**fields, "attempts": attempts, "moves": _moves(fields.get("moves", []))})


def _attempt_from_json(fields: Mapping[str, Any]) -> Attempt:
    return Attempt(**{**fields, "goals": tuple(subgoal_from_json(goal) for goal in fields.get("goals", ()))})


def expand_as_json(expand: Expand) -> dict[str, Any]:
    return {**expand._asdict(), "path": list(expand.path), "tactics": list(expand.tactics)}


def rules_as_json(rules: Rules) -> dict[str, Any]:
    return {name: part._asdict() for name, part in rules._asdict().items()}


def rules_from_json(fields: Mapping[str, Any]) -> Rules:
    return Rules(Budget(**fields["budget"]), Maths(**fields["maths"]), Expansion(**fields["expansion"]))


def team_as_json(team: Team) -> dict[str, Any]:
    block, delay, reroute = team.interventions
    between = {"block": block._asdict(), "delay": delay._asdict(), "reroute": reroute}
    return {"rules": rules_as_json(team.rules), "steering": team.steering._asdict(), "interventions": between}


def team_from_json(fields: Mapping[str, Any]) -> Team:
    between = fields["interventions"]
    interventions = Interventions(Block(**between["block"]), Delay(**between["delay"]), between["reroute"])
    return Team(rules_from_json(fields["rules"]), Steering(**fields["steering"]), interventions)
