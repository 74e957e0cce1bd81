"""The tables match docs/pipeline.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.schema import Table

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"
DERIVED = (
    tables.FORECASTS, tables.CAUGHT_UP, tables.REPLAYS, tables.ETA_BACKTEST, tables.ETA_ERRORS,
    tables.INSIGHTS,
    tables.WHAT_IF,
)  # fmt: skip
"""Tables described in docs/insights.md, or internal to the pipeline."""
TABLES = [
    table for table in vars(tables).values() if isinstance(table, Table) and table not in DERIVED
]


def documented(name: str) -> dict[str, str]:
    """Return the documented columns of a table with their types."""
    section = PAGE.read_text(encoding="utf-8").split(f"### `{name}`\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)`(.*?) \|", section, re.MULTILINE)
    return {column: kind + null for column, kind, null in rows}


def described(schema: StructType) -> dict[str, str]:
    return {
        field.name: field.dataType.simpleString() + (", null possible" if field.nullable else "")
        for field in schema
    }


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_docs_list_each_column_with_its_type(table: Table) -> None:
    assert documented(table.name) == described(table.schema)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_partition_columns_are_columns_of_the_table(table: Table) -> None:
    assert set(table.partition_columns) <= set(table.schema.names)


def test_table_names_are_unique() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES) == 14
