"""Scenario files are read in full; a mistake is named with its line and the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits, Mode, Order, Shape
from ktui.simulated import layout
from ktui.simulated.layout import OutsideEvent, TopicSpec, TopicStart
from ktui.simulated.scenario.file import Scenario
from ktui.simulated.scenario.library import load_scenario

Read = Callable[[str], Scenario]

TWO_TOPICS = """
title: A story
cluster: {brokers: 4}
topics:
  orders: {partitions: 4, size: 1GiB, inbound: 1MB/s}
  audit: {replicas: [[1, 2], [3, 4]]}
"""
AUDIT = ConfigResource(ConfigScope.TOPIC, "audit")
BROKER_1 = ConfigResource(ConfigScope.BROKER, "1")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> Scenario:
        path = tmp_path / "story.yaml"
        path.write_text(text, encoding="utf-8")
        return load_scenario(path)

    return read


def problem(read: Read, text: str) -> FileProblem:
    with pytest.raises(FileProblem) as caught:
        read(text)
    return caught.value


def act(read: Read, written: str) -> OutsideEvent:
    scenario = read(f"{TWO_TOPICS}faults:\n  - at: 1m\n    {written}\n")
    (due,) = scenario.faults
    assert due.at_s == 60
    return due.act


def tp(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


# --- contents of a file ---------------------------------------------------------------------


def test_a_scenario_needs_only_a_title(read: Read) -> None:
    scenario = read("title: Nothing happens\n")

    assert [broker.id for broker in scenario.spec.brokers] == [1, 2, 3]
    assert scenario.plan is None
    assert scenario.speed == 1


def test_every_part_of_a_cluster_can_be_specified(read: Read) -> None:
    spec = read(
        """
title: A cluster
cluster:
  version: 4.1
  name: east
  brokers: [1, {id: 7, rack: z, network-in: 1MB/s, disk: 5GiB}, 9]
  racks: [a, b]
  network-in: 10MB/s
  network-out: 20MB/s
  disk-write: 30MB/s
  disk: 1TiB
  tide: {swing: 30%, period: 1h, noise: 0.1}
  session-timeout: 6s
  replica-lag-time: 3s
  startup: 2s
  metadata-lag: 250ms
  auto-leader-rebalance: false
  rebalance-interval: 10m
  configs: {min.insync.replicas: 2, unclean.leader.election.enable: true}
