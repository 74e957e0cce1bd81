"""`ktui cancel --cluster`: every reassignment that the cluster lists, whoever began it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from ktui.cli.cancel.cluster_report import ClusterCancelReport, found_text, outcome_text, told_json
from ktui.cli.cancel.cluster_runs import RunOnCluster, claimed, runs_on
from ktui.cli.cancel.options import CancelRequest
from ktui.cli.context.claim import claiming, refuse_another
from ktui.cli.context.cluster import Cluster, choose_cluster
from ktui.cli.context.errors import INTERRUPTED, BadInput
from ktui.cli.context.target import target
from ktui.cli.output.json_form import encode
from ktui.cli.process.send_command import asker
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.execution.cancel.foreign import ForeignCancel
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import ListedReassignment, listed_in
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.event_text import KIND_IN_WORDS
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.planning.names import join_some, shortened

PATIENCE_S = MAY_COME_S
"""How long it is watched what becomes of it: a request whose answer was lost may come so late."""
CANCELLING = "ktui cancel --cluster"
"""What a claim names in place of a run."""
_LOOK_S = 0.5
_SLOW_BROKER_S = 2.0
"""How long one look waits for a slow broker's settings."""


def cancel_on_cluster(  # noqa: PLR0913 - an option each
    bootstrap_server: str | None,
    command_config: Path | None,
    context: str | None,
    *,
    state: StateDir,
    kind: CancelKind,
    topics: tuple[str, ...],
    partitions: tuple[TopicPartition, ...],
    everything: bool,
    dry_run: bool,
    json: bool,
    take_over: bool = False,
) -> NoReturn:
    """Cancel what is being reassigned on a cluster; ends the program.

    Exit code 0 where all is stopped, or on its way back; 3 where some is not; 2 where nothing was
    sent.

    Raises:
        BadInput: no such cluster, topic or partition, or the context is read-only.
        ClusterError: the cluster cannot be looked at; nothing was sent.
        RunProblem: the state directory cannot be used, or another one owns the cluster.
    """
    wanted = CancelRequest(
        kind=kind,
        topics=topics,
        partitions=partitions,
        everything=everything,
        dry_run=dry_run,
        json=json,
        take_over=take_over,
    )
    names = bootstrap_server, command_config, context
    cluster = choose_cluster(*names) if dry_run else target(*names).cluster
    sys.exit(asyncio.run(_cancelled(cluster, state, wanted)))


async def _cancelled(cluster: Cluster, state: StateDir, wanted: CancelRequest) -> int:
    clock, reader, writer = SystemClock(), cluster.reader(), cluster.writer()
    observer = Observer(reader, clock, patience_s=_SLOW_BROKER_S)
    refuse_owned = partial(_refuse_owned, cluster, reader, state, wanted)
    cancelling = _Cancelling(observer, writer, clock, state, wanted, refuse_owned)
    try:
        if not wanted.dry_run:
            await refuse_owned()
        return await cancelling.to_the_end(cluster.name)
    finally:
        cancelling.close()
        await observer.aclose()
        await reader.aclose()
        await writer.aclose()


async def _refuse_owned(
    cluster: Cluster, reader: ClusterReader, state: StateDir, wanted: CancelRequest
) -> None:
    """See that no other state directory owns the cluster, whose runs would begin all anew."""
    described = await reader.describe_cluster()
    how = claiming(cluster, state, described.cluster_id, CANCELLING, take_over=wanted.take_over)
    if how is not None:
        await refuse_another(how)


