"""The lake: its files, versions and places."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.forecast.replay import (
    CaughtUp,
    EtaReplay,
    Forecast,
    SavedState,
    SessionStream,
    decode_state,
    encode_state,
)
from ktui.pipeline.ingest.segments import with_checksums, without_copies
from ktui.pipeline.lake.files import FileState, HadoopFiles, ListedFile, LocalFiles, local_path
from ktui.pipeline.lake.folders import VERSION
from ktui.pipeline.lake.lake import STAGING, NewVersion, read_manifest, replace_in_version
from ktui.pipeline.lake.manifest import (
    NAME,
    DataFile,
    LakeLocked,
    Manifest,
    PipelineProblem,
    SegmentRead,
    TablePart,
    encode,
)
from ktui.pipeline.lake.schema import check_nulls, footer_of
from ktui.pipeline.lake.sizing import Sizing
from ktui.pipeline.lake.tables import STATES
from ktui.pipeline.report.lake import ArrowLake
from support.recordings.taped_runs import Tape, tapes_of_runs


class Store(HadoopFiles):
    """An object store in memory, without a lock; or a disk, whose lock keeps others away."""

    uri = "s3a://bucket/lake"

    def __init__(self, *, locks: bool = False) -> None:
        self.locks = locks
        self.objects: dict[str, bytes] = {}
        self.overtakes: NewVersion | None = None
        """A run that commits right before the next object is written."""

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def state(self, name: str) -> FileState:
        there = self.objects.get(name)
        return FileState(None if there is None else sha256(there).hexdigest())

    def replace(self, name: str, content: bytes, state: FileState | None = None) -> bool:
        other, self.overtakes = self.overtakes, None
        if other is not None:
            other.commit([read("other")])
        if state is not None and state != self.state(name):
            return False
        self.objects[name] = content
        return True

    def folders(self, name: str) -> list[str]:
        under = f"{name}/" if name else ""
        inside = (each.removeprefix(under) for each in self.objects if each.startswith(under))
        return sorted({each.split("/")[0] for each in inside if "/" in each})

    def files(self, name: str) -> list[str]:
        inside = (each.rpartition("/") for each in self.objects)
        return sorted(file for folder, _, file in inside if folder == name)

    def remove(self, name: str) -> None:
        for each in [each for each in self.objects if f"{each}/".startswith(f"{name}/")]:
            del self.objects[each]

    def check(self, manifest: Manifest) -> None:
        assert manifest.version >= 0


def begun(store: Store) -> NewVersion:
    before = read_manifest(store) or Manifest()
    return NewVersion(cast("SparkSession", None), store, before, cast("Sizing", None))


def read(name: str) -> SegmentRead:
    return SegmentRead(f"s3a://bucket/{name}.jsonl.gz", 1, 1, name)


def committed(store: Store, versions: int) -> Store:
    for number in range(versions):
        begun(store).commit([read(f"segment-{number}")])
    return store


@pytest.mark.parametrize("versions", [0, 2])
def test_the_later_of_two_runs_is_refused_and_the_lake_keeps_the_earlier_ones(
    versions: int,
) -> None:
    store = committed(Store(), versions)
    earlier, later = begun(store), begun(store)
    kept = earlier.commit([read("earlier")])

    with pytest.raises(
        LakeLocked, match=f"written version {versions + 1} meanwhile.* Run it again"
    ):
        later.commit([read("later")])

    assert read_manifest(store) == kept
    assert begun(store).commit([read("later")]).segments[-2:] == (read("earlier"), read("later"))


@pytest.mark.parametrize("versions", [0, 2])
def test_a_run_that_is_overtaken_as_it_writes_the_manifest_is_refused_by_the_store(
    versions: int,
) -> None:
    store = committed(Store(), versions)
    later = begun(store)
    store.overtakes = begun(store)

    with pytest.raises(LakeLocked, match=f"written version {versions + 1} meanwhile"):
        later.commit([read("later")])

    found = read_manifest(store)
    assert found is not None
    assert found.segments[versions:] == (read("other"),)


@pytest.mark.parametrize("locks", [False, True])
def test_a_run_removes_the_folders_of_dead_runs_but_of_none_that_may_be_writing(
    locks: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    store = committed(Store(locks=locks), 2)
    folders = [f"{VERSION}{number:06}-{number:08x}" for number in range(1, 5)]
    for name in folders:
        store.objects[f"samples/{name}/cluster_id=one/part-0.parquet"] = b""
        store.objects[f"{STAGING}/{name}/rows/part-0.parquet"] = b""

    begun(store).commit([read("third")])

    left = [] if locks else folders[2:]  # the third version is this one, the fourth comes later
    assert store.folders("samples") == ["_delta_log", *left]
    assert store.folders(STAGING) == left
    assert NAME in store.objects


def test_the_delta_log_of_a_table_has_the_versions_that_the_lake_has() -> None:
    store = committed(Store(), 4)

    assert store.files("moves/_delta_log") == [
        f"{number:020}.{kind}" for number in (3, 4) for kind in ("checkpoint.parquet", "json")
    ]


def test_the_lines_in_the_readmes_follow_a_lake_that_was_moved() -> None:
    store = committed(Store(), 1)
    assert b"'s3://bucket/lake/moves'" in store.objects["moves/README.md"]

    store.uri = "s3a://bucket/other"
    begun(store).commit([read("more")])

    assert b"'s3://bucket/other/moves'" in store.objects["moves/README.md"]


class Overtaken(Store):
    """An object store in which another run writes its version and insights right before ours."""

    def replace(self, name: str, content: bytes, state: FileState | None = None) -> bool:
        other, self.overtakes = self.overtakes, None
        if other is not None:
            later = other.commit([read("other")])
            replace_in_version(self, later, "insights.json", b"later")
        return super().replace(name, content, state)


def test_the_insights_of_a_later_version_are_not_replaced_by_those_of_an_earlier_one() -> None:
    store = Overtaken()
    mine = begun(store).commit([read("mine")])
    store.overtakes = begun(store)

    replace_in_version(store, mine, "insights.json", b"mine")

    assert store.objects["insights.json"] == b"later"
    last = begun(store).commit([read("last")])
    replace_in_version(store, last, "insights.json", b"last")
    assert store.objects["insights.json"] == b"last"


NO_SPARK = cast("SparkSession", None)
"""Files of this machine are read without it."""


def written(path: Path, content: bytes) -> ListedFile:
    path.write_bytes(content)
    return ListedFile(str(path), len(content), 0)


def test_files_with_the_bytes_of_known_segments_or_of_earlier_files_are_copies(
    tmp_path: Path,
) -> None:
    known = SegmentRead("/gone", 3, 0, sha256(b"old").hexdigest())
    files = [
        written(tmp_path / name, content)
        for name, content in (("a", b"old"), ("b", b"new"), ("c", b"new"), ("d", b"longer"))
    ]

    first, copies = without_copies(NO_SPARK, files, [known])

    assert [Path(file.path).name for file in first] == ["b", "d"]
    assert copies == {files[0].path: known.sha256, files[2].path: sha256(b"new").hexdigest()}


def test_a_file_as_long_as_no_other_is_not_read_to_find_copies() -> None:
    missing = [ListedFile(name, length, 0) for name, length in (("/a", 1), ("/b", 2), ("/c", 2))]

    first, copies = without_copies(NO_SPARK, missing, [SegmentRead("/d", 3, 0, "")])

    assert first == missing[:1]
    assert copies == {}


def test_a_file_that_could_not_be_read_is_named_and_the_next_run_tries_again() -> None:
    files = [ListedFile("/a", 1, 5), ListedFile("/b", 2, 6)]

    read, problems = with_checksums(files, {"/a": "f00"})

    assert read == [SegmentRead("/a", 1, 5, "f00")]
    assert problems == ["/b: it could not be read; the next run tries again"]


def write(file: Path, states: list[str | None], run: str | None) -> Path:
    """Write a few of the columns of STATES."""
    rows = pa.table({"state": states, "run": pa.array([run] * len(states), pa.string())})
    pq.write_table(rows, file, row_group_size=2)
    return file


def test_a_null_is_refused_only_where_the_table_allows_none(tmp_path: Path) -> None:
    whole = footer_of(write(tmp_path / "whole", ["adding"] * 3, run=None))
    broken = footer_of(write(tmp_path / "broken", ["adding", None, "stalled", None, None], run="a"))

    check_nulls(STATES, [whole])
    with pytest.raises(PipelineProblem, match=r"states\.state is null in 3 of 5 rows"):
        check_nulls(STATES, [whole, broken])


@pytest.fixture(scope="module")
def tapes() -> list[Tape]:
    """Runs in trouble, cancelled, throttled and killed, as their engines and views saw them."""
    return tapes_of_runs(range(202, 204))


def cut(tape: Tape, items: int) -> list[bytes]:
    """Return a session's segments, of so many lines each."""
    segments = tape.segments(range(0, len(tape.items), items))
    return [gzip.compress(b"".join(lines), compresslevel=1) for lines in segments]


