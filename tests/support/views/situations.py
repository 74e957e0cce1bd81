"""The situations by which the view is judged: each pinned at one moment of a simulated cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from textual.pilot import Pilot

from ktui.cli.rehearsal_report import ClusterRehearser
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.controller import RECORDS
from ktui.simulated.layout import BrokerSpec, ClusterSpec, ScheduledEvent, Tide, TopicSpec
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import cancel, move
from support.views.replays import Course, record_run, replaying
from support.views.watching import (
    LARGE,
    RunWatched,
    Twins,
    Watching,
    a_new_run,
    a_plan_file,
    go_to,
    read,
    report,
    scratch,
    settled,
    watching,
    watching_runs,
)

_MB = 1_000_000
_GB = 1_000 * _MB
DRAINED, SPARE, OTHER_SPARE = 3, 5, 6
_POLL_S, _SELDOM_S = 2.0, 15.0
_TOPICS = {"orders": (12, 2.0), "payments": (6, 0.6), "clicks": (24, 1.2), "audit": (4, 0.3)}
"""Partitions, and gigabytes of each, by topic."""
_RINGS = ((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2))

Enter = Callable[[], AbstractAsyncContextManager[Pilot[None]]]


class Situation(NamedTuple):
    """A situation, and what its picture says in a terminal of every size."""

    name: str
    enter: Enter
    happens: tuple[str, ...]
    """Words of what is going on."""
    wrong: tuple[str, ...] = ()
    """Words of what is wrong; none where nothing is."""
    helps: tuple[str, ...] = ()
    """Words of what one can do about it."""


def production() -> SimulatedCluster:
    """Return a cluster of six brokers, of which broker 3 has replicas of every topic."""
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, rack=f"eu-1{'abc'[b % 3]}", net_in=60.0 * _MB, net_out=60.0 * _MB)
            for b in range(1, 7)
        ),
        topics=tuple(
            TopicSpec(
                name=name,
                replicas=_replicas(partitions),
                bytes_each=round(gigabytes * _GB),
                inbound=0.4 * _MB,
                configs={"min.insync.replicas": "2"},
            )
            for name, (partitions, gigabytes) in _TOPICS.items()
        ),
        tide=Tide(swing=0.1, noise=0.05),
        auto_leader_rebalance=False,
    )
    return SimulatedCluster(spec, VirtualClock())


def _replicas(partitions: int) -> tuple[tuple[int, ...], ...]:
    return tuple(_RINGS[n % len(_RINGS)] for n in range(partitions))


def drain(*topics: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the plan that moves every replica of these topics, or of all, off broker 3."""
    return {
        TopicPartition(name, n): tuple(
            (SPARE, OTHER_SPARE)[n % 2] if b == DRAINED else b for b in each
        )
        for name in topics or _TOPICS
        for n, each in enumerate(_replicas(_TOPICS[name][0]))
        if DRAINED in each
    }


@asynccontextmanager
async def draining(seconds: float, *, throttle: str = "40MB/s") -> AsyncIterator[RunWatched]:
    """Drain broker 3 for some seconds, in a view attached to the run."""
    cluster = production()
    async with watching_runs(cluster, size=LARGE, poll_s=_POLL_S) as watch:
        limits = Limits(replicas=1, partitions=5, per_broker=4)
        wanted = a_new_run(drain(), limits, "drain-b3", throttle)
        run = await watch.engines.start(wanted)
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_time(seconds)
        yield watch


async def _rest(watch: Watching) -> None:
    """Wait until nothing is being worked out for the screen any more."""
    workers = watch.app.workers
    await watch.until(lambda: not any(w.is_running for w in workers if w.group != "polling"))
    watch.app.clear_notifications()
    await watch.pilot.pause()


