"""The console command.  Decides "nothing to do" before importing anything heavier than marshal."""

import os
import sys


def quick(words: list[str]) -> int | None:
    """How many targets are up to date, if this is a plain build of runs with nothing to do."""
    from pipeline.edge.state import up_to_date

    if words[:1] == ["run"]:
        words = words[1:]
    try:
        specs = {n.rpartition(".")[0] for n in os.listdir("specs") if n.endswith((".yaml", ".yml")) and n[0] != "."}
    except OSError:
        return None
    if not specs.issuperset(words):
        return None
    return up_to_date(words or sorted(specs)) if specs else None


def main() -> int:
    words = sys.argv[1:]
    count = quick(words)
    if count is not None:
        print(f"up to date: {count} targets")
        return 0
    from pipeline.build.main import main as full

    return full(words)
