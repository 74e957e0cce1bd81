"""Every table equals, row for row, an independent implementation of its definition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.pipeline.lake_rows import assert_same, worked_out_of
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import (
    Tape,
    cut_at_random,
    tapes_of,
    tapes_of_runs,
    with_losses,
    write,
)
from support.recordings.wild_recordings import wild_tapes

A_FEW = (range(6), range(16), range(30))
"""Seeds of runs, of worlds with only foreign moves, and of wild ones."""
A_FEW_MORE = (range(100, 102), range(100, 105), range(100, 110))
THOUSAND = (range(100, 220), range(100, 480), range(100, 600))
Seeds = tuple[Iterable[int], Iterable[int], Iterable[int]]


def _recorded(seeds: Seeds) -> list[Tape]:
    runs, worlds, wild = seeds
    return [*tapes_of_runs(runs), *tapes_of(worlds), *wild_tapes(wild)]


def _written(folder: Path, seeds: Seeds) -> None:
    dice = random.Random("segments")  # noqa: S311 - a test's dice
    for tape in _recorded(seeds):
        write(folder, cut_at_random(tape, dice))


def _written_with_losses(folder: Path, seeds: Seeds) -> None:
    dice = random.Random("losses")  # noqa: S311 - a test's dice
    for tape in _recorded(seeds):
        write(folder, list(with_losses(cut_at_random(tape, dice), dice)))


def _compare_with_oracle(spark: SparkSession, folder: Path) -> None:
    made, expected = worked_out_of(spark, folder), tables_of(folder)
    for name in expected:
        assert_same(made[name], expected[name], name)


def _assert_covered(folder: Path, least: int) -> None:
    """Assert that the recordings covered every state and outcome."""
    expected = tables_of(folder)
    states = Counter(row["state"] for row in expected["states"])
    moves = Counter(row["outcome"] for row in expected["moves"])
    for state in ("adding", "catching up", "stalled", "in sync", "queued", "electing"):
        assert states[state] >= least, states
    assert states["between steps"] >= least, states
    for outcome in ("done", "cancelled", "changed_elsewhere", "unknown", "rolled_back", "stopped"):
        assert moves[outcome] >= least, moves


def test_the_tables_of_random_recordings_whole_and_damaged_are_those_of_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both in one job; of the damaged ones, the tables hold what is whole."""
    _written(tmp_path / "whole", A_FEW)
    _assert_covered(tmp_path / "whole", least=5)
    _written_with_losses(tmp_path / "damaged", A_FEW_MORE)

    _compare_with_oracle(spark, tmp_path)


@pytest.mark.soak
def test_tables_of_a_thousand_random_recordings_match_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    _written(tmp_path, THOUSAND)
    _assert_covered(tmp_path, least=50)
    _compare_with_oracle(spark, tmp_path)


@pytest.mark.soak
def test_tables_of_damaged_recordings_hold_every_intact_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    _written_with_losses(tmp_path, (range(100, 105), range(100, 115), range(100, 130)))
    _compare_with_oracle(spark, tmp_path)
