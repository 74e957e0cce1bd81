"""Cancel what a cluster reassigns, whoever began it: all of a scope, or chosen ones of the view."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError, describe_unreadable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts, ClusterWriter
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.foreign_cancels import (
    CancelLog,
    ForeignCancel,
    ForeignOutcome,
    ListedReassignment,
    Settled,
    listed_reassignments,
    settlement_by_run,
)
from ktui.execution.host.catalog import journals_of
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import CancelGateFile, holder, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, CancelMoves
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.scope import CancelScope, partitions_on, tracks_in_scope
from ktui.execution.run.states import CancelKind
from ktui.execution.run.text import KIND_IN_WORDS
from ktui.execution.run.track import Track

log = logging.getLogger(__name__)


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A cancel as the command line asks for it."""

    kind: CancelKind
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    brokers: tuple[int, ...] = ()
    on_brokers: tuple[TopicPartition, ...] = ()  # selected by `brokers`, once the run is known
    everything: bool
    dry_run: bool
    take_over: bool = False

    @property
    def scope_words(self) -> str:
        words = [f"--topic {topic}" for topic in self.topics]
        words += [f"--partition {tp.topic}:{tp.partition}" for tp in self.partitions]
        words += [f"--broker {broker}" for broker in self.brokers]
        return "--all" if self.everything else " ".join(words)

    @property
    def all_partitions(self) -> tuple[TopicPartition, ...]:
        return (*self.partitions, *self.on_brokers)


class RunOnCluster:
    """One unfinished run of the cluster, the cancel requested from it, and its answer.

    A live run cancels its own reassignments, or it would take the cancel for somebody else's doing.
    A run without an engine gets the cancel in its journal, and follows it once it is resumed.
    """

    def __init__(self, follower: RunFollower, request: CancelRequest, *, live: bool) -> None:
        self._follower = follower
        self.folder = RunDir(follower.path.parent)
        self._request = request
        self.number: int | None = None  # in the run's journal, once asked
        self.name = self.folder.name
        self.live = live
        self.answer: Answer | None = None
        self.problem: str | None = None
        self.listed: dict[TopicPartition, ListedReassignment] = {}  # and in the scope
        self.unfinished: list[TopicPartition] = []  # without an engine, only listed ones

    @property
    def claims(self) -> Mapping[TopicPartition, Brokers]:
        """What steps in flight ask Kafka for: each is journaled before it is sent."""
        in_flight = self._follower.run.tracks_in_flight
        return {tp: t.step.begun.replicas for tp, t in in_flight.items() if t.step is not None}

    @property
    def words(self) -> str:
        if not self.live:
            return (
                f"run {self.name} has no engine. The cancel is written into its journal, and takes "
                f"effect when you resume the run: ktui resume {self.name}"
            )
        scope = CancelScope(self._follower.run, self._request.kind, partitions=self.unfinished)
        return f"run {self.name} cancels its own partitions: {scope.words}"

    @property
    def is_settled(self) -> bool:
        if self.number is None or not self.live or self.problem is not None:
            return True
        refused = self.answer is not None and not self.answer.accepted
        return refused or (self.answer is not None and len(self.settled) == len(self.listed))

    @property
    def answered_well(self) -> bool:
        """The run took the cancel and, with an engine, has settled all that is listed."""
        if not self.live:
            return self.problem is None
        accepted = self.answer is not None and self.answer.accepted
        return accepted and not self.problem and len(self.settled) == len(self.listed)

    @property
    def settled(self) -> Mapping[TopicPartition, Settled]:
        if self.answer is None or not self.live:
            return {}
        tracks = self._follower.run.tracks
        known = {tp: settlement_by_run(tracks[tp]) for tp in self.listed}
        return {tp: settled for tp, settled in known.items() if settled is not None}

    def find_own(self, listed: Mapping[TopicPartition, ListedReassignment]) -> None:
        claims = self.claims
        self.listed = {tp: m for tp, m in listed.items() if claims.get(tp) == m.target}
        unfinished = [track.tp for track in self._in_scope() if not track.state.ended]
        self.unfinished = unfinished if self.live else list(self.listed)

    def _in_scope(self) -> list[Track]:
        run, request = self._follower.run, self._request
        named = (*request.partitions, *partitions_on(run, request.brokers))
        if not (request.everything or request.topics or named):
            return []  # its brokers have nothing of the run, and without a scope it would be all
        return tracks_in_scope(run, request.topics, named)

    def ask(self) -> None:
        if not self.unfinished:  # a command without partitions covers the whole run
            return
        whole = self.live and self._request.everything and self._request.kind is CancelKind.STOP
        partitions = () if whole else tuple(self.unfinished)
        try:
            self.number = RunClient(self.folder).ask(
                CancelMoves(self._request.kind, partitions=partitions)
            )
        except RunProblem as problem:
            self.problem = str(problem)

    def refresh(self) -> None:
        try:
            if self.live and self.number is not None and self.answer is None:
                self._read_answer(self.number)
            self._follower.refresh()
        except RunProblem as problem:
            self.problem = clean(str(problem))

    def _read_answer(self, number: int) -> None:
        gone = holder(self.folder) is None
        with Journal.open(self.folder.journal, SystemClock(), read_only=True) as journal:
            self.answer = journal.answer_to(number).answer
        if gone and self.answer is None:
            self.problem = (
                "the engine ended before it answered. Your command is in the journal, and takes "
                f"effect when you resume the run: ktui resume {self.name}"
            )

    def stop_waiting(self) -> None:
        if not self.is_settled and self.answer is None:
            self.problem = (
                "no answer yet. Your command is in the journal, and takes effect when the engine "
                f"reads it. See: ktui status {self.name}"
            )

    def close(self) -> None:
        self._follower.close()


