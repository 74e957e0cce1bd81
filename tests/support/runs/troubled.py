"""Runs on clusters with much trouble: all of it decided by a seed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
)
from ktui.execution.journal.commands import (
    CancelMoves,
    Command,
    Continue,
    Pause,
    SetLimits,
    SetThrottle,
)
from ktui.execution.run.events import Started
from ktui.execution.run.options import OnForeignChange, OnStall
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.pacing.limits import (
    CHOICES,
    NUMBERS,
    OF_ONE_BROKER,
    OF_RUN,
    SHAPES,
    BrokerLimits,
    InternalOrder,
    Limits,
    Mode,
    Order,
    Shape,
)
from ktui.pacing.situation import Blocked, BlockReason
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import Registration
from ktui.simulated.layout import (
    VERSIONS,
    BrokerSpec,
    ClusterSpec,
    OutsideEvent,
    ScheduledEvent,
    TopicSpec,
)
from support.runs.cancel_stories import CancelRules
from support.runs.engine_runs import Replicas
from support.runs.held_to_rules import Rules
from support.runs.throttled import Others, Settings, ThrottleRules, settings_in
from support.runs.witnessed import KilledRun

BROKERS = range(1, 8)
_RACKS = {broker: "ab"[broker % 2] for broker in list(BROKERS)[1:]}
"""The first broker has none."""
OURS, THEIRS = ("orders", "__transaction_state"), "audit"
TROUBLED_S = 100.0
AGAIN_S = 400.0
"""Seconds: long enough for requests in flight, and for brokers that come back."""


TROUBLES = {
    layout.Kill, layout.Shutdown, layout.Start, layout.Hang, layout.Resume, layout.Slow,
    layout.FillDisk, layout.ChangeController, layout.LoseRequest, layout.LoseAnswer,
    layout.DelayRequest, layout.Deny, layout.Alter, layout.ElectLeaders, layout.DeleteTopic,
    layout.CreateTopic,
}  # fmt: skip
"""All kinds of acts; the seeds that every test run plays have each of them."""


class TroubledRun(KilledRun):
    """A run amid failing machines, other people's tools and changing limits.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
        urgent_first: whether partitions with too few replicas in sync go first.
    """

    def __init__(
        self, seed: int, folder: Path, *, killed: bool = False, urgent_first: bool = False
    ) -> None:
        self.dice = dice = random.Random(seed)  # noqa: S311 - a test's dice
        self.min_isr = dice.choice((1, 1, 2, 2, 3))
        topics = {name: self._some_partitions() for name in (*OURS, THEIRS)}
        cluster = SimulatedCluster(self._spec(topics), self._clock(), seed=seed)
        partitions = [TopicPartition(name, n) for name in OURS for n in range(len(topics[name]))]
        targets = {tp: self._target(topics[tp.topic][tp.partition]) for tp in partitions}
        at = {dice.randint(1, 150) for _ in range(dice.randint(1, 5))} if killed else ()
        options = {"urgent_first": urgent_first, **self._options()}
        super().__init__(cluster, folder, targets, self._limits(), seed=seed, at=at, **options)
        self.rules = Rules(self, self.min_isr)
        self.acts = sorted(self._acts(topics), key=lambda due: due.at_s)
        self.commands = sorted(self._commands(), key=lambda timed: timed[0])
        for due in self.acts:
            cluster.schedule(due)

    longest_s = 3_000.0  # by then it has ended, or is left, as nothing more happens in it

    def _clock(self) -> VirtualClock:
        return VirtualClock(leaping=True)

    def _some_partitions(self) -> tuple[Replicas, ...]:
        count = self.dice.randint(2, 5)
        return tuple(self._some_brokers(self.dice.choice((2, 3, 3))) for _ in range(count))

    def _some_brokers(self, count: int) -> Replicas:
        return tuple(self.dice.sample(BROKERS, count))

    def _target(self, replicas: Replicas) -> Replicas:
        changed = self.dice.choice((0, 0, 0, 1, -1))
        return self._some_brokers(max(1, len(replicas) + changed))

    def _spec(self, topics: dict[str, tuple[Replicas, ...]]) -> ClusterSpec:
        dice = self.dice
        configs = {
            "min.insync.replicas": str(self.min_isr),
            "unclean.leader.election.enable": dice.choice(("true", "false")),
        }
        return ClusterSpec(
            version=dice.choice(VERSIONS),
            brokers=tuple(
                BrokerSpec(id=b, net_in=1e6, disk_bytes=10**9, rack=_RACKS.get(b)) for b in BROKERS
            ),
            topics=tuple(
                TopicSpec(
                    name=name,
                    replicas=replicas,
                    bytes_each=dice.choice((2_000_000, 10_000_000, 30_000_000)),
                    inbound=dice.choice((0.0, 2_000.0)),
                    configs=configs,
                )
                for name, replicas in topics.items()
            ),
            auto_leader_rebalance=dice.random() < 0.5,
            rebalance_interval_s=11.0,
            lag_time_max_s=dice.choice((3.0, 30.0)),
            metadata_lag_s=dice.choice((0.1, 0.7)),
        )

    def _limits(self) -> Limits:
        dice = self.dice
        shape = dice.choice(SHAPES)
        gentle = shape is Shape.GENTLE
        limits = Limits(
            replicas=dice.choice((None, 1, 1, 2)),
            partitions=dice.choice((None, 1, 2, 2, 3)),
            leader_movements=dice.choice((None, None, 1, 2)),
            replica_movements=dice.choice((None, None, 1, 2, 4)),
            per_broker=dice.choice((None, None, 1, 2)),
            extra_replicas=dice.choice((None, None, 1)) if gentle else None,
            cut_together=dice.choice((None, 1, 2)) if gentle else None,
            shape=shape,
            mode=dice.choice(tuple(Mode)),
            order=dice.choice(tuple(Order)),
        )
        seed = str(limits).replace("per_rack=None, ", "")
        others = random.Random(seed)  # noqa: S311 - so that the dice go on as without it
        internal = others.choice(tuple(InternalOrder)) if gentle else InternalOrder.NONE
        own = self._broker_limits(others)
        per_rack = others.choice((None, None, 1, 2))
        return replace(limits, internal=internal, brokers=own, per_rack=per_rack)

    def _broker_limits(self, dice: random.Random) -> tuple[BrokerLimits, ...]:
        """Return limits of one broker's own, in one of three draws."""
        own = BrokerLimits(
            broker=dice.choice(BROKERS),
            per_broker=dice.choice((UNSET, None, 1, 2)),
            per_leader=dice.choice((UNSET, 1, 1, 2)),
        )
        return (own,) if dice.random() < 0.33 else ()

    def _options(self) -> dict[str, Any]:
        dice = self.dice
        return {
            "on_stall": dice.choice(tuple(OnStall)),
            "stall_timeout_s": dice.choice((5.0, 40.0, 300.0)),
            "on_foreign_change": dice.choice(tuple(OnForeignChange)),
            "stop_on_failure": dice.random() < 0.1,
            "most_offline": dice.choice((None, None, None, 0)),
            "most_under_min_isr": dice.choice((None, None, None, 0, 1)),
        }

    def _acts(self, topics: dict[str, tuple[Replicas, ...]]) -> list[ScheduledEvent]:
        dice = self.dice
        made = [self._act(topics) for _ in range(dice.randint(4, 24))]
        troubles = [
            ScheduledEvent(round(dice.uniform(0.1, 0.9 * TROUBLED_S), 1), act) for act in made
        ]
        return [*troubles, *(ScheduledEvent(TROUBLED_S, act) for act in _all_mended())]

    def _act(self, topics: dict[str, tuple[Replicas, ...]]) -> OutsideEvent:
        dice, broker = self.dice, self.dice.choice(BROKERS)
        topic = dice.choice((*OURS, THEIRS, THEIRS))
        tp = TopicPartition(topic, dice.randrange(len(topics[topic])))
        others = self._some_brokers(dice.choice((2, 3)))
        made_again = TopicSpec(name=topic, replicas=topics[topic], bytes_each=10_000)
        some: tuple[OutsideEvent, ...] = (
            layout.Kill(broker), layout.Kill(broker), layout.Shutdown(broker), layout.Start(broker),
            layout.Start(broker), layout.Hang(broker), layout.Resume(broker),
            layout.Slow(broker, dice.choice((0.0001, 0.2))), layout.FillDisk(broker, 1_000_000),
            layout.ChangeController(), layout.LoseRequest(), layout.LoseAnswer(),
            layout.DelayRequest(dice.uniform(0.05, 9.9)), layout.Deny(dice.choice(_CALLS)),
            layout.Deny("describe_quorum"), layout.Alter({tp: others}), layout.Alter({tp: others}),
            layout.Alter({tp: None}), layout.ElectLeaders((tp,)), layout.DeleteTopic(topic),
            layout.CreateTopic(made_again),
        )  # fmt: skip
        return dice.choice(some)

    def _commands(self) -> list[tuple[float, Command]]:
        dice = self.dice
        timed: list[tuple[float, Command]] = []
        for _ in range(dice.randint(0, 6)):
            at_s = dice.uniform(0.0, TROUBLED_S)
            tp = dice.choice(list(self.targets))
            some: tuple[Command, ...] = (
                _set_limits(self._limits()), _set_limits(self._limits()),
                Pause(), Continue(), Pause(topics=(tp.topic,)), Continue(topics=(tp.topic,)),
                Pause(partitions=(tp,)), Continue(partitions=(tp,)),
            )  # fmt: skip
            timed.append((at_s, dice.choice(some)))
        return [*timed, (TROUBLED_S + 1.0, Continue())]

    async def to_its_end(self) -> Run:
        """Execute the run until it has ended, or nothing happens any more."""
        asking = asyncio.create_task(self._ask())
        try:
            return await super().to_its_end()
        finally:
            asking.cancel()

    async def resumed_once(self) -> Run:
        """Run to the end; resume once if left or paused, now that everything is well."""
        outcome = await self.to_its_end()
        await self.clock.sleep(AGAIN_S)
        if not outcome.ended:
            self.reaper.at = frozenset()
            leaving = asyncio.create_task(self._leave())
            outcome = await self.execute()
            leaving.cancel()
            await self.clock.sleep(AGAIN_S)
        self.cluster.catch_up()
        return outcome

    async def _leave(self) -> None:
        await self.clock.sleep(self.longest_s)
        assert self.engine is not None
        self.engine.leave("nothing happens any more")

    async def _ask(self) -> None:
        """Send the operators' commands, each at its time; finally leave the run."""
        began_s = self.clock.monotonic()
        for at_s, command in self.commands:
            await self.clock.sleep(began_s + at_s - self.clock.monotonic())
            self.ask(command)
        await self.clock.sleep(began_s + self.longest_s - self.clock.monotonic())
        assert self.engine is not None
        self.reaper.at = frozenset()
        self.engine.leave("nothing happens any more")

    @property
    def troubles(self) -> set[type[OutsideEvent]]:
        """The kinds of acts of the seed, apart from those that mend everything at last."""
        return {type(due.act) for due in self.acts if due.at_s < TROUBLED_S}

    def foreign(self) -> set[TopicPartition]:
        """Return the partitions that other people have altered."""
        altering = (due.act for due in self.acts if isinstance(due.act, layout.Alter))
        return {tp for act in altering for tp in act.targets}

    def deleted(self) -> set[str]:
        return {due.act.topic for due in self.acts if isinstance(due.act, layout.DeleteTopic)}


