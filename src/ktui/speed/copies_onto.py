"""How much a broker receives, in how many copies."""

from __future__ import annotations

import msgspec


class CopiesOnto(msgspec.Struct, frozen=True, gc=False):
    """The copies that a broker receives, of which each partition has at most one."""

    bytes: int = 0
    longest: int = 0
    """The bytes of the largest."""
    at_once: int = 0
    """The most of them that may go on at a time."""

    def with_another(self, size: int) -> CopiesOnto:
        """Return these and another one of so many bytes."""
        return CopiesOnto(self.bytes + size, max(self.longest, size), self.at_once + 1)

    def at_most(self, partitions: int | None) -> CopiesOnto:
        """Return these where so many partitions are under way at a time; None for any number."""
        at_once = min(self.at_once, partitions or self.at_once)
        return msgspec.structs.replace(self, at_once=at_once)


NOTHING = CopiesOnto()
