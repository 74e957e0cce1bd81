"""What `ktui cancel` prints, as text and as JSON: of a run, and of a whole cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ktui.cli.options.common import state_option
from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.cli.process import answer_json
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.columns import Column, column, figures, table_of
from ktui.execution.cancel_preview import CancelPreview, PartitionPreview
from ktui.execution.foreign_cancels import ForeignOutcome, ListedReassignment, Settled
from ktui.execution.host.ownership import ShutGate
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.scope import CancelEffect
from ktui.execution.run.states import CancelKind
from ktui.execution.run.text import KIND_IN_WORDS, replica_list_text
from ktui.ops.cancel import CancelRequest, ClusterCancel, RunOnCluster
from ktui.planning.plan import join_some
from ktui.quantities import as_bytes, as_count

MOST_ROWS = 40
_PARTITIONS = (
    column("PARTITION", lambda each: str(each.tp)),
    column("STATE", lambda each: each.state.words),
    column("REPLICAS", lambda each: replica_list_text(each.held)),
    column("SENT", lambda each: each.sent),
    column("AFTER", lambda each: replica_list_text(each.replicas)),
    figures("RF", lambda each: str(len(each.replicas))),
    figures("LEADER", lambda each: "-" if each.leader is None else str(each.leader)),
)


def preview_text(preview: CancelPreview, request: CancelRequest, state: StateDir) -> str:
    """Format a summary, each partition, and then refusals, dangers and extra replicas."""
    scope = preview.scope
    what = f"{KIND_IN_WORDS[scope.kind]} {as_count(len(scope.effects), 'partition')}"
    head = f"run {scope.run.name}: {what}: {scope.words}"
    if scope.to_copy:
        head += f", {as_bytes(scope.to_copy)} to copy back"
    if preview.problem is not None:
        return f"{head}\nno preview of the partitions: {clean(preview.problem)}"
    lines = [
        *_rows(preview.partitions),
        *_grouped("not now", ((each.tp, each.not_now) for each in preview.partitions)),
        *_grouped("danger", ((each.tp, each.danger) for each in preview.partitions)),
        *_extra(preview, request, state),
    ]
    return "\n".join([head, *map(clean, lines)])


def _rows(partitions: Iterable[PartitionPreview]) -> Iterator[str]:
    ranked = sorted(partitions, key=_rank)
    yield from table_of(_PARTITIONS, ranked[:MOST_ROWS]).splitlines()
    rest = Counter(each.sent for each in ranked[MOST_ROWS:])
    if rest:
        counts = ", ".join(f"{count:,} {sent}" for sent, count in rest.most_common())
        yield f"and {rest.total():,} more: {counts}"


def _scope_of(left: Sequence[PartitionPreview], request: CancelRequest) -> str:
    """Return the options that name these partitions later, when they may have left a broker."""
    if not request.brokers:
        return request.scope_words
    return " ".join(f"--partition {each.tp.topic}:{each.tp.partition}" for each in left)


def _rank(each: PartitionPreview) -> int:
    if each.in_trouble:
        return 0
    return 1 if each.cancels or each.steps else 2


def _grouped(word: str, reasons: Iterable[tuple[TopicPartition, str | None]]) -> Iterator[str]:
    groups: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp, reason in reasons:
        if reason:
            groups[reason].append(tp)
    for reason, some in groups.items():
        yield f"{word}: {join_some(some, most=5)}: {reason}"


def _extra(preview: CancelPreview, request: CancelRequest, state: StateDir) -> Iterator[str]:
    """Name partitions that a stop leaves with more replicas than planned, and the fix."""
    left = [each for each in preview.partitions if each.extra]
    if request.kind is not CancelKind.STOP or not left:
        return
    named = join_some([f"{t.tp} ({len(t.replicas)}, plan {t.planned})" for t in left], most=5)
    run = preview.scope.run.name
    command = f"ktui cancel {run} --trim {_scope_of(left, request)}{state_option(state)}"
    have = "keeps" if len(left) == 1 else "keep"
    yield f"{named} {have} more replicas than planned. Drop them too: {command}"


def cancel_json(
    preview: CancelPreview,
    *,
    dry_run: bool,
    shuts_gate: bool,
    gate: ShutGate | None,
    answer: Mapping[str, object] | None,
) -> dict[str, object]:
    """Return a preview and an answer; `partitions` is null if the cluster did not answer."""
    effects = list(preview.scope.effects.values())
    return {
        "run": preview.scope.run.name,
        "kind": preview.scope.kind,
        "dry_run": dry_run,
        "acts": {effect: effects.count(effect) for effect in CancelEffect},
        "partitions": None if preview.problem else [*map(_partition_json, preview.partitions)],
        "problem": preview.problem,
        "shuts_gate": shuts_gate,
        "gate": gate,
        "answer": answer,
    }


def _partition_json(each: PartitionPreview) -> dict[str, object]:
    return {
        "topic": each.tp.topic,
        "partition": each.tp.partition,
        "state": each.state,
        "act": each.effect,
        "cancels": each.cancels,
        "steps": [
            {"replicas": s.target, "adding": s.adds, "removing": s.drops, "elect": s.elects}
            for s in each.steps
        ],
        "replicas": each.replicas,
        "leader": each.leader,
        "planned": each.planned,
        "original": each.original,
        "extra": each.extra,
        "refused": each.refused,
        "way_out": each.way_out,
        "danger": each.danger,
    }


def found_parts(report: ClusterCancel) -> Iterator[str]:
    """Describe the reassignments found, before any is cancelled."""
    request = report.request
    if request.everything:
        opens = f"ktui cancel --cluster --remove-cancel{state_option(report.state)}"
        becomes = "would be" if request.dry_run else "is"
        yield (
            f"the cancel gate of cluster {report.cluster_id} {becomes} shut. "
            "Runs of this state directory submit only cancels and rollbacks there. "
            f"Open the gate with: {opens}"
        )
    if report.foreign:
        yield table_of(_found_columns(report), report.foreign.values())
        yield _what_a_cancel_is(request.kind)
    if report.runs:
        yield "\n".join(run.words for run in report.runs)
    if not (report.foreign or report.runs):
        scope = "" if request.everything else " in the scope you gave"
        yield f"nothing{scope} is being reassigned"
    if request.dry_run:
        yield "nothing was sent"


def _found_columns(report: ClusterCancel) -> tuple[Column[str], ...]:
    def begun_by(move: ListedReassignment) -> str:
        run = report.begun_by(move.tp)
        return "not known" if run is None else f"run {run}"

    return (
        column("PARTITION", lambda move: str(move.tp)),
        column("BEGUN BY", begun_by),
        column("FROM", lambda move: replica_list_text(move.original) or "-"),
        column("TO", lambda move: replica_list_text(move.target) or "-"),
        column("NOTE", lambda move: clean(move.refused or move.danger or "")),
    )


def _what_a_cancel_is(kind: CancelKind) -> str:
    words = (
        "Each reassignment is cancelled. Kafka drops the replicas it adds and keeps FROM, in the "
        "order shown. Kafka has forgotten the order from before the reassignment, so another "
        "replica may be the preferred leader now."
    )
    if kind is not CancelKind.ROLLBACK:
        return words
    return f"{words} For these, a rollback is no more than a cancel."


def outcome_lines(report: ClusterCancel) -> Iterator[str]:
    """Describe the outcomes; nothing if there was nothing to do."""
    if report.request.dry_run:
        return
    if report.foreign:
        yield table_of(_OUTCOMES, [(tp, report.outcome(tp)) for tp in report.foreign])
        yield (
            "Throttles that others have set for these partitions stay. Find and remove them with: "
            f"ktui doctor{state_option(report.state)}"
        )
    for run in report.runs:
        yield from _run_lines(run)
    if report.interrupted:
        yield (
            "interrupted: cancels already sent still take effect, and the runs carry out what "
            "they were asked. Check the rest: ktui list"
        )
    if report.begun_meanwhile:
        named = join_some(report.begun_meanwhile, most=10)
        yield f"begun by others meanwhile, and not cancelled: {named}. Run this command again"
    if report.not_written:
        yield f"the outcomes are not logged: {report.not_written}"
    counts = Counter(settled.outcome for settled in report.outcomes)
    if counts:
        told_counts = ", ".join(f"{counts[o]:,} {o.value}" for o in ForeignOutcome if counts[o])
        yield f"{as_count(sum(counts.values()), 'reassignment')}: {told_counts}"


_OUTCOMES = (  # of a partition and how its cancel was settled
    column("PARTITION", lambda row: str(row[0])),
    column("OUTCOME", lambda row: row[1].outcome.value),
    column("REPLICAS", lambda row: replica_list_text(row[1].replicas) or "-"),
    figures("RF", lambda row: str(len(row[1].replicas) or "-")),
    column("WHY", lambda row: clean(row[1].detail)),
)


def _run_lines(run: RunOnCluster) -> Iterator[str]:
    if run.answer is not None:
        refused = "" if run.answer.accepted else "refused: "
        yield f"run {run.name}: {refused}{clean(run.answer.words)}"
    if run.problem is not None:
        yield f"run {run.name}: {run.problem}"
    for tp, settled in run.settled.items():
        if not settled.as_asked:
            yield f"run {run.name}: {tp}: {settled.outcome.value}: {clean(settled.detail)}"
    if run.answer is not None and (left := len(run.listed) - len(run.settled)):
        yield f"run {run.name}: {left:,} not settled yet. Follow the run: ktui status {run.name}"


def report_json(cluster: str, report: ClusterCancel) -> dict[str, object]:
    """Return the JSON form of a cluster's cancel; an outcome is null while it is not known."""
    request = report.request
    sent = not request.dry_run
    foreign = [
        _listed_json(move, report.begun_by(tp), report.outcome(tp) if sent else None)
        for tp, move in report.foreign.items()
    ]
    of_runs = [
        _listed_json(move, run.name, run.settled.get(tp), live=True)
        for run in report.runs
        if run.live
        for tp, move in run.listed.items()
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster,
        "cluster_id": report.cluster_id,
        "kind": request.kind,
        "dry_run": request.dry_run,
        "shuts_gate": request.everything,
        "partitions": sorted((*foreign, *of_runs), key=lambda p: (p["topic"], p["partition"])),
        "runs": [_run_json(run) for run in report.runs],
        "begun_meanwhile": report.begun_meanwhile,
        "interrupted": report.interrupted,
        "problem": report.not_written or None,
    }


def _listed_json(
    move: ListedReassignment, run: str | None, settled: Settled | None, *, live: bool = False
) -> dict[str, Any]:
    return {
        "topic": move.tp.topic,
        "topic_id": move.topic_id,
        "partition": move.tp.partition,
        "run": run,
        "live": live,
        "from": move.original,
        "to": move.target,
        "refused": move.refused,
        "danger": move.danger,
        "outcome": None if settled is None else settled.outcome,
        "replicas": None if settled is None else settled.replicas or None,
        "detail": "" if settled is None else clean(settled.detail),
    }


def _run_json(run: RunOnCluster) -> dict[str, object]:
    answer = None
    if run.answer is not None and run.number is not None:
        answer = answer_json(run.folder, run.number, run.answer)
    return {
        "run": run.name,
        "live": run.live,
        "partitions": len(run.unfinished),
        "answer": answer,
        "problem": run.problem,
    }
