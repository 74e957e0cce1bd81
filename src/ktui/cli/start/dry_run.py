"""The preview of all that a run would send."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from ktui.cli.output.plan_report import report
from ktui.execution.run.options import NO_SCHEDULE, Schedule, local_minute
from ktui.execution.run.text import replica_list_text, schedule_text
from ktui.ops.start import CheckedRun
from ktui.pacing.decision import Decision
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_count, as_duration


class StepPreview(msgspec.Struct, frozen=True):
    """One step, with the keys of the `step` event."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elect: int | None


class BatchPreview(msgspec.Struct, frozen=True):
    """The steps submitted together, `after_s` seconds after the start if all goes well."""

    batch: int
    after_s: int
    steps: tuple[StepPreview, ...]


class DryRun(PlanPreview, frozen=True, kw_only=True):
    """A run, simulated before it is started: the preview of its plan, and its batches.

    Times are in UTC.
    """

    run: str
    until: datetime | None
    schedule: Schedule
    begins_at: datetime | None
    """When steps may begin next; None if they may now, but for the command."""
    ends_at: datetime | None
    """When the run is expected to have ended; None where that is not known."""
    batches: tuple[BatchPreview, ...]


def dry_run_of(checked: CheckedRun) -> DryRun:
    """Simulate a run."""
    batches: list[BatchPreview] = []
    preview = checked.previewed(lambda *decision: batches.append(_batch(*decision)))
    new, how_long = checked.new, preview.how_long
    schedule = new.options.schedule
    ends_at = None if how_long is None else schedule.after(checked.now, how_long.time_s.middle)
    return DryRun(
        **{field: getattr(preview, field) for field in preview.__struct_fields__},
        run=new.name,
        until=_utc(new.until),
        schedule=msgspec.structs.replace(
            schedule, start_at=_utc(schedule.start_at), by=_utc(schedule.by)
        ),
        begins_at=_utc(schedule.begins_at(checked.now)),
        ends_at=_utc(ends_at),
        batches=tuple(batches),
    )


def dry_run_text(dry_run: DryRun) -> str:
    """Return the preview for people: that of the plan, then each batch."""
    blocks = [report(dry_run)]
    if dry_run.batches:
        head = "what would be sent, batch by batch, if all goes well:"
        lines = (line for batch in dry_run.batches for line in _batch_lines(batch))
        blocks.append("\n".join([head, *lines]))
    if dry_run.schedule != NO_SCHEDULE and dry_run.schedule.by is None:
        at = dry_run.ends_at
        ends = "" if at is None else f"; the plan is expected to end at {local_minute(at)}"
        blocks.append(f"steps begin {schedule_text(dry_run.schedule)}{ends}")
    return "\n\n".join([*blocks, "Nothing was sent."])


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _batch(after_s: int, decision: Decision) -> BatchPreview:
    steps = (
        StepPreview(
            topic=move.tp.topic,
            partition=move.tp.partition,
            replicas=move.step.target,
            adding=move.step.adds,
            removing=move.step.drops,
            elect=move.step.elects,
        )
        for move in decision.moves
    )
    return BatchPreview(decision.batch, after_s, tuple(steps))


def _batch_lines(batch: BatchPreview) -> Iterator[str]:
    count = as_count(len(batch.steps), "step")
    yield f"batch {batch.batch:,}, after {as_duration(batch.after_s)}, {count}"
    for step in batch.steps:
        yield f"  {step.topic}-{step.partition}  {_step(step)}"


def _step(step: StepPreview) -> str:
    signs = [f"+{broker}" for broker in step.adding] + [f"-{broker}" for broker in step.removing]
    elects = [] if step.elect is None else [f"elect {step.elect}"]
    return "  ".join([replica_list_text(step.replicas), *signs, *elects])
