"""`ktui cancel --cluster`: cancel every reassignment that the cluster lists, whoever began it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import NoReturn

import click

from ktui.cli.cancel.cluster_runs import RunOnCluster, replicas_in_flight, runs_on
from ktui.cli.cancel.report import (
    ClusterCancelReport,
    found_text,
    outcome_text,
    report_json,
)
from ktui.cli.context.claim import check_no_other_owner, claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.errors import INTERRUPTED
from ktui.cli.options.cancel import CancelRequest
from ktui.cli.options.on_cluster import check_on_cluster
from ktui.cli.output.json_form import encode
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterReader, ClusterWriter
from ktui.execution.cancel.foreign import ForeignCancel
from ktui.execution.cancel.foreign_log import CancelLog
from ktui.execution.cancel.foreign_outcome import ListedReassignment, listed_reassignments
from ktui.execution.host.cancel_gate import CancelGateFile
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.text import KIND_IN_WORDS
from ktui.execution.run.unanswered import MAY_COME_S

PATIENCE_S = MAY_COME_S
"""Seconds to watch for outcomes: a request whose answer was lost can arrive this late."""
CANCELLING = "ktui cancel --cluster"
"""The name in an ownership claim, where a run would be."""
_POLL_S = 0.5
_SLOW_BROKER_S = 2.0
"""Seconds that one poll waits for a slow broker's settings."""


def cancel_on_cluster(choice: ClusterChoice, state: StateDir, request: CancelRequest) -> NoReturn:
    """Cancel the reassignments of a cluster, and end the program.

    The exit code is 0 if everything is stopped or rolling back, 3 if something is not, and 2 if
    nothing was sent.

    Raises:
        BadInput: no such cluster, topic or partition, or the context is read-only.
        ClusterError: the cluster does not answer; nothing was sent.
        RunProblem: the state directory cannot be used, or another one owns the cluster.
    """
    cluster = choice.cluster() if request.dry_run else choice.target().cluster
    sys.exit(asyncio.run(_cancelled(cluster, state, request)))


async def _cancelled(cluster: Cluster, state: StateDir, request: CancelRequest) -> int:
    clock, reader, writer = SystemClock(), cluster.reader(), cluster.writer()
    observer = Observer(reader, clock, patience_s=_SLOW_BROKER_S)
    refuse_owned = partial(_refuse_owned, cluster, reader, state, request)
    cancelling = _Cancelling(
        reader, observer, writer, clock, state=state, request=request, refuse_owned=refuse_owned
    )
    try:
        if not request.dry_run:
            await refuse_owned()
        return await cancelling.run(cluster.name)
    finally:
        cancelling.close()
        await observer.aclose()
        await reader.aclose()
        await writer.aclose()


async def _refuse_owned(
    cluster: Cluster, reader: ClusterReader, state: StateDir, request: CancelRequest
) -> None:
    """Check that no other state directory owns the cluster.

    The runs of its owner would begin everything again.

    Raises:
        RunRefused: another state directory owns the cluster.
    """
    described = await reader.describe_cluster()
    how = claim_request(
        cluster, state, described.cluster_id, CANCELLING, take_over=request.take_over
    )
    if how is not None:
        await check_no_other_owner(how)


