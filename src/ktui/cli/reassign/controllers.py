"""--list, --cancel and --cancel-all with --bootstrap-controller: controllers in place of brokers.

A controller knows reassignments only. So a cancel is not followed to its end, throttles stay as
they are, and nobody can be asked who owns the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import click

from ktui.cli.context.cluster import choose_cluster
from ktui.cli.context.terminal import print_note
from ktui.cli.reassign.command import CONTROLLER, Arguments
from ktui.cli.reassign.reading import reassignment_file, state_of
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.engine.requests import READ_STALE_S
from ktui.execution.foreign_cancels import CancelLog, ForeignOutcome, ListedReassignment, Settled
from ktui.execution.host.ownership import this_process
from ktui.kafka.capabilities import Controllers
from ktui.ops.reassign.runs import check_not_live
from ktui.ops.reassign.tool import (
    CANCELLED,
    NO_MOVES_TO_CANCEL,
    NOT_CANCELLED,
    NOTHING_TO_CANCEL,
    UNSUPPORTED_BY_CONTROLLER,
    ActionFailed,
    ReassignProblem,
    errors_text,
    line,
    reassignments_text,
)

NOT_CHECKED = (
    "controllers do not report which replicas are in sync: where only added ones are, a cancel "
    "loses data. Where brokers answer, cancel with --bootstrap-server"
)
_OVER = WriteResult(
    Verdict.REFUSED, message="It is over by now, or on its way to other replicas. See --list"
)
_OUTCOMES = {
    Verdict.ACCEPTED: ForeignOutcome.STOPPED,
    Verdict.REFUSED: ForeignOutcome.REFUSED,
    Verdict.UNKNOWN: ForeignOutcome.UNKNOWN,
}

Listed = Mapping[TopicPartition, Reassignment]


def list_reassignments(arguments: Arguments) -> None:
    """Print every reassignment of the cluster."""
    click.echo(reassignments_text(_read(arguments)[1]))


def cancel(arguments: Arguments) -> None:
    """Cancel those reassignments of a file that are under way."""
    file = reassignment_file(arguments)
    cluster_id, listed = _read(arguments)
    _cancel(arguments, cluster_id, {tp: listed[tp] for tp in file.replicas if tp in listed})
    if file.log_dirs:
        raise ReassignProblem(UNSUPPORTED_BY_CONTROLLER)
    click.echo(NO_MOVES_TO_CANCEL)


def cancel_all(arguments: Arguments) -> None:
    """Cancel every reassignment of the cluster."""
    _cancel(arguments, *_read(arguments))


def _controllers(arguments: Arguments) -> Controllers:
    config = arguments.text("command-config")
    path = None if config is None else Path(config)
    return Controllers(choose_cluster(arguments.text(CONTROLLER), path, None).connection)


def _read(arguments: Arguments) -> tuple[str, Listed]:
    async def read() -> tuple[str, Listed]:
        async with aclosing(_controllers(arguments)) as controllers:
            return await controllers.cluster_id(), await controllers.list_reassignments()

    return asyncio.run(read())


def _cancel(arguments: Arguments, cluster_id: str, active: Listed) -> None:
    if not active:
        click.echo(NOTHING_TO_CANCEL)
        return
    state = state_of(arguments)
    check_not_live(state, cluster_id, active)
    print_note(NOT_CHECKED)
    log = CancelLog(state, cluster_id, this_process().short, SystemClock())
    results = asyncio.run(_send(_controllers(arguments), active, log))
    errors = {tp: _error(r) for tp, r in results.items() if r.verdict is not Verdict.ACCEPTED}
    if errors:
        raise ActionFailed(errors_text(NOT_CANCELLED, errors))
    click.echo(line(CANCELLED, active))
    print_note("throttles stay as they are: controllers do not have those of brokers")


async def _send(
    controllers: Controllers, active: Listed, log: CancelLog
) -> Mapping[TopicPartition, WriteResult]:
    """Cancel what is still listed as it was, and log each cancel and its outcome."""
    async with aclosing(controllers):
        listed = await controllers.list_reassignments()
        moves = {
            tp: ListedReassignment(tp=tp, topic_id=None, original=move.original, target=move.target)
            for tp, move in sorted(active.items())
            if tp in listed and listed[tp].target == move.target
        }
        if not moves:
            return dict.fromkeys(active, _OVER)
        log.write_asked(moves.values())
        results = await controllers.cancel(moves, leaves_within_s=READ_STALE_S)
    for tp, result in results.items():
        log.note_outcome(moves[tp], Settled(_OUTCOMES[result.verdict], detail=_error(result)))
    log.write_outcomes()
    return {**dict.fromkeys(active, _OVER), **results}


def _error(result: WriteResult) -> str:
    if result.verdict is Verdict.ACCEPTED:
        return ""
    return result.message or result.code or "Kafka's answer was lost: see --list"