@asynccontextmanager
async def _drain() -> AsyncIterator[Pilot[None]]:
    async with draining(160) as watch:
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _dead_target() -> AsyncIterator[Pilot[None]]:
    async with draining(100) as watch:
        await watch.do(layout.Kill(SPARE))
        await watch.pass_time(90)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _throttle_too_low() -> AsyncIterator[Pilot[None]]:
    async with draining(150, throttle="1MB/s") as watch:
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def hundred_thousand(partitions: int = 100_000) -> AsyncIterator[Pilot[None]]:
    """Let somebody move very many partitions, while one of the targets is down."""
    cluster = _wide(partitions)
    async with watching(cluster, LARGE, poll_s=_SELDOM_S) as watch:
        await watch.do(layout.Kill(SPARE))
        await watch.pass_time(7 * _SELDOM_S)
        await _rest(watch)
        yield watch.pilot


def _wide(partitions: int) -> SimulatedCluster:
    """Return a cluster in which somebody moves this many partitions at once."""
    count = 100
    names = [f"topic-{n:04}" for n in range(partitions // count)]
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=900.0 * _MB) for b in range(1, 7)),
        topics=tuple(
            TopicSpec(name=n, replicas=((1, 2, 3),) * count, bytes_each=_MB) for n in names
        ),
        auto_leader_rebalance=False,
    )
    cluster = SimulatedCluster(spec, VirtualClock())
    moved = [TopicPartition(name, n) for name in names for n in range(count)]
    for first in range(0, partitions, RECORDS):  # a controller refuses more in one request
        some = enumerate(moved[first : first + RECORDS])
        cluster.do(layout.Alter({tp: (4 + place % 3, 2, 3) for place, tp in some}))
    return cluster


def _opened(*keys: str, seconds: float = 160, dead: bool = False) -> Enter:
    """Return how to open a screen by keys while a drain goes on, at the row that most stands out.

    With `dead`, one of the drain's targets has been down for a minute and a half.
    """

    @asynccontextmanager
    async def enter() -> AsyncIterator[Pilot[None]]:
        async with draining(seconds) as watch:
            if dead:
                await watch.do(layout.Kill(SPARE))
                await watch.pass_time(90)
            await _rest(watch)
            await watch.press_and_see(*keys)
            await _rest(watch)
            yield watch.pilot

    return enter


@asynccontextmanager
async def _engine_killed() -> AsyncIterator[Pilot[None]]:
    async with draining(160) as watch:
        await watch.engines.aclose()
        await watch.pass_time(20)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _ended_and_foreign_stall() -> AsyncIterator[Pilot[None]]:
    cluster = production()
    async with watching_runs(cluster, size=LARGE, poll_s=_POLL_S) as watch:
        wanted = a_new_run(drain("audit"), Limits(replicas=1, partitions=5), "night")
        run = await watch.engines.start(wanted)
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_time(60)
        await watch.do(move("orders-11", 4, 1, 6), move("clicks-3", 4, 1, 6))
        await watch.do(layout.Kill(6))
        await watch.pass_time(120)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _cluster_gone() -> AsyncIterator[Pilot[None]]:
    async with draining(160) as watch:
        await watch.lose()
        await watch.pass_time(41)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _rollback_of_everything() -> AsyncIterator[Pilot[None]]:
    async with draining(200) as watch:
        await watch.press("c", "up", "right")  # the whole run, rolled back
        await watch.see()
        await _rest(watch)
        await watch.press("y")
        await watch.submit("drain-b3")
        await watch.pass_time(20)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _two_runs() -> AsyncIterator[Pilot[None]]:
    cluster = production()
    async with watching_runs(cluster, size=LARGE, poll_s=_POLL_S) as watch:
        limits = Limits(replicas=1, partitions=3)
        run = await watch.engines.start(a_new_run(drain("orders"), limits, "drain-orders"))
        beside = a_new_run(drain("clicks"), limits, "drain-clicks")
        beside = msgspec.structs.replace(beside, concurrent=True)
        await watch.engines.start(beside)
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_time(40)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _plan_read(*, dead: bool = False, factor: int = 3) -> AsyncIterator[RunWatched]:
    """Read a plan that drains the orders, one to so many replicas; its target may be down."""
    cluster = production()
    async with watching_runs(cluster, size=LARGE, poll_s=_POLL_S) as watch:
        watch.engines.rehearser = ClusterRehearser(
            "prod-eu", Twins(cluster), measure_s=0, clock=cluster.clock
        )
        if dead:
            await watch.do(layout.Kill(SPARE))
            await watch.pass_time(20)
        targets = drain("orders")
        targets[TopicPartition("orders", 0)] = (1, 2, SPARE)[:factor]
        path = a_plan_file(watch.state_dir.path.parent, plan_of(targets), "drain-b3.json")
        await watch.press("n")
        await read(watch, path)
        await watch.until(lambda: "replica movements" in report(watch))
        await settled(watch)
        yield watch


