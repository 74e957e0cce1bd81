"""A lake's folders stay few, and its rows are seldom written again."""

from __future__ import annotations

from math import log, log2

from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.lake.growing import versions_to_merge

ROWS = st.lists(st.integers(1, 10_000), min_size=1, max_size=60)


class GrowingLake:
    """The versions of a lake to which rows are added, and how often each row was written again."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, list[int]]] = []
        """The name of each, and the additions whose rows it has."""
        self.written_again: list[int] = []
        self._rows: list[int] = []

    def add(self, rows: int) -> None:
        """Add rows, with nothing that has to be merged."""
        sizes = [(name, sum(self._rows[n] for n in of)) for name, of in self.versions]
        merged = versions_to_merge(sizes, (), rows)
        held = [n for name, of in self.versions if name in merged for n in of]
        self.versions = [each for each in self.versions if each[0] not in merged]
        for n in held:
            self.written_again[n] += 1
        self._rows.append(rows)
        self.written_again.append(0)
        self.versions.append((f"{len(self._rows):06}", [*held, len(self._rows) - 1]))

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self._rows)


def grown(additions: list[int]) -> GrowingLake:
    lake = GrowingLake()
    for rows in additions:
        lake.add(rows)
    return lake


def test_after_fifty_equal_additions_there_are_at_most_eight_folders() -> None:
    assert len(grown([1_000] * 50).versions) <= 8


@given(ROWS)
def test_folders_and_rewrites_grow_with_the_logarithm_of_the_rows(additions: list[int]) -> None:
    lake = grown(additions)

    assert len(lake.versions) <= log2(lake.total) + 1
    assert max(lake.written_again) <= log(lake.total, 1.5) + 1


@given(ROWS, st.data())
def test_versions_with_changed_rows_are_always_merged(
    sizes: list[int], data: st.DataObject
) -> None:
    versions = [(f"{n:06}", rows) for n, rows in enumerate(sizes)]
    needed = data.draw(st.sets(st.sampled_from([name for name, _ in versions])))

    assert needed <= versions_to_merge(versions, needed, 0) <= {name for name, _ in versions}
