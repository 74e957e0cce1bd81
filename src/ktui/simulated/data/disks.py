"""Disk usage of a simulated cluster."""

from __future__ import annotations

import math

from ktui.simulated.data.channels import Channels, TrafficMoment
from ktui.simulated.data.hosts import Host, Ledger

_FAR_S = 60.0
"""A disk this far from full, even at its highest rate, is not computed exactly."""
_SOON_S = 0.001
_FULL = 1.0
"""Bytes. A disk with less free space is full."""


class Disks:
    """The bytes on each broker's disk, and the time at which a disk may be full."""

    def __init__(
        self, hosts: dict[int, Host], ledger: Ledger, channels: Channels, moment: TrafficMoment
    ) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._channels = channels
        self._moment = moment
        self._check_s = dict.fromkeys(hosts, 0.0)
        self._nearly_full: set[int] = set()
        self._reported: set[int] = set()

    @property
    def close(self) -> bool:
        """Whether some disk is so full that every change of the traffic matters."""
        return bool(self._nearly_full)

    def used(self, broker: int) -> float:
        now_s, tide_s = self._moment.now_s, self._moment.tide_s
        host = self._hosts[broker]
        copied = sum(flow.size_at(now_s, tide_s) for flow in host.flows)
        return host.foreign + self._ledger.held(broker, tide_s) + copied

    def leave(self, broker: int, room: int) -> None:
        """Let other data fill a disk down to `room` free bytes, or make room again."""
        host = self._hosts[broker]
        more = host.spec.disk_bytes - self.used(broker) - room
        host.foreign = max(0.0, host.foreign + more)
        self.look_again(broker)

    def look_again(self, *brokers: int) -> None:
        """Check disks again, because a broker has come back or the data flows have changed."""
        self._check_s.update(dict.fromkeys(brokers, self._moment.now_s))
        self._reported.difference_update(brokers)

    def next_look_s(self) -> float:
        """Check the disks that are due, and return the second of the next check."""
        for broker, at_s in self._check_s.items():
            if at_s <= self._moment.now_s or broker in self._nearly_full:
                self._check_s[broker] = self._check(broker)
        return min(self._check_s.values(), default=math.inf)

    def full(self) -> list[int]:
        """Return the brokers whose disks have just become full."""
        due = [b for b, at_s in self._check_s.items() if at_s <= self._moment.now_s]
        full = [b for b in due if self._hosts[b].up and self._room(b) < _FULL]
        self._reported.update(full)
        return full

    def _check(self, broker: int) -> float:
        """Return the second of a disk's next check; the disk cannot be full before."""
        self._nearly_full.discard(broker)
        host, now_s = self._hosts[broker], self._moment.now_s
        if not host.up or broker in self._reported:
            return math.inf
        room = self._room(broker)
        if room < _FULL:
            return now_s
        highest = max(host.into, self._ledger.into[broker] * self._moment.factor)
        if highest <= 0 or room / highest > 2 * _FAR_S:
            return now_s + (room / highest - _FAR_S if highest > 0 else math.inf)
        self._nearly_full.add(broker)
        rate = self._fill_rate(broker)
        return now_s + max(_SOON_S, room / rate) if rate > 0 else math.inf

    def _room(self, broker: int) -> float:
        return self._hosts[broker].spec.disk_bytes - self.used(broker)

    def _fill_rate(self, broker: int) -> float:
        flows = sum(c.rate * c.count for c in self._channels if c.key[1] == broker)
        return self._ledger.growth(broker) * self._moment.factor + flows
