"""How copies share the rates of leaders and brokers, and the time left of a run simulated so."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.pacing.decision import Move, WantedPartition
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Situation, Step
from ktui.pacing.steps import next_step
from ktui.planning.simulate.fair_share import FairShareCopies, Pair, fair_rates
from ktui.planning.simulate.schedule import (
    RestOfRun,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


class Rooms(msgspec.Struct):
    """Rates by broker; any other one takes the usual rate, and sends without a limit."""

    sent: dict[int, float] = {}
    taken: dict[int, float] = {}
    usual: float = 10.0

    def sends(self, leader: int) -> float:
        return self.sent.get(leader, inf)

    def takes(self, broker: int, at_once: int) -> float:
        assert at_once > 0
        return self.taken.get(broker, self.usual)


COPIES = st.dictionaries(
    st.tuples(st.integers(1, 4), st.integers(5, 8)), st.integers(1, 5), min_size=1
)
RATES = st.floats(100, 1000)


@given(COPIES, st.dictionaries(st.integers(1, 4), RATES), st.dictionaries(st.integers(5, 8), RATES))
def test_no_broker_exceeds_its_rate_and_every_copy_is_limited_by_one(
    copies: dict[Pair, int], sent: dict[int, float], taken: dict[int, float]
) -> None:
    rooms = Rooms(sent, taken, usual=100.0)
    rates = fair_rates(copies, rooms)
    out = {n: sum(rates[p] * copies[p] for p in copies if p[0] == n) for n, _ in copies}
    into = {n: sum(rates[p] * copies[p] for p in copies if p[1] == n) for _, n in copies}
    assert all(total <= rooms.sends(n) * 1.001 for n, total in out.items())
    assert all(total <= rooms.takes(n, 1) * 1.001 for n, total in into.items())
    for leader, broker in copies:
        full_out = out[leader] >= rooms.sends(leader) * 0.999
        full_in = into[broker] >= rooms.takes(broker, 1) * 0.999
        assert full_out or full_in


def test_an_overloaded_leader_gives_each_copy_the_same_rate() -> None:
    assert fair_rates({(1, 5): 1, (1, 6): 2}, Rooms(sent={1: 9.0})) == {(1, 5): 3.0, (1, 6): 3.0}


def test_a_finished_copy_leaves_its_share_to_the_others() -> None:
    copies = FairShareCopies(Rooms())
    copies.add(A, (1, 5), 10.0, 0.0)
    copies.add(B, (2, 5), 20.0, 0.0)
    assert copies.next_end_s == pytest.approx(2.0)
    ended = copies.ended(10.0)
    assert [(tp, broker) for _, tp, broker in ended] == [(A, 5), (B, 5)]
    assert [end_s for end_s, *_ in ended] == pytest.approx([2.0, 3.0])
    assert copies.next_end_s == inf


def wanted(tp: TopicPartition, size: int = 100) -> WantedPartition:
    situation = Situation(
        replicas=(1, 2), isr=(1, 2), leader=1, target=(5, 2), online=frozenset((1, 2, 5))
    )
    return WantedPartition(tp, situation, size)


def in_flight(one: WantedPartition, limits: Limits, left: dict[int, float]) -> StepInFlight:
    step = next_step(one.situation, limits)
    assert isinstance(step, Step)
    return StepInFlight(one, Move(one.tp, step), left)


def test_steps_in_flight_continue_from_where_they_are_and_the_others_follow() -> None:
    limits = Limits(replicas=1, partitions=1)
    alone = simulate_rest_of_run(
        RestOfRun([], [wanted(A)]), limits, StepOverhead(), FairShareCopies(Rooms())
    )
    half = simulate_rest_of_run(
        RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], []),
        limits,
        StepOverhead(),
        FairShareCopies(Rooms()),
    )
    both = RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], [wanted(B)])
    then = simulate_rest_of_run(both, limits, StepOverhead(), FairShareCopies(Rooms()))
    assert alone.copying_s == 10.0
    assert half.copying_s == 5.0
    assert then.copying_s == 15.0
    assert then.waiting_s > 0


def test_a_step_that_has_copied_everything_ends_with_the_next_poll() -> None:
    limits = Limits(replicas=1, partitions=1)
    outcome = simulate_rest_of_run(
        RestOfRun([in_flight(wanted(A), limits, {})], []),
        limits,
        StepOverhead(),
        FairShareCopies(Rooms()),
    )
    assert outcome.copying_s == 0.0
    assert 0 < outcome.waiting_s <= 5


def test_an_empty_run_takes_no_time() -> None:
    outcome = simulate_rest_of_run(
        RestOfRun([], []), Limits(), StepOverhead(), FairShareCopies(Rooms())
    )
    assert outcome.copying_s == outcome.waiting_s == 0
