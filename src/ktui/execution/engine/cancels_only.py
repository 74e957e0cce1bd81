"""The partitions that go on while nothing new is submitted: those that operators called off."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.working_state import Hold, WorkingState
from ktui.pacing.decision import Move


class CancelsOnly:
    """Lets cancelled partitions go on while the run is paused, or the cancel gate is shut.

    They go before all others. They do not wait for places that others hold: those others may not go
    on.
    """

    def __init__(self, memory: WorkingState) -> None:
        self._memory = memory
        self._run = memory.run
        self.unhealthy = False
        """Whether the cluster's health lets no new step begin."""

    def apply(self, *, shut: bool) -> None:
        """Free the places of partitions that may not go on, or restore them once they may."""
        roster = self._memory.roster
        self._memory.release_all(Hold.SHUT, lambda tp: not shut or self._is_called_off(tp))
        if shut:
            for tp in (*roster.between, *roster.ready):
                if not self._is_called_off(tp):
                    self._memory.hold(tp, Hold.SHUT)

    def may_go(self, move: Move) -> bool:
        """Whether a step belongs to an operator's cancel.

        Bad health of the cluster holds back only steps that add load, not steps that reduce it.
        """
        return self._is_called_off(move.tp) and not (self.unhealthy and move.step.adds)

    def _is_called_off(self, tp: TopicPartition) -> bool:
        return tp in self._run.called_off and not self._run.pauses.stop(tp)
