"""The tables of a lake as views for DuckDB, over exactly the files that its manifest names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from pyspark.sql import types as T  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake import tables
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.records import FORECASTS_WITH_TRUTH
from ktui.pipeline.lake.schema import Table

NAME = "views.sql"
TABLES = tuple(
    sorted(
        (each for each in vars(tables).values() if isinstance(each, Table)),
        key=lambda table: table.name,
    )
)
_COMPUTED = {
    tables.ETA_BACKTEST.name: (
        f"SELECT *, epoch_ms(t) AT TIME ZONE 'UTC' AS at FROM ({FORECASTS_WITH_TRUTH})"  # noqa: S608 - fixed
    )
}
"""The rows of each table that has no files."""

Source = Callable[[Table, Sequence[str]], str]
"""Returns SQL that selects a table's rows from some of its files; with names as in the manifest."""

_TYPES: dict[type[T.DataType], str] = {
    T.BinaryType: "BLOB",
    T.BooleanType: "BOOLEAN",
    T.DateType: "DATE",
    T.DoubleType: "DOUBLE",
    T.IntegerType: "INTEGER",
    T.LongType: "BIGINT",
    T.StringType: "VARCHAR",
    T.TimestampType: "TIMESTAMP WITH TIME ZONE",
}


def views_sql(manifest: Manifest, uri: str) -> bytes:
    """Return the file `views.sql` of a version. Its paths are absolute, to hold from any folder."""
    text = (
        f"-- Version {manifest.version} of a ktui lake, for DuckDB: duckdb -init {NAME}\n"
        "-- `ktui pipeline run` replaces this file with each version.\n"
        f"SET TimeZone = 'UTC';\n{create_views(manifest, parquet_files(folder_of(uri)))}"
    )
    return text.encode(errors="surrogateescape")


def create_views(manifest: Manifest, source: Source) -> str:
    """Return SQL that creates a view of each table, with types and comments; some may be empty."""
    computed_last = sorted(TABLES, key=lambda table: table in tables.VIEWS)
    return "".join(_view(table, manifest, source) for table in computed_last)


def parquet_files(folder: str) -> Source:
    """Return the source of rows for DuckDB's own reader of Parquet files, in a path or URI."""

    def rows(table: Table, names: Sequence[str]) -> str:
        paths = "".join(f"\n    {text(glob_of(f'{folder}/{name}'))}," for name in names)
        if "=" not in folder:
            types = ", ".join(
                f"{_name(each)}: {_type_of(table, each)}" for each in table.partition_columns
            )
            options = f"hive_partitioning = true, hive_types = {{{types}}}"
            return f"SELECT * FROM read_parquet([{paths}\n  ], {options})"  # noqa: S608 - quoted
        # DuckDB would read the folders above the lake as columns, too.
        values = ", ".join(_from_filename(table, each) for each in table.partition_columns)
        options = "hive_partitioning = false, filename = true"
        return f"SELECT *, {values} FROM read_parquet([{paths}\n  ], {options})"  # noqa: S608

    return rows


def glob_of(path: str) -> str:
    """Return a glob that DuckDB reads as exactly this path."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def type_name(kind: T.DataType) -> str:
    """Return DuckDB's name of a column's type."""
    match kind:
        case T.ArrayType():
            return f"{type_name(kind.elementType)}[]"
        case T.MapType():
            return f"MAP({type_name(kind.keyType)}, {type_name(kind.valueType)})"
        case T.StructType():
            inside = (f"{_name(each.name)} {type_name(each.dataType)}" for each in kind)
            return f"STRUCT({', '.join(inside)})"
        case _:
            return _TYPES[type(kind)]


def folder_of(uri: str) -> str:
    """Return a lake's folder as others than Hadoop name it, which has three schemes for S3."""
    return re.sub(r"^s3[an]://", "s3://", uri.removeprefix("file://"))


def _view(table: Table, manifest: Manifest, source: Source) -> str:
    named = _name(table.name)
    columns = ", ".join(map(_name, table.schema.names))
    typed = ", ".join(
        f"CAST(NULL AS {type_name(each.dataType)}) AS {_name(each.name)}" for each in table.schema
    )
    selects = [source(table, names) for names in _by_version(table, manifest)]
    if table in tables.VIEWS:
        selects = [_COMPUTED[table.name]]
    rows = "".join(f"\n  UNION ALL BY NAME {each}" for each in selects)
    comments = "".join(
        f"COMMENT ON COLUMN {named}.{_name(each.name)} IS {text(each.metadata['comment'])};\n"
        for each in table.schema
        if "comment" in each.metadata
    )
    select = f"SELECT {columns} FROM (\n  SELECT {typed} WHERE false{rows}\n)"  # noqa: S608 - quoted
    about = f"COMMENT ON VIEW {named} IS {text(table.about)};\n"
    return f"\nCREATE OR REPLACE VIEW {named} AS {select};\n{about}{comments}"


def _by_version(table: Table, manifest: Manifest) -> Iterable[list[str]]:
    parts = manifest.tables.get(table.name, {}).values()
    names = sorted(file.path for part in parts for file in part.files)
    for _, written in groupby(names, key=lambda name: name.split("/")[1]):
        yield list(written)


def _type_of(table: Table, column: str) -> str:
    return type_name(table.schema[column].dataType)


def _from_filename(table: Table, column: str) -> str:
    value = f"url_decode(regexp_extract(filename, '(?s).*/{column}=([^/]*)/', 1))"
    return f"CAST({value} AS {_type_of(table, column)}) AS {_name(column)}"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
