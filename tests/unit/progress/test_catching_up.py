"""The figures of a replica that is catching up: lag, share, rates and time left."""

from itertools import pairwise

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Reading
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Lane, Progress, Role
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

COMPACTED = {"orders": TopicConfig(compacted=True)}
TIERED = {"orders": TopicConfig(tiered=True)}


def lane(progress: Progress, broker: int = 4) -> Lane:
    return progress.timelines[T0].lanes[broker]


def test_the_lag_is_the_leaders_end_minus_the_followers() -> None:
    seen = an_observation([a_move()], ends={(T0, 1): 6_000, (T0, 4): 198}, starts={T0: 0})
    adding = lane(folded([seen]))
    assert adding.role is Role.ADDING
    assert adding.lag_messages == 5_802
    assert adding.share == pytest.approx(0.033)
    assert not adding.approximate


def test_the_share_counts_from_the_leaders_log_start() -> None:
    seen = an_observation([a_move()], ends={(T0, 1): 2_000, (T0, 4): 1_500}, starts={T0: 1_000})
    assert lane(folded([seen])).share == 0.5


def test_a_follower_short_of_the_log_start_has_all_of_the_log_left_to_copy_and_no_more() -> None:
    seen = an_observation([a_move()], ends={(T0, 1): 2_000, (T0, 4): 0}, starts={T0: 1_000})
    adding = lane(folded([seen]))
    assert (adding.share, adding.lag_messages) == (0.0, 1_000)


def test_the_jump_to_the_log_start_is_not_counted_as_copied() -> None:
    copied = [0, *(10**9 + 100 * n for n in range(20))]
    polls = [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): 10**9 + 10_000, (T0, 4): end},
            starts={T0: 10**9},
            sizes={(T0, 1): 100_000, (T0, 4): max(0, end - 10**9) * 10},
        )
        for n, end in enumerate(copied)
    ]

    made = [folded(polls[: n + 1]) for n in range(len(polls))]

    assert lane(made[-1]).rate_messages_s == pytest.approx(100.0)
    assert max(each.flows.of(4).in_s or 0.0 for each in made) <= 1_000.0


def test_a_follower_that_stays_short_of_the_log_start_is_stalled() -> None:
    polls = [
        an_observation(
            [a_move()],
            float(n),
            ends={(T0, 1): 9_000, (T0, 4): 0},
            starts={T0: 1_000 + n},
            sizes={(T0, 1): 80_000, (T0, 4): 0},
        )
        for n in range(60)
    ]

    made = [folded(polls[: n + 1]) for n in range(len(polls))]

    assert lane(made[-1]).stall is not None
    assert not any(each.flows.of(4).in_s for each in made)


def test_an_empty_log_is_caught_up() -> None:
    seen = an_observation([a_move()], ends={(T0, 1): 7, (T0, 4): 7}, starts={T0: 7})
    assert lane(folded([seen])).share == 1.0


def test_a_follower_ahead_of_an_older_reading_of_the_leader_does_not_lag() -> None:
    ends = {(T0, 1): Reading(100, 8.0), (T0, 4): Reading(120, 10.0)}
    adding = lane(folded([an_observation([a_move()], 10.0, ends=ends, starts={T0: 0})]))
    assert adding.lag_messages == 0
    assert adding.share == 1.0


def test_the_lag_carries_the_time_the_follower_was_read() -> None:
    seen = an_observation([a_move()], 10.0, ends={(T0, 1): 9, (T0, 4): Reading(4, 7.5)})
    adding = lane(folded([seen]))
    assert adding.lag_at is not None
    assert (seen.at - adding.lag_at).total_seconds() == 2.5


def test_the_lag_in_bytes_comes_from_the_sizes_on_disk() -> None:
    seen = an_observation(
        [a_move()],
        ends={(T0, 1): 100, (T0, 4): 40},
        starts={T0: 0},
        sizes={(T0, 1): 5_000, (T0, 4): 1_500},
    )
    assert lane(folded([seen])).lag_bytes == 3_500


