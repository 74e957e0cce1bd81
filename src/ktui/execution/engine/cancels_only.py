"""What goes while nothing new is submitted: what operators have called off, and nothing else."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.working_state import Hold, Memory
from ktui.pacing.decision import Move


class WhileShut:
    """Lets those go that were called off while the run is paused, or the cancel gate shut.

    They stand in front of all others, whose places they do not wait for: those may not go on.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._run = memory.run
        self.unhealthy = False
        """Whether the cluster's health lets no new step begin."""

    def apply(self, *, shut: bool) -> None:
        """Take those off their places that may not go on; or give them back once they may."""
        roster = self._memory.roster
        self._memory.release_all(Hold.SHUT, lambda tp: not shut or self._goes_back(tp))
        if shut:
            for tp in (*roster.between, *roster.ready):
                if not self._goes_back(tp):
                    self._memory.hold(tp, Hold.SHUT)

    def may_go(self, move: Move) -> bool:
        """Whether a step is one of an operator's cancel.

        The cluster's health holds back what adds to its load, and nothing that takes from it.
        """
        return self._goes_back(move.tp) and not (self.unhealthy and move.step.adds)

    def _goes_back(self, tp: TopicPartition) -> bool:
        return tp in self._run.called_off and not self._run.pauses.stop(tp)
