"""A faulty segment affects only itself: it is named, and all others are read."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from ktui.cli.pipeline import run as job
from ktui.cli.pipeline.verbs import run as command
from ktui.pipeline.ingest import segments
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import Manifest, PipelineProblem, SegmentRead
from ktui.pipeline.lake.tables import QUARANTINE, SAMPLES
from ktui.pipeline.run import run as running
from ktui.pipeline.sql import DuckLake, check
from support.pipeline.follower import Heard, followed
from support.pipeline.lake_rows import into_lake, looks, record, rows
from support.recordings.recordings import put_faulty, summed, unsummed

ODD_NAMES = ("a b", "a\nb", "a\\b", "%41", "a#b?c", "{a,b}", "[a]*", "\u00e9", "c:d/e")


class NoSpark:
    """Stands in for a session that needs no Spark."""

    sparkContext = None  # noqa: N815 - as Spark calls it

    def tell(self, doing: str) -> None:
        """Ignore the progress message."""


@contextmanager
def no_spark(*_: object, **_how: object) -> Iterator[tuple[NoSpark, NoSpark]]:
    yield NoSpark(), NoSpark()


def by_file_name(problems: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Return the problem of each file by file name, without line numbers."""
    found = {}
    for problem in problems:
        path, _, words = problem.partition(": ")
        found[Path(path.rstrip("0123456789").rstrip(":")).name] = words
    return found


@pytest.mark.usefixtures("no_stages")
def test_a_faulty_segment_is_named_and_those_of_all_clusters_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded"
    record(recorded, looks(3, cluster_id="one"))
    record(recorded, looks(3, cluster_id="other"))
    expected = put_faulty(recorded, tmp_path)

    outcome = into_lake(spark, tmp_path / "lake", recorded)

    assert {"one", "other"} <= set(outcome.clusters)
    for cluster in ("one", "other"):
        assert len(rows(tmp_path / "lake", SAMPLES, ["t"], cluster_id=cluster)) == 9
    assert all(problem.startswith(f"{recorded}/") for problem in outcome.problems)
    reported = by_file_name(outcome.problems)
    assert reported.keys() == expected.keys()
    assert {name: reported[name][: len(words)] for name, words in expected.items()} == expected
    assert reported["bomb.jsonl.gz"].endswith(", and 1,000 lines more")
    assert len(rows(tmp_path / "lake", QUARANTINE, ["line"])) < 1_100
    assert outcome.manifest.clusters == ["a-cluster", "one", "other", "unknown"]

    again = into_lake(spark, tmp_path / "lake", recorded)

    assert not again.written
    assert "empty.jsonl.gz" in by_file_name(again.problems)


