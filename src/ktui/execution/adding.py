"""Extra plans, taken into a live run (KIP-236)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktui.cluster.partition import TopicPartition
from ktui.execution.add_events import Added, Joined
from ktui.execution.adding_scope import Joining, joining, joinings_in_words
from ktui.execution.beginning import parts, planned_parts
from ktui.execution.cancel_events import CancelAsked
from ktui.execution.cancel_kind import CancelKind
from ktui.execution.commands import Add, Answer, Asked
from ktui.execution.decider import Decider
from ktui.execution.events import Event, Planned
from ktui.execution.run import Run
from ktui.execution.track import Track

_FIRST = {Joining.ROLL_BACK: CancelKind.ROLLBACK, Joining.RETARGET: CancelKind.STOP}
"""What is to become of a partition before it is queued."""


class Adding:
    """Has the partitions of extra plans join the queue: at once, or once they are at rest."""

    def __init__(
        self, run: Run, decider: Decider, record: Callable[[Sequence[Event]], None]
    ) -> None:
        self._run = run
        self._decider = decider
        self._record = record

    def carry_out(self, command: Add, asked: Asked) -> Answer:
        """Take an extra plan in: all of it is in the journal with one writing, or nothing is."""
        if done := self._run.additions.added_by(asked.id):
            return Answer(accepted=True, words=f"{done.plan} was added already")
        if refusal := self._refusal(command):
            return Answer(accepted=False, words=refusal)
        ways = [self._way(command, planned) for planned in command.partitions]
        some = [(how, planned) for how, planned in ways if how.joins]
        words = joinings_in_words(how for how, _ in ways)
        if not some:
            return Answer(accepted=True, words=f"nothing is added: {words}")
        called_off = {kind: self._called_off(some, kind) for kind in _FIRST.values()}
        cancels = [
            CancelAsked(kind=kind, partitions=part, command=asked.id, who=asked.who)
            for kind, partitions in called_off.items()
            for part in parts(partitions)
        ]
        added = Added(
            plan=command.plan,
            plan_sha256=command.plan_sha256,
            partitions=len(some),
            on_conflict=command.on_conflict,
            command=asked.id,
            who=asked.who,
        )
        told = planned_parts([planned for _, planned in some])
        self._record([added, *told, *cancels])
        self._record(self._decider.call_off([tp for tps in called_off.values() for tp in tps]))
        self._record(self._decider.join([p.tp for how, p in some if how is Joining.NEW]))
        self.go_on()
        return Answer(accepted=True, words=words, batch=self._decider.next_batch)

    def go_on(self) -> None:
        """Queue those whose earlier move is over, with nothing of it on its way any more."""
        waiting = self._run.additions.waiting
        rested = [tp for tp, track in waiting.items() if self._rests(track)]
        if rested:
            self._record([Joined(partitions=part) for part in parts(rested)])
            self._record(self._decider.join(rested))

    def _refusal(self, command: Add) -> str | None:
        if self._run.ended:
            return f"the run has ended; carry {command.plan} out as a run of its own: ktui start"
        if self._run.cancel_gate.shut:
            gate = self._run.cancel_gate.reason
            shut = f"the cluster's cancel gate is shut{f' by {gate}' if gate else ''}"
            return f"{shut}; open it first: ktui cancel {self._run.name} --remove-cancel"
        return None

    def _way(self, command: Add, planned: Planned) -> tuple[Joining, Planned]:
        track = self._run.tracks.get(planned.tp)
        return joining(track, planned.target, command.on_conflict), planned

    def _called_off(
        self, some: Sequence[tuple[Joining, Planned]], kind: CancelKind
    ) -> list[TopicPartition]:
        """Give those that are to be called off, and are not so by now."""
        tracks = self._run.tracks
        return [
            planned.tp
            for how, planned in some
            if _FIRST.get(how) is kind and tracks[planned.tp].cancel is not kind
        ]

    def _rests(self, track: Track) -> bool:
        over = track.state.ended or not track.begun
        return over and not self._decider.awaits_answer(track.tp)
