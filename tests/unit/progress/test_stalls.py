"""When a replica counts as stalled or falling behind, and the cause that is named."""

from typing import Any

import pytest

from ktui.cluster.broker import BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.timeline import Cause, Phase, Progress, Stall, StallKind
from ktui.simulated import layout
from support.simulated.moving_clusters import a_cluster, wait
from support.simulated.observations import (
    T0,
    Recorder,
    a_move,
    a_partition,
    an_observation,
    at,
    folded,
    moving,
)

LISTED = {"orders": TopicConfig(follower_throttled_replicas="0:4", leader_throttled_replicas="*")}


def standing(
    seconds: int, state: PartitionState | None = None, *, from_s: float = 0.0, **more: Any
) -> list[Observation]:
    """Polls in which replica 4 stands at 40 of 100 messages."""
    ends = {(T0, 1): 100, (T0, 4): 40}
    return [
        an_observation([state or a_move()], from_s + n, ends=ends, starts={T0: 0}, **more)
        for n in range(seconds)
    ]


def stall(progress: Progress) -> Stall | None:
    return progress.timelines[T0].stall


def cause(progress: Progress) -> tuple[Cause, str]:
    found = stall(progress)
    assert found is not None
    return found.cause, found.detail


def test_a_log_end_that_has_not_moved_for_30_s_is_a_stall() -> None:
    assert stall(folded(standing(30))) is None
    now = folded(standing(31))
    found = stall(now)
    assert found is not None
    assert (found.kind, found.broker, found.since_s) == (StallKind.STALLED, 4, 0.0)
    assert now.timelines[T0].phase is Phase.STALLED


def test_a_stall_takes_five_polls_even_when_polls_are_slow() -> None:
    polls = moving(seconds=100, poll_s=10, copied_s=0)
    assert stall(folded(polls[:5])) is None
    assert stall(folded(polls[:6])) is not None


def test_a_replica_that_has_caught_up_is_not_stalled() -> None:
    polls = [
        an_observation([a_move()], float(n), ends={(T0, 1): 100, (T0, 4): 100}, starts={T0: 0})
        for n in range(60)
    ]
    assert stall(folded(polls)) is None


def test_headway_ends_a_stall() -> None:
    now = folded(standing(40))
    moved = an_observation([a_move()], 40.0, ends={(T0, 1): 100, (T0, 4): 41}, starts={T0: 0})
    after = folded([moved], now)
    assert after.timelines[T0].phase is Phase.MOVING
    assert [event.what for event in after.events[-2:]] == [
        "replica 4 stalled: broker 4 does not fetch from 1",
        "replica 4 makes headway again",
    ]


def test_missing_figures_are_unknown_not_stalled() -> None:
    failure = Failure(Operation.LOG_ENDS, "no answer for 2.1 s", 4)
    ends: dict[tuple[TopicPartition, int], int | Reading]
    ends = {(T0, 1): 100, (T0, 4): Reading(40, 0.0)}
    polls = [
        an_observation([a_move()], float(n), ends=ends, starts={T0: 0}, failures=(failure,))
        for n in range(100)
    ]
    assert stall(folded(polls)) is None


def test_a_leader_without_figures_stalls_no_replica() -> None:
    polls = [an_observation([a_move()], float(n), ends={(T0, 4): 40}) for n in range(100)]
    assert stall(folded(polls)) is None


def test_a_lost_cluster_is_not_a_stall() -> None:
    later = standing(20, from_s=600.0)
    now = folded([*standing(10), *later])
    assert stall(now) is None
    assert stall(folded(standing(5, from_s=620.0), now)) is not None


def test_a_target_that_is_down_is_named_even_without_figures() -> None:
    polls = [an_observation([a_move()], float(n), down=[4]) for n in range(40)]
    assert folded(polls[:30]).timelines[T0].phase is Phase.MOVING
    assert folded(polls).timelines[T0].phase is Phase.STALLED
    assert cause(folded(polls)) == (Cause.TARGET_DOWN, "broker 4 is down")


def test_a_target_that_is_down_copies_nothing() -> None:
    cluster = a_cluster(moving=["orders-0"])
    recorder = Recorder(cluster)
    polls = recorder.record(10)
    cluster.do(layout.Shutdown(4))
    wait(cluster, 1.0)
    now = folded([*polls, *recorder.record()])
    lane = now.timelines[T0].lanes[4]
    assert (lane.rate_bytes_s, lane.left_s) == (0.0, None)


def test_an_offline_log_dir_is_named() -> None:
    dirs = {4: (LogDir(4, "/data/1", "KAFKA_STORAGE_ERROR"), LogDir(4, "/data/2"))}
    expected = (Cause.LOG_DIR_OFFLINE, "log dir /data/1 on broker 4 is offline")
    assert cause(folded(standing(40, log_dirs=dirs))) == expected


def test_an_offline_replica_on_a_live_broker_has_lost_its_log_dir() -> None:
    state = a_move(offline=(4,))
    polls = [an_observation([state], float(n)) for n in range(40)]
    assert cause(folded(polls))[0] is Cause.LOG_DIR_OFFLINE


def test_a_partition_without_a_leader_is_named() -> None:
    polls = [an_observation([a_move(leader=None)], float(n)) for n in range(40)]
    assert cause(folded(polls)) == (Cause.NO_LEADER, "no leader to copy from")


def test_a_follower_that_does_not_fetch_is_named() -> None:
    assert cause(folded(standing(40)))[0] is Cause.NOT_FETCHING


