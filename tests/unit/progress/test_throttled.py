"""A throttle below the inbound rate is reported as such, with the rate that would suffice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.progress.fold import fold
from ktui.progress.poll import steady
from ktui.progress.summary import totals
from ktui.progress.timeline import Cause, Phase, Progress, Stall, StallKind
from ktui.simulated.cluster import SimulatedCluster
from support.simulated.moving_clusters import a_cluster, throttle
from support.simulated.observations import (
    T0,
    T1,
    Recorder,
    a_move,
    an_observation,
    folded,
    recorded,
)

FOLLOWERS = {"follower.replication.throttled.replicas": "*"}
LEADERS = {"leader.replication.throttled.replicas": "*"}
AGAIN = "replica 4 makes headway again"


def stall(progress: Progress, tp: TopicPartition = T0) -> Stall | None:
    return progress.timelines[tp].stall


def alarm(progress: Progress, tp: TopicPartition = T0) -> tuple[StallKind, Cause, str]:
    found = stall(progress, tp)
    assert found is not None
    return found.kind, found.cause, found.detail


def never(figures: str) -> tuple[StallKind, Cause, str]:
    written = figures.split(", ")[1]
    reported = f"{figures}; needs more than {written.removesuffix(' in')}"
    return StallKind.FALLING_BEHIND, Cause.THROTTLED, reported


def folds(observations: list[Observation], progress: Progress | None = None) -> list[Progress]:
    all_ = [progress or Progress()]
    for observation in observations:
        all_.append(fold(all_[-1], observation))
    return all_[1:]


def changed(
    cluster: SimulatedCluster, before: int, after: int, *, after_s: int = 60
) -> tuple[list[Progress], list[Progress]]:
    """Throttle broker 4, change its rate after some seconds, and poll for 90 s more."""
    recorder = Recorder(cluster)
    cluster.do(throttle("follower", 4, before))
    first = folds(recorder.record(after_s))
    cluster.do(throttle("follower", 4, after))
    return first, folds(recorder.record(90), first[-1])


def test_a_throttle_below_the_inbound_rate_is_named_with_the_rate_that_would_suffice() -> None:
    cluster = a_cluster(moving=["orders-0"], inbound_s=4_100, copied_s=50_000, configs=FOLLOWERS)
    cluster.do(throttle("follower", 4, 2_000_000))

    now = folded(recorded(cluster, 40))

    assert alarm(now) == never("2.0 MB/s throttle, 4.1 MB/s in")
    assert now.timelines[T0].phase is Phase.MOVING
    assert (now.timelines[T0].left_s, totals(now).left_s) == (None, None)
    assert (totals(now).stalled, totals(now).falling_behind) == (0, 1)


def test_a_throttle_equal_to_the_inbound_rate_never_lets_a_replica_catch_up() -> None:
    assert alarm(folded(written([2_000] * 40, rate=2_000_000))) == never(
        "2.0 MB/s throttle, 2.0 MB/s in"
    )
    assert stall(folded(written([2_000] * 40, rate=2_001_000))) is None


def test_a_throttle_is_shared_by_all_replicas_it_applies_to() -> None:
    names = ["orders-0", "orders-1"]
    cluster = a_cluster(moving=names, inbound_s=2_000, copied_s=50_000, configs=FOLLOWERS)
    cluster.do(throttle("follower", 4, 3_000_000))

    now = folded(recorded(cluster, 40))

    assert alarm(now) == alarm(now, T1) == never("3.0 MB/s throttle, 4.0 MB/s in")


def test_a_leaders_throttle_must_feed_its_in_sync_followers_too() -> None:
    cluster = a_cluster(
        moving=["orders-0"], messages=10**7, inbound_s=4_000, copied_s=50_000, configs=LEADERS
    )
    cluster.do(throttle("leader", 1, 6_000_000))
    cluster.do(throttle("leader", 2, 6_000_000))

    seen = folds(recorded(cluster, 120))

    assert alarm(seen[-1]) == never("6.0 MB/s leader throttle, 12.0 MB/s in")
    assert Phase.STALLED not in {now.timelines[T0].phase for now in seen}


@pytest.mark.parametrize("after_s", [60, 14, 9])
def test_lowering_the_rate_raises_no_alarm_and_time_left_grows_step_by_step(after_s: int) -> None:
    cluster = a_cluster(
        moving=["orders-0"], messages=5 * 10**6, inbound_s=500, copied_s=50_000, configs=FOLLOWERS
    )

    before, after = changed(cluster, 30_000_000, 2_000_000, after_s=after_s)

    assert not [event for event in after[-1].events if event.severity]
    left = [now.timelines[T0].left_s for now in (before[-1], *after)]
    middle = [each.middle for each in left if each is not None]
    assert len(middle) == len(left)
    assert max(now / then for then, now in pairwise(middle)) < 2.5
    rate = after[-1].timelines[T0].rate_bytes_s
    assert rate == pytest.approx(2_000_000, rel=0.25)


def test_a_rate_lowered_below_inbound_is_reported_soon_once_and_never_as_a_stall() -> None:
    cluster = a_cluster(
        moving=["orders-0"], messages=5 * 10**6, inbound_s=8_100, copied_s=50_000, configs=FOLLOWERS
    )

    _, after = changed(cluster, 30_000_000, 2_000_000)

    assert [stall(now) is None for now in after] == [True] * 14 + [False] * 76
    assert alarm(after[14]) == never("2.0 MB/s throttle, 8.1 MB/s in")
    assert Phase.STALLED not in {now.timelines[T0].phase for now in after}
    reported = [event.what for event in after[-1].events if event.severity]
    assert reported == [f"replica 4 falling behind: {never('2.0 MB/s throttle, 8.1 MB/s in')[2]}"]


def test_raising_the_rate_ends_the_alarm_at_once() -> None:
    cluster = a_cluster(
        moving=["orders-0"], messages=5 * 10**6, inbound_s=8_100, copied_s=50_000, configs=FOLLOWERS
    )

    before, after = changed(cluster, 2_000_000, 30_000_000)

    assert stall(before[-1]) is not None
    settings_are_read = next(
        n
        for n, now in enumerate(after)
        if now.last is not None and now.last.broker_configs[4].follower_throttle_rate == 30_000_000
    )
    assert all(stall(now) is None for now in after[settings_are_read:])
    assert after[-1].events[-1].what == AGAIN


def written(
    inbound: list[int], *, rate: int, others: int = 0, copied: int = 300
) -> list[Observation]:
    """Build polls in which orders-0 gets the given messages of 1,000 bytes each second.

    Args:
        inbound: messages written to orders-0 in each second.
        rate: the throttle of broker 4, onto which orders-0 and orders-1 are copied.
        others: messages written to orders-1 each second; 0 leaves orders-1 out.
        copied: messages of each partition that are copied each second.
    """
    states = [a_move(T0)] + ([a_move(T1)] if others else [])
    polls = []
    for n in range(len(inbound)):
        ends = {(T0, 1): 10**6 + sum(inbound[:n]), (T0, 4): copied * n}
        if others:
            ends |= {(T1, 1): 10**6 + others * n, (T1, 4): copied * n}
        polls.append(
            an_observation(
                states,
                float(n),
                ends=ends,
                starts={state.tp: 0 for state in states},
                sizes={key: end * 1_000 for key, end in ends.items()},
                topic_configs={"orders": TopicConfig(follower_throttled_replicas="*")},
                broker_configs={4: BrokerConfig(follower_throttle_rate=rate)},
            )
        )
    return polls


def test_a_burst_of_writes_raises_no_alarm() -> None:
    burst = [100] * 60 + [20_000] * 5 + [100] * 60

    assert {stall(now) for now in folds(written(burst, rate=5_000_000, copied=4_000))} == {None}


def test_an_inbound_rate_close_to_the_throttle_does_not_make_the_alarm_flap() -> None:
    swinging = [2_000 + (150 if n // 10 % 2 else -150) for n in range(300)]

    reported = [stall(now) is not None for now in folds(written(swinging, rate=1_950_000))]

    first = reported.index(True)
    assert all(reported[first:])


def test_the_suggested_rate_is_never_below_the_insufficient_one() -> None:
    now = folded(written([2_100] * 60 + [1_950] * 90, rate=2_000_000))

    assert alarm(now)[2] == "2.0 MB/s throttle, 2.1 MB/s in; needs more than 2.1 MB/s"
    less = written([2_100] * 60 + [1_500] * 90, rate=2_000_000, copied=1_900)
    assert stall(folded(less)) is None


def test_a_partition_with_few_writes_catches_up_beside_one_that_never_does() -> None:
    now = folded(written([8_000] * 40, rate=2_000_000, others=100))

    assert alarm(now) == never("2.0 MB/s throttle, 8.1 MB/s in")
    assert stall(now, T1) is None


def test_a_caught_up_replica_raises_no_alarm_under_a_low_throttle() -> None:
    polls = written([3_000] * 40, rate=2_000_000, copied=3_000)
    level = [
        an_observation(
            [a_move(T0)],
            poll.monotonic_s,
            ends={(T0, 1): 3_000 * n, (T0, 4): 3_000 * n},
            starts={T0: 0},
            sizes={(T0, 1): 3_000_000 * n, (T0, 4): 3_000_000 * n},
            topic_configs=poll.topic_configs,
            broker_configs=poll.broker_configs,
        )
        for n, poll in enumerate(polls, start=1)
    ]

    assert stall(folded(level)) is None


def test_missing_figures_neither_raise_nor_end_the_alarm() -> None:
    polls = written([8_000] * 60, rate=2_000_000)
    blind = [
        an_observation(
            [a_move(T0)],
            60.0 + n,
            topic_configs=polls[0].topic_configs,
            broker_configs=polls[0].broker_configs,
        )
        for n in range(20)
    ]

    now = folded(polls)
    assert stall(now) is not None
    assert stall(folded(blind, now)) is not None
    assert stall(folded([*blind[:1], *blind[1:]], folded(polls[:5]))) is None


@given(st.floats(1.0, 1e9), st.lists(st.floats(0.86, 1.0), max_size=8))
def test_figures_of_a_throttle_that_is_too_low_do_not_jitter(
    most: float, shares: list[float]
) -> None:
    shown: float | None = None
    seen = set()
    for value in (most, *(most * share for share in shares)):
        shown = steady(value, shown)
        assert shown >= value, "a rate above the one shown is enough"
        seen.add(shown)
    assert seen == {most}
