"""The simulated controller: elections, epochs and topics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict, WriteResult
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.controller import RECORDS, Controller
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec, TopicStart
from support.simulated.witness import TP, Kept

ACCEPTED = WriteResult(Verdict.ACCEPTED)


def test_an_election_makes_the_first_replica_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(3, 1, 2)

    assert kept.elect() == ACCEPTED

    assert kept.record().leader == 3


def test_an_unneeded_election_counts_as_accepted() -> None:
    assert Kept((2, 1, 3)).elect() == WriteResult(
        Verdict.ACCEPTED, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."
    )


def test_a_preferred_leader_outside_the_isr_is_not_elected() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(4, 2, 1, 3)

    assert kept.elect() == WriteResult(
        Verdict.REFUSED, "PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available."
    )
    assert kept.record().leader == 2


def test_an_election_of_missing_partitions_is_refused_beside_the_rest() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(1, 2, 3)
    no_partition, no_topic = TopicPartition("orders", 7), TopicPartition("audit", 0)

    results = kept.controller.elect([no_partition, no_topic, TP])

    assert results == {
        no_partition: WriteResult(
            Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as orders-7"
        ),
        no_topic: WriteResult(
            Verdict.REFUSED, "UNKNOWN_TOPIC_OR_PARTITION", "No such topic as audit"
        ),
        TP: ACCEPTED,
    }
    assert kept.record().leader == 1


def test_an_election_above_the_request_limit_is_refused_as_a_whole() -> None:
    kept = Kept(*[(1, 2)] * (RECORDS + 1))
    partitions = [TopicPartition("orders", number) for number in range(RECORDS + 1)]
    for chunk in (partitions[:RECORDS], partitions[RECORDS:]):
        kept.controller.alter(dict.fromkeys(chunk, (2, 1)), allow_replication_factor_change=False)

    results = kept.controller.elect(partitions)

    assert {result.code for result in results.values()} == {"POLICY_VIOLATION"}
    assert kept.record().leader == 1


def test_leaders_are_rebalanced_to_in_sync_first_replicas_some_at_a_time() -> None:
    kept = Kept(*[(1, 2)] * 5)
    partitions = [TopicPartition("orders", number) for number in range(5)]
    kept.controller.alter(dict.fromkeys(partitions, (2, 1)), allow_replication_factor_change=False)
    kept.controller.alter_isr(partitions[0], (1,), 1)

    assert kept.controller.rebalance_leaders(most=3) == 3
    assert [kept.record(tp).leader for tp in partitions] == [1, 2, 2, 2, 1]
    assert kept.controller.rebalance_leaders(most=3) == 1
    assert kept.controller.rebalance_leaders(most=3) == 0


def test_leaders_are_rebalanced_during_a_move_too() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(3, 2, 4)

    assert kept.controller.rebalance_leaders() == 1

    assert kept.record().leader == 3
    assert kept.record().adding == (4,)


def test_the_isr_keeps_the_order_sent_by_the_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.drop_out(1)
    kept.join(1)

    assert kept.record().isr == (2, 3, 1)


def test_repeating_the_same_isr_changes_nothing() -> None:
    kept = Kept((2, 1, 3))
    before = kept.record()

    assert kept.controller.alter_isr(TP, (2, 1, 3), 2) is None

    assert kept.record() is before


@pytest.mark.parametrize(
    ("tp", "isr", "leader", "error"),
    [
        (TP, (2, 3), 3, "FENCED_LEADER_EPOCH"),
        (TP, (1, 3), 2, "INVALID_REQUEST"),
        (TP, (2, 2), 2, "INVALID_REQUEST"),
        (TP, (2, 5), 2, "INVALID_REQUEST"),
        (TP, (2, 1, 3), 2, "INELIGIBLE_REPLICA"),
        (TopicPartition("orders", 7), (2,), 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        (TopicPartition("audit", 0), (2,), 2, "UNKNOWN_TOPIC_ID"),
    ],
)
def test_an_invalid_isr_is_refused(
    tp: TopicPartition, isr: tuple[int, ...], leader: int, error: str
) -> None:
    kept = Kept((2, 1, 3))
    kept.fence(3)
    before = kept.record()

    assert kept.controller.alter_isr(tp, isr, leader) == error

    assert kept.record() is before


def test_a_broker_shutting_down_cannot_join_an_isr() -> None:
    kept = Kept((2, 1, 3))
    kept.controller.controlled_shutdown(3)

    assert kept.join(3) == "INELIGIBLE_REPLICA"


def test_a_leader_that_completes_its_own_removal_learns_of_the_new_leader() -> None:
    kept = Kept((2, 1, 3))
    kept.alter(1, 3, 4)

    assert kept.join(4) == "NEW_LEADER_ELECTED"

    assert kept.record().leader == 1


Deed = Callable[[Kept], object]


def begun(kept: Kept, deed: Deed) -> int:
    """Count the leader epochs that an action begins."""
    before = kept.record().leader_epoch
    deed(kept)
    return kept.record().leader_epoch - before


def moving(kept: Kept) -> Kept:
    kept.alter(4, 1, 3)
    return kept


@pytest.fixture(params=["4.2", "4.3"])
def kept(request: pytest.FixtureRequest) -> Kept:
    """A partition on brokers 2, 1 and 3, led by 2."""
    return Kept((2, 1, 3), version=request.param)


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(lambda kept: kept.alter(4, 1, 3), id="starting a move"),
        pytest.param(lambda kept: kept.alter(3, 2, 1), id="another order"),
        pytest.param(lambda kept: kept.alter(2, 1, 3, 4), id="starting to add"),
        pytest.param(lambda kept: kept.drop_out(1), id="a shrinking ISR"),
        pytest.param(lambda kept: kept.fence(3), id="a follower that is fenced"),
        pytest.param(lambda kept: kept.elect(), id="an election that is not needed"),
    ],
)
def test_no_leader_epoch_begins_with(kept: Kept, deed: Deed) -> None:
    assert begun(kept, deed) == 0


def test_no_epoch_begins_when_the_isr_grows_back(kept: Kept) -> None:
    kept.drop_out(1)

    assert begun(kept, lambda kept: kept.join(1)) == 0


def test_no_epoch_begins_when_an_addition_is_done(kept: Kept) -> None:
    kept.alter(2, 1, 3, 4)

    assert begun(kept, lambda kept: kept.join(4)) == 0
    assert kept.record().isr == (2, 1, 3, 4)


def test_no_epoch_begins_when_a_removal_is_cancelled(kept: Kept) -> None:
    kept.drop_out(1)
    kept.alter(2, 1)

    assert begun(kept, lambda kept: kept.cancel()) == 0
    assert kept.record().replicas == (2, 1, 3)


def test_one_epoch_begins_when_a_move_is_done_with_the_same_or_a_new_leader(kept: Kept) -> None:
    kept.alter(2, 1, 4)
    assert begun(kept, lambda kept: kept.join(4)) == 1
    assert kept.record().leader == 2

    kept.alter(5, 1, 4)
    assert begun(kept, lambda kept: kept.join(5)) == 1
    assert kept.record().leader == 5


def test_one_epoch_begins_when_a_removal_is_done_at_once(kept: Kept) -> None:
    assert begun(kept, lambda kept: kept.alter(2, 1)) == 1
    assert begun(kept, lambda kept: kept.alter(1)) == 1
    assert kept.record().leader == 1


def test_one_epoch_begins_when_a_move_that_adds_is_cancelled(kept: Kept) -> None:
    assert begun(moving(kept), lambda kept: kept.cancel()) == 1
    assert kept.record().leader == 2


def test_one_epoch_begins_with_an_election(kept: Kept) -> None:
    kept.alter(1, 2, 3)

    assert begun(kept, lambda kept: kept.elect()) == 1


def test_one_epoch_begins_when_the_leader_is_lost(kept: Kept) -> None:
    assert begun(kept, lambda kept: kept.fence(2)) == 1
    assert kept.record().leader == 1


def test_every_decision_raises_the_partition_epoch_but_an_empty_request_does_not(
    kept: Kept,
) -> None:
    kept.alter(4, 1, 3)
    kept.alter(4, 1, 3)
    kept.elect()
    kept.join(4)

    assert [c.after.partition_epoch for c in kept.changes if c.after] == [0, 1, 2]


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