@pytest.mark.usefixtures("no_stages")
def test_recordings_named_by_a_path_with_dots_are_read_without_a_problem(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorded, lake = record(tmp_path / "recorded", looks(2)), tmp_path / "lake"
    (tmp_path / "here").mkdir()

    outcome = into_lake(spark, lake, tmp_path / "here" / ".." / recorded.relative_to(tmp_path))

    assert outcome.problems == ()
    assert rows(lake, SAMPLES, ["t"])
    assert not into_lake(spark, lake, recorded).written  # the same files by another name


@pytest.mark.usefixtures("no_stages")
def test_a_segment_in_a_newer_format_is_read_as_soon_as_ktui_knows_the_format(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorded, lake = record(tmp_path / "recorded", looks(2)), tmp_path / "lake"
    (segment,) = recorded.iterdir()
    known = segment.read_bytes()
    head, *rest = gzip.decompress(known).splitlines(keepends=True)
    newer = unsummed(head).replace(b'"schema_version":1', b'"schema_version":7')
    segment.write_bytes(gzip.compress(b"".join((summed(newer), *rest))))

    first = into_lake(spark, lake, recorded)

    (entry,) = first.manifest.segments
    assert entry.newer_format == 7
    assert by_file_name(first.problems)[segment.name].startswith("written by a newer ktui")
    (lost,) = check(DuckLake.open(str(lake))).quarantined
    assert lost.startswith("written by a newer ktui, as version 7")
    assert not into_lake(spark, lake, recorded).written

    segment.write_bytes(known)
    found = segments.find(spark, [str(recorded)]).files[0]
    written_by_older = SegmentRead(
        found.path, found.length, found.modified_ms, sha256(known).hexdigest(), newer_format=1
    )
    older = msgspec.structs.replace(first.manifest, segments=(written_by_older,))
    (lake / manifests.NAME).write_bytes(manifests.encode(older))

    again = into_lake(spark, lake, recorded)

    assert [each.newer_format for each in again.manifest.segments] == [None]
    assert again.problems == ()
    assert len(rows(lake, SAMPLES, ["t"])) == 6
    assert check(DuckLake.open(str(lake))).quarantined == {}


@pytest.mark.usefixtures("no_tables")
def test_a_segment_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    for number, name in enumerate(ODD_NAMES):
        (segment,) = record(tmp_path / f"{number}", looks(1, cluster_id=f"c{number}")).iterdir()
        path = tmp_path / "recorded" / f"{name}.jsonl.gz"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(segment, path)

    outcome = into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    assert outcome.problems == ()
    assert len(outcome.clusters) == len(ODD_NAMES)


@pytest.mark.usefixtures("no_tables")
def test_a_segment_that_vanishes_before_it_is_read_does_not_affect_the_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = tmp_path / "recorded" / "stays", tmp_path / "recorded" / "goes"
    record(stays, looks(1))
    (segment,) = record(goes, looks(1, cluster_id="other")).iterdir()
    find = segments.find

    def found(*args: object) -> segments.Found:
        there = find(*args)  # type: ignore[arg-type]
        segment.unlink()
        return there

    monkeypatch.setattr(segments, "find", found)

    outcome = into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    assert outcome.clusters == ("a-cluster",)
    assert outcome.problems == (f"{segment}: it could not be read; the next run tries again",)


def test_a_segment_that_is_too_large_is_not_loaded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "LARGEST", 100)
    (segment,) = record(tmp_path / "recorded", looks(1)).iterdir()

    with pytest.raises(PipelineProblem) as refused:
        into_lake(spark, tmp_path / "lake", tmp_path / "recorded")

    assert "nothing is recorded" in str(refused.value)
    assert f"{segment}: it has " in str(refused.value)


@pytest.mark.usefixtures("no_tables")
def test_a_follower_skips_faulty_segments_and_names_each_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded"
    expected = put_faulty(recorded, tmp_path)
    heard = Heard()

    with followed(spark, heard, tmp_path / "lake", recorded):
        heard.until(lambda: bool(heard.found))
        (recorded / "later.jsonl.gz").touch()
        (segment,) = record(tmp_path / "good", looks(3, cluster_id="one")).iterdir()
        shutil.copy(segment, recorded / "good")
        (recorded / "good").rename(recorded / "good.jsonl.gz")
        heard.until(lambda: any("one" in each.clusters for each in heard.outcomes))
        heard.until(lambda: any("later.jsonl.gz" in each for each in heard.problems))

    assert by_file_name(heard.problems).keys() == {*expected, "later.jsonl.gz"}
    assert len(heard.problems) == len(expected) + 1


def test_the_terminal_lists_skipped_files_and_how_many_more_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = tuple(f"/r/{number}.jsonl.gz: \x1b[2J" for number in range(60))
    outcome = running.PipelineOutcome(
        found=1, read=0, copies=0, unfinished=0, clusters=(), manifest=Manifest(),
        written=False, problems=problems,
    )  # fmt: skip
    monkeypatch.setattr(job, "run", lambda *_: outcome)
    monkeypatch.setattr(job, "_check_executors", lambda *_: None)
    monkeypatch.setattr(job, "spark_for", no_spark)

    done = CliRunner().invoke(command, ["--recordings", __file__, "--lake", str(tmp_path)])

    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert lines[0] == r"ktui: /r/0.jsonl.gz: \x1b[2J"
    assert len(lines) == 51
    assert lines[-1] == "ktui: and 10 more files with something wrong"
