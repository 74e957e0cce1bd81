"""The network, disk and throttle capacity of each broker's machine."""

from __future__ import annotations

import math

from ktui.simulated.data.log_dirs import LogDirs
from ktui.simulated.data.logs import ChannelKey, Flow
from ktui.simulated.data.throttles import ReplicationThrottle
from ktui.simulated.data.totals import Ledger
from ktui.simulated.layout import BrokerSpec

_RESOURCES = 5
"""Resources per host: inbound network and disk, outbound network, and the throttles of the
follower, the leader and the log dirs."""
UNUSED = (math.inf,) * _RESOURCES
"""The resources of a host that no flow uses."""


class Host:
    """One broker's machine. Rates in bytes per second."""

    def __init__(self, spec: BrokerSpec, number: int) -> None:
        self.spec = spec
        self.first_resource = number * _RESOURCES
        self.up = not spec.down
        self.share = 1.0
        self.foreign = 0.0
        """Bytes on the disk that belong to no log."""
        self.follower_throttle = ReplicationThrottle()
        self.leader_throttle = ReplicationThrottle()
        self.log_dir_throttle = ReplicationThrottle()
        self.log_dirs = LogDirs(spec.log_dir_paths)
        self.flows: dict[Flow, None] = {}
        """The broker's replicas that are not in step, and its copies in other log dirs."""

    @property
    def into(self) -> float:
        """The rate at which the machine can receive data and write it to disk."""
        return min(self.spec.net_in, self.spec.disk_write) * self.share

    @property
    def out(self) -> float:
        """The rate at which the machine can send."""
        return self.spec.net_out * self.share

    @property
    def throttles(self) -> tuple[ReplicationThrottle, ...]:
        """The throttles of the follower, the leader and the log dirs."""
        return self.follower_throttle, self.leader_throttle, self.log_dir_throttle

    def rooms(self, ledger: Ledger, factor: float, now_s: float, copies: int) -> tuple[float, ...]:
        """Return the rate that in-step traffic leaves to flows, for each resource of the host.

        Args:
            ledger: the traffic of the replicas that are in step.
            factor: the tide.
            now_s: the time.
            copies: the number of replicas that the broker copies, also between its log dirs.
        """
        broker, share = self.spec.id, self.spec.throttle_share
        return (
            min(self.into - ledger.into[broker] * factor, self.copies_in(copies)),
            self.out - ledger.out[broker] * factor,
            self.follower_throttle.room(ledger.follower_listed[broker] * factor, now_s) * share,
            self.leader_throttle.room(ledger.leader_listed[broker] * factor, now_s) * share,
            self.log_dir_throttle.room(0.0, now_s),
        )

    def copies_in(self, copies: float) -> float:
        """Return the rate at which so many copies at once come in at most."""
        most, half_at = self.spec.copy_in, self.spec.copy_half_at
        count = min(copies, self.spec.copy_most_at)
        return most * count / (count + half_at) if half_at else most


def resources(hosts: dict[int, Host], key: ChannelKey) -> tuple[int, ...]:
    """Return the indexes of a channel's resources: the hosts', and the throttles that bind it."""
    source, destination, follower_bound, leader_bound = key
    first, second = hosts[source].first_resource, hosts[destination].first_resource
    if source == destination:
        return first, first + 4
    used: tuple[int, ...] = (first + 1, second)
    if follower_bound:
        used = (*used, second + 2)
    return (*used, first + 3) if leader_bound else used
