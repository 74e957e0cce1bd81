"""The options that say how a plan is carried out, of verbs that check, rehearse or start one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

import msgspec

from ktui.cli.context.config import Context
from ktui.cli.options.common import Verb
from ktui.cli.options.limits import GivenLimits, complete_limits, new_run_limits
from ktui.cli.options.plan import parse_given_rate
from ktui.cli.options.run import parse_until
from ktui.cli.options.throttle import ThrottleOptions, with_throttle
from ktui.cluster.clock import SystemClock
from ktui.execution.host.launch import NewRun
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.options import RunOptions
from ktui.planning.check.check import leave_out_internal
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import Plan
from ktui.units import Rate

R = TypeVar("R")


class RunChoices(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan is to be carried out, checked as far as no cluster is needed."""

    limits: GivenLimits
    """Those that were given; they can be used."""
    exclude_internal: bool
    """Whether Kafka's own topics are left out."""
    throttle: ThrottleOptions
    rate: Rate | None
    """Bytes a second into each broker for estimates, where an option names them."""
    now: datetime
    """When the options were read."""
    options: RunOptions = RunOptions()
    """Without throttle and schedule."""
    schedule: SetSchedule = SetSchedule()
    until: datetime | None = None
    concurrent: bool = False

    def new_run(
        self,
        context: Context,
        name: str,
        plan: Plan,
        *,
        plan_name: str,
        allowed: Allowances,
        source: str = "",
    ) -> NewRun:
        """Return the run of a plan, with what the context says where no option does.

        Args:
            context: the context of the cluster.
            name: the name of the run.
            plan: the plan.
            plan_name: the name of the plan's file.
            allowed: what the plan may do.
            source: what findings call the plan; empty for the name of its file.

        Raises:
            BadInput: options contradict the context.
        """
        plan, left_out = leave_out_internal(plan) if self.exclude_internal else (plan, ())
        options = with_throttle(self.options, self.throttle, context)
        schedule = self.schedule.applied_to(options.schedule)
        return NewRun(
            name=name,
            plan=plan,
            plan_name=plan_name,
            source=source,
            limits=complete_limits(context.limits, self.limits),
            allowed=allowed,
            options=msgspec.structs.replace(options, schedule=schedule),
            concurrent=self.concurrent,
            until=self.until,
            rate=self.rate,
            left_out=left_out,
        )


def run_choices(
    kind: type[RunChoices], *options: Callable[[Verb[Any]], Verb[Any]]
) -> Callable[[Verb[R]], Verb[R]]:
    """Return a decorator that adds options to a verb, and passes them as `how`, of this kind."""
    fields = {*kind.__struct_fields__}

    def decorate(verb: Verb[R]) -> Verb[R]:
        @wraps(verb)
        def with_options(
            *, limits: GivenLimits, rate: str | None, until: str | None = None, **values: Any
        ) -> R:
            limits, excludes = new_run_limits(limits)
            now = SystemClock().now()
            how = kind(
                limits=limits,
                exclude_internal=excludes,
                until=parse_until(until, now),
                rate=parse_given_rate(rate),
                now=now,
                **{name: values.pop(name) for name in fields & values.keys()},
            )
            return verb(**values, how=how)

        decorated: Verb[R] = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
