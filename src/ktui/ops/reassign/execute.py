"""--execute, --cancel and --cancel-all: all of a reassignment submitted, or called off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ktui.cluster.asking import FreshMetadata, FreshRead
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, Replica, TopicPartition
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterPorts,
    ClusterReader,
    Setting,
    TopicsAnswer,
)
from ktui.cluster.settings import REPLICAS, SettingKey, parse_throttled_list, topic_resource
from ktui.execution import RunProblem, RunRefused
from ktui.execution.foreign_cancels import (
    CancelLog,
    ForeignCancel,
    ForeignOutcome,
    listed_reassignments,
)
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.ops.reassign.log_dirs import (
    LogDirThrottle,
    begin_moves,
    check_moves,
    known_dirs,
    read_dirs,
)
from ktui.ops.reassign.runs import Request, RunsPlace, check_not_live, submit
from ktui.ops.reassign.throttles import lists_without_room
from ktui.ops.reassign.tool import (
    CANCELLED,
    EXISTING_REASSIGNMENT,
    LOG_DIR_THROTTLE_SET,
    NO_MOVES_TO_CANCEL,
    NOT_CANCELLED,
    NOT_STARTED,
    NOTHING_TO_CANCEL,
    STARTED,
    THROTTLE_SET,
    THROTTLE_WARNING,
    UNKNOWN_BROKER,
    UNKNOWN_PARTITIONS,
    UNKNOWN_TOPIC,
    ActionFailed,
    ReassignmentFile,
    ReassignProblem,
    assignment_json,
    errors_text,
    in_order,
    line,
)
from ktui.planning.plan import PartitionTarget, Plan, join_named, join_some
from ktui.planning.throttle_rates import KB
from ktui.preview.throttle_findings import slower_than_a_fetch
from ktui.quantities import as_count

_FRESH_WITHIN_S = 5.0


async def describe(reader: ClusterReader, topics: Collection[str]) -> TopicsAnswer:
    """Describe topics as they are now, where the cluster can prove that."""
    answer, _ = await FreshMetadata(reader, SystemClock()).describe(
        topics, within_s=_FRESH_WITHIN_S
    )
    for failure in answer.failures:
        raise ReassignProblem(failure.sentence)
    return answer


async def describe_all(reader: ClusterReader, topics: Collection[str]) -> TopicsAnswer:
    """Describe topics that have to exist."""
    answer = await describe(reader, topics)
    for topic in in_order(answer.absent):
        raise ReassignProblem(line(UNKNOWN_TOPIC, [topic]))
    return answer


class Seen(msgspec.Struct, frozen=True):
    """The cluster before the reassignment."""

    cluster: ClusterDescription
    listed: Mapping[TopicPartition, Reassignment]
    states: Mapping[TopicPartition, PartitionState]
    dirs: Mapping[Replica, str]


async def read_before(reader: ClusterReader, request: Request) -> Seen:
    """Read the cluster, and check that it has what the file names."""
    targets, listed = request.file.replicas, await reader.list_reassignments()
    if listed and not request.additional:
        raise ActionFailed(EXISTING_REASSIGNMENT)
    cluster = await reader.describe_cluster()
    for broker in sorted({b for replicas in targets.values() for b in replicas}):
        if broker not in cluster.brokers:
            raise ReassignProblem(line(UNKNOWN_BROKER, [broker]))
    answer = await describe_all(reader, {tp.topic for tp in targets})
    if missing := [tp for tp in targets if tp not in answer.partitions]:
        raise ReassignProblem(line(UNKNOWN_PARTITIONS, missing, ", "))
    states = {tp: answer.partitions[tp] for tp in targets}
    for tp, replicas in targets.items():
        for broker in replicas:
            if broker not in cluster.online and broker not in states[tp].replicas:
                raise ReassignProblem(line(UNKNOWN_BROKER, [broker]))
    present = {tp: state.replicas for tp, state in states.items()}
    return Seen(cluster, listed, states, await known_dirs(reader, present, cluster.online))


class Execution:
    """One --execute, once the cluster was read."""

    def __init__(self, place: RunsPlace, request: Request, seen: Seen) -> None:
        self._place, self._request, self._seen = place, request, seen
        self._file, self._rates = request.file, request.rates

    def carry_out(self) -> None:
        place, request, rates = self._place, self._request, self._rates
        before = self._before()
        place.say(
            "Current partition replica assignment\n\n"
            f"{assignment_json(before, self._seen.dirs)}\n\n"
            "Save this to use as the --reassignment-json-file option during rollback"
        )
        place.check_gate()
        check_not_live(place.state, place.cluster_id, self._file.replicas)
        place.act(lambda _: place.check_owner())
        if self._file.log_dirs:
            place.act(self._check_moves)
        if rates or request.dir_rate >= 0:
            place.say(THROTTLE_WARNING)
        self._warn_of_low()
        refused = self._other_factors() if request.same_factor else {}
        targets = {tp: each for tp, each in self._file.replicas.items() if tp not in refused}
        runs = [place.settle(run.name)[0] for run in place.left_runs()]  # those of earlier calls
        left = next((run for run in runs if not run.ended), None)
        if rates:
            check_one_throttle(place.state, place.cluster_id, "" if left is None else left.name)
            self._check_lists(targets, before, left)
        ours = set() if left is None else left.tracks_in_flight.keys()
        foreign = [tp for tp in targets if tp in self._seen.listed and tp not in ours]
        cancelled = cancel_listed(place, foreign, unless=targets)
        refused |= cancelled.refused
        if same := cancelled.left_alone:
            place.note(
                f"someone else moves {join_some(same)} to the same replicas: that goes on as it "
                "is, without a throttle of this call"
            )
        going = {tp: each for tp, each in targets.items() if tp not in refused and tp not in same}
        if going:
            refused |= self._submit(going, left, foreign)
        started = [tp for tp in going if tp not in refused]
        if rates and started:
            place.say(THROTTLE_SET.format(rates.every or 0))
        if refused:
            self._note_started(started)
            raise ActionFailed(errors_text(NOT_STARTED, refused))
        if request.dir_rate >= 0:
            self._throttle_log_dirs(started)
        place.say(line(STARTED, self._file.replicas))
        if self._file.log_dirs:
            place.act(self._move_log_dirs)

    def _before(self) -> dict[TopicPartition, Brokers]:
        """Return the replicas to roll back to: of a moving partition those before its move.

        Kafka has forgotten the order of those; a run of this state directory has not.
        """
        listed, runs = self._seen.listed, [*self._place.left_runs()]
        before = {tp: state.replicas for tp, state in self._seen.states.items()}
        for tp in before.keys() & listed.keys():
            before[tp] = listed[tp].original
            for run in runs:
                track = run.tracks.get(tp)
                if track is not None and {*track.original} == {*before[tp]}:
                    before[tp] = track.original
        return before

    def _warn_of_low(self) -> None:
        """Warn of a rate that may be meant in another unit: the option takes bytes a second."""
        rate = self._rates.every
        if rate is not None and (low := slower_than_a_fetch(rate, "into each broker")):
            meant = f"--throttle {rate * 1_000_000}" if rate < KB else "a higher rate"
            self._place.note(f"warning: {low}. It is in bytes a second: did you mean {meant}?")

    def _other_factors(self) -> dict[TopicPartition, str]:
        kept = {
            tp: self._seen.listed[tp].target if tp in self._seen.listed else state.replicas
            for tp, state in self._seen.states.items()
        }
        return {
            tp: f"The replication factor is changed from {len(kept[tp])} to {len(replicas)}"
            for tp, replicas in self._file.replicas.items()
            if len(kept[tp]) != len(replicas)
        }

    def _check_lists(
        self,
        targets: Mapping[TopicPartition, Brokers],
        before: Mapping[TopicPartition, Brokers],
        left: Run | None,
    ) -> None:
        """Check that the lists of throttled replicas have room for a plan, before all sending."""
        topics = {topic_resource(tp.topic) for tp in targets}
        found = self._place.act(lambda ports: ports.reader.settings(topics, REPLICAS)).settings
        theirs = {
            (topic, name): _listed(settings.get(name)) - _given_up(left, (topic, name), targets)
            for topic, settings in found.items()
            for name in REPLICAS
        }
        at_once = self._request.limits.partitions
        full = sorted(
            lists_without_room(targets, before, theirs, at_once), key=attrgetter("fitting")
        )
        if not full:
            return
        way = "Others have filled it. `ktui doctor` shows which entries are left behind"
        if fitting := full[0].fitting:
            way = (
                "A run lists only what is in flight: use --as-run, or submit fewer at once: "
                f"--reassignment-batch-size {fitting}"
            )
        others = as_count(len(full) - 1, "other list")
        rest = f"; {others} cannot hold the plan either" if len(full) > 1 else ""
        raise RunRefused(f"{full[0].sentence}{rest}. Nothing was sent. {way}")

    def _submit(
        self,
        going: Mapping[TopicPartition, Brokers],
        left: Run | None,
        cancelled: Collection[TopicPartition],
    ) -> dict[TopicPartition, str]:
        """Submit, and say what was cancelled for it if that fails."""
        rows = (PartitionTarget(tp.topic, tp.partition, each) for tp, each in going.items())
        try:
            return submit(self._place, self._request, Plan(tuple(rows)), left)
        except RunProblem:
            if cancelled:
                names = join_some(cancelled)
                self._place.note(f"cancelled before that: {names}, moved by someone else")
            raise

    def _note_started(self, partitions: Collection[TopicPartition]) -> None:
        """Name what goes on although the call fails."""
        if partitions:
            self._place.note(f"started: {join_some(partitions)}")

    def _throttle_log_dirs(self, started: Collection[TopicPartition]) -> None:
        brokers, rate = {each.broker for each in self._file.log_dirs}, self._request.dir_rate
        throttle = LogDirThrottle(self._place.state, self._place.cluster_id)
        try:
            self._place.act(lambda ports: throttle.set(ports, brokers, rate))
        except Exception:
            self._note_started(started)
            raise
        self._place.say(LOG_DIR_THROTTLE_SET.format(rate))

    async def _check_moves(self, ports: ClusterPorts, sent: str = "") -> None:
        states, full_dirs, note = self._seen.states, self._request.full_dirs, self._place.note
        wanted = self._file.log_dirs
        await check_moves(ports.reader, wanted, states, note, full_dirs=full_dirs, sent=sent)

    async def _move_log_dirs(self, ports: ClusterPorts) -> None:
        await self._check_moves(ports, sent="The reassignment of partitions goes on")
        wanted, timeout_s = self._file.log_dirs, self._request.timeout_s
        async for words in begin_moves(ports.writer, SystemClock(), wanted, timeout_s):
            self._place.say(words)


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


_OVER = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK, ForeignOutcome.COMPLETED)
_COMPLETED = "It was complete before the cancel arrived."
_NOT_MOVING = "No partition reassignment is in progress."
"""Kafka's words for a cancel of what is over."""


