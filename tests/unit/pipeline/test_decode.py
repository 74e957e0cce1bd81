"""A segment becomes rows: each line, each sample, and everything unreadable."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from ktui.pipeline.ingest import decode as decoding
from ktui.pipeline.ingest.decode import ALL, KINDS, SegmentSelection, rows_of
from ktui.recording.lines import Head, Line
from support.pipeline.lake_recordings import looks, record
from support.recordings.faulty_segments import summed, unsummed


@pytest.fixture
def texts(tmp_path: Path) -> list[bytes]:
    """The lines of a recording: a head, five polls, an end."""
    (segment,) = record(tmp_path / "recorded", looks(5)).iterdir()
    return gzip.decompress(segment.read_bytes()).splitlines(keepends=True)


def batches_of(path: str, content: bytes) -> Iterator[pa.RecordBatch]:
    return decoding._batches(path, content, ALL, to_arrow_schema(decoding.DECODED))


def rows(texts: Iterable[bytes], kind: str) -> list[dict[str, Any]]:
    content = gzip.compress(b"".join(texts))
    names = KINDS[kind].names
    found = (row for each, row in rows_of("/x/000000.jsonl.gz", content) if each == kind)
    return [dict(zip(names, row, strict=True)) for row in found]


def test_each_line_becomes_a_row_with_its_position(texts: list[bytes]) -> None:
    decoded_rows = rows(texts, "line")

    assert [row["kind"] for row in decoded_rows] == ["head", *["look"] * 5, "end"]
    assert [row["seq"] for row in decoded_rows] == list(range(7))
    assert [row["line"] for row in decoded_rows] == list(range(1, 8))
    assert all(row["decoded"] for row in decoded_rows)
    assert [row["reassigning"] for row in decoded_rows[1:6]] == [3] * 5


def test_each_partition_of_a_poll_becomes_a_sample_with_its_figures(texts: list[bytes]) -> None:
    samples = rows(texts, "sample")

    assert len(samples) == 15
    last = samples[-1]
    assert (last["topic"], last["partition"], last["adding"]) == ("orders", 2, (4,))
    assert last["ends"] == [(1, 1_000_000, 4_000), (4, 4_000, 4_000)]
    assert (last["log_start"], last["log_start_read_t"]) == (0, 4_000)
    assert last["t"] == last["ms"] == 4_000


def test_a_broker_that_is_down_is_listed_in_samples_with_replicas_on_it(tmp_path: Path) -> None:
    (segment,) = record(tmp_path, looks(1, down=[3, 7])).iterdir()

    samples = rows([gzip.decompress(segment.read_bytes())], "sample")

    assert [row["down"] for row in samples] == [[3]] * 3


def test_a_damaged_poll_is_quarantined_with_those_that_build_on_it(texts: list[bytes]) -> None:
    texts[3] = texts[3].replace(b'"ms"', b'"mz"')

    assert [row["line"] for row in rows(texts, "quarantine")] == [4, 5, 6]
    assert [row["seq"] for row in rows(texts, "sample")] == [1, 1, 1, 2, 2, 2]
    assert [row["decoded"] for row in rows(texts, "line")] == [True] * 3 + [False] * 2 + [True]


def test_a_missing_poll_makes_later_ones_unusable_until_a_complete_one(tmp_path: Path) -> None:
    (segment,) = record(tmp_path, looks(6), whole_every_s=4.0).iterdir()
    texts = gzip.decompress(segment.read_bytes()).splitlines(keepends=True)
    del texts[2]

    assert [row["line"] for row in rows(texts, "quarantine")] == [3, 4]
    assert sorted({row["seq"] for row in rows(texts, "sample")}) == [1, 5, 6]


def test_a_duplicate_line_is_decoded_once(texts: list[bytes]) -> None:
    twice = [*texts[:3], texts[2], *texts[3:], *texts]

    assert rows(twice, "quarantine") == []
    assert len(rows(twice, "line")) == 15
    plain = [{**row, "line": 0, "segment": ""} for row in rows(texts, "sample")]
    assert [{**row, "line": 0, "segment": ""} for row in rows(twice, "sample")] == plain


def test_lines_without_a_head_are_quarantined(texts: list[bytes]) -> None:
    bad = rows(texts[1:], "quarantine")

    assert {row["reason"] for row in bad} == {"there is no head before it"}
    assert {row["cluster_id"] for row in bad} == {"unknown"}
    assert rows(texts[1:], "line") == []


def test_only_the_beginning_of_a_bad_line_is_kept(texts: list[bytes]) -> None:
    texts[3] = b"\xff" + b"x" * 5_000 + b"\n"

    text = rows(texts, "quarantine")[0]["text"]

    assert text.startswith("\ufffdxxx")
    assert len(text) == 200


@pytest.mark.parametrize("cluster_id", ["", "__HIVE_DEFAULT_PARTITION__", "%" * 100])
def test_a_cluster_id_that_cannot_name_a_folder_is_quarantined(
    texts: list[bytes], cluster_id: str
) -> None:
    head = unsummed(
        texts[0].replace(b'"cluster_id":"a-cluster"', b'"cluster_id":"%b"' % cluster_id.encode())
    )
    texts[0] = summed(head)

    assert [row["reason"] for row in rows(texts, "quarantine")] == [
        "its cluster's id can be no folder's name; the rest is left out"
    ]
    assert rows(texts, "line") == []


def test_the_samples_of_a_segment_are_bounded(
    texts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_SAMPLES", 7)

    assert len(rows(texts, "sample")) == 9
    (decoded_rows,) = rows(texts, "quarantine")
    assert decoded_rows["reason"] == "it holds more than 7 samples; the rest is left out"


def test_a_row_too_large_for_its_table_is_quarantined_and_the_rest_is_kept(
    texts: list[bytes],
) -> None:
    """A throttle of 10^30 bytes a second, in the middle of others."""
    look = unsummed(texts[2]).removesuffix(b"}")
    texts[2] = summed(
        look + b',"broker_configs":{"1":{"leader_throttle_rate":1' + b"0" * 30 + b"}}}"
    )
    texts[3] = summed(unsummed(texts[3]).removesuffix(b"}") + b',"broker_configs":{"1":null}}')
    content = gzip.compress(b"".join(texts))

    batches = list(batches_of("/x", content))

    kinds = [row["kind"] for batch in batches for row in batch.to_pylist()]
    assert sorted(set(kinds)) == ["file", "line", "quarantine", "sample"]
    assert kinds.count("line") == 7
    assert kinds.count("sample") == 12
    bad = [row["quarantine"] for batch in batches for row in batch.to_pylist() if row["quarantine"]]
    assert [(row["line"], row["reason"]) for row in bad] == [
        (3, "a figure in it is larger than a table holds")
    ] * 3


def test_a_truncated_file_of_any_length_becomes_rows(texts: list[bytes]) -> None:
    whole = gzip.compress(b"".join(texts), mtime=0)

    for length in range(0, len(whole), 7):
        for kind, row in rows_of("x", whole[:length]):
            assert len(row) == len(KINDS[kind].names)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (ALL, True),
        (SegmentSelection(since_ms=1_500), True),
        (SegmentSelection(since_ms=2_001), False),
        (SegmentSelection(until_ms=999), False),
        (SegmentSelection(until_ms=1_000), True),
        (SegmentSelection(clusters=frozenset({"one"})), True),
        (SegmentSelection(clusters=frozenset({"other"})), False),
    ],
)
def test_a_segment_is_selected_by_its_cluster_and_its_times(
    choice: SegmentSelection, *, wanted: bool
) -> None:
    head: Line = Head(
        seq=0, at=1_000, ms=0, schema_version=1, session="s", segment=0, cluster_id="one"
    )
    assert isinstance(head, Head)

    assert choice.wants(head, [1_000, 2_000]) is wanted
