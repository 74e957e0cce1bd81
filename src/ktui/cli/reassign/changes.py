"""The actions that change the cluster, or may: --execute, --verify and the like; `ktui verify`."""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from ktui.cli.context.claim import AS_CONTEXT, OwnerChoice, check_owner, claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice, Target, cluster_options, warn_of_tls
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import FAILED, NOT_ALL_DONE, BadInput, print_note
from ktui.cli.options import common
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.output.json_form import encode_record
from ktui.cli.output.plan_check import cancel_cluster_options, check_gate_open
from ktui.cli.process import Launch, launch_left_run, launch_new_run
from ktui.cli.reassign.command import BATCH_SIZE, POLL_INTERVAL, Arguments
from ktui.cli.reassign.options import Action
from ktui.cli.reassign.reading import cluster_choice, reassignment_file, state_of
from ktui.cli.start import command as start
from ktui.cluster.asking import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader
from ktui.cluster.text import clean
from ktui.columns import column, table_of
from ktui.execution.engine.gates import Leaving
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.foreign_cancels import ForeignCancelLine, ForeignOutcome, read_cancels
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import CancelGateFile, shut_gate_in_words
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.ops.reassign.execute import Execution, cancel_moves, describe, read_before
from ktui.ops.reassign.execute import cancel as call_off
from ktui.ops.reassign.log_dirs import IGNORES_ROOM, read_dirs
from ktui.ops.reassign.runs import Request, RunsPlace
from ktui.ops.reassign.throttles import FOREIGN, Foreign, Over, clear_throttles
from ktui.ops.reassign.throttles import clear_throttles as put_back
from ktui.ops.reassign.tool import (
    ReassignmentFile,
    ReassignProblem,
    Verified,
    check_executable,
    verified_log_dirs,
    verified_partitions,
)
from ktui.pacing.limits import Limits, LimitsProblem, Mode, Shape, parse_limits
from ktui.planning.check.findings import Option
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.quantities import as_count

PROGRAM = "ktui reassign"


def runs_place(
    choice: ClusterChoice,
    target: Target,
    state: StateDir,
    cluster_id: str,
    ownership: OwnerChoice = AS_CONTEXT,
) -> RunsPlace:
    """Return where the runs of a command line are."""
    cluster, names = target.cluster, target.names

    def launch(name: str, leave: Leaving) -> Launch:
        # what only ends things goes on even while nobody can be asked who owns the cluster
        ends = leave is Leaving.SETTLED
        return Launch(
            state=state,
            name=name,
            cluster_id=cluster_id,
            names=names,
            record=False,
            owner=claim_request(cluster, state, cluster_id, PROGRAM, ownership, only_ends=ends),
            leave=leave,
        )

    async def check() -> None:
        choice.target()  # the context may be read-only
        await check_owner(cluster, state, cluster_id, PROGRAM, ownership)

    return RunsPlace(
        state=state,
        cluster_id=cluster_id,
        names=names,
        ports=cluster.ports,
        start_new=lambda name, leave, first: launch_new_run(launch(name, leave), first),
        start_left=lambda name, leave, ask: launch_left_run(launch(name, leave), ask),
        check_gate=lambda: check_gate_open(state, cluster_id, cancel_cluster_options(names)),
        check_owner=check,
        say=click.echo,
        note=print_note,
    )


def _place(arguments: Arguments, target: Target, cluster_id: str) -> RunsPlace:
    ownership = OwnerChoice(arguments.has("take-over"), arguments.has("no-ownership"))
    choice, state = cluster_choice(arguments), state_of(arguments)
    return runs_place(choice, target, state, cluster_id, ownership)


def execute(arguments: Arguments) -> None:
    """Print the present assignment, and submit a reassignment."""
    if arguments.has("as-run"):  # `ktui start` reads the file, and a pipe can be read but once
        _rates(arguments)
        start_as_run(arguments)
        return
    file = reassignment_file(arguments)
    check_executable(file)
    request = Request(
        file=file,
        plan_name=Path(arguments.text("reassignment-json-file") or "").name,
        limits=_limits(arguments),
        rates=_rates(arguments),
        dir_rate=arguments.number("replica-alter-log-dirs-throttle"),
        poll_s=arguments.number(POLL_INTERVAL) / 1000,
        timeout_s=arguments.number("timeout") / 1000,
        additional=arguments.has("additional"),
        same_factor=arguments.has(_SAME_FACTOR),
        full_dirs=arguments.has(IGNORES_ROOM),
    )
    target = cluster_choice(arguments).target()
    seen = target.cluster.ask(lambda reader: read_before(reader, request))
    place = _place(arguments, target, seen.cluster.cluster_id)
    warn_of_tls(target.cluster)
    Execution(place, request, seen).carry_out()


