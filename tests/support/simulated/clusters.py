"""Small simulated clusters for tests of outside events."""

from collections.abc import Collection
from typing import Any

import msgspec

from ktui.cluster.errors import TimedOut
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import GIB, MIB, BrokerSpec, ClusterSpec, TopicSpec

ORDERS = TopicPartition("orders", 0)


def a_cluster(*, leaping: bool = True, **more: Any) -> SimulatedCluster:
    """Return five brokers with one partition on 1, 2 and 3 that takes ten seconds to copy."""
    values: dict[str, Any] = {
        "brokers": tuple(BrokerSpec(id=b, net_in=10.0 * MIB) for b in range(1, 6)),
        "topics": (TopicSpec(name="orders", replicas=((1, 2, 3),), bytes_each=100 * MIB),),
        "auto_leader_rebalance": False,
    }
    return SimulatedCluster(ClusterSpec(**{**values, **more}), VirtualClock(leaping=leaping))


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    """Let time pass, and run everything due in it."""
    clock = cluster.clock
    assert isinstance(clock, VirtualClock)
    clock.pass_time(seconds)
    cluster.catch_up()


FIRST, SECOND = BrokerSpec(id=1, log_dirs=2).log_dir_paths
SIZE = 900 * MIB


class Reported:
    """The log dirs of a cluster, as far as checks read them, with what a test changes in them."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self.silent: set[int] = set()  # the brokers that do not answer
        self.usable: int | None = None
        """The free bytes that each log dir reports, in place of its own."""
        self.cordoned = ""  # a log dir of each broker that takes no more replicas
        self.unmeasured = False  # whether log dirs do not report their free bytes

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        if broker in self.silent:
            raise TimedOut("describing log dirs", where=f"broker {broker}")
        answer = await self._reader.log_dirs(broker, partitions)
        dirs = answer.log_dirs
        if self.usable is not None or self.unmeasured:
            dirs = tuple(msgspec.structs.replace(d, usable_bytes=self.usable) for d in dirs)
        if self.cordoned:
            dirs = tuple(msgspec.structs.replace(d, cordoned=d.path == self.cordoned) for d in dirs)
        return LogDirsAnswer(dirs, answer.replicas)


class MovingDirs:
    """Five brokers with two log dirs each, of which 1 and 2 have six partitions of 900 MiB.

    With two log dirs, partitions 0, 2 and 4 are in the first, the others in the second. With three,
    0 and 3 are in the first. A move takes nine seconds alone.
    """

    def __init__(self, log_dirs: int = 2) -> None:
        self.cluster = a_cluster(
            brokers=tuple(
                BrokerSpec(id=b, log_dirs=log_dirs, disk_write=100.0 * MIB, disk_bytes=100 * GIB)
                for b in range(1, 6)
            ),
            topics=(TopicSpec(name="orders", replicas=((1, 2),) * 6, bytes_each=SIZE),),
        )
        self.ports = Reported(self.cluster.reader())

    async def somebody_moves(self, replica: Replica, path: str) -> None:
        """Let another program move a replica."""
        await self.cluster.writer().alter_log_dirs(replica.broker, {replica.tp: path})


def on(broker: int, partition: int) -> Replica:
    """Return a replica of the cluster's topic."""
    return Replica(TopicPartition("orders", partition), broker)
