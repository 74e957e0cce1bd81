"""What all tests of the app have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion
from textual._queue import Queue
from textual.app import App, ScreenError
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout
from textual.screen import Screen

from ktui.execution.host.ownership import Holder

_NAP_S = 1 / 50
_LITTLE_S = _NAP_S / 20
"""Processor time that even an idle app takes in a nap."""
_ANSWER_S = 30.0
_TURNS = 100
"""Most turns in which widgets are asked: an animated one always has messages."""


async def _wait_for_idle(_least_s: float = _NAP_S, most_s: float = 10.0) -> None:
    """Wait until the app has nothing to do.

    Textual takes an app for idle that takes no processor time. So is one that gets none from a busy
    machine: its naps are longer than asked for, and do not count.
    """
    end = time.monotonic() + most_s
    idle = False
    while not idle and time.monotonic() < end:
        began, worked_s = time.monotonic(), time.process_time()
        await asyncio.sleep(_NAP_S)
        had_its_turn = time.monotonic() - began < 2 * _NAP_S
        idle = had_its_turn and time.process_time() - worked_s < _LITTLE_S


@pytest.fixture(autouse=True, scope="module")
def _idle_is_idle() -> Iterator[None]:
    """Let tests go on when the app is idle, and not when it only waits for the processor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.pilot.wait_for_idle", _wait_for_idle)
        yield


@pytest.fixture(scope="module")
def same_owner() -> Iterator[None]:
    """Let the same process of the same user own each run: pictures of events name it."""
    ada = Holder(4711, "ops1", "ada", datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ktui.execution.host.ownership.this_process", lambda: ada)
        yield


async def _wait_for_screen(pilot: Pilot[object]) -> bool:
    """Wait until neither the app, its screen nor any widget has a message to process.

    Textual asks each of them at each key, all answer, and each answer lets a widget look whether it
    has to be drawn. Here those that wait for a message are left alone, mostly all but one or two;
    and those that get messages of others meanwhile are asked, too.
    """
    app = pilot.app
    for turn in range(_TURNS):
        busy = _busy(app, first=not turn)
        if not busy:
            break
        if not await _answered(app, busy):
            return False
    return True


def _busy(app: App[object], *, first: bool) -> list[MessagePump]:
    """Return who processes messages or has some to process; at first, app and screen too."""
    try:
        screen = app.screen
    except ScreenError:  # the app has ended
        return []
    always = [app, screen]
    return [
        each
        for each in (*always, *screen.walk_children())
        if _is_busy(each) or (first and each in always)
    ]


def _is_busy(pump: MessagePump) -> bool:
    queue: Queue[Any] = pump._message_queue
    return pump.is_running and (bool(queue.values) or not queue.ready_event._waiters)


async def _answered(app: App[object], busy: list[MessagePump]) -> bool:
    """Wait until all have processed what they have; return whether they have, and none failed."""
    asked: set[MessagePump] = set()
    answered = asyncio.Event()

    def answer(pump: MessagePump) -> None:
        asked.discard(pump)
        if not asked:
            answered.set()

    for pump in busy:
        if pump.call_later(answer, pump):  # otherwise it is closing
            asked.add(pump)
    if asked:
        waits = [asyncio.create_task(e.wait()) for e in (answered, app._exception_event)]
        _, pending = await asyncio.wait(
            waits, timeout=_ANSWER_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        if len(pending) == len(waits):
            raise WaitForScreenTimeout
    else:
        await asyncio.sleep(0)
    return not asked


@pytest.fixture(autouse=True, scope="module")
def _only_busy_widgets_are_asked() -> Iterator[None]:
    """Let a pilot wait for the widgets that have something to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pilot, "_wait_for_screen", _wait_for_screen)
        yield


@pytest.fixture(autouse=True, scope="module")
def _unpainted() -> Iterator[None]:
    """Spare the app the drawing of frames that nobody sees: it runs without a terminal.

    What is on the screen is drawn when a test reads it, and when it takes a picture.
    """
    paint = Screen._compositor_refresh

    def refresh(screen: Screen[object]) -> None:
        if screen is screen.app.screen:
            screen._dirty_widgets.clear()
            screen._compositor._dirty_regions.clear()
            screen.app._update_mouse_over(screen)
        else:
            paint(screen)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Screen, "_compositor_refresh", refresh)
        yield


@pytest.fixture(autouse=True, scope="module")
def _utc() -> Iterator[None]:
    """Let screens, which show local times, be the same in every country."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def kept(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The picture that is kept for a test."""
    return snapshot.use_extension(SVGImageExtension)
