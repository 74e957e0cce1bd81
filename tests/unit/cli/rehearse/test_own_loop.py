"""Work on a loop of its own: its result, and its end with the one who waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ktui.cli.twin.report import on_own_loop


async def test_the_result_comes_from_another_thread() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert await on_own_loop(work) != threading.current_thread().name


async def test_who_stops_waiting_ends_the_work() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(on_own_loop(work))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
