"""The layout as it is read, and before and after a plan."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import TimedOut
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import LogDirsAnswer
from ktui.planning.intents.drain import drain, replication_factor
from ktui.planning.intents.layout import (
    UNKNOWN_BYTES,
    BeforeAfter,
    Holding,
    Layout,
    before_after,
    read_layout,
)
from ktui.planning.intents.leader_flow import demote
from ktui.planning.intents.made_plan import MadePlan, Wishes, left_lines
from ktui.planning.intents.shares import fill
from ktui.planning.intents.spread import By, spread
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.replication_factor import BrokerPool
from ktui.simulated import layout as events
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.reader import SimulatedReader
from support.layouts import healthy, left, targets
from support.layouts import layout as layouts_layout
from support.simulated.moving_clusters import a_cluster, move, tp, wait

SIZE = 1_000_000_000
DISK = 1_000 * 1024**3


def orders() -> SimulatedCluster:
    return a_cluster({"orders": [(1, 2, 3), (2, 3, 1)], "payments": [(5, 6, 7)]})


async def test_every_partition_has_its_size_and_every_broker_its_room() -> None:
    layout = await read_layout(orders().reader())

    assert layout.failures == ()
    assert layout.sizes == dict.fromkeys(map(tp, ("orders-0", "orders-1", "payments-0")), SIZE)
    assert layout.disks == dict.fromkeys(range(1, 10), DISK)
    assert (layout.room[1], layout.room[5], layout.room[9]) == (DISK - 2 * SIZE, DISK - SIZE, DISK)
    assert layout.known == layout.pool.online == frozenset(range(1, 10))
    assert layout.pool.replicas[1] == 2


async def test_a_partition_that_is_being_reassigned_has_its_reassignment() -> None:
    cluster = orders()
    cluster.do(move("orders-0", 4, 2, 3))
    wait(cluster, 1.0)

    layout = await read_layout(cluster.reader())

    assert layout.partitions[tp("orders-0")].target == (4, 2, 3)
    assert layout.partitions[tp("orders-0")].adding == (4,)


async def test_a_broker_that_is_down_is_not_asked_and_is_known() -> None:
    cluster = orders()
    cluster.do(events.Shutdown(1))
    wait(cluster, 5.0)

    layout = await read_layout(cluster.reader())

    assert layout.failures == ()
    assert 1 not in layout.room
    assert 1 in layout.known
    assert 1 not in layout.pool.online
    assert layout.sizes[tp("orders-0")] == SIZE


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


async def layout_with(**answers: Any) -> Layout:
    return await read_layout(Answers(orders(), **answers))


async def test_the_size_of_a_partition_is_that_of_its_leader() -> None:
    layout = await layout_with(sizes={1: 5, 2: 7, 3: 9})

    assert (layout.size(tp("orders-0")), layout.size(tp("orders-1"))) == (5, 7)


async def test_without_an_answer_of_its_leader_the_largest_replica_is_the_size() -> None:
    layout = await layout_with(silent={1}, sizes={2: 7, 3: 9})

    assert layout.size(tp("orders-0")) == 9


async def test_a_silent_broker_is_a_failure_with_its_reason_and_has_no_room() -> None:
    layout = await layout_with(silent={5, 6, 7})

    assert [each.broker for each in layout.failures] == [5, 6, 7]
    assert "nothing for 5 s" in layout.failures[0].sentence
    assert tp("payments-0") not in layout.sizes
    assert {5, 6, 7}.isdisjoint(layout.room)
    assert {5, 6, 7} <= layout.pool.online


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
    layout = await layout_with(log_dirs=log_dirs)

    assert (layout.room.get(1), layout.disks.get(1)) == (room, disk)


GIB = 1024**3
MOVED = Plan((PartitionTarget("orders", 0, (4, 2)),))
"""orders-0 from brokers 1 and 2 to brokers 4 and 2."""


def layout(*, sizes: dict[str, int] | None = None, racks: dict[int, str | None] | None = None,
           moving: bool = False) -> Layout:  # fmt: skip
    state = PartitionState(TopicPartition("orders", 0), None, (1, 2), (1, 2), 1)
    if moving:
        state = PartitionState(state.tp, None, (3, 2, 1), (1, 2), 1, adding=(3,), removing=(1,))
    other = PartitionState(TopicPartition("orders", 1), None, (2, 3), (2, 3), 3)
    known = {"orders-0": 2 * GIB, "orders-1": 3 * GIB} if sizes is None else sizes
    return Layout(
        partitions={state.tp: state, other.tp: other},
        pool=BrokerPool(online=frozenset({1, 2, 3, 4}), racks=racks or {}),
        known=frozenset({1, 2, 3, 4}),
        sizes={tp: known[str(tp)] for tp in (state.tp, other.tp) if str(tp) in known},
    )


def of(found: BeforeAfter, broker: int) -> tuple[Holding, Holding]:
    (one,) = (each for each in found.brokers if each.broker == broker)
    return one.before, one.after


def has(bytes_: int, replicas: int, leaders: int) -> Holding:
    return Holding(bytes=bytes_, replicas=replicas, leaders=leaders)


def test_every_broker_has_its_replicas_bytes_and_preferred_leaders_before_and_after() -> None:
    found = before_after(layout(), MOVED)

    assert [each.broker for each in found.brokers] == [1, 2, 3, 4]
    assert of(found, 1) == (has(2 * GIB, 1, 1), has(0, 0, 0))
    assert of(found, 2) == (has(5 * GIB, 2, 1), has(5 * GIB, 2, 1))
    assert of(found, 3) == (has(3 * GIB, 1, 0), has(3 * GIB, 1, 0))
    assert of(found, 4) == (has(0, 0, 0), has(2 * GIB, 1, 1))


def test_the_replicas_bytes_and_leaders_that_move_are_counted() -> None:
    found = before_after(layout(), MOVED)

    assert (found.replicas, found.bytes, found.leaders) == (1, 2 * GIB, 1)


def test_another_order_moves_a_leader_and_copies_nothing() -> None:
    found = before_after(layout(), Plan((PartitionTarget("orders", 0, (2, 1)),)))

    assert (found.replicas, found.bytes, found.leaders) == (0, 0, 1)
    assert of(found, 1)[1] == has(2 * GIB, 1, 0)


def test_a_partition_that_is_being_reassigned_counts_with_the_replicas_that_it_is_to_have() -> None:
    found = before_after(layout(moving=True), Plan(()))

    assert of(found, 1)[0] == has(0, 0, 0)
    assert of(found, 3)[0] == has(5 * GIB, 2, 1)


def test_a_partition_of_unknown_size_counts_with_the_size_that_plans_assume() -> None:
    found = before_after(layout(sizes={"orders-1": GIB}), MOVED)

    assert (found.sizes_unknown, found.bytes) == (1, UNKNOWN_BYTES)
    assert of(found, 1)[0] == has(UNKNOWN_BYTES, 1, 1)


def test_a_rack_has_what_its_brokers_have_and_brokers_without_one_are_in_none() -> None:
    found = before_after(layout(racks={1: "a", 2: "a", 3: "b", 4: None}), MOVED)

    assert [each.rack for each in found.racks] == ["a", "b"]
    assert (found.racks[0].before, found.racks[0].after) == (has(7 * GIB, 3, 2), has(5 * GIB, 2, 1))
    assert found.racks[1].before == found.racks[1].after == has(3 * GIB, 1, 0)


def test_without_racks_there_are_no_figures_of_racks() -> None:
    assert before_after(layout(), MOVED).racks == ()


def test_a_broker_that_is_down_is_among_the_brokers() -> None:
    down = layout()
    states = {**down.partitions}
    gone = PartitionState(TopicPartition("orders", 2), None, (9,), (), None, offline=(9,))

    found = before_after(
        Layout(
            partitions={**states, gone.tp: gone},
            pool=down.pool,
            known=down.known | {9},
            sizes=down.sizes,
        ),
        Plan(()),
    )

    assert of(found, 9)[0] == has(UNKNOWN_BYTES, 1, 1)


ANY = Wishes()


def drained(*lists: Brokers, gone: set[int]) -> MadePlan:
    return drain(layouts_layout(healthy(*lists), brokers=range(1, 5), refused=[4]), gone, ANY)


def test_a_cordoned_broker_is_drained() -> None:
    made = drained((4, 1), (2, 4), gone={4})

    assert [*targets(made)] == ["a-0", "a-1"]
    assert not any(4 in brokers for brokers in targets(made).values())
    assert made.left == ()


def test_another_broker_is_drained_of_all_that_shares_no_partition_with_a_cordoned_one() -> None:
    made = drained((1, 2), (1, 4), gone={1})

    assert targets(made) == {"a-0": (2, 3)}
    assert left(made) == {("a-1", 1, "cordoned")}
    (line,) = left_lines(made.left)
    assert line == (
        "1 replica stays as it is: its list would name a cordoned broker, and Kafka refuses every "
        "such list; lift the cordon first: ktui broker uncordon 4 (a-1 on broker 1)."
    )


def test_both_brokers_of_a_partition_are_drained_or_neither() -> None:
    room = {1: 0, 2: 0, 3: 1}
    cluster = layouts_layout(healthy((1, 4)), brokers=range(1, 5), refused=[4], room=room)

    made = drain(cluster, {1, 4}, ANY)

    assert targets(made) == {}
    assert {why for _, _, why in left(made)} >= {"cordoned"}


@pytest.mark.parametrize("demoted", [1, 4])
def test_no_order_is_changed_that_has_a_cordoned_broker(demoted: int) -> None:
    made = demote(layouts_layout(healthy((1, 4), (4, 1)), refused=[4]), [demoted], ANY)

    assert targets(made) == {}
    assert {why for _, _, why in left(made)} == {"cordoned"}


@pytest.mark.parametrize("factor", [2, 4])
def test_another_replication_factor_leaves_partitions_on_a_cordoned_broker(factor: int) -> None:
    cluster = layouts_layout(healthy((1, 2, 4), (1, 2, 3)), refused=[4])

    made = replication_factor(cluster, ["a"], factor, ANY)

    assert [*targets(made)] == ["a-1"]
    assert left(made) == {("a-0", None, "cordoned")}


def test_a_broker_is_filled_from_a_cordoned_one_and_not_beside_it() -> None:
    cluster = layouts_layout(healthy((1, 4), (1, 4), (1, 4)), brokers=range(1, 5), refused=[4])

    made = fill(cluster, [3], ANY)

    assert targets(made)
    assert not any(4 in brokers for brokers in targets(made).values())


@pytest.mark.parametrize("by", [By.BYTES, By.REPLICAS])
def test_a_cordoned_broker_gives_in_a_spread(by: By) -> None:
    cluster = layouts_layout(healthy(*[(1, 4)] * 4), brokers=range(1, 5), refused=[4])

    made = spread(cluster, ANY, None, by)

    assert targets(made)
    assert not any(4 in brokers for brokers in targets(made).values())


def test_where_kafka_accepts_it_a_cordoned_broker_keeps_its_replicas_in_a_drain() -> None:
    cluster = layouts_layout(healthy((1, 4)), brokers=range(1, 5), cordoned=[4])

    assert 4 in targets(drain(cluster, {1}, ANY))["a-0"]
