"""What one asks of a ledger, at any time and while others write: each question sees what was committed before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import Lock
from typing import Any

from pipeline.edge.ledger.model import Attempt, Cached, Key, OfStrategy, OpenGoal, Stats
from pipeline.edge.ledger.problem import told
from pipeline.edge.ledger.rows import ATTEMPT, GOAL, attempt_of, cached_of, columns, open_goal_of
from pipeline.edge.ledger.schema import open_to_read

# A proof is what was found and passed the check; what was only found is none.
PROVED = "success = 1 AND verified = 1"
_SAME = "goal_hash = ? AND strategy = ? AND config = ? AND toolchain = ? AND budget = ?"
_FRONTIER = f"""
SELECT {columns(GOAL, "goals")}, count(tried.goal_hash), coalesce(max(tried.budget), 0) AS most
FROM goals LEFT JOIN attempts AS tried ON tried.goal_hash = goals.goal_hash
WHERE NOT EXISTS (SELECT 1 FROM attempts AS won WHERE won.goal_hash = goals.goal_hash AND {PROVED})
GROUP BY goals.goal_hash
ORDER BY most, goals.priority DESC, goals.rowid
"""
_BY_STRATEGY = f"""
SELECT strategy, count(*), sum({PROVED}), avg(time_seconds) FROM attempts GROUP BY strategy ORDER BY strategy
"""
_COUNTS = f"""
SELECT (SELECT count(*) FROM goals),
       (SELECT count(*) FROM goals WHERE goal_hash IN (SELECT goal_hash FROM attempts WHERE {PROVED})),
       (SELECT count(*) FROM goals WHERE goal_hash NOT IN (SELECT goal_hash FROM attempts)),
       (SELECT count(*) FROM attempts),
       (SELECT count(*) FROM tactic_cache)
"""


class Reader:
    """A connection that cannot write, for any thread."""

    def __init__(self, path: str) -> None:
        self._path, self._db, self._lock = path, open_to_read(path), Lock()

    def recall(self, key: Key) -> Attempt | None:
        rows = self._asked(f"SELECT {columns(ATTEMPT)} FROM attempts WHERE {_SAME}", key)
        return attempt_of(rows[0]) if rows else None

    def recalled(self, toolchain: str) -> dict[Key, Attempt]:
        """All that was ever tried with it, to be asked without a question each."""
        rows = self._asked(f"SELECT {columns(ATTEMPT)} FROM attempts WHERE toolchain = ?", (toolchain,))
        return {attempt.key: attempt for attempt in map(attempt_of, rows)}

    def of_goal(self, goal_hash: str) -> list[Attempt]:
        """In the order they were made."""
        asked = f"SELECT {columns(ATTEMPT)} FROM attempts WHERE goal_hash = ? ORDER BY timestamp, id"
        return [*map(attempt_of, self._asked(asked, (goal_hash,)))]

    def check_duplicate(self, goal_hash: str, strategy: str) -> bool:
        """Was it ever tried so, however long and with whatever settings?"""
        return bool(
            self._asked("SELECT 1 FROM attempts WHERE goal_hash = ? AND strategy = ? LIMIT 1", (goal_hash, strategy))
        )

    def get_cached_tactics(self, goal_hash: str) -> Cached | None:
        asked = "SELECT tactics, success_rate, avg_time, use_count FROM tactic_cache WHERE goal_hash = ?"
        rows = self._asked(asked, (goal_hash,))
        return cached_of(rows[0]) if rows else None

    def get_cached_premises(self, goal_hash: str, model: str) -> tuple[str, ...] | None:
        rows = self._asked("SELECT premises FROM premise_cache WHERE goal_hash = ? AND model = ?", (goal_hash, model))
        return tuple(json.loads(rows[0][0])) if rows else None

    def frontier(self) -> list[OpenGoal]:
        """Goals without a proof: those never tried, then by the budget they had, the important ones first."""
        return [*map(open_goal_of, self._asked(_FRONTIER))]

    def stats(self) -> Stats:
        goals, proved, untried, attempts, cached = self._asked(_COUNTS)[0]
        strategies = [OfStrategy(*row) for row in self._asked(_BY_STRATEGY)]
        return Stats(goals, proved, goals - proved, untried, attempts, cached, strategies)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _asked(self, question: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock, told(self._path):
            return self._db.execute(question, values).fetchall()
