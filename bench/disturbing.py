"""The cost of a whole plan to producers: all at once by Kafka's own tool, and paced in both shapes.

Without a throttle, copies and producers compete for the machine itself; with a throttle they do
not. Each stall is put down to a cause. What a run at rest of the same length shows too is the noise
of the machine.
"""

from __future__ import annotations

import asyncio
import enum
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from bench.checks import check_count, printed_at_end
from bench.consuming import Read, consumer
from bench.machine import Samples, sampled
from bench.producing import MESSAGE_BYTES, Load, producer
from bench.stalls import Change, Judged, Timed, causes_text, changes_of, judged, stalls_of
from bench.timing import percentile
from ktui.cli.lab import connect
from ktui.cluster.partition import TopicPartition
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.workload import create_topic, delete_topics, fill
from ktui.lab.layout import Lab
from ktui.lab.up import LabRequest, down, up
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.quantities import as_rate

ROUNDS = 3
THROTTLE = 40_000_000
"""Bytes per second into each broker. Under half of that Kafka's tool, which throttles what its
replicas in sync fetch too, hardly ends: what is written meanwhile takes most of it."""
LEAST_WRITTEN = 0.9
"""The least share of its load that the producer must have written, for figures to count."""
LEAST_IDLE = 0.2
"""What leaves less of the CPUs' time idle is left out."""
_MOST_GC = 0.02
_AS_IN_PRODUCTION = (
    "-XX:TieredStopAtLevel=4",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Xms1g",
    "-Xmx1g",
)
"""As Kafka's own scripts start it (kafka-run-class.sh). A lab does without the second compiler and
with the serial collector, and starts faster. But a copied byte then costs twice the CPU, and a full
collection stops a broker that has three tenths of a core for 0.3 s.
"""
_KAFKAS_OWN = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "log.segment.bytes": str(1024**3),
    "replica.fetch.max.bytes": str(1024**2),
    "replica.lag.time.max.ms": "30000",
}
"""Kafka's defaults. A lab's segments of 16 MiB roll, and are flushed, all in the same second."""
_DELETED_SOON = {"log.segment.delete.delay.ms": "5000"}
"""What was moved away is deleted before the next way, and not in the midst of it (60 s)."""
_WARM_UPS = (40, 20, 10, 5, 1, 1)
"""One in so many of the bytes, in turn: brokers that are cold take too long for many at once, and
the leaders of a cut are late in the first plans, whatever their size."""
_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class Scene(msgspec.Struct, frozen=True):
    """What is moved, under which load: by default with six brokers.

    Of ten brokers on two cores, the copies of all at once alone leave no CPU idle.
    """

    half: int = 3
    """Every replica moves from one half of the brokers to the other."""
    partitions: int = 16
    bytes_each: int = 16 * 1024 * 1024
    bytes_s: float = 8e6
    """Written by the producer."""

    def replicas(self, number: int, first: int) -> list[int]:
        return [first + 1 + (number + k) % self.half for k in range(3)]


SIX_BROKERS = Scene()


class Moves(enum.Enum):
    """What is done to every partition, which has three replicas."""

    REPLACED = "replaced"
    """All replicas move to other brokers."""
    COPIED = "copied"
    """Replicas on three more brokers are added, and nothing is dropped."""
    CUT = "cut"
    """Each has six replicas, all in sync, and three of them are dropped."""
    NOTHING = "nothing"
    """For as long as the way before."""


class Way(msgspec.Struct, frozen=True):
    """A way to carry out the plan. Without options it is Kafka's own tool."""

    name: str
    options: tuple[str, ...] | None = None
    moves: Moves = Moves.REPLACED

    def argv(self, lab: Lab, plan: Path, folder: str, throttle: int | None) -> list[str]:
        """Return the command line."""
        cluster = ["--bootstrap-server", lab.bootstrap_servers]
        limit = [] if throttle is None else ["--throttle", str(throttle)]
        if self.options is None:
            return [*_tool(lab, plan), *cluster, "--execute", *limit]
        start = [sys.executable, "-m", "ktui", "start", str(plan), "--headless"]
        return [*start, *cluster, "--state-dir", folder, *limit, *self.options]


