"""The ledger of a project: every attempt at a goal, kept before anything is decided by it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from pipeline.edge.ledger.model import WORTH_TRYING, Attempt, KnownGoal
from pipeline.edge.ledger.reading import Reader
from pipeline.edge.ledger.rows import ATTEMPT, GOAL, columns, listed, marks, plain, row_of, row_of_goal
from pipeline.edge.ledger.writing import Writer

# Of two who tried the same at the same time, who found a proof is right.
_ATTEMPT = f"""
INSERT INTO attempts ({columns(ATTEMPT)}) VALUES ({marks(ATTEMPT)})
ON CONFLICT (goal_hash, strategy, config, toolchain, budget) DO UPDATE SET
    success = excluded.success, verified = excluded.verified, tactics = excluded.tactics, error = excluded.error,
    time_seconds = excluded.time_seconds, timestamp = excluded.timestamp, metadata = excluded.metadata,
    subgoals = excluded.subgoals, run = excluded.run
WHERE excluded.success + excluded.verified > attempts.success + attempts.verified
"""
_GOAL = f"INSERT INTO goals ({columns(GOAL)}) VALUES ({marks(GOAL)}) ON CONFLICT (goal_hash) DO"
_LEAVE = f"{_GOAL} NOTHING"
_RENEW = f"{_GOAL} UPDATE SET difficulty = excluded.difficulty, priority = excluded.priority"
# What holds is kept; what was found not to hold makes place for the next proof.
_FOUND = f"""
INSERT INTO tactic_cache (goal_hash, tactics, success_rate, avg_time, use_count) VALUES (?, ?, 1, ?, 1)
ON CONFLICT (goal_hash) DO UPDATE SET
    tactics = excluded.tactics, success_rate = 1, avg_time = excluded.avg_time, use_count = 1
WHERE tactic_cache.success_rate <= {WORTH_TRYING}
"""
_CACHED = """
INSERT INTO tactic_cache (goal_hash, tactics, success_rate, avg_time, use_count) VALUES (?, ?, ?, ?, 0)
ON CONFLICT (goal_hash) DO UPDATE SET
    tactics = excluded.tactics, success_rate = excluded.success_rate, avg_time = excluded.avg_time
"""
_PREMISES = """
INSERT INTO premise_cache (goal_hash, model, premises, use_count) VALUES (?, ?, ?, 0)
ON CONFLICT (goal_hash, model) DO UPDATE SET premises = excluded.premises
"""
_USED = """
UPDATE tactic_cache SET
    success_rate = (success_rate * use_count + ?) / (use_count + 1),
    avg_time = (avg_time * use_count + ?) / (use_count + 1),
    use_count = use_count + 1
WHERE goal_hash = ?
"""


_REFUSED = """
UPDATE attempts SET verified = 0, error = ?
WHERE goal_hash = ? AND toolchain = ? AND tactics = ? AND success = 1 AND verified = 1
"""
_NOT_AGAIN = "UPDATE tactic_cache SET success_rate = 0 WHERE goal_hash = ? AND tactics = ?"


class Ledger(Reader):
    """Opened to write: by one thread of this process, while any number of threads and processes read.

    What a method returns as a future is on the disk when that is done."""

    def __init__(self, path: str) -> None:
        self._writer = Writer(path)
        try:
            super().__init__(path)
        except BaseException:
            self._writer.close()
            raise

    def add_goals(self, goals: Iterable[KnownGoal], renew: bool = True) -> Future[None]:
        """`renew`: of those that are known already, how hard and how urgent they are is as it is now."""
        return self._writer.write((_RENEW if renew else _LEAVE, [*map(row_of_goal, goals)]))

    def record(self, attempt: Attempt) -> Future[None]:
        """Once for each key; a proof goes into the tactic cache with it."""
        proof = [(attempt.key.goal_hash, listed(attempt.tactics), attempt.time_seconds)]
        found = proof if attempt.success and attempt.verified else []
        return self._writer.write((_ATTEMPT, [row_of(attempt)]), (_FOUND, found))

    def refuse(self, goal_hash: str, toolchain: str, tactics: Iterable[str], why: str) -> Future[None]:
        """These tactics are no proof of it after all: the goal is open, and they are not what is tried first."""
        script = listed(tactics)
        refused = (_REFUSED, [(plain(why), goal_hash, toolchain, script)])
        return self._writer.write(refused, (_NOT_AGAIN, [(goal_hash, script)]))

    def update_tactic_cache(
        self, goal_hash: str, tactics: Iterable[str], success_rate: float, avg_time: float
    ) -> Future[None]:
        return self._writer.write((_CACHED, [(goal_hash, listed(tactics), success_rate, avg_time)]))

    def used_cached_tactics(self, goal_hash: str, held: bool, seconds: float) -> Future[None]:
        """They were tried again."""
        return self._writer.write((_USED, [(int(held), seconds, goal_hash)]))

    def update_premise_cache(self, goal_hash: str, model: str, premises: Iterable[str]) -> Future[None]:
        """What `model` selected for a goal, the best first."""
        return self._writer.write((_PREMISES, [(goal_hash, model, listed(premises))]))

    def flush(self) -> None:
        """Everything that was handed in is saved."""
        self._writer.write().result()

    def close(self) -> None:
        super().close()
        self._writer.close()  # the last one out may write: it leaves one file behind, not three

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