@asynccontextmanager
async def _plan_check() -> AsyncIterator[Pilot[None]]:
    async with _plan_read(dead=True, factor=2) as watch:
        await go_to(watch, "check")
        await settled(watch)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _plan_limits() -> AsyncIterator[Pilot[None]]:
    async with _plan_read() as watch:
        await go_to(watch, "limits")
        await settled(watch)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _rehearsal() -> AsyncIterator[Pilot[None]]:
    async with _plan_read() as watch:
        await watch.press("ctrl+y", say="at target")
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _denied() -> AsyncIterator[Pilot[None]]:
    cluster = production()
    for call in ("log_dirs", "topic_configs", "broker_configs"):
        cluster.do(layout.Deny(call))
    cluster.do(move("orders-0", 1, 2, 5))
    cluster.do(move("orders-1", 2, 6, 4))
    async with watching(cluster, LARGE, poll_s=_POLL_S) as watch:
        await watch.pass_time(30)
        await _rest(watch)
        yield watch.pilot


@asynccontextmanager
async def _replay() -> AsyncIterator[Pilot[None]]:
    cluster = production()
    course = Course({60.0: [layout.Kill(SPARE)], 130.0: [layout.Start(SPARE)]}, 240.0, 1.0, 10.0)
    limits = Limits(replicas=1, partitions=5, per_broker=4)
    wanted = a_new_run(drain(), limits, "drain-b3", "40MB/s")
    with scratch() as folder:
        run = await record_run(StateDir(Path(folder) / "state"), cluster, wanted, course)
        tape, name = run.recording, "drain-b3"
        async with replaying(tape, LARGE, at_s=110, name=name, speed=10.0) as replay:
            await replay.press("p")
            await replay.surveyed()
            await replay.say("run drain-b3")
            replay.app.clear_notifications()
            await replay.pilot.pause()
            yield replay.pilot


