"""Forecasts of a replay, each with the time that was really left once that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.pipeline.forecast.replay import CaughtUp, Forecast, Growth


class Settled(NamedTuple):
    """A forecast, and what is known of the truth."""

    forecast: Forecast
    truth_s: float | None = None
    """The time that was really left, of a partition that caught up; None for a run."""


class Settling:
    """Holds the forecasts for copies until these end."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int, int], list[Forecast]] = {}

    def settle(self, results: Iterable[Forecast | CaughtUp]) -> Iterator[Settled]:
        """Yield the forecasts for runs as they are made, and others once their copy has ended.

        Args:
            results: of `EtaReplay.replay`, in order.
        """
        for each in results:
            if isinstance(each, CaughtUp):
                for forecast in self._open.pop((each.topic, each.partition, each.since), ()):
                    yield Settled(forecast, (each.ended_t - forecast.t) / 1000)
            elif each.topic is None or each.partition is None or each.since is None:
                yield Settled(each)
            else:
                self._open.setdefault((each.topic, each.partition, each.since), []).append(each)

    def unsettled(self, growths: Mapping[TopicPartition, Growth]) -> Iterator[Settled]:
        """Yield the forecasts for copies that had not ended, and still might.

        Args:
            growths: those of the replay's state.
        """
        for (topic, number, since), forecasts in self._open.items():
            growth = growths.get(TopicPartition(topic, number))
            if growth is not None and growth.since == since:
                yield from map(Settled, forecasts)
