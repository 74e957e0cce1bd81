"""How copies share the rate of their broker, and the time left of a run simulated so."""

from __future__ import annotations

from math import inf

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Move, Situation, Step, WantedPartition
from ktui.pacing.steps import next_step
from ktui.speed.simulate import (
    RestOfRun,
    StepInFlight,
    StepOverhead,
    simulate_rest_of_run,
)
from support.runs.received_copies import received

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def takes(_broker: int, at_once: int) -> float:
    assert at_once > 0
    return 10.0


def test_a_finished_copy_leaves_its_share_to_the_others() -> None:
    copies = received(takes)
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
        RestOfRun([], [wanted(A)]), limits, StepOverhead(), received(takes)
    )
    half = simulate_rest_of_run(
        RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], []),
        limits,
        StepOverhead(),
        received(takes),
    )
    both = RestOfRun([in_flight(wanted(A), limits, {5: 50.0})], [wanted(B)])
    then = simulate_rest_of_run(both, limits, StepOverhead(), received(takes))
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
        received(takes),
    )
    assert outcome.copying_s == 0.0
    assert 0 < outcome.waiting_s <= 5


def test_an_empty_run_takes_no_time() -> None:
    outcome = simulate_rest_of_run(RestOfRun([], []), Limits(), StepOverhead(), received(takes))
    assert outcome.copying_s == outcome.waiting_s == 0
