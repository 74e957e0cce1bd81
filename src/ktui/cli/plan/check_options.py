"""The check of a plan: its options, its preview, and the command that starts it then."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from ktui.cli.context.claim import claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.common import given_options, state_option
from ktui.cli.options.limits import limits_options_without
from ktui.cli.options.new_run import RunChoices, run_choices
from ktui.cli.options.plan import rate_option
from ktui.cli.options.run import URGENT_FIRST
from ktui.cli.options.throttle import throttle_options
from ktui.cli.output.cluster_facts import Standing, check_planned_run
from ktui.cli.output.gate import options_of_names
from ktui.execution.host.state_dir import StateDir
from ktui.planning.check.findings import Allowances, Option
from ktui.planning.check.permissions import TO_CHECK
from ktui.planning.plan import Plan
from ktui.preview.moves import steps_of
from ktui.preview.preview import PlanPreview


class CheckOptions(RunChoices, frozen=True, kw_only=True):
    """The cluster of a plan, and how the plan would be carried out on it."""

    choice: ClusterChoice
    state: StateDir

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
        new = self.new_run(cluster.context, run, plan, plan_name=source, allowed=allowed)
        standing = Standing(
            state=self.state,
            names=self.choice._asdict(),
            claim=lambda cluster_id: claim_request(cluster, self.state, cluster_id, ""),
        )
        checked = check_planned_run(cluster, new, self.state, standing, self.now, TO_CHECK)
        shown = checked.previewed()
        if not steps:
            return shown
        seen = checked.facts.seen
        return msgspec.structs.replace(shown, partitions=steps_of(new.plan, seen, new.limits))


def check_options_without(*limits: str) -> Callable[[common.Verb[Any]], common.Verb[Any]]:
    """Return a decorator that adds the options of a plan's check.

    Passes them as `how`, a `CheckOptions`.

    Args:
        limits: the limits that have no option, because the verb means something else by the name.
    """
    return run_choices(
        CheckOptions,
        cluster_options,
        common.state_dir_option,
        limits_options_without(*limits),
        throttle_options,
        rate_option,
    )


check_options = check_options_without()
"""Adds the options of a plan's check; passes them as `how`, a `CheckOptions`."""


@click.command()
@throttle_options
def _throttled(**_options: object) -> None:
    """Have the throttle options, for their names."""


_OF_THROTTLE = frozenset(parameter.name for parameter in _throttled.params)


def start_command(output: Path | None, run: str, allowed: Allowances, how: CheckOptions) -> str:
    """Return the command that starts a plan, with the options that were given for its check.

    A plan that ktui has made from an intention lets urgent partitions go first.

    Args:
        output: the plan's file; None for a pipe.
        run: the name of the run, where no file names it.
        allowed: what the plan has to be allowed.
        how: the cluster and the limits.
    """
    plan = ["-", "--name", run] if output is None else [str(output)]
    limits = (word for name, value in how.limits.items() for word in (f"--{name}", str(value)))
    named = options_of_names(how.choice._asdict())
    throttle = given_options(_OF_THROTTLE)
    words = [*plan, *named, URGENT_FIRST, *limits, *throttle, *_allowances(allowed)]
    return f"ktui start {shlex.join(words)}{state_option(how.state)}"


def _allowances(allowed: Allowances) -> Iterable[str]:
    if allowed.replication_factor_change:
        yield Option.REPLICATION_FACTOR_CHANGE.value
    if allowed.below_min_isr:
        yield Option.BELOW_MIN_ISR.value
    if allowed.slow:
        yield Option.SLOW.value
