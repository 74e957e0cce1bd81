"""The speed of a simulated run: the intake of brokers, and the overhead of steps."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation, WantedPartition
from ktui.speed.copies import BrokerIntake
from ktui.speed.simulate import RestOfRun, SimulatedOutcome, StepOverhead, simulate_rest_of_run
from support.runs.received_copies import received

A = TopicPartition("a", 0)
SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=8)


def ends(inbound: BrokerIntake) -> list[float]:
    return [end_s for end_s, _ in inbound.ended(1e9)]


@given(SIZES)
def test_copies_without_contention_end_as_if_alone(sizes: list[int]) -> None:
    inbound = BrokerIntake(lambda at_once: 10.0 * at_once)
    for size in sizes:
        inbound.add(A, size, 0.0)
    assert [round(end_s, 6) for end_s in ends(inbound)] == [size / 10 for size in sorted(sizes)]


@given(SIZES, st.floats(0, 5))
def test_a_rate_curve_is_never_faster_than_its_maximum(sizes: list[int], half_at: float) -> None:
    curve = BrokerIntake(lambda at_once: 10.0 * at_once / (at_once + half_at))
    flat = BrokerIntake(lambda _: 10.0)
    for size in sizes:
        curve.add(A, size, 0.0)
        flat.add(A, size, 0.0)
    assert all(a >= b - 1e-6 for a, b in zip(ends(curve), ends(flat), strict=True))


ONE_BY_ONE = Limits(replicas=1, partitions=1)


def simulated(
    bytes_s: Callable[[int, int], float],
    limits: Limits = ONE_BY_ONE,
    partitions: int = 3,
    beside: StepOverhead = StepOverhead(),  # noqa: B008 - immutable
) -> SimulatedOutcome:
    wanted = [
        WantedPartition(
            TopicPartition("a", n),
            Situation(
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
                leader=2,
                target=(4, 2, 3),
                online=frozenset(range(1, 5)),
            ),
            size=100,
        )
        for n in range(partitions)
    ]
    whole = RestOfRun((), wanted)
    return simulate_rest_of_run(whole, limits, beside, received(bytes_s))


def test_the_overhead_of_steps_is_added_to_their_copying() -> None:
    plain = simulated(lambda *_: 10.0)
    joining = simulated(lambda *_: 10.0, beside=StepOverhead(joining_s=5))
    slow = simulated(lambda *_: 10.0, beside=StepOverhead(other_s=4))
    assert plain.copying_s == joining.copying_s == slow.copying_s == 30.0
    assert joining.waiting_s == plain.waiting_s + 3 * 5
    assert slow.waiting_s > plain.waiting_s


def test_cuts_wait_for_the_minute_of_earlier_ones() -> None:
    plain = simulated(lambda *_: 1_000.0)
    paced = simulated(lambda *_: 1_000.0, Limits(replicas=1, cuts_per_minute=1))
    assert paced.copying_s + paced.waiting_s >= 120.0 > 3 * plain.waiting_s


def test_each_broker_has_its_own_rate() -> None:
    fast = simulated(lambda broker, _at_once: 100.0 if broker == 4 else 1.0)
    assert fast.copying_s == 3.0