class ListedCancels(NamedTuple):
    """What came of cancelling listed reassignments."""

    refused: Mapping[TopicPartition, str]  # why a partition is still being reassigned, or may be
    left_alone: Collection[TopicPartition] = ()
    """The partitions that are on the way to their own target."""
    completed: Collection[TopicPartition] = ()
    """The partitions that were at their target before the cancel arrived."""
    unlisted: Collection[TopicPartition] = ()
    """The partitions that were not being reassigned any more: nothing was sent for them."""


def cancel_listed(
    place: RunsPlace,
    partitions: Collection[TopicPartition],
    unless: Mapping[TopicPartition, Brokers] | None = None,
) -> ListedCancels:
    """Cancel the reassignments of partitions, and wait until they are over.

    Each cancel is written to the log of cancels before it is sent. A partition on the way to its
    target in `unless` is left alone. RunProblem: the log cannot be written, and nothing is sent
    that is not in it.
    """
    if not partitions:
        return ListedCancels({})
    clock, wanted = SystemClock(), frozenset(partitions)
    log = CancelLog(place.state, place.cluster_id, this_process().short, clock)

    async def cancelled(ports: ClusterPorts) -> ListedCancels:
        cancel, fresh = ForeignCancel(ports.writer, clock, log), FreshRead(ports.reader, clock)
        seen = await fresh.read(partitions, to_cancel=True)
        found = [move for tp, move in listed_reassignments(seen).items() if tp in wanted]
        alone = {m.tp for m in found if unless is not None and m.target == unless[m.tp]}
        moves = [move for move in found if move.tp not in alone]

        async def look(begun: bool) -> Observation:  # noqa: FBT001 - as ForeignCancel asks
            return await fresh.read(cancel.pending) if begun else seen

        await cancel.carry_out(look, lambda _: moves)
        settled = cancel.settled.items()
        failed = {tp: s.detail or s.outcome.value for tp, s in settled if s.outcome not in _OVER}
        completed = [tp for tp, how in settled if how.outcome is ForeignOutcome.COMPLETED]
        return ListedCancels(failed, alone, completed, wanted - {move.tp for move in found})

    return place.act(cancelled)


