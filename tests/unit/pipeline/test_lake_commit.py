"""Of two runs that start from one version of a lake, one commits, and harms the other in no way."""

from __future__ import annotations

from hashlib import sha256
from typing import cast

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.errors import LakeLocked
from ktui.pipeline.lake.files import FileState
from ktui.pipeline.lake.footer import Footer
from ktui.pipeline.lake.lake import STAGING, VERSION, NewVersion, read_manifest, replace_in_version
from ktui.pipeline.lake.manifest import NAME, DataFile, Manifest, SegmentRead
from ktui.pipeline.lake.sizing import Sizing


class Store:
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

    def data_files(self, folder: str) -> list[DataFile]:
        raise AssertionError(folder)

    def footer(self, name: str) -> Footer:
        raise AssertionError(name)

    def remove(self, name: str) -> None:
        for each in [each for each in self.objects if each.startswith(f"{name}/")]:
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
    assert store.folders("samples") == left
    assert store.folders(STAGING) == left
    assert NAME in store.objects


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
