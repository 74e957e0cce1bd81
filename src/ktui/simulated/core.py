"""The inside of a simulated cluster: controller, logs, machines, and the time that drives them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from ktui.cluster.clock import Clock
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.throttle_settings import FOLLOWER_REPLICAS, LEADER_REPLICAS
from ktui.simulated import events
from ktui.simulated.controller.controller import ELECTIONS, Controller
from ktui.simulated.controller.registration import RecordChange, Registration
from ktui.simulated.data.replication import CaughtUp, DiskFull, FellBehind, Replication
from ktui.simulated.data.throttles import EVERYWHERE, ThrottledReplicas
from ktui.simulated.events import OutsideEvent
from ktui.simulated.groups import Groups
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.machines import Machines, Power
from ktui.simulated.metadata import Metadata
from ktui.simulated.schedule import ScheduledCall, Timetable

_UNCLEAN_ELECTIONS_S = 300.0
"""unclean.leader.election.interval.ms, which is internal to Kafka."""

Mishap = events.LoseRequest | events.LoseAnswer | events.DelayRequest


class SimulatedCore(ABC):
    """What the ports and the acts work on; `SimulatedCluster` has them all.

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
        self.groups = Groups(self.machines)
        for topic in spec.topics:
            if (made := self.create_topic(topic)).verdict is not Verdict.ACCEPTED:
                raise ValueError(f"topic {topic.name}: {made.message}")
        self.metadata.lag_s = spec.metadata_lag_s
        self.mishaps: deque[Mishap] = deque()
        """What goes wrong with our next changes, in order."""
        self.denied: set[str] = set()
        """The port's methods that the principal may not use."""
        self.controller_from_s = 0.0
        """From when on there is a controller: later than now while one hands over to another."""
        self._every(_UNCLEAN_ELECTIONS_S, self._elect_unclean)
        if spec.auto_leader_rebalance:
            self._every(spec.rebalance_interval_s, self._rebalance)

    @abstractmethod
    def perform(self, act: OutsideEvent) -> None:
        """Apply an act at the present moment, or once there is a controller if it takes one."""

    def at(self, at_s: float, deed: ScheduledCall) -> None:
        """Have something happen at its second; at once if that has passed."""
        self._due.enter(max(self.now_s, at_s), deed)

    def create_topic(self, spec: TopicSpec) -> WriteResult:
        """Make a topic; one deleted before under this name is another one."""
        self.replication.prepare(spec)
        result = self.controller.create_topic(spec)
        if result.verdict is Verdict.ACCEPTED:
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
            if not resource.name:
                for topic in self.controller.topics:
                    self._set_up_topic(topic)
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
            followers=self._listed(name, FOLLOWER_REPLICAS),
            leaders=self._listed(name, LEADER_REPLICAS),
        )

    def _listed(self, topic: str, key: str) -> ThrottledReplicas:
        found = self.controller.configs.throttled(topic, key)
        return EVERYWHERE if isinstance(found, str) else ThrottledReplicas(found)

    def any_live_broker(self) -> int | None:
        """Give the broker that one names as the controller: any live one, which forwards."""
        live = [b for b in self.machines if b not in self.metadata.fenced]
        return self._chance.choice(live) if live else None

    def session_end_s(self, broker: int) -> float:
        """Give when the session of a broker that fell silent ends; a new controller begins anew."""
        heard_s = self.machines.silent_from_s[broker]
        if not self.controller.is_fenced(broker):
            heard_s = max(heard_s, self.controller_from_s)
        return heard_s + self.spec.session_timeout_s

    def catch_up(self) -> None:
        """Let happen what is due by the clock."""
        until_s = self.clock.monotonic() - self._began_s
        while (next_s := min(self._due.next_s, self.replication.next_event_s())) <= until_s:
            self._flow_to(next_s)
            while self._due.next_s <= self.now_s:
                self._due.take()()
            self.note_fenced()
        self._flow_to(until_s)
        self.metadata.learn(self.now_s)

    def note_fenced(self) -> None:
        """Carry to metadata and groups which brokers are fenced now."""
        self.metadata.note_fenced(self.now_s)
        self.groups.catch_up(self.now_s, self.controller.fenced)

    def _flow_to(self, at_s: float) -> None:
        """Let data flow until `at_s`, which is no later than the next event, and act on it."""
        self.now_s = max(self.now_s, at_s)
        for event in self.replication.advance(self.now_s):
            self._heed(event)

    def _heed(self, event: CaughtUp | FellBehind | DiskFull) -> None:
        match event:
            case DiskFull(broker):
                self.perform(events.Kill(broker))
            case CaughtUp(tp, broker):
                self._alter_isr(tp, broker, join=True)
            case FellBehind(tp, broker):
                self._alter_isr(tp, broker, join=False)

    def _alter_isr(self, tp: TopicPartition, broker: int, *, join: bool) -> None:
        """Have a partition's leader ask the controller to take a follower into the ISR, or out."""
        known = self.controller.get(tp)
        if self.now_s < self.controller_from_s or known is None:
            return  # what is not taken in is told again
        if known.leader is None or not self._up(known.leader):
            return
        others = tuple(member for member in known.isr if member != broker)
        isr = (*others, broker) if join else others
        if broker in known.replicas and set(isr) != set(known.isr):
            self.controller.alter_isr(tp, isr, known.leader)

    def _up(self, broker: int) -> bool:
        return self.machines.power(broker) is Power.UP

    def _decided(self, change: RecordChange) -> None:
        """Carry a decision of the controller to the brokers."""
        self.replication.changed(change)
        self.metadata.changed(change, self.now_s)

    def state(self, tp: TopicPartition, topic_id: str, known: Registration) -> PartitionState:
        """Tell a partition's record as brokers' metadata does, which knows no reassignment."""
        offline = tuple(b for b in known.replicas if b in self.metadata.fenced)
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

    def _every(self, seconds: float, deed: ScheduledCall) -> None:
        """Have the controller, whichever it is, do something again and again."""

        def again() -> None:
            if self.now_s >= self.controller_from_s:
                deed()
            self._every(seconds, deed)

        self.at(self.now_s + seconds, again)

    def _rebalance(self) -> None:
        """Balance leaders; where one round does not do it, the next follows at once."""
        while self.controller.rebalance_leaders() >= ELECTIONS:
            pass

    def _elect_unclean(self) -> None:
        """Give leaderless partitions any leader, where that is allowed."""
        while self.controller.elect_unclean_leaders() >= ELECTIONS:
            pass
