"""The options that say how a plan would be carried out, and the check of a plan under them."""

from __future__ import annotations

import asyncio
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
from ktui.cli.output.gate import cancel_cluster_options, gate_findings
from ktui.cli.output.plan_report import CheckedPlan
from ktui.cli.plan.cluster_facts import read_cluster_facts
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import RunOptions
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import Allowances
from ktui.planning.check.internal_left_out import leave_out_internal
from ktui.planning.plan import Plan
from ktui.preview.preflight import preflight
from ktui.preview.steps import steps_of
from ktui.speed.capacity import Capacity
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
    ) -> CheckedPlan:
        """Check a plan against its cluster, and compute its figures.

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
        whose = cancel_cluster_options(self.choice._asdict())
        options = with_throttle(RunOptions(), self.throttle, cluster.context)
        facts = asyncio.run(
            read_cluster_facts(
                cluster,
                plan,
                self.state,
                throttled=bool(options.throttle),
                starts=False,
                canary=options.canary_of(run, options.throttle),
                claim=lambda cluster_id: claim_request(cluster, self.state, cluster_id, ""),
            )
        )
        in_force = complete_limits(cluster.context.limits, self.limits)
        return CheckedPlan(
            plan=source,
            cluster=cluster.name,
            findings=(
                *facts.lacking,
                *check_plan(plan, facts.seen, allowed),
                *left_out,
                *gate_findings(self.state, facts.cluster_id, whose),
                *facts.owner,
            ),
            preflight=preflight(
                plan,
                facts.seen,
                in_force,
                Capacity(EarlierRuns(self.state)(facts.cluster_id), given=self.rate),
                options.throttle,
                throttle_leaders=options.throttle_leaders,
                slow=allowed.slow,
            ),
            throttle=options.throttle,
            throttle_leaders=options.throttle_leaders,
            partitions=steps_of(plan, facts.seen, in_force) if steps else None,
        )


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
            limits, excludes = new_run_limits(limits)
            others = {name: values.pop(name) for name in ("choice", "state", "throttle")}
            how = CheckOptions(
                limits=limits, rate=parse_given_rate(rate), exclude_internal=excludes, **others
            )
            return verb(**values, how=how)

        decorated: common.Verb[R] = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


check_options: Callable[[common.Verb[Any]], common.Verb[Any]] = check_options_without()
"""Adds the options of a plan's check; passes them as `how`, a `CheckOptions`."""
