"""The unfinished runs of a cluster: their reassignments, and how to ask them for a cancel.

A live run cancels its own reassignments, or it would take the cancel for somebody else's doing. A
run without an engine gets the cancel in its journal, and follows it once it is resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ktui.cli.options.cancel import CancelRequest
from ktui.cli.process.send_command import AnswerJson, answer_json
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.text import clean
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled, settlement_by_run
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import unfinished_journals
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, CancelMoves
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.scope import CancelScope, partitions_on, tracks_in_scope
from ktui.execution.run.states import CancelKind
from ktui.execution.run.track import Track


class RunOnCluster:
    """One run, the cancel requested from it, and its answer."""

    def __init__(self, follower: RunFollower, request: CancelRequest, *, live: bool) -> None:
        self._follower = follower
        self._folder = RunDir(follower.path.parent)
        self._request = request
        self._number: int | None = None
        self.name = self._folder.name
        self.live = live
        self.answer: Answer | None = None
        self.problem: str | None = None
        """Why the run did not answer, or could not be asked."""
        self.listed: dict[TopicPartition, ListedReassignment] = {}
        """The run's reassignments that the cluster lists and the scope covers."""
        self.unfinished: list[TopicPartition] = []
        """The unfinished partitions in the scope; without an engine, only the listed ones."""

    @property
    def claims(self) -> Mapping[TopicPartition, Brokers]:
        """The replicas that steps in flight ask Kafka for.

        Each step is in the journal before it is sent.
        """
        in_flight = self._follower.run.tracks_in_flight
        return {tp: t.step.begun.replicas for tp, t in in_flight.items() if t.step is not None}

    @property
    def words(self) -> str:
        """The run's response to the cancel, as a sentence."""
        if not self.live:
            return (
                f"run {self.name} has no engine. The cancel is written into its journal, and takes "
                f"effect when you resume the run: ktui resume {self.name}"
            )
        scope = CancelScope(self._follower.run, self._request.kind, partitions=self.unfinished)
        return f"run {self.name} cancels its own partitions: {scope.words}"

    @property
    def answer_json(self) -> AnswerJson | None:
        """The run's answer in its JSON form; None if there is none."""
        if self.answer is None or self._number is None:
            return None
        return answer_json(self._folder, self._number, self.answer)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        if self._number is None or not self.live or self.problem is not None:
            return True
        refused = self.answer is not None and not self.answer.accepted
        return refused or (self.answer is not None and len(self.settled) == len(self.listed))

    @property
    def settled(self) -> Mapping[TopicPartition, Settled]:
        """The outcomes of the listed reassignments, as far as they are known."""
        if self.answer is None or not self.live:
            return {}
        tracks = self._follower.run.tracks
        known = {tp: settlement_by_run(tracks[tp]) for tp in self.listed}
        return {tp: settled for tp, settled in known.items() if settled is not None}

    def find_own(self, listed: Mapping[TopicPartition, ListedReassignment]) -> None:
        """Find the run's own reassignments among those that are listed and in the scope."""
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
        """Write the cancel into the run's journal; nothing if it would cover no partition."""
        if not self.unfinished:  # a command without partitions covers the whole run
            return
        whole = self.live and self._request.everything and self._request.kind is CancelKind.STOP
        partitions = () if whole else tuple(self.unfinished)
        try:
            self._number = RunClient(self._folder).ask(
                CancelMoves(self._request.kind, partitions=partitions)
            )
        except RunProblem as problem:
            self.problem = str(problem)

    def refresh(self) -> None:
        """Read the run's new events, and its answer."""
        try:
            if self.live and self._number is not None and self.answer is None:
                self._read_answer(self._number)
            self._follower.refresh()
        except RunProblem as problem:
            self.problem = clean(str(problem))

    def _read_answer(self, number: int) -> None:
        gone = holder(self._folder) is None
        with Journal.open(self._folder.journal, SystemClock(), read_only=True) as journal:
            self.answer = journal.answer_to(number).answer
        if gone and self.answer is None:
            self.problem = (
                "the engine ended before it answered. Your command is in the journal, and takes "
                f"effect when you resume the run: ktui resume {self.name}"
            )

    def stop_waiting(self) -> None:
        """Stop waiting; note it if the answer is still missing."""
        if not self.is_settled and self.answer is None:
            self.problem = (
                "no answer yet. Your command is in the journal, and takes effect when the engine "
                f"reads it. See: ktui status {self.name}"
            )

    def close(self) -> None:
        """Close the run's journal."""
        self._follower.close()


def runs_on(state: StateDir, cluster_id: str, request: CancelRequest) -> list[RunOnCluster]:
    """Return the unfinished runs of a cluster."""
    return [
        RunOnCluster(follower, request, live=owner is not None)
        for follower, owner in unfinished_journals(state, cluster_id)
    ]


def replicas_in_flight(runs: Collection[RunOnCluster]) -> Iterator[tuple[TopicPartition, Brokers]]:
    """Yield what live runs have in flight: each partition with its requested replicas."""
    for run in runs:
        if run.live:
            yield from run.claims.items()