_MORE = ("--allow-replication-factor-change",)
WAYS = (
    Way("all at once"),
    Way("kip-435", ("--shape", "kip-435")),
    Way("gentle", ()),
    Way("cut by ten", ("--cut-together", "10")),
    Way("quiet", ("--pace", "quiet")),
    Way("fast", ("--pace", "fast")),
    Way("gentle, P 4", ("--partitions", "4")),
    Way("in 60 s", ("--within", "60s")),
    Way("only copies", _MORE, Moves.COPIED),
    Way("only cuts", _MORE, Moves.CUT),
    Way("at rest", (), Moves.NOTHING),
)
"""Other options are the defaults: one replica per partition, 32 MiB to and from a broker."""
LEADERS_TOO = Way("leaders too", ("--throttle-leaders",))
"""Gentle, with a throttle on the leaders' side too."""


class Cost(msgspec.Struct, frozen=True):
    """The cost of one way to carry out the plan."""

    since_s: float
    """When the first move began, in seconds of `time.monotonic`."""
    seconds: float
    peak: int
    """The most replicas being added at the same time."""
    p50_s: float
    p99_s: float
    longest_s: float
    stalled_s: float
    """Partition-seconds in which some message had waited for more than 0.3 s."""
    written: float
    """The share of its load that the producer wrote."""
    read: float
    """The share of that which the consumer read."""
    unread_s: float
    """The longest time from sending a record to reading it at the tail."""
    bumps: int
    """Sum of the increases of leader epochs over all partitions."""
    stalls: Sequence[Judged]
    """Each stall within the time, with its cause."""
    idle: float
    """The share of the CPUs' time that was idle."""
    gc_s: float
    """The most seconds in which one broker stood still to collect garbage."""

    @property
    def of_the_machine(self) -> bool:
        """Whether the machine was too busy for the stalls to say anything of the way."""
        return too_busy(self.idle, self.gc_s / self.seconds)


def too_busy(idle: float, collecting: float) -> bool:
    """Say whether a machine was too busy for what a way has cost to count.

    Args:
        idle: the share of the CPUs' time that was idle.
        collecting: the share of the time in which one JVM stood still to collect garbage.
    """
    return idle < LEAST_IDLE or collecting > _MOST_GC


def run() -> None:
    """Print the costs of each way, round by round, without a throttle and with one."""
    for throttle, aim in ((None, 0.2), (THROTTLE, 0.1)):
        title = "no throttle" if throttle is None else f"throttle {as_rate(throttle)} per broker"
        with brokers(2 * SIX_BROKERS.half) as lab:
            warm_up(lab, SIX_BROKERS)
            for number in range(ROUNDS):
                print(f"{title}, round {number + 1}", flush=True)
                _round(lab, number, throttle, aim)


def _round(lab: Lab, number: int, throttle: int | None, aim: float) -> None:
    """Print the costs of each way; a way during which the machine was too busy is marked."""
    at_once: Cost | None = None
    ways = WAYS if throttle is None else (*WAYS, LEADERS_TOO)
    left_out = 0
    for n, way in enumerate(ways):
        lasts_s = None if at_once is None else at_once.seconds
        cost = cost_of(lab, f"bench-{number}-{n}", way, throttle, lasts_s)
        at_once = at_once or cost
        left_out += cost.of_the_machine
        mark = "! " if cost.of_the_machine else "  "
        print(f"{mark}{way.name:<12}{cost_row(cost)}{_compared(cost, at_once, aim)}", flush=True)
        print(f"    stalled by {causes_text(cost.stalls)}", flush=True)
    print(f"  {left_out} of {len(ways)} left too little CPU for their stalls to count (!)")


def _compared(cost: Cost, at_once: Cost, aim: float) -> str:
    if cost is at_once:
        return ""
    slower = cost.seconds / at_once.seconds
    stalls = cost.stalled_s / max(at_once.stalled_s, 0.001)
    return f"  {slower:.2f} x the time (aim 1), {stalls:.2f} x the stalls (aim {aim})"


