"""What a cancel comes to, as a person reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from ktui.cli.cancel.preview import Preview
from ktui.cli.options.common import state_option
from ktui.cli.output.table import table
from ktui.cluster.text import clean
from ktui.execution.cancel.preview import Foreseen
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.cancel_scope import acts_in_words
from ktui.execution.run.event_text import KIND_IN_WORDS, brokers
from ktui.planning.names import join_some
from ktui.quantities import as_count

MOST_ROWS = 40
_HEADER = ("PARTITION", "STATE", "REPLICAS", "SENT", "AFTER", "RF", "LEADER")


def preview_text(preview: Preview, state: StateDir) -> str:
    """Give what is wanted first, then each partition, then what is refused, risked and left."""
    wanted, run = preview.wanted, preview.run
    what = f"{KIND_IN_WORDS[wanted.kind]} {as_count(len(preview.tracks), 'partition')}"
    head = f"run {run.name}: {what}: {acts_in_words(preview.acts)}"
    if preview.problem is not None:
        return f"{head}\nwhat it comes to cannot be told: {clean(preview.problem)}"
    lines = [*_rows(preview), *_refused(preview), *_dangers(preview), *_extra(preview, state)]
    return "\n".join([head, *map(clean, lines)])


def _rows(preview: Preview) -> Iterator[str]:
    """Give the partitions that matter most first, and count those that are not shown."""
    pairs = zip(preview.tracks, preview.partitions, strict=True)
    ranked = sorted(pairs, key=lambda pair: _rank(pair[1]))
    rows = [
        (
            str(told.tp),
            track.state.words,
            brokers(track.replicas),
            _sent(told),
            brokers(told.replicas),
            str(len(told.replicas)),
            "-" if told.leader is None else str(told.leader),
        )
        for track, told in ranked[:MOST_ROWS]
    ]
    yield from table(_HEADER, rows, right=(5, 6)).splitlines()
    rest = Counter(_sent(told) for _, told in ranked[MOST_ROWS:])
    if rest:
        counts = ", ".join(f"{count:,} {sent}" for sent, count in rest.most_common())
        yield f"and {rest.total():,} more: {counts}"


def _rank(told: Foreseen) -> int:
    if told.refused or told.danger:
        return 0
    return 1 if told.cancels or told.steps else 2


def _sent(told: Foreseen) -> str:
    if told.refused and not told.cancels:
        return "nothing for now"
    steps = as_count(len(told.steps), "step") if told.steps else ""
    return ", ".join(filter(None, ("cancel" if told.cancels else "", steps))) or "nothing"


def _refused(preview: Preview) -> Iterator[str]:
    def why(told: Foreseen) -> str | None:
        return told.refused and f"{told.refused}. {told.way_out}"

    yield from _grouped("not now", preview.partitions, why)


def _dangers(preview: Preview) -> Iterator[str]:
    yield from _grouped("danger", preview.partitions, lambda told: told.danger)


def _grouped(
    word: str, partitions: Iterable[Foreseen], why: Callable[[Foreseen], str | None]
) -> Iterator[str]:
    """Name the partitions for each reason."""
    groups: dict[str, list[Foreseen]] = defaultdict(list)
    for told in partitions:
        if reason := why(told):
            groups[reason].append(told)
    for reason, some in groups.items():
        yield f"{word}: {join_some([each.tp for each in some], told=5)}: {reason}"


def _extra(preview: Preview, state: StateDir) -> Iterator[str]:
    """Tell of replicas that a stop leaves beyond the plan's number, and how they go."""
    wanted = preview.wanted
    left = [told for told in preview.partitions if told.extra]
    if wanted.kind is not CancelKind.STOP or not left:
        return
    named = join_some([f"{t.tp} ({len(t.replicas)}, plan {t.planned})" for t in left], told=5)
    command = f"ktui cancel {preview.run.name} --trim {wanted.scope_words}{state_option(state)}"
    have = "keeps" if len(left) == 1 else "keep"
    yield f"{named} {have} more replicas than the plan gives; to drop them too: {command}"
