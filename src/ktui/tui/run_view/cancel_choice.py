"""What a cancel is about: partitions of the run, and those that nobody's run moves."""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import RunState
from ktui.execution.journal.commands import CancelMoves, Command, Continue, Pause
from ktui.execution.run.run import Run
from ktui.execution.run.scope import tracks_in_scope
from ktui.execution.run.states import CancelKind
from ktui.progress.timeline import Phase, Progress, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.run_view.attached import RunStatus

_OPEN = (Phase.MOVING, Phase.STALLED)


def foreign_moves(run: Run, progress: Progress) -> list[Timeline]:
    """Return the open moves that are no step in flight of a run, the longest stalled first."""
    ours = run.tracks_in_flight.keys() | run.cancelling.keys()
    moves = [t for t in progress.timelines.values() if t.phase in _OPEN and t.tp not in ours]
    return sorted(moves, key=_stalled_since)


def _stalled_since(move: Timeline) -> float:
    stall = move.stall
    return float("inf") if stall is None else stall.since_s


class CancelAction(enum.Enum):
    """An action of the cancel dialog."""

    STOP = "stop"
    ROLLBACK = "roll back"
    TRIM = "trim"
    PAUSE = "pause"
    CONTINUE = "continue"

    @property
    def kind(self) -> CancelKind | None:
        return _KINDS.get(self)


_KINDS = {
    CancelAction.STOP: CancelKind.STOP,
    CancelAction.ROLLBACK: CancelKind.ROLLBACK,
    CancelAction.TRIM: CancelKind.TRIM,
}


class DialogScope(msgspec.Struct, frozen=True):
    """Partitions of the run; the whole run where none is named."""

    words: str
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def whole(self) -> bool:
        return not (self.topics or self.partitions)


class DialogChoice(msgspec.Struct, frozen=True):
    """The action chosen, and its scope."""

    action: CancelAction
    scope: DialogScope

    @property
    def command(self) -> Command:
        topics, partitions = self.scope.topics, self.scope.partitions
        if self.action.kind is not None:
            return CancelMoves(self.action.kind, topics=topics, partitions=partitions)
        asks = Pause if self.action is CancelAction.PAUSE else Continue
        return asks(topics=topics, partitions=partitions)

    @property
    def what(self) -> str:
        return f"{self.action.value} {self.scope.words}"

    def shuts_gate(self, status: RunStatus) -> bool:
        """Return whether this also shuts the cluster's cancel gate (KIP-236's reassign_cancel)."""
        cancels = self.action.kind is not None and self.scope.whole
        return cancels and status.state is not RunState.ENDED


def scopes(
    run: Run, tp: TopicPartition | None, marked: Collection[TopicPartition]
) -> list[DialogScope]:
    """Return the scopes to choose from: first the marked partitions, where there are any."""
    found = []
    some = tuple(each for each in run.tracks if each in marked)
    if some:
        left_out = len(marked) - len(some)
        outside_run = f"; {left_out:,} marked {'is' if left_out == 1 else 'are'} not in the run"
        count = figures.as_count(len(some), "marked partition")
        found.append(DialogScope(f"{count}{outside_run if left_out else ''}", partitions=some))
    if tp is not None and tp in run.tracks:
        found.append(DialogScope(f"partition {tp}", partitions=(tp,)))
        count = figures.as_count(len(tracks_in_scope(run, topics=[tp.topic])), "partition")
        found.append(DialogScope(f"topic {tp.topic} ({count})", topics=(tp.topic,)))
    every = figures.as_count(len(run.tracks), "partition")
    return [*found, DialogScope(f"everything in the run ({every})")]


def broker_scope(broker: int, partitions: Collection[TopicPartition]) -> DialogScope:
    """Return the scope of the partitions that have to do with a broker."""
    count = figures.as_count(len(partitions), "partition")
    return DialogScope(
        f"what has to do with broker {broker} ({count})", partitions=tuple(partitions)
    )


def command_scope(run: Run, cancel: CancelMoves) -> DialogScope:
    """Return the scope that a command names."""
    topics, partitions = cancel.topics, cancel.partitions
    if not (topics or partitions):
        return scopes(run, None, ())[-1]
    count = figures.as_count(len(tracks_in_scope(run, topics, partitions)), "partition")
    names = ", ".join([*topics, *map(str, partitions)])
    return DialogScope(f"{names} ({count})", topics=topics, partitions=partitions)