_SAME_FACTOR = "disallow-replication-factor-change"


def _limits(arguments: Arguments) -> Limits:
    size = arguments.number(BATCH_SIZE)
    mode = Mode.ROLLING if arguments.has("incremental") or not size else Mode.WAVE
    try:
        return parse_limits({"partitions": size or None}, Limits(shape=Shape.WHOLE, mode=mode))
    except LimitsProblem as problem:
        raise ReassignProblem(f"--{BATCH_SIZE} {size}: {problem}") from None


def _rates(arguments: Arguments) -> ThrottleRates:
    bytes_s = arguments.number("throttle")
    if bytes_s == 0:
        raise ReassignProblem("--throttle 0 lets nothing through. Give a rate above 0")
    return ThrottleRates(bytes_s) if bytes_s > 0 else NO_THROTTLE


def start_as_run(arguments: Arguments) -> None:
    """Start a run of the file, with the limits of the context, and follow it to its end.

    The exit code is 1 where `ktui start` has another one than 0; it has said why.
    """
    try:
        start.main(_start_words(arguments), "ktui start", standalone_mode=False)
    except SystemExit as ended:
        raise click.exceptions.Exit(FAILED if ended.code else 0) from None
    except click.UsageError as wrong:  # such as a file that is a name of an option
        raise BadInput(wrong.format_message()) from None


def _start_words(arguments: Arguments) -> list[str]:
    words = [arguments.text("reassignment-json-file") or ""]
    for name in ("bootstrap-server", "command-config", "context", "state-dir"):
        value = arguments.text(name)
        words += [] if value is None else [f"--{name}", value]
    words += [f"--{name}" for name in ("take-over", "no-ownership") if arguments.has(name)]
    if not arguments.has(_SAME_FACTOR):
        words.append("--allow-replication-factor-change")
    if (rate := arguments.number("throttle")) > 0:
        words += ["--throttle", str(rate), Option.SLOW]
    if size := arguments.number(BATCH_SIZE):
        mode = "rolling" if arguments.has("incremental") else "wave"
        words += ["--partitions", str(size), "--mode", mode]
    if arguments.has("additional"):
        words.append("--concurrent")
    return words


def verify(arguments: Arguments) -> None:
    """Print the state of each partition of a file, and remove throttles that are over."""
    file, choice = reassignment_file(arguments), cluster_choice(arguments)
    targets = file.replicas
    cluster_id, listed, found, moves = choice.cluster().ask(partial(_verified, file))
    click.echo("\n".join(["Status of partition reassignment:", *(v.line for v in found.values())]))
    click.echo("\n".join(each.line for each in moves))  # as there: also without any
    done = {tp for tp, each in found.items() if each.done}
    over = Over(done, log_dirs=all(each.done for each in moves), listed=listed)
    target = choice.target(changes=False)
    _clear(arguments, target, _place(arguments, target, cluster_id), targets, over)


Listed = dict[TopicPartition, Reassignment]


async def _verified(
    file: ReassignmentFile, reader: ClusterReader
) -> tuple[str, Listed, dict[TopicPartition, Verified], list[Verified]]:
    targets = file.replicas
    described, states, listed = await _read_plan(targets, reader)
    replicas = {tp: state.replicas for tp, state in states.items()}
    dirs = await read_dirs(reader, file.log_dirs, described.online)
    moves = verified_log_dirs(file.log_dirs, dirs.current, dirs.future)
    found = verified_partitions(targets, listed, replicas)
    return described.cluster_id, listed, found, [*moves.values()]


async def _read_plan(
    targets: Collection[TopicPartition], reader: ClusterReader
) -> tuple[ClusterDescription, Mapping[TopicPartition, PartitionState], Listed]:
    """Read the partitions of a plan: those that move as they are listed, others as described."""
    described, listed = await read_cluster_and_reassignments(reader)
    answer = await describe(reader, {tp.topic for tp in targets if tp not in listed})
    return described, answer.partitions, {**listed}


