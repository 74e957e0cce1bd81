"""Recordings enter a lake, rehearsals too: each line once, complete versions only."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from msgspec.structs import replace
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from ktui.insights import SIMULATE, insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.ingest.decode import SegmentSelection
from ktui.pipeline.lake.files import LocalFiles
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.manifest import NAME, PipelineProblem, encode
from ktui.pipeline.lake.tables import MOVES, POLLS, SAMPLES, SESSIONS, WHAT_IF
from ktui.pipeline.run import run as running
from ktui.pipeline.sql import DuckLake, Findings, SparkQueries, check
from support.cli.call_ktui import call_ktui
from support.pipeline.lake_rows import assert_same, into_lake, lake_rows, looks, record, rows
from support.pipeline.report_lake import DrainedLake, records_of
from support.pipeline.sparks import leave_stages_out
from support.pipeline_oracle.rows import tables_of
from support.recordings.drained_recordings import MB, drained


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*.parquet")
        if "_delta_log" not in path.parts
    }


class Grown:
    """A lake of two clusters, and the outcome of each run that extended it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.recorded, self.lake = folder / "recorded", folder / "lake"
        for cluster in ("one", "other"):
            record(self.recorded, looks(3, cluster_id=cluster))
        other = SegmentSelection(clusters=frozenset({"other"}))
        self.chosen = into_lake(spark, self.lake, self.recorded, choice=other)
        self.oldest = self.versions()
        record(self.recorded, looks(1, from_s=30.0, cluster_id="other"))
        self.rest = into_lake(spark, self.lake, self.recorded)
        self.before = self._files()
        self.nothing_new = into_lake(spark, self.lake, self.recorded)
        self.after = self._files()
        self.reader = Lake.open(spark, str(self.lake)).table(SAMPLES)
        record(self.recorded, looks(2, from_s=60.0, cluster_id="one"))
        self.left = self._dies(spark)
        self.after_death = self._files()
        self.more = into_lake(spark, self.lake, self.recorded)

    def _dies(self, spark: SparkSession) -> str:
        """Let a run die as it writes; return the version of the samples that it leaves."""

        def dies(*_: DataFrame) -> NoReturn:
            raise KeyboardInterrupt

        before = self.versions()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(running, "derived_tables", dies)
            with pytest.raises(KeyboardInterrupt):
                into_lake(spark, self.lake, self.recorded)
        (left,) = self.versions() - before
        assert list((self.lake / "samples" / left).rglob("*.parquet"))
        return left

    def versions(self) -> set[str]:
        """Return the names of the versions of which there are samples."""
        return {path.name for path in (self.lake / "samples").glob("lake_version=*")}

    def _files(self) -> tuple[dict[str, bytes], bytes]:
        return contents(self.lake), (self.lake / NAME).read_bytes()


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Grown:
    with pytest.MonkeyPatch.context() as patched:
        leave_stages_out(patched)
        return Grown(spark, tmp_path_factory.mktemp("grown"))


