"""The removal of a broker: its stages, each begun only where it does not hold already."""

from __future__ import annotations

import asyncio
import enum
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from ktui.cluster.broker import all_cordoned
from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterPorts
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.broker.cordon import Cordoner, CordonState, NoCordon
from ktui.execution.broker.removal import CordonMemory, Removal, RemovalFile
from ktui.execution.broker.status import BrokerStatus, Stay, but_for, held_line, why_unknown
from ktui.execution.broker.unregister import NotRegistered, kept_text, unregister_for_good
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.states import CancelKind, State
from ktui.ops.broker.runs import (
    DEMOTE,
    DRAIN,
    Purpose,
    free_run_name,
    left_text,
    made_run,
    make,
    plan_text,
    read_plan_layout,
    read_status,
    runs_on,
)
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.made_plan import CannotMake, MadePlan
from ktui.planning.plan import Plan, join_named, join_some
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_count

WAITS = 3  # the code of a removal that waits for the operator
SETTLES_S = 15.0  # disks may be behind the metadata by this, and that behind a broker that has died
POLL_S = 2.0
QUIET_S = 10.0  # a broker is watched between its drain and its stop
RETURNS_WITHIN_S = 30.0  # the same, if something has come back before
MOST_RETURNS = 2  # how often a partition may come back before it is left to the operator
PROVEN_EVERY_S = 10.0  # between two proofs of emptiness while the broker is waited for
_OVER = (State.DONE, State.TOPIC_GONE)

T = TypeVar("T")


class RemovalStage(enum.StrEnum):
    """A stage of a removal."""

    CORDON = "cordon"
    DEMOTE = "demote"
    DRAIN = "drain"
    EMPTY = "empty"
    STOP = "stop"
    UNREGISTER = "unregister"


REFUSED = "broker {} is cordoned, and this Kafka refuses every list of replicas that names it"
_CORDON_FIRST = (RemovalStage.CORDON, RemovalStage.DEMOTE, RemovalStage.DRAIN)
_DEMOTE_FIRST = (RemovalStage.DEMOTE, RemovalStage.CORDON, RemovalStage.DRAIN)
_CORDON_LAST = (RemovalStage.DEMOTE, RemovalStage.DRAIN, RemovalStage.CORDON)
_TO_THE_END = (RemovalStage.EMPTY, RemovalStage.STOP, RemovalStage.UNREGISTER)


class Stopped(Exception):
    """The removal goes no further: `WAITS` or a run's code, and why, unless reported before."""

    def __init__(self, code: int, words: str = "") -> None:
        self.code = code
        super().__init__(words)


class RemoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a removal does, beside how its runs go."""

    demote: bool = True
    cordon: bool = True
    cordon_first: bool = False  # also where Kafka then refuses lists with the broker
    rack_aware: bool | None = None  # None: where all brokers have racks
    exclude: tuple[str, ...] = ()  # topics that stay, as names or shell patterns
    until_empty: bool = False
    unregister: bool = False


def is_cordoned(cordon: CordonState | None) -> bool:
    """Return whether a broker takes no new replica."""
    return cordon is not None and all_cordoned(cordon.log_dirs)


class RemovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, the cluster at that moment, and what acts on it.

    What acts raises RunRefused where the cluster is another one, or is owned by others. Runs are
    followed to their ends, and their codes returned.
    """

    broker: int
    options: RemoveOptions
    state: StateDir
    file: RemovalFile
    cluster: ClusterDescription  # read for this call
    clock: Clock
    again: str  # the command that goes on with the removal
    attended: bool  # somebody is there to stop the broker while the removal waits
    ports: Callable[[], AbstractAsyncContextManager[ClusterPorts]]
    same_cluster: Callable[[str, str], None]  # by the id that was found, and that of a run
    check_owner: Callable[[str], Awaitable[None]]
    owned: Callable[[str], AbstractContextManager[None]]  # owns the cluster within a block
    preview_run: Callable[[str, str, Plan], PlanPreview]
    begin_run: Callable[[str, str, Plan], int]  # unless nothing is to do any more
    go_on: Callable[[str], int]
    cancel: Callable[[str, CancelKind, Collection[TopicPartition]], int]
    confirm_unregister: Callable[[], None]  # Stopped unless the operator wants that
    report: Callable[[str, str], None]  # what came of a stage, or of the way back
    note: Callable[[str], None]

    @property
    def refuses(self) -> bool:
        """Whether lists may not name a cordoned broker, or perhaps not: from Kafka 4.4 on."""
        return self.cluster.refuses_cordoned is not False

    def order(self, cordon: CordonState | None) -> tuple[RemovalStage, ...]:
        """Return the stages in their order.

        Where Kafka refuses lists that name a cordoned broker, the cordon comes last by default: all
        old replicas then stay until the new ones are in sync. After a cordon, each partition goes
        straight to its target, without the one on the broker from the start.
        """
        if not self.refuses:
            first = _CORDON_FIRST
        elif self.options.cordon_first or is_cordoned(cordon):
            first = _DEMOTE_FIRST
        else:
            first = _CORDON_LAST
        return (*first, *_TO_THE_END)

    def read_cordon(self) -> CordonState | None:
        """None if not asked for, and unknown. Raises NoCordon, RunProblem, ClusterError."""
        if not (self.options.cordon or self.refuses):
            return None
        try:
            return self.act(lambda ports: Cordoner(ports, self.broker, self.clock).read())
        except (RunProblem, ClusterError) as problem:
            if not self.options.cordon:
                return None
            if not isinstance(problem, NoCordon):
                raise
            instead = f"{self.again} --skip-cordon"
            raise NoCordon(f"{problem}. To drain again and again instead: {instead}") from None

    def is_closed(self, cordon: CordonState | None) -> bool:
        return self.refuses and is_cordoned(cordon)

    @property
    def standing(self) -> Removal | None:
        """None if the id was given again."""
        removal = self.file.load()
        if removal is None or removal.unregistered_at is None:
            return removal
        return None if self.broker in self.cluster.brokers else removal

    def act(self, what: Callable[[ClusterPorts], Awaitable[T]]) -> T:

        async def acted() -> T:
            async with self.ports() as ports:
                return await what(ports)

        return asyncio.run(acted())

    def layout(self) -> Layout:
        return self.act(lambda ports: read_plan_layout(ports.reader, self.note))

    def make(self, purpose: Purpose, layout: Layout) -> MadePlan:
        options = self.options
        racks, exclude = options.rack_aware, options.exclude
        return make(purpose, self.broker, layout, rack_aware=racks, exclude=exclude)

    def unfinished(self, names: Collection[str]) -> str | None:
        for name in names:
            run = made_run(self.state, name)
            if run is not None and not run.ended:
                return name
        return None


def place(stage: RemovalStage, order: Sequence[RemovalStage]) -> str:
    """Return a stage with its number in an order, as in "3/6 drain"."""
    return f"{order.index(stage) + 1}/{len(order)} {stage}"


