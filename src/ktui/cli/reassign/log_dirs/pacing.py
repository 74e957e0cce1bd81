"""Which moves between log dirs may begin now: pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ktui.cli.reassign.log_dirs.room import DirRoom, Shortage, working_dirs
from ktui.cli.reassign.printed.java_order import sorted_replicas
from ktui.cluster.broker import ReplicaDir
from ktui.cluster.partition import Replica
from ktui.cluster.ports import LogDirsAnswer


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How many moves between log dirs may be under way."""

    per_dir: int | None = None
    """The most replicas that move into or out of one log dir at a time; None for no limit."""
    one_broker: bool = False
    """Whether a broker's moves are all complete before the next broker's begin."""
    full_dirs: bool = False
    """Whether moves begin also where there is no room."""

    @property
    def is_asked_for(self) -> bool:
        """Whether moves are paced at all."""
        return self.per_dir is not None or self.one_broker


class Standing(enum.Enum):
    """How a replica stands to the log dir that it is wanted in."""

    ABSENT = enum.auto()
    """Its broker has it in no working log dir."""
    WAITING = enum.auto()
    """It is elsewhere, and does not move there."""
    UNDER_WAY = enum.auto()
    COMPLETE = enum.auto()


class Decision(msgspec.Struct, frozen=True):
    """What may begin now."""

    begin: tuple[Replica, ...]
    """In the order of brokers, topics and partitions."""
    short: Mapping[Replica, Shortage]
    """The moves whose turn it is, and for which there is no room."""
    turn: frozenset[int]
    """The brokers whose turn it is."""


def standing(held: ReplicaDir | None, path: str) -> Standing:
    """Return how a replica stands to a log dir.

    Args:
        held: where its broker has it; None if in no working log dir.
        path: the log dir.
    """
    if held is None:
        return Standing.ABSENT
    if held.future is not None:
        return Standing.UNDER_WAY if held.future.path == path else Standing.WAITING
    return Standing.COMPLETE if held.path == path else Standing.WAITING


def moves_to_begin(
    wanted: Mapping[Replica, str], answers: Mapping[int, LogDirsAnswer], pace: Pace
) -> Decision:
    """Decide which moves begin now, as many as the pace and the room allow.

    Moves under way count, whoever started them. Moves without room are skipped.

    Args:
        wanted: the log dirs of the replicas that are not complete yet.
        answers: the log dirs of brokers, with all of their replicas.
        pace: the limits.
    """
    turn = _turn(wanted, answers) if pace.one_broker else frozenset(r.broker for r in wanted)
    begin: list[Replica] = []
    short: dict[Replica, Shortage] = {}
    loads = {broker: _Load(answers[broker], pace) for broker in turn if broker in answers}
    for replica in sorted_replicas(r for r in wanted if r.broker in loads):
        load, path = loads[replica.broker], wanted[replica]
        held = answers[replica.broker].replicas.get(replica.tp)
        if held is None or standing(held, path) is not Standing.WAITING:
            continue
        if (lack := load.shortage(held, path)) is not None:
            short[replica] = lack
        elif load.takes(held, path):
            load.begin(held, path)
            begin.append(replica)
    return Decision(tuple(begin), short, turn)


def brokers_of(replicas: Iterable[Replica]) -> list[int]:
    """Return the brokers of replicas, by id."""
    return sorted({replica.broker for replica in replicas})


def _turn(wanted: Mapping[Replica, str], answers: Mapping[int, LogDirsAnswer]) -> frozenset[int]:
    """Return the one broker whose turn it is.

    None has it while moves on several are under way, or one has not answered yet.
    """
    brokers = brokers_of(wanted)
    if any(broker not in answers for broker in brokers):
        return frozenset()
    busy = {r.broker for r, path in wanted.items() if _is_under_way(r, path, answers)}
    if len(busy) > 1:
        return frozenset()
    return frozenset(busy or brokers[:1])


def _is_under_way(replica: Replica, path: str, answers: Mapping[int, LogDirsAnswer]) -> bool:
    answer = answers.get(replica.broker)
    held = None if answer is None else answer.replicas.get(replica.tp)
    return standing(held, path) is Standing.UNDER_WAY


class _Load:
    """What one broker's log dirs bear, with the moves that begin now."""

    def __init__(self, answer: LogDirsAnswer, pace: Pace) -> None:
        self._pace = pace
        self._working = {each.path for each in working_dirs(answer)}
        self._room = DirRoom(answer)
        self._busy: Counter[str] = Counter()
        for held in answer.replicas.values():
            self._busy.update(_touched(held))

    def shortage(self, held: ReplicaDir, path: str) -> Shortage | None:
        """Return what lacks for a move; nothing if it only ends another one."""
        if self._pace.full_dirs or path == held.path:
            return None
        return self._room.shortage(path, held.size)

    def takes(self, held: ReplicaDir, path: str) -> bool:
        """Whether a move fits into the pace; ending another one always does."""
        if path == held.path:
            return True
        most, own = self._pace.per_dir, Counter(_touched(held))
        if path not in self._working:
            return False
        return most is None or all(self._busy[d] - own[d] < most for d in (held.path, path))

    def begin(self, held: ReplicaDir, path: str) -> None:
        """Count a move in, in place of the replica's present one."""
        self._busy.subtract(_touched(held))
        if path != held.path:
            self._busy.update((held.path, path))
        self._room.begin(held, path, 0 if path == held.path else held.size)


def _touched(held: ReplicaDir) -> tuple[str, ...]:
    """Return the log dirs out of which and into which a replica moves."""
    return () if held.future is None else (held.path, held.future.path)
