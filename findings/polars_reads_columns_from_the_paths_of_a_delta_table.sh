#!/usr/bin/env bash
# Polars refuses a partitioned Delta table whose files lie in a folder that is named like a Hive partition.
#
# polars 2.1.0, deltalake 1.6.6. The Delta protocol takes a partition's values from the log (partitionValues of each
# file) and nothing from its path, which may be anything. pl.scan_delta hands the files to the Parquet scan with the
# partition columns as a Hive schema: each NAME=VALUE folder in a path must then be one of them. deltalake reads the same
# table. Without partition columns Polars reads it, too, whatever the folders are called.
#
# Seen, of files in batch=7/c=a and batch=7/c=b of a table that is partitioned by c:
#   deltalake: {'n': [1, 2, 3], 'c': ['a', 'a', 'b']}
#   polars: SchemaFieldNotFoundError: path contains column not present in the given Hive schema: "batch"
#   polars, without partition columns: {'n': [1, 2, 3]}
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install -q polars==2.1.0 deltalake==1.6.6 pyarrow==26.0.1 > pip.log 2>&1 || { cat pip.log; exit 1; }

cat > read.py <<'PYTHON'
import json
import pathlib

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def moved(name, columns, **options):
    """Write a table, and move its files into batch=7/ as its log says then."""
    root = pathlib.Path(name)
    write_deltalake(str(root), pa.table(columns), **options)
    log = root / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (action["add"] for action in actions if "add" in action):
        before, add["path"] = add["path"], f"batch=7/{add['path']}"
        (root / add["path"]).parent.mkdir(parents=True, exist_ok=True)
        (root / before).rename(root / add["path"])
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return str(root)


def ordered(table):
    rows = sorted(zip(*table.values()))
    return {name: [row[at] for row in rows] for at, name in enumerate(table)}


parts = moved("parts", {"n": [1, 2, 3], "c": ["a", "a", "b"]}, partition_by=["c"])
print("deltalake:", ordered(DeltaTable(parts).to_pyarrow_table().to_pydict()))
try:
    print("polars:", ordered(pl.scan_delta(parts).collect().to_dict(as_series=False)))
except pl.exceptions.PolarsError as error:
    print(f"polars: {type(error).__name__}: {str(error).partition(', path')[0]}")
whole = moved("whole", {"n": [1, 2, 3]})
found = pl.scan_delta(whole).collect().to_dict(as_series=False)
print("polars, without partition columns:", ordered(found))
PYTHON
env/bin/python read.py | tee seen
diff seen - <<'SEEN'
deltalake: {'n': [1, 2, 3], 'c': ['a', 'a', 'b']}
polars: SchemaFieldNotFoundError: path contains column not present in the given Hive schema: "batch"
polars, without partition columns: {'n': [1, 2, 3]}
SEEN