_CALLS = (
    "alter_reassignments", "elect_preferred_leaders", "describe_topics", "list_reassignments",
    "topic_configs", "log_offsets", "log_dirs", "describe_cluster",
)  # fmt: skip


def _all_mended() -> list[OutsideEvent]:
    mended: list[OutsideEvent] = [layout.Allow(call) for call in (*_CALLS, "describe_quorum")]
    for broker in BROKERS:
        mended += [layout.Slow(broker, 1.0), layout.FillDisk(broker, 10**9)]
        mended += [layout.Resume(broker), layout.Start(broker)]
    return mended


def _set_limits(limits: Limits) -> SetLimits:
    options = {option: getattr(limits, option.replace("-", "_")) for option in (*NUMBERS, *CHOICES)}
    brokers = {
        broker: {option: limits.own_of(option).get(broker, OF_RUN) for option in OF_ONE_BROKER}
        for broker in BROKERS
    }
    return SetLimits(options, brokers)


def started(run: Run) -> Started:
    assert run.started is not None
    return run.started


def offline_reason(known: Registration) -> str:
    """Return the expected reason of an offline partition, by the controller's record."""
    if known.elr and not {*known.elr} & {*known.replicas}:
        return Blocked(BlockReason.ELIGIBLE_GONE, known.elr).sentence
    return "it is offline: no replica leads"


