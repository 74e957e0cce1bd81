"""The same polls give the same tables, by an independent implementation and by DuckDB too."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from bench.pipeline.same_rows import TABLES, check_same
from pyspark.sql import SparkSession

from ktui.pipeline.lake.manifest import NAME, decode
from ktui.pipeline.run import run as running
from ktui.pipeline.run.run import PipelineRequest
from support.pipeline.lake_rows import (
    Rows,
    assert_same,
    into_lake,
    lake_rows,
    piped,
    without,
    worked_out_of,
)
from support.pipeline.report_lake import DrainedLake
from support.pipeline.sparks import leave_stages_out, small_settings
from support.pipeline_oracle.rows import tables_of
from support.recordings.taped_runs import (
    Recording,
    Tape,
    cut_at_random,
    files_of,
    tapes_of,
    tapes_of_runs,
    with_garbage,
    with_losses,
    write,
)
from support.recordings.wild_recordings import wild_tapes

Way = Callable[[Tape, random.Random], list[Recording]]


def _in_one_file(tape: Tape, _dice: random.Random) -> list[Recording]:
    return files_of(tape, tape.segments())


def _in_many_files(tape: Tape, dice: random.Random) -> list[Recording]:
    cuts = {n for n in range(len(tape.items)) if dice.random() < 0.3}
    return files_of(tape, tape.segments(cuts))


def _cut_in_two(tape: Tape, dice: random.Random) -> list[Recording]:
    return files_of(tape, tape.segments({dice.randrange(len(tape.items))}))


def _with_some_whole_polls(tape: Tape, dice: random.Random) -> list[Recording]:
    return files_of(tape, tape.segments((), {n for n in range(99) if dice.random() < 0.5}))


def _with_the_wall_clock_set(tape: Tape, dice: random.Random) -> list[Recording]:
    """The clock is set after the first line, back and forth, by hours."""
    looks = [number for number in tape.looks if number > 0]
    steps = {number: dice.randint(-(10**7), 10**7) for number in looks if dice.random() < 0.3}
    return files_of(tape, tape.segments({len(tape.items) // 2}, (), steps))


def _copied(tape: Tape, dice: random.Random) -> list[Recording]:
    """Some segments are copied to other folders and some lines are doubled."""
    files = cut_at_random(tape, dice)
    copies = [Recording(f"backup/{name}", lines) for name, lines in files]
    doubled = [[line for each in lines for line in (each, each)] for _, lines in files]
    again = [Recording(f"doubled/{f.name}", d) for f, d in zip(files, doubled, strict=True)]
    return [*files, *dice.sample(copies, dice.randint(0, len(copies))), *again[:1]]


def _in_renamed_files(tape: Tape, dice: random.Random) -> list[Recording]:
    """Files are found in an order other than that of writing."""
    files = _in_many_files(tape, dice)
    return [
        Recording(f"{dice.random():.9f}/{number}.jsonl.gz", lines)
        for number, (_, lines) in enumerate(reversed(files))
    ]


def _with_garbage(tape: Tape, dice: random.Random) -> list[Recording]:
    return list(with_garbage(cut_at_random(tape, dice), dice))


_WAYS: Mapping[str, Way] = {
    "many files": _in_many_files,
    "cut in two": _cut_in_two,
    "whole looks": _with_some_whole_polls,
    "clock set": _with_the_wall_clock_set,
    "copies": _copied,
    "other names": _in_renamed_files,
    "garbage": _with_garbage,
}


def _recordings() -> list[Tape]:
    return [*tapes_of_runs(range(2)), *tapes_of(range(2)), *wild_tapes(range(3))]


def _as_cluster(way: str, tape: Tape) -> Tape:
    """Return a tape as that of another cluster, so that all ways fit into one job."""
    other = Tape(f"{way}/{tape.cluster_id}", f"{tape.session}/{way}")
    other.items, other.program = tape.items, tape.program
    return other


def _of_way(tables: Mapping[str, Rows], way: str) -> dict[str, Rows]:
    """Return the rows of one way, with the original names of clusters and sessions."""
    found: dict[str, Rows] = {name: [] for name in tables}
    for name, rows in tables.items():
        for row in rows:
            mark, _, cluster = row.get("cluster_id", "").partition("/")
            if mark == way:
                session = {"session": row["session"].rpartition("/")[0]} if "session" in row else {}
                found[name].append({**row, "cluster_id": cluster, **session})
    return found


def test_the_same_polls_in_other_files_pieces_and_copies_give_the_same_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    dice = random.Random("ways")  # noqa: S311 - a test's dice
    for tape in _recordings():
        write(tmp_path, _in_one_file(_as_cluster("one file", tape), dice))
        for way, cut in _WAYS.items():
            write(tmp_path, [
                Recording(f"{way}-{name}", lines)
                for name, lines in cut(_as_cluster(way, tape), dice)
            ])  # fmt: skip
    tables = without(worked_out_of(spark, tmp_path), "seq")
    expected = _of_way(tables, "one file")
    assert all(expected[name] for name in expected if name != "quarantine")
    for way in _WAYS:
        made = _of_way(tables, way)
        for name in expected:
            assert_same(made[name], expected[name], f"{name}, {way}")


def _dies_at(table: str, spark: SparkSession, folder: Path, lake: Path) -> None:
    """Raise an error as a run begins to write a table."""

    def step(name: str) -> None:
        if f": {table}" in name:
            raise OSError("it dies here")

    with pytest.raises(OSError, match="it dies here"):
        running.run(spark, PipelineRequest((str(folder),), str(lake)), step)


def _killed_at(table: str, _: SparkSession, folder: Path, lake: Path) -> None:
    """Kill -9 a `ktui pipeline run` and its children while it writes a table."""
    words = ["run", "--recordings", str(folder), "--lake", str(lake), "--master", "local[1]"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ktui", "pipeline", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **small_settings()},
        start_new_session=True,
    )
    with process:
        assert process.stderr is not None
        printed = []
        try:
            for line in process.stderr:
                printed.append(line.strip())
                if f": {table}" in printed[-1]:
                    break
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert f": {table}" in printed[-1], printed
    assert process.returncode == -signal.SIGKILL


@pytest.mark.soak
@pytest.mark.parametrize("end_at", [_dies_at, _killed_at])
def test_a_run_that_ends_while_writing_keeps_the_old_version_and_the_next_catches_up(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end_at: Callable[[str, SparkSession, Path, Path], None],
) -> None:
    folder, lake = tmp_path / "recordings", tmp_path / "lake"
    dice = random.Random("killed")  # noqa: S311 - a test's dice
    tapes = [*tapes_of_runs(range(1)), *wild_tapes(range(1))]
    files = [file for tape in tapes for file in _in_many_files(tape, dice)]
    dice.shuffle(files)
    half = len(files) // 2
    write(folder, files[:half])
    with monkeypatch.context() as patched:
        leave_stages_out(patched)
        into_lake(spark, lake, folder)
    before = _current(lake)
    write(folder, files[half:])

    end_at("samples", spark, folder, lake)

    assert list(lake.glob("lines/lake_version=000002-*"))
    assert _current(lake) == before
    made, expected = piped(spark, folder, lake), tables_of(folder)
    for name in expected:
        assert_same(made[name], expected[name], name)


def _current(lake: Path) -> dict[str, bytes]:
    """Return the manifest, and all files that it names, with their bytes."""
    content = (lake / NAME).read_bytes()
    parts = (part for table in decode(content).tables.values() for part in table.values())
    files = {file.path: (lake / file.path).read_bytes() for part in parts for file in part.files}
    return {NAME: content, **files}


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


ROOT = Path(__file__).parents[2]


def test_the_script_in_duckdb_makes_the_tables_of_the_lake_row_for_row(
    drained_lake: DrainedLake, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    job = [sys.executable, "-m", "bench.pipeline.in_duckdb.job"]
    subprocess.run([*job, str(drained_lake.recorded), str(made)], check=True, cwd=ROOT)

    compared = check_same(drained_lake.first, made)

    assert set(compared) == set(TABLES)
    rows = lake_rows(drained_lake.first)
    assert compared == {name: len(rows[name]) for name in TABLES}
    with pytest.raises(SystemExit, match="not measured: "):
        check_same(drained_lake.lake, made)  # which has another drain
