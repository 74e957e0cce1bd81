"""The limits that runs are simulated under, as read from a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktui.fileproblem import FileProblem
from ktui.pacing.limits import Limits, Shape
from ktui.pipeline.what_if.grid import GridCell, read_grid, usual_grid
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


def test_the_usual_grid_has_each_cell_once() -> None:
    cells = usual_grid()
    assert len(cells) == 96
    assert len({(cell.limits, cell.throttle) for cell in cells}) == 96


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