class _Cancelling:
    """One call of `ktui cancel --cluster`."""

    def __init__(
        self,
        reader: ClusterReader,
        observer: Observer,
        writer: ClusterWriter,
        clock: Clock,
        *,
        state: StateDir,
        request: CancelRequest,
        refuse_owned: Callable[[], Awaitable[None]],
    ) -> None:
        self._refuse_owned = refuse_owned
        self._reader = reader
        self._observer = observer
        self._writer = writer
        self._clock = clock
        self._state = state
        self._request = request
        self._runs: list[RunOnCluster] = []
        self._foreign: dict[TopicPartition, ListedReassignment] = {}
        self._claims: set[tuple[TopicPartition, tuple[int, ...]]] = set()
        """The steps that live runs had in flight before and after the last poll."""
        self._lost = ""
        """Why the most recent failed poll failed; empty if none did."""

    async def run(self, cluster: str) -> int:
        """Show the reassignments, cancel them, watch them, and report the outcomes."""
        request = self._request
        interest = Interest(frozenset(request.topics), frozenset(request.partitions), fresh=True)
        seen = await self._observer.poll(interest)
        await check_on_cluster(
            self._reader, self._clock, seen, request.topics, request.partitions, request.brokers
        )
        if request.everything and not request.dry_run:
            reason = f"{KIND_IN_WORDS[request.kind]} everything on the cluster"
            CancelGateFile(self._state, seen.cluster_id).shut(
                self._clock.now(), this_process().short, reason
            )
        self._separate(seen)
        report = ClusterCancelReport(
            cluster=cluster,
            cluster_id=seen.cluster_id,
            request=request,
            state=self._state,
            foreign=self._foreign,
            runs=tuple(run for run in self._runs if run.unfinished),
        )
        if not request.json:
            click.echo(found_text(report))
        if not request.dry_run:
            await self._cancel(report)
        if request.json:
            click.echo(encode(report_json(report)))
        elif outcomes := outcome_text(report):
            click.echo(f"\n{outcomes}")
        if report.interrupted:
            return INTERRUPTED
        return 0 if request.dry_run or report.as_asked else NOT_ALL_DONE

    def close(self) -> None:
        """Close the journals."""
        for run in self._runs:
            run.close()

    def _separate(self, seen: Observation) -> None:
        """Separate the reassignments of live runs from all others."""
        self._runs = runs_on(self._state, seen.cluster_id, self._request)
        listed = self._asked_for(seen)
        for run in self._runs:
            run.find_own(listed)
        theirs = {tp for run in self._runs if run.live for tp in run.listed}
        self._foreign = {tp: move for tp, move in listed.items() if tp not in theirs}

    def _asked_for(self, seen: Observation) -> dict[TopicPartition, ListedReassignment]:
        request = self._request
        return {
            tp: move
            for tp, move in listed_reassignments(seen).items()
            if request.everything
            or tp.topic in request.topics
            or tp in request.partitions
            or not {*move.original, *move.target}.isdisjoint(request.brokers)
        }

    async def _cancel(self, report: ClusterCancelReport) -> None:
        """Ask the runs to cancel, cancel the rest here, and watch everything for a while."""
        log = CancelLog(self._state, report.cluster_id, this_process().short, self._clock)
        cancel = ForeignCancel(self._writer, self._clock, log)
        for run in report.runs:
            run.ask()
        try:
            report.begun_meanwhile = await self._watch(cancel)
        except asyncio.CancelledError:  # Ctrl-C
            report.interrupted = True
        finally:
            cancel.give_up("its end was not seen. Check it: ktui list")
            for run in report.runs:
                run.stop_waiting()
            report.settled = cancel.settled
            report.not_sent = self._lost
            report.not_written = log.write_outcomes()

    async def _watch(self, cancel: ForeignCancel) -> list[TopicPartition]:
        """Cancel the foreign reassignments, and poll until all are settled or `PATIENCE_S` is over.

        Returns:
            The reassignments that others have begun meanwhile.
        """
        until_s, begun = self._clock.monotonic() + PATIENCE_S, False
        while True:
            if not begun:  # the cluster may have been lost for a while
                await self._refuse_owned()
            seen = await self._poll()
            if seen is not None and begun:
                await cancel.follow(seen)
            elif seen is not None:
                await cancel.cancel(self._still_foreign(), seen)
                until_s, begun = self._clock.monotonic() + PATIENCE_S, True
            settled = begun and not cancel.pending and all(run.is_settled for run in self._runs)
            if settled or self._clock.monotonic() >= until_s:
                return [] if seen is None else self._begun_meanwhile(seen)
            await self._clock.sleep(_POLL_S)

    async def _poll(self) -> Observation | None:
        """Poll; None while the cluster is lost.

        The journals are read before and after: one of the two reads has what a run has in flight.
        """
        self._claims = set(replicas_in_flight(self._runs))
        try:
            seen = await self._observer.poll(
                Interest(partitions=frozenset(self._foreign), fresh=True)
            )
        except ClusterError as error:
            seen, self._lost = None, str(error)
        for run in self._runs:
            run.refresh()
        self._claims |= set(replicas_in_flight(self._runs))
        return seen

    def _still_foreign(self) -> Collection[ListedReassignment]:
        """The reassignments of no live run; a run may begin one just after its journal is read."""
        for tp in [tp for tp, move in self._foreign.items() if (tp, move.target) in self._claims]:
            del self._foreign[tp]
        return self._foreign.values()

    def _begun_meanwhile(self, seen: Observation) -> list[TopicPartition]:
        known = {*self._foreign, *(tp for run in self._runs for tp in run.listed)}
        listed = self._asked_for(seen).items()
        return [tp for tp, m in listed if tp not in known and (tp, m.target) not in self._claims]
