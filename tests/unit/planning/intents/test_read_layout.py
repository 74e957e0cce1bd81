"""A layout has every partition with its size, and every broker with its room."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import TimedOut
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.planning.intents.layout import LayoutAnswer, read_layout
from ktui.simulated import layout as events
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.reader import SimulatedReader
from support.simulated.moving_clusters import a_cluster, move, tp, wait

SIZE = 1_000_000_000
DISK = 1_000 * 1024**3


def orders() -> SimulatedCluster:
    return a_cluster({"orders": [(1, 2, 3), (2, 3, 1)], "payments": [(5, 6, 7)]})


async def test_every_partition_has_its_size_and_every_broker_its_room() -> None:
    answer = await read_layout(orders().reader())

    layout = answer.layout
    assert answer.failures == ()
    assert layout.sizes == dict.fromkeys(map(tp, ("orders-0", "orders-1", "payments-0")), SIZE)
    assert layout.disks == dict.fromkeys(range(1, 10), DISK)
    assert (layout.room[1], layout.room[5], layout.room[9]) == (DISK - 2 * SIZE, DISK - SIZE, DISK)
    assert layout.known == layout.pool.online == frozenset(range(1, 10))
    assert layout.pool.replicas[1] == 2


async def test_a_partition_that_is_being_reassigned_has_its_reassignment() -> None:
    cluster = orders()
    cluster.do(move("orders-0", 4, 2, 3))
    wait(cluster, 1.0)

    layout = (await read_layout(cluster.reader())).layout

    assert layout.partitions[tp("orders-0")].target == (4, 2, 3)
    assert layout.partitions[tp("orders-0")].adding == (4,)


async def test_a_broker_that_is_down_is_not_asked_and_is_known() -> None:
    cluster = orders()
    cluster.do(events.Shutdown(1))
    wait(cluster, 5.0)

    answer = await read_layout(cluster.reader())

    assert answer.failures == ()
    assert 1 not in answer.layout.room
    assert 1 in answer.layout.known
    assert 1 not in answer.layout.pool.online
    assert answer.layout.sizes[tp("orders-0")] == SIZE


class Answers(SimulatedReader):
    """Brokers of which some report other log dirs, or none."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        silent: Collection[int] = (),
        log_dirs: Collection[LogDir] | None = None,
        sizes: dict[int, int] | None = None,
    ) -> None:
        super().__init__(cluster)
        self._silent = silent
        self._log_dirs = log_dirs
        self._sizes = sizes or {}

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        if broker in self._silent:
            raise TimedOut("reading log dirs", where=f"broker {broker}", answer="nothing for 5 s")
        answer = await super().log_dirs(broker, partitions)
        found = answer.log_dirs
        if broker == 1 and self._log_dirs is not None:
            found = tuple(self._log_dirs)
        size = self._sizes.get(broker)
        sized = {
            each: msgspec.structs.replace(replica, size=size or replica.size)
            for each, replica in answer.replicas.items()
        }
        return LogDirsAnswer(found, sized)


async def layout_with(**answers: Any) -> LayoutAnswer:
    return await read_layout(Answers(orders(), **answers))


async def test_the_size_of_a_partition_is_that_of_its_leader() -> None:
    layout = (await layout_with(sizes={1: 5, 2: 7, 3: 9})).layout

    assert (layout.size(tp("orders-0")), layout.size(tp("orders-1"))) == (5, 7)


async def test_without_an_answer_of_its_leader_the_largest_replica_is_the_size() -> None:
    layout = (await layout_with(silent={1}, sizes={2: 7, 3: 9})).layout

    assert layout.size(tp("orders-0")) == 9


async def test_a_silent_broker_is_a_failure_with_its_reason_and_has_no_room() -> None:
    answer = await layout_with(silent={5, 6, 7})

    assert [each.broker for each in answer.failures] == [5, 6, 7]
    assert "nothing for 5 s" in answer.failures[0].sentence
    assert tp("payments-0") not in answer.layout.sizes
    assert {5, 6, 7}.isdisjoint(answer.layout.room)
    assert {5, 6, 7} <= answer.layout.pool.online


@pytest.mark.parametrize(
    ("log_dirs", "room", "disk"),
    [
        ([LogDir(1, "/a", None, 100, 60), LogDir(1, "/b", None, 100, 30)], 90, 200),
        ([LogDir(1, "/a", None, 100, 60), LogDir(1, "/b", "offline")], 60, 100),
        ([LogDir(1, "/a", None, 100, 60), LogDir(1, "/b", None, 100, 30, cordoned=True)], 60, 100),
        ([LogDir(1, "/a", None, 100, 60), LogDir(1, "/b")], None, None),
        ([LogDir(1, "/a", None, 100, 60, cordoned=True)], 0, None),
    ],
    ids=["two", "one offline", "one cordoned", "one of unknown size", "all cordoned"],
)
async def test_room_is_that_of_the_log_dirs_that_work_and_are_not_cordoned(
    log_dirs: list[LogDir], room: int | None, disk: int | None
) -> None:
    layout = (await layout_with(log_dirs=log_dirs)).layout

    assert (layout.room.get(1), layout.disks.get(1)) == (room, disk)
