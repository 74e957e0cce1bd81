"""A broker's holdings, whatever the plans; and only one that is down and empty is unregistered."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import Broker, LogDir, ReplicaDir
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ClusterPorts, LogDirsAnswer
from ktui.execution import RunRefused
from ktui.execution.broker.status import BrokerFacts, Claims, RunClaim, Stay, find_holdings
from ktui.execution.broker.unregister import unregister
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


BROKER = 3
TPS = [TopicPartition(topic, n) for topic in ("a", "ktui-canary-x", "z") for n in range(3)]
BROKERS = range(1, 6)


@st.composite
def states(draw: st.DrawFn, tp: TopicPartition) -> PartitionState:
    others = draw(st.lists(st.sampled_from([1, 2, 4, 5]), unique=True, max_size=3))
    replicas = tuple(draw(st.permutations([BROKER, *others])))
    adding = tuple(draw(st.sets(st.sampled_from(replicas))))
    removing = tuple(b for b in draw(st.sets(st.sampled_from(replicas))) if b not in adding)
    isr = tuple(b for b in replicas if draw(st.booleans()))
    leader = draw(st.sampled_from([None, *isr])) if isr else None
    return PartitionState(tp, "id", replicas, isr, leader, adding=adding, removing=removing)


@st.composite
def facts(draw: st.DrawFn) -> BrokerFacts:
    named = draw(st.sets(st.sampled_from(TPS)))
    on_disk = draw(st.none() | st.dictionaries(st.sampled_from(TPS), st.integers(0, 1000)))
    answer = None
    if on_disk is not None:
        replicas = {tp: ReplicaDir("/d", size) for tp, size in on_disk.items()}
        answer = LogDirsAnswer((LogDir(BROKER, "/d"),), replicas)
    return BrokerFacts(
        id=BROKER,
        cluster_id="c",
        brokers={b: Broker(b) for b in BROKERS},
        states={tp: draw(states(tp)) for tp in sorted(named)},
        on_disk=answer,
    )


claims = st.dictionaries(
    st.sampled_from(TPS),
    st.builds(RunClaim, run=st.just("drain"), in_flight=st.booleans(), keeps=st.booleans()),
)


@given(facts(), claims)
def test_every_replica_that_metadata_or_the_disk_names_is_held_once(
    facts: BrokerFacts, claims: Claims
) -> None:
    held = find_holdings(facts, claims)
    on_disk = frozenset() if facts.on_disk is None else facts.on_disk.replicas.keys()

    assert [each.tp for each in held.replicas] == sorted(facts.states.keys() | on_disk)
    assert sum(len(topic.replicas) for topic in held.topics()) == len(held.replicas)
    assert sum(held.count(why) for why in Stay) == len(held.replicas)


@given(facts(), claims)
def test_a_replica_leaves_only_by_a_reassignment_a_plan_or_with_its_canary(
    facts: BrokerFacts, claims: Claims
) -> None:
    for each in find_holdings(facts, claims).replicas:
        state, claim = facts.states.get(each.tp), claims.get(each.tp)
        if each.why.leaves:
            assert state is not None
            planned = claim is not None and not claim.keeps
            assert BROKER in state.removing or planned or each.tp.topic.startswith("ktui-canary-")
        if state is not None and BROKER in state.adding:
            assert each.why is Stay.ARRIVING
        if each.why is Stay.STRAY:
            assert state is None


@given(facts(), claims)
def test_topics_are_ordered_by_bytes_and_the_sum_is_that_of_the_topics(
    facts: BrokerFacts, claims: Claims
) -> None:
    held = find_holdings(facts, claims)
    sizes = [topic.bytes for topic in held.topics()]

    known = [size or 0 for size in sizes]
    assert known == sorted(known, reverse=True)
    assert held.bytes == (None if None in sizes else sum(known))