def test_a_kept_replica_out_of_the_isr_holds_up_a_move_that_is_otherwise_complete() -> None:
    state = a_move(isr=(1, 2, 4))
    polls = [an_observation([state], float(n)) for n in range(40)]
    assert stall(folded(polls[:30])) is None
    now = folded(polls)
    assert cause(now) == (Cause.KEPT_OUT_OF_SYNC, "broker 3 is out of the ISR")
    assert now.timelines[T0].lanes[3].stall == stall(now)


def test_the_cause_names_a_kept_replica_whose_broker_is_down() -> None:
    polls = [an_observation([a_move(isr=(1, 2, 4))], float(n), down=[3]) for n in range(40)]
    assert cause(folded(polls))[1] == "broker 3 is out of the ISR and down"


def test_a_move_that_kafka_never_completes_is_stalled_too() -> None:
    hung = a_partition(T0, (2, 1, 3, 4), isr=(2, 1, 3), adding=(4,), removing=(4,), leader=2)
    now = folded(an_observation([hung], float(n)) for n in range(40))
    assert cause(now) == (Cause.UNKNOWN, "all in sync, yet not completed")


def test_a_lag_that_rises_for_a_minute_is_falling_behind() -> None:
    slow = moving(seconds=70, inbound_s=400, copied_s=200)
    assert stall(folded(slow[:55])) is None
    now = folded(slow)
    found = stall(now)
    assert found is not None
    assert found.kind is StallKind.FALLING_BEHIND
    assert (found.cause, found.detail) == (Cause.UNKNOWN, "0.2 MB/s copied, 0.4 MB/s in")
    assert now.timelines[T0].phase is Phase.MOVING


def test_a_lag_that_rises_only_between_bursts_is_not_falling_behind() -> None:
    polls = [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): 100_000 + 50 * n, (T0, 4): 1_100 * (n // 11)},
            starts={T0: 0},
        )
        for n in range(200)
    ]
    assert all(stall(folded(polls[:end])) is None for end in range(60, 200, 7))


@pytest.mark.parametrize("entries", ["", "0:5", "1:4"])
def test_a_throttle_that_does_not_list_the_replica_is_not_the_cause(entries: str) -> None:
    configs = {4: BrokerConfig(follower_throttle_rate=1_000)}
    topics = {"orders": TopicConfig(follower_throttled_replicas=entries)}
    assert cause(folded(standing(40, topic_configs=topics, broker_configs=configs)))[0] is (
        Cause.NOT_FETCHING
    )


def test_a_throttle_that_lets_enough_through_is_mentioned_but_not_blamed() -> None:
    configs = {4: BrokerConfig(follower_throttle_rate=20_000_000)}
    now = folded(standing(40, topic_configs=LISTED, broker_configs=configs))
    assert cause(now) == (Cause.UNKNOWN, "cause unknown (20.0 MB/s throttle)")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"down": [4]}, (Cause.TARGET_DOWN, "broker 4 is down")),
        (
            {"states": [a_move(offline=(4,))]},
            (Cause.LOG_DIR_OFFLINE, "its replica on broker 4 is offline"),
        ),
        ({"states": [a_move(leader=None)]}, (Cause.NO_LEADER, "no leader to copy from")),
    ],
)
def test_the_obstacle_to_a_copy_is_named_at_once_and_alarms_after_30_s(
    more: dict[str, Any], expected: tuple[Cause, str]
) -> None:
    states = more.pop("states", [a_move()])
    now = folded([an_observation(states, 0.0, **more)])
    found = stall(now)
    assert found is not None
    assert (found.kind, cause(now)) == (StallKind.WAITING, expected)
    assert now.timelines[T0].phase is Phase.MOVING
    assert not [event for event in now.events if event.tp and event.severity]
    later = folded((an_observation(states, float(n), **more) for n in range(1, 40)), now)
    assert later.timelines[T0].phase is Phase.STALLED
    assert cause(later) == expected


@pytest.mark.parametrize("seconds", [20, 50])
def test_a_broker_that_is_back_has_30_s_to_make_headway(seconds: int) -> None:
    down = [an_observation([a_move()], 10.0 + n, down=[4]) for n in range(seconds)]
    now = folded([*standing(10), *down])
    back = standing(40, from_s=10.0 + seconds)
    for end in (1, 2, 29):
        after = folded(back[:end], now)
        assert stall(after) is None
        assert "stalled" not in " ".join(e.what for e in after.events[len(now.events) :])
    reported = [event.what for event in folded(back[:29], now).events[len(now.events) :]]
    assert reported == [
        "broker 4 is back",
        *(["replica 4 can copy again"] if seconds == 50 else []),
    ]
    assert cause(folded(back, now))[0] is Cause.NOT_FETCHING


def test_the_cause_of_a_stall_follows_the_latest_poll() -> None:
    now = folded(standing(40))
    down = [at(poll, 40.0 + n) for n, poll in enumerate(standing(2, down=[4]))]
    after = folded(down, now)
    assert cause(after)[0] is Cause.TARGET_DOWN
    assert [event.what for event in after.events[-2:]] == [
        "broker 4 is down",
        "replica 4 stalled: broker 4 is down",
    ]


def test_the_end_of_a_move_ends_its_alarm() -> None:
    now = folded(standing(40))
    done = folded([an_observation([a_partition(T0, (4, 2, 3))], 40.0)], now)
    assert stall(done) is None
    assert done.timelines[T0].phase is Phase.DONE
