"""The way back from a run: what of it can be undone now, and what is left as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.fresh_read import FreshRead
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.execution.host.client import BegunRun
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.tool_plans import LeftAsIs, UndoPlan, undo_plan
from ktui.planning.names import join_some
from ktui.quantities import as_count

MOST_NAMED = 10
NOTHING_ELSE: Mapping[TopicPartition, Brokers] = MappingProxyType({})

SameCluster = Callable[[str, str], None]
"""Takes the id of the cluster that was read and that of the run's; raises RunRefused if not one."""


class Undo(msgspec.Struct, frozen=True):
    """What of a run is undone, and what is left as it is."""

    run: Run
    partitions: tuple[TopicPartition, ...]
    """Those that go back, or that do not begin after all."""
    left: tuple[LeftAsIs, ...]

    @property
    def lists(self) -> dict[TopicPartition, Brokers]:
        return {tp: self.run.tracks[tp].original for tp in self.partitions}

    @property
    def text(self) -> str:
        begun = sum(self.run.tracks[tp].begun for tp in self.partitions)
        rest = len(self.partitions) - begun
        words = f"undo run {self.run.name}: {as_count(begun, 'partition')} put back as before"
        return f"{words}, {rest:,} not begun" if rest else words

    def not_back(self, run: Run) -> list[TopicPartition]:
        """Return the partitions that are not as before."""
        back = (State.ROLLED_BACK, State.TOPIC_GONE)
        tracks = (run.tracks[tp] for tp in self.partitions)
        return [track.tp for track in tracks if track.begun and track.state not in back]


async def find_undo(
    reader: ClusterReader,
    clock: Clock,
    found: BegunRun,
    same_cluster: SameCluster,
    before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE,
) -> Undo:
    """Return what of a run can be undone now. Args, Raises: as `read_undo_plan`.

    Raises:
        RunRefused: also where the run was exported.
    """
    refuse_exported(found.run)
    plan = await read_undo_plan(reader, clock, found, same_cluster, before_that)
    tracks = found.run.tracks
    going = [tp for tp, track in tracks.items() if not track.state.ended]
    back = [target.tp for target in plan.plan.partitions]
    left = tuple(each for each in plan.left if tracks[each.tp].state.ended)
    return Undo(found.run, tuple(dict.fromkeys((*going, *back))), left)


async def read_undo_plan(
    reader: ClusterReader,
    clock: Clock,
    found: BegunRun,
    same_cluster: SameCluster,
    before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE,
) -> UndoPlan:
    """Read the partitions of a run, and return the plan that undoes it.

    Args:
        reader: reads the cluster.
        clock: the time.
        found: the run.
        same_cluster: checks that the cluster is the run's.
        before_that: replicas that another undo puts back before this one.

    Raises:
        RunRefused: the cluster is not the run's.
        ClusterError: the cluster cannot be read.
    """
    begun = [track.tp for track in found.run.tracks.values() if track.begun]
    seen = await FreshRead(reader, clock).read(begun)
    same_cluster(seen.cluster_id, found.begun.cluster_id)
    put_back = {
        tp: msgspec.structs.replace(state, replicas=before_that[tp], adding=(), removing=())
        for tp, state in seen.partitions.items()
        if tp in before_that
    }
    partitions = {**seen.partitions, **put_back}
    return undo_plan(found.run, msgspec.structs.replace(seen, partitions=partitions))


def left_as_is_lines(left: Sequence[LeftAsIs]) -> Iterator[str]:
    """Yield a line for each reason why partitions are not put back."""
    by_why: dict[str, list[str]] = {}
    for each in left:
        by_why.setdefault(each.why, []).append(str(each.tp))
    for why, names in by_why.items():
        yield f"left as it is: {join_some(names, most=MOST_NAMED)}: {why}"
