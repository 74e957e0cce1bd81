"""What is wrong, the most urgent first, each with the key that helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import RunState
from ktui.planning.names import join_some
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, pieces_width
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.widgets.services import Status

_NAMED = 4
"""The most brokers named as down; there is no room for more."""
_RESUME = "R resumes, c calls off"


class Trouble(NamedTuple):
    """One thing that is wrong."""

    words: str
    key: str = ""
    """The key that helps; empty where none does."""
    role: str = "stalled"


def troubles(status: Status) -> list[Trouble]:
    """Return all that is wrong, the most urgent first; only the outage while there is one."""
    if status.outage is not None:
        return [_outage(status)]
    return [
        *_of_engine(status.run),
        *_lost_partitions(status),
        *_down(status),
        *_stalls(status),
        *_of_throttle(status.run),
        *_reduced(status),
    ]


def _outage(status: Status) -> Trouble:
    reason = "" if status.outage is None else status.outage.reason
    age = "" if status.last is None else _age_of_values(status.now_s - status.last.monotonic_s)
    return Trouble(f"reconnecting{age} · {reason}")


def _age_of_values(seconds: float) -> str:
    return f" · values {figures.as_age(seconds)} old"


def _of_engine(run: RunStatus | None) -> Iterator[Trouble]:
    if run is None or run.state is not RunState.RESUMABLE:
        return
    if run.died:
        yield Trouble(f"ENGINE DIED: {run.died}", _RESUME)
    else:
        why = f": {run.why}" if run.why else ""
        yield Trouble(f"run {run.name} WAITS FOR RESUME{why}", _RESUME)


def _lost_partitions(status: Status) -> Iterator[Trouble]:
    health = status.overview.health
    if health.offline:
        yield Trouble(f"{health.offline:,} offline", "v")
    if health.under_min_isr:
        yield Trouble(f"{health.under_min_isr:,} under min ISR", "v")


def _down(status: Status) -> Iterator[Trouble]:
    down = status.overview.down
    if not down:
        return
    named = ", ".join(map(str, down[:_NAMED])) + (" …" if len(down) > _NAMED else "")
    noun = "broker" if len(down) == 1 else "brokers"
    yield Trouble(f"{noun} {named} down{_down_for(status, down)}", "b")


def _down_for(status: Status, down: Sequence[int]) -> str:
    """Return for how long the first of these brokers is down; empty if that was not seen."""
    since = [status.down_since_s.get(broker) for broker in down]
    known = [each for each in since if each is not None]
    if len(known) < len(since):
        return ""
    return f" {figures.as_age(status.now_s - min(known))}"


def _stalls(status: Status) -> Iterator[Trouble]:
    foreign = set(status.foreign_stalled)
    own = [tp for tp in status.overview.stalled if tp not in foreign]
    if own:
        yield Trouble(f"{len(own):,} STALLED", "enter")
    of_runs = [tp for tp in status.foreign_stalled if tp in status.movers]
    if of_runs:
        runs = sorted({status.movers[tp] for tp in of_runs})
        noun = "run" if len(runs) == 1 else "runs"
        yield Trouble(f"{len(of_runs):,} STALLED of {noun} {join_some(runs)}", "r")
    others = [tp for tp in status.foreign_stalled if tp not in status.movers]
    if others:
        yield Trouble(f"{len(others):,} STALLED, foreign: {_named(others)}", "X cancels")


def _named(partitions: Sequence[TopicPartition]) -> str:
    return str(partitions[0]) + (" …" if len(partitions) > 1 else "")


def _of_throttle(run: RunStatus | None) -> Iterator[Trouble]:
    """Yield the throttle problem that keeps the run from its end."""
    if run is None or run.state is RunState.ENDED:
        return
    refusal = run.throttle.run.refusal
    if run.throttle.too_low:
        yield Trouble(run.throttle.too_low, "t")
    elif refusal:
        yield Trouble(f"throttle refused: {refusal}", "t")
    elif run.throttle.broken:
        yield Trouble(run.throttle.broken, "t")


def _reduced(status: Status) -> Iterator[Trouble]:
    count = status.overview.health.under_replicated
    if count:
        yield Trouble(f"{count:,} under-replicated", "v", "falling-behind")
    if status.left_behind:
        throttles = figures.as_count(status.left_behind, "throttle")
        yield Trouble(f"{throttles} left behind?", "ktui doctor", "falling-behind")


def fit_troubles(found: Sequence[Trouble], room: int) -> list[Piece]:
    """Fit troubles into `room` cells; those that do not fit are counted at the end."""
    if not found:
        return []
    pieces = [Piece("‼ ", found[0].role, bold=True), *_pieces(found[0])]
    for number, trouble in enumerate(found[1:], 1):
        more = [Piece(" · ", "dim"), *_pieces(trouble)]
        rest = len(found) - number - 1
        if pieces_width([*pieces, *more]) > room - (len(_more(rest)) if rest else 0):
            return [*pieces, Piece(_more(len(found) - number), "stalled", bold=True)]
        pieces += more
    return pieces


def _more(count: int) -> str:
    return f" · +{count}"


def _pieces(trouble: Trouble) -> list[Piece]:
    words = Piece(trouble.words, trouble.role, bold=True)
    return [words, Piece(f" ({trouble.key})")] if trouble.key else [words]
