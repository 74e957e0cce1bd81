"""Events of runs in orders that no engine writes, but that a fold accepts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.run.events import (
    Added,
    Answered,
    AnyRunEvent,
    BudgetShared,
    Cancel,
    CancelAsked,
    Elect,
    Ended,
    Joined,
    LimitsChanged,
    OnConflict,
    Planned,
    PlannedPart,
    RateChosen,
    RateHeld,
    Request,
    ScheduleChanged,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
    ThrottleChanged,
)
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import (
    NO_THROTTLE,
    BrokerRate,
    ThrottleRates,
    parse_throttle_rates,
)
from ktui.simulated.clock import FIRST_MOMENT

_BY = FIRST_MOMENT + timedelta(minutes=2)
_ABOUT_RATES = 0.15
"""The part of a run's events that is about rates."""


class WildRun:
    """A run of some partitions; `next` returns its next event and the number of that.

    Args:
        run_id: its id.
        partitions: the partitions that it moves, or some of them.
        dice: decide everything.
    """

    def __init__(
        self, run_id: str, partitions: Sequence[TopicPartition], dice: random.Random
    ) -> None:
        self.run_id, self._dice = run_id, dice
        self._partitions = partitions
        self._limits = Limits(replicas=1, partitions=dice.choice((None, 2)))
        self._number = dice.choice((0, 0, 0, 7))
        self._batch = 0
        self._rates = random.Random(run_id)  # noqa: S311 - a test's dice
        """Decides about rates and promises, so that these leave all else as it is."""
        self._first: list[AnyRunEvent] = [] if self._number else [self._started(), self._planned()]

    def next(self) -> tuple[int, AnyRunEvent]:
        """Return the number and the next event of the run."""
        self._number += 1
        if self._first:
            return self._number, self._first.pop(0)
        return self._number, self._rate() if self._rates.random() < _ABOUT_RATES else self._some()

    def _started(self) -> Started:
        return Started(
            cluster_id="wild",
            plan="plan.json",
            plan_sha256="0" * 64,
            partitions=len(self._partitions),
            limits=self._limits,
            options=RunOptions(throttle=self._wanted(), schedule=self._schedule()),
            version="1",
        )

    def _wanted(self) -> ThrottleRates:
        texts = ("none", "none", "5MB", "3=1MB", "9MB,total=8MB", "slo=lag<9", "4MB,slo=p99<1s")
        return parse_throttle_rates(self._rates.choice(texts))

    def _schedule(self) -> Schedule:
        return Schedule(by=self._rates.choice((None, _BY)))

    def _rate(self) -> AnyRunEvent:
        dice, rate = self._rates, self._rates.choice((900_000, 2_000_000, 6_000_000))
        some: tuple[AnyRunEvent, ...] = (
            ThrottleChanged(old=NO_THROTTLE, new=self._wanted()),
            ScheduleChanged(old=NO_SCHEDULE, new=self._schedule()),
            BudgetShared(shares=(BrokerRate(1, rate), BrokerRate(4, 3_000_000))),
            RateChosen(rate=dice.choice((None, rate)), ends_at=_BY, late=dice.random() < 0.2),
            RateHeld(rate=rate, figure=1.5, windows=9, kept=dice.randint(0, 9)),
            RateHeld(rate=rate, reason=dice.choice(("", "no answer"))),
        )
        return dice.choice(some)

    def _planned(self) -> PlannedPart:
        some = self._dice.sample(self._partitions, self._dice.randint(1, len(self._partitions)))
        return PlannedPart(
            partitions=tuple(
                Planned(
                    tp.topic, tp.partition, self._dice.choice(("a", "a", None)), (1, 2), (3, 4), 3
                )
                for tp in some
            )
        )

    def _some(self) -> AnyRunEvent:
        dice, tp = self._dice, self._dice.choice(self._partitions)
        of: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition}
        self._batch += dice.choice((0, 1))
        limits = Limits(replicas=dice.choice((None, 1, 3)))
        changed = LimitsChanged(old=self._limits, new=limits, batch=self._batch, in_flight=0)
        self._limits = dice.choice((self._limits, limits))
        some: tuple[AnyRunEvent, ...] = (
            self._step(tp), self._step(tp), self._step(tp),
            StepOver(**of, replicas=(1, 2), leader=1),
            StepOver(**of, replicas=(1, 2), leader=1),
            StepOver(**of, replicas=(1, 3), leader=None, reached=False),
            StateEntered(**of, state=dice.choice((*State, State.DONE))),
            Elect(**of, leader=1), Elect(**of, leader=1), Cancel(**of, reason="because"),
            Answered(**of, request=dice.choice((*Request,)), verdict=Verdict.ACCEPTED),
            changed,
            CancelAsked(kind=dice.choice((*CancelKind,)), partitions=(tp,)),
            Joined(partitions=(tp,)),
            self._planned(),
            Added(plan="x", plan_sha256="0", partitions=1, on_conflict=OnConflict.KEEP),
            Ended(counts={State.DONE: 1}),
        )  # fmt: skip
        return dice.choice(some)

    def _step(self, tp: TopicPartition) -> StepBegun:
        return StepBegun(
            topic=tp.topic,
            partition=tp.partition,
            batch=self._batch,
            replicas=(1, 2, 3),
            adding=self._dice.choice(((), (1,))),
            removing=self._dice.choice(((), (4,))),
            elect=self._dice.choice((None, 1)),
            before=(3, 4),
            leader=3,
            alters=self._dice.random() < 0.8,
        )
