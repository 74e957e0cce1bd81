"""Moves between the log dirs of a broker (KIP-113), as --execute, --verify and --cancel ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping

import msgspec

from ktui.cli.reassign.errors import ActionFailed, ReassignProblem
from ktui.cli.reassign.printed import lines
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Operation
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, ClusterWriter, Verdict, WriteResult
from ktui.planning.check.ask_brokers import call_each_broker

_AGAIN_S = 0.1
_NOT_THERE_YET = ("REPLICA_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")
"""Kafka's answers of a broker that does not host the replica, and remembers the log dir for it."""


class ReplicaDirs(msgspec.Struct, frozen=True):
    """Where replicas are. Those of a broker that did not answer are left out."""

    current: Mapping[Replica, str | None]
    """None where no live log dir of the broker has the replica."""
    future: Mapping[Replica, str]
    """The log dirs to which replicas are moving."""


async def read_dirs(
    reader: ClusterReader, replicas: Iterable[Replica], online: Collection[int]
) -> ReplicaDirs:
    """Read the log dirs of replicas, from all their live brokers at once."""
    asked = {b: tps for b, tps in _by_broker(replicas).items() if b in online}
    calls = {broker: reader.log_dirs(broker, tps) for broker, tps in asked.items()}
    answers, _ = await call_each_broker(Operation.LOG_DIRS, calls)
    current: dict[Replica, str | None] = {}
    future: dict[Replica, str] = {}
    for broker, answer in answers.items():
        for tp in asked[broker]:
            held = answer.replicas.get(tp)
            current[Replica(tp, broker)] = None if held is None else held.path
            if held is not None and held.future is not None:
                future[Replica(tp, broker)] = held.future.path
    return ReplicaDirs(current, future)


async def known_dirs(
    reader: ClusterReader, replicas: Mapping[TopicPartition, Brokers], online: Collection[int]
) -> dict[Replica, str]:
    """Return the log dirs of replicas, as far as they are known."""
    every = [Replica(tp, broker) for tp, brokers in replicas.items() for broker in brokers]
    dirs = await read_dirs(reader, every, online)
    return {replica: path for replica, path in dirs.current.items() if path is not None}


class LogDirMoves:
    """Moves that a command begins.

    Args:
        writer: sends them.
        clock: time.
        timeout_s: seconds to wait until each has begun; at least one attempt is made.
    """

    def __init__(self, writer: ClusterWriter, clock: Clock, timeout_s: float) -> None:
        self._writer = writer
        self._clock = clock
        self._timeout_s = timeout_s

    async def begin(self, wanted: Mapping[Replica, str]) -> AsyncIterator[str]:
        """Begin moves, again and again while a broker does not host the replica yet.

        Yields:
            The lines to print, as moves begin.

        Raises:
            ReassignProblem: a broker has refused a move.
            ActionFailed: the time is over.
            ClusterError: a broker cannot be reached; nothing was sent to it.
        """
        pending, until_s = dict(wanted), self._clock.monotonic() + self._timeout_s
        while True:
            begun: dict[Replica, str] = {}
            refused = await self._ask(pending, begun)
            if begun:
                yield lines.log_dir_moves_started(begun)
            if refused is not None:
                raise ReassignProblem(refused)
            pending = {r: path for r, path in pending.items() if r not in begun}
            if not pending:
                return
            if self._clock.monotonic() >= until_s:
                raise ActionFailed(lines.log_dir_moves_timed_out(pending))
            await self._clock.sleep(_AGAIN_S)

    async def _ask(self, pending: Mapping[Replica, str], begun: dict[Replica, str]) -> str | None:
        """Ask for moves, and add those that have begun to `begun`; return the first refusal."""
        refused: list[str] = []
        for broker, tps in _by_broker(pending).items():
            paths = {tp: pending[Replica(tp, broker)] for tp in tps}
            for tp, result in (await self._writer.alter_log_dirs(broker, paths)).items():
                replica = Replica(tp, broker)
                if result.verdict is Verdict.ACCEPTED:
                    begun[replica] = paths[tp]
                elif result.verdict is Verdict.REFUSED and result.code not in _NOT_THERE_YET:
                    refused.append(_failed(replica, result))
        return next(iter(refused), None)


def _failed(replica: Replica, result: WriteResult) -> str:
    why = result.message or result.code or "no reason given"
    return f"{lines.log_dir_move_failed(replica)}: {why}"


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[TopicPartition]]:
    grouped: dict[int, list[TopicPartition]] = defaultdict(list)
    for replica in replicas:
        grouped[replica.broker].append(replica.tp)
    return grouped
