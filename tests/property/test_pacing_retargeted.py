"""A partition retargeted on its way: replicas only the earlier target wanted go first."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ktui.pacing.limits import SHAPES, Limits
from ktui.pacing.situation import Situation, Step
from ktui.pacing.steps import all_steps, next_step

BROKERS = range(10)
LIMITS = st.builds(Limits, replicas=st.sampled_from((1, 2, None)), shape=st.sampled_from(SHAPES))


@st.composite
def retargeted(draw: st.DrawFn) -> Situation:
    """Draw a partition with its original replicas and some that are no longer wanted."""
    brokers = draw(st.permutations(BROKERS))
    original, intermediate = tuple(brokers[:3]), tuple(brokers[3 : draw(st.integers(4, 6))])
    replicas = (*original, *intermediate)
    target = draw(st.permutations([b for b in BROKERS if b not in intermediate]))
    lagging = draw(st.frozensets(st.sampled_from(replicas), max_size=2))
    isr = tuple(broker for broker in replicas if broker not in lagging)
    return Situation(
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from(isr)),
        target=tuple(target[: draw(st.integers(2, 3))]),
        online=frozenset(BROKERS),
        min_insync_replicas=draw(st.integers(1, 2)),
        intermediate=intermediate,
    )


@given(retargeted(), LIMITS)
def test_unwanted_replicas_are_dropped_before_any_is_added(now: Situation, limits: Limits) -> None:
    now = replace(now, isr=now.replicas)
    assume(now.leader not in now.intermediate)

    first, *_ = all_steps(now, limits)

    assert {*first.drops} == {*now.intermediate}
    assert not first.adds


@given(retargeted(), LIMITS)
def test_an_unwanted_leader_stays_until_another_leads(now: Situation, limits: Limits) -> None:
    leader = now.intermediate[0]
    now = replace(now, isr=now.replicas, leader=leader)

    step = next_step(now, limits)

    assert isinstance(step, Step)
    assert leader not in step.drops or step.elects is not None or step.target == now.target


@given(retargeted(), LIMITS)
def test_unwanted_replicas_out_of_sync_are_dropped_first(now: Situation, limits: Limits) -> None:
    step = next_step(now, limits)

    assume(isinstance(step, Step))
    assert isinstance(step, Step)
    lags = {broker for broker in now.intermediate if broker not in now.isr}
    if {*step.drops} & {*now.intermediate} & {*now.isr}:
        assert lags <= {*step.drops}


@given(retargeted(), LIMITS)
def test_the_steps_of_a_retargeted_partition_end_at_the_target(
    now: Situation, limits: Limits
) -> None:
    steps = all_steps(now, limits)

    assert steps[-1].target == now.target
    assert len(steps) < len(BROKERS)
