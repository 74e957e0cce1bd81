"""The actions that change the cluster, or may: --execute, --verify, --cancel and the like."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from ktui.cli.context.claim import AS_CONTEXT, OwnerChoice, check_owner, claim_request
from ktui.cli.context.cluster import ClusterChoice, Target, warn_of_tls
from ktui.cli.context.terminal import FAILED, BadInput, print_note
from ktui.cli.output.cluster_facts import cancel_cluster_options, check_gate_open
from ktui.cli.process import Launch, launch_left_run, launch_new_run
from ktui.cli.reassign.command import BATCH_SIZE, POLL_INTERVAL, Arguments
from ktui.cli.reassign.options import Action
from ktui.cli.reassign.reading import cluster_choice, reassignment_file, state_of
from ktui.cli.start.command import command as start
from ktui.cluster.asking import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.execution.engine.gates import Leaving
from ktui.execution.host.ownership import CancelGateFile, shut_gate_in_words
from ktui.execution.host.state_dir import StateDir
from ktui.ops.reassign.execute import Execution, cancel_moves, describe, read_before
from ktui.ops.reassign.execute import cancel as call_off
from ktui.ops.reassign.log_dirs import IGNORES_ROOM, read_dirs
from ktui.ops.reassign.runs import Request, RunsPlace
from ktui.ops.reassign.throttles import FOREIGN, Foreign, Over, clear_throttles
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
    described, listed = await read_cluster_and_reassignments(reader)
    topics = await describe(reader, {tp.topic for tp in targets if tp not in listed})
    replicas = {tp: state.replicas for tp, state in topics.partitions.items()}
    dirs = await read_dirs(reader, file.log_dirs, described.online)
    moves = verified_log_dirs(file.log_dirs, dirs.current, dirs.future)
    found = verified_partitions(targets, listed, replicas)
    return described.cluster_id, {**listed}, found, [*moves.values()]


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
