"""The way back from a run, and from a whole removal: its runs from the last to the first.

The cordon goes first where Kafka refuses lists that name a cordoned broker, else last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.fresh_read import FreshRead
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterReader
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import Cordoner
from ktui.execution.broker.removal import CordonMemory, Removal
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.tool_plans import LeftAsIs, UndoPlan, undo_plan
from ktui.ops.broker.removal import REFUSED, WAITS, RemovalRequest, Stopped
from ktui.ops.broker.runs import made_run
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
    """Read the partitions of a run, and return the plan that undoes it after another undo, if any.

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


class UndoRemoval:
    """One call of the undo of a removal, which goes on where an earlier one has ended.

    Args:
        request: what was asked for; its file is locked by the caller, unless it is previewed.
        removal: what its file remembers.

    Raises:
        RunRefused: the broker is unregistered.
    """

    def __init__(self, request: RemovalRequest, removal: Removal) -> None:
        if removal.unregistered_at is not None:
            raise RunRefused(
                f"nothing was sent: broker {request.broker} is unregistered, and that ends the way "
                "back. Start the broker, and it registers again. Then give it replicas: "
                f"ktui plan fill {request.broker}"
            )
        self._request = request
        self._broker = request.broker
        self._program = request.program
        self._file = request.file
        self._removal = removal
        self._complete = True

    def preview(self) -> Iterator[str]:
        """Yield what would be undone, in order."""
        cordon = self._removal.cordon
        words = "" if cordon is None else _change(cordon.value, cordon.before)
        if words and self._request.refuses:
            yield words
        lists: dict[TopicPartition, Brokers] = {}
        for name in reversed(self._removal.runs):
            if made_run(self._request.state, name) is None:
                if self._is_gone(name):
                    yield _gone_line(name)
                continue
            undo = self._find_undo(name, lists)
            lists |= undo.lists
            yield from left_as_is_lines(undo.left)
            yield undo.text
        if words and not self._request.refuses:
            yield words

    def go_on(self) -> bool:
        """Undo the removal, and return whether all is as before.

        Raises:
            Stopped: it goes no further now.
            RunRefused: something forbids the next part.
            RunProblem, ClusterError: something cannot be read or done.
        """
        if self._broker not in self._request.cluster.online:
            raise Stopped(
                WAITS,
                f"broker {self._broker} is down. Start it, and call this again: "
                f"{self._program.again} --undo",
            )
        if not self._removal.undoing:
            self._save(undoing=True)
        if self._request.refuses:
            self._undo_cordon()
            self._check_open()
        for name in reversed(self._removal.runs):
            self._undo_run(name)
            self._save(
                demotes=tuple(each for each in self._removal.demotes if each != name),
                drains=tuple(each for each in self._removal.drains if each != name),
            )
        self._undo_cordon()
        self._file.delete()
        return self._complete

    def _save(self, **changes: Any) -> None:
        self._removal = msgspec.structs.replace(self._removal, **changes)
        self._file.save(self._removal)

    def _undo_cordon(self) -> None:
        if (cordon := self._removal.cordon) is not None:
            self._request.act(lambda ports: self._restore(ports, cordon))
            self._save(cordon=None)

    def _check_open(self) -> None:
        """Check that no cordon is left under which Kafka refuses the way back."""
        request = self._request
        if request.cluster.refuses_cordoned and request.is_closed(request.read_cordon()):
            raise Stopped(
                WAITS,
                f"{REFUSED.format(self._broker)}. Lift the cordon: ktui broker uncordon "
                f"{self._broker}. Then call this again: {self._program.again} --undo",
            )

    def _undo_run(self, name: str) -> None:
        if made_run(self._request.state, name) is None:
            if self._is_gone(name):
                self._program.note(_gone_line(name))
                self._complete = False
            return
        undo = self._find_undo(name)
        for line in left_as_is_lines(undo.left):
            self._program.note(line)
        if undo.partitions:
            self._program.note(undo.text)
            code = self._program.cancel(name, CancelKind.ROLLBACK, undo.partitions)
            run = RunClient.find(self._request.state, name).read().run
            if not run.ended:
                raise Stopped(code)
            self._complete = self._complete and not undo.not_back(run)
        self._complete = self._complete and not undo.left

    def _find_undo(
        self, name: str, before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE
    ) -> Undo:
        found = RunClient.find(self._request.state, name).read_begun()
        clock, same_cluster = self._program.clock, self._program.same_cluster
        return self._request.act(
            lambda ports: find_undo(ports.reader, clock, found, same_cluster, before_that)
        )

    def _is_gone(self, name: str) -> bool:
        """Whether nothing is left of a run: it may have been begun, and then it is not undone."""
        return not self._request.state.run(name).path.exists()

    async def _restore(self, ports: ClusterPorts, cordon: CordonMemory) -> None:
        await self._program.check_owner(self._removal.cluster_id)
        cordoner = Cordoner(ports, self._broker, self._program.clock)
        now = (await cordoner.read()).setting.own
        if now == cordon.before:
            self._program.report("", f"{CORDONED} is as before: {_value(now)}")
        elif now != cordon.value:
            changed = f"{CORDONED} is {_value(now)}: somebody has changed it"
            self._program.note(f"left as it is: {changed}")
            self._complete = False
        else:
            await cordoner.restore(cordon.before)
            change = _change(now, cordon.before)
            self._program.report("", f"broker {self._broker}: {change}")


def _gone_line(name: str) -> str:
    return (
        f"run {name} is not there: it was never begun, or it was deleted since. Then what it has "
        "moved stays as it is"
    )


def _change(now: str | None, then: str | None) -> str:
    return f"{CORDONED}: {_value(now)} -> {_value(then)}"


def _value(own: str | None) -> str:
    return "not set" if own is None else clean(own) or "empty"
