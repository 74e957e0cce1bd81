"""Before and after a plan: nothing is lost from the sums, whatever the cluster and the plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.planning.intents.layout import Layout, before_after
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.replication_factor import BrokerPool

BROKERS = range(1, 7)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
SIZES = st.none() | st.integers(0, 10**12)
PARTITIONS = st.lists(st.tuples(LISTS, st.none() | LISTS, SIZES), max_size=12)
"""Of each partition the replicas, those of the plan if it has the partition, and the size."""


@settings(max_examples=200)
@given(PARTITIONS, st.lists(st.sampled_from([None, "a", "b"]), min_size=6, max_size=6))
def test_the_sums_of_brokers_and_racks_are_those_of_the_replica_lists(
    partitions: list[tuple[tuple[int, ...], tuple[int, ...] | None, int | None]],
    racks: list[str | None],
) -> None:
    tps = [TopicPartition("orders", number) for number in range(len(partitions))]
    known = dict(zip(tps, partitions, strict=True))
    of_brokers = dict(zip(BROKERS, racks, strict=True))
    layout = Layout(
        partitions={
            tp: PartitionState(tp, None, now, now, now[0]) for tp, (now, _, _) in known.items()
        },
        pool=BrokerPool(online=frozenset(BROKERS), racks=of_brokers),
        known=frozenset(BROKERS),
        sizes={tp: size for tp, (_, _, size) in known.items() if size is not None},
    )
    targets = {tp: target for tp, (_, target, _) in known.items() if target is not None}

    found = before_after(
        layout,
        Plan(tuple(PartitionTarget(tp.topic, tp.partition, to) for tp, to in targets.items())),
    )

    now = {tp: replicas for tp, (replicas, _, _) in known.items()}
    for lists, held in (
        (now, [each.before for each in found.brokers]),
        ({**now, **targets}, [each.after for each in found.brokers]),
    ):
        assert sum(each.replicas for each in held) == sum(map(len, lists.values()))
        assert sum(each.leaders for each in held) == len(lists)
        assert sum(each.bytes for each in held) == sum(
            layout.size(tp) * len(brokers) for tp, brokers in lists.items()
        )
    for rack in found.racks:
        mine = [each for each in found.brokers if each.rack == rack.rack]
        assert rack.after.bytes == sum(each.after.bytes for each in mine)
        assert rack.before.replicas == sum(each.before.replicas for each in mine)
    assert {each.rack for each in found.racks} == {*racks} - {None}
    assert found.bytes == sum(
        layout.size(tp) * len({*to} - {*now[tp]}) for tp, to in targets.items()
    )
