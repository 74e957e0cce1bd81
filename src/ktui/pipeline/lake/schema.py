"""Times from a first to a last moment, and the disjoint ones that cover them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from msgspec import inspect
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it
from pyspark.sql import types as T  # noqa: N812 - the same

from ktui.pipeline.lake.engine import in_pairs, schema_on
from ktui.pipeline.lake.manifest import PipelineProblem

MOST = 16  # more times than this are united, those with the least between them first

Time = tuple[int, int | None]
"""The first and the last moment, ms since 1970; None where it has no end."""


def united(times: Iterable[Time], most: int = MOST) -> list[Time]:
    """Return at most so many disjoint times that cover some times, in order."""
    found: list[Time] = []
    for first, last in sorted(times, key=lambda time: time[0]):
        if found and (found[-1][1] is None or first <= found[-1][1]):
            before, until = found[-1]
            found[-1] = before, None if until is None or last is None else max(until, last)
        else:
            found.append((first, last))
    while len(found) > most:
        gaps = [found[n + 1][0] - (found[n][1] or 0) for n in range(len(found) - 1)]
        least = gaps.index(min(gaps))
        found[least : least + 2] = [(found[least][0], found[least + 1][1])]
    return found


TEXT, LONG, INT, DOUBLE = T.StringType(), T.LongType(), T.IntegerType(), T.DoubleType()
BOOLEAN, MOMENT, DAY = T.BooleanType(), T.TimestampType(), T.DateType()
TEXTS = T.ArrayType(TEXT, containsNull=False)
BROKERS = T.ArrayType(INT, containsNull=False)  # broker ids, in Kafka's order


class MissingColumn(ValueError):
    """The input of a stage lacks a column that the stage needs, or has one of another type."""


class Table(msgspec.Struct, frozen=True):
    """A table of the lake."""

    name: str
    about: str  # a sentence; the columns' comments have units
    schema: T.StructType
    dated_by: str | None = None
    """The time, ms, whose day is `date`: a folder, and the order of rows, for readers of spans."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return ("cluster_id", "date") if self.dated_by else ("cluster_id",)


def column(name: str, kind: T.DataType, comment: str = "", *, null: bool = False) -> T.StructField:
    """Describe a column; `comment` has its unit and meaning."""
    return T.StructField(name, kind, null, {"comment": comment} if comment else None)


def struct_of(*columns: T.StructField) -> T.StructType:
    """Build a struct type from columns."""
    return T.StructType(list(columns))


def table(name: str, about: str, *columns: T.StructField, dated_by: str | None = None) -> Table:
    """Describe a table by a sentence and its columns."""
    return Table(name, about, struct_of(*columns), dated_by)


def array_of(*columns: T.StructField) -> T.ArrayType:
    """Describe an array whose elements have these columns."""
    return T.ArrayType(struct_of(*columns), containsNull=False)


_IDS = ("batch", "broker", "original", "partition", "target")
"""The fields whose numbers have 32 bits, as Kafka's; all others have 64."""


def columns_of(kind: type[msgspec.Struct]) -> list[T.StructField]:
    """Describe the columns that follow from a record's fields."""
    columns = []
    for each in msgspec.structs.fields(kind):
        found = inspect.type_info(each.type)
        null = isinstance(found, inspect.UnionType) and found.includes_none
        columns.append(column(each.name, _type(each.name, found), null=null))
    return columns


