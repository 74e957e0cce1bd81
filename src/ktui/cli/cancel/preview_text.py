"""The preview of a cancel, as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from ktui.cli.cancel.preview import Preview
from ktui.cli.options.common import state_option
from ktui.cli.output.table import table
from ktui.cluster.text import clean
from ktui.execution.cancel.preview import CancelPreview
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import effects_text
from ktui.execution.run.event_text import KIND_IN_WORDS, replica_list_text
from ktui.planning.names import join_some
from ktui.quantities import as_count

MOST_ROWS = 40
_HEADER = ("PARTITION", "STATE", "REPLICAS", "SENT", "AFTER", "RF", "LEADER")


def preview_text(preview: Preview, state: StateDir) -> str:
    """Format a summary, each partition, and then refusals, dangers and extra replicas."""
    request, run = preview.wanted, preview.run
    what = f"{KIND_IN_WORDS[request.kind]} {as_count(len(preview.tracks), 'partition')}"
    head = f"run {run.name}: {what}: {effects_text(preview.acts)}"
    if preview.problem is not None:
        return f"{head}\nno preview of the partitions: {clean(preview.problem)}"
    lines = [*_rows(preview), *_refused(preview), *_dangers(preview), *_extra(preview, state)]
    return "\n".join([head, *map(clean, lines)])


def _rows(preview: Preview) -> Iterator[str]:
    """Show the partitions that matter most first, and count the rest."""
    pairs = zip(preview.tracks, preview.partitions, strict=True)
    ranked = sorted(pairs, key=lambda pair: _rank(pair[1]))
    rows = [
        (
            str(foreseen.tp),
            track.state.words,
            replica_list_text(track.replicas),
            _sent(foreseen),
            replica_list_text(foreseen.replicas),
            str(len(foreseen.replicas)),
            "-" if foreseen.leader is None else str(foreseen.leader),
        )
        for track, foreseen in ranked[:MOST_ROWS]
    ]
    yield from table(_HEADER, rows, right=(5, 6)).splitlines()
    rest = Counter(_sent(foreseen) for _, foreseen in ranked[MOST_ROWS:])
    if rest:
        counts = ", ".join(f"{count:,} {sent}" for sent, count in rest.most_common())
        yield f"and {rest.total():,} more: {counts}"


def _rank(foreseen: CancelPreview) -> int:
    if foreseen.refused or foreseen.danger:
        return 0
    return 1 if foreseen.cancels or foreseen.steps else 2


def _sent(foreseen: CancelPreview) -> str:
    if foreseen.refused and not foreseen.cancels:
        return "nothing for now"
    steps = as_count(len(foreseen.steps), "step") if foreseen.steps else ""
    return ", ".join(filter(None, ("cancel" if foreseen.cancels else "", steps))) or "nothing"


def _refused(preview: Preview) -> Iterator[str]:
    def why(foreseen: CancelPreview) -> str | None:
        return foreseen.refused and f"{foreseen.refused}. {foreseen.way_out}"

    yield from _grouped("not now", preview.partitions, why)


def _dangers(preview: Preview) -> Iterator[str]:
    yield from _grouped("danger", preview.partitions, lambda foreseen: foreseen.danger)


def _grouped(
    word: str, partitions: Iterable[CancelPreview], why: Callable[[CancelPreview], str | None]
) -> Iterator[str]:
    groups: dict[str, list[CancelPreview]] = defaultdict(list)
    for foreseen in partitions:
        if reason := why(foreseen):
            groups[reason].append(foreseen)
    for reason, some in groups.items():
        yield f"{word}: {join_some([each.tp for each in some], told=5)}: {reason}"


def _extra(preview: Preview, state: StateDir) -> Iterator[str]:
    """Name partitions that a stop leaves with more replicas than planned, and the fix."""
    request = preview.wanted
    left = [foreseen for foreseen in preview.partitions if foreseen.extra]
    if request.kind is not CancelKind.STOP or not left:
        return
    named = join_some([f"{t.tp} ({len(t.replicas)}, plan {t.planned})" for t in left], told=5)
    command = f"ktui cancel {preview.run.name} --trim {request.scope_words}{state_option(state)}"
    have = "keeps" if len(left) == 1 else "keep"
    yield f"{named} {have} more replicas than planned. Drop them too: {command}"