def test_the_lag_in_bytes_comes_from_messages_when_log_ends_are_newer() -> None:
    seen = an_observation(
        [a_move()],
        10.0,
        ends={(T0, 1): 100, (T0, 4): 40},
        starts={T0: 0},
        sizes={(T0, 1): Reading(5_000, 6.0), (T0, 4): Reading(0, 6.0)},
    )
    assert lane(folded([seen])).lag_bytes == 60 * 50


def test_a_copy_larger_than_the_leaders_has_no_lag_in_bytes() -> None:
    seen = an_observation([a_move()], sizes={(T0, 1): 5_000, (T0, 4): 6_000})
    assert lane(folded([seen])).lag_bytes == 0


def test_a_compacted_topic_is_measured_by_bytes_and_marked_approximate() -> None:
    seen = an_observation(
        [a_move()],
        ends={(T0, 1): 1_000, (T0, 4): 900},
        starts={T0: 0},
        sizes={(T0, 1): 4_000, (T0, 4): 1_000},
        topic_configs=COMPACTED,
    )
    adding = lane(folded([seen]))
    assert adding.share == 0.25
    assert adding.approximate
    assert adding.lag_messages == 100


def test_a_replica_of_a_tiered_topic_may_be_smaller_than_its_leader_and_lags_by_messages() -> None:
    """It began at the last tiered offset, 800 of the 1,000 messages on the leader's disk."""
    seen = an_observation(
        [a_move()],
        ends={(T0, 1): 51_000, (T0, 4): 50_900},
        starts={T0: 50_000},
        sizes={(T0, 1): 10_000, (T0, 4): 1_000},
        topic_configs=TIERED,
    )
    adding = lane(folded([seen]))
    assert (adding.lag_messages, adding.lag_bytes) == (100, 1_000)
    assert (adding.share, adding.approximate) == (0.9, False)


def test_lag_is_shown_in_bytes_when_a_broker_refuses_log_ends() -> None:
    seen = an_observation([a_move()], sizes={(T0, 1): 4_000, (T0, 4): 1_000})
    adding = lane(folded([seen]))
    assert adding.lag_messages is None
    assert adding.lag_bytes == 3_000
    assert adding.share == 0.25
    assert adding.approximate


def test_lag_share_and_time_left_are_unknown_without_figures() -> None:
    adding = lane(folded([an_observation([a_move()])]))
    assert adding.lag_messages is None
    assert adding.lag_bytes is None
    assert adding.share is None
    assert adding.left_s is None


def test_the_last_figures_and_their_time_stay_while_new_ones_are_missing() -> None:
    *_, last = observations = moving(seconds=5)
    adding = lane(folded([*observations, an_observation([a_move(topic_id=None)], 6.0)]))
    known = lane(folded(observations))
    assert adding.lag_messages == known.lag_messages
    assert adding.lag_at == last.at
    assert adding.share == known.share


def test_rates_are_right_even_when_polls_are_irregular() -> None:
    polls = [
        an_observation(
            [a_move()],
            at_s,
            ends={(T0, 1): 100_000, (T0, 4): round(500 * at_s)},
            starts={T0: 0},
            sizes={(T0, 1): 10_000_000, (T0, 4): round(50_000 * at_s)},
        )
        for at_s in (0.0, 0.2, 1.0, 1.1, 6.0, 7.0, 19.0, 19.5)
    ]
    adding = lane(folded(polls))
    assert adding.rate_messages_s == pytest.approx(500, rel=0.01)
    assert adding.rate_bytes_s == pytest.approx(50_000, rel=0.01)


