"""Moves between the log dirs of simulated brokers, and everything that a test sees of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import cast

import msgspec

from ktui.cli.reassign.log_dirs.paced import PacedMoves, Patience
from ktui.cli.reassign.log_dirs.pacing import Pace
from ktui.cluster.errors import ClusterError, TimedOut
from ktui.cluster.partition import Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, ClusterWriter, LogDirsAnswer, WriteResult
from ktui.simulated import events
from ktui.simulated.layout import GIB, MIB, BrokerSpec, TopicSpec
from support.simulated.clusters import a_cluster

FIRST, SECOND = BrokerSpec(id=1, log_dirs=2).log_dir_paths
SIZE = 900 * MIB


class Watched:
    """Both ports of a cluster, as far as moves use them; counts what is asked and sent."""

    def __init__(self, reader: ClusterReader, writer: ClusterWriter) -> None:
        self._reader, self._writer = reader, writer
        self.asked: Counter[int] = Counter()
        self.sent: list[Replica] = []
        self.most: Counter[tuple[int, str]] = Counter()
        """The most moves that each log dir was seen to have at a time."""
        self.together: set[frozenset[int]] = set()
        """The brokers that were seen to have moves at the same time."""
        self.silent: set[int] = set()
        """The brokers that do not answer."""
        self.hidden = 0
        """In so many answers, moves under way do not show."""
        self.usable: int | None = None
        """The free bytes that each log dir reports, in place of its own."""
        self.cordoned = ""
        """A log dir of each broker that takes no more replicas."""
        self.unmeasured = False
        """Whether log dirs do not report their free bytes."""
        self._moving: dict[int, list[str]] = {}

    async def log_dirs(
        self, broker: int, partitions: Collection[TopicPartition] | None
    ) -> LogDirsAnswer:
        self.asked[broker] += 1
        if broker in self.silent:
            raise TimedOut("describing log dirs", where=f"broker {broker}")
        self._moving.pop(broker, None)  # a broker that is down moves nothing
        answer = await self._reader.log_dirs(broker, partitions)
        self._count(broker, answer)
        if self.usable is not None or self.unmeasured:
            dirs = (msgspec.structs.replace(d, usable_bytes=self.usable) for d in answer.log_dirs)
            answer = LogDirsAnswer(tuple(dirs), answer.replicas)
        if self.cordoned:
            dirs = (
                msgspec.structs.replace(d, cordoned=d.path == self.cordoned)
                for d in answer.log_dirs
            )
            answer = LogDirsAnswer(tuple(dirs), answer.replicas)
        if self.hidden and self._moving[broker]:
            self.hidden -= 1
            bare = {
                tp: msgspec.structs.replace(each, future=None)
                for tp, each in answer.replicas.items()
            }
            return LogDirsAnswer(answer.log_dirs, bare)
        return answer

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        self.sent += [Replica(tp, broker) for tp in paths]
        return await self._writer.alter_log_dirs(broker, paths, leaves_within_s=leaves_within_s)

    def _count(self, broker: int, answer: LogDirsAnswer) -> None:
        moving = [(each.path, each.future.path) for each in answer.replicas.values() if each.future]
        self._moving[broker] = [path for pair in moving for path in pair]
        self.most |= Counter((broker, path) for path in self._moving[broker])
        busy = frozenset(each for each, paths in self._moving.items() if paths)
        self.together.add(busy)


class Report:
    """Keeps what a command would print."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.waits: list[str] = []

    def begun(self, line: str) -> None:
        self.lines += line.splitlines()

    def note(self, line: str) -> None:
        self.notes.append(line)

    def waiting(self, line: str) -> None:
        self.waits.append(line)


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
        self.ports = Watched(self.cluster.reader(), self.cluster.writer())
        self.report = Report()
        self.refusal: Exception | None = None
        """Why nothing more may be sent."""

    def at(self, second: float, act: events.OutsideEvent) -> None:
        """Let something happen so many seconds after the cluster's first moment."""
        self.cluster.schedule(events.ScheduledEvent(second, act))

    async def move(
        self, wanted: Mapping[Replica, str], pace: Pace, *, absent_s: float = 10.0
    ) -> dict[str, str]:
        """Move replicas, and return why some were given up."""
        moves = PacedMoves(
            cast("ClusterReader", self.ports),
            cast("ClusterWriter", self.ports),
            self.cluster.clock,
            pace=pace,
            patience=Patience(poll_s=1.0, absent_s=absent_s),
            allowed=self._allowed,
            report=self.report,
        )
        left = await moves.move(wanted)
        return {f"{each.tp}-{each.broker}": why for each, why in left.items()}

    async def places(self, *replicas: Replica) -> list[str | None]:
        """Return the log dirs of replicas; None where no working log dir has one."""
        reader, found = self.cluster.reader(), []
        for each in replicas:
            held = (await reader.log_dirs(each.broker, [each.tp])).replicas.get(each.tp)
            found.append(None if held is None else held.path)
        return found

    async def somebody_moves(self, replica: Replica, path: str) -> None:
        """Let another program move a replica."""
        await self.cluster.writer().alter_log_dirs(replica.broker, {replica.tp: path})

    async def _allowed(self) -> None:
        if self.refusal is not None:
            raise self.refusal


def on(broker: int, partition: int) -> Replica:
    """Return a replica of the cluster's topic."""
    return Replica(TopicPartition("orders", partition), broker)


def started(path: str, *replicas: Replica) -> list[str]:
    """Return the lines of Kafka's tool for moves that have begun."""
    return [
        f"Successfully started moving log directory to {path} for replica {each.tp} "
        f"with broker {each.broker} "
        for each in replicas
    ]


def unreachable(broker: int) -> ClusterError:
    """Return the error of a broker that does not answer."""
    return TimedOut("describing log dirs", where=f"broker {broker}")
