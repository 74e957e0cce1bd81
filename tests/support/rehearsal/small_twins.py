"""A small twin and plans for it, rehearsed in a moment."""

from __future__ import annotations

import asyncio

import msgspec

from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import USUAL_POLL_S, RunOptions
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.faults import parse_fault
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.twin import Pace, Twin, twin_of
from ktui.rehearsal.twins import prepare
from ktui.simulated.clock import VirtualClock
from ktui.simulated.layout import GIB, BrokerSpec, ClusterSpec, TopicSpec

SIZE = 500_000_000
SPEC = ClusterSpec(
    name="prod",
    brokers=tuple(BrokerSpec(id=broker, disk_bytes=100 * GIB) for broker in range(1, 6)),
    topics=(
        TopicSpec(
            name="orders",
            replicas=((1, 2, 3), (2, 3, 1)),
            bytes_each=SIZE,
            inbound=10_000.0,
            configs={"min.insync.replicas": "2"},
        ),
        TopicSpec(name="empty", replicas=((1, 2, 3), (2, 3, 1))),
    ),
)
TWIN = twin_of("prod.yaml", SPEC, None)
ONTO_4 = Plan((PartitionTarget("orders", 0, (1, 2, 4)), PartitionTarget("orders", 1, (2, 4, 1))))
"""Broker 4 takes the place of broker 3."""


def rehearsal_of(
    plan: Plan,
    *events: str,
    twin: Twin = TWIN,
    limits: Limits | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    poll_s: float = USUAL_POLL_S,
) -> Rehearsal:
    """Return the rehearsal of a plan without problems, with its faults."""
    prepared = prepare(
        NewRun(
            plan=plan,
            name="moves",
            plan_name="moves.json",
            limits=default_limits({}) if limits is None else limits,
            options=RunOptions(record=False, throttle=throttle, poll_s=poll_s),
            allowed=Allowances(replication_factor_change=True, below_min_isr=True),
        ),
        twin,
    )
    assert prepared.rehearsal is not None, prepared.preview.findings
    faults = tuple(parse_fault(event, twin.spec) for event in events)
    return msgspec.structs.replace(prepared.rehearsal, faults=faults)


def played(
    plan: Plan,
    *events: str,
    twin: Twin = TWIN,
    pace: Pace = Pace.USUAL,
    limits: Limits | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    poll_s: float = USUAL_POLL_S,
) -> Played:
    """Rehearse a plan on one twin."""
    rehearsal = rehearsal_of(
        plan, *events, twin=twin, limits=limits, throttle=throttle, poll_s=poll_s
    )
    return asyncio.run(play(rehearsal, twin.cluster(pace), VirtualClock(leaping=True)))
