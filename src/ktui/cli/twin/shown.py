"""A twin in the view, to which anything may happen."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.quantities import as_duration
from ktui.rehearsal.faults import FAULT_VERBS, Fault, FaultProblem
from ktui.rehearsal.live import LiveRehearsal
from ktui.tui.run_view.run_verbs import BadCommand


class ShownTwin:
    """Takes what is to happen to the twin of the view.

    Args:
        on_stage: watches the run on the twin.
    """

    def __init__(self, on_stage: LiveRehearsal) -> None:
        self.on_stage = on_stage

    @property
    def verbs(self) -> Sequence[str]:
        """The first words of everything that may happen."""
        return FAULT_VERBS

    def check(self, event: str) -> None:
        """Check something that is to happen.

        Raises:
            BadCommand: it cannot happen; the message names the mistake and the fix.
        """
        try:
            self.on_stage.parse(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None

    def let_happen(self, event: str) -> str:
        """Let something happen to the twin, now or at the moment that it names; return an answer.

        Raises:
            BadCommand: it cannot happen; the message names the mistake and the fix.
        """
        try:
            fault = self.on_stage.let_happen(event)
        except FaultProblem as problem:
            raise BadCommand(str(problem)) from None
        return f"{fault.text}: {_when(fault, self.on_stage.now_s)}"

    @property
    def outcome(self) -> str:
        """How the rehearsal has ended, in a few words; empty while it goes on."""
        return self.on_stage.outcome


def _when(fault: Fault, now_s: float) -> str:
    if fault.at.share is not None:
        return f"it happens at {fault.at.share:.0%} of the work"
    after_s = fault.at.after_s or 0.0
    return f"it happens in {as_duration(after_s - now_s)}" if after_s > now_s else "it has happened"
