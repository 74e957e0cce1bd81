"""A view in the terminal, until it is closed, ended from elsewhere, or loses its terminal."""

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

    Ended by another process, it still gives the terminal back as it was. A terminal that is gone
    ends it as SIGHUP does: not everybody who gets that signal passes it on (make does not), and
    Textual reads a terminal without end that has nothing more to say.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    if sys.__stdin__ is not None and sys.__stdin__.isatty():
        watch = threading.Thread(target=_hang_up, args=(sys.__stdin__.fileno(),), daemon=True)
        watch.start()
    await app.run_async()


def _hang_up(terminal: int) -> None:
    """Wait for the end of a terminal, and then end this process."""
    poll = select.poll()
    poll.register(terminal, 0)
    if not any(event & select.POLLHUP for _, event in poll.poll()):
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        os._exit(_HUNG_UP)  # the main thread waits to write to the terminal, and never ends
    os.kill(os.getpid(), signal.SIGHUP)
