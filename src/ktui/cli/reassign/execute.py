"""`ktui reassign --execute`: submit all of a reassignment, at once or in batches (KIP-1335)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from operator import attrgetter
from pathlib import Path

import click
import msgspec

from ktui.cli.context.cluster import warn_of_tls
from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.reassign import printed
from ktui.cli.reassign.cancel import cancel_listed
from ktui.cli.reassign.command import IGNORES_ROOM, Arguments
from ktui.cli.reassign.files import ReassignmentFile, check_executable, format_assignment
from ktui.cli.reassign.log_dirs import LogDirThrottle, begin_moves, check_moves, known_dirs
from ktui.cli.reassign.plan_throttles import lists_without_room
from ktui.cli.reassign.printed import ActionFailed, ReassignProblem
from ktui.cli.reassign.reading import cluster_choice, describe_existing, reassignment_file
from ktui.cli.reassign.submit import (
    RunsPlace,
    Submission,
    check_not_live,
    left_runs,
    runs_place,
    settle,
    submit,
)
from ktui.cli.start.command import command as start
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import ClusterDescription, ClusterReader, Setting
from ktui.cluster.settings import REPLICAS, SettingKey, parse_throttled_list, topic_resource
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits, LimitsProblem, Mode, Shape, parse_limits
from ktui.planning.check.findings import Option
from ktui.planning.plan import PartitionTarget, Plan, join_some
from ktui.planning.throttle_rates import KB, NO_THROTTLE, ThrottleRates
from ktui.preview.throttle_findings import slower_than_a_fetch
from ktui.quantities import as_count


class _Seen(msgspec.Struct, frozen=True):
    cluster: ClusterDescription
    listed: Mapping[TopicPartition, Reassignment]
    states: Mapping[TopicPartition, PartitionState]
    dirs: Mapping[Replica, str]


def execute(arguments: Arguments) -> None:
    """Print the present assignment, and submit a reassignment."""
    if arguments.has("as-run"):  # `ktui start` reads the file, and a pipe can be read but once
        _rates(arguments)
        start_as_run(arguments)
        return
    file = reassignment_file(arguments)
    check_executable(file)
    limits, rates = _limits(arguments), _rates(arguments)
    dir_rate = arguments.number("replica-alter-log-dirs-throttle")
    full_dirs, timeout_s = arguments.has(IGNORES_ROOM), arguments.number("timeout") / 1000
    target = cluster_choice(arguments).target()
    seen = asyncio.run(_read(target.cluster.reader(), file, additional=arguments.has("additional")))
    place = runs_place(arguments, target, seen.cluster.cluster_id)
    before = _before(seen, [*left_runs(place)])
    click.echo(printed.assignment_for_rollback(format_assignment(before, seen.dirs)))
    warn_of_tls(target.cluster)
    _refuse(place, file)
    if file.log_dirs:
        target.cluster.ask(
            lambda reader: check_moves(reader, file.log_dirs, seen.states, full_dirs=full_dirs)
        )
    if rates or dir_rate >= 0:
        click.echo(printed.THROTTLE_WARNING)
    _warn_of_low(rates)
    refused = _other_factors(file, seen) if arguments.has(_SAME_FACTOR) else {}
    targets = {tp: replicas for tp, replicas in file.replicas.items() if tp not in refused}
    left = _settled(place)
    if rates:
        check_one_throttle(place.state, place.cluster_id, "" if left is None else left.name)
        asyncio.run(_check_lists(place, targets, before, left, limits.partitions))
    foreign = [tp for tp in targets if tp in seen.listed and not _in_flight_in(left, tp)]
    cancelled = asyncio.run(cancel_listed(place, foreign, unless=targets))
    refused |= cancelled.refused
    same = cancelled.left_alone
    _say_on_their_way(same)
    submission = Submission(
        plan=Plan(
            tuple(
                PartitionTarget(tp.topic, tp.partition, replicas)
                for tp, replicas in targets.items()
                if tp not in refused and tp not in same
            )
        ),
        plan_name=Path(arguments.text("reassignment-json-file") or "").name,
        limits=limits,
        throttle=rates,
        poll_s=arguments.number("reassignment-poll-interval-ms") / 1000,
    )
    if submission.plan.partitions:
        refused |= _submit(place, submission, left, foreign)
    taken = [each.tp for each in submission.plan.partitions if each.tp not in refused]
    if rates and taken:
        click.echo(printed.replication_throttle_set(rates.every or 0))
    if refused:
        _say_started(taken)
        raise ActionFailed(printed.reassignments_refused(refused))
    if dir_rate >= 0:
        _throttle_log_dirs(place, file, dir_rate, taken)
    click.echo(printed.reassignments_started(file.replicas))
    if file.log_dirs:
        asyncio.run(_move_log_dirs(place, file, seen, timeout_s, full_dirs=full_dirs))


_SAME_FACTOR = "disallow-replication-factor-change"


def _limits(arguments: Arguments) -> Limits:
    size = arguments.number("reassignment-batch-size")
    mode = Mode.ROLLING if arguments.has("incremental") or not size else Mode.WAVE
    try:
        return parse_limits({"partitions": size or None}, Limits(shape=Shape.WHOLE, mode=mode))
    except LimitsProblem as problem:
        raise ReassignProblem(f"--reassignment-batch-size {size}: {problem}") from None


def _rates(arguments: Arguments) -> ThrottleRates:
    bytes_s = arguments.number("throttle")
    if bytes_s == 0:
        raise ReassignProblem("--throttle 0 lets nothing through. Give a rate above 0")
    return ThrottleRates(bytes_s) if bytes_s > 0 else NO_THROTTLE


def _warn_of_low(rates: ThrottleRates) -> None:
    """Warn of a rate that may be meant in another unit: the option takes bytes a second."""
    rate = rates.every
    if rate is not None and (low := slower_than_a_fetch(rate, "into each broker")):
        meant = f"--throttle {rate * 1_000_000}" if rate < KB else "a higher rate"
        print_note(f"warning: {low}. It is in bytes a second: did you mean {meant}?")


async def _read(reader: ClusterReader, file: ReassignmentFile, *, additional: bool) -> _Seen:
    async with aclosing(reader):
        listed = await reader.list_reassignments()
        if listed and not additional:
            raise ActionFailed(printed.EXISTING_REASSIGNMENT)
        cluster = await reader.describe_cluster()
        for broker in sorted({b for replicas in file.replicas.values() for b in replicas}):
            if broker not in cluster.brokers:
                raise ReassignProblem(printed.unknown_broker(broker))
        states = await describe_existing(reader, file.replicas)
        for tp, replicas in file.replicas.items():
            for broker in replicas:
                if broker not in cluster.online and broker not in states[tp].replicas:
                    raise ReassignProblem(printed.unknown_broker(broker))
        present = {tp: state.replicas for tp, state in states.items()}
        return _Seen(cluster, listed, states, await known_dirs(reader, present, cluster.online))


def _throttle_log_dirs(
    place: RunsPlace, file: ReassignmentFile, rate: int, taken: Collection[TopicPartition]
) -> None:
    brokers = {replica.broker for replica in file.log_dirs}

    async def set_rates() -> None:
        async with place.target.cluster.ports() as (reader, writer):
            throttle = LogDirThrottle(place.state, place.cluster_id)
            await throttle.set(reader, writer, brokers, rate)

    try:
        asyncio.run(set_rates())
    except Exception:
        _say_started(taken)
        raise
    click.echo(printed.log_dir_throttle_set(rate))


def _before(seen: _Seen, runs: Collection[Run]) -> dict[TopicPartition, Brokers]:
    """Return the replicas to roll back to: of a moving partition those before its move.

    Kafka has forgotten the order of those; a run of this state directory has not.
    """
    before = {tp: state.replicas for tp, state in seen.states.items()}
    for tp in before.keys() & seen.listed.keys():
        before[tp] = seen.listed[tp].original
        for run in runs:
            track = run.tracks.get(tp)
            if track is not None and {*track.original} == {*before[tp]}:
                before[tp] = track.original
    return before


def _refuse(place: RunsPlace, file: ReassignmentFile) -> None:
    """Refuse what other runs and owners of the cluster forbid."""
    place.check_gate()
    check_not_live(place.state, place.cluster_id, file.replicas)
    asyncio.run(place.check_owner())


async def _move_log_dirs(
    place: RunsPlace, file: ReassignmentFile, seen: _Seen, timeout_s: float, *, full_dirs: bool
) -> None:
    sent = "The reassignment of partitions goes on"
    async with place.target.cluster.ports() as (reader, writer):
        await check_moves(reader, file.log_dirs, seen.states, full_dirs=full_dirs, sent=sent)
        async for line in begin_moves(writer, SystemClock(), file.log_dirs, timeout_s):
            click.echo(line)


def _other_factors(file: ReassignmentFile, seen: _Seen) -> dict[TopicPartition, str]:
    counts = {tp: len(_kept(seen, tp)) for tp in file.replicas}
    return {
        tp: f"The replication factor is changed from {counts[tp]} to {len(replicas)}"
        for tp, replicas in file.replicas.items()
        if counts[tp] != len(replicas)
    }


def _kept(seen: _Seen, tp: TopicPartition) -> Brokers:
    listed = seen.listed.get(tp)
    return seen.states[tp].replicas if listed is None else listed.target


def _settled(place: RunsPlace) -> Run | None:
    """Settle the runs that earlier calls have left; return one that goes on, if there is any."""
    runs = [settle(place, run.name)[0] for run in [*left_runs(place)]]
    return next((run for run in runs if not run.ended), None)


async def _check_lists(
    place: RunsPlace,
    targets: Mapping[TopicPartition, Brokers],
    before: Mapping[TopicPartition, Brokers],
    left: Run | None,
    at_once: int | None,
) -> None:
    """Check that the lists of throttled replicas have room for a plan, before anything is sent."""
    async with aclosing(place.target.cluster.reader()) as reader:
        topics = {topic_resource(tp.topic) for tp in targets}
        found = (await reader.settings(topics, REPLICAS)).settings
    theirs = {
        (topic, name): _listed(settings.get(name)) - _given_up(left, (topic, name), targets)
        for topic, settings in found.items()
        for name in REPLICAS
    }
    full = [*lists_without_room(targets, before, theirs, at_once)]
    if not full:
        return
    full.sort(key=attrgetter("fitting"))
    if fitting := full[0].fitting:
        way = (
            "A run lists only what is in flight: use --as-run, or submit fewer at once: "
            f"--reassignment-batch-size {fitting}"
        )
    else:
        way = "Others have filled it. `ktui doctor` shows which entries are left behind"
    others = as_count(len(full) - 1, "other list")
    rest = f"; {others} cannot hold the plan either" if len(full) > 1 else ""
    raise RunRefused(f"{full[0].sentence}{rest}. Nothing was sent. {way}")


def _listed(setting: Setting | None) -> frozenset[str]:
    return parse_throttled_list("" if setting is None else setting.value)


def _given_up(
    left: Run | None, key: SettingKey, targets: Mapping[TopicPartition, Brokers]
) -> frozenset[str]:
    """Return the entries of a left run for partitions of the plan: their moves end first."""
    ours = None if left is None else left.throttled.ours.get(key)
    numbers = {str(tp.partition) for tp in targets if tp.topic == key[0].name}
    mine = () if ours is None else ours.values
    return frozenset(entry for entry in mine if entry.partition(":")[0] in numbers)


def _say_started(partitions: Collection[TopicPartition]) -> None:
    """Name what goes on although the call fails."""
    if partitions:
        print_note(f"started: {join_some(partitions)}")


def _say_on_their_way(partitions: Collection[TopicPartition]) -> None:
    if partitions:
        print_note(
            f"someone else moves {join_some(partitions)} to the same replicas: that goes on as it "
            "is, without a throttle of this call"
        )


def _submit(
    place: RunsPlace,
    submission: Submission,
    left: Run | None,
    cancelled: Collection[TopicPartition],
) -> dict[TopicPartition, str]:
    """Submit, and say what was cancelled for it if that fails."""
    try:
        return submit(place, submission, left)
    except RunProblem:
        if cancelled:
            print_note(f"cancelled before that: {join_some(cancelled)}, moved by someone else")
        raise


def _in_flight_in(run: Run | None, tp: TopicPartition) -> bool:
    return run is not None and tp in run.tracks_in_flight


_SAME = ("bootstrap-server", "command-config", "context", "state-dir")
_FLAGS = ("take-over", "no-ownership")


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
    for name in _SAME:
        value = arguments.text(name)
        words += [] if value is None else [f"--{name}", value]
    words += [f"--{name}" for name in _FLAGS if arguments.has(name)]
    if not arguments.has("disallow-replication-factor-change"):
        words.append("--allow-replication-factor-change")
    if (rate := arguments.number("throttle")) > 0:
        words += ["--throttle", str(rate), Option.SLOW]
    if size := arguments.number("reassignment-batch-size"):
        mode = "rolling" if arguments.has("incremental") else "wave"
        words += ["--partitions", str(size), "--mode", mode]
    if arguments.has("additional"):
        words.append("--concurrent")
    return words
