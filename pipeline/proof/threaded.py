"""Work that blocks, in a thread, awaited and cancelled like a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Far more than processes ever run at once: no work waits for a thread.
_threads = ThreadPoolExecutor(max_workers=256, thread_name_prefix="attempt")


async def threaded(work: Callable[[], T], stop: Callable[[], object]) -> T:
    """`stop` makes `work` end soon, say by killing the process that it talks to.  It is called when this is cancelled,
    and the cancellation goes on once `work` has ended: what it used is free then."""
    inside = asyncio.get_running_loop().run_in_executor(_threads, work)
    try:
        return await asyncio.shield(inside)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait({inside})
        inside.exception()  # of work that was stopped; asked for, so that nobody reports it as forgotten
        raise
