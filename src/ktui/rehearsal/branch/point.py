"""The moment of a recording at which a branch leaves what was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from ktui.execution.run.events import AnyRunEvent, JournalEntry, ScheduleChanged, Started
from ktui.execution.run.options import USUAL_POLL_S, Schedule
from ktui.execution.run.run import Run
from ktui.insights.prior import Prior
from ktui.progress.timeline import Progress
from ktui.rehearsal.branch.compare import Happening


class RecordedEntries(msgspec.Struct, frozen=True):
    """The events of one run, as far as a recording has them from the first one on."""

    name: str
    entries: tuple[JournalEntry, ...]

    def until(self, at: datetime) -> Run:
        """Return the run as it was at a moment."""
        return Run(self.name).fold(entry for entry in self.entries if entry.at <= at)


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """All that a recording shows of one moment, and what came of the runs afterwards."""

    recording: str
    """The name of the recording, cleaned for the terminal."""
    cluster: str
    """The name of its cluster, cleaned for the terminal."""
    at: datetime
    """When the cluster was polled last before: the twin begins in the state of that poll."""
    at_s: float
    """Seconds of the moment itself from the beginning of the recording."""
    clock_s: float
    """The monotonic second of `at`, on the axis of what was polled."""
    progress: Progress
    """What was polled up to then; its last observation is not None."""
    runs: tuple[RecordedEntries, ...]
    """The runs that had begun, with all of their events, also those after the moment."""
    happened: tuple[Happening, ...] = ()
    """What happened to brokers before and after the moment, whatever the cause."""
    prior: Prior | None = None
    """How fast the whole recording shows that brokers copy; None where nothing was copied."""


def entries_for_twin(run: RecordedEntries, at: datetime, cluster_id: str) -> list[JournalEntry]:
    """Return the journal with which a run goes on, on a twin, from a moment on.

    Commands of whoever made the recording are left out, for nobody here has asked for them.
    """
    return [
        msgspec.structs.replace(entry, event=_for_twin(entry.event, cluster_id))
        for entry in run.entries
        if entry.at <= at
    ]


def _for_twin(event: AnyRunEvent, cluster_id: str) -> AnyRunEvent:
    if isinstance(event, Started):
        schedule = without_command(event.options.schedule)
        options = msgspec.structs.replace(
            event.options,
            schedule=schedule,
            sli_command="",
            sli_prometheus=(),
            canary=True,  # an objective has no other figure on a twin
            on_event="",
            metrics_file="",
            record=False,
            poll_s=USUAL_POLL_S,
        )
        return msgspec.structs.replace(event, cluster_id=cluster_id, options=options, connection={})
    if isinstance(event, ScheduleChanged):
        return msgspec.structs.replace(
            event, old=without_command(event.old), new=without_command(event.new)
        )
    return event


def without_command(schedule: Schedule) -> Schedule:
    """Return a schedule without the command of --while."""
    return msgspec.structs.replace(schedule, while_command="")


def left_out(runs: Iterable[RecordedEntries], at: datetime) -> Sequence[str]:
    """Return what of the runs' options does not hold on a twin, a sentence each."""
    notes: dict[str, None] = {}
    for each in runs:
        run = each.until(at)
        if run.schedule.while_command:
            notes["the command of --while is not run: steps may begin as if it succeeded"] = None
        if run.options.sli_command or run.options.sli_prometheus:
            notes["the figure of the objective comes from the twin's own producers"] = None
    return tuple(notes)
