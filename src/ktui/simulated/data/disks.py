"""How full the disks of a simulated cluster are."""

from __future__ import annotations

import math

from ktui.simulated.data.channels import Channels
from ktui.simulated.data.hosts import Host
from ktui.simulated.data.totals import Ledger
from ktui.simulated.data.traffic_cycle import TrafficMoment

_FAR_S = 60.0
"""A disk that takes longer to fill even at full speed is left alone for so long."""
_SOON_S = 0.001
_FULL = 1.0
"""Bytes; with less room than this a disk is full."""


class Disks:
    """The bytes on each broker's disk, and when one may be full."""

    def __init__(
        self, hosts: dict[int, Host], ledger: Ledger, channels: Channels, moment: TrafficMoment
    ) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._channels = channels
        self._moment = moment
        self._look_s = dict.fromkeys(hosts, 0.0)
        self._close: set[int] = set()
        self._told: set[int] = set()

    @property
    def close(self) -> bool:
        """Whether a disk is so full that each change of the traffic matters."""
        return bool(self._close)

    def used(self, broker: int) -> float:
        """Give the bytes used on a broker's disk, whoever they belong to."""
        now_s, tide_s = self._moment.now_s, self._moment.tide_s
        host = self._hosts[broker]
        apart = sum(flow.size_at(now_s, tide_s) for flow in host.apart)
        return host.foreign + self._ledger.held(broker, tide_s) + apart

    def leave(self, broker: int, room: int) -> None:
        """Let something else take a disk but for `room` bytes, or give back what it took."""
        host = self._hosts[broker]
        more = host.spec.disk_bytes - self.used(broker) - room
        host.foreign = max(0.0, host.foreign + more)
        self.look_again(broker)

    def look_again(self, *brokers: int) -> None:
        """Look at disks anew: a broker has come back, or what fills them has changed."""
        self._look_s.update(dict.fromkeys(brokers, self._moment.now_s))
        self._told.difference_update(brokers)

    def next_look_s(self) -> float:
        """Look at the disks where it is time to, and give when it is next."""
        for broker, at_s in self._look_s.items():
            if at_s <= self._moment.now_s or broker in self._close:
                self._look_s[broker] = self._look(broker)
        return min(self._look_s.values(), default=math.inf)

    def full(self) -> list[int]:
        """Name the brokers whose disks have just come to be full."""
        due = [b for b, at_s in self._look_s.items() if at_s <= self._moment.now_s]
        full = [b for b in due if self._hosts[b].up and self._room(b) < _FULL]
        self._told.update(full)
        return full

    def _look(self, broker: int) -> float:
        """Tell when a disk is next to be looked at: it is not full before."""
        self._close.discard(broker)
        host, now_s = self._hosts[broker], self._moment.now_s
        if not host.up or broker in self._told:
            return math.inf
        room = self._room(broker)
        if room < _FULL:
            return now_s
        most = max(host.into, self._ledger.into[broker] * self._moment.factor)
        if most <= 0 or room / most > 2 * _FAR_S:
            return now_s + (room / most - _FAR_S if most > 0 else math.inf)
        self._close.add(broker)
        rate = self._filling(broker)
        return now_s + max(_SOON_S, room / rate) if rate > 0 else math.inf

    def _room(self, broker: int) -> float:
        return self._hosts[broker].spec.disk_bytes - self.used(broker)

    def _filling(self, broker: int) -> float:
        """Give how fast a disk fills, bytes a second."""
        flows = sum(c.rate * c.count for c in self._channels if c.key[1] == broker)
        return self._ledger.growth(broker) * self._moment.factor + flows
