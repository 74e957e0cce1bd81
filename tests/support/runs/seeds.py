"""Seeds of runs: ten in one test of the soak, which costs little where it is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def ten_seeds(first: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield ten seeds, each with a new folder of its own."""
    for seed in range(first, first + 10):
        own = folder / str(seed)
        own.mkdir()
        yield seed, own
