"""The least time that is left, and steps in bundles."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    LimitsChanged,
    Planned,
    PlannedPart,
    StepBegun,
)
from ktui.execution.run.run import Run
from ktui.execution.time_left.rest import CopyProgress, LeastLeft, simulate_remaining
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.speed import simulate
from ktui.speed.answer import Bottleneck, Source
from ktui.speed.capacity import Capacity
from support.journals.journals import AT, GB, TWO_AT_ONCE, ScriptedRun, copied_for, owned, started
from support.runs.pacing import broker_limits

PARTITIONS, BUNDLES, BROKERS = 900, 160, 20
WITHIN = 0.1
ALL_AT_ONCE = Limits()
BY_LIMITS = {
    "no limit": ALL_AT_ONCE,
    "20 partitions": Limits(partitions=20),
    "100 partitions": Limits(partitions=100),
    "2 replicas a broker": Limits(per_broker=2),
    "50 GB": Limits(bytes_in_flight=50 * GB),
    "20 GB a broker": Limits(bytes_per_broker=20 * GB),
    "60 replicas": Limits(replica_movements=60),
    "2 replicas a leader": Limits(per_leader=2),
    "20 cuts a minute": Limits(partitions=50, cuts_per_minute=20),
    "2 cuts a minute": Limits(partitions=200, cuts_per_minute=2),
}
THROTTLED = ThrottleRates(5_000_000)


Target = Callable[[Sequence[int], int], tuple[int, ...]]
TARGETS: Mapping[str, Target] = {
    "a new broker first": lambda old, new: (new, *old[1:]),
    "a new broker last": lambda old, new: (*old[:-1], new),
    "broker 0 is drained": lambda old, new: tuple(new if b == 0 else b for b in old),
    "half only reordered": lambda old, new: (new, *old[1:]) if new % 2 else tuple(reversed(old)),
}


def planned(n: int, dice: random.Random, target: Target, *, few_are_large: bool) -> Planned:
    *original, new = dice.sample(range(BROKERS), 4)
    if target is TARGETS["broker 0 is drained"]:
        original[n % 3], new = 0, dice.choice([b for b in range(1, BROKERS) if b not in original])
    times = dice.paretovariate(2.0) if few_are_large else dice.uniform(0.5, 1.5)
    return Planned(
        topic="a", partition=n, topic_id=None, original=tuple(original),
        target=target(original, new), leader=original[0], size=int(GB * times),
    )  # fmt: skip


def a_run(
    limits: Limits, *, few_are_large: bool = False, target: Target = TARGETS["a new broker first"]
) -> Run:
    dice = random.Random(7)  # noqa: S311 - a test's dice
    parts = [planned(n, dice, target, few_are_large=few_are_large) for n in range(PARTITIONS)]
    run = Run("run")
    changed = LimitsChanged(old=run.limits, new=limits, batch=0, in_flight=0)
    happen(run, started(PARTITIONS), PlannedPart(partitions=tuple(parts)), owned(), changed)
    return run


def happen(run: Run, *events: AnyRunEvent) -> None:
    for event in events:
        run.apply(JournalEntry(run.seq + 1, AT, event))


def left_s(run: Run, throttle: ThrottleRates) -> float:
    capacity = Capacity(None)
    progress = CopyProgress()
    progress.update(run, capacity, AT, {}, lambda _pair: 1.0)
    rates = capacity.under(throttle)
    return simulate_remaining(run, progress, rates, joining_s=2, grown=1.0).whole_s


def left_of(run: Run, throttle: ThrottleRates, most: int) -> float:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulate, "_MOST", most)
        return left_s(run, throttle)


def assert_as_one_by_one(run: Run, throttle: ThrottleRates, within: float = WITHIN) -> None:
    expected_s = left_of(run, throttle, PARTITIONS)
    assert left_of(run, throttle, BUNDLES) == pytest.approx(expected_s, rel=within)


@pytest.mark.parametrize("limits", BY_LIMITS.values(), ids=BY_LIMITS)
@pytest.mark.parametrize("few_are_large", [False, True], ids=["alike", "a few are large"])
def test_the_rest_of_a_large_run_takes_as_long_as_if_each_partition_were_simulated(
    limits: Limits, *, few_are_large: bool
) -> None:
    run = a_run(limits, few_are_large=few_are_large)
    for throttle in (NO_THROTTLE, THROTTLED):
        assert_as_one_by_one(run, throttle)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_each_broker_keeps_what_it_receives(target: Target) -> None:
    for limits in (ALL_AT_ONCE, BY_LIMITS["100 partitions"]):
        run = a_run(limits, target=target)
        for throttle in (NO_THROTTLE, THROTTLED):
            assert_as_one_by_one(run, throttle)


def test_copies_in_flight_share_their_brokers_with_all_that_they_stand_for() -> None:
    run = a_run(ALL_AT_ONCE)
    for track in list(run.tracks.values()):
        happen(run, begun(track.tp, track.planned))

    assert len(run.tracks_in_flight) == PARTITIONS
    for throttle in (NO_THROTTLE, THROTTLED):
        assert_as_one_by_one(run, throttle)


def all_others(old: Sequence[int], new: int) -> tuple[int, ...]:
    return tuple((broker + new) % BROKERS for broker in old)


def test_the_further_steps_of_those_in_flight_count_for_all() -> None:
    run = a_run(Limits(replicas=1), target=all_others)
    for track in list(run.tracks.values()):
        if set(track.planned.target) - set(track.planned.original):
            happen(run, begun(track.tp, track.planned))

    for throttle in (NO_THROTTLE, THROTTLED):
        assert_as_one_by_one(run, throttle, within=0.15)


def begun(tp: TopicPartition, of: Planned) -> StepBegun:
    new = next(broker for broker in of.target if broker not in of.original)
    return StepBegun(
        topic=tp.topic, partition=tp.partition, batch=1, replicas=(*of.original, new),
        adding=(new,), removing=(), elect=None, before=of.original, leader=of.leader,
    )  # fmt: skip


MIB = 2**20


def _least(scripted: ScriptedRun) -> LeastLeft:
    least = scripted.estimate.least_left()
    assert least is not None
    return least


def _limit(scripted: ScriptedRun, limits: Limits) -> None:
    scripted.happen(LimitsChanged(old=scripted.run.limits, new=limits, batch=0, in_flight=0))


def test_the_broker_that_lacks_most_sets_the_least_time_at_the_rate_it_has_shown() -> None:
    scripted = ScriptedRun(GB, GB, GB, targets=((4, 2, 3), (4, 2, 3), (5, 2, 3)))
    _limit(scripted, Limits())
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    least = _least(scripted)

    assert (least.bound.bottleneck, least.bound.broker) == (Bottleneck.RECEIVER, 4)
    assert least.bound.bytes == pytest.approx(1.5 * GB)
    assert least.bound.time_s.middle == pytest.approx(50 / TWO_AT_ONCE * 2 + 50, rel=0.01)
    assert 1 <= least.times < 1.05
    assert least.basis.source is Source.THIS_RUN


def test_a_limit_that_lets_a_broker_idle_raises_the_least_time() -> None:
    scripted = ScriptedRun(GB, GB, GB, targets=((4, 2, 3), (5, 2, 3), (6, 2, 3)))
    _limit(scripted, Limits(partitions=1))
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    least = _least(scripted)

    assert least.bound.bottleneck is Bottleneck.PARTITIONS
    assert least.bound.time_s.middle == pytest.approx(250, rel=0.01)


def test_an_order_that_keeps_the_largest_for_the_end_takes_longer_than_the_least_time() -> None:
    sizes = [GB, *[GB // 2] * 4, 3 * GB]
    targets = ((4, 2, 3), *[(5, 2, 3), (6, 2, 3)] * 2, (6, 2, 3))
    scripted = ScriptedRun(*sizes, targets=targets)
    _limit(scripted, Limits(partitions=2))
    scripted.begin()
    copied_for(scripted, 50, 10e6)

    assert _least(scripted).times > 1.1


def test_the_least_time_is_no_longer_than_the_forecast_after_a_limit_was_lowered() -> None:
    scripted = ScriptedRun(*[GB] * 10)
    _limit(scripted, Limits())
    for n in range(10):
        scripted.begin(n)
    for second in range(0, 50, 5):
        scripted.look_at(dict.fromkeys(range(10), second / 500))
        scripted.pass_time(5)
    scripted.look_at(dict.fromkeys(range(10), 0.1))
    _limit(scripted, Limits(partitions=1))

    left_s = scripted.left_s()

    assert left_s is not None
    assert _least(scripted).bound.time_s.middle <= left_s
    assert _least(scripted).times == 1.0


def test_there_is_no_least_time_before_a_poll_and_where_nothing_is_copied() -> None:
    assert ScriptedRun(GB).estimate.least_left() is None
    scripted = ScriptedRun(GB, original=(4, 3, 2), target=(4, 3))
    scripted.look()
    assert scripted.estimate.least_left() is None


@given(
    st.lists(st.tuples(st.integers(1, 64), st.permutations([4, 5, 6])), min_size=2, max_size=8),
    st.builds(
        Limits,
        replicas=st.sampled_from([None, 1, 2]),
        partitions=st.sampled_from([None, 1, 3]),
        replica_movements=st.sampled_from([None, 2]),
        per_leader=st.sampled_from([None, 2]),
        bytes_per_broker=st.sampled_from([None, 32 * MIB]),
        brokers=broker_limits([1, 4, 5]),
    ),
)
def test_no_forecast_is_below_the_least_time(
    partitions: list[tuple[int, list[int]]], limits: Limits
) -> None:
    sizes = [20 * size * MIB for size, _ in partitions]
    scripted = ScriptedRun(*sizes, targets=tuple(tuple(onto) for _, onto in partitions))
    _limit(scripted, limits)
    scripted.begin()
    for tenth in range(6):
        scripted.look_at({0: tenth / 10})
        scripted.left_s()
        scripted.pass_time(5)
    scripted.look_at({0: 0.6})

    left_s = scripted.left_s()
    assert left_s is not None
    assert left_s >= 0.999 * _least(scripted).bound.time_s.middle