"""
    ).spec

    first, second, third = spec.brokers
    assert (first.id, first.rack, first.net_in, first.disk_bytes) == (1, "a", 10e6, 2**40)
    assert (second.id, second.rack, second.net_in, second.net_out) == (7, "z", 1e6, 20e6)
    assert second.disk_bytes == 5 * 2**30
    assert (third.rack, third.disk_write) == ("a", 30e6)
    assert type(second.disk_bytes) is int  # a subclass cannot be recorded
    assert (spec.version, spec.name) == ("4.1", "east")
    assert (spec.tide.swing, spec.tide.period_s, spec.tide.noise) == (0.3, 3_600, 0.1)
    assert (spec.session_timeout_s, spec.lag_time_max_s, spec.startup_s) == (6, 3, 2)
    assert (spec.metadata_lag_s, spec.rebalance_interval_s) == (0.25, 600)
    assert spec.auto_leader_rebalance is False
    assert spec.broker_configs == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
    }


def test_topics_are_placed_round_robin_or_as_specified(read: Read) -> None:
    orders, audit = read(TWO_TOPICS).spec.topics

    assert orders == TopicSpec(
        name="orders",
        replicas=((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2)),
        bytes_each=2**30,
        inbound=1e6,
    )
    assert audit.replicas == ((1, 2), (3, 4))


def test_replicas_of_a_partition_are_placed_in_different_racks(read: Read) -> None:
    scenario = read(
        "title: Racks\ncluster: {brokers: 6, racks: [a, a, b, b, c, c]}\n"
        "topics: {orders: {partitions: 12}}\n"
    )
    racks = {broker.id: broker.rack for broker in scenario.spec.brokers}

    for replicas in scenario.spec.topics[0].replicas:
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


def test_a_topic_can_be_restricted_to_some_brokers(read: Read) -> None:
    part = "{partitions: 9, brokers: [2, 4]}"
    (topic,) = read(f"title: x\ncluster: {{brokers: 6}}\ntopics: {{a: {part}}}\n").spec.topics

    assert set(topic.replicas) == {(2, 4), (4, 2)}


def test_many_similar_topics_can_be_written_as_a_range(read: Read) -> None:
    text = "title: Many\ntopics: {'t-{08..11}': {partitions: 2}}\n"

    assert [topic.name for topic in read(text).spec.topics] == ["t-08", "t-09", "t-10", "t-11"]


def test_faults_are_ordered_by_time(read: Read) -> None:
    scenario = read(f"{TWO_TOPICS}faults:\n  - {{at: 2m, start: 3}}\n  - {{at: 30s, kill: 3}}\n")

    assert [(due.at_s, due.act) for due in scenario.faults] == [
        (30, layout.Kill(3)),
        (120, layout.Start(3)),
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("kill: 1", layout.Kill(1)),
        ("shutdown: 1", layout.Shutdown(1)),
        ("start: 1", layout.Start(1)),
        ("hang: 1", layout.Hang(1)),
        ("resume: 1", layout.Resume(1)),
        ("slow: {broker: 2, share: 10%}", layout.Slow(2, 0.1)),
        ("fill-disk: {broker: 2, leave: 1GiB}", layout.FillDisk(2, 2**30)),
        ("change-controller:", layout.ChangeController()),
        ("set-inbound: {topic: orders, inbound: 5MB/s}", layout.SetInbound("orders", 5e6)),
        ("delete-topic: audit", layout.DeleteTopic("audit")),
        ("lose-request:", layout.LoseRequest()),
        ("lose-answer:", layout.LoseAnswer()),
        ("delay-request: 10s", layout.DelayRequest(10)),
        ("deny: log_dirs", layout.Deny("log_dirs")),
        ("allow: alter_configs", layout.Allow("alter_configs")),
        (
            "create-topic: {name: new, replicas: [[1]]}",
            layout.CreateTopic(TopicSpec(name="new", replicas=((1,),))),
        ),
        (
            "elect: ['orders:2', audit]",
            layout.ElectLeaders((tp("orders", 2), tp("audit", 0), tp("audit", 1))),
        ),
        ("cancel: ['audit:1']", layout.Alter({tp("audit", 1): None})),
        (
            "alter: {partitions: [{topic: audit, partition: 0, replicas: [1, 3]}]}",
            layout.Alter({tp("audit", 0): (1, 3)}),
        ),
        (
            "configure: [{topic: audit, key: flush.ms, value: 5}, {broker: 1, key: k, op: delete}]",
            layout.AlterConfigs(
                (
                    ConfigChange(AUDIT, "flush.ms", ConfigOp.SET, "5"),
                    ConfigChange(BROKER_1, "k", ConfigOp.DELETE),
                )
            ),
        ),
    ],
)  # fmt: skip
def test_every_outside_event_can_be_written_as_a_fault(
    read: Read, written: str, meant: OutsideEvent
) -> None:
    assert act(read, written) == meant


def test_a_cancel_of_all_covers_every_partition(read: Read) -> None:
    cancel = act(read, "cancel: all")

    assert isinstance(cancel, layout.Alter)
    assert len(cancel.targets) == 6
    assert set(cancel.targets.values()) == {None}


def test_a_recreated_topic_has_the_same_layout_and_no_data(read: Read) -> None:
    scenario = read(f"{TWO_TOPICS}faults: [{{at: 5s, recreate-topic: orders}}]\n")
    deleted, created = (due.act for due in scenario.faults)

    assert deleted == layout.DeleteTopic("orders")
    assert isinstance(created, layout.CreateTopic)
    assert created.topic.replicas == scenario.spec.topics[0].replicas
    assert created.topic.bytes_each == 0


def test_a_plan_has_a_start_a_throttle_and_limits(read: Read) -> None:
    scenario = read(
        f"""{TWO_TOPICS}
