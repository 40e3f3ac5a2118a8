"""`python -m benchmarks.mcts {tree,bank}`"""

from __future__ import annotations

import sys

from benchmarks.mcts import bank, tree

STUDIES = {"tree": tree.main, "bank": bank.main}

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in STUDIES:
        sys.exit(f"usage: python -m benchmarks.mcts {{{','.join(STUDIES)}}} [options]")
    sys.exit(STUDIES[sys.argv[1]](sys.argv[2:]))