def _clear(
    arguments: Arguments,
    target: Target,
    place: RunsPlace,
    targets: dict[TopicPartition, Brokers],
    over: Over,
) -> None:
    if arguments.has("preserve-throttles"):
        return
    if target.cluster.context.read_only:
        place.note(f"the context of {target.cluster.name} is read_only: throttles stay as they are")
        return
    foreign = Foreign.KEPT if arguments.action is Action.CANCEL_ALL else Foreign.OF_PLAN
    clear_throttles(place, targets, over, Foreign.ALL if arguments.has(FOREIGN) else foreign)


def cancel(arguments: Arguments) -> None:
    """Cancel those reassignments of a file that are under way, and remove their throttles."""
    file, timeout_s = reassignment_file(arguments), arguments.number("timeout") / 1000
    target, place, listed = _read(arguments)
    active = [tp for tp in file.replicas if tp in listed]
    cleared = call_off(place, active, in_runs=not arguments.has("preserve-throttles"))
    cancel_moves(place, file, timeout_s)
    over = Over(file.replicas, log_dirs=True, cleared=cleared)
    _clear(arguments, target, place, file.replicas, over)


def cancel_all(arguments: Arguments) -> None:
    """Cancel every reassignment of the cluster (KIP-1351), and remove the throttles of our own."""
    target, place, listed = _read(arguments)
    cleared = call_off(place, [*listed], in_runs=True)
    _clear(arguments, target, place, {}, Over((), log_dirs=False, cleared=cleared))


def _read(arguments: Arguments) -> tuple[Target, RunsPlace, Listed]:
    target = cluster_choice(arguments).target(changes=False)
    cluster, listed = target.cluster.ask(read_cluster_and_reassignments)
    return target, _place(arguments, target, cluster.cluster_id), {**listed}


def remove_cancel(arguments: Arguments) -> None:
    """Open the cancel gate of the cluster (KIP-236)."""
    cluster, _ = cluster_choice(arguments).cluster().ask(read_cluster_and_reassignments)
    shut = CancelGateFile(state_of(arguments), cluster.cluster_id).open()
    click.echo(
        "The cancel gate was open." if shut is None else f"Opened: {shut_gate_in_words(shut)}."
    )


_CANCELLED = (State.STOPPED, State.ROLLED_BACK)


_STOPPED = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK)


class _End(NamedTuple):
    at: datetime
    tp: TopicPartition
    cancelled: Brokers | None  # the target that was given up; None if the move was completed


class PlanOutcome(enum.StrEnum):
    """Where a partition of a plan stands."""

    COMPLETED = "completed"  # it has the plan's replicas, in order
    IN_PROGRESS = "in progress"  # it is being reassigned to the plan's replicas
    CANCELLED = "cancelled"  # it has other replicas, and its move to the plan's was cancelled
    DIFFERENT = "different"  # it has other replicas, or is being reassigned to others
    ABSENT = "absent"  # the cluster does not have it


class _PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    tp: TopicPartition
    outcome: PlanOutcome
    target: Brokers
    replicas: Brokers  # in order; with those being added and removed while it moves


def plan_outcomes(
    targets: Mapping[TopicPartition, Brokers],
    states: Mapping[TopicPartition, PartitionState],
    listed: Mapping[TopicPartition, Reassignment],
    cancelled: Mapping[TopicPartition, Brokers],
) -> list[_PartitionOutcome]:
    """Return where partitions stand, in the plan's order; `cancelled` has given-up targets."""
    found = []
    for tp, target in targets.items():
        state, move, outcome = states.get(tp), listed.get(tp), PlanOutcome.DIFFERENT
        replicas = move.replicas if move is not None else () if state is None else state.replicas
        if move is not None:
            outcome = PlanOutcome.IN_PROGRESS if move.target == target else outcome
        elif state is None:
            outcome = PlanOutcome.ABSENT
        elif replicas == target:
            outcome = PlanOutcome.COMPLETED
        elif cancelled.get(tp) == target:
            outcome = PlanOutcome.CANCELLED
        found.append(_PartitionOutcome(tp=tp, outcome=outcome, target=target, replicas=replicas))
    return found


