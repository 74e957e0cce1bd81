"""The twin of a cluster: a scenario file's cluster, and how fast its brokers take in copies."""

from __future__ import annotations

import enum
from pathlib import Path

import msgspec

from ktui.cluster.simulated_id import simulated_id
from ktui.cluster.text import clean
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.scenario.record import RatesFrom, SnapshotInfo
from ktui.speed.answer import Span
from ktui.speed.capacity import ASSUMED, THROTTLED

LEAST_OF_THROTTLE = 0.8
"""The share of the usual one that copies get of a throttle on a slow twin with recorded rates: real
runs took up to a fifth longer. However busy its machines are, a throttle far below them holds."""
MOST_OF_THROTTLE = 1.1
"""The share on a fast twin: bytes come through a throttle in gulps of up to 11 s (Kafka's window),
by which a run of less than a minute gets more than its rate."""
_START = Span(2 / 7, 1.0, 12 / 7)
"""How long a new replica waits for its first bytes on a fast, a usual and a slow twin, as a share
of the usual 0.35 s. A follower learns of it in 0.1 s. Its fetch returns at once where data flows,
and waits for up to 0.5 s where none does (replica.fetch.wait.max.ms)."""
_STARTUP = Span(0.4, 1.0, 3.0)
"""How long a broker takes to start on a fast, a usual and a slow twin, as a share of the usual.
Brokers of a lab are back 3 s after a kill; the more logs they have to recover, the longer."""


class Pace(enum.StrEnum):
    """Which end of the range of copy rates a twin has."""

    SLOW = "slow"
    USUAL = "usual"
    FAST = "fast"

    def of(self, times: Span) -> float:
        """Return the one of some times that this pace has: the shortest on a fast twin."""
        return {Pace.SLOW: times.high, Pace.USUAL: times.middle, Pace.FAST: times.low}[self]


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to rehearse on."""

    name: str
    """The name for people: the file's, cleaned for the terminal."""
    spec: ClusterSpec
    rates: Span = ASSUMED
    """Bytes a second that a broker takes in, over all of many replicas that are copied to it."""
    recorded: bool = False
    """Whether the rates were seen on the cluster; False where they are assumed."""

    @property
    def paces(self) -> tuple[Pace, ...]:
        """The twins to play: one where the rate is exact, else one for each part of the range."""
        exact = self.rates.low == self.rates.high
        return (Pace.USUAL,) if exact else (Pace.SLOW, Pace.USUAL, Pace.FAST)

    @property
    def cluster_id(self) -> str:
        """The id of the simulated cluster, which no real cluster has."""
        return simulated_id(self.spec.name)

    def rate(self, pace: Pace) -> float:
        """Return the copy rate into each broker, in bytes a second."""
        return {
            Pace.SLOW: self.rates.low,
            Pace.USUAL: self.rates.middle,
            Pace.FAST: self.rates.high,
        }[pace]

    def cluster(self, pace: Pace) -> ClusterSpec:
        """Return the cluster whose brokers copy at that pace, marked as simulated by its id."""
        rate = self.rate(pace)
        brokers = tuple(
            msgspec.structs.replace(
                b, copy_in=rate, throttle_share=self._throttled(pace, b.throttle_share)
            )
            for b in self.spec.brokers
        )
        return msgspec.structs.replace(
            self.spec,
            brokers=brokers,
            name=self.cluster_id,
            copy_start_s=pace.of(_START) * self.spec.copy_start_s,
            startup_s=pace.of(_STARTUP) * self.spec.startup_s,
        )

    def _throttled(self, pace: Pace, usual: float) -> float:
        """Return the share of a throttle that copies get at that pace, by the usual one."""
        if pace is Pace.USUAL or self.rates.low == self.rates.high:
            return usual
        if pace is Pace.FAST:
            return MOST_OF_THROTTLE
        return usual * (LEAST_OF_THROTTLE if self.recorded else THROTTLED.low)

    def at(self, rate: float) -> Twin:
        """Return the same twin with an exact copy rate, in bytes a second, of any copies."""
        brokers = tuple(msgspec.structs.replace(b, copy_half_at=0.0) for b in self.spec.brokers)
        spec = msgspec.structs.replace(self.spec, brokers=brokers)
        return msgspec.structs.replace(self, spec=spec, rates=Span(rate, rate, rate))


def load_twin(path: Path) -> Twin:
    """Read a twin from a scenario file. Only its cluster and its topics count.

    Raises:
        FileProblem: the file cannot be read, or its contents are impossible; with the line.
    """
    scenario = load_scenario(path)
    return twin_of(clean(str(path)), scenario.spec, scenario.snapshot)


def twin_of(name: str, spec: ClusterSpec, snapshot: SnapshotInfo | None) -> Twin:
    """Return the twin of a cluster, with the copy rates of its snapshot, or else assumed ones."""
    if snapshot is None:
        return Twin(name=name, spec=spec)
    rates = snapshot.rates
    return Twin(
        name=name,
        spec=spec,
        rates=Span(rates.slow, rates.usual, rates.fast),
        recorded=rates.source is RatesFrom.RECORDED,
    )
