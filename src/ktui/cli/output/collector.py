"""Python's garbage collector while a view runs: rarely at work, for it delays keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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