SITUATIONS = (
    Situation(
        "drain", _drain,
        ("run drain-b3  RUNNING", "done 10/35", "about ", "queued 20"),
        helps=("p pause", "c cancel"),
    ),
    Situation(
        "dead-target", _dead_target,
        ("run drain-b3  RUNNING", "17 blocked", "time left unknown"),
        ("broker 5 down", "4 STALLED", "broker 5 is down", "broker 5 of its target is down"),
        ("b brokers", "c cancel"),
    ),
    Situation(
        "throttle-too-low", _throttle_too_low,
        ("run drain-b3  RUNNING", "time left unknown", "behind 2m"),
        ("THROTTLE TOO LOW (t): 1.0 MB/s into broker 5", "1.0 MB/s throttle, 1.3 MB/s in"),
        ("needs more than 1.3 MB/s", "t raise throttle"),
    ),
    Situation(
        "hundred-thousand", hundred_thousand,
        ("partitions 100,000", "reassigning", "caught up"),
        ("broker 5 down", "STALLED", "broker 5 is down"),
        ("b brokers", "detail"),
    ),
    Situation(
        "engine-killed", _engine_killed,
        ("run drain-b3  ENGINE DIED", "done 10/35", "the run waits for resume"),
        (
            "ENGINE DIED (R resume, c call off): it was killed, or its host went down",
            "its throttle stays on brokers 5 and 6 and topic clicks",
        ),
        ("R resume", "c call off"),
    ),
    Situation(
        "ended-and-foreign-stall", _ended_and_foreign_stall,
        ("✓ night ENDED", "clicks-3", "orders-11"),
        ("broker 6 down", "2 STALLED, foreign (X)", "foreign: broker 6 is down"),
        ("X cancel foreign move", "b brokers"),
    ),
    Situation(
        "cluster-gone", _cluster_gone,
        ("run drain-b3", "time left unknown", "the run has lost the cluster"),
        ("cluster does not answer, last answer", "no broker answered"),
        ("retrying",),
    ),
    Situation(
        "rollback-of-everything", _rollback_of_everything,
        ("run drain-b3  ROLLING BACK, 8 of 18 back", "about ", "rolling back", "not started"),
        ("ONLY ROLLBACKS GO ON",),
        helps=("t throttle", "p pause"),  # O, once all is back
    ),
    Situation(
        "two-runs", _two_runs,
        ("run drain-orders  RUNNING", "▶ also:  run drain-clicks RUNNING 0/18 done", "about "),
        helps=("ctrl+r shows it", "c cancel", "p pause"),
    ),
    Situation(
        "denied", _denied,
        ("2 moving", "moving 74%"),
        ("no permission: log dirs",),
        ("Describe on Cluster",),
    ),
    Situation(
        "replay", _replay,
        ("REPLAY", "PAUSED", "run drain-b3  RUNNING", "17 blocked"),
        ("broker 5 down", "4 STALLED", "broker 5 is down"),
        ("b brokers", "p play/pause"),
    ),
    Situation("detail", _opened("enter"), ("clicks-6", "step 1/2", "adds 5")),
    Situation(
        "detail-stalled", _opened("enter", seconds=100, dead=True),
        ("target",), ("STALLED", "the broker is down"), ("c cancel",),
    ),
    Situation(
        "detail-earlier", _opened("enter", *["less_than_sign"] * 9), ("clicks-6", "at 00:02:"),
    ),
    Situation(
        "brokers", _opened("b"),
        ("25 of 35 to go", "+18 to come", "5 done, 18 left", "comes   clicks-6"),
    ),
    Situation(
        "brokers-dead", _opened("b", seconds=100, dead=True),
        ("30 of 35 to go", "DOWN 1m"),
        ("broker 5 down", "DOWN since", "21 moves of run drain-b3 wait for it"),
        ("Start it, and they go on", "then x to call all of them off", "m manage"),
    ),
    Situation(
        "dashboard", _opened("d"),
        ("copied into all brokers 81 MB/s", "throttle 80 MB/s", "5 copying", "10 done"),
    ),
    Situation(
        "dashboard-dead", _opened("d", seconds=100, dead=True), ("copied into all brokers",),
        ("broker 5 down", "4 stalled", "17 blocked"), ("next trouble",),
    ),
    Situation(
        "throttle", _opened("t"),
        ("throttle of run drain-b3", "in force: 40 MB/s into each broker", "copied in"),
        helps=("new throttle", "Enter puts it in force at once", "? explain", "esc back"),
    ),
    Situation(
        "limits", _opened("l"),
        ("limits of run drain-b3", "R replicas", "in force", "in flight"),
        helps=("R replicas: replicas of one partition added at once", "? explain", "esc back"),
    ),
    Situation(
        "cancel", _opened("c"),
        ("cancel in run drain-b3", "partition clicks-6", "replicas after"),
        helps=("roll back", "Press y to stop partition clicks-6", "esc leave"),
    ),
    Situation(
        "events", _opened("e"),
        (
            "events of run drain-b3", "✓ clicks", "5 partitions done, 5 steps finished",
            "setting: topic clicks",
        ),
        helps=("unfold", "esc back", "4 trouble"),
    ),
    Situation(
        "runs", _opened("r"),
        ("runs 1", "drain-b3", "RUNNING", "10 of 35 done, 5 copying, 20 queued"),
        helps=("show it", "c cancel run"),
    ),
    Situation(
        "help", _opened("question_mark"),
        ("help: now", "clicks-6 · step 1/2"),
        helps=("Stop or roll back clicks-6", "Pause clicks-6 alone", "esc close"),
    ),
    Situation(
        "help-stalled", _opened("question_mark", seconds=100, dead=True),
        ("help: now", "clicks-0 · STALLED"), ("broker 5 is down",),
        ("Look at the brokers, of which 5 is down", "Stop or roll back clicks-0"),
    ),
    Situation(
        "help-limits", _opened("l", "question_mark"),
        ("words and limits", "leader epoch", "gentle", "kip-435", "cut"), helps=("esc close",),
    ),
    Situation(
        "choose-plan", _opened("n"),
        ("add a plan to run drain-b3", "1 plan", "plan's file"),
        helps=("Plans that need no file:", "drain: These brokers give up all", "esc back"),
    ),
    Situation(
        "plan-limits", _plan_limits,
        ("start a plan", "2 limits", "R replicas: replicas of one partition"),
        ("4 check !",), ("next", "? explain", "esc back"),
    ),
    Situation(
        "plan-check", _plan_check,
        ("start a plan", "4 check !", "time  with all its brokers up"),
        ("problem: line 2: the replication factor changes", "broker 5 is down but is a target"),
        ("[ ] allow replication factor changes", "space tick", "esc back"),
    ),
    Situation(
        "rehearsal", _rehearsal,
        ("rehearsal", "the plan would be carried out", "at target", "Nothing was sent."),
        helps=("esc back", "other limits"),
    ),
)  # fmt: skip


