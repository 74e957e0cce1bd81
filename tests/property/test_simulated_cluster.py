"""Whatever happens to a simulated cluster: its invariants hold, and each id has one coordinator."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ktui.cluster.broker import CoordinatedId, coordinating_partition, java_hash, share_state_key
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import LOG_DIR_RATE
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, VERSIONS, BrokerSpec, ClusterSpec, Tide, TopicSpec

BROKERS = range(1, 6)
NET, DISK = 20.0 * MIB, 30.0 * MIB
TOPICS = ("orders", "payments")
PARTITIONS = 3
LOG_DIRS = 3
PATHS = BrokerSpec(id=1, log_dirs=LOG_DIRS).log_dir_paths

ROUNDING = 10  # bytes: sizes are rounded to whole ones

brokers = st.sampled_from(BROKERS)
partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
rates = st.sampled_from((1_000, MIB, 10 * MIB, 100 * MIB))


def a_topic(name: str, inbound: float) -> TopicSpec:
    return TopicSpec(
        name=name,
        replicas=tuple(tuple((p + i) % 5 + 1 for i in range(3)) for p in range(PARTITIONS)),
        bytes_each=200 * MIB,
        inbound=inbound,
    )


def setting(scope: ConfigScope, name: str, key: str, value: str | None) -> layout.AlterConfigs:
    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    return layout.AlterConfigs((ConfigChange(ConfigResource(scope, name), key, op, value),))


class Cluster:
    """A cluster and its clock."""

    def __init__(self, version: str, seed: int) -> None:
        machine = {"net_in": NET, "net_out": NET, "disk_write": DISK}
        spec = ClusterSpec(
            version=version,
            brokers=tuple(
                BrokerSpec(id=b, rack="abc"[b % 3], log_dirs=LOG_DIRS, **machine)  # type: ignore[arg-type] # the numbers of a machine
                for b in BROKERS
            ),
            topics=(a_topic("orders", 0.2 * MIB), a_topic("payments", 0.0)),
            tide=Tide(swing=0.3, period_s=600, noise=0.1),
        )
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(spec, self.clock, seed=seed)

    def do(self, act: layout.OutsideEvent) -> None:
        self.cluster.do(act)

    def move_log_dir(self, broker: int, tp: TopicPartition, path: str) -> None:
        self.cluster.catch_up()
        self.cluster.replication.alter_log_dir(tp, broker, path)

    def wait(self, seconds: float) -> None:
        self.clock.pass_time(seconds)
        self.cluster.catch_up()

    def failed(self, broker: int) -> set[str]:
        return self.cluster.replication.log_dirs(broker).failed

    def seen(self) -> Any:
        """Return everything that a reader can see, once there is a controller."""
        self.wait(2.0)
        return asyncio.run(self._seen())

    async def _seen(self) -> Any:
        reader, up = self.cluster.reader(), self.cluster.machines.up()
        if not up:
            return None
        topics = [page async for page in reader.scan_topics()]
        described = [tp for page in topics for tp in page.partitions]
        live = [b for b in up if not self.cluster.controller.is_fenced(b)]
        offsets = [await reader.log_offsets(b, ends=described, starts=described) for b in live]
        dirs = [await reader.log_dirs(b, described) for b in live]
        return topics, offsets, dirs, await reader.list_reassignments()


class SimulatedClusterMachine(RuleBasedStateMachine):
    """Operators, other tools and failing machines, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Callable[[Cluster], None]] = []
        self.made = ("4.3", 0)
        self.here: Cluster | None = None

    def happens(self, action: Callable[[Cluster], None]) -> None:
        self.history.append(action)
        action(self.it)

    @property
    def it(self) -> Cluster:
        assert self.here is not None
        return self.here

    @initialize(version=st.sampled_from(VERSIONS), seed=st.integers(0, 9))
    def begin(self, version: str, seed: int) -> None:
        self.made = (version, seed)
        self.here = Cluster(version, seed)

    @rule(tp=partitions, replicas=replica_lists)
    def alter(self, tp: TopicPartition, replicas: tuple[int, ...]) -> None:
        self.happens(lambda it: it.do(layout.Alter({tp: replicas})))

    @rule(tp=partitions)
    def cancel(self, tp: TopicPartition) -> None:
        self.happens(lambda it: it.do(layout.Alter({tp: None})))

    @rule(tp=partitions)
    def elect(self, tp: TopicPartition) -> None:
        self.happens(lambda it: it.do(layout.ElectLeaders((tp,))))

    @rule(broker=brokers, act=st.sampled_from((layout.Kill, layout.Shutdown, layout.Hang)))
    def fail(self, broker: int, act: Callable[[int], layout.OutsideEvent]) -> None:
        self.happens(lambda it: it.do(act(broker)))

    @rule(broker=brokers)
    def come_back(self, broker: int) -> None:
        self.happens(lambda it: it.do(layout.Start(broker)))
        self.happens(lambda it: it.do(layout.Resume(broker)))

    @rule()
    def change_controller(self) -> None:
        self.happens(lambda it: it.do(layout.ChangeController()))

    @rule(tp=partitions, messages=st.sampled_from((1, 100_000)))
    def append(self, tp: TopicPartition, messages: int) -> None:
        self.happens(lambda it: it.do(layout.Append(tp, messages)))

    @rule(broker=brokers, share=st.sampled_from((0.01, 0.3, 1.0)))
    def slow(self, broker: int, share: float) -> None:
        self.happens(lambda it: it.do(layout.Slow(broker, share)))

    @rule(topic=st.sampled_from(TOPICS), inbound=st.sampled_from((0.0, 0.1 * MIB, 3.0 * MIB)))
    def write(self, topic: str, inbound: float) -> None:
        self.happens(lambda it: it.do(layout.SetInbound(topic, inbound)))

    @rule(topic=st.sampled_from(TOPICS))
    def recreate(self, topic: str) -> None:
        self.happens(lambda it: it.do(layout.DeleteTopic(topic)))
        self.happens(lambda it: it.do(layout.CreateTopic(a_topic(topic, 0.1 * MIB))))

    @rule(broker=brokers, rate=rates | st.none(), side=st.sampled_from(("leader", "follower")))
    def throttle(self, broker: int, rate: int | None, side: str) -> None:
        key = f"{side}.replication.throttled.rate"
        value = None if rate is None else str(rate)
        self.happens(lambda it: it.do(setting(ConfigScope.BROKER, str(broker), key, value)))

    @rule(broker=brokers, rate=rates | st.none())
    def throttle_log_dirs(self, broker: int, rate: int | None) -> None:
        value = None if rate is None else str(rate)
        self.happens(
            lambda it: it.do(setting(ConfigScope.BROKER, str(broker), LOG_DIR_RATE, value))
        )

    @rule(broker=brokers, tp=partitions, path=st.sampled_from(PATHS))
    def move_log_dir(self, broker: int, tp: TopicPartition, path: str) -> None:
        self.happens(lambda it: it.move_log_dir(broker, tp, path))

    @rule(broker=brokers, path=st.sampled_from(PATHS[1:]))
    def fail_log_dir(self, broker: int, path: str) -> None:
        self.happens(lambda it: it.do(layout.FailLogDir(broker, path)))

    @rule(
        topic=st.sampled_from(TOPICS),
        listed=st.sampled_from(("*", "0:1,0:2,0:3,0:4,0:5", "1:4,2:5", None)),
        side=st.sampled_from(("leader", "follower")),
    )
    def list_throttled(self, topic: str, listed: str | None, side: str) -> None:
        key = f"{side}.replication.throttled.replicas"
        self.happens(lambda it: it.do(setting(ConfigScope.TOPIC, topic, key, listed)))

    @rule(topic=st.sampled_from(TOPICS), unclean=st.booleans(), least=st.integers(1, 3))
    def configure(self, topic: str, *, unclean: bool, least: int) -> None:
        key = "unclean.leader.election.enable"
        value = str(unclean).lower()
        self.happens(lambda it: it.do(setting(ConfigScope.TOPIC, topic, key, value)))
        key_2 = "min.insync.replicas"
        self.happens(lambda it: it.do(setting(ConfigScope.TOPIC, topic, key_2, str(least))))

    @rule(seconds=st.sampled_from((0.05, 1.0, 10.0, 60.0, 400.0)))
    def wait(self, seconds: float) -> None:
        self.happens(lambda it: it.wait(seconds))

    @invariant()
    def records_are_sound(self) -> None:
        if self.here is None:
            return
        controller = self.it.cluster.controller
        for topic in controller.topics.values():
            for known in topic.partitions:
                replicas = set(known.replicas)
                assert known.replicas
                assert len(replicas) == len(known.replicas)
                assert set(known.isr) <= replicas  # not the ELR: Kafka leaves removed ones in it
                assert set(known.adding) | set(known.removing) <= replicas
                assert not set(known.isr) & set(known.elr)
                if known.leader is not None:
                    assert known.leader in known.isr
                    assert not controller.is_fenced(known.leader)

    @invariant()
    def no_follower_is_ahead_and_every_byte_is_accounted_for(self) -> None:
        if self.here is None:
            return
        cluster = self.it.cluster
        for broker in BROKERS:
            held = 0
            for name, topic in cluster.controller.topics.items():
                for number, known in enumerate(topic.partitions):
                    tp = TopicPartition(name, number)
                    end = cluster.replication.end(tp, broker)
                    replica = cluster.replication.replica_dir(tp, broker)
                    assert (end is None) == (replica is None)
                    if end is None or replica is None:
                        assert broker not in known.replicas or self.it.failed(broker)
                        continue
                    assert broker in known.replicas
                    assert replica.path not in self.it.failed(broker)
                    held += replica.size
                    if replica.future is not None:
                        held += replica.future.size
                        assert replica.future.path not in {replica.path, *self.it.failed(broker)}
                        assert replica.future.size <= replica.size + ROUNDING
                    leader_end = known.leader and cluster.replication.end(tp, known.leader)
                    if leader_end is not None and broker in known.isr:
                        assert end <= leader_end
            assert cluster.replication.used(broker) == pytest.approx(held, abs=ROUNDING)

    def teardown(self) -> None:
        if self.here is None:
            return
        twin = Cluster(*self.made)
        for action in self.history:
            action(twin)
        assert twin.seen() == self.it.seen()


