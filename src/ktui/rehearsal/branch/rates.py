"""How fast a recording shows that brokers copy: where no throttle is set, and under one."""

from __future__ import annotations

from ktui.cluster.observation import Observation
from ktui.progress.flow_meter import WINDOW_S
from ktui.progress.flows import BrokerFlow
from ktui.progress.timeline import Progress


class ShownRates:
    """The highest rates of a recording, poll by poll.

    Attributes:
        inflow: the most bytes a second that copies brought into a broker while no throttle was set.
        outflow: the most that they took from a broker then.
        throttled: the largest share of a throttle that copies onto a broker got, under one rate
            for as long as a flow is measured over; 0 where there was none.
    """

    def __init__(self) -> None:
        self.inflow = self.outflow = self.throttled = 0.0
        self._set: dict[int, tuple[int | None, float]] = {}
        """The rate that is set on each broker, and the second since when."""

    def note(self, progress: Progress) -> None:
        """Take one poll into account."""
        seen, flows = progress.last, progress.flows.brokers
        if seen is None:
            return
        for broker, flow in flows.items():
            self._note_throttled(broker, flow, seen)
        if not any(_may_be_throttled(seen, broker) for broker in flows):
            for flow in flows.values():
                self.inflow = max(self.inflow, flow.in_s or 0.0)
                self.outflow = max(self.outflow, flow.out_s or 0.0)

    def _note_throttled(self, broker: int, flow: BrokerFlow, seen: Observation) -> None:
        config, now_s = seen.broker_configs.get(broker), seen.monotonic_s
        rate = None if config is None else config.follower_throttle_rate
        before, since_s = self._set.get(broker, (rate, now_s))
        if rate != before:
            since_s = now_s
        self._set[broker] = rate, since_s
        if flow.throttle and flow.in_s and now_s - since_s >= WINDOW_S:
            self.throttled = max(self.throttled, flow.in_s / flow.throttle)


def _may_be_throttled(seen: Observation, broker: int) -> bool:
    """Return whether a replication throttle is set on a broker, or may be: it was not read."""
    config = seen.broker_configs.get(broker)
    if config is None:
        return True
    return (config.follower_throttle_rate, config.leader_throttle_rate) != (None, None)
