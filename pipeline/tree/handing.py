"""The stage that takes a change made by hand, and waits for it: whoever makes it finds a worktree to do so."""

from __future__ import annotations

import os

from pipeline.edge.job import Job, StageFailed
from pipeline.tree.bench import Bench
from pipeline.tree.records import load, read_bytes, write


def by_hand(job: Job) -> None:
    """A person works in a worktree of the slot's own, or anywhere: what counts is the patch."""
    folder, slot = dict(job.target.reads)["coder_folder"][0], job.target.params["slot"]
    path, task, bench = f"{folder}/{slot}.patch", load(job.reads["task"][0]), Bench(job.target.run)
    if not task["empty"] and not os.path.isfile(path):
        worktree = bench.by_hand.add(slot, bench.chain(load(job.reads["code"][0]))).path
        how = (
            f"change the files in {os.path.relpath(worktree)}, then `git add -A` and `git diff --cached --binary` there"
        )
        raise StageFailed(f"waits for you: {how} > {path}; an empty file gives the idea up; build again", 1)
    write(job.writes["patch"][0], b"" if task["empty"] else read_bytes(path))
    bench.by_hand.remove(slot)
