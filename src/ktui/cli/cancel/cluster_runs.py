"""The runs of a cluster that are not at their end: which reassignments are theirs, and asking them.

What a live run has begun it cancels itself, or it would take that for somebody else's doing. One
that nobody carries on is told by its journal, and goes by it once it is resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ktui.cli.cancel.options import CancelRequest
from ktui.cli.process.send_command import AnswerJson, answer_json, put
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.text import clean
from ktui.execution.cancel.foreign_outcome import ListedReassignment, Settled, settled_by_run
from ktui.execution.errors import RunProblem
from ktui.execution.host.catalog import unfinished_journals
from ktui.execution.host.ownership import holder
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, CallOff
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import act_on, acts_in_words, in_scope


class RunOnCluster:
    """One run, what is asked of it, and what it answers.

    Args:
        follower: its journal.
        live: whether a process carries it on.
        wanted: what is asked for.
    """

    def __init__(self, follower: RunFollower, wanted: CancelRequest, *, live: bool) -> None:
        self._follower = follower
        self._folder = RunDir(follower.path.parent)
        self._wanted = wanted
        self._number: int | None = None
        self.name = self._folder.name
        self.live = live
        self.answer: Answer | None = None
        self.problem: str | None = None
        """Why it did not answer, or cannot be asked."""
        self.listed: dict[TopicPartition, ListedReassignment] = {}
        """Its reassignments that the cluster lists, of those asked for."""
        self.going: list[TopicPartition] = []
        """Of a live run all that has not ended, of those asked for; else only what is listed."""

    @property
    def claims(self) -> Mapping[TopicPartition, Brokers]:
        """What its steps in flight ask of Kafka; each is in the journal before it is sent."""
        flying = self._follower.run.flying
        return {tp: t.step.begun.replicas for tp, t in flying.items() if t.step is not None}

    @property
    def words(self) -> str:
        """Say what is done about it."""
        if not self.live:
            return (
                f"run {self.name}, which nobody carries on, is told in its journal, and goes by it "
                f"once it is resumed: ktui resume {self.name}"
            )
        tracks = self._follower.run.tracks
        acts = (act_on(tracks[tp], self._wanted.kind) for tp in self.going)
        return f"run {self.name} does it itself: {acts_in_words(acts)}"

    @property
    def answer_json(self) -> AnswerJson | None:
        """Give its answer in its JSON form; None where there is none."""
        if self.answer is None or self._number is None:
            return None
        return answer_json(self._folder, self._number, self.answer)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for."""
        if self._number is None or not self.live or self.problem is not None:
            return True
        refused = self.answer is not None and not self.answer.accepted
        return refused or (self.answer is not None and len(self.settled) == len(self.listed))

    @property
    def settled(self) -> Mapping[TopicPartition, Settled]:
        """What became of those that are listed, as far as that is known."""
        if self.answer is None or not self.live:
            return {}
        tracks = self._follower.run.tracks
        known = {tp: settled_by_run(tracks[tp]) for tp in self.listed}
        return {tp: settled for tp, settled in known.items() if settled is not None}

    def take_in(self, listed: Mapping[TopicPartition, ListedReassignment]) -> None:
        """See what of all that is listed and asked for is its own."""
        claims = self.claims
        self.listed = {tp: m for tp, m in listed.items() if claims.get(tp) == m.target}
        tracks = in_scope(self._follower.run, self._wanted.topics, self._wanted.partitions)
        going = [track.tp for track in tracks if not track.state.ended]
        self.going = going if self.live else list(self.listed)

    def ask(self) -> None:
        """Write what is wanted into its journal."""
        whole = self.live and self._wanted.everything and self._wanted.kind is CancelKind.STOP
        partitions = () if whole else tuple(self.going)
        try:
            self._number = put(self._folder, CallOff(self._wanted.kind, partitions=partitions))
        except RunProblem as problem:
            self.problem = str(problem)

    def look(self) -> None:
        """Read what is new: of what it does, and its answer."""
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
                "its process went before it answered. What you asked for is written down, and is "
                f"done when the run goes on: ktui resume {self.name}"
            )

    def leave(self) -> None:
        """Say that it is not waited for any more, where it would be."""
        if not self.is_settled and self.answer is None:
            self.problem = (
                "no answer yet; what you asked for is written down, and is done as soon as its "
                f"process gets to it: ktui status {self.name}"
            )

    def close(self) -> None:
        """Let go of its journal."""
        self._follower.close()


def runs_on(state: StateDir, cluster_id: str, wanted: CancelRequest) -> list[RunOnCluster]:
    """Give the runs of a cluster that are not at their end."""
    return [
        RunOnCluster(follower, wanted, live=owner is not None)
        for follower, owner in unfinished_journals(state, cluster_id)
    ]


def claimed(runs: Collection[RunOnCluster]) -> Iterator[tuple[TopicPartition, Brokers]]:
    """Give what the live ones have in flight."""
    for run in runs:
        if run.live:
            yield from run.claims.items()