def situation_of(name: str) -> Situation:
    return next(each for each in SITUATIONS if each.name == name)


LONG_S = 600.0
POLL_S = 2.0
_RF3 = (1, 2, 3)
_SLOW, _DEAD = 10, 9


def busy() -> SimulatedCluster:
    """Return a cluster with all its events scheduled."""
    cluster = SimulatedCluster(_spec(), VirtualClock())
    for due in _STORY:
        cluster.schedule(due)
    return cluster


def _spec() -> ClusterSpec:
    return ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=b, rack=f"eu-1{'abc'[b % 3]}", net_in=20.0 * _MB) for b in range(1, 11)
        ),
        topics=(
            _topic("orders", (5, 6, 2), (1, 2, 3), gigabytes=12),
            _topic("payments", *[(4, 7, 2)] * 13, gigabytes=4),
            _topic("audit", *[(1, 2)] * 4, gigabytes=3),
            _topic("clicks", *[_RF3] * 8, gigabytes=3),
            _topic("logs", _RF3, gigabytes=3),
            _topic("scratch", (3, 4, 5), gigabytes=5),
            _topic("metrics", *[(4, 5, 6)] * 4, (1, 2, _SLOW), gigabytes=1),
        ),
        auto_leader_rebalance=False,
    )


def _topic(name: str, *replicas: tuple[int, ...], gigabytes: int) -> TopicSpec:
    return TopicSpec(
        name=name,
        replicas=replicas,
        bytes_each=gigabytes * _GB,
        inbound=0.5 * _MB,
        configs={"min.insync.replicas": "2"},
    )


def _set(scope: ConfigScope, name: str, key: str, value: str) -> ConfigChange:
    return ConfigChange(ConfigResource(scope, name), key, ConfigOp.SET, value)


_TOO_LOW = layout.AlterConfigs(
    (
        _set(ConfigScope.TOPIC, "logs", "follower.replication.throttled.replicas", "*"),
        _set(ConfigScope.BROKER, "5", "follower.replication.throttled.rate", "200000"),
    )
)

_STORY = (
    ScheduledEvent(1.0, move("orders-0", 7, 6, 2)),
    ScheduledEvent(1.0, move("orders-1", 1, 2, _DEAD)),
    ScheduledEvent(61.0, move("payments-12", 8, 4, 3)),
    ScheduledEvent(150.0, move("scratch-0", 3, 4, 6)),
    ScheduledEvent(201.0, move("clicks-7", 1, 2, 8)),
    ScheduledEvent(251.0, layout.DeleteTopic("scratch")),
    ScheduledEvent(301.0, layout.Slow(_SLOW, 0.0001)),
    ScheduledEvent(360.0, _TOO_LOW),
    ScheduledEvent(361.0, move("logs-0", 1, 2, 5)),
    ScheduledEvent(391.0, layout.Kill(_DEAD)),
    ScheduledEvent(281.0, cancel("clicks-7")),
    ScheduledEvent(441.0, move("audit-3", 1, 2, 4)),
)
