"""The preview of all that a run would send."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from ktui.cli.output.json_form import encode, utc
from ktui.cli.output.plan_report import CheckedPlan, CheckJson, check_json, report
from ktui.cli.output.schedule_json import ScheduleJson, schedule_json
from ktui.cli.start.request import StartRequest
from ktui.execution.run.event_text import replica_list_text, schedule_text
from ktui.execution.run.schedule import NO_SCHEDULE, Schedule, local_minute
from ktui.pacing.decision import Decision, Move
from ktui.quantities import as_count, as_duration
from ktui.speed.answer import HowLong, time_text


class StepJson(msgspec.Struct, frozen=True):
    """One step, with the keys of the `step` event."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elect: int | None


class BatchJson(msgspec.Struct, frozen=True):
    """The steps submitted together, `after_s` seconds after the start if all goes well."""

    batch: int
    after_s: int
    steps: tuple[StepJson, ...]


class DryRunJson(CheckJson, frozen=True, kw_only=True):
    """The output of `ktui start --dry-run --json`: `plan check`, plus the run and its batches."""

    run: str
    until: str | None
    schedule: ScheduleJson
    ends_at: str | None
    """When the run is expected to have ended, UTC; null where that is not known."""
    batches: tuple[BatchJson, ...]


class DryRun:
    """A run, simulated before it is started."""

    def __init__(self, request: StartRequest) -> None:
        self._request = request
        self._decisions: list[tuple[int, Decision]] = []
        """Each decision, with its time in seconds after the start."""
        figures = request.preflight(lambda *decision: self._decisions.append(decision))
        self.checked = CheckedPlan(
            plan=request.source,
            cluster=request.target.cluster.name,
            findings=request.findings,
            preflight=figures,
            throttle=request.options.throttle,
            throttle_leaders=request.options.throttle_leaders,
            partitions=None,
        )

    def json(self) -> str:
        """Return the preview for scripts."""
        return encode(self.shape())

    def shape(self) -> DryRunJson:
        """Return the preview as a value for scripts."""
        check, until = check_json(self.checked), self._request.until
        return DryRunJson(
            **{field: getattr(check, field) for field in check.__struct_fields__},
            run=self._request.name,
            until=None if until is None else utc(until),
            schedule=schedule_json(self._request.options.schedule, self._request.now),
            ends_at=None if self._ends_at is None else utc(self._ends_at),
            batches=tuple(_batch_json(after_s, decision) for after_s, decision in self._decisions),
        )

    def text(self) -> str:
        """Return the preview for people: the check of the plan, then each batch."""
        blocks = [report(self.checked)]
        if self._decisions:
            head = "what would be sent, batch by batch, if all goes well:"
            batches = (_batch(after_s, decision) for after_s, decision in self._decisions)
            lines = [line for batch in batches for line in batch]
            blocks.append("\n".join([head, *lines]))
        if self._request.until is not None:
            how_long = self.checked.preflight.how_long
            blocks.append(fit_in_words(how_long, self._request.until, self._request.now))
        if self._request.options.schedule != NO_SCHEDULE:
            blocks.append(self._schedule_in_words())
        return "\n\n".join([*blocks, "Nothing was sent."])

    @property
    def _ends_at(self) -> datetime | None:
        time_s = self.checked.preflight.time_s
        if time_s is None:
            return None
        return self._request.options.schedule.after(self._request.now, time_s.middle)

    def _schedule_in_words(self) -> str:
        schedule, ends_at = self._request.options.schedule, self._ends_at
        if schedule.by is not None:
            how_long, now = self.checked.preflight.how_long, self._request.now
            return promise_in_words(how_long, schedule, schedule.by, now)
        ends = (
            "" if ends_at is None else f"; the plan is expected to end at {local_minute(ends_at)}"
        )
        return f"steps begin {schedule_text(schedule)}{ends}"


def fit_in_words(how_long: HowLong | None, until: datetime, now: datetime) -> str:
    """Describe whether a plan is expected to be done by a time."""
    left_s = (until - now).total_seconds()
    clock = f"until {until:%Y-%m-%d %H:%M:%S %z}, in {as_duration(left_s)}"
    if how_long is None:
        return f"{clock}: sizes are unknown, so ktui cannot say whether the plan fits"
    time_s, expected = how_long.time_s, f"the plan takes {time_text(how_long)}"
    if time_s.high <= left_s:
        return f"{clock}: {expected}, and fits"
    rest = "partitions that do not fit are left for `ktui resume`"
    if time_s.low > left_s:
        return f"{clock}: {expected}, and does not fit; {rest}"
    return f"{clock}: {expected}, and may not fit; {rest}"


def promise_in_words(
    how_long: HowLong | None, schedule: Schedule, by: datetime, now: datetime
) -> str:
    """Describe whether a plan can be expected to be done by the time of --by."""
    words = f"steps begin {schedule_text(schedule)}"
    if how_long is None:
        return f"{words}: sizes are unknown, so ktui cannot say whether that can be kept"
    time_s = how_long.time_s
    expected = f"without a throttle the plan takes {time_text(how_long)}"
    soonest, latest = (schedule.after(now, each) for each in (time_s.low, time_s.high))
    if latest is not None and latest <= by:
        return f"{words}: {expected}, so there is room to go slower"
    if soonest is None or soonest > by:
        at = "" if soonest is None else f"; {local_minute(soonest)} is the soonest"
        return f"{words}: {expected}, which is too long{at}"
    return f"{words}: {expected}, which may be too long. The run says so once it knows its rate"


def _batch(after_s: int, decision: Decision) -> Sequence[str]:
    moves = list(decision.moves)
    count = as_count(len(moves), "step")
    head = f"batch {decision.batch:,}, after {as_duration(after_s)}, {count}"
    return [head, *(f"  {move.tp}  {_step(move)}" for move in moves)]


def _step(move: Move) -> str:
    step = move.step
    signs = [f"+{broker}" for broker in step.adds] + [f"-{broker}" for broker in step.drops]
    elects = [] if step.elects is None else [f"elect {step.elects}"]
    return "  ".join([replica_list_text(step.target), *signs, *elects])


def _batch_json(after_s: int, decision: Decision) -> BatchJson:
    return BatchJson(decision.batch, after_s, tuple(map(_step_json, decision.moves)))


def _step_json(move: Move) -> StepJson:
    step = move.step
    return StepJson(
        move.tp.topic, move.tp.partition, step.target, step.adds, step.drops, step.elects
    )
