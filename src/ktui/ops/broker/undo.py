"""What a removal would do, sending nothing, and the way back from a run or from a whole removal.

The cordon goes first where Kafka refuses lists that name a cordoned broker, else last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ktui.cluster.asking import FreshRead
from ktui.cluster.clock import Clock
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterReader
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution import RunRefused
from ktui.execution.broker.cordon import Cordoner, NoCordon
from ktui.execution.broker.removal import CordonMemory, Removal
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.plans import LeftAsIs, UndoPlan, undo_plan
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.ops.broker.removal import REFUSED, WAITS, RemovalRequest, RemovalStage, Stopped, place
from ktui.ops.broker.runs import DEMOTE, DRAIN, Purpose, left_text, made_run, plan_text
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, Wishes
from ktui.planning.plan import join_some
from ktui.preview.text import finding_text, time_text
from ktui.quantities import as_count

Line = tuple[RemovalStage | None, str]  # without a stage, a finding about the run before


class RemovalPreview:
    """What a removal would do from here."""

    def __init__(self, request: RemovalRequest) -> None:
        self._request = request
        self._broker = request.broker
        self._options = request.options
        self._removal = request.standing
        self._is_up = request.broker in request.cluster.online
        self._order = request.order(None)
        self._closed = False  # Kafka refuses lists that name the broker now
        self._stays = 0  # replicas that the last run shown would leave on the broker
        self.problems = False  # a stage could not begin; known once all lines were read

    def lines(self) -> Iterator[str]:
        for stage, words in self._lines():
            yield words if stage is None else clean(f"{place(stage, self._order)}: {words}")

    def _lines(self) -> Iterator[Line]:
        cordon = self._cordon()
        layout = self._request.layout()
        removal = self._removal
        demotes, drains = ((), ()) if removal is None else (removal.demotes, removal.drains)
        for stage in self._order:
            if stage is RemovalStage.CORDON:
                yield stage, cordon
            elif stage is RemovalStage.DRAIN:
                yield from self._run(stage, DRAIN, layout, drains)
            elif stage is RemovalStage.DEMOTE:
                if not self._options.demote or not self._is_up or drains:
                    yield stage, "left out"
                elif self._closed:
                    yield stage, f"left out: {REFUSED.format(self._broker)}"
                else:
                    yield from self._run(stage, DEMOTE, layout, demotes)
        if stays := self._stays:
            replicas = as_count(stays, "replica")
            verb = "stays" if stays == 1 else "stay"
            words = (
                f"not reached while {replicas} {verb}, as said above: the removal then waits for "
                "you, with exit code 3, and goes on below once that is mended"
            )
            yield RemovalStage.EMPTY, words
        else:
            of_disks = " and by its own log dirs" if self._is_up else ""
            yield (
                RemovalStage.EMPTY,
                f"to be proven by metadata that is known to be current{of_disks}",
            )
        yield RemovalStage.STOP, "you stop it" if self._is_up else "it is down"
        asked = "" if self._options.unregister else ", once you type its id or give --unregister"
        yield RemovalStage.UNREGISTER, f"the cluster forgets broker {self._broker}{asked}"

    def _on_broker(self, layout: Layout) -> int:
        """What a plan has to take away: canaries need none."""
        wishes = Wishes(exclude=self._options.exclude)
        return sum(
            self._broker in state.target and wishes.includes(tp.topic)
            for tp, state in layout.partitions.items()
        )

    def _cordon(self) -> str:
        if not self._is_up:
            return "not possible: the broker is down" if self._options.cordon else "left out"
        try:
            now = self._request.read_cordon()
        except NoCordon as refused:
            self.problems = True
            return str(refused)
        self._order = self._request.order(now)
        self._closed = self._request.is_closed(now)
        if now is None or not self._options.cordon:
            return "left out"
        value = now.with_cordons(())
        if now.has(value):
            return f"{CORDONED} is {now.value} already"
        straight = self._request.refuses and self._options.cordon_first
        then = "; from then on each partition goes straight to its target" if straight else ""
        return f"{CORDONED}: {now.value} -> {value}{then}"

    def _run(
        self, stage: RemovalStage, purpose: Purpose, layout: Layout, names: tuple[str, ...]
    ) -> Iterator[Line]:
        self._stays = 0
        for name in names:
            run = made_run(self._request.state, name)
            if run is not None and not run.ended:
                yield stage, f"goes on: {progress_line(run_progress(run))}"
                return
        broker = self._broker
        try:
            made = self._request.make(purpose, layout)
        except CannotMake as nothing:
            self._stays = self._on_broker(layout)
            yield stage, f"{'' if self._stays else 'nothing to do: '}{nothing}"
            return
        gone = sum(broker not in each.replicas for each in made.plan.partitions)
        self._stays = self._on_broker(layout) - gone
        for line in left_text(made):
            yield stage, line
        if not made.plan.partitions:
            return
        words = purpose.words_in_removal(broker)
        preview = self._request.preview_run(purpose.run_name(broker), words, made.plan)
        yield stage, f"{plan_text(made)}; {time_text(preview)}"
        self.problems = self.problems or bool(preview.problems)
        for finding in preview.findings:
            yield None, f"{words}: {finding_text(finding)}"


MOST_NAMED = 10
NOTHING_ELSE: Mapping[TopicPartition, Brokers] = MappingProxyType({})

SameCluster = Callable[[str, str], None]  # RunRefused unless read and run agree


class RunUndo(msgspec.Struct, frozen=True):
    """What of a run is undone, and what is left as it is."""

    run: Run
    partitions: tuple[TopicPartition, ...]  # those that go back, or that do not begin after all
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
        back = (State.ROLLED_BACK, State.TOPIC_GONE)
        tracks = (run.tracks[tp] for tp in self.partitions)
        return [track.tp for track in tracks if track.begun and track.state not in back]


async def find_undo(
    reader: ClusterReader,
    clock: Clock,
    found: BegunRun,
    same_cluster: SameCluster,
    before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE,
) -> RunUndo:
    """Return what of a run can be undone. Raises: as `read_undo_plan`; RunRefused: exported."""
    refuse_exported(found.run)
    plan = await read_undo_plan(reader, clock, found, same_cluster, before_that)
    tracks = found.run.tracks
    going = [tp for tp, track in tracks.items() if not track.state.ended]
    back = [target.tp for target in plan.plan.partitions]
    left = tuple(each for each in plan.left if tracks[each.tp].state.ended)
    return RunUndo(found.run, tuple(dict.fromkeys((*going, *back))), left)


async def read_undo_plan(
    reader: ClusterReader,
    clock: Clock,
    found: BegunRun,
    same_cluster: SameCluster,
    before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE,
) -> UndoPlan:
    """Return the plan that undoes a run, after another undo. RunRefused: not its cluster."""
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


def roll_back(
    undo: RunUndo,
    state: StateDir,
    cancel: Callable[[str, CancelKind, Collection[TopicPartition]], int],
) -> bool:
    """Roll a run back; return whether all is as before. Raises Stopped: left early."""
    code = cancel(undo.run.name, CancelKind.ROLLBACK, undo.partitions)
    run = RunClient.find(state, undo.run.name).read().run
    if not run.ended:
        raise Stopped(code)
    return not undo.not_back(run)


def left_as_is_lines(left: Sequence[LeftAsIs]) -> Iterator[str]:
    """Yield a line for each reason why partitions are not put back."""
    by_why: dict[str, list[str]] = {}
    for each in left:
        by_why.setdefault(each.why, []).append(str(each.tp))
    for why, names in by_why.items():
        yield f"left as it is: {join_some(names, most=MOST_NAMED)}: {why}"


class UndoRemoval:
    """An undo, going on with an earlier one. RunRefused: the broker is unregistered."""

    def __init__(self, request: RemovalRequest, removal: Removal) -> None:
        if removal.unregistered_at is not None:
            raise RunRefused(
                f"nothing was sent: broker {request.broker} is unregistered, and that ends the way "
                "back. Start the broker, and it registers again. Then give it replicas: "
                f"ktui plan fill {request.broker}"
            )
        self._request = request
        self._broker = request.broker
        self._file = request.file
        self._removal = removal
        self._complete = True

    def preview(self) -> Iterator[str]:
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
        """Return whether all is as before. Raises Stopped, RunRefused, RunProblem, ClusterError."""
        if self._broker not in self._request.cluster.online:
            raise Stopped(
                WAITS,
                f"broker {self._broker} is down. Start it, and call this again: "
                f"{self._request.again} --undo",
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
        """No cordon may be left under which Kafka refuses the way back."""
        request = self._request
        if request.cluster.refuses_cordoned and request.is_closed(request.read_cordon()):
            raise Stopped(
                WAITS,
                f"{REFUSED.format(self._broker)}. Lift the cordon: ktui broker uncordon "
                f"{self._broker}. Then call this again: {self._request.again} --undo",
            )

    def _undo_run(self, name: str) -> None:
        if made_run(self._request.state, name) is None:
            if self._is_gone(name):
                self._request.note(_gone_line(name))
                self._complete = False
            return
        undo = self._find_undo(name)
        for line in left_as_is_lines(undo.left):
            self._request.note(line)
        if undo.partitions:
            self._request.note(undo.text)
            back = roll_back(undo, self._request.state, self._request.cancel)
            self._complete = self._complete and back
        self._complete = self._complete and not undo.left

    def _find_undo(
        self, name: str, before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE
    ) -> RunUndo:
        found = RunClient.find(self._request.state, name).read_begun()
        clock, same_cluster = self._request.clock, self._request.same_cluster
        return self._request.act(
            lambda ports: find_undo(ports.reader, clock, found, same_cluster, before_that)
        )

    def _is_gone(self, name: str) -> bool:
        """A run may have been begun, and then it is not undone: whether nothing is left of it."""
        return not self._request.state.run(name).path.exists()

    async def _restore(self, ports: ClusterPorts, cordon: CordonMemory) -> None:
        await self._request.check_owner(self._removal.cluster_id)
        cordoner = Cordoner(ports, self._broker, self._request.clock)
        now = (await cordoner.read()).setting.own
        if now == cordon.before:
            self._request.report("", f"{CORDONED} is as before: {_value(now)}")
        elif now != cordon.value:
            changed = f"{CORDONED} is {_value(now)}: somebody has changed it"
            self._request.note(f"left as it is: {changed}")
            self._complete = False
        else:
            await cordoner.restore(cordon.before)
            change = _change(now, cordon.before)
            self._request.report("", f"broker {self._broker}: {change}")


def _gone_line(name: str) -> str:
    return (
        f"run {name} is not there: it was never begun, or it was deleted since. Then what it has "
        "moved stays as it is"
    )


def _change(now: str | None, then: str | None) -> str:
    return f"{CORDONED}: {_value(now)} -> {_value(then)}"


def _value(own: str | None) -> str:
    return "not set" if own is None else clean(own) or "empty"
