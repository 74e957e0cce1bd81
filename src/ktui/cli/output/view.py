"""A view in the terminal, until it is closed, another process ends it, or its terminal is gone."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from textual.app import App

_THRESHOLDS = (10_000, 20, 50)
"""New objects before a collection of the young, and collections before one of the older ones."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often, and nothing that is alive now: of 100,000 rows each takes 50 ms."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


_HUNG_UP = 128 + signal.SIGHUP
_temporary: set[Path] = set()
"""Folders that do not outlive this process, however it is hung up."""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder for as long as a view needs it; a hang-up removes it, too."""
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _end_by_hang_up)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _temporary.add(folder)
        try:
            yield folder
        finally:
            _temporary.discard(folder)


def _end_by_hang_up(number: int, _frame: FrameType | None) -> None:
    """Remove the temporary folders, and end as by the signal."""
    _remove_temporary()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _remove_temporary() -> None:
    for folder in tuple(_temporary):
        shutil.rmtree(folder, ignore_errors=True)


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
    with rare_collections():
        await app.run_async()


def _hang_up(terminal: int) -> None:
    """Wait until a terminal is gone, and then end this process."""
    poll = select.poll()
    poll.register(terminal, 0)
    if not any(event & select.POLLHUP for _, event in poll.poll()):
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        _remove_temporary()
        os._exit(_HUNG_UP)  # the main thread blocks on a write to the terminal forever
    os.kill(os.getpid(), signal.SIGHUP)
