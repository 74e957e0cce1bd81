"""Whatever a cluster shows, in whatever order, progress and the flow of each broker stay sane."""

import math
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.memory import health
from ktui.progress.news import PER_TIMELINE
from ktui.progress.row import HISTORY_SLOTS, LAG_POINTS, RECENT_SLOTS, state_word
from ktui.progress.summary import broker_loads, totals
from ktui.progress.timeline import Cause, Lane, Mark, Phase, Progress, Slots, StallKind, Timeline
from ktui.speed.answer import Span
from support.simulated.observations import a_move, a_partition, an_observation, at

BROKERS = range(1, 7)
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0))
AGES_S = (0.0, 0.0, 0.0, 0.3, 3.0, 50.0)
MARKS = {*range(101), *map(int, Mark)}

K = TypeVar("K")

brokers = st.sampled_from(list(BROKERS))
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
pauses = st.sampled_from(
    [-30.0, -0.5, 0.0, 0.001, 0.5, 1.0, 1.0, 1.0, 2.0, 5.0, 20.0, 90.0, 4000.0]
)


@st.composite
def states(draw: st.DrawFn, tp: TopicPartition) -> PartitionState:
    replicas = draw(replica_lists)
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    if draw(st.booleans()):
        adding = tuple(b for b in replicas if draw(st.booleans()))
        removing = tuple(b for b in replicas if draw(st.integers(0, 3)) == 0)
    isr = tuple(b for b in replicas if draw(st.integers(0, 2)))
    return a_partition(
        tp,
        replicas,
        isr=isr,
        leader=draw(st.sampled_from([*replicas, None])),
        adding=adding,
        removing=removing,
        topic_id=draw(st.sampled_from(["a", "a", "a", "a", "b", None])),
        leader_epoch=draw(st.one_of(st.none(), st.integers(0, 5))),
        offline=tuple(b for b in replicas if draw(st.integers(0, 5)) == 0),
        described=draw(st.integers(0, 7)) > 0,
    )


@st.composite
def observations(draw: st.DrawFn, now_s: float) -> Observation:
    shown = [draw(states(tp)) for tp in PARTITIONS if draw(st.integers(0, 5))]
    missing = [tp for tp in PARTITIONS if tp not in {state.tp for state in shown}]
    replicas = [(tp, broker) for tp in PARTITIONS for broker in BROKERS]

    # Hypothesis would take most of its time to choose each of so many figures.
    chance = Random(draw(st.integers(0, 1_000_000)))  # noqa: S311  # figures for a test
    most = draw(st.sampled_from([2, 50, 10**12]))

    def readings(keys: Iterable[K]) -> dict[K, int | Reading]:
        return {
            key: Reading(chance.randint(0, most), now_s - chance.choice(AGES_S))
            for key in keys
            if chance.random() < 0.8
        }

    return an_observation(
        shown,
        now_s,
        brokers=draw(st.sets(brokers)),
        down=draw(st.sets(brokers, max_size=2)),
        ends=readings(replicas),
        sizes=readings(replicas),
        starts=readings(PARTITIONS),
        absent=frozenset(tp for tp in missing if draw(st.booleans())),
        topic_configs={
            "orders": TopicConfig(
                min_insync_replicas=draw(st.integers(1, 3)),
                compacted=draw(st.booleans()),
                follower_throttled_replicas=draw(st.sampled_from(["", "*", "0:1,0:2,1:3"])),
                leader_throttled_replicas=draw(st.sampled_from(["", "*"])),
            )
        },
        broker_configs={
            broker: BrokerConfig(leader_throttle_rate=1_000, follower_throttle_rate=1_000)
            for broker in BROKERS
        },
        log_dirs={1: (LogDir(1, "/data", "KAFKA_STORAGE_ERROR"),)} if draw(st.booleans()) else {},
        failures=tuple(
            Failure(Operation.LOG_ENDS, "no answer", broker)
            for broker in draw(st.sets(brokers, max_size=2))
        ),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Observation]:
    now_s = 1_000.0
    made = []
    for _ in range(draw(st.integers(1, 12))):
        now_s += draw(pauses)
        observation = draw(observations(now_s))
        made += [observation] * draw(st.sampled_from([1, 1, 1, 2]))
        for _ in range(draw(st.sampled_from([0, 0, 0, 4, 8]))):
            now_s += draw(pauses)
            made.append(at(observation, now_s))
    return made


def all_folds(history: list[Observation]) -> list[Progress]:
    made = [Progress()]
    for observation in history:
        made.append(fold(made[-1], observation))
    return made


def sane_range(left: Span) -> bool:
    return 0.0 <= left.low <= left.middle <= left.high < math.inf


def sane_slots(slots: Slots, most: int) -> bool:
    return 1 <= len(slots.marks) <= most and set(slots.marks) <= MARKS


def assert_sane(lane: Lane) -> None:
    assert lane.share is None or 0.0 <= lane.share <= 1.0
    for figure in (lane.lag_messages, lane.lag_bytes, lane.rate_messages_s, lane.rate_bytes_s):
        assert figure is None or 0 <= figure < math.inf
    assert lane.left_s is None or sane_range(lane.left_s)
    stall = lane.stall
    if stall and (stall.kind, stall.cause) == (StallKind.FALLING_BEHIND, Cause.THROTTLED):
        assert "more than" in stall.detail
        assert lane.left_s is None
    assert lane.history is not None
    assert sane_slots(lane.history, HISTORY_SLOTS)