plan:
  start: 90s
  throttle: 30MB/s
  drain: [4]
  limits: {{replicas: 1, partitions: 4, leader-movements: 2, replica-movements: 8, per-broker: 3,
    extra-replicas: 2, cut-together: 5, shape: gentle, mode: wave, order: size-desc}}
"""
    )

    assert scenario.plan is not None
    assert (scenario.plan.start_s, scenario.plan.throttle) == (90, 30e6)
    assert scenario.limits == Limits(
        replicas=1,
        partitions=4,
        leader_movements=2,
        replica_movements=8,
        per_broker=3,
        extra_replicas=2,
        cut_together=5,
        shape=Shape.GENTLE,
        mode=Mode.WAVE,
        order=Order.SIZE_DESC,
    )


def test_a_plan_can_be_pasted_from_kafkas_own_tool(read: Read) -> None:
    move = '{"topic": "audit", "partition": 1, "replicas": [1, 4], "log_dirs": ["any", "any"]}'
    scenario = read(f'{TWO_TOPICS}plan: {{"partitions": [{move}]}}\n')

    assert scenario.plan is not None
    assert scenario.plan.targets == {tp("audit", 1): (1, 4)}


# --- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topcis: {}", "unknown key 'topcis'; did you mean 'topics'?"),
        ("speed: 0", "speed: expected a number > 0.0"),
        ("cluster: {brokers: 0}", "cluster.brokers: expected 1 to 200 brokers"),
        ("cluster: {brokers: 5000000}", "cluster.brokers: expected 1 to 200 brokers"),
        ("cluster: {brokers: [1, 1]}", "cluster.brokers.1: broker 1 is listed twice"),
        ("cluster: {brokers: [{id: 1, rak: a}]}", "unknown key 'rak'; did you mean 'rack'?"),
        ("cluster: {disk: 5Gb}", "cluster.disk: unknown unit 'Gb'"),
        ("cluster: {network-in: 0}", "network-in of broker 1: expected more than 0"),
        ("cluster: {version: 2.8}", "version: expected one of 3.9, 4.0, 4.1, 4.2, 4.3, 4.4"),
        ("cluster: {tide: {period: 0}}", "cluster.tide.period: expected more than 0 s"),
        ("cluster: {session-timeout: soon}", "expected a time such as 90s"),
        ("topics: {orders: {}}", "topics.orders: expected 'partitions', or 'replicas'"),
        ("topics: {orders: {partitions: 0}}", "orders.partitions: expected a whole number >= 1"),
        ("topics: {'or ders': {partitions: 1}}", 'no topic can be named "or ders"'),
        ("topics: {'t{5..2}': {partitions: 1}}", "expected a range from lower to higher"),
        ("topics: {'t{0..9}': {partitions: 40000}}", "320,000 partitions in all; the limit"),
        ("topics: {a: {partitions: 999999}}", "999,999 partitions in all; the limit is 300,000"),
        ("speed: 101", "speed: expected a number <= 100.0"),
        ("speed: .nan", "speed: expected a number"),
        ("speed: .inf", "speed: expected a number <= 100.0"),
        ("topics: {a: {partitions: 2, size: .inf}}", "not less than 0"),
        ("cluster: {tide: {swing: .nan}}", "not less than 0"),
        ("topics: {a: {partitions: 010}}", "a number may not begin with 0"),
        ("cluster: {configs: {min.insync.replicas: two}}", "cluster.configs.min.insync.replicas: "),
        ("cluster: {configs: {replica.fetch.backoff.ms: x}}", "expected milliseconds, got 'x'"),
        ("cluster: {configs: {replica.lag.time.max.ms: 9}}", "set it with 'replica-lag-time'"),
        ("topics: {a: {partitions: 1, replication-factor: 9}}", "9 replicas need 9 brokers"),
        ("topics: {a: {partitions: 1, brokers: [9]}}", "there is no broker 9; known brokers: 1, 2"),
        ("topics: {a: {replicas: [[1, 9]]}}", "topics.a.replicas.0.1: there is no broker 9"),
        ("topics: {a: {replicas: [[1, 1]]}}", "broker 1 is named twice"),
        ("topics: {a: {replicas: [[]]}}", "expected at least one broker"),
        ("topics: {a: {replicas: [[1]], partitions: 1}}", "not allowed with 'replicas'"),
        ("topics: {a: {partitions: 1, size: 5 pounds}}", "topics.a.size: unknown unit 'pounds'"),
        ("topics: {a: {partitions: 1, message-size: 0}}", "expected at least 1 byte"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_cluster_is_named_with_its_line(read: Read, line: str, words: str) -> None:
    found = problem(read, f"title: A story\nabout: x\n{line}\n")

    assert found.line == 3
    assert words in found.problem


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{kill: 3}", "expected 'at', the time"),
        ("{at: -5, kill: 3}", "faults.0.at: expected a time such as 90s, 5m, 1h30m"),
        ("{at: 5s}", "expected 'at' and exactly one event, got 0 events"),
        ("{at: 5s, kill: 3, start: 3}", "got 2 events"),
        ("{at: 5s, kil: 3}", "unknown key 'kil'; did you mean 'kill'?"),
        ("{at: 5s, kill: 9}", "faults.0.kill: there is no broker 9; known brokers: 1, 2, 3, 4"),
        ("{at: 5s, kill: all}", "faults.0.kill: expected a whole number, got text"),
        ("{at: 5s, slow: {broker: 1, share: 200%}}", "at most 100 %"),
        ("{at: 5s, slow: {broker: 1}}", "missing required field `share`"),
        ("{at: 5s, delete-topic: nosuch}", "no topic 'nosuch' at this time; known topics: orders"),
        ("{at: 5s, create-topic: {name: audit, partitions: 1}}", "a topic 'audit' already"),
        ("{at: 5s, elect: ['orders:4']}", "orders has no partition 4; it has 0 to 3"),
        ("{at: 5s, elect: ['orders:x']}", "or a partition such as orders:3"),
        ("{at: 5s, elect: []}", "expected at least one topic, or partition"),
        ("{at: 5s, cancel: some}", "faults.0.cancel: expected a list, got text"),
        ("{at: 5s, change-controller: 5}", "expected nothing after the colon"),
        ("{at: 5s, deny: everything}", "expected one of alter_configs, alter_log_dirs, alter_"),
        ("{at: 5s, configure: []}", "expected at least one setting"),
        ("{at: 5s, configure: [{key: a, value: b}]}", "expected either 'topic' or 'broker'"),
        ("{at: 5s, configure: [{broker: 1, key: a}]}", "expected a value with op set"),
        ("{at: 5s, alter: {drain: [9]}}", "faults.0.alter.drain.0: there is no broker 9"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_fault_is_named_with_its_line(read: Read, written: str, words: str) -> None:
    found = problem(read, f"{TWO_TOPICS}faults:\n  - {written}\n")

    assert found.line == 8
    assert words in found.problem


def test_a_fault_on_a_topic_deleted_earlier_is_refused(read: Read) -> None:
    late, early = "{at: 20s, elect: [audit]}", "{at: 10s, delete-topic: audit}"
    found = problem(read, f"{TWO_TOPICS}faults:\n  - {late}\n  - {early}\n")

    assert found.line == 8
    assert "there is no topic 'audit' at this time" in found.problem


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{drain: [1], expand: [2]}", "'drain' is set already"),
        ("{drain: [9]}", "plan.drain.0: there is no broker 9"),
        ("{drain: []}", "plan.drain: expected at least one broker"),
        ("{drain: [1, 2]}", "every broker that may get replicas has one of the partition already"),
        ("{drain: [3], topics: [nosuch]}", "plan.topics.0: there is no topic 'nosuch'"),
        ("{drain: [3], throttle: 0}", "plan.throttle: expected at least 1 byte a second"),
        ("{drain: [3], start: -1}", "plan.start: expected a time"),
        ("{drain: [3], limits: {replica: 1}}", "unknown key 'replica'; did you mean 'replicas'?"),
        ("{drain: [3], limits: {replicas: 0}}", "0 is too small"),
        ("{drain: [3], limits: {shape: round}}", "'round' is not a valid value"),
        ("{replication-factor: 5}", "audit-0 cannot have 5 replicas: 4 brokers are online"),
        ("{replication-factor: 3, topics: [orders]}", "Every partition has 3 replicas already."),
        ("{partitions: []}", "nothing would move"),
        ("{partitions: [{topic: audit, partition: 0, replicas: [1, 2]}]}", "nothing would move"),
        ("{partitions: [{topic: audit, partition: 2, replicas: [1]}]}", "no partition 2; it has 0"),
        ("{partitions: [{topic: audit, partition: 0, replicas: [9]}]}", "there is no broker 9"),
        ("{partitions: [{topic: audit, partition: 0, replicas: [3, 3]}]}", "named twice"),
        ("{partitions: [{topic: audit, partition: 0, replicas: []}]}", "at least one broker"),
        ("{partitions: [], topics: [audit]}", "not allowed with 'partitions'"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_plan_is_named_with_its_line(read: Read, written: str, words: str) -> None:
    found = problem(read, f"{TWO_TOPICS}plan:\n  {written}\n")

    assert found.line == 8
    assert words in found.problem


def test_a_plan_without_a_goal_is_refused_with_the_possible_ones(read: Read) -> None:
    found = problem(read, f"{TWO_TOPICS}plan: {{start: 5s}}\n")

    assert found.line == 7
    assert "expected one of drain, expand, replication-factor, leaders-off" in found.problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words\n",
        "[]\n",
        "title: 5\n",
        "title: x\ntopics: [orders]\n",
        "title: x\nfaults: {kill: 3}\n",
        "title: x\nfaults: [kill]\n",
        "title: x\nplan: drain\n",
        "title: x\ncluster: {brokers: {}}\n",
        "title: x\ncluster: {brokers: [[1]]}\n",
        "title: x\ntopics: {a: 5}\n",
        "title: x\ntopics: {a: {partitions: 1e9}}\n",
        "title: x\ntopics: {1: {partitions: many}}\n",
        "title: x\ncluster: {disk: .nan}\n",
    ],
)
def test_a_file_that_is_not_a_scenario_is_refused_with_a_line(read: Read, text: str) -> None:
    assert problem(read, text).line is not None


def test_aliases_that_expand_to_billions_of_values_are_refused(read: Read) -> None:
    bomb = "".join(
        f"  {chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n"
        for n in range(9)
    )
    found = problem(read, f"title: x\ntopics:\n  a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n{bomb}")

    assert "more than 200,000 values, counting aliases as written out" in found.problem


def test_yaml_anchors_are_accepted(read: Read) -> None:
    text = "title: x\ntopics:\n  a: &a {partitions: 2}\n  b: {<<: *a, size: 1MB}\n"
    a, b = read(text).spec.topics

    assert (a.bytes_each, b.bytes_each) == (0, 1_000_000)
    assert len(b.replicas) == 2


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("min.insync.replica: 2", "did you mean 'min.insync.replicas'?"),
        ("min.insync.replicas: two", "topics.a.configs.min.insync.replicas: "),
        ("remote.storage.enable: true", "Tiered Storage functionality is disabled"),
    ],
)
def test_a_setting_that_kafka_would_refuse_is_named_when_the_file_is_loaded(
    read: Read, setting: str, words: str
) -> None:
    topic = f"  a:\n    partitions: 1\n    configs:\n      {setting}\n"
    found = problem(read, f"title: x\ntopics:\n{topic}")

    assert found.line == 6
    assert words in found.problem


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("create-topic: {name: b, partitions: 1, configs: {retention: 5}}", "unknown key"),
        ("create-topic: {name: b, partitions: 1, configs: {retention.ms: x}}", "retention.ms: "),
        ("configure: [{topic: audit, key: retention, value: 5}]", "unknown key 'retention'"),
        ("configure: [{topic: audit, key: retention.ms, value: soon}]", "configure.0: "),
        ("configure: [{broker: 1, key: min.insync.replicas, value: 2}]", "cannot be altered"),
    ],
)
def test_a_setting_changed_by_a_fault_is_checked_when_the_file_is_loaded(
    read: Read, written: str, words: str
) -> None:
    found = problem(read, f"{TWO_TOPICS}faults:\n  - at: 5s\n    {written}\n")

    assert found.line == 9
    assert words in found.problem


def test_a_disk_too_small_for_its_topics_is_named_with_the_size_it_needs(read: Read) -> None:
    topics = "topics:\n  a: {replicas: [[1]], size: 512MiB}\n  b: {replicas: [[1]], size: 9.5GiB}\n"
    found = problem(read, f"title: x\ncluster: {{disk: 1GiB}}\n{topics}")

    assert found.line == 5
    assert "broker 1 would need 10 GiB; its disk has 1 GiB" in found.problem


def test_more_replicas_than_the_limit_are_refused(read: Read) -> None:
    text = (
        "title: x\ncluster: {brokers: 9}\ntopics: {a: {partitions: 200000, replication-factor: 6}}"
    )

    assert "1,200,000 replicas in all; the limit is 1,000,000" in problem(read, text).problem


def test_a_title_too_long_for_its_line_is_refused(read: Read) -> None:
    assert "title: expected text of length <= 100" in problem(read, f"title: {'x' * 101}\n").problem


# --- clusters that are not healthy, and partitions that differ ---------------------------------

FIVE = "title: x\ncluster: {brokers: [1, 2, 3, 4, {id: 5, down: true}]}\ntopics:\n  a:\n"


def test_partitions_differ_in_size_and_rate_by_a_list_or_a_text(read: Read) -> None:
    lists = "    {replicas: [[1, 2], [2, 3]], size: [1GiB, 0], inbound: [5, 1kB/s]}\n"
    texts = "    replicas:\n      1,2\n      2,3\n    size: 1GiB 0\n    inbound: 5 1kB/s\n"

    (topic,) = read(f"{FIVE}{texts}").spec.topics

    assert topic.replicas == ((1, 2), (2, 3))
    assert [topic.size(number) for number in (0, 1)] == [2**30, 0]
    assert topic.inbounds == (5.0, 1_000.0)
    assert read(f"{FIVE}{lists}").spec.topics == (topic,)


def test_a_topic_begins_in_any_state_by_maps_or_texts(read: Read) -> None:
    rows = "    replicas: 1,2,3 2,5 5\n    size: 1GB\n"
    maps = (
        "    leaders: {0: 2}\n    isr: {0: [1, 2], 2: 5}\n    reassigning: {0: [1, 2, 4]}\n"
        "    held: {0: {3: 5kB, 4: 300MB}}\n"
    )
    texts = (
        "    leaders: 0=2\n    isr: 0=1,2 2=5\n    reassigning: 0=1,2,4\n"
        "    held: 0=3:5kB,4:300MB\n"
    )

    (topic,) = read(f"{FIVE}{rows}{maps}").spec.topics

    assert topic.start == TopicStart(
        leaders={0: 2},
        isr={0: (1, 2), 2: (5,)},
        reassigning={0: (1, 2, 4)},
        held={
            Replica(tp("a", 0), 3): 5_000,
            Replica(tp("a", 0), 4): 300_000_000,
            Replica(tp("a", 1), 5): 10**9,  # a broker that is down has had everything
        },
    )
    assert read(f"{FIVE}{rows}{texts}").spec.topics == (topic,)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("size: [1, 2, 3]", "one for each partition, got 3 for 2 partitions"),
        ("inbound: 1 2 soon", "expected a rate"),
        ("leaders: {7: 1}", "there is no partition 7; there are 0 to 1"),
        ("leaders: {0: 4}", "partition 0: broker 4 is not in sync, or is down"),
        ("leaders: 0:1", "expected partitions and values"),
        ("leaders: 0=1 0=2", "partition 0 is named twice"),
        ("isr: {0: [1, 4]}", "partition 0 has no replica on broker 4"),
        ("isr: {1: [2, 5]}", "broker 5 is down, so it is not in sync"),
        ("reassigning: {0: [3, 2, 1]}", "the target adds and removes nothing"),
        ("reassigning: {0: [1, 9]}", "there is no broker 9"),
        ("held: {0: {1: 5}}", "broker 1 is in sync, so it holds everything"),
        ("held: 1=5:2GB", "cannot hold more than the partition's 1,000,000,000 bytes"),
        ("held: 1=5", "such as 4:12GB"),
    ],
)
def test_a_state_that_no_partition_can_be_in_is_named_with_its_line(
    read: Read, line: str, words: str
) -> None:
    size = "" if line.startswith("size") else "    size: 1GB\n"
    found = problem(read, f"{FIVE}    replicas: [[1, 2, 3], [2, 5]]\n{size}    {line}\n")

    assert found.line == (6 if line.startswith("size") else 7)
    assert words in found.problem


def test_a_partition_whose_brokers_are_all_down_must_say_who_was_in_sync(read: Read) -> None:
    found = problem(read, f"{FIVE}    replicas: [[5]]\n")

    assert "all brokers of partition 0 are down" in found.problem


def test_a_setting_of_one_broker_is_checked_when_the_file_is_loaded(read: Read) -> None:
    broker = "{id: 1, configs: {follower.replication.throttled.rate: fast}}"
    found = problem(read, f"title: x\ncluster:\n  brokers:\n    - {broker}\n")

    assert found.line == 4
    assert "Not a number of type LONG" in found.problem


def test_the_rates_of_a_snapshot_are_in_ascending_order(read: Read) -> None:
    rates = "{slow: 5MB/s, usual: 1MB/s, fast: 9MB/s, from: assumed}"
    taken = "2026-11-26T15:04:05Z"

    found = problem(
        read, f"title: x\nsnapshot:\n  cluster: a\n  taken: {taken}\n  rates: {rates}\n"
    )

    assert found.line == 5
    assert "slow <= usual <= fast" in found.problem


def test_partitions_differ_by_the_spread_and_always_in_the_same_way(read: Read) -> None:
    rows = "    {partitions: 40, size: 1GiB, inbound: 1MB/s, spread: 50%}\n"

    (topic,) = read(f"{FIVE}{rows}").spec.topics

    for values, mean in ((topic.sizes, 2**30), (topic.inbounds, 1e6), (topic.weights, 8)):
        assert len({*values}) > 5
        assert all(mean / 2 <= value <= mean * 1.5 for value in values)
    assert read(f"{FIVE}{rows}").spec.topics == (topic,)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{}", "say"),
        ("{say: x, press: [F77]}", "tour.0.press.0: expected one character, or one of backspace"),
        ("{say: x, when: movin}", "there is no moment 'movin'; did you mean 'moving'?"),
        ("{say: x, speed: 1000}", "speed"),
        ("{say: x, hold: soon}", "hold"),
    ],
)
def test_a_mistake_in_a_tour_is_named_with_its_line(read: Read, step: str, words: str) -> None:
    found = problem(read, f"title: x\ntour:\n  - {step}\n")
    assert words in str(found)
    assert found.line == 3


def test_a_view_opens_at_most_an_hour_into_its_story(read: Read) -> None:
    assert read("title: x\nopens-at: 90s\n").opens_at_s == 90.0
    assert "opens-at: expected at most 3,600 seconds" in str(
        problem(read, "title: x\nopens-at: 2h\n")
    )


@pytest.mark.parametrize(
    ("goal", "targets"),
    [
        ("{drain: [1], topics: [audit]}", {"audit-0": (3, 2)}),
        ("{replication-factor: 3, topics: [audit]}", {"audit-0": (1, 2, 3), "audit-1": (3, 4, 1)}),
        ("{leaders-off: [3], topics: [audit]}", {"audit-1": (4, 3)}),
    ],
)
def test_the_goal_of_a_plan_gives_the_targets_of_ktui_plan(
    read: Read, goal: str, targets: dict[str, Brokers]
) -> None:
    plan = read(f"{TWO_TOPICS}plan:\n  {goal}\n").plan

    assert plan is not None
    assert {str(tp): brokers for tp, brokers in plan.targets.items()} == targets