class ClusterCancel:
    """One cancel of what a cluster lists: found, asked of live runs, sent for the rest, watched.

    `refuse_owned` raises RunRefused while another state directory owns the cluster: the runs of its
    owner would begin everything again.
    """

    def __init__(
        self,
        observer: Observer,
        writer: ClusterWriter,
        clock: Clock,
        *,
        state: StateDir,
        request: CancelRequest,
        refuse_owned: Callable[[], Awaitable[None]],
    ) -> None:
        self._observer, self._writer, self._clock = observer, writer, clock
        self.state, self.request, self._refuse_owned = state, request, refuse_owned
        self.cluster_id = ""
        self.foreign: dict[TopicPartition, ListedReassignment] = {}  # begun by no live run
        self._runs: list[RunOnCluster] = []
        self._claims: set[tuple[TopicPartition, Brokers]] = set()  # by live runs, around a poll
        self._lost = ""  # why the most recent failed poll failed
        self._settled: Mapping[TopicPartition, Settled] = {}
        self.begun_meanwhile: list[TopicPartition] = []  # by others
        self.not_written = ""  # why the outcomes could not be logged
        self.interrupted = False

    async def look(self) -> Observation:
        request = self.request
        return await self._observer.poll(
            Interest(frozenset(request.topics), frozenset(request.partitions), fresh=True)
        )

    def find(self, seen: Observation) -> None:
        """Separate the reassignments of live runs from all others; --all first shuts the gate."""
        request, self.cluster_id = self.request, seen.cluster_id
        if request.everything and not request.dry_run:
            reason = f"{KIND_IN_WORDS[request.kind]} everything on the cluster"
            gate = CancelGateFile(self.state, seen.cluster_id)
            gate.shut(self._clock.now(), this_process().short, reason)
        self._runs = [
            RunOnCluster(follower, request, live=owner is not None)
            for follower, owner in journals_of(self.state, seen.cluster_id)
        ]
        listed = self._asked_for(seen)
        for run in self._runs:
            run.find_own(listed)
        theirs = {tp for run in self._runs if run.live for tp in run.listed}
        self.foreign = {tp: move for tp, move in listed.items() if tp not in theirs}

    async def carry_out(self) -> None:
        """Ask the runs to cancel, cancel the rest here, and watch everything for a while."""
        log = CancelLog(self.state, self.cluster_id, this_process().short, self._clock)
        cancel = ForeignCancel(self._writer, self._clock, log)
        for run in self.runs:
            run.ask()
        try:
            seen = await cancel.carry_out(
                self._poll, self._still_foreign, lambda: all(run.is_settled for run in self._runs)
            )
            self.begun_meanwhile = [] if seen is None else self._begun_meanwhile(seen)
        except asyncio.CancelledError:  # Ctrl-C
            self.interrupted = True
        finally:
            for run in self.runs:
                run.stop_waiting()
            self._settled, self.not_written = cancel.settled, cancel.not_written

    def close(self) -> None:
        for run in self._runs:
            run.close()

    @property
    def runs(self) -> list[RunOnCluster]:
        return [run for run in self._runs if run.unfinished]

    def outcome(self, tp: TopicPartition) -> Settled:
        why = f"not sent: {self._lost or 'the command was interrupted'}"
        return self._settled.get(tp, Settled(ForeignOutcome.REFUSED, detail=why))

    @property
    def outcomes(self) -> Iterator[Settled]:
        yield from map(self.outcome, self.foreign)
        for run in self.runs:
            yield from run.settled.values()

    @property
    def as_asked(self) -> bool:
        return (
            all(run.answered_well for run in self.runs)
            and not self.begun_meanwhile
            and all(outcome.as_asked for outcome in self.outcomes)
        )

    def begun_by(self, tp: TopicPartition) -> str | None:
        """Return the run without an engine that has begun it; None if not known."""
        return next((run.name for run in self.runs if tp in run.listed), None)

    def _asked_for(self, seen: Observation) -> dict[TopicPartition, ListedReassignment]:
        request = self.request
        return {
            tp: move
            for tp, move in listed_reassignments(seen).items()
            if request.everything
            or tp.topic in request.topics
            or tp in request.partitions
            or not {*move.original, *move.target}.isdisjoint(request.brokers)
        }

    async def _poll(self, begun: bool) -> Observation | None:  # noqa: FBT001 - as ForeignCancel asks
        """Read journals before and after it: one of the two has what a run has in flight."""
        self._claims = set(self._in_flight())
        try:
            if not begun:  # the cluster may have been lost for a while
                await self._refuse_owned()
            seen = await self._observer.poll(
                Interest(partitions=frozenset(self.foreign), fresh=True)
            )
        except ClusterError as error:
            seen, self._lost = None, str(error)
        except RunProblem:  # of another owner
            raise
        except Exception as error:  # runs have their cancel already, and their answer is awaited
            log.exception("the cluster's answer cannot be read")
            seen, self._lost = None, describe_unreadable(error)
        for run in self._runs:
            run.refresh()
        self._claims |= set(self._in_flight())
        return seen

    def _in_flight(self) -> Iterator[tuple[TopicPartition, Brokers]]:
        for run in self._runs:
            if run.live:
                yield from run.claims.items()

    def _still_foreign(self, _: Observation) -> Collection[ListedReassignment]:
        """Those of no live run; one may begin one just after its journal is read."""
        for tp in [tp for tp, move in self.foreign.items() if (tp, move.target) in self._claims]:
            del self.foreign[tp]
        return self.foreign.values()

    def _begun_meanwhile(self, seen: Observation) -> list[TopicPartition]:
        known = {*self.foreign, *(tp for run in self._runs for tp in run.listed)}
        listed = self._asked_for(seen).items()
        return [tp for tp, m in listed if tp not in known and (tp, m.target) not in self._claims]


