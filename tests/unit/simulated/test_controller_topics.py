"""Topics of a simulated cluster: created, deleted, and recreated under the same name."""

from __future__ import annotations

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.controller import Controller
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec, TopicStart
from support.simulated.controllers import TP, Kept

ORDERS = TopicSpec(name="orders", replicas=((1, 2), (2, 3)))
SPEC = ClusterSpec(brokers=tuple(BrokerSpec(id=broker) for broker in (1, 2, 3)))


def ids(seed: int) -> list[str]:
    """Create, delete and recreate a topic; return the published ids."""
    ids: list[str] = []
    controller = Controller(SPEC, lambda change: ids.append(change.topic_id), seed=seed)
    controller.create_topic(ORDERS)
    controller.delete_topic("orders")
    controller.create_topic(ORDERS)
    return ids


def test_a_recreated_topic_has_a_new_id_and_a_seed_always_gives_the_same_ids() -> None:
    first, _, *deleted, again, _ = ids(seed=7)

    assert deleted == [first, first]
    assert again != first
    assert ids(seed=7) == ids(seed=7)
    assert ids(seed=8) != ids(seed=7)


def test_a_topic_id_is_22_characters_as_kafkas_tools_print_it() -> None:
    (topic_id,) = set(ids(seed=7)[:2])

    assert len(topic_id) == 22
    assert not set(topic_id) & set("+/=")


def test_a_new_topic_is_in_sync_on_live_brokers_and_led_by_the_first_of_them() -> None:
    kept = Kept((1, 2, 3))
    kept.fence(1)

    kept.controller.create_topic(TopicSpec(name="audit", replicas=((1, 2, 3),)))

    audit = kept.record(TopicPartition("audit", 0))
    assert audit == Registration((1, 2, 3), (2, 3), 2)
    kept.controller.unfence(1)
    assert kept.controller.rebalance_leaders() == 0


def test_a_topic_cannot_be_created_on_brokers_that_are_all_down() -> None:
    kept = Kept((3, 4))
    kept.fence(1, 2)

    result = kept.controller.create_topic(TopicSpec(name="audit", replicas=((3,), (1, 2))))

    assert result == WriteResult(
        Verdict.REFUSED,
        "INVALID_REPLICA_ASSIGNMENT",
        "All brokers specified in the manual partition assignment for partition 1 are fenced or "
        "in controlled shutdown.",
    )
    assert "audit" not in kept.controller.topics


def test_an_existing_topic_cannot_be_created_again() -> None:
    kept = Kept((1, 2))

    assert kept.controller.create_topic(ORDERS) == WriteResult(
        Verdict.REFUSED, "TOPIC_ALREADY_EXISTS", "Topic 'orders' already exists."
    )


def test_a_topic_with_invalid_settings_cannot_be_created() -> None:
    kept = Kept((1, 2))

    result = kept.controller.create_topic(
        TopicSpec(name="audit", replicas=((1,),), configs={"min.insync.replicas": "none"})
    )

    assert (result.verdict, result.code) == (Verdict.REFUSED, "INVALID_CONFIG")
    assert "audit" not in kept.controller.topics


def test_a_deleted_topic_takes_its_moves_and_settings_with_it() -> None:
    kept = Kept((1, 2), configs={"min.insync.replicas": "2"})
    kept.alter(1, 3)
    before = kept.record()

    assert kept.controller.delete_topic("orders") == WriteResult(Verdict.ACCEPTED)

    assert not kept.controller.reassigning
    assert (kept.changes[-1].tp, kept.changes[-1].before, kept.changes[-1].after) == (
        TP,
        before,
        None,
    )
    kept.controller.create_topic(ORDERS)
    assert kept.controller.configs.min_isr("orders") == 1
    assert kept.cancel().code == "NO_REASSIGNMENT_IN_PROGRESS"


def test_a_missing_topic_cannot_be_deleted() -> None:
    result = Kept((1, 2)).controller.delete_topic("audit")

    assert (result.verdict, result.code) == (Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize("version", ["4.3", "4.4"])
def test_a_topic_cannot_be_created_by_hand_on_a_cordoned_broker_from_4_4(version: str) -> None:
    kept = Kept((1, 2), version=version)
    cordon = ConfigChange(broker_resource(3), CORDONED, ConfigOp.SET, EVERY)
    kept.controller.alter_configs([cordon])

    result = kept.controller.create_topic(TopicSpec(name="audit", replicas=((3, 2),)))

    assert ("audit" in kept.controller.topics) is (version == "4.3")
    if version == "4.4":
        assert result == WriteResult(
            Verdict.REFUSED,
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 3, but all its log directories are "
            "cordoned.",
        )


def test_a_cluster_can_begin_with_replicas_and_moves_on_a_cordoned_broker() -> None:
    cordoned = BrokerSpec(id=3, configs={CORDONED: EVERY})
    begun = TopicStart(reassigning={0: (2, 3)})
    spec = ClusterSpec(
        brokers=(BrokerSpec(id=1), BrokerSpec(id=2), cordoned),
        topics=(
            TopicSpec(name="moving", replicas=((1, 2),), start=begun, bytes_each=MIB),
            TopicSpec(name="there", replicas=((1, 3),)),
        ),
        version="4.4",
    )

    cluster = SimulatedCluster(spec, VirtualClock())

    moving, there = (cluster.controller.get(TopicPartition(t, 0)) for t in ("moving", "there"))
    assert moving is not None
    assert moving.adding == (3,)
    assert there == Registration((1, 3), (1, 3), 1)


@pytest.mark.parametrize("version", ["4.3", "4.4"])
def test_one_request_adds_at_most_10_000_partitions(version: str) -> None:
    kept = Kept((1,), version=version)

    assert kept.controller.create_partitions("orders", 10_001, None) == WriteResult(
        Verdict.ACCEPTED
    )
    result = kept.controller.create_partitions("orders", 20_002, None)

    assert result == (
        WriteResult(Verdict.UNKNOWN, "UNKNOWN_SERVER_ERROR")
        if version == "4.3"
        else WriteResult(
            Verdict.REFUSED,
            "POLICY_VIOLATION",
            "Excessively large number of additional partitions per request.",
        )
    )
