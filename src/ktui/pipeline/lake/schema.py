"""How tables are described: typed columns with units, and a check that an input has them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXT, LONG, INT, DOUBLE = StringType(), LongType(), IntegerType(), DoubleType()
BOOLEAN, MOMENT, DAY = BooleanType(), TimestampType(), DateType()
TEXTS = ArrayType(TEXT, containsNull=False)
BROKERS = ArrayType(INT, containsNull=False)
"""Broker ids, in Kafka's order."""


class MissingColumn(ValueError):
    """A stage was given a table without a column that it needs, or with one of another type."""


class Table(msgspec.Struct, frozen=True):
    """A table of the lake."""

    name: str
    schema: StructType
    by_date: bool = False
    """Whether its files are kept by `date`, besides by `cluster_id`."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that its folders are named by."""
        return ("cluster_id", "date") if self.by_date else ("cluster_id",)


def column(name: str, kind: DataType, comment: str = "", *, null: bool = False) -> StructField:
    """Describe a column; `comment` says its unit and what it means."""
    return StructField(name, kind, null, {"comment": comment} if comment else None)


def struct_of(*columns: StructField) -> StructType:
    """Put columns together."""
    return StructType(list(columns))


def array_of(*columns: StructField) -> ArrayType:
    """Describe an array whose elements have these columns."""
    return ArrayType(struct_of(*columns), containsNull=False)


def require(given: DataFrame, table: Table, columns: Sequence[str] | None = None) -> DataFrame:
    """Give an input back, once it is seen that it has a table's columns.

    Args:
        given: the input.
        table: what it has to be.
        columns: those that are needed; None for all.

    Raises:
        MissingColumn: names the table, the column, and what it is instead.
    """
    found = {field.name: field.dataType for field in given.schema}
    for name in columns if columns is not None else table.schema.names:
        wanted = table.schema[name].dataType
        if name not in found:
            raise MissingColumn(f"{table.name}: the column {name} is missing")
        if _spelled(found[name]) != _spelled(wanted):
            raise MissingColumn(
                f"{table.name}: the column {name} is {_spelled(found[name])}, "
                f"not {_spelled(wanted)}"
            )
    return given


def _spelled(kind: DataType) -> str:
    return kind.simpleString()


KEY = (
    column("cluster_id", TEXT),
    column("topic", TEXT),
    column("topic_id", TEXT, "null where the cluster did not tell", null=True),
    column("partition", INT),
)
"""What tells a partition from all others."""