def cost_row(cost: Cost) -> str:
    """Return the figures of a way in one line."""
    return (
        f"{cost.seconds:6.1f} s  peak {cost.peak:3d}  produce p50 {cost.p50_s * 1000:4.0f} ms"
        f"  p99 {cost.p99_s * 1000:5.0f} ms  max {cost.longest_s * 1000:5.0f} ms"
        f"  stalled {cost.stalled_s:5.1f} partition-s  read after {cost.unread_s * 1000:5.0f} ms"
        f"  {cost.bumps} epoch bumps"
        f"  {cost.written:.0%} of the load  idle {cost.idle:.0%}  GC {cost.gc_s:.1f} s"
    )


def cost_of(
    lab: Lab,
    topic: str,
    way: Way,
    throttle: int | None,
    lasts_s: float | None = None,
    scene: Scene = SIX_BROKERS,
) -> Cost:
    """Move the replicas of a topic with a producer on it, and measure the cost.

    Args:
        lab: the brokers.
        topic: the name of the topic, which is new.
        way: how they are moved.
        throttle: bytes a second into each broker; None for no throttle.
        lasts_s: how long to wait where nothing is moved.
        scene: what is moved.
    """
    connection = Connection.to(lab.bootstrap_servers)
    first, target = _layouts(way.moves, scene)
    numbers = range(scene.partitions)
    create_topic(connection, topic, [first(n) for n in numbers])
    fill(connection, topic, numbers, bytes_each=scene.bytes_each)
    plan = Plan(tuple(PartitionTarget(topic, n, tuple(target(n))) for n in numbers))
    settle(lab)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder,
            consumer(lab.bootstrap_servers, topic) as c,
            producer(lab.bootstrap_servers, topic, scene.partitions, Load(scene.bytes_s)) as p,
            sampled(lab) as machine,
        ):
            file = Path(folder) / f"{topic}.json"
            file.write_text(plan_as_json(plan))
            if way.moves is Moves.NOTHING:
                seconds, peak = lasts_s or 0.0, 0
                time.sleep(seconds)
                ended_s = time.monotonic()
            else:
                mover = quietly(way.argv(lab, file, folder, throttle))
                seconds, ended_s, peak = asyncio.run(watched(connection, plan, mover))
            timed: Timed = printed_at_end(p, "producer")
            read: Read = printed_at_end(c, "consumer")
            if way.options is None:
                remove_tool_throttles(lab, file)
        during = [t for t in timed if ended_s - seconds <= t[0] <= ended_s]
        changes = changes_of(lab, topic, time.monotonic() - time.time())
        period = _Period(ended_s - seconds, ended_s, peak, scene.bytes_s)
        epochs = asyncio.run(_epochs(connection, topic))
        cost = _judged(during, read, period, epochs, changes, machine)
        if cost.read < LEAST_WRITTEN:
            raise SystemExit(f"not measured: the consumer read {cost.read:.0%} of what was written")
        if cost.written < LEAST_WRITTEN:
            raise SystemExit(f"not measured: the producer wrote {cost.written:.0%} of its load")
        return cost
    finally:
        delete_topics(connection, [topic])


def settle(lab: Lab) -> None:
    """Wait until nothing of the topics before is left to delete, and write what was filled."""
    folders = [path for node in lab.brokers for path in lab.log_dirs(node)]
    while any(found for path in folders for found in path.glob("*-delete")):
        time.sleep(0.5)
    os.sync()


