"""A move of a tiered topic copies what its leader has on disk, as preflight and view say."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope, Verdict
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import remove_throttles, throttle_followers
from ktui.lab.java import find_maven
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest
from ktui.pacing.limits import default_limits
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import FindingKind
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.progress.fold import fold
from ktui.progress.timeline import Lane, Progress
from support.cli.start_sandbox import preflight
from support.contract.world import RealWorld, change, setting, until
from support.kafka.labs import a_lab

pytestmark = pytest.mark.soak

VERSION = "4.3.1"  # the newest Kafka whose tests of the remote storage are published as a jar
MEBIBYTE = 1024 * 1024
WRITTEN = 32 * MEBIBYTE
MESSAGE = 8192
KEPT = 6 * MEBIBYTE  # bytes that stay on a broker's disk at most
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(MEBIBYTE),
    "local.retention.bytes": str(KEPT - MEBIBYTE),
}
FROM_THE_LAST_TIERED = "follower.fetch.last.tiered.offset.enable"  # since Kafka 4.3 (KIP-1023)
TO = 3


@pytest.fixture(scope="module")
def tiered_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers with the remote storage of Kafka's own tests, a folder on this machine."""
    folder = tmp_path_factory.mktemp("tiered")
    settings = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "remote.log.storage.manager.class.path": str(_fetch_tests_of_storage(folder)),
        "rsm.config.dir": str(folder / "remote"),
        "remote.log.metadata.manager.listener.name": "CLIENTS",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "500",
    }
    yield from a_lab(folder / "lab", LabRequest(brokers=3, version=VERSION, settings=settings))


def _fetch_tests_of_storage(folder: Path) -> Path:
    """Fetch the jar with the tests of Kafka's storage through Maven."""
    artifact = f"org.apache.kafka:kafka-storage:{VERSION}:jar:test"
    copy = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    subprocess.run([find_maven(), "--batch-mode", *copy], check=True, capture_output=True)
    return next(folder.glob("*.jar"))


@pytest.fixture
async def tiered_world(tiered_lab: Lab) -> AsyncIterator[RealWorld]:
    world = RealWorld(Connection.to(tiered_lab.bootstrap_servers))
    try:
        yield world
    finally:
        await world.aclose()


@pytest.fixture
async def tp(tiered_world: RealWorld, topic_name: str) -> TopicPartition:
    """A tiered partition on brokers 1 and 2, most of which is in remote storage alone."""
    tp = TopicPartition(topic_name, 0)
    await tiered_world.make_topic(tp.topic, [[1, 2]], TIERED)
    await tiered_world.append(tp, WRITTEN // MESSAGE, MESSAGE)

    async def is_small() -> bool:
        return await _on_disk(tiered_world, tp, 1) <= KEPT

    await until(is_small, limit_s=120)
    return tp


async def test_a_move_of_a_tiered_partition_copies_what_the_preflight_says(
    tiered_lab: Lab, tiered_world: RealWorld, tp: TopicPartition
) -> None:
    plan = Plan((PartitionTarget(tp.topic, 0, (1, TO)),))
    snapshot = await take_snapshot(tiered_world.reader, plan)
    expected = preflight(plan, snapshot, default_limits()).bytes_to_copy

    lanes = await _moved(tiered_world, tp, MEBIBYTE)

    copied = _bytes_of_log(tiered_lab, tp)
    assert [each.kind for each in check_plan(plan, snapshot)] == [FindingKind.TIERED]
    assert expected is not None
    assert copied == pytest.approx(expected, rel=0.1)
    assert len(lanes) > 3
    assert not any(lane.approximate for lane in lanes)
    assert max(lane.lag_bytes or 0 for lane in lanes) <= 1.1 * expected
    assert max(lane.lag_messages or 0 for lane in lanes) <= 1.1 * expected / MESSAGE


async def test_a_follower_that_begins_at_the_last_tiered_offset_is_shown_as_far_as_it_is(
    tiered_lab: Lab, tiered_world: RealWorld, tp: TopicPartition
) -> None:
    enabled = setting(ConfigScope.BROKER, str(TO), FROM_THE_LAST_TIERED, ConfigOp.SET, "true")
    await change(tiered_world, enabled)

    lanes = await _moved(tiered_world, tp, MEBIBYTE // 16)

    copied = _bytes_of_log(tiered_lab, tp)
    assert copied < 0.5 * await _on_disk(tiered_world, tp, 1)
    begun = [lane for lane in lanes if lane.share]
    assert begun
    assert all((lane.lag_bytes or 0) <= 1.1 * copied for lane in begun)


async def _on_disk(world: RealWorld, tp: TopicPartition, broker: int) -> int:
    return (await world.reader.log_dirs(broker, [tp])).sizes[tp]


def _bytes_of_log(lab: Lab, tp: TopicPartition) -> int:
    """Return the bytes of messages in the new replica's folder."""
    folder = lab.log_dirs(lab.node(TO))[0] / str(tp)
    return sum(segment.stat().st_size for segment in folder.glob("*.log"))


async def _moved(world: RealWorld, tp: TopicPartition, bytes_s: int) -> list[Lane]:
    """Move a replica slowly to its end, and return what each poll showed of it."""
    new, lanes, progress = [Replica(tp, TO)], list[Lane](), Progress()
    throttle_followers(world.connection, new, bytes_s=bytes_s)
    results = await world.writer.alter_reassignments(
        {tp: (1, TO)}, allow_replication_factor_change=False
    )
    assert results[tp].verdict is Verdict.ACCEPTED
    async with aclosing(Observer(world.reader, world.clock)) as observer:
        while True:
            progress = fold(progress, await observer.poll(Interest()))
            if tp not in progress.timelines or progress.timelines[tp].phase.ended:
                break
            if (lane := progress.timelines[tp].lanes[TO]).lag_messages is not None:
                lanes.append(lane)
            await world.clock.sleep(0.25)
    remove_throttles(world.connection, new)
    return lanes
