"""Real runs to record: labs, each with its runs in their order, all drawn from the lab's seed.

A lab is a cluster of its own: five brokers of one Kafka version, with two topics whose partitions
differ in size by up to ten times. The runs of a lab move the same partitions back and forth.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.real.lab import MIB, SizedTopic

BROKERS = 5
FACTOR = 2
_LONG = 4
"""The runs of a lab with long ones."""


class Act(enum.Enum):
    """What happens in the middle of a run; no forecast can know of it before."""

    NOTHING = "nothing"
    THROTTLE = "throttle"
    """Another throttle."""
    OUTAGE = "outage"
    """A broker dies, and is back after a while."""
    STOP = "stop"
    """An operator stops the run."""
    DEATH = "death"
    """A broker dies for good, and the engine is interrupted later: the run never ends."""


class Machine(enum.Enum):
    """What the brokers of a lab share while its runs are recorded."""

    QUIET = "a quiet machine"
    """Two cores, with nothing beside them."""
    BUSY = "a busy machine"
    """Two cores, with other work beside them."""
    SHARES = "brokers with a share of a core each"
    """Nothing: each broker has `CORE_SHARE`, as if it ran on a machine of its own."""


CORE_SHARE = 0.3
"""Five brokers take 1.5 of two cores; the rest is for ktui and the producers."""


class Kind(enum.Enum):
    """Which runs a lab has."""

    VARIED = "most with a throttle, and what may happen to a run"
    WITHOUT_THROTTLE = "none with a throttle, each with another limit"
    LONG = "few of some minutes, undisturbed: they show most of how a run begins"


class LabRuns(NamedTuple):
    """A lab to record."""

    name: str
    version: str
    seed: int
    machine: Machine
    large_mib: int
    """The least size of a partition that is copied without a throttle: enough for half a minute."""
    kind: Kind = Kind.VARIED
    small_mib: int = 3
    """The least size of a partition that is copied under a throttle."""

    @property
    def frozen(self) -> bool:
        """Whether its runs only judge the forecast, and nothing is chosen by them."""
        return self.name.startswith("frozen")

    def runs(self, rng: random.Random, number: int) -> Iterator[RealRun]:
        """Draw its runs; `number` is its place in LABS."""
        if self.kind is Kind.WITHOUT_THROTTLE:
            return runs_without_throttle(rng)
        return long_runs(rng) if self.kind is Kind.LONG else varied_runs(rng, number)


LABS = (
    LabRuns("train-1", "4.3.1", 101, Machine.BUSY, large_mib=6),
    LabRuns("frozen-1", "3.9.1", 201, Machine.BUSY, large_mib=6),
    LabRuns("frozen-2", "4.3.1", 202, Machine.BUSY, large_mib=6),
    LabRuns("train-2", "4.3.1", 102, Machine.QUIET, large_mib=96),
    LabRuns("frozen-3", "3.9.1", 203, Machine.QUIET, large_mib=96),
    LabRuns("frozen-4", "4.3.1", 204, Machine.QUIET, large_mib=96),
    LabRuns("frozen-5", "3.9.1", 205, Machine.SHARES, large_mib=48),
    LabRuns("frozen-6", "4.3.1", 206, Machine.SHARES, large_mib=48),
    LabRuns("train-3", "4.3.1", 103, Machine.SHARES, large_mib=48),
    LabRuns("train-4", "3.9.1", 104, Machine.SHARES, large_mib=32, kind=Kind.WITHOUT_THROTTLE),
    LabRuns("train-5", "4.3.1", 105, Machine.SHARES, large_mib=48, kind=Kind.LONG, small_mib=8),
    LabRuns("frozen-7", "3.9.1", 207, Machine.SHARES, large_mib=1, kind=Kind.LONG, small_mib=7),
    LabRuns("frozen-8", "4.3.1", 208, Machine.SHARES, large_mib=1, kind=Kind.LONG, small_mib=7),
)
"""Rules and figures of the forecast are chosen on the labs that are not frozen."""


class RealRun(NamedTuple):
    """A run to record."""

    name: str
    topic: str
    options: Sequence[str]
    written: int = 0
    """Bytes a second that producers write to the topic meanwhile."""
    act: Act = Act.NOTHING
    at_s: float = 0.0
    """When the act happens, in seconds after the first replica is being added."""
    throttle: str = ""
    """The new one, of `Act.THROTTLE`."""


def topics(rng: random.Random, of: LabRuns) -> tuple[SizedTopic, SizedTopic]:
    """Draw the topics of a lab: one for runs with a throttle, and a larger one."""
    small = [round(MIB * of.small_mib * 10 ** rng.random()) for _ in range(18)]
    large = [round(MIB * of.large_mib * 6 ** rng.random()) for _ in range(16)]
    return SizedTopic("small", small), SizedTopic("large", large)


def varied_runs(rng: random.Random, number: int) -> Iterator[RealRun]:
    """Draw the runs of a lab; every other lab ends with a run that never does."""

    def throttle(low: float, high: float) -> str:
        return f"{rng.uniform(low, high):.1f}MB"

    small, large = "small", "large"
    at_s = rng.uniform(8, 16)
    yield RealRun("throttled", small, ("--throttle", throttle(2.5, 4)))
    yield RealRun("four-at-once", large, ("--partitions", "4"))
    yield RealRun(
        "written-to", small, ("--throttle", throttle(3.5, 5), "--per-broker", "3"), 1_500_000
    )
    lower = rng.choice([True, False])
    yield RealRun(
        "throttle-lowered" if lower else "throttle-raised",
        small,
        ("--throttle", throttle(5, 7) if lower else throttle(2, 3), "--per-broker", "4"),
        act=Act.THROTTLE,
        at_s=at_s,
        throttle=throttle(2, 3) if lower else throttle(5, 8),
    )
    yield RealRun(
        "one-on-each-broker",
        large,
        ("--per-broker", "1", "--order", rng.choice(["size-asc", "size-desc", "plan"])),
        rng.choice([0, 2_000_000]),
    )
    yield RealRun(
        "broker-dies",
        small,
        ("--throttle", throttle(2.5, 4), "--per-broker", "2"),
        act=Act.OUTAGE,
        at_s=rng.uniform(6, 12),
    )
    yield RealRun("all-at-once", small, ("--pace", "fast", "--throttle", throttle(2.5, 4)))
    yield RealRun("one-by-one", small, ("--partitions", "1"), 1_000_000)
    last = Act.STOP if number % 2 else Act.DEATH
    yield RealRun(
        "stopped" if number % 2 else "never-ends",
        small,
        ("--throttle", throttle(2, 3)),
        act=last,
        at_s=at_s,
    )


def runs_without_throttle(rng: random.Random) -> Iterator[RealRun]:
    """Draw runs without a throttle, each with another limit on how much is copied at once."""
    limits = [
        ("--partitions", "2"),
        ("--partitions", "8"),
        ("--per-broker", "1"),
        ("--per-broker", "2"),
        ("--per-broker", "4"),
        ("--per-leader", "1"),
        ("--replica-movements", "3"),
        ("--pace", "fast"),
        (),
    ]
    rng.shuffle(limits)
    for limit in limits:
        order = rng.choice(["long-first", "topic", "size-asc", "size-desc"])
        name = "-".join((*limit, order)).replace("--", "") if limit else f"usual-{order}"
        yield RealRun(name, "large", (*limit, "--order", order), rng.choice([0, 0, 2_000_000]))


def long_runs(rng: random.Random) -> Iterator[RealRun]:
    """Draw runs of some minutes, in which nothing happens that nobody could know of."""
    limits = [
        ("--per-broker", "1"),
        ("--per-broker", "3"),
        ("--partitions", "6"),
        ("--per-leader", "2"),
        ("--replica-movements", "4"),
        ("--pace", "fast"),
        (),
    ]
    rng.shuffle(limits)
    for limit in limits[:_LONG]:
        name = "-".join(limit).replace("--", "") or "usual"
        throttle = ("--throttle", f"{rng.uniform(1.8, 3):.1f}MB")
        order = ("--order", rng.choice(["long-first", "topic", "size-asc", "size-desc"]))
        written = rng.choice([0, 0, 1_000_000])
        yield RealRun(f"long-{name}", "small", (*limit, *throttle, *order), written)


def placements(rng: random.Random, before: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Draw other replicas for each partition: one or both of them are on other brokers."""
    found = []
    for replicas in before:
        new = tuple(replicas)
        while set(new) == set(replicas):
            new = tuple(rng.sample(range(1, BROKERS + 1), FACTOR))
        found.append(new)
    return found