def test_the_rate_smooths_the_bursts_of_a_throttle() -> None:
    polls = [
        an_observation(
            [a_move()],
            float(second),
            ends={(T0, 1): 1_000_000, (T0, 4): 11_000 * (second // 11)},
            starts={T0: 0},
        )
        for second in range(120)
    ]
    rates = [lane(folded(polls[:end])).rate_messages_s for end in range(60, 120)]
    assert rates == pytest.approx([1_000] * 60, rel=0.05)


def test_two_bursts_per_throttle_window_swing_the_rate_by_at_most_a_sixth() -> None:
    polls = [
        an_observation(
            [a_move()],
            float(second),
            ends={(T0, 1): 1_000_000, (T0, 4): 5_500 * ((second + 2) // 11 + second // 11)},
            starts={T0: 0},
        )
        for second in range(120)
    ]
    rates = [lane(folded(polls[:end])).rate_messages_s for end in range(60, 120)]
    assert rates == pytest.approx([1_000] * 60, rel=0.17)


def test_the_rate_of_a_copy_that_stops_falls_after_a_short_pause() -> None:
    cluster = a_cluster(moving=["orders-0"])
    recorder = Recorder(cluster)
    polls = recorder.record(60)
    cluster.do(layout.Slow(4, 0.0))
    polls += recorder.record(30)
    rates = [lane(folded(polls[: 61 + n])).rate_messages_s or 0.0 for n in (1, 14, 16, 29)]
    assert rates[0] == rates[1] == pytest.approx(1_000)
    assert rates[2] < 500
    assert rates[3] < 250


def test_a_count_that_goes_backwards_restarts_its_rate() -> None:
    state = a_move(topic_id=None)
    truncated = an_observation([state], 10.0, ends={(T0, 1): 101_000, (T0, 4): 50})
    assert lane(folded([*moving(seconds=10), truncated])).rate_messages_s is None


def test_rates_restart_after_a_long_gap() -> None:
    cluster = a_cluster(moving=["orders-0"])
    recorder = Recorder(cluster)
    polls = recorder.record(10)
    wait(cluster, 490)
    assert lane(folded([*polls, *recorder.record()])).rate_messages_s is None


def test_an_outage_of_the_whole_cluster_does_not_lower_the_rate_of_a_copy() -> None:
    cluster = a_cluster(moving=["orders-0"], inbound_s=100)
    recorder = Recorder(cluster)
    now = folded(recorder.record(60))
    for broker in cluster.machines:
        cluster.do(layout.Kill(broker))
    wait(cluster, 40)
    for broker in cluster.machines:
        cluster.do(layout.Start(broker))
    wait(cluster, 10)
    after = recorder.record(11)[1:]
    for seconds in (1, 2, 5, 10):
        adding = lane(folded(after[:seconds], now))
        assert adding.rate_bytes_s == pytest.approx(1_000_000, rel=0.3)
        assert adding.left_s is not None
        assert adding.left_s.middle == pytest.approx(1_000, rel=0.3)


def test_progress_between_distant_polls_does_not_inflate_the_rate() -> None:
    cluster = a_cluster(moving=["orders-0"], copied_s=18_000)
    cluster.do(layout.Slow(4, 1 / 18))
    recorder = Recorder(cluster)
    now = folded(recorder.record(30))
    cluster.do(layout.Slow(4, 1.0))
    wait(cluster, 49)
    cluster.do(layout.Slow(4, 1 / 18))
    adding = lane(folded(recorder.record(), now))
    assert adding.lag_messages is not None
    assert adding.lag_messages < 100_000
    assert (adding.rate_messages_s or 0) < 2_500


def test_downtime_of_a_broker_does_not_lower_the_rate_of_its_copy() -> None:
    cluster = a_cluster(moving=["orders-0"])
    recorder = Recorder(cluster)
    polls = recorder.record(10)
    cluster.do(layout.Shutdown(4))
    polls += recorder.record(40)
    cluster.do(layout.Start(4))
    polls += recorder.record(20)
    assert lane(folded(polls)).rate_messages_s == pytest.approx(1_000)


def test_a_reading_seen_twice_does_not_change_the_rate() -> None:
    polls = moving(seconds=10)
    again = at(polls[-1], 9.5)
    assert lane(folded([*polls, again])).rate_messages_s == lane(folded(polls)).rate_messages_s


def test_time_left_includes_what_is_written_meanwhile() -> None:
    adding = lane(folded(moving(seconds=60, messages=100_000, inbound_s=100, copied_s=1_000)))
    assert adding.lag_messages == 46_900
    assert adding.left_s is not None
    assert adding.left_s.middle == pytest.approx(46_900 / 900, rel=0.01)


def test_time_left_is_unknown_when_more_is_written_than_copied() -> None:
    assert lane(folded(moving(seconds=20, inbound_s=500, copied_s=400))).left_s is None


def test_the_range_of_time_left_is_wide_at_first_and_narrows_at_a_steady_rate() -> None:
    early = lane(folded(moving(seconds=10, messages=1_000_000))).left_s
    late = lane(folded(moving(seconds=100, messages=1_000_000))).left_s
    assert early is not None
    assert late is not None
    assert early.high / early.low == pytest.approx(4, rel=0.01)
    assert late.high / late.low < 1.5


def test_time_left_adapts_within_seconds_when_another_copy_shares_the_rate() -> None:
    company = TopicPartition("company", 0)
    copied, polls = 0, []
    for second in range(70):
        copied += 2_000 if second < 60 else 1_000
        moves = [a_move()] if second < 60 else [a_move(), a_move(tp=company)]
        ends = {(T0, 1): 1_000_000, (T0, 4): copied}
        polls.append(an_observation(moves, float(second), ends=ends, starts={T0: 0}))
    left = lane(folded(polls)).left_s
    assert left is not None
    assert left.middle == pytest.approx((1_000_000 - copied) / 1_000, rel=0.1)


def test_an_uneven_rate_widens_the_range_of_time_left() -> None:
    copied, polls = 0, []
    for second in range(140):
        copied += 2_000 if second // 30 % 2 == 0 else 500
        ends = {(T0, 1): 1_000_000, (T0, 4): copied}
        polls.append(an_observation([a_move()], float(second), ends=ends, starts={T0: 0}))
    left = lane(folded(polls)).left_s
    assert left is not None
    assert left.low < left.middle < left.high
    assert left.high / left.low > 2


def test_a_replica_in_sync_has_caught_up() -> None:
    now = folded(
        [*moving(seconds=5), an_observation([a_move(isr=(1, 2, 3, 4), topic_id=None)], 5.0)]
    )
    adding = lane(now)
    assert adding.role is Role.IN_SYNC
    assert adding.share == 1.0
    assert now.timelines[T0].lag_messages is None


def test_a_kept_replica_that_left_the_isr_shows_its_lag() -> None:
    state = a_partition(isr=(1, 2))
    seen = an_observation([state], ends={(T0, 1): 500, (T0, 3): 100}, starts={T0: 0})
    out = lane(folded([seen]), 3)
    assert out.role is Role.OUT_OF_SYNC
    assert out.lag_messages == 400


def test_a_timeline_has_the_inbound_rate_of_the_leader() -> None:
    timeline = folded(moving(seconds=20, inbound_s=100)).timelines[T0]
    assert timeline.inbound_messages_s == pytest.approx(100)
    assert timeline.inbound_bytes_s == pytest.approx(100_000, rel=0.01)


def test_the_lag_curve_spans_a_long_move_in_few_points() -> None:
    polls = moving(seconds=4_000, poll_s=4.0, messages=10_000_000, copied_s=2_000)
    timeline = folded(polls).timelines[T0]
    points = list(timeline.lag_history)
    assert 60 < len(points) <= 240
    assert points[0][0] == 0.0
    assert points[-1] == (3_996.0, timeline.lag_messages)
    assert max(after[0] - before[0] for before, after in pairwise(points)) < 80
