"""Before and after a plan: what every broker has, over all partitions."""

from __future__ import annotations

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.intents.layout import UNKNOWN_BYTES, BeforeAfter, Holding, Layout, before_after
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.replication_factor import BrokerPool

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