TestSimulatedCluster = SimulatedClusterMachine.TestCase
TestSimulatedCluster.settings = settings(stateful_step_count=40)


ids = st.text(st.characters(exclude_categories=()), max_size=12)


def slow_hash(text: str) -> int:
    """Return the hash by its definition in the Java documentation: s[0]*31^(n-1) + ... + s[n-1]."""
    data = text.encode("utf-16-le", "surrogatepass")
    units = [data[n] + 256 * data[n + 1] for n in range(0, len(data), 2)]
    whole = sum(unit * 31 ** (len(units) - 1 - n) for n, unit in enumerate(units))
    low = int(whole % 2**32)
    return low if low < 2**31 else low - 2**32


@given(ids)
@example("polygenelubricants")
def test_the_hash_of_an_id_is_that_of_java(text: str) -> None:
    assert java_hash(text) == slow_hash(text)


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("orders", -1008770331, 31),
        ("Aa", 2112, 12),
        ("BB", 2112, 12),
        ("😀", 1772899, 49),
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_ids_are_in_the_partition_of_fifty_in_which_kafka_has_them(
    text: str, hashed: int, partition: int
) -> None:
    assert java_hash(text) == hashed
    assert coordinating_partition(CoordinatedId(text, hashed), 50) == partition


@pytest.mark.parametrize(
    ("group", "found"), [("g-java", (0, 2, 1, 0, 2, 1)), ("g-py", (1, 0, 2, 1, 0, 2))]
)
def test_state_of_share_groups_is_in_the_partition_of_three_in_which_kafka_4_4_kept_it(
    group: str, found: tuple[int, ...]
) -> None:
    topic_id = "aJ3DPSc8T5CKuPbqlDZZ0Q"
    keys = [share_state_key(group, topic_id, partition) for partition in range(6)]

    assert found == tuple(
        coordinating_partition(CoordinatedId(group, java_hash(key)), 3) for key in keys
    )


@given(ids, st.integers(1, 500))
def test_every_id_has_a_partition(text: str, partitions: int) -> None:
    found = coordinating_partition(CoordinatedId(text, java_hash(text)), partitions)

    assert 0 <= found < partitions
