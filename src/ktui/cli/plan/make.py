"""Make a plan of an intent: read the cluster, choose, check, write. Sends nothing."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options.limits import GivenLimits, complete_limits
from ktui.cli.options.plan import BAD_PLAN
from ktui.cli.output.plan_report import finding_lines
from ktui.cli.plan.check_options import CheckOptions, start_command
from ktui.cli.plan.from_run import output_plan
from ktui.cli.plan.made_report import Made, left_lines, made_json, made_text
from ktui.cli.plan.make_options import MakeOptions, weighted, wishes_of
from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import default_name
from ktui.pacing.limits import INTERNAL, Limits, Order, Shape
from ktui.planning.check.findings import Allowances
from ktui.planning.intents.before_after import before_after
from ktui.planning.intents.layout import (
    Layout,
    LayoutAnswer,
    rack_warnings,
    read_layout,
    unread_warnings,
)
from ktui.planning.intents.made_plan import CannotMake, Internal, MadePlan, Wishes
from ktui.planning.intents.registry import Intent, Values
from ktui.planning.plan import Plan

NOT_ALL = 3
"""The exit code of a plan that leaves something of the intention undone."""


def make_plan(
    intent: Intent,
    values: Values,
    wanted: MakeOptions,
    how: CheckOptions,
    *,
    allowed: Allowances,
    topics_by: str,
) -> NoReturn:
    """Make a plan, write it with its summary, and end the program.

    Args:
        intent: what is wanted.
        values: the values of its fields.
        wanted: what may be changed, how much, and where the plan goes.
        how: how the plan would be carried out.
        allowed: what such a plan may do without being asked.
        topics_by: the option or argument that names topics.

    Raises:
        BadInput: the intent does not fit the cluster, or there is nothing to do.
        ClusterError: the cluster cannot be read.
    """
    cluster = how.choice.cluster()
    answer = asyncio.run(_read(cluster))
    layout = weighted(answer.layout, wanted)
    wishes = wishes_of(wanted, layout, topics_by)
    if not wanted.json:
        for line in unread_warnings(answer.failures):
            print_note(line)
        for line in rack_warnings(layout) if wanted.rack_aware is None else ():
            print_note(line)
    words, amount = intent.words(values), intent.amount(values)
    made = _make(intent, values, layout, wishes)
    in_force = complete_limits(cluster.context.limits, how.limits)
    limits = in_its_order(how.limits, made.plan, in_force, wanted.internal)
    how = msgspec.structs.replace(how, limits=limits)
    name = wanted.output or Path(intent.run_name(values))
    run = default_name(name)
    whole = Made(
        words=words,
        amount=amount,
        wishes=wishes,
        made=made,
        failures=answer.failures,
        change=before_after(layout, made.plan),
        preview=how.check(
            made.plan,
            cluster,
            source=clean(str(name)),
            run=run,
            # nothing is started here: `ktui start` refuses a rate that is too low
            allowed=msgspec.structs.replace(allowed, slow=True),
        ),
        start=start_command(wanted.output, run, allowed, how),
    )
    _write(whole, wanted)
    sys.exit(NOT_ALL if made.left else 0)


async def _read(cluster: Cluster) -> LayoutAnswer:
    async with aclosing(cluster.reader()) as reader:
        return await read_layout(reader)


def _make(intent: Intent, values: Values, layout: Layout, wishes: Wishes) -> MadePlan:
    """Make a plan that changes something."""
    try:
        made = intent.make(layout, values, wishes)
    except CannotMake as problem:
        raise BadInput(str(problem)) from None
    if made.plan.partitions:
        return made
    for line in left_lines(made.left, intent.amount(values)):
        print_note(line)
    raise BadInput(f"{intent.words(values)}: nothing can be done, so there is no plan")


def in_its_order(
    given: GivenLimits, plan: Plan, in_force: Limits, internal: Internal = Internal.LAST
) -> GivenLimits:
    """Let a run follow the order of a plan with some of Kafka's own topics: first, or last.

    Args:
        given: the limits by option.
        plan: the plan, which has these topics first or last.
        in_force: the limits of the options, completed.
        internal: where the plan has these topics.
    """
    if not any(each.topic in INTERNAL_TOPICS for each in plan.partitions):
        return given
    if in_force.shape is Shape.GENTLE:
        return given if in_force.internal == internal.value else {**given, INTERNAL: internal.value}
    return given if "order" in given else {**given, "order": Order.PLAN.value}


def _write(whole: Made, wanted: MakeOptions) -> None:
    """Write a plan and its summary. A plan with a problem is only shown, and only with --json."""
    if wanted.json:
        click.echo(made_json(whole))
    if whole.preview.problems:
        for line in () if wanted.json else finding_lines(whole.preview):
            print_note(line)
        print_note(f"ktui: {whole.words}: such a plan cannot be started, so none is written")
        sys.exit(BAD_PLAN)
    if wanted.output is not None or not wanted.json:
        output_plan(whole.made.plan, wanted.output)
    if not wanted.json:
        print_note(made_text(whole))