class Removing:
    """One call of a removal, which goes on from what is really there.

    The file has what neither the cluster nor the runs say, and has it before anything is sent.
    """

    def __init__(self, request: RemovalRequest) -> None:
        self._request = request
        self._broker = request.broker
        self._options = request.options
        self._file = request.file
        self._cluster = request.cluster
        self._order = request.order(None)
        self._removal = request.standing or Removal(
            cluster_id=request.cluster.cluster_id,
            broker=request.broker,
            begun_at=request.clock.now(),
        )

    def go_on(self) -> None:
        """Raises Stopped, RunRefused by the next stage, RunProblem or ClusterError."""
        cordon = self._request.read_cordon() if self._is_up else None
        self._order = self._request.order(cordon)
        for stage in self._order:
            if stage is RemovalStage.CORDON:
                self._set_cordon()
            elif stage is RemovalStage.DEMOTE:
                self._demote(closed=self._request.is_closed(cordon))
            elif stage is RemovalStage.DRAIN and self._order[:3] == _CORDON_LAST:
                self._drain_once()
        while True:
            view = self._drain()
            if self._options.until_empty:
                down = "" if self._is_up else ", and it is down already"
                words = f"broker {self._broker} may be stopped now{down}{_left_there(view)}"
                self._say(RemovalStage.STOP, words)
                return
            if not self._is_up:
                break
            self._wait_for_stop(view)
        self._unregister()

    @property
    def _is_up(self) -> bool:
        return self._broker in self._cluster.online

    def _describe(self) -> ClusterDescription:
        self._cluster = self._request.act(lambda ports: ports.reader.describe_cluster())
        return self._cluster

    def _save(self, **changes: Any) -> None:
        self._removal = msgspec.structs.replace(self._removal, **changes)
        self._file.save(self._removal)

    def _say(self, stage: RemovalStage, words: str) -> None:
        self._request.report(place(stage, self._order), words)

    # --------------------------------------------------------------- cordon

    def _set_cordon(self) -> None:
        if not self._options.cordon:
            words = "left out: until the broker stops, new topics may land on it. They are drained"
            self._say(RemovalStage.CORDON, f"{words} as they come")
        elif not self._is_up:
            self._say(RemovalStage.CORDON, "not possible: the broker is down")
        elif (now := self._request.read_cordon()) is not None and _has_all(now):
            self._say(RemovalStage.CORDON, f"the broker reports {clean(now.summary)}")
        else:  # the claim first: it may create a topic that needs every broker
            with self._request.owned(self._cluster.cluster_id):
                self._request.act(self._cordoned)

    async def _cordoned(self, ports: ClusterPorts) -> None:
        cordoner = Cordoner(ports, self._broker, self._request.clock)
        before = await cordoner.read()
        value = before.with_cordons(())
        if self._removal.cordon is None:
            self._save(cordon=CordonMemory(before.setting.own, value))
        after = await cordoner.cordon(before, value)
        self._say(
            RemovalStage.CORDON, f"{CORDONED}: {before.value} -> {value}: {clean(after.summary)}"
        )

    # --------------------------------------------------------------- demote

    def _demote(self, *, closed: bool) -> None:
        if not self._options.demote:
            self._say(RemovalStage.DEMOTE, "left out")
        elif not self._is_up:
            self._say(RemovalStage.DEMOTE, "needless: a broker that is down leads nothing")
        elif self._removal.drains:
            self._say(RemovalStage.DEMOTE, "over: the replicas are being drained")
        elif closed:
            self._leave_out_demote()
        elif (name := self._request.unfinished(self._removal.demotes)) is not None:
            self._say(RemovalStage.DEMOTE, f"going on with run {name}")
            self._end_of(name, self._request.go_on(name))
        else:
            self._begin_demote()

    def _leave_out_demote(self) -> None:
        """Call off what is left of a demote that is refused from now on."""
        why = REFUSED.format(self._broker)
        name = self._request.unfinished(self._removal.demotes)
        if name is None:
            self._say(RemovalStage.DEMOTE, f"left out: {why}")
            return
        self._say(RemovalStage.DEMOTE, f"the rest of run {name} is called off: {why}")
        run = RunClient.find(self._request.state, name).read().run
        left = [track.tp for track in run.tracks.values() if not track.state.ended]
        code = self._request.cancel(name, CancelKind.STOP, left)
        if self._request.unfinished((name,)):
            raise self._left(code)

    def _begin_demote(self) -> None:
        try:
            made = self._made(DEMOTE)
        except CannotMake:
            self._say(RemovalStage.DEMOTE, "the broker is the last one in every list of replicas")
            return
        for line in left_text(made):
            self._say(RemovalStage.DEMOTE, line)
        if made.plan.partitions:
            name = self._name(DEMOTE, self._removal.demotes)
            self._save(demotes=_with(self._removal.demotes, name))
            self._begin(RemovalStage.DEMOTE, DEMOTE, name, made)

    # --------------------------------------------------------------- drain

    def _go_on_with_drain(self) -> bool:
        """Carry an unfinished drain on to its end, and return whether there was one."""
        name = self._request.unfinished(self._removal.drains)
        if name is None:
            return False
        self._say(RemovalStage.DRAIN, f"going on with run {name}")
        self._end_of(name, self._request.go_on(name))
        return True

    def _drain_once(self) -> None:
        """Move away what is on the broker now, while lists may still name it."""
        if self._go_on_with_drain():
            return
        view = self._proven()
        if view.holdings.replicas:
            self._begin_drain(view)
        else:
            self._say(RemovalStage.DRAIN, "skipped: the broker holds no replicas")

    def _drain(self) -> BrokerStatus:
        """Move all away, also what lands there meanwhile; return the empty broker."""
        quiet_s = POLL_S
        while True:
            if self._go_on_with_drain():
                quiet_s = QUIET_S
                continue
            view = self._proven()
            if not view.holdings.replicas:
                view = self._looked_again(view, quiet_s)
            if not view.holdings.replicas and self._is_kept_empty():
                self._say_empty(view)
                return view
            if not view.holdings.replicas:
                self._set_cordon()
                continue
            self._check_not_moved_back(view)
            self._begin_drain(view)
            quiet_s = QUIET_S

    def _is_kept_empty(self) -> bool:
        if not (self._options.cordon and self._is_up):
            return True
        now = self._request.read_cordon()
        return now is not None and _has_all(now)

    def _looked_again(self, view: BrokerStatus, quiet_s: float) -> BrokerStatus:
        """Others' moves back come soon after a drain, and a stop would then take them offline."""
        if not self._is_up:
            return view
        came_back = max(self._drained(self._removal.drains).values(), default=0) > 1
        until_s = time.monotonic() + (RETURNS_WITHIN_S if came_back else quiet_s)
        while not view.holdings.replicas and time.monotonic() < until_s:
            time.sleep(POLL_S)
            view = self._proven()
        return view

    def _check_not_moved_back(self, view: BrokerStatus) -> None:
        """Nothing may have come back twice since the operator was last warned."""
        drained = self._drained(self._removal.drains[self._removal.warned_after :])
        states = view.facts.states
        back = [
            tp
            for tp in (each.tp for each in view.holdings.replicas)
            if tp in states and drained[tp, states[tp].topic_id] >= MOST_RETURNS
        ]
        if not back:
            return
        self._save(warned_after=len(self._removal.drains))
        topics = sorted({tp.topic for tp in back})
        self._wait(
            f"do not stop broker {self._broker}: {join_some(back)} came back to it {MOST_RETURNS} "
            f"times after this removal had moved it away. Somebody else moves "
            f"{join_named('topic', topics)} back, as the canary of an operator or a balancer does. "
            f"End that; or leave it there, and out of the removal: --exclude {','.join(topics)}"
        )

    def _drained(self, names: tuple[str, ...]) -> Counter[tuple[TopicPartition, str | None]]:
        runs = (made_run(self._request.state, name) for name in names)
        return Counter(
            (track.tp, track.planned.topic_id)
            for run in runs
            if run is not None
            for track in run.tracks.values()
            if track.state is State.DONE and self._broker not in track.replicas
        )

    def _begin_drain(self, view: BrokerStatus) -> None:
        try:
            made = self._made(DRAIN)
        except CannotMake as why:
            self._wait(f"{held_line(view)}. {why}")
        for line in left_text(made):
            self._say(RemovalStage.DRAIN, line)
        if not made.plan.partitions:
            self._wait(f"{held_line(view)}. Nothing of it can be moved now")
        name = self._name(DRAIN, self._removal.drains)
        self._save(drains=_with(self._removal.drains, name))
        self._begin(RemovalStage.DRAIN, DRAIN, name, made)

    def _proven(self) -> BrokerStatus:
        """Return what the broker holds, as fresh metadata and its own disks have it.

        What is only on the disk is leaving it just now, and a broker that does not answer may have
        stopped just now: both are waited for. A step that is begun while Kafka does not know that
        the broker is down may never end before 4.3, because it waits for the broker, too.
        """
        until_s = time.monotonic() + SETTLES_S
        while True:
            view = self._view()
            held, unread = view.holdings.replicas, view.facts.unread
            in_metadata = any(each.why is not Stay.STRAY for each in held)
            answers = view.facts.on_disk is not None or not self._is_up
            settled = answers and (in_metadata or not (held or unread))
            if settled or time.monotonic() >= until_s:
                break
            time.sleep(POLL_S)
        if not held and unread:
            raise RunProblem(
                f"broker {self._broker} is not known to be empty: {clean(why_unknown(view))}"
            )
        return view

    def _view(self) -> BrokerStatus:
        state, broker, exclude = self._request.state, self._broker, self._options.exclude
        up = broker in self._describe().online
        return self._request.act(
            lambda ports: read_status(
                ports.reader, state, broker, fresh=True, disks=up, exclude=exclude
            )
        )

    def _say_empty(self, view: BrokerStatus) -> None:
        proof = "the metadata, proven to be current, names no replica on it"
        if stays := but_for(view):
            proof = f"{stays}. The metadata, proven to be current, names no other replica on it"
        if view.facts.on_disk is None:
            words = f"{proof}. It is down, so its log dirs cannot be asked"
        else:
            dirs = as_count(len(view.facts.log_dirs), "log dir")
            words = f"{proof}, and none is in its {dirs}"
        self._say(RemovalStage.EMPTY, words)

    # --------------------------------------------------------------- stop and unregister

    def _wait_for_stop(self, view: BrokerStatus) -> None:
        words = f"stop broker {self._broker} now{_left_there(view)}"
        if not self._request.attended:
            self._say(RemovalStage.STOP, f"{words}. Then call this again: {self._request.again}")
            raise Stopped(WAITS)
        self._say(RemovalStage.STOP, f"{words}. Waiting for that; Ctrl-C leaves all as it is")
        proven_s = time.monotonic()
        while True:
            time.sleep(POLL_S)
            try:
                if self._broker not in self._describe().online:
                    return
                if time.monotonic() - proven_s >= PROVEN_EVERY_S:
                    proven_s = time.monotonic()
                    if self._proven().holdings.replicas:
                        return
            except (ClusterError, RunProblem) as error:
                self._request.note(f"still waiting: {error}")

    def _unregister(self) -> None:
        broker = self._broker
        self._say(RemovalStage.STOP, f"broker {broker} is down")
        if broker not in self._cluster.brokers and self._cluster.reports_fenced:
            self._say(RemovalStage.UNREGISTER, f"broker {broker} is not registered any more")
        else:
            self._confirm_unregister()
            self._send_unregister()
        self._save(unregistered_at=self._request.clock.now())

    def _confirm_unregister(self) -> None:
        if self._options.unregister:
            return
        if not self._request.attended:
            words = f"to unregister it for good: {self._request.again} --unregister"
            self._say(RemovalStage.UNREGISTER, words)
            raise Stopped(WAITS)
        self._request.confirm_unregister()

    def _send_unregister(self) -> None:
        broker = self._broker
        try:
            kept = self._request.act(self._unregistered)
        except NotRegistered:  # the answer of an earlier call was lost
            self._say(RemovalStage.UNREGISTER, f"broker {broker} is not registered any more")
        else:
            self._say(
                RemovalStage.UNREGISTER, f"broker {broker} is no longer registered: it is removed"
            )
            if kept is not None:
                self._say(RemovalStage.UNREGISTER, kept_text(broker, kept))

    async def _unregistered(self, ports: ClusterPorts) -> str | None:
        request, report = self._request, partial(self._request.report, "")
        await request.check_owner(self._cluster.cluster_id)
        runs_of = runs_on(request.state)
        return await unregister_for_good(ports, self._broker, request.clock, runs_of, report)

    # --------------------------------------------------------------- runs

    def _made(self, purpose: Purpose) -> MadePlan:
        return self._request.make(purpose, self._request.layout())

    def _name(self, purpose: Purpose, names: tuple[str, ...]) -> str:
        """Return the last one noted, if that was never made."""
        state = self._request.state
        if names and not state.run(names[-1]).path.exists():
            return names[-1]
        return free_run_name(state, purpose.run_name(self._broker), self._removal.runs)

    def _begin(self, stage: RemovalStage, purpose: Purpose, name: str, made: MadePlan) -> None:
        words = purpose.words_in_removal(self._broker)
        self._say(stage, f"run {name}: {plan_text(made)}")
        code = self._request.begin_run(name, words, made.plan)
        if made_run(self._request.state, name) is not None:
            self._end_of(name, code)

    def _end_of(self, name: str, code: int) -> None:
        """Check that a run has ended, and that nobody has called a part of it off."""
        run = RunClient.find(self._request.state, name).read().run
        if not run.ended:
            raise self._left(code)
        if off := [track.tp for track in run.tracks.values() if track.state not in _OVER]:
            self._wait(
                f"run {name} has ended, and not all of its partitions are where they were to go: "
                f"{join_some(off)}. See why: ktui status {name}"
            )

    def _left(self, code: int) -> Stopped:
        return Stopped(code, f"to go on with the removal: {self._request.again}")

    def _wait(self, words: str) -> NoReturn:
        raise Stopped(WAITS, f"{words}. To go on from there: {self._request.again}")


def _has_all(cordon: CordonState) -> bool:
    return cordon.has(cordon.with_cordons(()))


def _left_there(view: BrokerStatus) -> str:
    if not view.excluded.replicas:
        return ""
    alone = [each.tp for each in view.excluded.replicas if each.only_in_sync]
    offline = f"; its stop takes {join_some(alone)} offline" if alone else ""
    return f", {but_for(view)}{offline}"


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if names[-1:] == (name,) else (*names, name)