def cancel(
    place: RunsPlace, active: Collection[TopicPartition], *, in_runs: bool
) -> Collection[SettingKey]:
    """Cancel what is under way; return the settings that were put back with it.

    With `in_runs`, runs cancel their own moves, and end their throttles with them.
    """
    if not active:
        place.say(NOTHING_TO_CANCEL)
        return ()
    check_not_live(place.state, place.cluster_id, active)
    place.act(lambda _: place.check_owner())
    stopped: set[TopicPartition] = set()
    errors: dict[TopicPartition, str] = {}
    cleared: set[SettingKey] = set()
    for run in [*place.left_runs()] if in_runs else ():
        if theirs := tuple(tp for tp in active if tp in run.tracks_in_flight):
            command = CancelMoves(CancelKind.STOP, partitions=theirs)
            after, put_back = place.settle(run.name, [command])
            errors |= _not_stopped(after, theirs)
            stopped |= {*theirs} - errors.keys()
            cleared |= {*put_back}
    others = cancel_listed(place, [tp for tp in active if tp not in errors])
    errors |= {**others.refused, **dict.fromkeys(others.completed, _COMPLETED)}
    errors |= {tp: _NOT_MOVING for tp in others.unlisted if tp not in stopped}
    if errors:
        raise ActionFailed(errors_text(NOT_CANCELLED, errors))
    place.say(line(CANCELLED, active))
    return cleared