def every_figure_is_one_that_can_be_shown(folds: list[Progress]) -> None:
    for progress in folds:
        for timeline in progress.timelines.values():
            for lane in timeline.lanes.values():
                assert_sane(lane)
            assert timeline.left_s is None or sane_range(timeline.left_s)
            assert timeline.inbound_bytes_s is None or timeline.inbound_bytes_s >= 0
            assert set(timeline.state.replicas) <= set(timeline.lanes)
        whole = totals(progress)
        assert whole.share is None or 0.0 <= whole.share <= 1.0
        assert whole.left_s is None or sane_range(whole.left_s)
        assert all(
            x.adding >= 0 and (x.bytes_in_s or 0) >= 0 for x in broker_loads(progress).values()
        )


def memory_is_bounded(folds: list[Progress]) -> None:
    for progress in folds:
        assert len(progress.timelines) <= len(PARTITIONS)
        for timeline in progress.timelines.values():
            assert sane_slots(timeline.recent, RECENT_SLOTS)
            assert len(timeline.lag_history) <= LAG_POINTS
            assert len(timeline.events) <= PER_TIMELINE
            assert len(timeline.lanes) <= len(BROKERS)


def phases_only_change_as_moves_do(folds: list[Progress]) -> None:
    for before, after in pairwise(folds):
        for tp, now in after.timelines.items():
            was = before.timelines.get(tp)
            assert legal(was, now), (was.phase if was else None, now.phase)


def legal(was: Timeline | None, now: Timeline) -> bool:
    begins = now.phase is (Phase.MOVING if now.state.reassigning else Phase.SETTLED)
    if was is None or (now.began_s, now.began_at) != (was.began_s, was.began_at):
        between_polls = was is not None and was.phase.ended and was.state != now.state
        return begins or (between_polls and now.phase is Phase.DONE)
    if None not in (ids := {was.state.topic_id, now.state.topic_id}) and len(ids) > 1:
        return begins
    if was.phase.ended or was.phase is Phase.SETTLED:
        return now.phase is was.phase or (begins and now.state.reassigning)
    if now.phase in (Phase.MOVING, Phase.STALLED):
        return now.state.reassigning
    return now.phase is not Phase.SETTLED


def the_same_observations_always_tell_the_same_story(
    history: list[Observation], folds: list[Progress]
) -> None:
    assert all_folds(history) == folds


def nothing_is_told_when_nothing_has_changed(
    history: list[Observation], folds: list[Progress]
) -> None:
    assert fold(folds[-1], history[-1]).events == folds[-1].events


def what_has_ended_on_its_target_is_on_it(folds: list[Progress]) -> None:
    for progress in folds:
        for timeline in progress.timelines.values():
            if timeline.phase is Phase.DONE:
                assert timeline.state.replicas == timeline.target


def patience_is_never_counted_as_an_alarm(folds: list[Progress]) -> None:
    for progress in folds:
        for timeline in progress.timelines.values():
            stall = timeline.stall
            if stall is not None and not stall.alarm:
                assert timeline.phase is not Phase.STALLED
                assert stall.detail


def the_original_of_a_move_is_never_forgotten(folds: list[Progress]) -> None:
    for before, after in pairwise(folds):
        for tp, now in after.timelines.items():
            was = before.timelines.get(tp)
            if was is None or (now.began_s, now.began_at) != (was.began_s, was.began_at):
                continue
            if was.phase is not Phase.SETTLED and now.phase is not Phase.MOVING:
                assert now.original == was.original or now.phase is Phase.SETTLED


def every_partition_has_a_state_word(folds: list[Progress]) -> None:
    words = {phase.value for phase in Phase}
    for timeline in folds[-1].timelines.values():
        assert state_word(timeline, None) in words
        assert state_word(timeline, ()) in words | {"foreign"}


PROMISES = (
    every_figure_is_one_that_can_be_shown,
    memory_is_bounded,
    phases_only_change_as_moves_do,
    what_has_ended_on_its_target_is_on_it,
    patience_is_never_counted_as_an_alarm,
    the_original_of_a_move_is_never_forgotten,
    every_partition_has_a_state_word,
)


@given(histories())
def test_progress_keeps_its_promises_whatever_is_seen(history: list[Observation]) -> None:
    folds = all_folds(history)
    for promise in PROMISES:
        promise(folds)
    the_same_observations_always_tell_the_same_story(history, folds)
    nothing_is_told_when_nothing_has_changed(history, folds)


@given(states(PARTITIONS[0]), st.sampled_from([None, TopicConfig(), TopicConfig(2)]))
def test_every_state_has_a_health(state: PartitionState, config: TopicConfig | None) -> None:
    assert health(state, config)


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

    assert max(p.flows.of(ONTO).in_s or 0.0 for p in made) <= each * MESSAGE * 1.001
    lags = [p.timelines[tp].lanes[ONTO].lag_messages for p in made]
    assert lags == [min(held, start + held - end) for end in reached]
