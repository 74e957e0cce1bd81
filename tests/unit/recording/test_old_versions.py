"""Recordings of older versions stay readable. Never regenerate these files: add another."""

from datetime import UTC, datetime
from pathlib import Path

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Census, Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.recording.reading import PlayedPoll, find_sessions, play_session
from ktui.recording.segments import End, LostPollLine, RunLine

FIXTURES = Path(__file__).parent / "fixtures"

ORDERS = TopicPartition("orders", 0)
AUDIT = TopicPartition("audit", 3)
DELETED = TopicPartition("old", 1)

FIRST = Observation(
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    controller=2,
    brokers={
        1: Broker(1, "one.example", 9092, "a"),
        2: Broker(2, "two.example", 9092, "b"),
        3: Broker(3, "three.example", 9092, "c", alive=False),
        4: Broker(4),
    },
    partitions={
        ORDERS: PartitionState(
            ORDERS,
            "R1u0ZbSSQ7W1FhGgwM3T9w",
            (4, 2, 3, 1),
            (1, 2),
            1,
            7,
            adding=(4,),
            removing=(1,),
            offline=(3,),
            elr=(3,),
        ),
        AUDIT: PartitionState(AUDIT, None, (1, 2), (), None, adding=(2,), described=False),
    },
    absent=frozenset({DELETED}),
    fresh=True,
    waits_for_kept=False,
    ends={
        Replica(ORDERS, 1): Reading(1_000_000, 4711.25),
        Replica(ORDERS, 4): Reading(250_000, 4709.001),
    },
    starts={ORDERS: Reading(100_000, 4711.25)},
    sizes={Replica(ORDERS, 1): Reading(5_000_000_000, 4707.5)},
    log_dirs={
        1: (LogDir(1, "/data/1", None, 10**12, 4 * 10**11, cordoned=True),),
        2: (LogDir(2, "/data/1", "KAFKA_STORAGE_ERROR"), LogDir(2, "/data/2")),
    },
    topic_configs={
        "orders": TopicConfig(
            min_insync_replicas=2,
            compacted=True,
            tiered=True,
            leader_throttled_replicas="0:1",
            follower_throttled_replicas="0:4",
        )
    },
    broker_configs={
        4: BrokerConfig(
            leader_throttle_rate=1,
            follower_throttle_rate=80_000_000,
            log_dir_throttle_rate=2,
            auto_leader_rebalance=True,
            leader_imbalance_check_interval_s=300,
            fetch_backoff_ms=1000,
            min_insync_replicas=1,
            unclean_leader_election=False,
            replica_lag_time_max_ms=30000,
        )
    },
    census=Census(
        at=datetime(2026, 2, 3, 4, 5, 0, 500_000, tzinfo=UTC),
        monotonic_s=4700.5,
        took_s=0.75,
        topics=2,
        partitions=5,
        leaders={1: 3, 2: 2},
        replicas={1: 5, 2: 5, 3: 5},
        unhealthy=(ORDERS,),
    ),
    at=datetime(2026, 2, 3, 4, 5, 11, 250_000, tzinfo=UTC),
    monotonic_s=4711.25,
    took_s=0.033,
    failures=(
        Failure(Operation.LOG_ENDS, "no answer for 2.1 s", 3),
        Failure(Operation.TOPIC_CONFIGS, "not authorized", topic="audit", denied=True),
    ),
)
"""An observation in which every field has a value other than its default."""

SECOND = Observation(
    cluster_id=FIRST.cluster_id,
    controller=None,
    brokers={1: FIRST.brokers[1], 2: FIRST.brokers[2]},
    partitions={
        ORDERS: PartitionState(ORDERS, "R1u0ZbSSQ7W1FhGgwM3T9w", (4, 2, 3), (4, 2, 3), 2, 8)
    },
    ends={
        Replica(ORDERS, 4): Reading(1_000_500, 4712.3),
        Replica(ORDERS, 1): Reading(1_000_000, 4711.25),
    },
    broker_configs=FIRST.broker_configs,
    at=datetime(2026, 2, 3, 4, 5, 12, 300_000, tzinfo=UTC),
    monotonic_s=4712.3,
    took_s=0.04,
)


def test_a_recording_of_version_1_is_read() -> None:
    (session,) = find_sessions(FIXTURES / "version-1.jsonl.gz")

    first, lost, event, second, end = play_session(session)

    assert (session.head.program, session.head.cluster) == ("ktui 0.1.0", "prod")
    assert isinstance(first, PlayedPoll)
    assert first.observation == FIRST
    assert isinstance(lost, LostPollLine)
    assert lost.reason == "listing reassignments: no answer"
    assert isinstance(event, RunLine)
    assert (event.run, event.run_id, event.entry) == ("move", "move@2026-02-03T04:05:00", 12)
    assert bytes(event.event) == b'{"event":"paused","by":"operator"}'
    assert isinstance(second, PlayedPoll)
    assert second.observation == SECOND
    assert isinstance(end, End)
