"""The twin of a cluster: a scenario file's cluster, and how fast its brokers take in copies."""

from __future__ import annotations

import enum
from pathlib import Path

import msgspec

from ktui.cluster.text import clean, simulated_id
from ktui.simulated.layout import ClusterSpec
from ktui.simulated.scenario.file import RatesFrom, SnapshotInfo
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.twin.brokers import rates_of
from ktui.speed.answer import Span
from ktui.speed.capacity import ASSUMED, OF_THROTTLE, THROTTLED
from ktui.speed.copies import SENDING

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
        """The one of some times that this pace has: the shortest on a fast twin."""
        return {Pace.SLOW: times.high, Pace.USUAL: times.middle, Pace.FAST: times.low}[self]


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to rehearse on."""

    name: str  # the file's, cleaned for the terminal
    spec: ClusterSpec
    rates: Span = ASSUMED  # bytes a second that a broker takes in, over all of many copies
    recorded: bool = False  # seen on the cluster; False where assumed

    @property
    def paces(self) -> tuple[Pace, ...]:
        """The twins to play: one where the rate is exact, else one for each part of the range."""
        exact = self.rates.low == self.rates.high
        return (Pace.USUAL,) if exact else (Pace.SLOW, Pace.USUAL, Pace.FAST)

    @property
    def cluster_id(self) -> str:
        return simulated_id(self.spec.name)

    def rate(self, pace: Pace) -> float:
        return {
            Pace.SLOW: self.rates.low,
            Pace.USUAL: self.rates.middle,
            Pace.FAST: self.rates.high,
        }[pace]

    def cluster(self, pace: Pace) -> ClusterSpec:
        rate = self.rate(pace)
        differ = len({b.copy_in for b in self.spec.brokers}) > 1
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rate * (b.copy_in / self.rates.middle if differ else 1.0),
                copy_sends=SENDING if b.copy_half_at else 0.0,
                throttle_share=self._throttled(pace, b.throttle_share),
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
        """The share of a throttle that copies get at that pace, by the usual one."""
        if pace is Pace.USUAL or self.rates.low == self.rates.high:
            return usual
        if pace is Pace.FAST:
            return MOST_OF_THROTTLE
        known = OF_THROTTLE if self.recorded else THROTTLED.times(1 / THROTTLED.middle)
        return usual * known.low

    def at(self, rate: float) -> Twin:
        """With one exact rate; copies get all of a throttle below it, as in forecasts."""
        more = max(0.0, rate - self.rates.high)
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rate,
                copy_half_at=0.0,
                throttle_share=1.0,
                net_in=b.net_in + more,
                net_out=b.net_out + more,
                disk_write=b.disk_write + more,
            )
            for b in self.spec.brokers
        )
        spec = msgspec.structs.replace(self.spec, brokers=brokers)
        return msgspec.structs.replace(self, spec=spec, rates=Span(rate, rate, rate))


def load_twin(path: Path) -> Twin:
    """Read a twin from a scenario file's cluster and topics. Raises FileProblem, with the line."""
    scenario = load_scenario(path)
    return twin_of(clean(str(path)), scenario.spec, scenario.snapshot)


def twin_of(name: str, spec: ClusterSpec, snapshot: SnapshotInfo | None) -> Twin:
    """Return the twin of a cluster, with the copy rates of its snapshot, or else assumed ones."""
    rates = rates_of(None) if snapshot is None else snapshot.rates
    if snapshot is None:
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rates.usual,
                copy_half_at=b.copy_half_at or rates.half_at,
                throttle_share=min(b.throttle_share, rates.throttled),
            )
            for b in spec.brokers
        )
        spec = msgspec.structs.replace(spec, brokers=brokers)
    return Twin(
        name=name,
        spec=spec,
        rates=Span(rates.slow, rates.usual, rates.fast),
        recorded=rates.source is RatesFrom.RECORDED,
    )
