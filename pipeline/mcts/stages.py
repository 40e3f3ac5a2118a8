"""What the targets of an mcts run do, by the name of the stage."""

from __future__ import annotations

from pipeline.banks import stages as banks
from pipeline.banks.stages import told
from pipeline.edge.job import Stage
from pipeline.mcts.outcomes import CODE
from pipeline.mcts.parting import goal, rows, shares
from pipeline.mcts.reporting import compare
from pipeline.mcts.searching import search

STAGES = {
    **banks.STAGES,
    "rows": Stage("mcts.rows/1", rows),
    "goal": Stage("mcts.goal/1", told(goal)),
    "shares": Stage("mcts.shares/1", told(shares)),
    "search": Stage(CODE, told(search)),
    "compare": Stage("mcts.compare/1", compare),
}
