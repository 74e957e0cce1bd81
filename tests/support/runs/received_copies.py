"""Copies that only their receivers limit, for simulated runs."""

from __future__ import annotations

from collections.abc import Callable

from ktui.speed.copies import CopiesOfBothEnds, CopyLoad


def received(bytes_s: Callable[[int, int], float]) -> CopiesOfBothEnds:
    """Return copies in flight, none yet.

    Args:
        bytes_s: returns what a broker takes in, in bytes a second, for a number of copies at once.
    """
    return CopiesOfBothEnds(
        lambda pair, load: bytes_s(pair[1], load.onto(pair[1])) / load.onto(pair[1]),
        CopyLoad(lambda _broker: False),
    )
