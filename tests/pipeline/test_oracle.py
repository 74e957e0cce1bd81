"""Every table is, row for row, what an independent reading of its definition gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.pipeline.lake_rows import assert_same, worked_out_of
from support.pipeline_oracle.rows import tables_of
from support.recordings.recorded_worlds import tapes_of
from support.recordings.taped_runs import tapes_of_runs
from support.recordings.tapes import Tape, cut_at_random, with_losses, write
from support.recordings.wild_recordings import wild_tapes

A_FEW = (range(15), range(55), range(80))
"""Seeds of runs, of worlds in which only others move partitions, and of wild ones."""
THOUSAND = (range(100, 220), range(100, 480), range(100, 600))
Seeds = tuple[Iterable[int], Iterable[int], Iterable[int]]


def _recorded(seeds: Seeds) -> list[Tape]:
    runs, worlds, wild = seeds
    return [*tapes_of_runs(runs), *tapes_of(worlds), *wild_tapes(wild)]


def _written(folder: Path, seeds: Seeds) -> None:
    dice = random.Random("segments")  # noqa: S311 - a test's dice
    for tape in _recorded(seeds):
        write(folder, cut_at_random(tape, dice))


def _held_to_the_oracle(spark: SparkSession, folder: Path) -> dict[str, Counter[str]]:
    """Hold each table to the oracle's, and give what the rows of some are about."""
    made, expected = worked_out_of(spark, folder), tables_of(folder)
    for name in expected:
        assert_same(made[name], expected[name], name)
    return {
        "states": Counter(row["state"] for row in expected["states"]),
        "moves": Counter(row["outcome"] for row in expected["moves"]),
    }


def _met(found: dict[str, Counter[str]], least: int) -> None:
    """See that the recordings had something of everything in them."""
    for state in ("adding", "catching up", "stalled", "in sync", "queued", "electing"):
        assert found["states"][state] >= least, found
    assert found["states"]["between steps"] >= least, found
    for outcome in ("done", "cancelled", "changed_elsewhere", "unknown", "rolled_back", "stopped"):
        assert found["moves"][outcome] >= least, found


def test_the_tables_of_random_recordings_are_those_of_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    _written(tmp_path / "recordings", A_FEW)
    _met(_held_to_the_oracle(spark, tmp_path / "recordings"), least=5)


@pytest.mark.soak
def test_the_tables_of_a_thousand_random_recordings_are_those_of_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    _written(tmp_path / "recordings", THOUSAND)
    _met(_held_to_the_oracle(spark, tmp_path / "recordings"), least=50)


def test_of_damaged_recordings_the_tables_hold_what_is_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    dice = random.Random("losses")  # noqa: S311 - a test's dice
    for tape in _recorded((range(100, 105), range(100, 115), range(100, 130))):
        write(tmp_path / "recordings", list(with_losses(cut_at_random(tape, dice), dice)))
    _held_to_the_oracle(spark, tmp_path / "recordings")
