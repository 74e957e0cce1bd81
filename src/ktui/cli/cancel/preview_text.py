"""The preview of a cancel, as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ktui.cli.options.cancel import CancelRequest
from ktui.cli.options.common import state_option
from ktui.cli.output.table import table
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.execution.cancel.preview import CancelPreview, PartitionPreview
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.event_text import KIND_IN_WORDS, replica_list_text
from ktui.planning.names import join_some
from ktui.quantities import as_bytes, as_count

MOST_ROWS = 40
_HEADER = ("PARTITION", "STATE", "REPLICAS", "SENT", "AFTER", "RF", "LEADER")


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
    """Show the partitions that matter most first, and count the rest."""
    ranked = sorted(partitions, key=_rank)
    rows = [
        (
            str(each.tp),
            each.state.words,
            replica_list_text(each.held),
            each.sent,
            replica_list_text(each.replicas),
            str(len(each.replicas)),
            "-" if each.leader is None else str(each.leader),
        )
        for each in ranked[:MOST_ROWS]
    ]
    yield from table(_HEADER, rows, right=(5, 6)).splitlines()
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
    """Name the partitions of each reason once."""
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
