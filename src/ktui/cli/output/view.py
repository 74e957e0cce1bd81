"""A view in the terminal, until it is closed, another process ends it, or its terminal is gone."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading

from textual.app import App

_HUNG_UP = 128 + signal.SIGHUP


async def show_app(app: App[None]) -> None:
    """Show a view until it ends.

    A view that another process ends still restores the terminal. A view whose terminal is gone ends
    as by SIGHUP. It watches for that itself: not every parent passes SIGHUP on (make does not),
    and Textual reads a dead terminal forever.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    if sys.__stdin__ is not None and sys.__stdin__.isatty():
        watch = threading.Thread(target=_hang_up, args=(sys.__stdin__.fileno(),), daemon=True)
        watch.start()
    await app.run_async()


def _hang_up(terminal: int) -> None:
    """Wait until a terminal is gone, and then end this process."""
    poll = select.poll()
    poll.register(terminal, 0)
    if not any(event & select.POLLHUP for _, event in poll.poll()):
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        os._exit(_HUNG_UP)  # the main thread blocks on a write to the terminal forever
    os.kill(os.getpid(), signal.SIGHUP)