WANTED = ("300kB", "500kB", "900kB,3=200kB", "400kB,2=none", "5=300kB")
LATER = (*WANTED, "none", "2MB", "150kB")
_SETTING = ("alter_configs", "broker_config")


class ThrottledTrouble(TroubledRun):
    """A run with throttles, where others set throttles and lists, too, and change them.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
    """

    def __init__(self, seed: int, folder: Path, *, killed: bool = False) -> None:
        self.more = random.Random(f"throttles {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=killed)
        self.cluster.configure([self._theirs() for _ in range(self.more.randint(0, 4))])
        self.others = Others(self)
        self.throttle_rules = ThrottleRules(self, self.others)

    def _options(self) -> dict[str, Any]:
        chosen = super()._options()
        leaders = self.more.random() < 0.3
        return {**chosen, "throttle": parse_throttle_rates(self.more.choice(WANTED)),
                "throttle_leaders": leaders}  # fmt: skip

    def _acts(self, topics: dict[str, Any]) -> list[ScheduledEvent]:
        dice = self.more
        theirs = [layout.AlterConfigs((self._theirs(),)) for _ in range(dice.randint(0, 5))]
        faults = dice.choices(
            (layout.LoseAnswer(), layout.LoseRequest(),
             layout.DelayRequest(dice.uniform(0.1, 55.0)),
             layout.Deny(dice.choice(_SETTING)), layout.ChangeController()),
            k=dice.randint(0, 6),
        )  # fmt: skip
        timed = [
            ScheduledEvent(round(dice.uniform(0.1, 0.9 * TROUBLED_S), 1), a)
            for a in (*theirs, *faults)
        ]
        return [
            *super()._acts(topics),
            *timed,
            *(ScheduledEvent(TROUBLED_S, layout.Allow(call)) for call in _SETTING),
        ]

    def _commands(self) -> list[tuple[float, Command]]:
        dice = self.more
        rates = [
            (dice.uniform(0.0, TROUBLED_S), SetThrottle(parse_throttle_rates(dice.choice(LATER))))
            for _ in range(dice.choice((0, 0, 1, 3)))
        ]
        return [*super()._commands(), *rates]

    def _theirs(self) -> ConfigChange:
        """Return somebody else's change of a rate or a list; no value of theirs is one of ours."""
        dice, op = self.more, ConfigOp
        if dice.random() < 0.5:
            broker = ConfigResource(ConfigScope.BROKER, str(dice.choice(BROKERS)))
            key = dice.choice((FOLLOWER_RATE, FOLLOWER_RATE, LEADER_RATE))
            if dice.random() < 0.3:
                return ConfigChange(broker, key, op.DELETE)
            return ConfigChange(broker, key, op.SET, str(dice.randint(1_000_000, 9_000_000)))
        topic = ConfigResource(ConfigScope.TOPIC, dice.choice(OURS))
        key = dice.choice((FOLLOWER_REPLICAS, FOLLOWER_REPLICAS, LEADER_REPLICAS))
        kind = dice.choice((op.SET, op.SET, op.APPEND, op.SUBTRACT, op.DELETE))
        value = dice.choice(("*", "77:1")) if kind is op.SET else "77:1,77:2"
        return ConfigChange(topic, key, kind, None if kind is op.DELETE else value)

    def check_settings(self, outcome: Run) -> None:
        """Check the settings against those without the run, apart from entries in flight."""
        if outcome.ended:
            assert outcome.throttled.clean
            assert self._untouched(settings_in(self.cluster)) == self._untouched(
                self.others.settings
            )
            self._check_touched()
        for tp, listed in self._listed():
            track = outcome.tracks_in_flight.get(tp)
            assert track is not None, f"{tp} is listed on {listed}, and not in flight"

    def _listed(self) -> list[tuple[TopicPartition, str]]:
        """Return each present entry of ours."""
        found = settings_in(self.cluster)
        return [
            (TopicPartition(name, int(each.partition(":")[0])), each)
            for (name, key), mine in self.throttle_rules.listed.items()
            for each in mine & {*_list(found, name, key).split(",")}
        ]

    def _check_touched(self) -> None:
        """Check that no value of ours is left where somebody else changed a rate or a list."""
        found = settings_in(self.cluster)
        sent = {f"{each}" for each in self.throttle_rules.rates_sent}
        for resource, key in self.others.touched:
            value = found.get(resource, {}).get(key, "")
            assert value not in sent, f"{resource} {key}={value} is ours"
        assert not self._listed()

    def _untouched(self, settings: Settings) -> Settings:
        """Leave out the throttle settings that somebody else has changed midway."""
        kept = {
            resource: {
                key: value
                for key, value in values.items()
                if key not in (*RATES, *REPLICAS) or (resource, key) not in self.others.touched
            }
            for resource, values in settings.items()
        }
        return {resource: values for resource, values in kept.items() if values}


def _list(settings: Settings, topic: str, key: str) -> str:
    return settings.get(ConfigResource(ConfigScope.TOPIC, topic), {}).get(key, "")


class CalledOffTrouble(TroubledRun):
    """A run of which partitions, topics or everything are cancelled, once or several times.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
    """

    def __init__(self, seed: int, folder: Path, *, killed: bool = False) -> None:
        self.more = random.Random(f"cancels {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=killed)
        self.cancel_rules = CancelRules(self)
        if self.more.random() < 0.3:
            self._shut_the_gate()

    def _shut_the_gate(self) -> None:
        at_s = self.more.uniform(0.0, TROUBLED_S)

        def shut(who: str | None) -> None:
            self.gate_shut = who

        self.cluster.at(at_s, lambda: shut("somebody@here"))
        self.cluster.at(TROUBLED_S + self.more.uniform(0.0, 50.0), lambda: shut(None))

    def _commands(self) -> list[tuple[float, Command]]:
        dice, some = self.more, list(self.targets)
        cancels: list[tuple[float, Command]] = []
        for _ in range(dice.randint(1, 4)):
            kind = dice.choice(
                (CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.ROLLBACK, CancelKind.TRIM)
            )
            scopes = (
                CancelMoves(kind),
                CancelMoves(kind, topics=(dice.choice(OURS),)),
                CancelMoves(kind, partitions=tuple(dice.sample(some, dice.randint(1, len(some))))),
            )
            cancels.append((dice.uniform(0.0, 1.2 * TROUBLED_S), dice.choice(scopes)))
        return [*super()._commands(), *cancels]

    def check_called_off(self, outcome: Run) -> None:
        """Check the outcome of each cancelled partition against the controller."""
        for track in outcome.tracks.values():
            mine = track.tp not in self.foreign() and track.tp.topic not in self.deleted()
            if track.cancel is not None and mine:
                self._check(track)

    def _check(self, track: Track) -> None:
        known = self.cluster.controller.get(track.tp)
        assert known is not None
        match track.state:
            case State.ROLLED_BACK:
                assert known.replicas == track.original, track
            case State.STOPPED if track.begun and track.cancel is CancelKind.TRIM:
                assert len(known.replicas) <= max(len(track.original), len(track.planned.target))
            case State.STOPPED if not track.begun:
                assert known.replicas == track.planned.original, track
            case _:
                pass
        if track.state in {State.ROLLED_BACK, State.STOPPED}:
            assert not known.reassigning, f"it moves still: {track}"


class ThrottledAndCalledOff(CalledOffTrouble, ThrottledTrouble):
    """Such a run with throttles, where others set throttles, too."""
