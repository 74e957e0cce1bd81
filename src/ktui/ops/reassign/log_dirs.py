"""Moves between the log dirs of a broker (KIP-113), as --execute, --verify and --cancel ask."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from ktui.cluster.broker import ReplicaDir
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Means, Operation, means
from ktui.cluster.partition import Brokers, PartitionState, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterPorts,
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    LogDirsAnswer,
    Verdict,
)
from ktui.cluster.settings import LOG_DIR_RATE, broker_resource
from ktui.cluster.text import clean
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.state_dir import NoteFile, StateDir
from ktui.ops.reassign.tool import (
    MOVE_FAILED,
    MOVES_TIMED_OUT,
    ActionFailed,
    ReassignProblem,
    in_order,
    line,
    moves_started_text,
    name_of,
)
from ktui.planning.check.findings import call_each_broker
from ktui.planning.plan import join_all, join_named
from ktui.quantities import as_bytes

IGNORES_ROOM = "allow-full-log-dirs"
_MOST_LINES = 10
_AGAIN_S = 0.1
"""Kafka's answers of a broker that does not host the replica, and remembers the log dir for it."""


class ReplicaDirs(msgspec.Struct, frozen=True):
    """Where replicas are. Those of a broker that did not answer are left out."""

    current: Mapping[
        Replica, str | None
    ]  # None where no live log dir of the broker has the replica
    future: Mapping[Replica, str]


async def read_dirs(
    reader: ClusterReader, replicas: Iterable[Replica], online: Collection[int]
) -> ReplicaDirs:
    """Read the log dirs of replicas, from all their live brokers at once."""
    asked = {b: tps for b, tps in _by_broker(replicas).items() if b in online}
    calls = {broker: reader.log_dirs(broker, tps) for broker, tps in asked.items()}
    answers, _ = await call_each_broker(Operation.LOG_DIRS, calls)
    held = {Replica(tp, b): each.replicas.get(tp) for b, each in answers.items() for tp in asked[b]}
    current = {replica: None if each is None else each.path for replica, each in held.items()}
    future = {r: each.future.path for r, each in held.items() if each is not None and each.future}
    return ReplicaDirs(current, future)


async def known_dirs(
    reader: ClusterReader, replicas: Mapping[TopicPartition, Brokers], online: Collection[int]
) -> dict[Replica, str]:
    """Return the log dirs of replicas, as far as they are known."""
    every = [Replica(tp, broker) for tp, brokers in replicas.items() for broker in brokers]
    dirs = await read_dirs(reader, every, online)
    return {replica: path for replica, path in dirs.current.items() if path is not None}


async def begin_moves(
    writer: ClusterWriter, clock: Clock, wanted: Mapping[Replica, str], timeout_s: float
) -> AsyncIterator[str]:
    """Begin moves, again and again while a broker does not host the replica yet.

    At least one attempt is made. ClusterError: a broker cannot be reached; nothing was sent to it.
    """
    pending, until_s = dict(wanted), clock.monotonic() + timeout_s
    while True:
        begun: dict[Replica, str] = {}
        refused = ""
        for broker, tps in _by_broker(pending).items():
            paths = {tp: pending[Replica(tp, broker)] for tp in tps}
            for tp, result in (await writer.alter_log_dirs(broker, paths)).items():
                replica = Replica(tp, broker)
                if result.verdict is Verdict.ACCEPTED:
                    begun[replica] = paths[tp]
                elif result.verdict is Verdict.REFUSED and not means(result.code, Means.NOT_YET):
                    why = result.message or result.code or "no reason given"
                    refused = refused or f"{line(MOVE_FAILED, [replica])}: {why}"
        if begun:
            yield moves_started_text(begun)
        if refused:
            raise ReassignProblem(refused)
        pending = {r: path for r, path in pending.items() if r not in begun}
        if not pending:
            return
        if clock.monotonic() >= until_s:
            raise ActionFailed(line(MOVES_TIMED_OUT, pending))
        await clock.sleep(_AGAIN_S)


async def check_moves(
    reader: ClusterReader,
    wanted: Mapping[Replica, str],
    states: Mapping[TopicPartition, PartitionState],
    note: Callable[[str], None],
    *,
    full_dirs: bool = False,
    sent: str = "",
) -> None:
    """Check that moves have log dirs that work, and room there.

    Args:
        full_dirs: whether moves begin also where there is no room.
        sent: what goes on although no move is sent; empty before anything was sent.

    Raises:
        RunRefused: with all the reasons; none of the moves was sent.
    """
    seen = await _read_before_moves(reader, wanted, states)
    end = f"{sent}, and no replica was sent to a log dir" if sent else "Nothing was sent"
    if problems := [*seen.unusable()]:
        raise RunRefused(f"{_as_lines(problems)}\n{end}")
    if full_dirs:
        return
    for warning in () if sent else seen.unmeasured():
        note(warning)
    if problems := [*seen.without_room()]:
        raise RunRefused(
            f"{_as_lines(problems)}\n{end}: a full log dir takes all its replicas offline. Make "
            f"room, move fewer at a time, or ignore it with --{IGNORES_ROOM}"
        )


