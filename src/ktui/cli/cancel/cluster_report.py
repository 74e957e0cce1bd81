"""What `ktui cancel --cluster` finds and what comes of it, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from ktui.cli.cancel.cluster_runs import RunOnCluster
from ktui.cli.cancel.options import CancelRequest
from ktui.cli.options.common import state_option
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.output.table import table
from ktui.cli.process.send_command import AnswerJson
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.text import clean
from ktui.execution.cancel.foreign_outcome import ForeignOutcome, ListedReassignment, Settled
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.planning.names import join_some
from ktui.quantities import as_count

_NOT_KNOWN = "not known"


class ClusterCancelReport(msgspec.Struct, kw_only=True):
    """All there is to tell."""

    cluster: str
    cluster_id: str
    wanted: CancelRequest
    state: StateDir
    foreign: Mapping[TopicPartition, ListedReassignment]
    """What no live run has begun."""
    runs: tuple[RunOnCluster, ...]
    """Those that have something of what is asked for."""
    settled: Mapping[TopicPartition, Settled] = {}
    not_sent: str = ""
    """Why the cluster did not answer, where that was so to the end."""
    not_written: str = ""
    """Why what came of it could not be written down."""
    more: list[TopicPartition] = []
    """What others have begun meanwhile."""
    interrupted: bool = False

    def outcome(self, tp: TopicPartition) -> Settled:
        """Say what became of one that no live run has begun."""
        why = f"not sent: {self.not_sent or 'it was interrupted'}"
        return self.settled.get(tp, Settled(ForeignOutcome.REFUSED, detail=why))

    @property
    def outcomes(self) -> Iterator[Settled]:
        """Say what became of each that is known."""
        yield from map(self.outcome, self.foreign)
        for run in self.runs:
            yield from run.settled.values()

    @property
    def well(self) -> bool:
        """Whether everything is as it was asked for."""
        runs = (run for run in self.runs if run.live)
        answered = all(r.answer and r.answer.accepted and not r.problem for r in runs)
        known = all(not run.live or len(run.settled) == len(run.listed) for run in self.runs)
        told = all(run.live or run.problem is None for run in self.runs)
        return answered and known and told and not self.more and all(o.well for o in self.outcomes)

    def begun_by(self, tp: TopicPartition) -> str | None:
        """Name the run that has begun it, which nobody carries on; None where it is not known."""
        return next((run.name for run in self.runs if tp in run.listed), None)


def found_text(told: ClusterCancelReport) -> str:
    """Show what there is, before anything is done about it."""
    return "\n\n".join(_found(told))


def _found(told: ClusterCancelReport) -> Iterator[str]:
    wanted, would = told.wanted, told.wanted.dry_run
    if wanted.everything:
        opens = f"ktui cancel --cluster --remove-cancel{state_option(told.state)}"
        yield (
            f"the cancel gate of cluster {told.cluster_id} {'would be' if would else 'is'} shut: "
            "no run of this state directory submits anything there but what cancels and rolls "
            f"back. It is opened with: {opens}"
        )
    if told.foreign:
        rows = [_row(told, move) for move in told.foreign.values()]
        yield table(("PARTITION", "BEGUN BY", "FROM", "TO", "NOTE"), rows)
        yield _what_a_cancel_is(wanted.kind)
    if told.runs:
        yield "\n".join(run.words for run in told.runs)
    if not (told.foreign or told.runs):
        scope = "" if wanted.everything else " of what you asked for"
        yield f"nothing{scope} is being reassigned"
    if would:
        yield "nothing was sent"


def _row(told: ClusterCancelReport, move: ListedReassignment) -> tuple[str, ...]:
    begun_by = told.begun_by(move.tp)
    note = move.refused or move.danger or ""
    return (
        str(move.tp),
        _NOT_KNOWN if begun_by is None else f"run {begun_by}",
        _brokers(move.original),
        _brokers(move.target),
        clean(note),
    )


def _what_a_cancel_is(kind: CancelKind) -> str:
    words = (
        "Each is cancelled: Kafka drops what it adds and keeps FROM, in the order shown. Which "
        "order that was before the reassignment it has forgotten: another one may be the preferred "
        "leader now."
    )
    if kind is not CancelKind.ROLLBACK:
        return words
    return f"{words} So nothing more than a cancel can roll these back."


def outcome_text(told: ClusterCancelReport) -> str:
    """Say what came of it; nothing where there was nothing to do."""
    return "\n".join(_came(told))


def _came(told: ClusterCancelReport) -> Iterator[str]:
    if told.wanted.dry_run:
        return
    if told.foreign:
        rows = [_came_row(tp, told.outcome(tp)) for tp in told.foreign]
        yield table(("PARTITION", "OUTCOME", "REPLICAS", "RF", "WHY"), rows, right=(3,))
        yield (
            "Throttles that others have set for these stay. See them, and take them off: "
            f"ktui doctor{state_option(told.state)}"
        )
    for run in told.runs:
        yield from _came_of_run(run)
    if told.interrupted:
        yield (
            "interrupted: what was sent goes on without this, and the runs go on with what they "
            "were asked for; see: ktui list"
        )
    if told.more:
        yield (
            f"begun by others meanwhile, and not cancelled: {join_some(told.more, told=10)}. "
            "Call this again"
        )
    if told.not_written:
        yield f"what came of it is not written down: {told.not_written}"
    counts = Counter(settled.outcome for settled in told.outcomes)
    if counts:
        told_counts = ", ".join(f"{counts[o]:,} {o.value}" for o in ForeignOutcome if counts[o])
        yield f"{as_count(sum(counts.values()), 'reassignment')}: {told_counts}"


def _came_row(tp: TopicPartition, settled: Settled) -> tuple[str, ...]:
    replicas = settled.replicas
    rf = str(len(replicas)) if replicas else "-"
    return str(tp), settled.outcome.value, _brokers(replicas), rf, clean(settled.detail)


def _came_of_run(run: RunOnCluster) -> Iterator[str]:
    if run.answer is not None:
        refused = "" if run.answer.accepted else "refused: "
        yield f"run {run.name}: {refused}{clean(run.answer.words)}"
    if run.problem is not None:
        yield f"run {run.name}: {run.problem}"
    for tp, settled in run.settled.items():
        if not settled.well:
            yield f"run {run.name}: {tp}: {settled.outcome.value}: {clean(settled.detail)}"
    if run.answer is not None and (left := len(run.listed) - len(run.settled)):
        yield f"run {run.name}: {left:,} of it are not over yet; see: ktui status {run.name}"


def _brokers(brokers: Brokers) -> str:
    return ",".join(map(str, brokers)) or "-"


class OnClusterJson(msgspec.Struct, frozen=True, kw_only=True):
    """One reassignment that the cluster listed."""

    topic: str
    topic_id: str | None
    partition: int
    run: str | None
    """The run that has begun it; null where it is not known who has."""
    live: bool
    """Whether a process carries that run on, and cancels it itself."""
    original: Brokers = msgspec.field(name="from")
    target: Brokers = msgspec.field(name="to")
    refused: str | None
    """Why it is not cancelled."""
    danger: str | None
    outcome: ForeignOutcome | None
    """Null where nothing was sent, and while a run is at it."""
    replicas: Brokers | None
    detail: str


class RunAskedJson(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of one run."""

    run: str
    live: bool
    partitions: int
    """How many it was asked for."""
    answer: AnswerJson | None
    problem: str | None


