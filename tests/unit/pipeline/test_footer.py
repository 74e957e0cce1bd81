"""What files of tables must not hold is refused by their footers, before a version is committed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.footer import check_nulls, footer_of
from ktui.pipeline.lake.tables import STATES


def write(file: Path, states: list[str | None], run: str | None) -> Path:
    """Write a few of the columns of STATES."""
    rows = pa.table({"state": states, "run": pa.array([run] * len(states), pa.string())})
    pq.write_table(rows, file, row_group_size=2)
    return file


def test_a_null_is_refused_only_where_the_table_allows_none(tmp_path: Path) -> None:
    whole = footer_of(write(tmp_path / "whole", ["adding"] * 3, run=None))
    broken = footer_of(write(tmp_path / "broken", ["adding", None, "stalled", None, None], run="a"))

    check_nulls(STATES, [whole])
    with pytest.raises(PipelineProblem, match=r"states\.state is null in 3 of 5 rows"):
        check_nulls(STATES, [whole, broken])