async def cancel_foreign(
    ports: ClusterPorts, state: StateDir, clock: Clock, moves: Collection[ListedReassignment]
) -> Mapping[TopicPartition, Settled]:
    """Cancel reassignments, as the view showed them, after a fresh poll; return their outcomes.

    Raises:
        RunProblem: a live run has begun one, or the log cannot be written; nothing was sent.
        ClusterError: the cluster does not answer; nothing was sent.
    """
    observer = Observer(ports.reader, clock)
    interest = Interest(partitions=frozenset(move.tp for move in moves), fresh=True)
    cluster_id = (await ports.reader.describe_cluster()).cluster_id
    log = CancelLog(state, cluster_id, this_process().short, clock)
    cancel = ForeignCancel(ports.writer, clock, log)

    async def look(begun: bool) -> Observation | None:  # noqa: FBT001 - as ForeignCancel asks
        seen = await observer.poll(interest)
        if not begun:
            await asyncio.to_thread(_check_nobody_runs, state, cluster_id, moves)
        return seen

    try:
        await cancel.carry_out(look, lambda _: moves)
    finally:
        await observer.aclose()
    return cancel.settled


def _check_nobody_runs(
    state: StateDir, cluster_id: str, moves: Collection[ListedReassignment]
) -> None:
    for follower, owner in journals_of(state, cluster_id):
        with follower:
            in_flight = follower.run.tracks_in_flight
            steps = (in_flight[move.tp] for move in moves if move.tp in in_flight)
            begun = next((track.tp for track in steps if track.step is not None), None)
            if owner is not None and begun is not None:
                name = follower.run.name
                raise RunProblem(
                    f"run {name} has begun the reassignment of {begun}. Stop it there: ktui cancel "
                    f"{name} --stop --partition {begun.topic}:{begun.partition}"
                )
