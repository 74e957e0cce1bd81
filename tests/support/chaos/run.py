"""Runs on clusters where every call takes time and may fail, all decided by a seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec.structs import replace

from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    RATES,
    REPLICAS,
    SettingKey,
    parse_throttled_list,
)
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host import ownership
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import (
    CancelMoves,
    Command,
    Continue,
    LeaveThrottles,
    Pause,
    SetLimits,
    SetThrottle,
    StopEngine,
)
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    JournalEntry,
    Owned,
    Paused,
    PauseOrigin,
    SettingChanged,
    SettingsGivenUp,
)
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout as acts
from ktui.simulated.clock import VirtualClock
from ktui.simulated.layout import ClusterSpec, OutsideEvent, ScheduledEvent
from support.chaos.faults import (
    ENGINE,
    ArrivingWriter,
    Fault,
    JudgedObserver,
    SteppedClock,
    chaotic_journal,
    faults_of,
)
from support.chaos.judge import Judge
from support.chaos.ports import ChaosReader, ChaosWriter
from support.chaos.waits import Waits
from support.runs.engine_runs import OWNER, Replicas
from support.runs.held_to_rules import Rules
from support.runs.throttled import Others, settings_in
from support.runs.troubled import BROKERS, OURS, TROUBLED_S, TroubledRun
from support.runs.witnessed import Killed, KilledRun, WitnessedJournal
from support.simulated.moving_clusters import cordon, uncordon

FAULTS_S = 400.0  # seconds for which calls are slow and faults happen
CONTINUED_S = FAULTS_S + 60.0  # when an operator lifts all pauses
CONTINUES_S = 20.0
"""Seconds that an operator takes for it if others' cancels pause a run after that."""
LONGEST_S = 8_000.0  # seconds after which a run has ended, or is at rest
REST_LOOKS, REST_S = 60, 200.0  # polls and seconds without an event, after which a run is at rest
PARTITIONS = (10, 13)  # the least and the most partitions of each of two topics


