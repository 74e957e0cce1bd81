"""The journal of a run that carries out moves of `bench.pipeline.moves`, as an engine writes it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from bench.pipeline.moves import Move
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    CancelAsked,
    Elect,
    Ended,
    LimitsChanged,
    Owned,
    Planned,
    Recording,
    Request,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
    ThrottleChanged,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import planned_parts
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import ThrottleRates

FIRST_RATE, SECOND_RATE = 20_000_000, 50_000_000
"""The throttle into each broker, bytes a second; the second from the middle of the run on."""
WHO = "ada@ops1 (4711)"


class RunJournal:
    """Makes the events of one run, and knows the rate that is in force.

    Args:
        cluster_id: the id of the cluster.
        moves: all moves of the run, in the order of its plan; none for no run.
        in_flight: the limit of partitions in flight.
    """

    def __init__(self, cluster_id: str, moves: Sequence[Move], in_flight: int) -> None:
        self._cluster_id, self._moves = cluster_id, moves
        self._limits = Limits(partitions=in_flight)
        self._batch = 0
        self._counts: Counter[State] = Counter()
        self.rate: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether all moves have ended."""
        return self._counts.total() == len(self._moves)

    def begin(self) -> Iterator[AnyRunEvent]:
        """Yield the events that the journal begins with."""
        self.rate = FIRST_RATE
        planned = [
            Planned(
                topic=move.tp.topic,
                partition=move.tp.partition,
                topic_id=move.topic_id,
                target=move.target,
                original=move.original,
                leader=move.leader,
                size=move.size,
            )
            for move in self._moves
        ]
        yield Started(
            cluster_id=self._cluster_id,
            plan="drain.json",
            plan_sha256=hashlib.sha256(self._cluster_id.encode()).hexdigest(),
            partitions=len(planned),
            limits=self._limits,
            options=RunOptions(throttle=ThrottleRates(every=FIRST_RATE)),
            version="bench",
        )
        yield from planned_parts(planned)
        yield Owned(pid=4711, host="ops1", user="ada")
        yield Recording(on=True)

    def begin_steps(self, moves: Sequence[Move]) -> Iterator[AnyRunEvent]:
        """Yield the first steps of some moves: one decision."""
        self._batch += 1
        for move in moves:
            wide = (move.new, *move.original)
            yield _step(move, self._batch, wide, adding=(move.new,), before=move.original)
            yield _answer(move, Request.ALTER)

    def pass_second(self, moves: Sequence[Move]) -> Iterator[AnyRunEvent]:
        """Yield what happens to moves in flight at the present second of each."""
        cut = [move for move in moves if not move.cancelled and move.second == move.times.cut_s]
        self._batch += bool(cut)
        for move in cut:
            yield from self._cut(move)
        for move in moves:
            if move.cancelled:
                yield from _cancel(move)
            elif move.second == move.times.over_s:
                wide = (move.new, *move.original)
                yield _over(move, wide, move.leader)
            elif move.elects and move.second == move.times.done_s - 1 > move.times.cut_s:
                yield Elect(topic=move.tp.topic, partition=move.tp.partition, leader=move.new)
                yield _answer(move, Request.ELECT)
            elif move.second == move.times.done_s:
                yield _over(move, move.target, move.state.leader)
                yield _enter(move, State.DONE)
        ended = [move for move in moves if move.second == move.times.done_s]
        for move in ended:
            self._counts[State.STOPPED if move.cancelled else State.DONE] += 1
        yield from self._changes(len(ended))

    def _cut(self, move: Move) -> Iterator[AnyRunEvent]:
        wide = (move.new, *move.original)
        yield _step(move, self._batch, move.target, removing=(move.old,), before=wide)
        yield _answer(move, Request.ALTER)

    def _changes(self, ended: int) -> Iterator[AnyRunEvent]:
        """Yield the operator's changes, and the end of the run, as the last moves have ended."""
        now = self._counts.total()
        middle = len(self._moves) // 2
        if now - ended < middle <= now:
            rates = (ThrottleRates(every=FIRST_RATE), ThrottleRates(every=SECOND_RATE))
            yield ThrottleChanged(old=rates[0], new=rates[1], who=WHO)
            self.rate = SECOND_RATE
            new = Limits(partitions=self._limits.partitions, per_broker=50)
            yield LimitsChanged(old=self._limits, new=new, batch=self._batch, in_flight=0, who=WHO)
        if ended and self.is_over:
            yield Ended(counts=dict(self._counts))
            self.rate = None


def _step(
    move: Move,
    batch: int,
    replicas: tuple[int, ...],
    *,
    before: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> StepBegun:
    return StepBegun(
        topic=move.tp.topic,
        partition=move.tp.partition,
        batch=batch,
        replicas=replicas,
        adding=adding,
        removing=removing,
        elect=move.new if removing and move.elects else None,
        before=before,
        leader=move.leader,
        moves_leader=bool(removing) and move.elects,
        cut=bool(removing),
    )


def _answer(move: Move, request: Request) -> Answered:
    return Answered(
        topic=move.tp.topic,
        partition=move.tp.partition,
        request=request,
        verdict=Verdict.ACCEPTED,
    )


def _over(move: Move, replicas: tuple[int, ...], leader: int | None) -> StepOver:
    reached = not move.cancelled
    return StepOver(
        topic=move.tp.topic,
        partition=move.tp.partition,
        replicas=replicas,
        leader=leader,
        reached=reached,
    )


def _enter(move: Move, state: State) -> StateEntered:
    return StateEntered(topic=move.tp.topic, partition=move.tp.partition, state=state)


def _cancel(move: Move) -> Iterator[AnyRunEvent]:
    if move.second == move.times.over_s - 1:
        yield CancelAsked(kind=CancelKind.STOP, partitions=(move.tp,), who=WHO)
        yield Cancel(topic=move.tp.topic, partition=move.tp.partition, reason="an operator")
        yield _answer(move, Request.CANCEL)
    elif move.second == move.times.over_s:
        yield _over(move, move.original, move.leader)
        yield _enter(move, State.STOPPED)