async def _read_before_moves(
    reader: ClusterReader,
    wanted: Mapping[Replica, str],
    states: Mapping[TopicPartition, PartitionState],
) -> _DirsSeen:
    """Read the log dirs of the brokers of replicas, from all of them at once."""
    calls = {broker: reader.log_dirs(broker, None) for broker in sorted({r.broker for r in wanted})}
    answers, failures = await call_each_broker(Operation.LOG_DIRS, calls)
    to_come = [each for each in wanted if each.broker not in states[each.tp].isr]
    leaders = ((states[each.tp].leader, each.tp) for each in to_come)
    led_by = _by_broker(Replica(tp, leader) for leader, tp in leaders if leader is not None)
    calls = {broker: reader.log_dirs(broker, tps) for broker, tps in led_by.items()}
    led, _ = await call_each_broker(Operation.LOG_DIRS, calls)
    sizes = {tp: size for answer in led.values() for tp, size in answer.sizes.items()}
    return _DirsSeen(
        wanted=wanted,
        answers=answers,
        failures=failures,
        states=states,
        to_come={each: sizes[each.tp] for each in to_come if each.tp in sizes},
    )


class _DirsSeen(msgspec.Struct, frozen=True, kw_only=True):
    wanted: Mapping[Replica, str]
    answers: Mapping[int, LogDirsAnswer]  # with all replicas of each broker that has answered
    failures: Collection[Failure]
    states: Mapping[TopicPartition, PartitionState]
    to_come: Mapping[Replica, int]  # the bytes of replicas that are not in sync, by their leaders

    def unusable(self) -> Iterator[str]:
        """Yield why replicas cannot leave log dirs, or go to others: failed or cordoned ones."""
        for replica, path, answer in self._answered():
            name, held = name_of(replica), answer.replicas.get(replica.tp)
            failed = {each.path: each.error for each in answer.log_dirs if each.error is not None}
            cordoned = {each.path for each in answer.log_dirs if each.cordoned}
            goes = None if held is None else held.path if held.future is None else held.future.path
            to = f"{name} cannot move to {path}: that log dir of broker {replica.broker}"
            if path in failed:
                yield f"{to} is offline ({failed[path]}). Repair its disk, or name another"
            elif held is not None and goes != path and path in cordoned:
                yield f"{to} is cordoned. Uncordon it (cordoned.log.dirs), or name another"
            elif failed and held is None and replica.broker in self.states[replica.tp].offline:
                dirs = join_all(f"{each} ({error})" for each, error in sorted(failed.items()))
                yield (
                    f"{name} cannot move: it is in an offline log dir of broker {replica.broker}: "
                    f"{dirs}. Repair its disk, or move the replica to another broker"
                )

    def without_room(self) -> Iterator[str]:
        rooms = {broker: _free_bytes(answer) for broker, answer in self.answers.items()}
        for replica, path, answer in self._answered():
            free, held = rooms[replica.broker], answer.replicas.get(replica.tp)
            needed = max(0 if held is None else held.size, self.to_come.get(replica, 0))
            if held is not None and held.path == path:
                needed = 0
            elif held is not None and held.future is not None and held.future.path == path:
                continue  # the room that it still needs is reserved
            if needed > free[path]:
                there = max(0, int(free[path]))
                yield (
                    f"{name_of(replica)} needs {as_bytes(needed)} in {clean(path)} of broker "
                    f"{replica.broker}, where {as_bytes(there)} are left "
                    f"({as_bytes(needed - there)} too few)"
                )
            if held is not None and held.future is not None:  # that move ends, and needs no more
                free[held.future.path] += _left_to_copy(held)
            free[path] -= needed

    def unmeasured(self) -> Iterator[str]:
        for failure in self.failures:
            yield f"{failure.sentence}: the room in its log dirs is not checked"
        mute = [
            broker
            for broker, answer in self.answers.items()
            if any(each.error is None and each.usable_bytes is None for each in answer.log_dirs)
        ]
        if mute:
            brokers = join_named("broker", sorted(mute))
            yield f"{brokers}: the room in log dirs is not checked, since the answers lack it"

    def _answered(self) -> Iterator[tuple[Replica, str, LogDirsAnswer]]:
        for each in in_order(self.wanted):
            if each.broker in self.answers:
                yield each, self.wanted[each], self.answers[each.broker]


