"""Small simulated clusters: to observe, to play scenarios on, and to rehearse."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import CORDONED, EVERY
from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import USUAL_POLL_S, RunOptions
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.progress.fold import fold
from ktui.progress.timeline import Phase, Progress
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.play import Rehearsal, play
from ktui.rehearsal.twin import Pace, Twin, parse_fault, twin_of
from ktui.rehearsal.twins import prepare
from ktui.simulated import layout as events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import GIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import Scenario
from ktui.simulated.scenario.plan import Refusals, submit_plan

Replicas = tuple[int, ...]

MESSAGE_BYTES = 1_000
ORIGINAL: Replicas = (1, 2, 3)
TARGET: Replicas = (4, 2, 3)


def a_cluster(  # noqa: PLR0913 - each by its name, and a test passes only what it is about
    topics: Mapping[str, Collection[Replicas]] | None = None,
    *,
    moving: Iterable[str] = (),
    resting: Iterable[str] = (),
    brokers: Iterable[int] = range(1, 10),
    messages: int = 1_000_000,
    inbound_s: float = 0.0,
    copied_s: float = 1_000.0,
    configs: Mapping[str, str] | None = None,
    racks: Mapping[int, str] | None = None,
    **more: Any,
) -> SimulatedCluster:
    """Return a healthy cluster, in virtual time, in which some partitions have begun to move.

    Args:
        topics: the replicas of each partition of each topic.
        moving: further partitions, such as "orders-0", that move from ORIGINAL to TARGET.
        resting: further partitions that stay on ORIGINAL.
        brokers: the ids of the brokers.
        messages: messages in each partition at first, of MESSAGE_BYTES each.
        inbound_s: messages per second written to each partition.
        copied_s: messages per second that each broker can receive, over all its copies.
        configs: the settings of every topic.
        racks: the racks of brokers; the others have none.
        more: further fields of the cluster's specification.
    """
    moved = [tp(name) for name in moving]
    layout = _layout(topics or {}, [*moved, *(tp(name) for name in resting)])
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, net_in=copied_s * MESSAGE_BYTES, rack=(racks or {}).get(b))
            for b in brokers
        ),
        topics=tuple(
            TopicSpec(
                name=name,
                replicas=tuple(replicas),
                bytes_each=messages * MESSAGE_BYTES,
                message_bytes=MESSAGE_BYTES,
                inbound=inbound_s * MESSAGE_BYTES,
                configs=configs or {},
            )
            for name, replicas in layout.items()
        ),
        **{"auto_leader_rebalance": False, "shutdown_s": 0.0, **more},
    )
    cluster = SimulatedCluster(spec, VirtualClock())
    cluster.do(events.Alter(dict.fromkeys(moved, TARGET)))
    return cluster


def _layout(
    topics: Mapping[str, Collection[Replicas]], more: Iterable[TopicPartition]
) -> dict[str, list[Replicas]]:
    layout = {name: list(replicas) for name, replicas in topics.items()}
    for each in more:
        partitions = layout.setdefault(each.topic, [])
        missing = each.partition + 1 - len(partitions)
        partitions += [ORIGINAL] * missing
    return layout


def tp(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def move(name: str, *target: int) -> events.Alter:
    return events.Alter({tp(name): target})


def cancel(*names: str) -> events.Alter:
    return events.Alter(dict.fromkeys(map(tp, names)))


def throttle(whose: str, broker: int, bytes_s: int) -> events.AlterConfigs:
    """Return the event of another tool throttling what a broker copies, or sends as "leader"."""
    key = f"{whose}.replication.throttled.rate"
    resource = ConfigResource(ConfigScope.BROKER, str(broker))
    return events.AlterConfigs((ConfigChange(resource, key, ConfigOp.SET, str(bytes_s)),))


def cordon(broker: int) -> events.AlterConfigs:
    """Return the event of somebody cordoning all log dirs of a broker."""
    return _cordoned(broker, ConfigOp.SET, EVERY)


def uncordon(broker: int) -> events.AlterConfigs:
    return _cordoned(broker, ConfigOp.DELETE, None)


def _cordoned(broker: int, op: ConfigOp, value: str | None) -> events.AlterConfigs:
    resource = ConfigResource(ConfigScope.BROKER, str(broker))
    return events.AlterConfigs((ConfigChange(resource, CORDONED, op, value),))


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    """Let time pass without any call to the cluster."""
    assert isinstance(cluster.clock, VirtualClock)
    cluster.clock.pass_time(seconds)


UNDER_WAY = {Phase.MOVING, Phase.STALLED, Phase.SETTLING}


class Play:
    """A scenario under way."""

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        assert scenario.plan is not None
        self.scenario = scenario
        self.clock = VirtualClock()
        self.cluster = SimulatedCluster(scenario.spec, self.clock, seed=seed)
        for due in scenario.faults:
            self.cluster.schedule(due)
        self.observer = Observer(self.cluster.reader(), self.clock)
        self.plan: asyncio.Task[Refusals] = asyncio.create_task(
            submit_plan(scenario.plan, scenario.spec, self.cluster.writer(), self.clock)
        )
        self.progress = Progress()

    async def watch(self, real_s: float) -> AsyncIterator[Progress]:
        """Poll once in each of `real_s` seconds of a viewer."""
        until = self.clock.monotonic() + real_s * self.scenario.speed
        while self.clock.monotonic() < until:
            await self.clock.advance(self.scenario.speed)
            self.progress = fold(self.progress, await self.observer.poll())
            yield self.progress

    async def watch_to_the_end(self) -> AsyncIterator[Progress]:
        """Poll until all events have happened and nothing moves any more."""
        last_s = max((due.at_s for due in self.scenario.faults), default=0.0)
        async for progress in self.watch(300):
            yield progress
            begun = bool(progress.timelines) and self.clock.monotonic() > last_s
            if begun and not phases(progress) & UNDER_WAY:
                return
        raise AssertionError(f"something moves for ever: {phases(self.progress)}")


def phases(progress: Progress) -> set[Phase]:
    return {timeline.phase for timeline in progress.timelines.values()}


@asynccontextmanager
async def playing(scenario: Scenario, *, seed: int = 0) -> AsyncIterator[Play]:
    """Play a scenario, and close everything at the end."""
    play = Play(scenario, seed=seed)
    try:
        yield play
    finally:
        play.plan.cancel()
        await play.observer.aclose()
        await asyncio.gather(play.plan, return_exceptions=True)


TWIN_SIZE = 500_000_000
SPEC = ClusterSpec(
    name="prod",
    brokers=tuple(BrokerSpec(id=broker, disk_bytes=100 * GIB) for broker in range(1, 6)),
    topics=(
        TopicSpec(
            name="orders",
            replicas=((1, 2, 3), (2, 3, 1)),
            bytes_each=TWIN_SIZE,
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
