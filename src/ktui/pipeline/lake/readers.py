"""What lets readers without ktui find the current version: a Delta log and a README of each table.

The log has two versions, as the lake has: the current one and the one before. A Delta version has
the number of the lake's, so the same number of all tables is one version of the whole.
"""

from __future__ import annotations

import io
import re
import uuid
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake import views
from ktui.pipeline.lake.files import LakeFiles
from ktui.pipeline.lake.manifest import DataFile, Manifest
from ktui.pipeline.lake.schema import TEXT, Table, column, struct_of
from ktui.pipeline.lake.tables import MOVES, VIEWS

README = "README.md"
_LOG = "_delta_log"
_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_WRITTEN_BY = column("lake_version", TEXT, "the version in whose folder the row is")
"""Readers of Delta that take columns from the names of folders refuse one that no schema has."""

_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
    }
)
_PROTOCOL = {
    "protocol": {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        # Spark reads no table with columns that are never null unless the first is named; the
        # second no other program has, so they read the table and refuse to write it
        "writerFeatures": ["invariants", "ktui"],
    }
}


def write_for_readers(files: LakeFiles, before: Manifest, after: Manifest) -> None:
    """Bring the Delta logs and the READMEs of all tables up to the version `after`.

    Readers have the version before until its log entries are there; then these stay for one more
    version, as the version's files do.
    """
    tables = [each for each in views.TABLES if each not in VIEWS]
    for table in tables:
        _write_log(files, table, before, after)
    of_lake = _lake_readme(files.uri)
    if files.read(README) != of_lake:  # written last: if it is as it should be, so are all others
        for table in tables:
            files.replace(f"{table.name}/{README}", _readme(files.uri, table))
        files.replace(README, of_lake)


def _write_log(files: LakeFiles, table: Table, before: Manifest, after: Manifest) -> None:
    old, new = _data_files(table, before), _data_files(table, after)
    written_ms = round(datetime.fromisoformat(after.written_at).timestamp() * 1000)
    head = [_PROTOCOL, _metadata(table, files.uri)]
    added = {path: _added(new[path], written_ms) for path in sorted(new)}
    removed = [
        {
            "remove": {
                "path": _escaped(path),
                "deletionTimestamp": written_ms,
                "dataChange": True,
            }
        }
        for path in sorted(old.keys() - new.keys())
    ]
    actions = [*head, *removed, *(added[path] for path in added if path not in old)]
    entry = f"{table.name}/{_LOG}/{after.version:020}"
    files.replace(f"{entry}.json", b"".join(msgspec.json.encode(each) + b"\n" for each in actions))
    # without it, readers would need all entries from the first on
    checkpoint = pa.Table.from_pylist([*head, *added.values()], schema=_CHECKPOINT)
    content = io.BytesIO()
    pq.write_table(checkpoint, content)
    files.replace(f"{entry}.checkpoint.parquet", content.getvalue())
    for name in files.files(f"{table.name}/{_LOG}"):
        found = _ENTRY.fullmatch(name)
        if found is not None and int(found[1]) < before.version:
            files.remove(f"{table.name}/{_LOG}/{name}")


def _data_files(table: Table, manifest: Manifest) -> dict[str, DataFile]:
    parts = manifest.tables.get(table.name, {}).values()
    return {file.path: file for part in parts for file in part.files}


def _metadata(table: Table, uri: str) -> dict[str, Any]:
    return {
        "metaData": {
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{uri}/{table.name}")),
            "name": table.name,
            "description": table.about,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": struct_of(*table.schema, _WRITTEN_BY).json(),
            "partitionColumns": [_WRITTEN_BY.name, *table.partition_columns],
            "configuration": {},
        }
    }


def _added(file: DataFile, written_ms: int) -> dict[str, Any]:
    names = (name.partition("=") for name in file.path.split("/")[1:-1])
    add = {
        "path": _escaped(file.path),
        "partitionValues": {name: unquote(value) for name, _, value in names},
        "size": file.length,
        "modificationTime": written_ms,
        "dataChange": True,
    }
    if file.rows:  # 0 may mean that nobody counted them
        add["stats"] = msgspec.json.encode({"numRecords": file.rows}).decode()
    return {"add": add}


def _escaped(path: str) -> str:
    return quote(path.partition("/")[2], safe="/=")


def _readme(uri: str, table: Table) -> bytes:
    folder = views.folder_of(uri)
    text = f"""\
# {table.name}

**Do not read this folder by its name or by a pattern such as `*.parquet`.** Next to the current
files it has those of the version before, whose rows would count twice. These lines read the current
version, each in a program of its own:

{_lines(uri, folder, table)}
{table.about}

Only ktui writes into this folder. Other programs must only read.
"""
    return text.encode(errors="surrogateescape")


def _lines(uri: str, folder: str, table: Table) -> str:
    name = table.name
    place, lake = repr(f"{folder}/{name}"), repr(uri)
    return f"""\
```python
# pandas (pip install deltalake pandas pyarrow)
from deltalake import DeltaTable

{name} = DeltaTable({place}).to_pandas()
```

```python
# Polars (pip install polars deltalake)
import polars

{name} = polars.read_delta({place})
```

{_duckdb_lines(folder, name)}
```python
# Spark, without any jar; with those of Delta Lake: spark.read.format("delta").load({place})
import json

from pyspark.sql.types import StructType

lake = {lake}
manifest = json.loads(spark.read.text(f"{{lake}}/{manifests.NAME}", wholetext=True).head()[0])
parts = manifest["tables"].get("{name}", {{}}).values()
files = [f"{{lake}}/{{file['path']}}" for part in parts for file in part["files"]]
log = spark.read.text(f"{{lake}}/{name}/{_LOG}/*.json")
found = log.selectExpr("get_json_object(value, '$.metaData.schemaString') AS it").dropna().head()
reader = spark.read.schema(StructType.fromJson(json.loads(found.it)))
{name} = reader.option("basePath", f"{{lake}}/{name}").parquet(*files)
```
"""


def _duckdb_lines(folder: str, name: str) -> str:
    if "://" not in folder:
        file = f"{folder}/{views.NAME}"
        return f"""\
```python
# DuckDB; in its shell: duckdb -init {file}
from pathlib import Path

import duckdb

duckdb.execute(Path({file!r}).read_text())
{name} = duckdb.sql("FROM {name}")
```
"""
    # for reading URIs by itself, DuckDB has an extension for each kind, which it has to download
    return f"""\
```python
# DuckDB (pip install duckdb deltalake pyarrow)
import duckdb
from deltalake import DeltaTable

rows = DeltaTable({f"{folder}/{name}"!r}).to_pyarrow_dataset()
{name} = duckdb.sql("FROM rows")
```
"""


def _lake_readme(uri: str) -> bytes:
    folder = views.folder_of(uri)
    tables = "".join(f"| `{each.name}` | {each.about} |\n" for each in views.TABLES)
    text = f"""\
# A lake of ktui

**Do not read a table's folder by its name or by a pattern such as `*.parquet`.** Next to the
current files it has those of the version before, whose rows would count twice. The `README.md` in
each table's folder has the lines that read the current version with pandas, Polars, DuckDB and
Spark. For `moves` they are:

{_lines(uri, folder, MOVES)}
| table | one row for |
|---|---|
{tables}
"""
    return text.encode(errors="surrogateescape")
