"""`python -m bench.pipeline.in_duckdb.job RECORDINGS FOLDER`: recordings into a folder of tables.

Python decodes the segments and folds the events of runs, both with ktui's own code. DuckDB does
the rest, and writes the tables as Parquet, in folders as the lake has them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import msgspec

from bench.pipeline.in_duckdb.decoding import decode as decode_segments
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.events import decode as decode_event
from ktui.pipeline.tables.runs import RunStory
from ktui.recording.segments import from_wall_ms

BY_DATE = ("samples", "polls", "run_events", "states")
BY_CLUSTER = ("lines", "moves", "batches", "runs", "rates", "brokers")
MEMORY = "8GB"


def make(recordings: Path, folder: Path) -> None:
    """Make all tables of some recordings in a new folder."""
    staging = folder / "staging"
    decode_segments(recordings, staging)
    with duckdb.connect(config={"memory_limit": MEMORY, "threads": os.cpu_count() or 1}) as db:
        db.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
        db.execute(f"SET temp_directory = '{staging / 'spilled'}'")
        db.execute(f"SET VARIABLE staging = '{staging}'")
        db.execute(f"SET VARIABLE folds = '{staging / 'folds.json'}'")
        _run(db, "normalize")
        _write(db, "samples_made", folder / "samples", "cluster_id, date")
        db.execute(
            f"CREATE VIEW samples AS FROM read_parquet('{folder}/samples/**/*.parquet', "
            "hive_partitioning = true)"
        )
        (staging / "folds.json").write_bytes(b"\n".join(_folds(db)))
        for script in ("folds", "listings", "tables"):
            _run(db, script)
        for name in (*BY_DATE[1:], *BY_CLUSTER):
            by = "cluster_id, date" if name in BY_DATE else "cluster_id"
            _write(db, name, folder / name, by)
    shutil.rmtree(staging)


def _run(db: duckdb.DuckDBPyConnection, script: str) -> None:
    db.execute(Path(__file__).with_name(f"{script}.sql").read_text(encoding="utf-8"))


def _write(db: duckdb.DuckDBPyConnection, name: str, place: Path, by: str) -> None:
    db.execute(f"COPY (FROM {name}) TO '{place}' (FORMAT parquet, PARTITION_BY ({by}))")


def _folds(db: duckdb.DuckDBPyConnection) -> Iterator[bytes]:
    """Yield the facts of each run as JSON, by ktui's own fold of its events."""
    events = db.execute(
        "SELECT cluster_id, run_id, run, entry, t, event FROM run_events ORDER BY ALL"
    )
    of_run = defaultdict(list)
    for row in events.fetchall():
        of_run[row[:3]].append(row[3:])
    for (cluster_id, run_id, run), rows in of_run.items():
        story = RunStory(run)
        for entry, t, event in rows:
            with suppress(Exception):  # as the pipeline leaves out events that do not fit
                story.take(JournalEntry(entry, from_wall_ms(t), decode_event(event.encode())), t)
        facts = msgspec.to_builtins(story.facts())
        yield msgspec.json.encode({"cluster_id": cluster_id, "run_id": run_id, **facts})


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
