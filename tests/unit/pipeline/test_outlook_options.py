"""The options of `ktui pipeline run` for simulated limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from ktui.cli.pipeline.options import read_derived_options
from ktui.inputfile import FileProblem
from ktui.pipeline.forecast.derived import DerivedOptions


def options_of(**options: Any) -> DerivedOptions | None:
    usual = {"grid": None, "window": None, "no_insights": False, "keep_insights": False}
    return read_derived_options({**usual, **options})


def test_the_default_is_a_grid_near_each_run_without_a_window() -> None:
    assert options_of() == DerivedOptions(None, None)


def test_a_window_is_read_as_a_duration(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("limits: {partitions: [1, 2]}\n")
    asked = options_of(window="4h", grid=grid)
    assert asked is not None
    assert asked.window_s == 14_400.0
    assert asked.cells is not None
    assert len(asked.cells) == 2
    assert asked.anew


@pytest.mark.parametrize("text", ["soon", "-4h", "0s", ""])
def test_an_invalid_window_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--window: "):
        options_of(window=text)


def test_an_unreadable_grid_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="cannot be read"):
        options_of(grid=tmp_path / "nowhere.yaml")


def test_insights_can_be_left_out() -> None:
    assert options_of(no_insights=True) is None
