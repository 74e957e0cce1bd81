"""SIGTERM and SIGHUP that unwind like Ctrl-C, so that interrupted work cleans up after itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM or SIGHUP, unless they are already handled or ignored.

    Python handles signals in the main thread only; in another thread this does nothing.
    """
    handled = []
    if threading.current_thread() is threading.main_thread():
        handled = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
