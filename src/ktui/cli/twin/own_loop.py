"""Work of a coroutine that would delay the keys of a view, on a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def on_own_loop(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop of its own, in a thread; cancelling this cancels it.

    Args:
        make: returns the coroutine, and is called in the thread.
    """
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    called_off = threading.Event()

    async def work() -> T:
        task = asyncio.current_task()
        if task is not None:
            running.append((asyncio.get_running_loop(), task))
        if called_off.is_set():
            raise asyncio.CancelledError
        return await make()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(work())))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        called_off.set()
        for loop, task in running:
            loop.call_soon_threadsafe(task.cancel)
        await asyncio.gather(thread, return_exceptions=True)
        raise
