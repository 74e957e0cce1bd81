"""Looks at every throttle that is set in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from ktui.cli.throttles_found import BROKER_KEYS, Claim, Settings, Throttle, throttles_in
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader
from ktui.cluster.resources import of_broker, of_topic
from ktui.cluster.throttle_settings import REPLICAS, entries
from ktui.execution.ownership import Holder
from ktui.execution.run import Run
from ktui.execution.statedir import StateDir
from ktui.execution.throttle_standing import places, standing
from ktui.execution.throttled import Key, Ours
from ktui.execution.unfinished import unfinished_runs

Claims = Callable[[str], Sequence[Claim]]
"""Gives what the runs of a cluster, by its id, have set."""


class Look(msgspec.Struct, frozen=True):
    """What was found."""

    throttles: tuple[Throttle, ...]
    unread: tuple[str, ...] = ()
    """Whose settings could not be read, and why, as sentences."""
    moving: tuple[TopicPartition, ...] = ()
    """What was being reassigned."""


def claims_of(state: StateDir) -> Claims:
    """Give what the runs of a state directory claim."""

    def claims(cluster_id: str) -> list[Claim]:
        return [_claim(run, owner) for run, owner in unfinished_runs(state, cluster_id)]

    return claims


def _claim(run: Run, owner: Holder | None) -> Claim:
    """Give what a run needs: while it lives also what it found, and counts on."""
    if owner is None:
        left = {key: ours.values for key, ours in standing(run.throttled).items()}
        return Claim(run.name, live=False, ours=left)
    ours = {key: ours.values | _found(ours) for key, ours in run.throttled.ours.items()}
    return Claim(run.name, live=True, ours=ours)


def _found(ours: Ours) -> frozenset[str]:
    return entries("" if ours.before is None else ours.before.value)


async def look_at_throttles(
    reader: ClusterReader, cluster: ClusterDescription, topics: Collection[str], claims: Claims
) -> Look:
    """Tell all throttles, and who needs them.

    That is looked at last: nothing is taken for left behind that a move set just before.

    Raises:
        ClusterError: the reassignments cannot be listed.
        StateDirProblem: the runs cannot be listed.
    """
    brokers = sorted(cluster.online)
    settings, unread = await _read(reader, brokers, topics)
    moving = await reader.list_reassignments()
    found = throttles_in(settings, moving, claims(cluster.cluster_id))
    return Look(tuple(found), unread, tuple(sorted(moving)))


async def topic_names(reader: ClusterReader) -> tuple[frozenset[str], tuple[str, ...]]:
    """Name every topic that may be seen, and say what could not be.

    Raises:
        ClusterError: none can be.
    """
    names: set[str] = set()
    unread: list[str] = []
    async for page in reader.scan_topics():
        names |= {tp.topic for tp in page.partitions}
        unread += [failure.sentence for failure in page.failures]
    return frozenset(names), tuple(unread)


async def _read(
    reader: ClusterReader, brokers: Collection[int], topics: Collection[str]
) -> tuple[Settings, tuple[str, ...]]:
    resources = [
        *map(of_broker, brokers),
        *map(of_topic, topics),
    ]
    answer = await reader.settings(resources, (*BROKER_KEYS, *REPLICAS))
    alike: dict[str, list[Key]] = {}
    for resource, why in answer.failures.items():
        alike.setdefault(why, []).append((resource, ""))
    return answer.settings, tuple(f"{places(keys)}: {why}" for why, keys in alike.items())
