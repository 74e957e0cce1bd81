"""Recordings and a lake in an object store, where nothing can be renamed or locked."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.folders import VERSION
from support.pipeline.follower import PipelineProcess, pipeline_process
from support.pipeline.lake_rows import assert_same, lake_rows
from support.pipeline.spark_cluster import LIMIT_S
from support.pipeline.storage import ObjectStore, object_store
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import Tape, cut_at_random, tapes_of_runs, with_garbage, write
from support.recordings.wild_recordings import wild_tapes

_LAKE, _RECORDED = "lake", "recorded"
_MANIFEST = f"{_LAKE}/{manifests.NAME}"
_FOLLOWING = ("--follow", "--every", "2s")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as running:
        yield running


@contextmanager
def run(store: ObjectStore, folder: Path, *more: str) -> Iterator[PipelineProcess]:
    """Begin a run from the store's recordings into its lake, with more options."""
    places = ("--recordings", f"{store.uri}/{_RECORDED}", "--lake", f"{store.uri}/{_LAKE}")
    how = ("--master", "local[1]", "--no-insights", "--state-dir", str(folder))
    with pipeline_process((*places, *how, *more), store.environment) as running:
        yield running


def records(tapes: Iterable[Tape], folder: Path, store: ObjectStore) -> None:
    dice = random.Random("object store")  # noqa: S311 - a test's dice
    for tape in tapes:
        write(folder, list(with_garbage(cut_at_random(tape, dice), dice)))
    store.put_folder(folder, _RECORDED)


def completes(store: ObjectStore, folder: Path) -> None:
    with run(store, folder) as running:
        code, printed = running.ends()
    assert code == 0, printed


def assert_complete(store: ObjectStore, recorded: Path, folder: Path) -> None:
    """Assert that the store's lake has the tables of all that was recorded."""
    store.get_folder(_LAKE, folder / _LAKE)
    made, expected = lake_rows(folder / _LAKE), tables_of(recorded)
    for row in (*made["quarantine"], *expected["quarantine"]):
        row["file"] = Path(row["file"]).name
    for name, rows in expected.items():
        assert_same(made[name], rows, name)


def is_killed_at(table: str, store: ObjectStore, folder: Path) -> None:
    with run(store, folder) as running:
        running.works_on(table)
        running.signal(signal.SIGKILL)
        assert running.ends()[0] == -signal.SIGKILL


def version(store: ObjectStore) -> int:
    return manifests.decode(store.get(_MANIFEST)).version


def stepped(step: str, store: ObjectStore, *more: str) -> dict[str, Any]:
    """Take steps in a process that reaches the store, and return what they print."""
    code = f"from support.pipeline.object_store_steps import {step}; {step}()"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(store.settings), *more],
        env={**os.environ, **store.names_for_delta, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


@pytest.mark.soak
def test_the_store_refuses_to_replace_what_has_changed_and_lists_1_000_segments_at_a_time(
    store: ObjectStore,
) -> None:
    for number in range(1_100):
        store.put(f"many/one/session-{number}/000000.jsonl.gz", b"segment")
    store.put("many/lake/_staging/000000.jsonl.gz", b"of a lake")
    places = (f"{store.uri}/files", f"{store.uri}/many")

    found = stepped("main", store, *places)

    assert found["replaced"] == [True, False, True, False]
    assert found["repeated"]
    assert found["kept"] == "third"
    assert found["found"] == 1_100
    assert found["requests"] <= 8


@pytest.mark.soak
def test_by_the_lines_of_its_readmes_every_program_reads_a_lake_in_the_store(
    store: ObjectStore, tmp_path: Path
) -> None:
    records(wild_tapes(range(1)), tmp_path / "recorded", store)
    completes(store, tmp_path / "state")
    tables = manifests.decode(store.get(_MANIFEST)).tables
    rows = {
        name: sum(part.rows for part in tables.get(name, {}).values())
        for name in ("moves", "samples", "what_if")
    }
    readmes = {name: store.get(f"{_LAKE}/{name}/README.md").decode() for name in rows}

    found = stepped("read_by_readmes", store, json.dumps(readmes))

    assert rows["samples"] > rows["moves"] > rows["what_if"] == 0
    programs = ("pandas", "Polars", "DuckDB", "Spark")
    assert found == {name: dict.fromkeys(programs, count) for name, count in rows.items()}


@pytest.mark.soak
def test_killed_and_overtaken_runs_leave_the_version_before_and_the_next_run_is_complete(
    store: ObjectStore, tmp_path: Path
) -> None:
    def other() -> bytes:
        completes(store, state)
        return store.get(_MANIFEST)

    recorded, state = tmp_path / "recorded", tmp_path / "state"
    records(tapes_of_runs(range(1)), recorded, store)

    is_killed_at("samples", store, state)
    assert store.names(f"{_LAKE}/lines/")
    assert _MANIFEST not in store.names(_LAKE)

    with run(store, tmp_path / "overtaken") as overtaken:
        first = overtaken.loses_to(other)
    assert store.get(_MANIFEST) == first

    records(wild_tapes(range(1)), recorded, store)
    is_killed_at("brokers", store, state)
    assert store.get(_MANIFEST) == first

    completes(store, state)

    assert version(store) == 2
    left = {name.split("/")[2] for name in store.names(f"{_LAKE}/") if VERSION in name}
    assert not [
        name for name in left if name.startswith(f"{VERSION}000001") and name not in first.decode()
    ]
    assert_complete(store, recorded, tmp_path)


@pytest.mark.soak
def test_a_follower_reads_what_comes_into_the_store_and_goes_on_after_it_was_killed(
    store: ObjectStore, tmp_path: Path
) -> None:
    recorded, state = tmp_path / "recorded", tmp_path / "state"
    records(tapes_of_runs(range(1)), recorded, store)
    with run(store, state, *_FOLLOWING) as killed:
        killed.prints(" version 1:")
        records(wild_tapes(range(1)), recorded, store)
        killed.prints(" version 2:")
        killed.signal(signal.SIGKILL)

    with run(store, state, *_FOLLOWING) as following:
        following.prints("Following")
        records(wild_tapes(range(1, 2)), recorded, store)
        following.prints(" version 3:")
        following.signal(signal.SIGINT)
        code, printed = following.ends()

    assert code == 0, printed
    assert "at version" in printed
    completes(store, state)  # what came after version 3 began
    assert_complete(store, recorded, tmp_path)
