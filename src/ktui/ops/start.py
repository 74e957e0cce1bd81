"""A planned run, checked against its cluster: what it would do, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

import msgspec

from ktui.cluster.partition import Replica
from ktui.execution.host.launch import NewRun
from ktui.execution.run.options import local_minute
from ktui.execution.run.text import schedule_text
from ktui.ops.preview import FactReader
from ktui.planning.check.findings import (
    TO_START,
    ClusterSnapshot,
    Finding,
    FindingKind,
    NeededPermission,
    Severity,
)
from ktui.preview.facts import ClusterFacts
from ktui.preview.preview import PlanPreview
from ktui.quantities import as_duration
from ktui.speed.answer import HowLong, time_text
from ktui.speed.simulate import OnDecision


class CheckedRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A planned run, and its cluster as found."""

    new: NewRun
    facts: ClusterFacts
    need: NeededPermission = TO_START
    now: datetime

    @cached_property
    def preview(self) -> PlanPreview:
        return self.previewed(roughly=True)

    def previewed(
        self, on_decision: OnDecision | None = None, *, roughly: bool = False
    ) -> PlanPreview:
        base, new = self.new.preview_base(self.facts, self.need), self.new
        preview = base.under(new.terms, on_decision, roughly=roughly).without(
            lambda finding: finding.kind in new.asked_for
        )
        return preview.with_findings(*new.left_out, *self._promises(preview))

    def _promises(self, preview: PlanPreview) -> Iterator[Finding]:
        if preview.problems or preview.idle:
            return
        if self.new.until is not None:
            yield fits(preview.how_long, self.new.until, self.now)
        if self.new.options.schedule.by is not None:
            yield self._by(preview.how_long, self.new.options.schedule.by)

    def _by(self, how_long: HowLong | None, by: datetime) -> Finding:
        schedule = self.new.options.schedule
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


async def check_run(
    new: NewRun, reader: FactReader, now: datetime, need: NeededPermission = TO_START
) -> CheckedRun:
    """Read the cluster for a planned run, sending nothing. Raises ClusterError, RunProblem."""
    terms = new.terms
    facts = await reader.read(new.plan, need, throttles=terms.throttles, canary=terms.canary)
    facts = msgspec.structs.replace(facts, seen=_with_created(facts.seen, new))
    return CheckedRun(new=new, facts=facts, need=need, now=now)


def _with_created(seen: ClusterSnapshot, new: NewRun) -> ClusterSnapshot:
    created = new.created
    sizes = {Replica(tp, broker): 0 for tp, state in created.items() for broker in state.replicas}
    return msgspec.structs.replace(
        seen,
        partitions={**seen.partitions, **created},
        sizes={**seen.sizes, **sizes},
        inbound={**seen.inbound, **dict.fromkeys(created, 0)},
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
