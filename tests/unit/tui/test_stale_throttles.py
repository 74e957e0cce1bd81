"""Throttles that no move needs are found in polls, and those in use are not."""

from __future__ import annotations

import msgspec
import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.left_behind import unneeded_throttles
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ktui.tui.poll.polling import STALE_S, StaleThrottles
from support.simulated.observations import T0, a_move, a_partition, an_observation

RATE = ConfigResource(ConfigScope.BROKER, "4"), FOLLOWER_RATE
LIST = ConfigResource(ConfigScope.TOPIC, T0.topic), FOLLOWER_REPLICAS


def seen(
    listed: str = "", *, at_s: float = 0.0, rate: int | None = None, moves: bool = False
) -> Observation:
    state = a_move(T0) if moves else a_partition(T0)
    found = an_observation([state], at_s)
    return msgspec.structs.replace(
        found,
        topic_configs={T0.topic: TopicConfig(follower_throttled_replicas=listed)},
        broker_configs={4: BrokerConfig(follower_throttle_rate=rate)},
    )


def test_a_rate_that_is_set_while_nothing_moves_is_left_behind() -> None:
    assert unneeded_throttles(seen(rate=1_000), {}) == {RATE}
    assert unneeded_throttles(seen(rate=1_000, moves=True), {}) == set()


@pytest.mark.parametrize("listed", ["*", "0:9", "7:4", "x"])
def test_throttled_replicas_of_a_topic_at_rest_are_left_behind(listed: str) -> None:
    assert unneeded_throttles(seen(listed), {}) == {LIST}


def test_only_replicas_being_added_may_be_listed() -> None:
    adding = a_move(T0).adding[0]

    assert unneeded_throttles(seen(f"{T0.partition}:{adding}", moves=True), {}) == set()
    assert unneeded_throttles(seen(f"{T0.partition}:99", moves=True), {}) == {LIST}
    assert unneeded_throttles(seen("*", moves=True), {}) == set()


def test_throttles_that_the_run_has_set_are_not_left_behind() -> None:
    ours = {RATE: frozenset({"1000"}), LIST: frozenset({"0:9"})}

    assert unneeded_throttles(seen("0:9", rate=1_000), ours) == set()
    assert unneeded_throttles(seen("0:9,1:9"), ours) == {LIST}


def test_a_throttle_needed_a_moment_ago_is_reported_only_after_another_read() -> None:
    leftovers = StaleThrottles()

    leftovers.note(seen("0:9", rate=1_000, moves=True), {})
    leftovers.note(seen("0:9", rate=1_000, at_s=STALE_S - 1), {})
    assert leftovers.count == 0

    leftovers.note(seen("0:9", rate=1_000, at_s=STALE_S + 1), {})
    assert leftovers.count == 2


def test_a_throttle_from_before_the_view_opened_is_reported_at_once() -> None:
    leftovers = StaleThrottles()

    leftovers.note(seen("0:9", rate=1_000), {})

    assert leftovers.count == 2


def test_lists_of_one_topic_are_not_left_behind_while_its_owner_moves_another() -> None:
    elsewhere = an_observation([a_partition(T0), a_move(TopicPartition("other", 0))], 0.0)
    settings = {T0.topic: TopicConfig(follower_throttled_replicas="0:9")}
    leftovers = StaleThrottles()

    leftovers.note(msgspec.structs.replace(elsewhere, topic_configs=settings), {})
    assert leftovers.count == 0

    leftovers.note(seen("0:9", at_s=STALE_S + 1), {})
    assert leftovers.count == 1


def recovering(
    followers: str, leaders: str = "", *, isr: tuple[int, ...] = (1, 2), at_s: float = 0.0
) -> Observation:
    """Partition 0 is on brokers 1 to 3, led by 1; each broker has both rates."""
    return msgspec.structs.replace(
        an_observation([a_partition(T0, isr=isr)], at_s),
        topic_configs={
            T0.topic: TopicConfig(
                follower_throttled_replicas=followers, leader_throttled_replicas=leaders
            )
        },
        broker_configs={
            broker: BrokerConfig(follower_throttle_rate=1_000, leader_throttle_rate=1_000)
            for broker in (1, 2, 3)
        },
    )


def rates(key: str, *brokers: int) -> set[tuple[ConfigResource, str]]:
    return {(ConfigResource(ConfigScope.BROKER, str(broker)), key) for broker in brokers}


LEADERS = ConfigResource(ConfigScope.TOPIC, T0.topic), LEADER_REPLICAS


def test_an_entry_and_the_rate_of_a_replica_out_of_sync_are_in_use_on_the_followers_side() -> None:
    assert unneeded_throttles(recovering("0:3"), {}) == {
        *rates(FOLLOWER_RATE, 1, 2),
        *rates(LEADER_RATE, 1, 2, 3),
    }


def test_entries_and_rates_of_those_that_may_lead_are_in_use_on_the_leaders_side() -> None:
    assert unneeded_throttles(recovering("", "0:1,0:2"), {}) == {
        *rates(FOLLOWER_RATE, 1, 2, 3),
        *rates(LEADER_RATE, 3),
    }
    assert LEADERS in unneeded_throttles(recovering("", "0:3"), {})


def test_every_throttle_of_a_topic_listed_as_a_whole_is_in_use_while_a_replica_catches_up() -> None:
    assert unneeded_throttles(recovering("*", "*"), {}) == set()
    assert len(unneeded_throttles(recovering("*", "*", isr=(1, 2, 3)), {})) == 8


def test_entries_of_replicas_in_sync_are_left_behind_beside_one_that_catches_up() -> None:
    assert LIST in unneeded_throttles(recovering("0:2,0:3"), {})
    assert LIST not in unneeded_throttles(recovering("0:3"), {})


def test_a_throttle_is_not_left_behind_where_the_view_has_not_read_who_is_out_of_sync() -> None:
    unseen = TopicPartition(T0.topic, 7)
    seen = recovering("*", isr=(1, 2, 3))
    census = Census(seen.at, 0.0, 0.1, 1, 8, {}, {}, unhealthy=(unseen,), in_sync=(2,))

    assert unneeded_throttles(msgspec.structs.replace(seen, census=census), {}) == set()


def test_a_throttle_is_reported_only_a_while_after_a_broker_has_caught_up_under_it() -> None:
    leftovers = StaleThrottles()

    leftovers.note(recovering("*", "*"), {})
    leftovers.note(recovering("*", "*", isr=(1, 2, 3), at_s=STALE_S - 1), {})
    assert leftovers.count == 0

    leftovers.note(recovering("*", "*", isr=(1, 2, 3), at_s=STALE_S + 1), {})
    assert leftovers.count == 8