class Beside:
    """A lake of two overlapping sessions, one from a dead recorder; a third is still open."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake = folder / "lake"
        record(folder / "one", looks(10))
        (segment,) = record(folder / "two", looks(10, from_s=5.0)).iterdir()
        segment.rename(segment.with_name(f"{segment.name}.tmp"))  # and no process holds its lock
        record(folder / "three", looks(3, cluster_id="other"), close=False)
        places = (folder / name for name in ("one", "two", "three"))
        self.outcome = into_lake(spark, self.lake, *places)


@pytest.fixture(scope="module")
def beside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    with pytest.MonkeyPatch.context() as patched:
        leave_stages_out(patched)
        return Beside(spark, tmp_path_factory.mktemp("beside"))


def test_a_recording_is_written_to_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "my {recordings} [of] 100% *?"  # characters with a meaning in patterns
    record(folder, looks(5))

    outcome = into_lake(spark, tmp_path / "a {lake}", folder)

    assert (outcome.found, outcome.read, outcome.clusters) == (1, 1, ("a-cluster",))
    lake = tmp_path / "a {lake}"
    assert len(rows(lake, SAMPLES, ["t"])) == 15
    assert len(rows(lake, POLLS, ["t"], reassigning=3)) == 5
    assert rows(lake, MOVES, ["topic", "partition", "looks"]) == [
        ("orders", partition, 5) for partition in range(3)
    ]
    written = outcome.manifest.tables["samples"]["a-cluster"]
    assert written.rows == 15
    assert {str(lake / file.path) for file in written.files} == set(contents(lake / "samples"))


@pytest.mark.usefixtures("no_stages")
def test_tables_do_not_depend_on_the_order_or_copies_of_segments(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The later segments first, since the earliest normalises the times; then all, and copies."""
    whole, parts, lake = tmp_path / "whole", tmp_path / "parts", tmp_path / "lake"
    record(whole, looks(4), most_bytes=1)
    segments = sorted(whole.rglob("*.gz"))
    assert len(segments) > 2
    record(whole, looks(3, from_s=2.0))

    parts.mkdir()
    for segment in segments[2:]:
        shutil.copy(segment, parts)
    into_lake(spark, lake, parts)
    shutil.copy(segments[0], parts / "a-copy.jsonl.gz")
    outcome = into_lake(spark, lake, parts, whole)

    assert outcome.copies == len(segments) - 2 + 1
    made, expected = lake_rows(lake, (SAMPLES, POLLS)), tables_of(whole)
    for name, ours in made.items():
        assert_same(ours, expected[name], name)
        assert ours


def test_segments_left_out_of_a_selection_are_read_by_a_later_run(grown: Grown) -> None:
    assert (grown.chosen.read, grown.chosen.clusters) == (1, ("other",))
    assert grown.chosen.manifest.clusters == ["other"]
    assert (grown.rest.read, grown.rest.clusters) == (2, ("one", "other"))
    assert grown.rest.manifest.clusters == ["one", "other"]


def test_a_run_with_nothing_new_leaves_the_lake_as_it_is(grown: Grown) -> None:
    assert grown.nothing_new.read == 0
    assert grown.after == grown.before
    assert grown.before[0]


def test_only_clusters_with_new_data_are_rewritten(grown: Grown) -> None:
    before, after = grown.rest.manifest.tables, grown.more.manifest.tables
    assert (grown.more.read, grown.more.clusters) == (1, ("one",))
    assert all(parts.get("other") == before[name].get("other") for name, parts in after.items())
    assert after["polls"]["one"] != before["polls"]["one"]
    assert len(rows(grown.lake, POLLS, ["t"], cluster_id="one")) == 5
    assert len(rows(grown.lake, POLLS, ["t"], cluster_id="other")) == 4


def test_a_run_that_dies_leaves_the_old_version_and_the_next_one_cleans_up(grown: Grown) -> None:
    assert grown.after_death[1] == grown.after[1]
    assert grown.after_death[0].items() > grown.after[0].items()
    assert grown.reader.count() == 21  # readers of the old version can continue
    assert len(rows(grown.lake, SAMPLES, ["t"])) == 27
    of_one, of_other = (grown.more.manifest.tables["samples"][each] for each in ("one", "other"))
    old = grown.rest.manifest.tables["samples"]["one"]
    needed = {file.version for part in (of_one, of_other, old) for file in part.files}
    assert len(needed) == 2
    assert needed.isdisjoint({grown.left, *grown.oldest})
    assert grown.versions() == needed  # versions of the dead run and older ones are gone
    assert not (grown.lake / "_staging").exists()


@pytest.mark.usefixtures("no_stages")
def test_sessions_that_an_older_ktui_added_are_known_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorded, lake = tmp_path / "recorded", tmp_path / "lake"
    record(recorded, looks(3))
    first = into_lake(spark, lake, recorded).manifest
    record(recorded, looks(3, from_s=60.0))
    second = into_lake(spark, lake, recorded).manifest
    tables = second.tables | {SESSIONS.name: first.tables[SESSIONS.name]}
    (lake / NAME).write_bytes(encode(replace(second, tables=tables)))

    record(recorded, looks(3, from_s=120.0))
    third = into_lake(spark, lake, recorded).manifest

    known = rows(lake, SESSIONS, ["session", "versions"])
    assert len(known) == 3
    assert {name for _, versions in known for name in versions} == {
        file.version for file in third.tables["lines"]["a-cluster"].files
    }


