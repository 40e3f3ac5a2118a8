"""A process that is killed while it writes: what it was told to be saved is there, once, and the ledger opens."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kit.project import environment

from pipeline.store.ledger import Ledger

WRITER = """
import sys
from pipeline.store.ledger import Ledger
from pipeline.goals.attempts import Attempt, AttemptKey as Key
from pipeline.goals.bank import Goal

path, first = sys.argv[1], int(sys.argv[2])
ledger = Ledger(path)
print("open", flush=True)
for n in range(first, first + 100_000):
    goal = f"g{n}"
    ledger.add_goals([Goal(goal, "text", key=goal)])
    proved = n % 3 == 0
    saved = ledger.record(Attempt(Key(goal, "micro", "c", "lean", 8.0), "t" * 300, proved, .1, 1e9, verified=proved))
    if n % 7 == 0:
        saved.result()
        print(n, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_at_any_moment_loses_nothing_acknowledged_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    path, rng = str(tmp_path / "ledger.db"), random.Random(seed)
    first = 0
    for _ in range(5):
        acknowledged = killed(path, first, rng.randrange(1, 60))
        with Ledger(path) as ledger:  # it opens, and passes its own check
            kept = {int(key.goal_hash[1:]) for key in ledger.attempts_by_key("lean")}
            assert kept == {*range(len(kept))}  # in the order they were handed in, none missing in between
            assert len(kept) > acknowledged
            stats = ledger.stats()
            assert stats.attempts == len(kept) <= stats.goals
            assert stats.cached_tactics == len([n for n in kept if n % 3 == 0])
            first = len(kept)


def killed(path: str, first: int, lines: int) -> int:
    """The last attempt that the writer knew to be saved when it was killed, after it said so many."""
    start = [sys.executable, "-c", WRITER, path, str(first)]
    with subprocess.Popen(start, stdout=-1, env=environment({}), text=True) as writer:
        assert writer.stdout
        for _ in range(lines):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        left = writer.stdout.read().split("\n")
    numbers = [int(line) for line in left[:-1] if line.isdigit()]
    return max(numbers, default=first - 1)
