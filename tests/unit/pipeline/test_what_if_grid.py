"""The limits that runs are simulated under, as read from a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits, Shape
from ktui.pipeline.what_if.play import GridCell, read_grid, relative_grid
from ktui.planning.throttle_rates import parse_throttle_rates


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    return tmp_path / "grid.yaml"


def test_a_grid_combines_every_limit_with_every_other_and_every_throttle(grid: Path) -> None:
    grid.write_text(
        "limits:\n  partitions: [1, 5]\n  shape: [gentle, kip-435]\nthrottle: [none, 50MB/s]\n"
    )
    cells = read_grid(grid)
    assert len(cells) == 8
    assert (
        GridCell(Limits(partitions=5, shape=Shape.KIP_435), parse_throttle_rates("50MB/s")) in cells
    )


def test_a_single_value_needs_no_list_and_none_lifts_a_limit(grid: Path) -> None:
    grid.write_text("limits:\n  partitions: 3\n  replicas: none\n")
    assert read_grid(grid) == (GridCell(Limits(partitions=3)),)


def throttles(cells: tuple[GridCell, ...]) -> set[str]:
    return {cell.throttle.typed for cell in cells}


def test_without_a_file_a_run_is_simulated_near_its_own_limits_and_throttle() -> None:
    own = GridCell(Limits(partitions=8, replicas=1, per_broker=2), parse_throttle_rates("400kB"))

    cells = relative_grid(own, 100, 90e6)

    assert own in cells
    assert len(set(cells)) == len(cells) == 60
    assert throttles(cells) == {"100kB", "200kB", "400kB", "800kB", "1600kB", "none"}
    assert {(cell.limits.partitions, cell.limits.per_broker) for cell in cells} == {
        (2, 1), (4, 1), (8, 2), (16, 4), (32, 8)
    }  # fmt: skip
    assert {cell.limits.replicas for cell in cells} == {1, None}


def test_a_run_without_limits_or_throttle_is_simulated_with_less_than_all_at_once() -> None:
    cells = relative_grid(GridCell(Limits()), 40, 21_456_789.0)

    assert {cell.limits.partitions for cell in cells} == {10, 20, 40, 80, 160}
    assert throttles(cells) == {"none", "5250kB", "10500kB"}


def test_the_rates_of_single_brokers_and_budgets_change_with_the_throttle() -> None:
    own = GridCell(Limits(bytes_per_broker=32 << 20), parse_throttle_rates("8MB,3=2MB,total=20MB"))

    cells = relative_grid(own, 40, 1.0)

    assert "4MB,3=1MB,total=10MB" in throttles(cells)
    assert {cell.limits.bytes_per_broker for cell in cells} == {
        n << 20 for n in (8, 16, 32, 64, 128)
    }


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("limits:\n  partitions: [1, 0]\n", 2, "--partitions: 0 is too small"),
        ("limits:\n  replicas: [1]\n  partition: [1]\n", 3, "there is no such limit"),
        ("limits:\n  shape: [round]\n", 2, "'round' is not a valid value"),
        ("limits: {}\nthrottle: [50MB/s, fast]\n", 2, "throttle: 'fast'"),
        ("limit: {}\n", 1, "unknown key 'limit'; did you mean 'limits'?"),
        ("limits:\n  partitions: []\n", 1, "0 cells"),
        (f"limits:\n  partitions: {list(range(1, 1002))}\n", 1, "1,001 cells"),
        ("limits:\n  shape: [kip-435]\n  extra-replicas: [1]\n", 1, "has no effect"),
    ],
)
def test_a_mistake_in_a_grid_is_reported_with_its_line(
    grid: Path, text: str, line: int, words: str
) -> None:
    grid.write_text(text)
    with pytest.raises(FileProblem, match=re.escape(words)) as refused:
        read_grid(grid)
    assert refused.value.line == line