def test_the_polls_of_a_better_session_shadow_those_of_others(beside: Beside) -> None:
    times = rows(beside.lake, POLLS, ["t"], shadowed=False)
    assert len(times) == len(set(times)) == 15
    assert len(rows(beside.lake, SAMPLES, ["t"], shadowed=True)) == 15


def test_the_samples_of_a_file_are_in_order_of_time_whichever_session_has_them(
    beside: Beside,
) -> None:
    for file in contents(beside.lake / "samples"):
        times = parquet.read_table(file, columns=["t", "session"], partitioning=None).to_pylist()
        assert len({row["session"] for row in times}) > 1
        assert [row["t"] for row in times] == sorted(row["t"] for row in times)


def test_the_segment_of_a_dead_recorder_is_read_but_not_one_still_being_written(
    beside: Beside,
) -> None:
    assert (beside.outcome.read, beside.outcome.unfinished) == (2, 1)
    assert beside.outcome.manifest.clusters == ["a-cluster"]


def test_a_folder_without_recordings_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineProblem, match="nothing is recorded"):
        into_lake(spark, tmp_path / "lake", tmp_path)
    with pytest.raises(PipelineProblem, match="no such file or folder"):
        into_lake(spark, tmp_path / "lake", tmp_path / "missing")


def test_two_concurrent_runs_cannot_write_the_same_lake(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (
        LocalFiles(tmp_path).locked(),
        pytest.raises(PipelineProblem, match="another run is writing this lake"),
    ):
        into_lake(spark, tmp_path, tmp_path)


def test_a_lake_of_a_newer_ktui_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version": 99}', encoding="utf-8")

    with pytest.raises(PipelineProblem, match="written by another ktui"):
        Lake.open(spark, str(tmp_path))


def test_a_missing_lake_is_reported_with_the_command_that_makes_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PipelineProblem, match="ktui pipeline run --lake"):
        Lake.open(spark, str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    leave_stages_out(monkeypatch)
    return tmp_path / "recorded"


def checked(spark: SparkSession, folder: Path) -> Findings:
    lake = folder.with_name("lake")
    into_lake(spark, lake, folder)
    return _checked(spark, lake)


def _checked(spark: SparkSession, lake: Path) -> Findings:
    """Check a lake by Spark and by DuckDB, which have to agree."""
    found = check(SparkQueries(Lake.open(spark, str(lake))))
    assert check(DuckLake.open(str(lake))) == found
    return found


def test_intact_recordings_lack_nothing(spark: SparkSession, drained_lake: DrainedLake) -> None:
    found = _checked(spark, drained_lake.first)

    assert not found.lost
    assert (found.quarantined, found.copies, found.differing, found.gaps) == ({}, 0, 0, 0)
    assert (found.segments, found.sessions, found.sessions_without_end) == (5, 5, 0)
    assert found.rows["samples"] == len(records_of(drained_lake.first, SAMPLES))


def test_damage_copies_gaps_and_clock_steps_are_counted(spark: SparkSession, folder: Path) -> None:
    """One session with a gap of 97 s, a clock set back by an hour, and a damaged poll."""
    first, *later = looks(4), *looks(3, from_s=100.0)
    seen = [*first, *(msgspec.structs.replace(s, at=s.at - timedelta(hours=1)) for s in later)]
    (segment,) = record(folder, iter(seen)).iterdir()
    texts = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    texts[-2] = texts[-2].replace(b"look", b"loop")
    del texts[-1]  # the end
    segment.write_bytes(gzip.compress(b"".join(texts)))
    again = segment.with_name("again.jsonl.gz")
    shutil.copy(segment, again)
    again.write_bytes(gzip.compress(b"".join(texts[:4])))

    found = checked(spark, folder)

    assert found.lost
    assert found.quarantined == {"its checksum is missing or wrong": 1}
    assert (found.lines, found.copies, found.differing) == (7, 4, 0)
    assert (found.gaps, found.longest_gap_ms) == (1, 97_000)
    assert (found.clock_steps, found.largest_clock_step_ms) == (1, 3_600_000)
    assert (found.sessions, found.sessions_without_end) == (1, 1)


TWIN = """\
title: A twin of prod
cluster: {name: prod, brokers: 4, disk: 10GiB}
topics:
  orders: {replicas: [[1, 2, 3], [2, 3, 1]], size: 200MB}
"""
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
RUN = "drain"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of a run on a slow cluster, and of its rehearsal, of the same name, on a fast twin."""
    folder = tmp_path_factory.mktemp("rehearsed")
    plan, twin, recordings = folder / f"{RUN}.json", folder / "twin.yaml", folder / "recordings"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")
    twin.write_text(TWIN, encoding="utf-8")
    twins = ("--on", str(twin), "--rate", "40MB/s")
    done = call_ktui("rehearse", str(plan), *twins, "--record", str(recordings))
    assert done.returncode == 0, done.stderr
    limits = Limits(replicas=1)
    drained(recordings, sizes=[40 * MB], limits=limits, name=RUN, cluster="prod", net_in=4.0 * MB)
    into_lake(spark, folder / "lake", recordings, asked=DerivedOptions())
    return folder / "lake"


def test_the_tables_have_it_under_the_id_of_its_twin(lake: Path) -> None:
    moves = rows(lake, MOVES, ("cluster_id", "topic", "outcome"))

    assert moves == [("prod", "t0", "done"), ("simulated-prod", "orders", "done")]


def test_no_run_is_simulated_under_other_limits_unless_asked(lake: Path) -> None:
    assert rows(lake, WHAT_IF, ("run_id",)) == []


def test_what_is_known_of_the_real_cluster_is_from_its_own_run_alone(lake: Path) -> None:
    known = {each.cluster_id: each for each in insights_in(lake).clusters}

    assert {of: (each.runs, each.moves) for of, each in known.items()} == {
        "prod": (1, 1),
        "simulated-prod": (1, 1),
    }
    real, simulated = known["prod"].prior, known["simulated-prod"].prior
    assert real is not None
    assert simulated is not None
    assert real.replica_bytes_s.p90 < 5 * MB < 20 * MB < simulated.replica_bytes_s.p10


def test_insights_and_reports_say_that_it_is_simulated(lake: Path, tmp_path: Path) -> None:
    def report(*words: str) -> str:
        page = tmp_path / "report.html"
        where = ("--lake", str(lake), "--state-dir", str(tmp_path), "-o", str(page))
        done = call_ktui("pipeline", "report", *where, *words)
        assert done.returncode == 0, done.stderr
        return page.read_text(encoding="utf-8")

    insights = call_ktui("insights", "--lake", str(lake)).stdout
    assert "cluster simulated-prod (simulated): 1 run" in insights
    assert "cluster prod: 1 run" in insights
    assert f"no run was simulated under other limits: {SIMULATE}" in insights
    several = call_ktui("pipeline", "report", "--lake", str(lake), "--run", RUN)
    assert f"2 runs are called {RUN}" in several.stderr
    assert several.stderr.count("(simulated)") == 1
    of_run = report("--run", RUN, "--cluster", "simulated-prod")
    assert f"<h1>Run {RUN} (simulated)</h1>" in of_run
    how = 'To do so: ktui pipeline run <span class="whole">--what-if</span>.'
    assert f"Left out: no other limits were played through. {how}" in of_run
    assert "on cluster simulated-prod (simulated), from" in of_run
    assert "<h1>Cluster simulated-prod (simulated)</h1>" in report("--cluster", "simulated-prod")
    of_prod = report("--cluster", "prod")
    assert "<h1>Cluster prod</h1>" in of_prod
    assert "(simulated)" not in of_prod