class _Cancelling:
    """One call of the verb."""

    def __init__(
        self,
        observer: Observer,
        writer: ClusterWriter,
        clock: Clock,
        state: StateDir,
        wanted: CancelRequest,
        refuse_owned: Callable[[], Awaitable[None]],
    ) -> None:
        self._refuse_owned = refuse_owned
        self._observer = observer
        self._writer = writer
        self._clock = clock
        self._state = state
        self._wanted = wanted
        self._runs: list[RunOnCluster] = []
        self._foreign: dict[TopicPartition, ListedReassignment] = {}
        self._claims: set[tuple[TopicPartition, tuple[int, ...]]] = set()
        """What live runs have in flight, around the last look."""
        self._lost = ""
        """Why the cluster did not answer last."""

    async def to_the_end(self, cluster: str) -> int:
        """Show what there is, call it off, watch it, and tell what came of it."""
        wanted = self._wanted
        named = Interest(frozenset(wanted.topics), frozenset(wanted.partitions), fresh=True)
        seen = await self._observer.poll(named)
        _check_names(wanted, seen)
        if wanted.everything and not wanted.dry_run:
            reason = f"{KIND_IN_WORDS[wanted.kind]} everything on the cluster"
            CancelGateFile(self._state, seen.cluster_id).shut(self._clock.now(), asker(), reason)
        self._sort_out(seen)
        told = ClusterCancelReport(
            cluster=cluster,
            cluster_id=seen.cluster_id,
            wanted=wanted,
            state=self._state,
            foreign=self._foreign,
            runs=tuple(run for run in self._runs if run.going),
        )
        if not wanted.json:
            click.echo(found_text(told))
        if not wanted.dry_run:
            await self._call_off(told)
        if wanted.json:
            click.echo(encode(told_json(told)))
        elif came := outcome_text(told):
            click.echo(f"\n{came}")
        if told.interrupted:
            return INTERRUPTED
        return 0 if wanted.dry_run or told.well else NOT_ALL_DONE

    def close(self) -> None:
        """Let go of the journals."""
        for run in self._runs:
            run.close()

    def _sort_out(self, seen: Observation) -> None:
        """Tell whose reassignments they are."""
        self._runs = runs_on(self._state, seen.cluster_id, self._wanted)
        listed = self._asked_for(seen)
        for run in self._runs:
            run.take_in(listed)
        theirs = {tp for run in self._runs if run.live for tp in run.listed}
        self._foreign = {tp: move for tp, move in listed.items() if tp not in theirs}

    def _asked_for(self, seen: Observation) -> dict[TopicPartition, ListedReassignment]:
        wanted = self._wanted
        return {
            tp: move
            for tp, move in listed_in(seen).items()
            if wanted.everything or tp.topic in wanted.topics or tp in wanted.partitions
        }

    async def _call_off(self, told: ClusterCancelReport) -> None:
        """Ask the runs, cancel the rest, and watch all of it for a while."""
        log = CancelLog(self._state, told.cluster_id, asker(), self._clock)
        cancel = ForeignCancel(self._writer, self._clock, log)
        for run in told.runs:
            run.ask()
        try:
            told.more = await self._watched(cancel)
        except asyncio.CancelledError:  # Ctrl-C
            told.interrupted = True
        finally:
            cancel.leave("it was not seen to be over; see: ktui list")
            for run in told.runs:
                run.leave()
            told.settled = cancel.settled
            told.not_sent = self._lost
            told.not_written = log.left()

    async def _watched(self, cancel: ForeignCancel) -> list[TopicPartition]:
        """Cancel what is no run's, and look until all is settled, or for as long as it makes sense.

        Returns:
            What others have begun meanwhile.
        """
        until_s, begun = self._clock.monotonic() + PATIENCE_S, False
        while True:
            if not begun:  # the cluster may have been lost for a while
                await self._refuse_owned()
            seen = await self._look()
            if seen is not None and begun:
                await cancel.look(seen)
            elif seen is not None:
                await cancel.cancel(self._still_foreign(), seen)
                until_s, begun = self._clock.monotonic() + PATIENCE_S, True
            settled = begun and not cancel.pending and all(run.is_settled for run in self._runs)
            if settled or self._clock.monotonic() >= until_s:
                return [] if seen is None else self._begun_meanwhile(seen)
            await self._clock.sleep(_LOOK_S)

    async def _look(self) -> Observation | None:
        """Look; None while the cluster is lost.

        The journals are read before and after: what a run has in flight is in one of the two.
        """
        self._claims = set(claimed(self._runs))
        try:
            seen = await self._observer.poll(
                Interest(partitions=frozenset(self._foreign), fresh=True)
            )
        except ClusterError as error:
            seen, self._lost = None, str(error)
        for run in self._runs:
            run.look()
        self._claims |= set(claimed(self._runs))
        return seen

    def _still_foreign(self) -> Collection[ListedReassignment]:
        """Give what is no live run's; one may have begun it just after its journal was read."""
        for tp in [tp for tp, move in self._foreign.items() if (tp, move.target) in self._claims]:
            del self._foreign[tp]
        return self._foreign.values()

    def _begun_meanwhile(self, seen: Observation) -> list[TopicPartition]:
        known = {*self._foreign, *(tp for run in self._runs for tp in run.listed)}
        listed = self._asked_for(seen).items()
        return [tp for tp, m in listed if tp not in known and (tp, m.target) not in self._claims]


def _check_names(wanted: CancelRequest, seen: Observation) -> None:
    """See that what is named is there, moving or not.

    Raises:
        BadInput: it is not; names all that is missing.
    """
    hidden = {failure.topic for failure in seen.failures}
    there = {tp.topic for tp in seen.partitions} | hidden
    missing = [f"topic {shortened(topic)!r}" for topic in wanted.topics if topic not in there]
    missing += [
        f"partition {tp.partition} of topic {shortened(tp.topic)!r}"
        for tp in wanted.partitions
        if tp in seen.absent
    ]
    if missing:
        raise BadInput(f"the cluster does not have {join_some(missing, told=10)}; nothing was sent")
