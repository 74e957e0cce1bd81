"""Random numbers and hash order as in Java, for results that were made there."""

from __future__ import annotations

from collections.abc import Iterable

_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_BUCKETS = 16
"""The size of a HashMap of up to twelve keys."""


class JavaRandom:
    """java.util.Random with a seed: a linear congruential generator of 48 bits."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def next_int(self, bound: int) -> int:
        """Draw a number from 0 to below the bound."""
        drawn = self._next_31_bits()
        if bound & (bound - 1) == 0:
            return (bound * drawn) >> 31
        while drawn - drawn % bound + bound - 1 >= 1 << 31:
            drawn = self._next_31_bits()
        return drawn % bound

    def _next_31_bits(self) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return self._state >> 17


def hash_order(names: Iterable[str]) -> list[str]:
    """Sort up to twelve distinct strings as the keys of a HashMap iterate."""
    return sorted(names, key=lambda name: _bucket(_hash_code(name)))


def _hash_code(text: str) -> int:
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code


def _bucket(code: int) -> int:
    return (code ^ (code >> 16)) & (_BUCKETS - 1)