def warm_up(lab: Lab, scene: Scene) -> None:
    """Carry out plans until brokers that have just started have compiled what plans need.

    Brokers that are still cold answer nobody under a share of a core: limit them afterwards.
    """
    for part in _WARM_UPS:
        small = msgspec.structs.replace(scene, bytes_each=scene.bytes_each // part)
        cost_of(lab, f"bench-cold-{part}", WAYS[2], None, scene=small)


def _layouts(
    moves: Moves, scene: Scene
) -> tuple[Callable[[int], list[int]], Callable[[int], list[int]]]:
    """Return the replicas of each partition at first, and at the end."""

    def old(number: int) -> list[int]:
        return scene.replicas(number, 0)

    def new(number: int) -> list[int]:
        return scene.replicas(number, scene.half)

    def both(number: int) -> list[int]:
        return [*old(number), *new(number)]

    return {
        Moves.REPLACED: (old, new),
        Moves.COPIED: (old, both),
        Moves.CUT: (both, new),
        Moves.NOTHING: (old, old),
    }[moves]


@contextmanager
def ten_brokers() -> Iterator[Lab]:
    """Start a lab of ten brokers, and stop it at the end."""
    with brokers(10) as lab:
        yield lab


@contextmanager
def brokers(count: int, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Lab]:
    """Start a lab of so many brokers with Kafka's defaults and these, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        chosen = {**_KAFKAS_OWN, **_DELETED_SOON, **settings}
        request = LabRequest(brokers=count, settings=chosen, jvm_flags=_AS_IN_PRODUCTION)
        lab = up(Path(folder) / "lab", request, connect, lambda _: None)
        try:
            yield lab
        finally:
            down(lab, keep=False)


def _tool(lab: Lab, plan: Path) -> list[str]:
    java = [lab.layout.java, "-XX:TieredStopAtLevel=1", "-cp", lab.layout.joined_class_path, _TOOL]
    return [*java, "--reassignment-json-file", str(plan)]


def remove_tool_throttles(lab: Lab, plan: Path) -> None:
    """Let Kafka's tool remove its throttles, which only `--verify` does."""
    argv = [*_tool(lab, plan), "--bootstrap-server", lab.bootstrap_servers, "--verify"]
    quietly(argv).wait()


def quietly(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process without its output, which leaves the CPUs to the brokers.

    In production, a mover runs on a machine of its own, and takes no CPU from them.
    """
    nice = ["nice", "-n", "10", *argv]
    return subprocess.Popen(nice, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def watched(
    connection: Connection, plan: Plan, mover: subprocess.Popen[bytes]
) -> tuple[float, float, int]:
    """Return the seconds from the first move to the end of the last, that end, and the peak.

    Cuts are over in a moment, and may never be seen in the list: they begin with their mover.
    """
    reader = KafkaReader(connection)
    targets = {target.tp: target.replicas for target in plan.partitions}
    started_s, began_s, peak = time.monotonic(), None, 0
    while True:
        listed = await reader.list_reassignments()
        if listed and began_s is None:
            began_s = time.monotonic()
        peak = max(peak, sum(len(each.adding) for each in listed.values()))
        if mover.poll():
            raise SystemExit(f"not measured: {mover.args!r} ended with code {mover.returncode}")
        seen = began_s is not None or mover.poll() == 0
        if seen and not listed and await _on_target(reader, targets):
            ended_s = time.monotonic()
            began_s = started_s if began_s is None else began_s
            check_count("as the exit code of the mover", mover.wait(), 0)
            await reader.aclose()
            return ended_s - began_s, ended_s, peak
        await asyncio.sleep(0.25)


async def _on_target(
    reader: KafkaReader, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> bool:
    states = (await reader.describe_topics({tp.topic for tp in targets})).partitions
    return all(states[tp].replicas == target for tp, target in targets.items())


async def _epochs(connection: Connection, topic: str) -> int:
    reader = KafkaReader(connection)
    states = (await reader.describe_topics({topic})).partitions.values()
    await reader.aclose()
    return sum(state.leader_epoch or 0 for state in states)


class _Period(NamedTuple):
    """From the first move to the end of the last, in seconds of `time.monotonic`."""

    since_s: float
    until_s: float
    peak: int
    bytes_s: float


def _judged(
    timed: Timed,
    read: Read,
    period: _Period,
    bumps: int,
    changes: Sequence[Change],
    machine: Samples,
) -> Cost:
    taken, seconds = [took_s for _, took_s, _ in timed], period.until_s - period.since_s
    unread = [late for at, late in read if period.since_s <= at - late <= period.until_s]
    stalls = judged(stalls_of(timed), changes, machine)
    return Cost(
        since_s=period.since_s,
        seconds=seconds,
        peak=period.peak,
        p50_s=percentile(taken, 0.5),
        p99_s=percentile(taken, 0.99),
        longest_s=max(taken),
        stalled_s=sum(stall.lasts_s for stall, _ in stalls),
        written=len(timed) * MESSAGE_BYTES / (period.bytes_s * seconds),
        read=len(unread) / len(timed),
        unread_s=max(unread),
        bumps=bumps,
        stalls=stalls,
        idle=machine.idle(period.since_s, period.until_s),
        gc_s=machine.gc_s(period.since_s, period.until_s),
    )
