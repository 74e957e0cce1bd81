"""What speaks against moves between log dirs, before they are sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ktui.cli.reassign.log_dirs.pacing import Standing, brokers_of, standing
from ktui.cli.reassign.log_dirs.room import DirRoom, Shortage, offline_dirs
from ktui.cli.reassign.printed.java_order import sorted_replicas
from ktui.cli.reassign.printed.lines import replica_name
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ClusterReader, LogDirsAnswer
from ktui.cluster.text import clean
from ktui.planning.check.ask_brokers import call_each_broker
from ktui.planning.names import join_all, join_named
from ktui.quantities import as_bytes

IGNORES_ROOM = "--allow-full-log-dirs"
"""The option that lets moves begin without room."""
_MOST_LINES = 10


class DirsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The log dirs of brokers, as they are before moves are sent."""

    answers: Mapping[int, LogDirsAnswer]
    """With all replicas of each broker that has answered."""
    failures: Collection[Failure]
    states: Mapping[TopicPartition, PartitionState]
    to_come: Mapping[Replica, int]
    """The bytes of replicas that are not in sync yet: those of their leaders."""


async def read_before_moves(
    reader: ClusterReader,
    wanted: Collection[Replica],
    states: Mapping[TopicPartition, PartitionState],
) -> DirsSeen:
    """Read the log dirs of the brokers of replicas, from all of them at once.

    Args:
        reader: the cluster.
        wanted: the replicas that are to move.
        states: their partitions.
    """
    answers, failures = await call_each_broker(
        Operation.LOG_DIRS, {broker: reader.log_dirs(broker, None) for broker in brokers_of(wanted)}
    )
    to_come = [each for each in wanted if each.broker not in states[each.tp].isr]
    leaders: dict[int, list[TopicPartition]] = {}
    for replica in to_come:
        if (leader := states[replica.tp].leader) is not None:
            leaders.setdefault(leader, []).append(replica.tp)
    calls = {broker: reader.log_dirs(broker, tps) for broker, tps in leaders.items()}
    led, _ = await call_each_broker(Operation.LOG_DIRS, calls)
    sizes = {tp: size for answer in led.values() for tp, size in answer.sizes.items()}
    return DirsSeen(
        answers=answers,
        failures=failures,
        states=states,
        to_come={each: sizes[each.tp] for each in to_come if each.tp in sizes},
    )


def dir_problems(wanted: Mapping[Replica, str], seen: DirsSeen) -> list[str]:
    """Return why replicas cannot leave their log dirs, or go to others: failed or cordoned ones."""
    found = (_unusable(replica, wanted, seen) for replica in _answered(wanted, seen))
    return [problem for problem in found if problem is not None]


def unknown_dir_problems(wanted: Mapping[Replica, str], seen: DirsSeen) -> list[str]:
    """Return which log dirs do not exist, with those that do."""
    problems = []
    for replica in _answered(wanted, seen):
        paths = [each.path for each in seen.answers[replica.broker].log_dirs]
        if wanted[replica] not in paths:
            problems.append(
                f"{replica_name(replica)} cannot move to {clean(wanted[replica])}: broker "
                f"{replica.broker} has no such log dir. It has {join_all(sorted(paths))}"
            )
    return problems


def room_problems(wanted: Mapping[Replica, str], seen: DirsSeen) -> list[str]:
    """Return which log dirs have no room for the replicas that are to move there all at once."""
    problems = []
    rooms = {broker: DirRoom(answer) for broker, answer in seen.answers.items()}
    for replica in _answered(wanted, seen):
        path, room = wanted[replica], rooms[replica.broker]
        held = seen.answers[replica.broker].replicas.get(replica.tp)
        needed = max(0 if held is None else held.size, seen.to_come.get(replica, 0))
        if held is not None and held.path == path:
            needed = 0
        elif standing(held, path) is Standing.UNDER_WAY:
            continue  # the room that it still needs is reserved
        if (lack := room.shortage(path, needed)) is not None:
            problems.append(f"{replica_name(replica)} {shortage_text(replica.broker, lack)}")
        room.begin(held, path, needed)
    return problems


def unmeasured(seen: DirsSeen) -> str | None:
    """Return a sentence about the brokers whose room is not known; None if it is known."""
    mute = [
        broker
        for broker, answer in seen.answers.items()
        if any(each.error is None and each.usable_bytes is None for each in answer.log_dirs)
    ]
    if not mute:
        return None
    return (
        f"{join_named('broker', sorted(mute))}: the room in log dirs is not checked, since the "
        "answers lack it"
    )


def shortage_text(broker: int, lack: Shortage) -> str:
    """Format the room that a replica lacks, to follow its name."""
    return (
        f"needs {as_bytes(lack.needed)} in {clean(lack.path)} of broker {broker}, where "
        f"{as_bytes(lack.there)} are left ({as_bytes(lack.needed - lack.there)} too few)"
    )


def as_lines(problems: list[str]) -> str:
    """Join problems, a line each; the last line counts those that are left out."""
    rest = len(problems) - _MOST_LINES
    return "\n".join([*problems[:_MOST_LINES], *([f"and {rest:,} more"] if rest > 0 else [])])


def _answered(wanted: Mapping[Replica, str], seen: DirsSeen) -> Iterator[Replica]:
    """Yield the replicas whose brokers have answered, in their order."""
    yield from (each for each in sorted_replicas(wanted) if each.broker in seen.answers)


def _unusable(replica: Replica, wanted: Mapping[Replica, str], seen: DirsSeen) -> str | None:
    answer, path = seen.answers[replica.broker], wanted[replica]
    failed, state = offline_dirs(answer), seen.states[replica.tp]
    if path in failed:
        return (
            f"{replica_name(replica)} cannot move to {path}: that log dir of broker "
            f"{replica.broker} is offline ({failed[path]}). Repair its disk, or name another"
        )
    cordoned = {each.path for each in answer.log_dirs if each.cordoned}
    if path in cordoned and standing(answer.replicas.get(replica.tp), path) is Standing.WAITING:
        return (
            f"{replica_name(replica)} cannot move to {path}: that log dir of broker "
            f"{replica.broker} is cordoned. Uncordon it (cordoned.log.dirs), or name another"
        )
    if failed and replica.tp not in answer.replicas and replica.broker in state.offline:
        dirs = join_all(f"{each} ({error})" for each, error in sorted(failed.items()))
        return (
            f"{replica_name(replica)} cannot move: it is in an offline log dir of broker "
            f"{replica.broker}: {dirs}. Repair its disk, or move the replica to another broker"
        )
    return None
