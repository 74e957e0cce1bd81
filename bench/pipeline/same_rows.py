"""Check that two folders hold the same tables, row by row and in all columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from bench.checks import check_count
from ktui.pipeline.lake import manifest as manifests

TABLES = (
    "samples", "polls", "run_events", "states", "moves", "batches", "runs", "rates", "brokers",
)  # fmt: skip
"""The tables that follow from intact recordings. Left out are those that no reader needs: `lines`,
`spans` and `intakes`."""
_NEAR = 1e-9
"""By how much two figures may differ, of the greater one: sums and quotients are rounded."""


def check_same(lake: Path, folder: Path) -> Mapping[str, int]:
    """Compare the tables of a lake with those in a folder, in any order of rows.

    Returns:
        The rows of each table.

    Raises:
        SystemExit: a table differs, has no rows, or a line of the recordings was damaged.
    """
    manifest = manifests.decode((lake / manifests.NAME).read_bytes())
    check_count("damaged lines", _rows(manifest, "quarantine"), 0)
    found = {}
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            parts = manifest.tables.get(table, {}).values()
            files = [str(lake / file.path) for part in parts for file in part.files]
            found[table] = _check_table(db, table, files, f"{folder}/{table}/**/*.parquet")
            check_count(f"rows of {table}", found[table], _rows(manifest, table))
    return found


def _rows(manifest: manifests.Manifest, table: str) -> int:
    return sum(part.rows for part in manifest.tables.get(table, {}).values())


def _check_table(db: duckdb.DuckDBPyConnection, table: str, files: list[str], others: str) -> int:
    """Compare one table, and return its rows."""
    if not files:
        raise SystemExit(f"not measured: the lake has no {table}")
    db.from_parquet(files, hive_partitioning=True).create_view("one", replace=True)
    db.from_parquet(others, hive_partitioning=True).create_view("other", replace=True)
    columns = dict(db.execute("SELECT column_name, column_type FROM (DESCRIBE one)").fetchall())
    columns.pop("lake_version", None)
    floats = [name for name, kind in columns.items() if kind == "DOUBLE"]
    exact = ", ".join(_plain(name, columns[name]) for name in columns if name not in floats)
    rows = {}
    for side in ("one", "other"):
        figures = "".join(f', "{name}"' for name in floats)
        db.execute(
            f"CREATE OR REPLACE TEMP TABLE {side}s AS "
            f"SELECT hash({exact}) AS row_hash{figures} FROM {side}"
        )
        rows[side] = _count(db, f"{side}s")
    check_count(f"rows of {table}", rows["other"], rows["one"])
    for one, other in (("one", "other"), ("other", "one")):
        extra = f"(SELECT row_hash FROM {one}s EXCEPT ALL SELECT row_hash FROM {other}s)"
        if count := _count(db, extra):
            first = db.execute(
                f"SELECT * FROM {one} WHERE hash({exact}) IN {extra} LIMIT 1"
            ).fetchone()
            side = "the lake" if one == "one" else "DuckDB"
            raise SystemExit(f"not measured: only {side} has {count:,} rows of {table}: {first}")
    for name in floats:
        _check_figures(db, table, name)
    return rows["one"]


def _check_figures(db: duckdb.DuckDBPyConnection, table: str, name: str) -> None:
    """Compare a column of floats, of rows that are equal in all else."""
    one, other = f'ones."{name}"', f'others."{name}"'
    far = _count(
        db,
        f"ones JOIN others USING (row_hash) WHERE ({one} IS NULL) != ({other} IS NULL) "
        f"OR abs({one} - {other}) > {_NEAR} * greatest(abs({one}), abs({other}))",
    )
    check_count(f"rows of {table} with another {name}", far, 0)


def _count(db: duckdb.DuckDBPyConnection, rows: str) -> int:
    counted = db.execute(f"SELECT count(*) FROM {rows}").fetchall()
    return int(counted[0][0])


def _plain(name: str, kind: str) -> str:
    """Return a column of a type that both sides share; the entries of a map are sorted."""
    if kind.startswith("MAP("):
        return f'list_sort(map_entries("{name}"))'
    return f'CAST("{name}" AS {kind})'