def _free_bytes(answer: LogDirsAnswer) -> dict[str, float]:
    """Return the free bytes of log dirs, less what is still to come; infinite where not known."""
    free = defaultdict[str, float](lambda: math.inf)
    free |= {d.path: d.usable_bytes for d in answer.log_dirs if d.usable_bytes is not None}
    for held in answer.replicas.values():
        if held.future is not None:
            free[held.future.path] -= _left_to_copy(held)
    return free


def _left_to_copy(held: ReplicaDir) -> int:
    return 0 if held.future is None else max(0, held.size - held.future.size)


def _as_lines(problems: list[str]) -> str:
    """Join problems, a line each; the last line counts those that are left out."""
    rest = len(problems) - _MOST_LINES
    return "\n".join([*problems[:_MOST_LINES], *([f"and {rest:,} more"] if rest > 0 else [])])


def _by_broker(replicas: Iterable[Replica]) -> dict[int, list[TopicPartition]]:
    grouped: dict[int, list[TopicPartition]] = defaultdict(list)
    for replica in replicas:
        grouped[replica.broker].append(replica.tp)
    return grouped


class LogDirRate(msgspec.Struct, frozen=True):
    """A broker's rate: what we have set, and what it was before."""

    values: tuple[str, ...]
    """Ours: the last one, and the one before it, as the last may not have arrived."""
    before: str | None  # None where none was set on the broker itself


class LogDirThrottle:
    """The rates of one cluster, noted in a file of the state directory."""

    def __init__(self, state: StateDir, cluster_id: str) -> None:
        self._path = path = state.cluster_note("log-dir-rates", cluster_id)
        kind = dict[int, LogDirRate]
        self._file = NoteFile[dict[int, LogDirRate]](state, path, kind, self._problem)

    @property
    def set_on(self) -> dict[int, LogDirRate]:
        try:
            return self._file.load() or {}
        except msgspec.DecodeError:
            raise RunProblem(
                f"{self._path}: is damaged. Remove it, and the rates that it should name: "
                "ktui doctor --clear-throttles"
            ) from None

    async def set(self, ports: ClusterPorts, brokers: Collection[int], rate: int) -> None:
        """Set the rate of brokers, and remember their own. RunProblem, ClusterError: not sent."""
        resources = {broker: broker_resource(broker) for broker in brokers}
        now = await ports.reader.settings(resources.values(), [LOG_DIR_RATE])
        for resource, why in now.failures.items():
            raise ReassignProblem(f"{resource.scope} {resource.name}: {why}")
        ours = self.set_on
        for broker, resource in resources.items():
            setting = now.settings[resource].get(LOG_DIR_RATE)
            own, mine = None if setting is None else setting.own, ours.get(broker)
            if mine is None or own is None or own not in mine.values:
                ours[broker] = LogDirRate((str(rate),), own)
            else:
                ours[broker] = LogDirRate((own, str(rate)), mine.before)
        self._file.save(ours)
        await _alter(ports.writer, dict.fromkeys(brokers, str(rate)))

    async def put_back(self, ports: ClusterPorts) -> list[int]:
        """Put back the rates that are still ours; return their brokers. Raises ClusterError."""
        if not (ours := self.set_on):
            return []
        now = (await ports.reader.settings([*map(broker_resource, ours)], [LOG_DIR_RATE])).settings
        own = {  # without the brokers that are down
            broker: None if setting is None else setting.own
            for broker in ours
            if (settings := now.get(broker_resource(broker))) is not None
            for setting in (settings.get(LOG_DIR_RATE),)
        }
        going = {b: ours[b].before for b, value in own.items() if value in ours[b].values}
        await _alter(ports.writer, going)
        self._file.save({broker: rate for broker, rate in ours.items() if broker not in own})
        return sorted(going)

    def _problem(self, what: str) -> RunProblem:
        return RunProblem(f"{self._path}: cannot be {what}")


async def _alter(writer: ClusterWriter, rates: Mapping[int, str | None]) -> None:
    """Set the rates of brokers; None deletes one."""
    changes = []
    for broker, rate in rates.items():
        op = ConfigOp.DELETE if rate is None else ConfigOp.SET
        changes.append(ConfigChange(broker_resource(broker), LOG_DIR_RATE, op, rate))
    results = await writer.alter_configs(changes) if changes else {}
    for resource, result in results.items():
        if result.verdict is not Verdict.ACCEPTED:
            raise ReassignProblem(f"broker {resource.name}: {result.message or result.code}")