class CancelClusterJson(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktui cancel --cluster --json` prints."""

    schema_version: int
    cluster: str
    cluster_id: str
    kind: CancelKind
    dry_run: bool
    shuts_gate: bool
    partitions: tuple[OnClusterJson, ...]
    runs: tuple[RunAskedJson, ...]
    begun_meanwhile: tuple[TopicPartition, ...]
    interrupted: bool
    problem: str | None


def told_json(told: ClusterCancelReport) -> CancelClusterJson:
    """Put it in its JSON form."""
    wanted = told.wanted
    came = not wanted.dry_run
    foreign = [
        _listed_json(move, told.begun_by(tp), told.outcome(tp) if came else None)
        for tp, move in told.foreign.items()
    ]
    of_runs = [
        _listed_json(move, run.name, run.settled.get(tp), live=True)
        for run in told.runs
        if run.live
        for tp, move in run.listed.items()
    ]
    return CancelClusterJson(
        schema_version=SCHEMA_VERSION,
        cluster=told.cluster,
        cluster_id=told.cluster_id,
        kind=wanted.kind,
        dry_run=wanted.dry_run,
        shuts_gate=wanted.everything,
        partitions=tuple(sorted((*foreign, *of_runs), key=lambda p: (p.topic, p.partition))),
        runs=tuple(map(_run_json, told.runs)),
        begun_meanwhile=tuple(told.more),
        interrupted=told.interrupted,
        problem=told.not_written or None,
    )


def _listed_json(
    move: ListedReassignment, run: str | None, settled: Settled | None, *, live: bool = False
) -> OnClusterJson:
    return OnClusterJson(
        topic=move.tp.topic,
        topic_id=move.topic_id,
        partition=move.tp.partition,
        run=run,
        live=live,
        original=move.original,
        target=move.target,
        refused=move.refused,
        danger=move.danger,
        outcome=None if settled is None else settled.outcome,
        replicas=None if settled is None else settled.replicas or None,
        detail="" if settled is None else clean(settled.detail),
    )


def _run_json(run: RunOnCluster) -> RunAskedJson:
    return RunAskedJson(
        run=run.name,
        live=run.live,
        partitions=len(run.going),
        answer=run.answer_json,
        problem=run.problem,
    )
