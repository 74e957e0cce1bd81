"""The flow of each broker, over any order of steps, polls and losses."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from support.simulated.observations import a_move, a_partition, an_observation

MESSAGE = 10
SIZE = 100_000
ONTO = 4
LISTED = {"orders": TopicConfig(follower_throttled_replicas="*")}


def steps(
    rate: float, polls: list[float], copies: list[int], *, throttle: int | None = None
) -> list[Observation]:
    """Return polls of moves one after the other, which together fill a broker's inflow.

    Args:
        rate: messages copied onto the broker a second.
        polls: the seconds of the polls.
        copies: the number of moves at once, in each step.
        throttle: the broker's throttle in bytes a second.
    """
    seen, done, step, first = [], 0.0, 0, 0
    progress: dict[TopicPartition, float] = {}
    for before, now in zip([0.0, *polls], polls, strict=False):
        at_once = copies[step % len(copies)]
        current = [TopicPartition("orders", first + n) for n in range(at_once)]
        for tp in current:
            each = (now - before) * rate / at_once
            progress[tp] = min(SIZE, progress.get(tp, 0.0) + each)
            done += each
        over = all(progress[tp] >= SIZE for tp in current)
        states = [a_partition(tp, (4, 2, 3), leader=2) if over else a_move(tp) for tp in current]
        leader = 2 if over else 1
        ends = {(tp, leader): SIZE for tp in current}
        if not over:
            ends |= {(tp, ONTO): int(progress[tp]) for tp in current}
        seen.append(
            an_observation(
                states,
                now,
                ends=ends,
                starts=dict.fromkeys(current, 0),
                sizes={key: value * MESSAGE for key, value in ends.items()},
                topic_configs=LISTED,
                broker_configs={ONTO: BrokerConfig(follower_throttle_rate=throttle)},
            )
        )
        if over:
            step, first = step + 1, first + at_once
    return seen


def flows(observations: list[Observation]) -> list[Progress]:
    made = [Progress()]
    for observation in observations:
        made.append(fold(made[-1], observation))
    return made[1:]


@given(
    st.floats(1_000, 5_000),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_the_inflow_of_a_broker_is_right_through_all_changes_of_steps(
    rate: float, copies: list[int], poll_s: float
) -> None:
    """The true rate is constant; copies end, and others begin, while it is measured."""
    made = flows(steps(rate, [n * poll_s for n in range(1, round(150 / poll_s))], copies))
    known = [p.flows.of(ONTO).in_s for p in made if (p.memory and p.memory.now_s > 6)]

    assert None not in known
    # A poll without copies lies between two steps, and the last gulp of one is cut at its end.
    assert all(x is not None and x <= rate * MESSAGE * 1.15 for x in known)
    assert all(x is not None and x >= rate * MESSAGE * 0.6 for x in known)


def test_a_flow_in_gulps_is_its_average() -> None:
    """As under a throttle of 700 kB/s, which lets 10 MB through every 14 s."""
    tp = TopicPartition("orders", 0)
    polls = []
    for second in range(200):
        copied = second // 14 * 1_000_000
        ends = {(tp, 1): 10**8, (tp, ONTO): copied}
        sizes = {key: value * MESSAGE for key, value in ends.items()}
        polls.append(
            an_observation([a_move(tp)], float(second), ends=ends, starts={tp: 0}, sizes=sizes)
        )

    known = [p.flows.of(ONTO).in_s for p in flows(polls)[45:]]

    assert known == pytest.approx([10_000_000 / 14] * len(known))


def test_an_inflow_that_stays_above_a_throttle_that_should_bind_is_trouble() -> None:
    polls = steps(2_000, [float(n) for n in range(1, 100)], [2], throttle=10_000)
    made = flows(polls)
    (event,) = [e for e in made[-1].events if "above its throttle" in e.what]

    assert "into broker 4, above its throttle of 10.0 kB/s" in event.what
    assert made[-1].flows.of(ONTO).breaks_throttle
    assert not made[35].flows.of(ONTO).breaks_throttle


def test_an_inflow_under_its_throttle_is_no_trouble() -> None:
    made = flows(steps(2_000, [float(n) for n in range(1, 100)], [2], throttle=20_500))

    assert not any(p.flows.of(ONTO).breaks_throttle for p in made)


@given(st.lists(st.sampled_from([0.0, 0.3, 1.0, 5.0, 20.0, 90.0]), min_size=1, max_size=40))
def test_no_flow_is_negative_or_faster_than_what_was_copied(pauses: list[float]) -> None:
    seconds = reduce(lambda done, pause: [*done, done[-1] + pause], pauses, [1.0])
    made = flows(steps(1_000, seconds, [1, 3]))

    for progress in made:
        flow = progress.flows.of(ONTO)
        assert flow.in_s is None or 0 <= flow.in_s <= 2 * 1_000 * MESSAGE
        assert flow.out_s is None or flow.out_s >= 0


def test_a_figure_that_stays_away_is_unknown_and_not_zero() -> None:
    polls = steps(1_000, [float(n) for n in range(1, 30)], [1])
    blind = [an_observation([a_move(TopicPartition("orders", 0))], 30.0 + n) for n in range(20)]
    made = flows([*polls, *blind])

    assert made[-21].flows.of(ONTO).in_s == pytest.approx(10_000, rel=0.05)
    assert made[-1].flows.of(ONTO).in_s is None


def test_no_flow_is_left_once_nothing_has_been_copied_for_the_window() -> None:
    polls = steps(1_000, [float(n) for n in range(1, 40)], [1])
    quiet = [an_observation([], 40.0 + n) for n in range(60)]

    assert flows([*polls, *quiet])[-1].flows.brokers == {}


@given(st.integers(0, 10**12), st.integers(0, 20), st.integers(1, 500))
def test_the_jump_of_a_new_copy_to_the_start_of_the_log_brings_nothing_in(
    start: int, waits_s: int, each: int
) -> None:
    """What lies before was deleted, or is in remote storage alone."""
    tp, seconds = TopicPartition("orders", 0), 20
    held = seconds * each
    reached = [0] * waits_s + [start + n * each for n in range(seconds)]
    seen = [
        an_observation(
            [a_move(tp)],
            float(n),
            ends={(tp, 1): start + held, (tp, ONTO): end},
            starts={tp: start},
            sizes={(tp, 1): held * MESSAGE, (tp, ONTO): max(0, end - start) * MESSAGE},
        )
        for n, end in enumerate(reached)
    ]

    made = flows(seen)

    assert max(p.flows.of(ONTO).highest_in_s for p in made) <= each * MESSAGE * 1.001
    lags = [p.timelines[tp].lanes[ONTO].lag_messages for p in made]
    assert lags == [min(held, start + held - end) for end in reached]
