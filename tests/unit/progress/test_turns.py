"""Replicas that share a throttle copy in turn: one that waits for its turn is not stalled."""

from __future__ import annotations

import msgspec

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import TopicPartition
from ktui.progress.summary import totals
from ktui.progress.timeline import Cause, Phase, Progress, Stall, StallKind
from support.simulated.observations import a_move, a_partition, an_observation, at, folded

ALL_LISTED = {"orders": TopicConfig(follower_throttled_replicas="*")}
MANY = [a_move(TopicPartition("orders", n)) for n in range(20)]


def in_turn(seconds: int, *, at_work: int, rate: int = 900_000) -> list[Observation]:
    """Build polls in which broker 4 copies the first partitions of MANY while the rest wait."""
    return [
        an_observation(
            MANY,
            float(n),
            ends={
                **{(state.tp, 1): 100_000 for state in MANY},
                **{(state.tp, 4): 0 for state in MANY[at_work:]},
                **{(state.tp, 4): 900 * n // at_work for state in MANY[:at_work]},
            },
            starts={state.tp: 0 for state in MANY},
            topic_configs=ALL_LISTED,
            broker_configs={4: BrokerConfig(follower_throttle_rate=rate)},
        )
        for n in range(seconds)
    ]


def test_a_replica_that_waits_for_its_turn_under_a_throttle_in_use_is_not_stalled() -> None:
    now = folded(in_turn(90, at_work=2))
    assert {timeline.phase for timeline in now.timelines.values()} == {Phase.MOVING}
    assert not [event for event in now.events if event.severity]
    waiting = stall_of_last(now)
    assert (waiting.kind, waiting.alarm) == (StallKind.WAITING, False)
    assert (waiting.cause, waiting.broker) == (Cause.THROTTLED, 4)
    assert waiting.detail == "waits for its turn: 0.9 MB/s throttle, 20 replicas"
    assert totals(now).stalled == totals(now).falling_behind == 0
    assert now.timelines[MANY[0].tp].stall is None


def test_replicas_completed_between_two_polls_count_as_use_of_the_throttle() -> None:
    polls = in_turn(40, at_work=1)
    standing_still = [a_partition(MANY[0].tp, (4, 2, 3)), *MANY[1:]]
    polls = [
        msgspec.structs.replace(
            poll,
            partitions={state.tp: state for state in (MANY if n < 25 else standing_still)},
            ends={
                r: msgspec.structs.replace(e, value=min(e.value, 50_000 if r.broker == 1 else 0))
                for r, e in poll.ends.items()
            },
        )
        for n, poll in enumerate(polls)
    ]
    assert not [event for event in folded(polls).events if event.severity]


def test_a_broker_on_which_nothing_makes_headway_is_stalled_by_its_throttle() -> None:
    stopped = [at_a_stop(poll) for poll in in_turn(40, at_work=20, rate=1_000)]
    now = folded(stopped)
    assert {timeline.phase for timeline in now.timelines.values()} == {Phase.STALLED}
    found = stall_of_last(now)
    assert (found.cause, found.detail) == (Cause.THROTTLED, "1.0 kB/s throttle, 20 replicas")


def stall_of_last(progress: Progress) -> Stall:
    found = progress.timelines[MANY[-1].tp].stall
    assert found is not None
    return found


def at_a_stop(poll: Observation) -> Observation:
    """Return the same poll without any progress of the copies."""
    ends = {r: reading for r, reading in poll.ends.items() if r.broker == 1}
    still = {r: Reading(7, poll.monotonic_s) for r in poll.ends if r.broker != 1}
    return msgspec.structs.replace(poll, ends={**ends, **still})


def test_waiting_ends_in_an_alarm_when_the_others_stop_too() -> None:
    now = folded(in_turn(60, at_work=2))
    stopped = [at(at_a_stop(poll), 60.0 + n) for n, poll in enumerate(in_turn(40, at_work=2))]
    stopped = [
        msgspec.structs.replace(
            poll, ends={r: Reading(e.value, poll.monotonic_s) for r, e in poll.ends.items()}
        )
        for poll in stopped
    ]
    assert now.timelines[MANY[-1].tp].phase is Phase.MOVING
    assert folded(stopped, now).timelines[MANY[-1].tp].phase is Phase.STALLED


def test_a_stall_that_turns_into_waiting_is_not_reported_as_headway() -> None:
    now = folded(at_a_stop(poll) for poll in in_turn(40, at_work=2))
    polls = [at(poll, 40.0 + n) for n, poll in enumerate(in_turn(4, at_work=2)[1:])]
    after = folded(
        (
            msgspec.structs.replace(
                poll,
                ends={
                    r: Reading(7 + e.value if r.broker != 1 else e.value, poll.monotonic_s)
                    for r, e in poll.ends.items()
                },
            )
            for poll in polls
        ),
        now,
    )
    assert [event.what for event in after.events[len(now.events) :]] == [
        "replica 4 makes headway again",
        "replica 4 makes headway again",
        f"broker 4: 18 replicas are no longer stalled: {stall_of_last(after).detail}",
    ]
