"""Runs on clusters with much trouble: all of it decided by a seed."""

import asyncio
import random
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from ktui.execution.journal.commands import (
    CancelMoves,
    Command,
    Continue,
    Pause,
    SetLimits,
    SetThrottle,
)
from ktui.execution.run.options import OnForeignChange, OnStall
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind
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
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import (
    VERSIONS,
    BrokerSpec,
    ClusterSpec,
    OutsideEvent,
    ScheduledEvent,
    TopicSpec,
)
from support.runs.engine_runs import Replicas
from support.runs.held_to_rules import Rules
from support.runs.witnessed import KilledRun

BROKERS = range(1, 8)
_RACKS = {broker: "ab"[broker % 2] for broker in list(BROKERS)[1:]}  # the first broker has none
OURS, THEIRS = ("orders", "__transaction_state"), "audit"
TROUBLED_S = 100.0

TROUBLES = {
    layout.Kill, layout.Shutdown, layout.Start, layout.Hang, layout.Resume, layout.Slow,
    layout.FillDisk, layout.ChangeController, layout.Deny, layout.Alter, layout.ElectLeaders,
    layout.DeleteTopic, layout.CreateTopic,
}  # fmt: skip
"""All kinds of acts but faults of calls; the seeds that every test run plays have each of them."""


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


WANTED = ("300kB", "500kB", "900kB,3=200kB", "400kB,2=none", "5=300kB")
LATER = (*WANTED, "none", "2MB", "150kB")
_SETTING = ("alter_configs", "broker_config")


class ThrottledAndCalledOff(TroubledRun):
    """Such a run with throttles, of which some is cancelled, and where others set throttles, too.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
    """

    def __init__(self, seed: int, folder: Path, *, killed: bool = False) -> None:
        self.more = random.Random(f"throttles {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=killed)
        self.cluster.configure([self._theirs() for _ in range(self.more.randint(0, 4))])
        if self.more.random() < 0.3:
            self._shut_the_gate()

    def _shut_the_gate(self) -> None:
        at_s = self.more.uniform(0.0, TROUBLED_S)

        def shut(who: str | None) -> None:
            self.gate_shut = who

        self.cluster.at(at_s, lambda: shut("somebody@here"))
        self.cluster.at(TROUBLED_S + self.more.uniform(0.0, 50.0), lambda: shut(None))

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
        rates = [
            (dice.uniform(0.0, TROUBLED_S), SetThrottle(parse_throttle_rates(dice.choice(LATER))))
            for _ in range(dice.choice((0, 0, 1, 3)))
        ]
        return [*super()._commands(), *rates, *cancels]

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