class ChaosRun(TroubledRun):
    """A run of at least twenty partitions, with all kinds of faults at once.

    If the seed decides on two runs, the other one has half of the partitions.

    Args:
        seed: decides everything else.
        folder: the parent of the state directory.
        urgent_first: whether partitions with too few replicas in sync go first.
    """

    def __init__(self, seed: int, folder: Path, *, urgent_first: bool = False) -> None:
        self.more = random.Random(f"chaos {seed}")  # noqa: S311 - a test's dice
        self.rates = random.Random(f"rates {seed}")  # noqa: S311 - a test's dice
        self.cordons = random.Random(f"cordons of {seed}")  # noqa: S311 - a test's dice
        self.faults = faults_of(seed)
        self.state = StateDir(folder / "state")
        self.run_dir = self.state.create_run("run")
        self.turn: asyncio.Lock | None = None
        """Held by the run that is being executed, if two runs take turns."""
        self.other: ChaosRun | None = None
        super().__init__(seed, self.run_dir.path, urgent_first=urgent_first)
        self._set_up()
        if self.faults.on & {Fault.IN_TURN, Fault.CONCURRENT}:
            self._share()
        if Fault.OTHERS_RATES in self.faults.on:
            before = [self._their_change() for _ in range(self.rates.randint(0, 4))]
            self.cluster.configure([change for changes in before for change in changes])
        self.others = Others(self, self.other) if self.other else Others(self)
        for run in self.runs:
            run.others = self.others

    def _set_up(self) -> None:
        self.sending = ArrivingWriter(self.cluster, self.witness)
        self.judge = Judge(self, self.min_isr)
        ports = (self.faults, self.judge, self)
        self.chaos_writer = ChaosWriter(self.sending, self.cluster, *ports)
        self.writer = self.chaos_writer
        self.chaos = ChaosReader(self.reader, self.clock, *ports)
        self.reader = self.chaos
        self.check_throttle = self._check_one_throttle
        self.commands_asked: list[str] = []
        self.altered = set[TopicPartition]()
        """Partitions that others have altered in the middle of a call."""
        self.deaths = 0
        self.carried = False  # whether the run has an engine now
        self.dies = False  # whether the engine will be killed at its next event
        self.rival = asyncio.Event()
        """Set when another process takes the run from its present engine."""
        self.overtaken: list[asyncio.Task[Run]] = []
        self.at_rest = False
        """Whether nothing happened to the run for long after the faults had stopped."""
        self.turned_away = False
        """Whether it is at rest because it may not proceed beside the other run's throttle."""
        self.idle: dict[TopicPartition, str] = {}
        """What the run could have done, and did not, when it was at rest."""
        self.gated_for_good = False
        """Whether too many partitions outside the run were unhealthy then for any step."""
        self._written_at = (0.0, 0)  # the second and the poll number of the last event
        self.checks.append(self._something_happens)

    def _share(self) -> None:
        """Hand every second partition to another run."""
        theirs = dict(list(self.targets.items())[1::2])
        self.targets = {tp: to for tp, to in self.targets.items() if tp not in theirs}
        at_once = Fault.CONCURRENT in self.faults.on and self.more.random() < 0.5
        at_once = at_once or Fault.IN_TURN not in self.faults.on
        self.faults.fired[Fault.CONCURRENT if at_once else Fault.IN_TURN] += 1
        self.turn = None if at_once else asyncio.Lock()
        self.other = OtherRun(self, theirs, throttles=not at_once)

    def _clock(self) -> VirtualClock:
        return SteppedClock(leaping=True)

    def _some_partitions(self) -> tuple[Replicas, ...]:
        return tuple(
            self._some_brokers(self.dice.choice((2, 3, 3)))
            for _ in range(self.dice.randint(*PARTITIONS))
        )

    def _options(self) -> dict[str, Any]:
        dice, chosen = self.more, super()._options()
        rates = dice.choice(("none", "600kB", "900kB,3=500kB", "800kB,2=none"))
        foreign = dice.choice((*OnForeignThrottle,))
        more = {"throttle": parse_throttle_rates(rates), "on_foreign_throttle": foreign}
        self.options_chosen: dict[str, Any] = {**chosen, **more}
        return self.options_chosen

    def _acts(self, topics: dict[str, tuple[Replicas, ...]]) -> list[ScheduledEvent]:
        theirs = self._theirs() if Fault.OTHERS_RATES in self.faults.on else []
        self.faults.fired[Fault.OTHERS_RATES] += len(theirs)
        cordons = self._cordons() if Fault.CORDONS in self.faults.on else []
        self.faults.fired[Fault.CORDONS] += len(cordons)
        return [*super()._acts(topics), *theirs, *cordons]

    def _spec(self, topics: dict[str, tuple[Replicas, ...]]) -> ClusterSpec:
        spec = super()._spec(topics)
        if Fault.CORDONS not in self.faults.on:
            return spec
        return replace(spec, version=self.cordons.choice(("4.3", "4.4", "4.4")))

    def _cordons(self) -> list[ScheduledEvent]:
        """Have others cordon brokers for a while, and now and then one for good."""
        dice, acts_of_theirs = self.cordons, []
        for broker in dice.sample(BROKERS, dice.randint(1, 3)):
            at_s = dice.choice((0.0, dice.uniform(1.0, 0.9 * TROUBLED_S)))
            acts_of_theirs.append(ScheduledEvent(at_s, cordon(broker)))
            if dice.random() < 0.8:
                later_s = dice.uniform(at_s + 1.0, 1.5 * TROUBLED_S)
                acts_of_theirs.append(ScheduledEvent(later_s, uncordon(broker)))
        return acts_of_theirs

    def _act(self, topics: dict[str, tuple[Replicas, ...]]) -> OutsideEvent:
        """Choose an act, but leave faults of calls to the ports."""
        while True:
            act = super()._act(topics)
            if not isinstance(act, acts.LoseRequest | acts.LoseAnswer | acts.DelayRequest):
                return act

    def _theirs(self) -> list[ScheduledEvent]:
        """Have others set, change and delete rates and lists, and run --verify."""
        return [
            ScheduledEvent(
                self.rates.uniform(1.0, 0.9 * TROUBLED_S), acts.AlterConfigs(self._their_change())
            )
            for _ in range(self.rates.randint(1, 8))
        ]

    def _their_change(self) -> tuple[ConfigChange, ...]:
        """Choose a change of somebody else; no value of theirs is one of the run's."""
        dice = self.rates
        if dice.random() < 0.2:  # as kafka-reassign-partitions --verify
            rates = (ConfigChange(_broker(b), FOLLOWER_RATE, ConfigOp.DELETE) for b in BROKERS)
            lists = (ConfigChange(_topic(t), FOLLOWER_REPLICAS, ConfigOp.DELETE) for t in OURS)
            return (*rates, *lists)
        if dice.random() < 0.7:
            broker, rate = _broker(dice.choice(BROKERS)), dice.randint(3_000_000, 9_000_000)
            return (ConfigChange(broker, FOLLOWER_RATE, ConfigOp.SET, str(rate)),)
        op, value = dice.choice(
            (
                (ConfigOp.SET, "*"),
                (ConfigOp.SET, "77:1"),
                (ConfigOp.APPEND, "77:1,77:2"),
                (ConfigOp.SUBTRACT, "77:2"),
                (ConfigOp.DELETE, None),
            )
        )
        return (ConfigChange(_topic(dice.choice(OURS)), FOLLOWER_REPLICAS, op, value),)

    def _commands(self) -> list[tuple[float, Command]]:
        """Have an operator lift all pauses at the end, and maybe set the first rates again."""
        timed: list[tuple[float, Command]] = [(CONTINUED_S, Continue())]
        rates = self.options_chosen["throttle"]
        if rates and self.more.random() < 0.5:
            timed.append((FAULTS_S + 70.0, SetThrottle(rates)))
        return timed

    def _something_happens(self, written: Sequence[JournalEntry]) -> None:
        if written:
            self._written_at = (self.clock.monotonic(), self.looks)
        for each in written:
            if isinstance(each.event, Paused) and each.event.by is PauseOrigin.OTHERS:
                self._continue_after_others()
            if isinstance(each.event, SettingChanged) and self.rates.random() < 0.6:
                self.cluster.at(self.cluster.now_s + self.rates.uniform(0.0, 20.0), self._take_over)

    def _continue_after_others(self) -> None:
        """Have an operator go on with the rest, as the pause asks for, if no one is about to."""
        if self.clock.monotonic() >= CONTINUED_S:
            self.cluster.at(self.cluster.now_s + CONTINUES_S, lambda: self._asked(Continue()))

    def _take_over(self) -> None:
        """Have an operator set the run's rate in place of somebody else's."""
        rates = self.rates.choice(("600kB", "700kB", "1MB", "none"))
        self._asked(SetThrottle(parse_throttle_rates(rates)))

    @property
    def changed_s(self) -> Mapping[SettingKey, float]:
        return self.others.changed_s

    def _check_one_throttle(self) -> None:
        check_one_throttle(self.state, self.cluster.spec.name, self.run_dir.name)

    async def execute(self, owner: Owned = OWNER) -> Run:
        """Own and execute the run, as an engine's process does, if no other run is in its way."""
        if self.other is not None and self.folded.throttled.rates:
            check_one_throttle(
                self.state, self.cluster.spec.name, self.run_dir.name, resumed=self.engines > 0
            )
        with own_run(self.run_dir) as owned:
            owned.watch_journal()
            self.lost = owned.lost
            ENGINE.set(self.engines + 1)
            self.carried, self.dies = True, False
            try:
                return await super().execute(owner)
            finally:
                if ENGINE.get() == self.engines:
                    self.carried = False

    def observer(self) -> Observer:
        return JudgedObserver(self)

    def opened(self) -> Journal:
        journal = super().opened()
        assert isinstance(journal, WitnessedJournal)
        return chaotic_journal(journal, self)

    # ----------------------------------------------------------- the actions of others

    def ask_about(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Have an operator send a command now, in the middle of a call."""
        dice, tp = self.more, self.more.choice([*partitions] or list(self.targets))
        kind = dice.choice((CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.TRIM))
        some = tuple(dice.sample(list(self.targets), dice.randint(1, 6)))
        some_limits: dict[str, int | str | None] = {
            "replicas": dice.choice((1, 2, None)),
            "partitions": dice.choice((1, 3, 9)),
        }
        commands: tuple[Command, ...] = (
            SetLimits(some_limits),
            SetThrottle(parse_throttle_rates(dice.choice(("none", "600kB", "2MB", "700kB")))),
            LeaveThrottles(),
            StopEngine(),
            Pause(),
            Pause(topics=(tp.topic,)),
            Pause(partitions=some),
            Continue(),
            Continue(),
            CancelMoves(kind, partitions=some),
            CancelMoves(kind, partitions=(tp,)),
            CancelMoves(kind, partitions=(tp,)),
        )
        self._asked(dice.choice(commands))

    def _asked(self, command: Command) -> None:
        self.commands_asked.append(type(command).__name__)
        self.ask(command)

    def ask_soon(self, partitions: Collection[TopicPartition]) -> None:
        if self.more.random() < 0.3:
            return
        kind = self.more.choice(
            (CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.ROLLBACK, CancelKind.TRIM)
        )
        called_off = CancelMoves(kind, partitions=tuple(partitions))
        at_s = self.cluster.now_s + self.more.uniform(0.0, 50.0)
        self.cluster.at(at_s, lambda: self._asked(called_off))

    def tempt(self) -> None:
        """Have an operator stop a step with a new replica in sync, while the others may fail."""
        for tp in self.folded.tracks_in_flight:
            known = self.cluster.controller.get(tp)
            if known is not None and {*known.adding} & {*known.isr}:
                if self.faults.strikes(Fault.COMMAND, 0.1):
                    self._asked(CancelMoves(CancelKind.STOP, partitions=(tp,)))
                return

    def alter(self, partitions: Collection[TopicPartition]) -> None:
        tp = self.more.choice([*partitions])
        known = self.cluster.controller.get(tp)
        cancels = known is not None and known.reassigning and self.more.random() < 0.4
        target = None if cancels else tuple(self.more.sample(BROKERS, self.more.choice((2, 3))))
        self.altered.add(tp)
        self.cluster.do(acts.Alter({tp: target}))

    def foreign(self) -> set[TopicPartition]:
        """Return the partitions that other people have altered."""
        altering = (due.act for run in self.runs for due in run.acts)
        planned = {tp for act in altering if isinstance(act, acts.Alter) for tp in act.targets}
        return planned.union(*(run.altered for run in self.runs))

    def deleted(self) -> set[str]:
        deleting = (due.act for run in self.runs for due in run.acts)
        return {act.topic for act in deleting if isinstance(act, acts.DeleteTopic)}

    def fail(self, partitions: Collection[TopicPartition]) -> None:
        known = self.cluster.controller.get(self.more.choice([*partitions]))
        if known is None or not known.isr:
            return
        old = [broker for broker in known.isr if broker not in known.adding]
        alone = {*known.adding} & {*known.isr}
        for broker in old if alone else known.isr[:1]:
            self.cluster.do(acts.Shutdown(broker))
            self.cluster.schedule(
                ScheduledEvent(
                    self.cluster.now_s + self.more.uniform(3.0, 40.0), acts.Start(broker)
                )
            )

    @property
    def about_to_leave(self) -> list[TopicPartition]:
        departed = self.judge.departed
        return [
            tp
            for tp, track in self.folded.tracks_in_flight.items()
            if track.step is not None and (tp, track.steps) not in departed
        ]

    # ----------------------------------------------------------------- from its start to its end

    async def to_its_end(self) -> Run:
        """Execute the run to its end through all faults, with the other run beside it."""
        calm = asyncio.create_task(self._calm())
        carrying = [asyncio.create_task(run.carried_through()) for run in self.runs]
        try:
            await asyncio.wait(carrying, return_when=asyncio.FIRST_EXCEPTION)
            for task in carrying:
                if task.done():
                    task.result()
        finally:
            calm.cancel()
            for task in carrying:
                task.cancel()
            await asyncio.gather(calm, *carrying, return_exceptions=True)
        return self.folded

    async def carried_through(self) -> Run:
        """Execute the run to its end; whenever an engine leaves it, resume it a moment later."""
        await self.start()
        beside = [asyncio.create_task(self._ask()), asyncio.create_task(self._rest())]
        try:
            while True:
                try:
                    run = await self._its_turn()
                except RunRefused as refusal:
                    self._turned_away(refusal)
                    if self.given_up:
                        return self.folded
                    await self.clock.sleep(20.0)
                except (Killed, RunProblem):
                    self.deaths += 1
                else:
                    if run.ended or self.given_up:
                        return run
                self.judge.check()
                await self.clock.sleep(self.more.choice((0.1, 0.3, 2.0, 9.0, 60.0)))
        finally:
            await self.chaos_writer.all_arrived()
            await self._overtaken_end()
            for task in beside:
                task.cancel()

    def _turned_away(self, refusal: RunRefused) -> None:
        """Count this run as at rest, too, if the other run at rest has left a throttle."""
        left = self.other is not None and self.other.at_rest and not self.other.folded.ended
        if left and self.other is not None and self.other.folded.throttled.brokers:
            assert self.other.run_dir.name in str(refusal), refusal
            self.at_rest = self.turned_away = True

    async def _its_turn(self) -> Run:
        if self.turn is None:
            return await self._carried()
        async with self.turn:
            return await self._carried()

    async def _carried(self) -> Run:
        """Execute the run until its engine leaves it, or another process takes it."""
        self.rival.clear()
        carrying = asyncio.ensure_future(self.execute())
        taken = asyncio.create_task(self.rival.wait())
        try:
            await asyncio.wait([carrying, taken], return_when=asyncio.FIRST_COMPLETED)
            if carrying.done():
                return carrying.result()
            self.overtaken.append(carrying)
            raise RunProblem("another process takes the run over")
        finally:
            taken.cancel()

    async def _overtaken_end(self) -> None:
        """Check that each process that lost the run has noticed it."""
        for task in self.overtaken:
            task.cancel()
        for end in await asyncio.gather(*self.overtaken, return_exceptions=True):
            noticed = RunProblem | Killed | asyncio.CancelledError
            assert isinstance(end, noticed), f"a process that had lost the run ended it: {end}"

    @property
    def runs(self) -> list[ChaosRun]:
        """This run, and the other one if there are two."""
        return [self, *([self.other] if self.other else [])]

    async def _calm(self) -> None:
        """Sometimes deny a topic and step the clock; then end the faults."""
        while self.clock.monotonic() < FAULTS_S:
            await self.clock.sleep(self.more.uniform(5.0, 40.0))
            denies = self.faults.strikes(Fault.DENIED_TOPIC, 0.4)
            for run in self.runs:
                run.chaos.denied = self.more.choice(OURS) if denies else None
                run.meddle()
            if self.faults.strikes(Fault.CLOCK_STEP, 0.2):
                assert isinstance(self.clock, SteppedClock)
                self.clock.step(self.more.choice((-3600.0, -5.0, 30.0, 86_400.0)))
        self.faults.active = False
        for run in self.runs:
            run.chaos.denied = None

    async def _rest(self) -> None:
        """Have the engine leave the run once nothing happens to it any more."""
        busy_s = FAULTS_S + 80.0
        while True:
            await self.clock.sleep(10.0)
            slow = self.chaos.slowest_s >= REST_S / 2
            if slow or any(run.chaos_writer.on_their_way for run in self.runs):
                busy_s = max(busy_s, self.clock.monotonic())
            since_s, looks = self._written_at
            quiet = self.clock.monotonic() - max(since_s, busy_s) >= REST_S
            quiet &= self.carried and self.looks - looks >= REST_LOOKS
            if quiet and not self.at_rest:
                waits = Waits(self, self.min_isr)
                self.idle = dict(waits.unexplained(at_rest=True))
                self.gated_for_good = waits.is_ill
                self.at_rest = True
            if self.given_up and self.engine is not None:
                self.engine.leave("nothing happens any more")

    async def _ask(self) -> None:
        for at_s, command in self.commands:
            await self.clock.sleep(at_s - self.clock.monotonic())
            self._asked(command)

    @property
    def given_up(self) -> bool:
        return self.at_rest or self.clock.monotonic() >= LONGEST_S

    def meddle(self) -> None:
        """Have somebody remove the run's lock, so that another process could own the run."""
        if not self.carried:
            return
        if self.turn is not None and self.more.random() < 0.3 and self.faults.active:
            self.dies = True  # so that the other run has its turn
        if self.faults.strikes(Fault.LOCK_REMOVED, 0.05):
            self.run_dir.lock.unlink(missing_ok=True)
            self.judge.disowned.setdefault(self.engines, self.clock.monotonic())
        elif self.faults.strikes(Fault.RIVAL, 0.1):
            self._taken_over()

    def _taken_over(self) -> None:
        """Have another process try to own the run; that fails until the lock is removed."""
        if self.run_dir.lock.exists():
            with mock.patch.object(ownership, "_PATIENCE_S", 0.0):
                try:
                    own_run(self.run_dir).release()
                except RunProblem:
                    pass
                else:
                    self.judge.wrong.append(AssertionError("two processes own the run"))
        self.run_dir.lock.unlink(missing_ok=True)
        self.judge.disowned.setdefault(self.engines, self.clock.monotonic())
        self.carried = False  # until the other process has taken it
        self.rival.set()

    @property
    def words(self) -> str:
        """A summary: the size of the run, the delays, faults, commands and requests."""
        fired = {fault.value: n for fault, n in sorted(self.faults.fired.items()) if n}
        runs = self.runs
        asked, sent, changed = Counter[str](), Counter[str](), Counter[str]()
        for run in runs:
            asked.update(run.commands_asked)
            sent.update(run.judge.requests)
            changed.update(run.judge.changed_since)
        return (
            f"{sum(len(run.targets) for run in runs)} partitions in {len(runs)} runs, "
            f"{sum(run.looks for run in runs)} looks, {self.clock.monotonic():.0f} s "
            f"simulated, {self.faults.delays_s:.0f} s of delays of up to {self.faults.typical_s} "
            f"s; {fired}; asked {dict(asked)}; sent {dict(sent)}; "
            f"{sum(run.deaths for run in runs)} deaths; changed between read and effect "
            f"{dict(+changed)}"
        )

    def check_settings(self) -> None:
        """Check that every setting is as it would be without the runs, once they have ended."""
        runs = self.runs
        if not all(run.folded.ended for run in runs):
            return
        given_up = {
            (event.resource, key)
            for run in runs
            for event in run.events
            if isinstance(event, SettingsGivenUp) and event.reason.startswith("left behind")
            for key in event.keys
        }
        late = set().union(*(run.judge.set_late for run in runs))
        now, without = settings_in(self.cluster), self.others.settings
        for resource in {*now, *without}:
            for key in (*RATES, *REPLICAS):
                there = now.get(resource, {}).get(key)
                was = without.get(resource, {}).get(key)
                same = there == was or (key in REPLICAS and _same_list(there, was))
                explained = same or (resource, key) in given_up
                explained |= was is None and (resource, key, there) in late
                explained |= self._met_unseen((resource, key))
                assert explained, f"{resource} {key} is {there}, others have made it {was}"

    def _met_unseen(self, key: SettingKey) -> bool:
        """Return whether others' last change came between a run's read and its own change."""
        last_s = self.others.changed_s.get(key)
        return any(run.judge.overwritten.get(key) == last_s is not None for run in self.runs)


class OtherRun(ChaosRun):
    """A run with half of the partitions of another, in the same state directory.

    Args:
        first: the run that shares the cluster.
        targets: the partitions to move.
        throttles: whether it may have a throttle: of two concurrent runs, only one may.
    """

    def __init__(
        self, first: ChaosRun, targets: Mapping[TopicPartition, Replicas], *, throttles: bool
    ) -> None:
        self.dice, self.more, self.faults = first.dice, first.more, first.faults
        self.rates = first.rates
        self.min_isr, self.state, self.turn = first.min_isr, first.state, first.turn
        self.run_dir = self.state.create_run("other")
        self.other = first
        options = self._options()
        if not throttles:
            options["throttle"] = parse_throttle_rates("none")
        KilledRun.__init__(
            self, first.cluster, self.run_dir.path, targets, self._limits(), **options
        )
        self.rules = Rules(self, self.min_isr)
        self.acts, self.commands = [], self._commands()
        self._set_up()


def _same_list(one: str | None, other: str | None) -> bool:
    return parse_throttled_list(one or "") == parse_throttled_list(other or "")


def _broker(number: int) -> ConfigResource:
    return ConfigResource(ConfigScope.BROKER, str(number))


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigScope.TOPIC, name)
