"""Rehearsals as the view uses them: one that it shows, and those of a plan before its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from ktui.execution.host.launch import NewRun
from ktui.execution.run.run import Run
from ktui.rehearsal.branch.compare import RunMoment


class RehearsalInView(Protocol):
    """The rehearsal that a view shows: a twin that one may break, and what comes of it."""

    name: str
    """The title of its report."""

    @property
    def verbs(self) -> Sequence[str]:
        """The first words of everything that may happen."""
        ...

    def check(self, event: str) -> None:
        """Check something that is to happen.

        Raises:
            BadCommand: it cannot happen; the message names the mistake and the fix.
        """
        ...

    def let_happen(self, event: str) -> str:
        """Let something happen to the twin, now or at the moment that it names; return an answer.

        Raises:
            BadCommand: it cannot happen; the message names the mistake and the fix.
        """
        ...

    @property
    def outcome(self) -> str:
        """How the rehearsal has ended, in a few words; empty while it goes on."""
        ...

    async def report(self) -> str:
        """Return the report of what has come of the plan so far, or to its end."""
        ...


class BranchInView(RehearsalInView, Protocol):
    """A branch that a view shows, beside what was."""

    def beside(self, run: Run | None) -> tuple[RunMoment | None, RunMoment | None]:
        """Return the run as it was at this moment, and as it is here; None where there is none.

        Args:
            run: the run of the view.
        """
        ...


class RehearsedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a rehearsal of a plan on its twins has shown."""

    report: str
    time: str
    """How long the plan takes, with the range."""
    holds: bool
    """Whether every partition comes to its target on each twin."""


class PlanRehearser(Protocol):
    """Rehearses plans in the background, on twins of the cluster of the view."""

    async def rehearse(
        self, wanted: NewRun, progress: Callable[[str], None], *, anew: bool
    ) -> RehearsedPlan:
        """Take a snapshot of the cluster, and rehearse a plan on its twins; nothing is sent.

        Cancelling this ends it.

        Args:
            wanted: the run as it would be started.
            progress: is called with what is being done, in words.
            anew: whether to take another snapshot, although the last one is of this plan.

        Raises:
            RunProblem: the plan cannot be rehearsed; the text has the reason.
            ClusterError: the cluster cannot be read.
        """
        ...
