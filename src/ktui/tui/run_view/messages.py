"""Whole sentences about runs, as the app shows them, and what a cancel is about."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.execution.foreign_cancels import ForeignOutcome, ListedReassignment, Settled
from ktui.execution.host.catalog import OtherRun, RunState
from ktui.execution.journal.commands import CancelMoves, Command, Continue, Pause
from ktui.execution.run.run import Run
from ktui.execution.run.scope import tracks_in_scope
from ktui.execution.run.states import CancelKind
from ktui.planning.plan import join_some
from ktui.progress.timeline import Phase, Progress, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.run_view.attached import RunStatus

READ_ONLY = "This view is read-only; open it with ktui watch --write to make changes."
NO_RUN = "No run is attached. r lists the runs, n starts a plan."
LEAVE_PLAN = "Leave the plan first, with esc: it is for the run shown."
NO_OTHER_RUN = "No other run of this cluster lives or waits for resume. r lists all runs."
NO_ENGINES = "Nothing can be started from here."
NOT_FOREIGN = "No one else is reassigning this partition. To cancel the run's own moves, press c."
NOT_ON_BROKER = "Run {} has no partition that holds, gains or loses a replica on broker {}."
NOT_PAUSED_ON_BROKER = "Nothing of run {} that has to do with broker {} is paused by itself."
NOT_CURRENT = "The cluster does not answer: this is the last known state."
ROLLS_BACK = "To roll back run {}, choose it there and press c."
SHUTS_GATE = (
    "This also shuts the cluster's cancel gate: until you open it with O, no run of this cluster"
    " submits anything but cancels and rollbacks."
)
OPENING_GATE = (
    "It was shut by {}. Once it is open, every run of this cluster goes on with whatever was not"
    " cancelled, and plans can be started."
)
GATE_SHUT = (
    "The cluster's cancel gate is shut {}: nothing can be started or added until it is open. Leave"
    " with esc, then open it with O."
)


def look_at_others(ended: str, others: Sequence[OtherRun]) -> str:
    """Return that a run has ended, and how to get to those that have not."""
    named = join_some([f"run {each.name} {each.state.words}" for each in others], most=4)
    return f"Run {ended} has ended; {named}. Press ctrl+r to show it."


def foreign_words(mover: str | None) -> str:
    """Return who reassigns a partition: another run of the state directory, or someone else."""
    return f"{'someone else' if mover is None else f'run {mover}'} is reassigning it"


def foreign_hint(mover: str | None) -> str:
    """Return who reassigns a partition, and the key that calls it off."""
    if mover is None:
        return "Someone else is reassigning it: press X to cancel that."
    return f"Run {mover} is reassigning it: press ctrl+r to show that run, and call it off with c."


def belongs_to(tp: TopicPartition | None, run: str) -> str:
    """Return whose partition is under the cursor, and the key to that run."""
    return f"{tp} belongs to run {run}: press ctrl+r to show that run, then this key again."


def beside_live_run(live: str, attached: str) -> str:
    """Return what it means to start a run beside a live one, which may not be attached."""
    words = (
        f"Run {live} is live on this cluster. Another starts only if you allow it: each run"
        " keeps to its own limits, so together they move more."
    )
    there = f" To add the plan to run {live}, leave with esc, open the run with r, then press n."
    return words if attached else f"{words}{there}"


def takes_no_plans(status: RunStatus) -> str:
    """Return why a run takes no further plan, and what to do; empty where it takes one."""
    if status.state is RunState.ENDED:
        return (
            f"Run {status.name} has ended and accepts no more plans: start this one as a new run."
        )
    if not status.owned:
        return (
            f"Run {status.name} has no engine: it takes plans once it is resumed. Leave"
            f" with esc, then r and R, or: ktui resume {status.name}"
        )
    return ""


def resumed_for_cancel(status: RunStatus, *, whole: bool) -> str:
    """Return what happens to a run without an engine when some or all of it is cancelled."""
    if status.state is RunState.ENDED:
        return "The run has ended: an engine starts for this, and exits when it is done."
    rest = "" if whole else ", and the rest of it is paused"
    return f"The run has no engine: one starts for this{rest}."


def foreign_scope(moves: Sequence[ListedReassignment]) -> str:
    """Return which foreign reassignments are meant: "this foreign reassignment of a-0"."""
    if len(moves) == 1:
        return f"this foreign reassignment of {moves[0].tp}"
    return f"{len(moves):,} marked foreign reassignments"


def foreign_outcomes(settled: Mapping[TopicPartition, Settled]) -> str:
    """Return the outcomes of cancelled foreign reassignments; several are counted and named."""
    if len(settled) == 1:
        (only,) = settled.values()
        now = f", on {' '.join(map(str, only.replicas))}" if only.replicas else ""
        why = f": {only.detail}" if only.detail else ""
        return f"{only.outcome}{now}{why}"
    by_outcome: dict[ForeignOutcome, list[TopicPartition]] = {}
    for tp, each in settled.items():
        by_outcome.setdefault(each.outcome, []).append(tp)
    return "; ".join(f"{len(tps):,} {how}: {join_some(tps)}" for how, tps in by_outcome.items())


def cancel_consequences(moves: Sequence[ListedReassignment], left_out: int = 0) -> str:
    """Return what the cancel of foreign reassignments does, and how many it leaves alone."""
    if len(moves) == 1:
        words = _consequences_of_one(moves[0])
    else:
        dangers = [f"{move.tp}: {move.danger}" for move in moves if move.danger is not None]
        warning = f" ! {join_some(dangers, most=3)}." if dangers else ""
        each = [f"{move.tp} to {' '.join(map(str, move.target))}" for move in moves]
        words = (
            f"Moving: {join_some(each, most=8)}. No run of yours started them."
            " Kafka drops the replicas that they are adding, and does not remember the earlier"
            f" order of the replicas that stay: only whoever started them may know.{warning}"
        )
    if left_out:
        words += (
            f" Left alone: {figures.as_count(left_out, 'other marked partition')} with nothing"
            " foreign to cancel now."
        )
    return words


def _consequences_of_one(move: ListedReassignment) -> str:
    now, target = (" ".join(map(str, brokers)) for brokers in (move.original, move.target))
    danger = "" if move.danger is None else f" ! {move.danger}."
    return (
        f"It is moving to {target}; no run of yours started it. Kafka drops the"
        f" replicas that it is adding and keeps {now}. Kafka does not remember their order before"
        f" the move: only whoever started it may know.{danger}"
    )


def pause_consequences(status: RunStatus, *, paused: bool) -> str:
    """Return what a pause does, or what its end does."""
    left = figures.as_count(status.partitions - status.over, "partition")
    if paused:
        why = f" It is paused {status.why}." if status.why else ""
        return f"{left} not finished yet: the run goes on with them under the limits in force.{why}"
    in_flight = figures.as_count(status.steps_in_flight, "step")
    return (
        f"Nothing new is submitted; {left} not finished yet."
        f" Nothing is cancelled: {in_flight} in flight will finish. Press p again to continue."
    )


def why_unchangeable(status: RunStatus) -> str | None:
    """Return why no command can be sent to a run now; None if one can."""
    if status.state is RunState.ENDED:
        return f"Run {status.name} has ended."
    if not status.owned:
        words = f"Run {status.name} has no engine. Resume it first: r, or"
        return f"{words} ktui resume {status.name}"
    return None


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
