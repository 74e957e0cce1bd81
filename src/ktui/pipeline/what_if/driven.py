"""Copies under the rates that a run's promises chose on the way: these changed as it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Any

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.pipeline.tables.run_rates import RateChooser
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.speed.copies import BrokerIntakes, Pair

PROMISES = (RateChooser.BY.value, RateChooser.OBJECTIVE.value)


class RateSpan(msgspec.Struct, frozen=True):
    """Rates, and how long steps were in flight under them."""

    seconds: float
    rates: ThrottleRates


def rate_spans(rates: Sequence[Mapping[str, Any]]) -> tuple[RateSpan, ...]:
    """Return the rates over time of a run, from its rows of the table RATES, in order."""
    return tuple(
        RateSpan(
            row["in_flight_ms"] / 1000,
            ThrottleRates(row["bytes_s"], tuple(BrokerRate(**each) for each in row["brokers"])),
        )
        for row in rates
    )


def driven_by(rates: Sequence[Mapping[str, Any]]) -> str:
    """Return the promises that chose a run's rates: `by`, `objective`, `by, objective` or none."""
    sources = {row["chosen_by"] for row in rates}
    return ", ".join(promise for promise in PROMISES if promise in sources)


Intake = Callable[[int, int], float]
"""Returns a broker's intake in bytes a second, for a number of replicas at once."""


class DrivenIntakes:
    """The replicas that all brokers are adding, while the intake of brokers changes.

    Args:
        spans: seconds, and the intake in that time; the last one stays.
    """

    def __init__(self, spans: Sequence[tuple[float, Intake]]) -> None:
        ends_s = accumulate(seconds for seconds, _ in spans[:-1])
        self._changes = [(end_s, then) for end_s, (_, then) in zip(ends_s, spans[1:], strict=True)][
            ::-1
        ]
        self._now = spans[0][1]
        self._intakes = BrokerIntakes(self._bytes_s)

    def _bytes_s(self, broker: int, at_once: int) -> float:
        return self._now(broker, at_once)

    @property
    def next_end_s(self) -> float:
        """When the next copy ends, or the intake changes before; infinity without copies."""
        end_s = self._intakes.next_end_s
        return end_s if end_s == inf else min(end_s, self._changes_s)

    @property
    def _changes_s(self) -> float:
        return self._changes[-1][0] if self._changes else inf

    def add(self, tp: TopicPartition, pair: Pair, size: float, at_s: float) -> None:
        """Begin to copy a replica. The caller has already collected ended copies with `ended`."""
        self._intakes.add(tp, pair, size, at_s)

    def ended(self, by_s: float) -> list[tuple[float, TopicPartition, int]]:
        """Return copies that ended by then: second, partition, broker; each copy once."""
        ended = []
        while self._changes_s <= by_s:
            ended += self._intakes.ended(self._changes_s)
            at_s, self._now = self._changes.pop()
            self._intakes.rates_changed(at_s)
        return ended + self._intakes.ended(by_s)
