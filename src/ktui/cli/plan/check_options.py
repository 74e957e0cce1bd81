"""The options that say how a plan would be carried out, and the check of a plan under them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

from ktui.cli.context.claim import claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.limits import (
    GivenLimits,
    complete_limits,
    limits_options_without,
    new_run_limits,
)
from ktui.cli.options.plan import parse_given_rate, rate_option
from ktui.cli.options.throttle import ThrottleOptions, throttle_options, with_throttle
from ktui.cli.output.cluster_facts import Standing, read_facts
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import RunOptions
from ktui.planning.check.findings import Allowances
from ktui.planning.check.internal_left_out import leave_out_internal
from ktui.planning.check.permissions import TO_CHECK
from ktui.planning.plan import Plan
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.preview.steps import steps_of
from ktui.units import Rate

R = TypeVar("R")


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a plan, and how the plan would be carried out on it."""

    choice: ClusterChoice
    state: StateDir
    limits: GivenLimits
    """Those that were given; they can be used."""
    throttle: ThrottleOptions
    rate: Rate | None
    """Bytes a second into each broker, where an option names them."""
    exclude_internal: bool = False
    """Whether Kafka's own topics are left out."""

    def check(
        self,
        plan: Plan,
        cluster: Cluster,
        *,
        source: str,
        run: str,
        allowed: Allowances,
        steps: bool = False,
    ) -> PlanPreview:
        """Preview a plan on its cluster.

        Args:
            plan: the plan.
            cluster: the cluster of these options.
            source: the name of the plan's file, cleaned for the terminal.
            run: the name that its run would have.
            allowed: what the plan may do.
            steps: whether each partition's steps are wanted, too.

        Raises:
            BadInput: an option contradicts the context.
            ClusterError: the cluster cannot be read.
        """
        plan, left_out = leave_out_internal(plan) if self.exclude_internal else (plan, ())
        options = with_throttle(RunOptions(), self.throttle, cluster.context)
        limits = complete_limits(cluster.context.limits, self.limits)
        terms = options.terms(limits, allowed, run)
        standing = Standing(
            state=self.state,
            names=self.choice._asdict(),
            claim=lambda cluster_id: claim_request(cluster, self.state, cluster_id, ""),
        )
        facts = read_facts(
            cluster,
            plan,
            TO_CHECK,
            self.state,
            standing,
            throttles=terms.throttles,
            canary=terms.canary,
        )
        preview = PreviewBase(plan, facts, source=source, need=TO_CHECK, rate=self.rate)
        shown = preview.under(terms).with_findings(*left_out)
        if not steps:
            return shown
        return msgspec.structs.replace(shown, partitions=steps_of(plan, facts.seen, limits))


def check_options_without(*limits: str) -> Callable[[common.Verb[R]], common.Verb[R]]:
    """Return a decorator that adds the options of a plan's check.

    Passes them as `how`, a `CheckOptions`.

    Args:
        limits: the limits that have no option, because the verb means something else by the name.
    """
    options: tuple[Callable[[common.Verb[Any]], common.Verb[Any]], ...] = (
        cluster_options,
        common.state_dir_option,
        limits_options_without(*limits),
        throttle_options,
        rate_option,
    )

    def decorate(verb: common.Verb[R]) -> common.Verb[R]:
        @wraps(verb)
        def with_options(*, limits: GivenLimits, rate: str | None, **values: Any) -> R:
            given = parse_given_rate(rate)
            limits, excludes = new_run_limits(limits)
            others = {name: values.pop(name) for name in ("choice", "state", "throttle")}
            how = CheckOptions(limits=limits, rate=given, exclude_internal=excludes, **others)
            return verb(**values, how=how)

        decorated: common.Verb[R] = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


check_options: Callable[[common.Verb[Any]], common.Verb[Any]] = check_options_without()
"""Adds the options of a plan's check; passes them as `how`, a `CheckOptions`."""