def _not_stopped(run: Run, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    tracks = [run.tracks[tp] for tp in partitions]
    return {
        track.tp: _COMPLETED if track.state is State.DONE else track.reason or track.state.words
        for track in tracks
        if track.state in {State.REFUSED, State.STOPPING, State.DONE}
    }


def cancel_moves(place: RunsPlace, file: ReassignmentFile, timeout_s: float) -> None:
    """Send replicas back to the log dirs they are in, which ends their moves (KIP-113)."""

    async def moving(ports: ClusterPorts) -> tuple[dict[Replica, str], set[int]]:
        online = (await ports.reader.describe_cluster()).online
        dirs = await read_dirs(ports.reader, file.log_dirs, online)
        back = {replica: path for replica in dirs.future if (path := dirs.current[replica])}
        return back, {each.broker for each in file.log_dirs} - {r.broker for r in dirs.current}

    async def send_back(ports: ClusterPorts) -> None:
        await place.check_owner()
        async for words in begin_moves(ports.writer, SystemClock(), back, timeout_s):
            place.say(words)

    back, silent = place.act(moving)
    if back:
        place.act(send_back)
    if silent:
        raise RunProblem(
            f"{join_named('broker', sorted(silent))} did not say what moves between its log dirs: "
            "nothing is cancelled there. Once it answers, call --cancel again"
        )
    if not back:
        place.say(NO_MOVES_TO_CANCEL)
