"""Lets SIGTERM and SIGHUP end a piece of work as Ctrl-C does, so that it clears up after itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM or SIGHUP, unless somebody handles or ignores them already.

    Python lets only the main thread take signals; elsewhere this does nothing.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
