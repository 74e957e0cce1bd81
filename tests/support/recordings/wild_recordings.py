"""Recordings of impossible clusters, and events in wild orders, decided by a seed."""

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from ktui.cluster.broker import Broker, BrokerConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
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
    JournalEntry,
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
from support.recordings.taped_runs import Tape

_BY = FIRST_MOMENT + timedelta(minutes=2)
_ABOUT_RATES = 0.15  # the part of a run's events that is about rates


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


BROKERS = range(1, 6)
_PASSED_MS = (
    *(1_000, 2_000, 5_000, 7_500) * 2,
    *(1, 14_999, 15_000, 29_999, 30_000, 30_001, 59_999, 60_000, 60_001),
)


class _Clock:
    """A clock that moves only when a test sets it."""

    ms = 0

    def now(self) -> datetime:
        return FIRST_MOMENT + timedelta(milliseconds=self.ms)

    def monotonic(self) -> float:
        return self.ms / 1000


class Wild:
    """A few partitions that change at random, and sessions that record some of the changes."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(f"wild {seed}")  # noqa: S311 - a test's dice
        self.cluster_id = f"wild-{seed:05}"
        self.clock = _Clock()
        self._partitions = [TopicPartition("t", n) for n in range(dice.randint(1, 3))]
        self._states: dict[TopicPartition, PartitionState] = {}
        self._ends: dict[Replica, Reading] = {}
        self._sizes: dict[Replica, Reading] = {}
        self._starts: dict[TopicPartition, Reading] = {}
        self._configs: dict[int, BrokerConfig] = {}
        self._runs = [
            WildRun(f"{self.cluster_id}-{n}", self._partitions, dice)
            for n in range(dice.choice((0, 1, 1, 2)))
        ]
        self.tapes = [
            Tape(
                self.cluster_id,
                f"{dice.getrandbits(128):032x}",
                ms=dice.randint(0, 10**6),
                at=dice.choice((0, 0, 1, -7_000, 60_000)),
            )
            for _ in range(dice.choice((1, 1, 2, 2, 3)))
        ]
        self._hearing = dice.sample(self.tapes, dice.randint(1, len(self.tapes)))
        """The sessions that record the events of runs."""

    def recorded(self) -> list[Tape]:
        """Play everything, and return what each session recorded."""
        dice = self.dice
        for _ in range(dice.randint(5, 40)):
            self._happen()
            for tape in self.tapes:
                if dice.random() < 0.8:
                    tape.look(self._look())
                if dice.random() < 0.05:
                    tape.lost(self.clock, "nobody answers")
            self.clock.ms += dice.choice(_PASSED_MS)
        return [tape for tape in self.tapes if tape.items]

    def _happen(self) -> None:
        dice = self.dice
        for tp in self._partitions:
            if tp not in self._states or dice.random() < 0.2:
                self._states[tp] = self._state(tp)
            elif dice.random() < 0.3:
                self._states[tp] = self._moved_on(self._states[tp])
            self._read(tp)
        if dice.random() < 0.2:
            rates = [dice.choice((None, 1_000, 5_000)) for _ in range(2)]
            config = BrokerConfig(follower_throttle_rate=rates[0], leader_throttle_rate=rates[1])
            self._configs[dice.choice(BROKERS)] = config
        for run in self._runs:
            self._tell(run)

    def _tell(self, run: WildRun) -> None:
        """Record events of a run in one session or several, some late; some of them in none."""
        dice = self.dice
        for _ in range(dice.choice((0, 0, 1, 1, 2, 4))):
            number, event = run.next()
            ago = timedelta(seconds=dice.choice((0, 0, 0, 0, 3, 70)))
            entry = JournalEntry(number, self.clock.now() - ago, event)
            if dice.random() < 0.97:
                for tape in dice.sample(self._hearing, dice.randint(1, len(self._hearing))):
                    tape.happened(self.clock, ("wild", run.run_id), entry)

    def _state(self, tp: TopicPartition) -> PartitionState:
        dice = self.dice
        replicas = tuple(dice.sample(BROKERS, dice.randint(1, 4)))
        adding = tuple(b for b in replicas if dice.random() < 0.5) if dice.random() < 0.8 else ()
        kept = [b for b in replicas if b not in adding]
        removing = tuple(b for b in kept if dice.random() < 0.3)
        return PartitionState(
            tp=tp,
            topic_id=dice.choice((None, "a", "a", "a", "b")),
            replicas=replicas,
            isr=tuple(b for b in replicas if dice.random() < 0.4),
            leader=dice.choice((None, *replicas, *replicas)),
            leader_epoch=dice.choice((None, 3)),
            adding=adding,
            removing=removing,
            offline=tuple(b for b in replicas if dice.random() < 0.1),
            elr=dice.choice((None, (), (2,))),
            described=dice.random() < 0.9,
        )

    def _moved_on(self, state: PartitionState) -> PartitionState:
        """Complete a move, cancel it, or change the ISR."""
        dice = self.dice
        ended: dict[str, Any] = {"adding": (), "removing": ()}
        changes: tuple[dict[str, Any], ...] = (
            {**ended, "replicas": state.target or (1,)},
            {**ended, "replicas": state.target[::-1] or (1,)},
            {**ended, "replicas": state.original or (1,)},
            {**ended, "replicas": state.original[::-1] or (1,)},
            {"isr": tuple(dict.fromkeys((*state.isr, *state.adding)))},
            {"isr": state.isr[:1]},
        )
        values = {name: getattr(state, name) for name in state.__struct_fields__}
        return PartitionState(**{**values, **dice.choice(changes)})

    def _read(self, tp: TopicPartition) -> None:
        """Read some figures, now or a moment ago; some of them stand still, or fall."""
        dice, ms = self.dice, self.clock.ms
        for broker in BROKERS:
            for figures, most in ((self._ends, 100), (self._sizes, 10_000)):
                key, chance = Replica(tp, broker), dice.random()
                if chance < 0.5:
                    before = figures.get(key, Reading(0, 0.0)).value
                    grown = dice.choice((0, 0, dice.randint(1, most), -dice.randint(1, 20)))
                    read_s = (ms - dice.choice((0, 0, 0, 400, 6_000))) / 1000
                    figures[key] = Reading(max(0, before + grown), read_s)
                elif chance < 0.55:
                    figures.pop(key, None)
        if dice.random() < 0.3:
            self._starts[tp] = Reading(dice.choice((0, 0, 5, 300)), ms / 1000)
        elif dice.random() < 0.1:
            self._starts.pop(tp, None)

    def _look(self) -> Observation:
        dice = self.dice
        seen = [tp for tp in self._partitions if dice.random() < 0.9]
        return Observation(
            cluster_id=self.cluster_id,
            controller=dice.choice((None, 1)),
            brokers={
                b: Broker(b, alive=dice.random() < 0.9) for b in BROKERS if dice.random() < 0.95
            },
            partitions={tp: self._states[tp] for tp in seen},
            ends=dict(self._ends),
            sizes=dict(self._sizes),
            starts=dict(self._starts),
            broker_configs=dict(self._configs),
            at=self.clock.now(),
            monotonic_s=self.clock.monotonic(),
            took_s=0.01,
        )


def wild_tapes(seeds: Iterable[int]) -> list[Tape]:
    """Return the recordings of some seeds."""
    return [tape for seed in seeds for tape in Wild(seed).recorded()]
