"""`ktui add`: add an extra plan to the queue of a live run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from ktui.cli.context.cluster import ClusterChoice, Target, check_same_cluster, cluster_options
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BAD_INPUT, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.plan import allowance_options, read_plan_argument
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.plan_check import check_gate_open, fact_reader, finding_line, report
from ktui.cli.process import answer_json, end_if_refused, print_answer
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.engine.add_plan import CheckedExtraPlan, JoinEffect, join_effects_text
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.launch import rewrite_rollback
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import OnConflict
from ktui.planning.check.findings import Allowances, NeededPermission, Severity
from ktui.preview.preview import PlanPreview


class AddPreview(PlanPreview, frozen=True, kw_only=True):
    """What adding a plan would do: its preview, and the treatment of each partition."""

    run: str
    on_conflict: OnConflict
    counts: dict[JoinEffect, int]
    joinings: tuple[dict[str, object], ...]


def added_json(extra: CheckedExtraPlan, answer: Mapping[str, object] | None) -> str:
    """Return the findings and the engine's answer, for scripts."""
    return encode(
        {
            "schema_version": SCHEMA_VERSION,
            "run": extra.run.name,
            "on_conflict": extra.on_conflict,
            "findings": extra.preview.findings,
            "counts": _counts(extra),
            "answer": answer,  # null if nothing was asked of the engine
        }
    )


def previewed(extra: CheckedExtraPlan, source: str) -> AddPreview:
    """Return what adding a plan would do."""
    preview = msgspec.structs.replace(extra.preview, plan=source)
    return AddPreview(
        **{field: getattr(preview, field) for field in preview.__struct_fields__},
        run=extra.run.name,
        on_conflict=extra.on_conflict,
        counts=_counts(extra),
        joinings=tuple(_joinings(extra)),
    )


def as_text(extra: CheckedExtraPlan, preview: PlanPreview) -> str:
    """Return the preview for people: that of the plan, then its effect on the run."""
    in_run = "\n".join(extra.in_run())
    return "\n\n".join([report(preview), in_run, "Nothing was changed."])


def _counts(extra: CheckedExtraPlan) -> dict[JoinEffect, int]:
    counts = Counter(extra.effects)
    return {how: counts[how] for how in JoinEffect}


def _joinings(extra: CheckedExtraPlan) -> Iterator[dict[str, object]]:
    """Yield what becomes of each partition; state and target are null where the run lacks it."""
    for planned, how in zip(extra.plan.partitions, extra.effects, strict=True):
        track = extra.run.tracks.get(planned.tp)
        yield {
            "topic": planned.topic,
            "partition": planned.partition,
            "joining": how,
            "state": None if track is None else track.state,
            "target": planned.replicas,
            "run_target": None if track is None else track.target,
        }


@click.command("add")
@common.run_argument
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@add_option(
    "--on-conflict",
    "What to do with a partition that the run is moving elsewhere: rollback (default) rolls "
    "it back and then queues it, keep leaves it its old target, retarget cancels its step and "
    "moves it to the new target from there.",
    default=OnConflict.ROLLBACK,
)
@allowance_options
@add_option("--dry-run", "Show the effect on RUN, and change nothing.")
@cluster_options
@common.state_dir_option
@common.json_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    path: Path,
    choice: ClusterChoice,
    *,
    on_conflict: OnConflict,
    allowed: Allowances,
    dry_run: bool,
    state: StateDir,
    json: bool,
) -> None:
    """Add PLAN to RUN, under the limits, the throttle and the pauses of RUN.

    The connection to the cluster is that of the start of RUN, unless an option names another.
    Partitions that are new to RUN join its queue. Partitions that have ended in RUN are queued
    again. Returns once the engine of RUN has answered.

    Exit code 2 if PLAN was refused, 0 also if there was nothing to do.
    """
    client = RunClient.find(state, name)
    found = _unended_run(client, path)
    if client.owner is None:
        raise BadInput(
            f"run {name} has no engine. Start one, then add the plan: ktui resume {name}"
        )
    check_gate_open(state, found.begun.cluster_id, name)
    source, plan = read_plan_argument(path)
    where = choice.or_of_run(found.begun).target(changes=not dry_run)
    need, throttles = _need(found, where), bool(found.run.throttled.rates)
    facts = where.cluster.ask(
        lambda reader: fact_reader(where.cluster, reader, state).read(
            plan, need, throttles=throttles, joins=name
        )
    )
    check_same_cluster(where, facts.cluster_id, found.begun.cluster_id)
    extra = CheckedExtraPlan(
        plan, clean(path.name), found.run, facts, on_conflict, allowed, need=need
    )
    if dry_run:
        preview = previewed(extra, source)
        click.echo(encode(preview) if json else as_text(extra, preview))
        sys.exit(BAD_INPUT if extra.has_problems else 0)
    for finding in extra.preview.findings:
        print_note(finding_line(source, finding))
    if extra.has_problems or extra.idle:
        _end_unchanged(extra, json=json)
    _add(client, extra, path, json=json)


def _unended_run(client: RunClient, path: Path) -> BegunRun:
    found = client.read_begun()
    if found.run.ended:
        raise BadInput(
            f"run {client.name} has ended. Start the plan as a run of its own: "
            f"ktui start {clean(str(path))}"
        )
    return found


def _need(found: BegunRun, where: Target) -> NeededPermission:
    """Return the permissions that the run needs: its engine moves the plan.

    The engine uses the run's connection. If an option names another one here, a permission that
    this one lacks is only a warning.
    """
    same = where.names == found.begun.connection
    severity = Severity.PROBLEM if same else Severity.WARNING
    return NeededPermission(
        subject="this plan",
        moves=severity,
        moved="be added",
        throttles=severity,
        unthrottled=f"lift the throttle of the run: ktui throttle {found.run.name} none",
    )


def _end_unchanged(extra: CheckedExtraPlan, *, json: bool) -> NoReturn:
    """End the program: a problem keeps the plan out, or there is nothing to do."""
    if json:
        click.echo(added_json(extra, None))
    why = f"nothing to do: {join_effects_text(extra.effects)}"
    print_note("the plan was not added" if extra.has_problems else why)
    sys.exit(BAD_INPUT if extra.has_problems else 0)


def _add(client: RunClient, extra: CheckedExtraPlan, path: Path, *, json: bool) -> None:
    number = client.ask(extra.command())
    try:
        answer = client.wait_for_answer(number)
    except RunProblem:
        _unended_run(client, path)  # if it has ended meanwhile, the plan is not added later either
        raise
    if answer.accepted:
        try:
            rewrite_rollback(client.folder)
        except RunProblem as problem:
            print_note(f"warning: {problem}")
    if json:
        click.echo(added_json(extra, answer_json(client.folder, number, answer)))
        end_if_refused(answer)
        return
    print_answer(client.folder, answer)
    click.echo(f"follow it with: ktui status {client.name}")
