"""The bytes that a replica counts while it is being added, under the limits V and W."""

from __future__ import annotations

LEAST = 256 * 1024
"""The log is created and its fetch begins, which takes about as long as copying that much."""
OF_UNKNOWN = 1024**3
"""A partition whose size is not known counts as a large one."""


def weight_of(size: int, *, known: bool) -> int:
    """Return what a replica of a partition of `size` bytes counts."""
    return max(LEAST, size) if known else OF_UNKNOWN