def cancelled_targets(
    runs: Iterable[Run], log: Iterable[ForeignCancelLine]
) -> dict[TopicPartition, Brokers]:
    """Return the target of the last cancelled move of each partition."""
    ends = [
        _End(line.at, TopicPartition(line.topic, line.partition), line.target)
        for line in log
        if line.outcome in _STOPPED
    ]
    ends += [end for run in runs for end in _ends_in_run(run)]
    found: dict[TopicPartition, Brokers] = {}
    for end in sorted(ends, key=attrgetter("at")):
        if end.cancelled is None:
            found.pop(end.tp, None)
        else:
            found[end.tp] = end.cancelled
    return found


def _ends_in_run(run: Run) -> Iterator[_End]:
    for tp, track in run.tracks.items():
        at = track.since or run.started_at
        if at is not None and track.state in _CANCELLED:
            yield _End(at, tp, track.planned.target)
        elif at is not None and track.state is State.DONE:
            yield _End(at, tp, None)


_COLUMNS = (
    column("PARTITION", lambda each: clean(str(each.tp))),
    column("OUTCOME", lambda each: each.outcome.value),
    column("REPLICAS", lambda each: ",".join(map(str, each.replicas)) or "-"),
    column("TARGET", lambda each: ",".join(map(str, each.target))),
)
MOST_ROWS = 100  # partitions in the table; --json has all of them


@click.command("verify")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@common.state_dir_option
@add_option(
    "--clear-throttles",
    "Restore the settings from before the throttles that `ktui reassign` has set for what is "
    "complete.",
)
@common.json_option
def command(
    path: Path, choice: ClusterChoice, *, state: StateDir, clear_throttles: bool, json: bool
) -> None:
    """Show where each partition of PLAN stands: completed, in progress, cancelled or different.

    What was cancelled is known from the runs and the log of cancels of the state directory. PLAN
    is a file in the format of kafka-reassign-partitions, or - for standard input.

    Exit code 0 if all of PLAN is completed, 3 if not.
    """
    _, plan = read_plan_argument(path)
    targets = {each.tp: each.replicas for each in plan.partitions}
    cluster = choice.cluster()
    described, states, listed = cluster.ask(partial(_read_plan, targets))
    cluster_id = described.cluster_id
    log = read_cancels(state, cluster_id)
    ours = [each for each in reversed(all_runs(state)) if each.cluster_id == cluster_id]
    runs = (RunClient(state.run(each.name)).read().run for each in ours)
    cancelled = cancelled_targets(runs, log)
    outcomes = plan_outcomes(targets, states, listed, cancelled)
    click.echo(_json(cluster, outcomes) if json else _text(outcomes))
    if clear_throttles:
        place = runs_place(choice, choice.target(), state, cluster_id)
        place = msgspec.structs.replace(place, say=print_note if json else click.echo)
        over = [each.tp for each in outcomes if each.outcome is not PlanOutcome.IN_PROGRESS]
        put_back(place, targets, Over(over, log_dirs=False, listed=listed), Foreign.KEPT)
    sys.exit(0 if _complete(outcomes) else NOT_ALL_DONE)


def _text(outcomes: Sequence[_PartitionOutcome]) -> str:
    more = len(outcomes) - MOST_ROWS
    lines = [table_of(_COLUMNS, outcomes[:MOST_ROWS])]
    lines += [f"and {more:,} more: see --json"] if more > 0 else []
    counts = (f"{count:,} {outcome.value}" for outcome, count in _counts(outcomes).items() if count)
    return "\n".join([*lines, "", f"{as_count(len(outcomes), 'partition')}: {', '.join(counts)}"])


def _json(cluster: Cluster, outcomes: Sequence[_PartitionOutcome]) -> str:
    partitions = [
        {
            "topic": each.tp.topic,
            "partition": each.tp.partition,
            "outcome": each.outcome,
            "replicas": each.replicas,
            "target": each.target,
        }
        for each in outcomes
    ]
    return encode_record(
        {
            "cluster": cluster.name,
            "complete": _complete(outcomes),
            "counts": _counts(outcomes),
            "partitions": partitions,
        }
    )


def _counts(outcomes: Sequence[_PartitionOutcome]) -> dict[PlanOutcome, int]:
    return {outcome: sum(each.outcome is outcome for each in outcomes) for outcome in PlanOutcome}


def _complete(outcomes: Sequence[_PartitionOutcome]) -> bool:
    return all(each.outcome is PlanOutcome.COMPLETED for each in outcomes)
