"""What is typed ahead waits until everything typed before it has had its effect.

Textual hands a key to the field that has the focus, which handles it later. Without this, the next
key goes to the same field, whatever the first one does: `2 ↓ 5` typed at once is 25 in one field,
and the letters after `:` are commands of the list.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any

from textual._queue import Queue
from textual.app import App
from textual.events import Event, Key, MouseDown, MouseUp, Paste
from textual.message_pump import MessagePump

OPENING = frozenset({"attach", "choosing"})
"""The groups of workers that open a screen, or change the run that the keys are for."""
_LONGEST_S = 3.0
"""How long a key waits at most, so that no defect of a widget can take the keyboard away."""
_TURNS = 50
_PAUSE_S = 0.002
"""After so many turns of the loop without a pause, somebody waits for a disk or a thread."""


class TypedAhead:
    """Holds keys, clicks and pastes back while an earlier one has not had its effect.

    Args:
        app: the app that they come to.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._held: deque[Event] = deque()
        self._due: Event | None = None
        """The one whose turn has come."""
        self._releasing: asyncio.Task[None] | None = None

    def holds(self, event: Event) -> bool:
        """Return whether an event has to wait; if so, it comes to the app again in its turn."""
        if not isinstance(event, (Key, MouseDown, MouseUp, Paste)) or event.is_forwarded:
            return False
        if event is self._due:
            self._due = None
            return False
        if self._due is None and not self._held and not self._busy:
            return False
        self._held.append(event)
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(self._release())
        return True

    async def _release(self) -> None:
        while self._held:
            await self._rest()
            self._due = self._held.popleft()
            if not self._app.post_message(self._due):  # the app closes
                return

    async def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        until_s, turns = loop.time() + _LONGEST_S, 0
        while self._at_work and loop.time() < until_s:
            turns += 1
            await asyncio.sleep(0 if turns < _TURNS else _PAUSE_S)

    @property
    def _at_work(self) -> bool:
        return self._due is not None or _processes(self._app) or self._busy

    @property
    def _busy(self) -> bool:
        return (
            self._app.message_queue_size > 0
            or any(map(_processes, self._others()))
            or any(w.group in OPENING and w.is_running for w in self._app.workers)
        )

    def _others(self) -> Iterator[MessagePump]:
        stack = self._app.screen_stack
        return chain.from_iterable(screen.walk_children(with_self=True) for screen in stack)


def _processes(pump: MessagePump) -> bool:
    """Return whether a widget has a message, or is at one: it does not wait for the next."""
    queue: Queue[Any] = pump._message_queue  # noqa: SLF001 - Textual shows it in no other way
    waits = queue.ready_event._waiters  # noqa: SLF001 - nor asyncio
    return pump.is_running and (not queue.empty() or not waits)
