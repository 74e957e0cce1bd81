"""A new run: its options, its check against its cluster, its dry run, and its start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from ktui.cli.context.claim import OwnerChoice, ownership_options
from ktui.cli.context.cluster import ClusterChoice, Target, cluster_options, warn_of_tls
from ktui.cli.context.option import GroupedCommand, add_option
from ktui.cli.context.terminal import BAD_INPUT, print_note
from ktui.cli.follow import is_headless, show_run
from ktui.cli.options import common
from ktui.cli.options.outward import with_event_command
from ktui.cli.options.plan import allowance_options, rate_option, read_plan_argument
from ktui.cli.options.run import (
    RunChoices,
    concurrent_option,
    headless_option,
    run_choices,
    run_options,
    schedule_options,
    until_option,
)
from ktui.cli.options.throttle import throttle_options
from ktui.cli.output.json_form import encode
from ktui.cli.output.plan_check import fact_reader, finding_lines, report
from ktui.cli.process import Launch, launch_new_run
from ktui.cluster.text import clean
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir, default_name
from ktui.execution.run.options import NO_SCHEDULE, Schedule, local_minute
from ktui.execution.run.text import replica_list_text, schedule_text
from ktui.ops.start import CheckedRun, check_run
from ktui.pacing.situation import Decision
from ktui.planning.check.findings import Allowances
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
    """A run, simulated before its start: its plan's preview, and its batches. Times are in UTC."""

    run: str
    until: datetime | None
    schedule: Schedule
    begins_at: datetime | None
    """When steps may begin next; None if they may now, but for the command."""
    ends_at: datetime | None  # when the run is expected to have ended; None where that is not known
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
        signs = [f"+{broker}" for broker in step.adding] + [f"-{b}" for b in step.removing]
        elects = [] if step.elect is None else [f"elect {step.elect}"]
        words = "  ".join([replica_list_text(step.replicas), *signs, *elects])
        yield f"  {step.topic}-{step.partition}  {words}"


class StartOptions(RunChoices, frozen=True, kw_only=True):
    """How a run is to be started."""

    dry_run: bool
    headless: bool
    json: bool
    ownership: OwnerChoice
    state: StateDir


start_options = run_choices(
    StartOptions,
    throttle_options,
    run_options,
    schedule_options,
    until_option,
    rate_option,
    add_option("--dry-run", "Show what would be sent, and send nothing."),
    headless_option,
    add_option("--json", "Print each event as a line of JSON."),
    concurrent_option,
    ownership_options,
    common.state_dir_option,
)


def check_new_run(new: NewRun, target: Target, how: StartOptions) -> CheckedRun:
    """Read the cluster for a run, and check the run against it."""
    options = with_event_command(new.options, target.cluster.context.on_event)
    new = msgspec.structs.replace(new, options=options)
    cluster, names = target.cluster, target.names if how.dry_run else None
    return cluster.ask(
        lambda reader: check_run(
            new, fact_reader(cluster, reader, how.state, names, how.ownership), how.now
        )
    )


def show_dry_run(checked: CheckedRun, *, json: bool) -> NoReturn:
    """Print what a run would send, and end the program."""
    dry_run = dry_run_of(checked)
    click.echo(encode(dry_run) if json else dry_run_text(dry_run))
    sys.exit(BAD_INPUT if dry_run.problems else 0)


def report_findings(checked: CheckedRun) -> None:
    """Print the findings. End the program on a problem, or with nothing to do."""
    preview = checked.preview
    for line in finding_lines(preview):
        print_note(line)
    if preview.problems:
        print_note("nothing was sent")
        sys.exit(BAD_INPUT)
    if preview.idle:
        print_note("nothing to do")
        sys.exit(0)


def carry_out(
    checked: CheckedRun,
    target: Target,
    how: StartOptions,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Start a run after `before`, once nothing forbids it; show it, and return the exit code."""
    new, cluster_id = checked.new, checked.facts.cluster_id
    launch = Launch.on(
        target,
        how.state,
        cluster_id,
        new.name,
        how.ownership,
        until=new.until,
        concurrent=new.concurrent,
    )
    first = new.first_events(checked.facts, target.names)
    return show_run(
        lambda: launch_new_run(launch, first, before),
        target,
        how.state,
        headless=is_headless(headless=how.headless, json=how.json),
        json=how.json,
    )


@click.command("start", cls=GroupedCommand)
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@add_option("--name RUN", "Name of the run. Default: that of the plan's file.")
@allowance_options
@start_options
def command(
    path: Path, choice: ClusterChoice, *, name: str | None, allowed: Allowances, how: StartOptions
) -> None:
    """Carry out PLAN, a few replicas at a time, under limits that you can change meanwhile.

    The run goes on without the terminal. Interrupt it once, and it submits nothing more and waits
    for the steps in flight. Interrupt it twice, and the engine leaves at once. Either way,
    `ktui resume` continues the run.

    Exit code 0 when all is done, 3 when some partitions are not at their target, 1 when a failure
    stopped the run, 2 when nothing was sent, 130 when the run was left.
    """
    source, plan = read_plan_argument(path)
    run = name or default_name(path)
    if not how.dry_run:
        how.state.free_name(run)
    target = choice.target()
    warn_of_tls(target.cluster)
    new = how.new_run(
        target.cluster.context,
        run,
        plan,
        plan_name=clean(path.name),
        allowed=allowed,
        source=source,
    )
    checked = check_new_run(new, target, how)
    if how.dry_run:
        show_dry_run(checked, json=how.json)
    report_findings(checked)
    sys.exit(carry_out(checked, target, how))