def one_by_one(segments: list[bytes], cluster_id: str) -> Iterator[Forecast | CaughtUp]:
    """Replay each segment from the state saved after the one before."""
    saved = encode_state(SavedState())
    for segment in segments:
        state = decode_state(saved)
        stream, replay = SessionStream(cluster_id, state.place), EtaReplay(state=state.replay)
        yield from replay.replay(stream.events([segment]))
        saved = encode_state(SavedState(stream.place, replay.state))


def test_sessions_cut_in_the_middle_of_moves_have_the_forecasts_of_whole_ones(
    tapes: list[Tape],
) -> None:
    ends = 0
    for tape in tapes:
        segments = cut(tape, items=20)
        events = SessionStream(tape.cluster_id).events(segments)
        at_once = list(EtaReplay().replay(events))
        assert list(one_by_one(segments, tape.cluster_id)) == at_once
        ends += sum(isinstance(each, CaughtUp) for each in at_once)
    assert ends >= 4


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"\x81\xa5place\x01"])
def test_what_is_no_state_is_refused(content: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_state(content)


FOLDER = "moves/lake_version=000001-aa/cluster_id=c"


def lakes_that_lead_out_write(lake: Path, *files: str) -> Path:
    """Write a lake whose manifest names one part with these files."""
    lake.mkdir(exist_ok=True)
    part = TablePart(tuple(DataFile(file, 1) for file in files), 1)
    (lake / NAME).write_bytes(encode(Manifest(version=1, tables={"moves": {"c": part}})))
    return lake


def refusals(lake: Path) -> set[str]:
    """Return how the pipeline and a report refuse a lake."""

    def refusal(open_: object) -> str:
        with pytest.raises(PipelineProblem) as refused:
            open_()  # type: ignore[operator]
        return str(refused.value).removeprefix("file://")

    return {
        refusal(lambda: read_manifest(LocalFiles(lake))),
        refusal(lambda: ArrowLake.open(str(lake))),
        refusal(lambda: ArrowLake.open(f"file://{lake}")).replace("file://", ""),
    }


@pytest.mark.parametrize(
    "file",
    [
        "../secret.parquet",
        "/etc/passwd",
        "/etc/some/deep/file",
        f"{FOLDER}/../x",
        f"{FOLDER}/./x",
        f"{FOLDER}//x",
        "",
        "moves",
        "moves/x",
        FOLDER,
        "s3://bucket/a/b/x",
        "file:/etc/a/b",
        f"{FOLDER}/a\0b",
    ],
)
def test_a_manifest_with_a_file_outside_the_folders_of_tables_is_refused_by_its_entry(
    tmp_path: Path, file: str
) -> None:
    lake = lakes_that_lead_out_write(tmp_path / "lake", file)

    (refusal,) = refusals(lake)

    assert refusal == (
        f"{lake}/{NAME}: the lake cannot be read: tables.moves.c.files: {file!r} leaves the "
        "lake; ktui never writes such an entry. Make a new lake: ktui pipeline run --lake DIR"
    )


def test_a_lake_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema_version":1,"version":3}')

    (refusal,) = refusals(tmp_path)

    assert refusal.endswith("written by another ktui, as version 1; use that ktui")


@pytest.mark.parametrize("link", ["moves", "moves/lake_version=000001-aa", FOLDER, f"{FOLDER}/x"])
def test_a_link_out_of_the_lake_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "secret" / "lake_version=000001-aa" / "cluster_id=c").mkdir(parents=True)
    lake = lakes_that_lead_out_write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / link).parent.mkdir(parents=True, exist_ok=True)
    (lake / link).symlink_to(tmp_path / "secret")

    (refusal,) = refusals(lake)

    assert f"/{NAME}: " in refusal
    assert "leaves the lake" in refusal


