"""The request for a new run: its plan, the cluster as found, and the options."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

import msgspec

from ktui.cli.context.cluster import Target
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.first_events import first_events
from ktui.execution.run.options import RunOptions, local_minute
from ktui.execution.run.text import schedule_text
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.preview.facts import Terms
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.quantities import as_duration
from ktui.speed.answer import HowLong, time_text
from ktui.speed.simulate import OnDecision


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a new run needs."""

    name: str
    plan_name: str
    target: Target
    base: PreviewBase
    """The plan, and the cluster as found."""
    terms: Terms
    options: RunOptions
    left_out: tuple[Finding, ...] = ()
    """What was left out of the plan before."""
    asked_for: frozenset[FindingKind] = frozenset()
    """Findings of these kinds are what the operator asked for, and are not shown."""
    until: datetime | None
    now: datetime

    @cached_property
    def preview(self) -> PlanPreview:
        """The preview of the run; of a very large plan its time is a rough one."""
        return self.previewed()

    def previewed(self, on_decision: OnDecision | None = None) -> PlanPreview:
        """Preview the run; `on_decision` is called with each decision."""
        roughly = on_decision is None  # a start does not wait for it
        preview = self.base.under(self.terms, on_decision, roughly=roughly).without(
            lambda finding: finding.kind in self.asked_for
        )
        return preview.with_findings(*self.left_out, *self._promises(preview))

    def _promises(self, preview: PlanPreview) -> Iterator[Finding]:
        """Yield whether --until and --by can be kept."""
        if preview.problems or preview.idle:
            return
        if self.until is not None:
            yield fits(preview.how_long, self.until, self.now)
        if self.options.schedule.by is not None:
            yield self._by(preview.how_long, self.options.schedule.by)

    def _by(self, how_long: HowLong | None, by: datetime) -> Finding:
        schedule = self.options.schedule
        words = f"steps begin {schedule_text(schedule)}"
        if how_long is None:
            return _late(f"{words}: sizes are unknown, so ktui cannot say whether that can be kept")
        expected = f"Without a throttle the plan takes {time_text(how_long)}"
        low, high = how_long.time_s.low, how_long.time_s.high
        soonest, latest = schedule.after(self.now, low), schedule.after(self.now, high)
        if latest is not None and latest <= by:
            return _in_time(f"{words}: there is room to go slower. {expected}")
        if soonest is None or soonest > by:
            at = "" if soonest is None else f", {local_minute(soonest)} is the soonest"
            return _late(f"{words}: that is too early{at}. {expected}")
        return _late(
            f"{words}: that may be too early. {expected}. The run says so once it knows its rate"
        )

    def first_events(self) -> list[AnyRunEvent]:
        """Return the events that the run's journal begins with."""
        return first_events(
            self.base.plan,
            self.base.facts.seen,
            self.terms.limits,
            self.options,
            cluster_id=self.base.facts.cluster_id,
            plan_name=self.plan_name,
            connection=self.target.names,
        )


def fits(how_long: HowLong | None, until: datetime, now: datetime) -> Finding:
    """Return whether a plan is expected to be done by the time of --until."""
    left_s = (until - now).total_seconds()
    clock = f"until {until:%Y-%m-%d %H:%M:%S %z}, in {as_duration(left_s)}"
    if how_long is None:
        return _late(f"{clock}: sizes are unknown, so ktui cannot say whether the plan fits")
    takes = f"It takes {time_text(how_long)}"
    if how_long.time_s.high <= left_s:
        return _in_time(f"{clock}: the plan fits. {takes}")
    fits = "does not fit" if how_long.time_s.low > left_s else "may not fit"
    rest = "what does not fit is left for `ktui resume`"
    return _late(f"{clock}: the plan {fits}; {rest}. {takes}")


def _in_time(sentence: str) -> Finding:
    return Finding(Severity.NOTE, FindingKind.PROMISE, (), sentence)


def _late(sentence: str) -> Finding:
    return Finding(Severity.WARNING, FindingKind.PROMISE, (), sentence)