def _type(name: str, kind: inspect.Type) -> T.DataType:
    match kind:
        case inspect.UnionType():
            (known,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
            return _type(name, known)
        case inspect.StructType():
            return struct_of(*columns_of(kind.cls))
        case inspect.DictType():
            return T.MapType(_type("", kind.key_type), _type("", kind.value_type), False)  # noqa: FBT003 - no nulls; Spark's
        case inspect.CollectionType():
            return T.ArrayType(_type(name, kind.item_type), containsNull=False)
        case inspect.IntType():
            return INT if name in _IDS else LONG
        case _:
            return {inspect.BoolType: BOOLEAN, inspect.FloatType: DOUBLE}.get(type(kind), TEXT)


def require_columns(
    rows: DataFrame, table: Table, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return an input whose columns are those of a table (None for all), or raise MissingColumn."""
    found = {field.name: field.dataType for field in rows.schema}
    for name in columns if columns is not None else table.schema.names:
        required = table.schema[name].dataType
        if name not in found:
            raise MissingColumn(f"{table.name}: the column {name} is missing")
        if _type_name(found[name]) != _type_name(required):
            raise MissingColumn(
                f"{table.name}: the column {name} is {_type_name(found[name])}, "
                f"not {_type_name(required)}"
            )
    return rows


def _type_name(kind: T.DataType) -> str:
    return kind.simpleString()


KEY = (
    column("cluster_id", TEXT),
    column("topic", TEXT),
    column("topic_id", TEXT, "null where the cluster did not report it", null=True),
    column("partition", INT),
)


def fit_to_table(rows: DataFrame, table: Table) -> DataFrame:
    """Select a table's columns, with its types and comments; `check_nulls` follows the writing."""
    return rows.select(*map(_column, schema_on(rows, table.schema)))


def _column(field: T.StructField) -> Column:
    value = F.col(field.name)
    if not isinstance(field.dataType, T.ArrayType | T.MapType):
        value = value.cast(field.dataType)
    return (
        value.alias(field.name, metadata=field.metadata)
        if field.metadata
        else value.alias(field.name)
    )


def union_by_name(first: DataFrame, *others: DataFrame) -> DataFrame:
    """Unite rows by the names of their columns; a column that some rows lack is null in these.

    Sail's own way, `allowMissingColumns`, has no type for a column that the first rows lack.
    """
    parts = (first, *others)
    types = {field.name: field.dataType for rows in parts for field in rows.schema}

    def whole(rows: DataFrame) -> DataFrame:
        own = set(rows.columns)
        found = (
            F.col(name) if name in own else F.lit(None).cast(kind).alias(name)
            for name, kind in types.items()
        )
        return rows.select(*found)

    return in_pairs(DataFrame.unionByName, [*map(whole, parts)])


class Footer(msgspec.Struct, frozen=True):
    """What the footer of a file says."""

    rows: int
    nulls: Mapping[str, int]  # by column; columns of arrays, maps and structs are left out


def footer_of(path: Path) -> Footer:
    """Read the footer of a file on this machine."""
    found = pq.read_metadata(path)
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(found.num_columns))
    known = (
        (column.path_in_schema, column.statistics.null_count)
        for column in columns
        if column.statistics is not None and column.statistics.has_null_count
    )
    return Footer(found.num_rows, _summed(known))


def hadoop_footer_of(jvm: Any, path: Any, conf: Any) -> Footer:
    """Read the footer of a file, a Hadoop `Path`, by Spark's Hadoop client."""
    hadoop = jvm.org.apache.parquet.hadoop
    reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, conf))
    try:
        blocks = list(reader.getFooter().getBlocks())
        columns = [column for block in blocks for column in block.getColumns()]
        known = ((each.getPath().toDotString(), _nulls(each.getStatistics())) for each in columns)
        return Footer(sum(block.getRowCount() for block in blocks), _summed(known))
    finally:
        reader.close()


def check_nulls(table: Table, footers: Iterable[Footer]) -> None:
    """Raise PipelineProblem, which names it, for a null in a column that allows none."""
    needed = {field.name for field in table.schema if not field.nullable}
    for footer in footers:
        for name in needed & footer.nulls.keys():
            if footer.nulls[name]:
                raise PipelineProblem(
                    f"{table.name}.{name} is null in {footer.nulls[name]:,} of {footer.rows:,} "
                    "rows, and may never be. The lake is as it was. This is a defect of ktui"
                )


def _nulls(statistics: Any) -> int:
    return int(statistics.getNumNulls()) if statistics.isNumNullsSet() else 0


def _summed(known: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    nulls: Counter[str] = Counter()
    for name, count in known:
        if "." not in name:
            nulls[name] += count
    return nulls
