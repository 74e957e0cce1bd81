"""A cluster in memory: its controller, its logs, its machines, and the time that drives them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

from ktui.cluster.clock import Clock
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.simulated import acts
from ktui.simulated.acts import Act, Due
from ktui.simulated.controller import schema
from ktui.simulated.controller.controller import ELECTIONS, Controller
from ktui.simulated.controller.registration import Change, Registration
from ktui.simulated.data.replication import CaughtUp, DiskFull, FellBehind, Replication
from ktui.simulated.data.throttles import EVERYWHERE, Listed
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.machines import Machines, Power
from ktui.simulated.metadata import Metadata
from ktui.simulated.performing import perform
from ktui.simulated.reader import SimulatedReader
from ktui.simulated.timetable import Deed, Timetable
from ktui.simulated.writer import SimulatedWriter

_UNCLEAN_ELECTIONS_S = 300.0
"""unclean.leader.election.interval.ms, which is internal to Kafka."""

Mishap = acts.LoseRequest | acts.LoseAnswer | acts.DelayRequest


class SimulatedCluster:
    """A cluster that keeps KRaft's rules in a time of its own.

    It stands still until it is looked at or changed: each call through its reader or writer first
    lets happen what was due by the clock. One spec, one seed and the same calls at the same times
    always give the same history.

    Args:
        spec: what it is made of.
        clock: its time; the first moment is now.
        seed: of everything that is left to chance: topic ids, tides, which broker answers.
    """

    def __init__(self, spec: ClusterSpec, clock: Clock, *, seed: int = 0) -> None:
        self.spec = spec
        self.clock = clock
        self.now_s = 0.0
        """Seconds since the first moment, up to which everything has happened."""
        self._began_s = clock.monotonic()
        self._due = Timetable()
        self._chance = random.Random(seed)  # noqa: S311 - a simulation's dice
        self.machines = Machines(broker.id for broker in spec.brokers)
        self.replication = Replication(spec, seed=seed)
        self.controller = Controller(spec, self._decided, seed=seed)
        self.metadata = Metadata(self.controller, lag_s=0.0)
        for topic in spec.topics:
            self.create_topic(topic)
        self.metadata.lag_s = spec.metadata_lag_s
        self.mishaps: deque[Mishap] = deque()
        """What goes wrong with our next changes, in order."""
        self.denied: set[str] = set()
        """The port's methods that the principal may not use."""
        self.speaker = min(self.machines.up())
        """The broker that metadata names as the controller: any live one, which forwards."""
        self._controller_from_s = 0.0
        self._every(_UNCLEAN_ELECTIONS_S, self._elect_unclean)
        if spec.auto_leader_rebalance:
            self._every(spec.rebalance_interval_s, self._rebalance)

    def reader(self) -> ClusterReader:
        """Give a way to look at it, which leaves it running when closed."""
        return SimulatedReader(self)

    def writer(self) -> ClusterWriter:
        """Give a way to change it, which leaves it running when closed."""
        return SimulatedWriter(self)

    def schedule(self, due: Due) -> None:
        """Have an act happen at its second; at once if that has passed."""
        self.later(due.at_s - self.now_s, lambda: perform(self, due.act))

    def do(self, act: Act) -> None:
        """Have an act happen now."""
        self.catch_up()
        perform(self, act)

    def later(self, seconds: float, deed: Deed) -> None:
        """Have something happen after `seconds`."""
        self._due.enter(self.now_s + max(0.0, seconds), deed)

    def create_topic(self, spec: TopicSpec) -> WriteResult:
        """Make a topic; one deleted before under this name is another one."""
        self.replication.prepare(spec)
        result = self.controller.create_topic(spec)
        if result.verdict is Verdict.ACCEPTED and spec.configs:
            self._set_up_topic(spec.name)
        return result

    def configure(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, WriteResult]:
        """Change settings, which bind at once."""
        results = self.controller.alter_configs(changes)
        for resource, result in results.items():
            if result.verdict is Verdict.ACCEPTED:
                self._set_up(resource)
        return results

    def _set_up(self, resource: ConfigResource) -> None:
        """Have the data flow by the settings of one resource."""
        if resource.scope is ConfigScope.TOPIC:
            self._set_up_topic(resource.name)
        else:
            concerned = [int(resource.name)] if resource.name else self.machines
            for broker in concerned:
                config = self.controller.configs.broker_config(broker)
                self.replication.set_throttle_rates(
                    broker,
                    follower=config.follower_throttle_rate,
                    leader=config.leader_throttle_rate,
                )

    def _set_up_topic(self, name: str) -> None:
        self.replication.set_retention(name, self.controller.configs.retention_bytes(name))
        self.replication.set_throttled_replicas(
            name,
            followers=self._listed(name, schema.FOLLOWER_THROTTLED),
            leaders=self._listed(name, schema.LEADER_THROTTLED),
        )

    def _listed(self, topic: str, key: str) -> Listed:
        found = self.controller.configs.throttled(topic, key)
        return EVERYWHERE if isinstance(found, str) else Listed(found)

    @property
    def without_controller_s(self) -> float:
        """Seconds until there is a controller; 0 if there is one."""
        return max(0.0, self._controller_from_s - self.now_s)

    def elect_controller(self, took_s: float) -> None:
        """Put another controller in charge, after `took_s` without any."""
        self._controller_from_s = self.now_s + took_s
        self.speaker = self._chance.choice(self.machines.up() or [self.speaker])

    def catch_up(self) -> None:
        """Let happen what is due by the clock."""
        until_s = self.clock.monotonic() - self._began_s
        while (next_s := min(self._due.next_s, self.replication.next_event_s())) <= until_s:
            self._flow_to(next_s)
            while self._due.next_s <= self.now_s:
                self._due.take()()
        self._flow_to(until_s)
        self.metadata.learn(self.now_s)

    def _flow_to(self, at_s: float) -> None:
        """Let data flow until `at_s`, which is no later than the next event, and act on it."""
        self.now_s = max(self.now_s, at_s)
        for event in self.replication.advance(self.now_s):
            self._heed(event)

    def _heed(self, event: CaughtUp | FellBehind | DiskFull) -> None:
        match event:
            case DiskFull(broker):
                perform(self, acts.Kill(broker))
            case CaughtUp(tp, broker):
                self._alter_isr(tp, broker, join=True)
            case FellBehind(tp, broker):
                self._alter_isr(tp, broker, join=False)

    def _alter_isr(self, tp: TopicPartition, broker: int, *, join: bool) -> None:
        """Have a partition's leader ask the controller to take a follower into the ISR, or out."""
        known = self.controller.get(tp)
        if known is None or known.leader is None or not self._up(known.leader):
            return
        others = tuple(member for member in known.isr if member != broker)
        isr = (*others, broker) if join else others
        if broker in known.replicas and set(isr) != set(known.isr):
            self.controller.alter_isr(tp, isr, known.leader)

    def _up(self, broker: int) -> bool:
        return self.machines.power(broker) is Power.UP

    def _decided(self, change: Change) -> None:
        """Carry a decision of the controller to the brokers."""
        self.replication.changed(change)
        self.metadata.changed(change, self.now_s)

    def state(self, tp: TopicPartition, topic_id: str, known: Registration) -> PartitionState:
        """Tell a partition's record as brokers' metadata does, which knows no reassignment."""
        offline = tuple(b for b in known.replicas if self.controller.is_fenced(b))
        return PartitionState(
            tp=tp,
            topic_id=topic_id,
            replicas=known.replicas,
            isr=known.isr,
            leader=known.leader,
            leader_epoch=known.leader_epoch,
            offline=offline,
            elr=known.elr,
        )

    def _every(self, seconds: float, deed: Deed) -> None:
        """Have something happen again and again."""

        def again() -> None:
            deed()
            self._every(seconds, deed)

        self.later(seconds, again)

    def _rebalance(self) -> None:
        """Balance leaders; where one round does not do it, the next follows at once."""
        while self.controller.rebalance_leaders() >= ELECTIONS:
            pass

    def _elect_unclean(self) -> None:
        """Give leaderless partitions any leader, where that is allowed."""
        while self.controller.elect_unclean_leaders() >= ELECTIONS:
            pass
