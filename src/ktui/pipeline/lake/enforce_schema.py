"""Rows brought into the shape of a table: columns, types, comments, nulls only where allowed."""

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


def shaped(rows: DataFrame, table: Table) -> DataFrame:
    """Give a table's columns of some rows.

    A null where the table has none fails the job; the error names the table and the column.
    """
    return rows.select(*(_column(field, f"{table.name}.{field.name}") for field in table.schema))


def _column(field: StructField, place: str) -> Column:
    value = _inside(F.col(field.name), field.dataType, place)
    whole = value if field.nullable else _never_null(value, field.dataType, place)
    return whole.alias(field.name, metadata=field.metadata or {})


def _inside(value: Column, kind: DataType, place: str) -> Column:
    """Give a value its type, and see that what it holds is whole; records are taken as they are."""
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
    """Stop where a value is null, and so let Spark know that it never is."""
    checked = F.when(value.isNull(), F.raise_error(F.lit(f"{place} is null"))).otherwise(value)
    return F.coalesce(checked, _some(kind))


def _some(kind: DataType) -> Column:
    """Give some value of a type: Spark takes a column for whole that falls back on one."""
    match kind:
        case ArrayType():
            return F.array().cast(kind)
        case MapType():
            return F.create_map().cast(kind)
        case DateType() | TimestampType():
            return F.timestamp_millis(F.lit(0)).cast(kind)
        case _:
            return F.lit(0).cast(kind)
