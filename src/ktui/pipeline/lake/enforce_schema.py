"""Fit rows to a table's schema: columns, types, comments, and nulls only where allowed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

from ktui.pipeline.lake.schema import Table


def fit_to_table(rows: DataFrame, table: Table) -> DataFrame:
    """Select a table's columns from some rows, with the table's types and comments.

    A null in a column that allows none fails the job; the error names the table and the column.
    """
    return rows.select(*(_column(field, f"{table.name}.{field.name}") for field in table.schema))


def _column(field: StructField, place: str) -> Column:
    value = _checked_inside(F.col(field.name), field.dataType, place)
    whole = value if field.nullable else _never_null(value, field.dataType, place)
    return whole.alias(field.name, metadata=field.metadata or {})


def _checked_inside(value: Column, kind: DataType, place: str) -> Column:
    """Cast a value, and reject nulls inside arrays and maps; arrays of structs stay as they are."""
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return value
    if isinstance(kind, ArrayType) and not kind.containsNull:
        of, within = kind.elementType, f"an element of {place}"
        return F.transform(value, lambda each: _never_null(each.cast(of), of, within))
    if isinstance(kind, MapType) and not kind.valueContainsNull:
        of, within = kind.valueType, f"a value of {place}"
        return F.transform_values(value, lambda _, each: _never_null(each.cast(of), of, within))
    return value.cast(kind)


def _never_null(value: Column, kind: DataType, place: str) -> Column:
    """Fail the job where a value is null; so Spark can infer that the column is never null."""
    checked = F.when(value.isNull(), F.raise_error(F.lit(f"{place} is null"))).otherwise(value)
    return F.coalesce(checked, _fallback(kind))


def _fallback(kind: DataType) -> Column:
    """Return any value of a type: Spark infers no nulls for a column with such a fallback."""
    match kind:
        case ArrayType():
            return F.array().cast(kind)
        case MapType():
            return F.create_map().cast(kind)
        case DateType() | TimestampType():
            return F.timestamp_millis(F.lit(0)).cast(kind)
        case _:
            return F.lit(0).cast(kind)