@pytest.mark.parametrize("name", [NAME, f"{FOLDER}/file"])
def test_a_named_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    tmp_path: Path, name: str
) -> None:
    lake = lakes_that_lead_out_write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / FOLDER).mkdir(parents=True)
    (lake / name).unlink(missing_ok=True)
    os.mkfifo(lake / name)

    for refusal in refusals(lake):
        assert f"{lake}/{name}" in refusal
        assert "not a regular file" in refusal or "a FIFO, not a file" in refusal


@pytest.mark.parametrize("below", ["", "/README.md", "/_delta_log", "/_delta_log/5.json"])
def test_a_link_that_would_redirect_the_next_version_is_refused(tmp_path: Path, below: str) -> None:
    link = tmp_path / "lake" / f"samples{below}"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path)

    with pytest.raises(PipelineProblem, match=rf"samples{below}: .* leaves the lake"):
        read_manifest(LocalFiles(tmp_path / "lake"))


def test_links_within_the_lake_and_to_the_lake_are_followed(tmp_path: Path) -> None:
    lake = lakes_that_lead_out_write(tmp_path / "lake", f"{FOLDER}/file")
    (lake / FOLDER).mkdir(parents=True)
    (lake / FOLDER / "part").symlink_to(lake / NAME)
    (tmp_path / "by-another-name").symlink_to(lake)

    for place in (lake, tmp_path / "by-another-name"):
        assert ArrowLake.open(str(place)).manifest.version == 1
        assert read_manifest(LocalFiles(place)) is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"schema_version":1,"version":-1}',
        b'{"schema_version":1,"version":1' + b"0" * 5_000 + b"}",
        b'{"schema_version":1,"tables":[]}',
        b'{"schema_version":1,"program":"\xff"}',
    ],
)
def test_an_invalid_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)

    for refusal in refusals(tmp_path):
        assert refusal.startswith(f"{tmp_path}/{NAME}: ")


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/data/lake", "/data/lake"),
        ("/data/a:b", "/data/a:b"),
        ("file:///data/lake", "/data/lake"),
        ("file:/data/lake", "/data/lake"),
        ("hdfs://name:8020/lake", None),
        ("hdfs:///lake", None),
        ("dbfs:/lake", None),
        ("s3a://bucket/lake", None),
    ],
)
def test_a_local_path_is_distinguished_from_a_uri(place: str, path: str | None) -> None:
    assert local_path(place) == (None if path is None else Path(path))


def test_a_local_path_has_no_dots_as_spark_names_its_files_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "below").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "below")
    monkeypatch.chdir(tmp_path / "here")

    assert local_path("../far/x") == tmp_path / "far" / "x"
    assert local_path(f"file://{tmp_path}/here/../far") == tmp_path / "far"
    assert local_path("../link/../x") == tmp_path / "far" / "x"
    assert local_path("../link/x") == tmp_path / "link" / "x"


def test_an_unknown_home_folder_is_named() -> None:
    with pytest.raises(PipelineProblem, match="there is no home folder ~nobody-has-this-name"):
        local_path("~nobody-has-this-name/lake")
