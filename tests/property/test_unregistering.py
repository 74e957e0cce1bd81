"""Whatever others have just done, ktui unregisters only a broker that is down and holds nothing."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution.broker.unregister import unregister
from ktui.execution.errors import RunRefused
from ktui.simulated import layout
from ktui.simulated.layout import MIB, TopicSpec
from support.simulated.clusters import a_cluster, wait

ORDERS = TopicPartition("orders", 0)
LEAVING = 3
replica_lists = st.sampled_from(((1, LEAVING), (LEAVING, 1), (1, 2), (2, 1, LEAVING)))
acts = st.one_of(
    st.builds(lambda target: layout.Alter({ORDERS: target}), replica_lists),
    st.builds(
        lambda replicas: layout.CreateTopic(TopicSpec(name="new", replicas=(replicas,))),
        replica_lists,
    ),
    st.sampled_from(
        (
            layout.Start(LEAVING),
            layout.Kill(LEAVING),
            layout.Alter({ORDERS: None}),
            layout.DeleteTopic("orders"),
        )
    ),
)
history = st.lists(st.tuples(acts, st.sampled_from((0.0, 0.2, 30.0))), max_size=4)


@given(history=history, version=st.sampled_from(("3.9", "4.3")))
def test_no_partition_and_no_live_process_loses_its_broker(
    history: list[tuple[layout.OutsideEvent, float]], version: str
) -> None:
    topic = TopicSpec(name="orders", replicas=((1, 2),), bytes_each=10 * MIB)
    cluster = a_cluster(topics=(topic,), version=version, metadata_lag_s=0.5)
    for act, then_s in ((layout.Shutdown(LEAVING), 30.0), *history):
        cluster.do(act)
        wait(cluster, then_s)
    ports = ClusterPorts(cluster.reader(), cluster.writer())

    try:
        asyncio.run(unregister(ports, LEAVING, cluster.clock, lambda _: ()))
    except RunRefused:
        assert LEAVING in cluster.controller.registered
        return

    assert LEAVING not in cluster.controller.registered
    topics = cluster.controller.topics.values()
    assert all(LEAVING not in p.replicas for topic in topics for p in topic.partitions)
    assert LEAVING not in cluster.machines.up()
