"""Fit rows to a table's schema: its columns, in order, with their types and comments."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.types import ArrayType, MapType, StructField

from ktui.pipeline.lake.schema import Table


def fit_to_table(rows: DataFrame, table: Table) -> DataFrame:
    """Select a table's columns from some rows, with the table's types and comments.

    Whether a column has nulls that it may not have shows once it is written: its files' footers
    count them.
    """
    return rows.select(*map(_column, table.schema))


def _column(field: StructField) -> Column:
    value = F.col(field.name)
    if not isinstance(field.dataType, ArrayType | MapType):
        value = value.cast(field.dataType)
    return value.alias(field.name, metadata=field.metadata or {})
