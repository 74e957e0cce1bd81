"""The makeup of a simulated cluster (brokers, topics, traffic), and the state of its machines."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.ports import ConfigChange

MIB = 1024 * 1024
GIB = 1024 * MIB

VERSIONS = ("3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
"""The Kafka versions whose rules the simulated controller follows."""


class BrokerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One broker and the capacity of its machine. Rates in bytes per second."""

    id: int
    rack: str | None = None
    net_in: float = 100.0 * MIB
    net_out: float = 100.0 * MIB
    disk_write: float = 200.0 * MIB
    copy_in: float = math.inf  # the most that copies bring in, beside replicas in sync
    copy_half_at: float = 0.0  # copies at once that bring in half of `copy_in`: n / (n + this)
    copy_most_at: float = math.inf  # copies at once beyond which more bring in no more
    copy_sends: float = 0.0  # of one that leaves, in parts of one coming in; 0: receivers limit
    throttle_share: float = 1.0  # what copies get: batches that a fetch cuts off count twice
    disk_bytes: int = 1_000 * GIB
    log_dirs: int = 1
    relative_log_dirs: bool = False  # whether the properties file names them relatively
    down: bool = False  # whether the broker is down at the start, as after a proper shutdown
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def log_dir_paths(self) -> tuple[str, ...]:
        first = "/var/lib/kafka/data"
        return first, *(f"{first}-{number}" for number in range(2, self.log_dirs + 1))

    @property
    def configured_log_dirs(self) -> tuple[str, ...]:
        paths = self.log_dir_paths
        return tuple(path.removeprefix("/") for path in paths) if self.relative_log_dirs else paths


class TopicStart(msgspec.Struct, frozen=True, kw_only=True):
    """What differs at the start from a healthy topic, by partition."""

    leaders: Mapping[int, int] = msgspec.field(default_factory=dict)
    """The leader, where that is not the first replica that is up and in sync."""
    isr: Mapping[int, Brokers] = msgspec.field(default_factory=dict)
    """The replicas in sync, where those are not all that are up."""
    reassigning: Mapping[int, Brokers] = msgspec.field(default_factory=dict)
    """The target of a reassignment that is under way; `TopicSpec.replicas` are those before it."""
    held: Mapping[Replica, int] = msgspec.field(default_factory=dict)
    """Bytes of replicas that are not in sync; the others of these hold nothing."""


USUAL_WEIGHT = 8
"""Of a copy where it shares a machine with others; a power of two, so that nothing is rounded."""


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic at the start; `replicas` holds each partition's brokers, preferred leader first."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    bytes_each: int = 0  # bytes at the start, on every replica that is in sync
    sizes: tuple[int, ...] = ()  # where they differ; `bytes_each` then counts for none
    message_bytes: int = 1_000
    inbound: float = 0.0  # average bytes per second that producers write to each partition
    inbounds: tuple[float, ...] = ()  # where they differ; `inbound` is of those added later
    weights: tuple[int, ...] = ()  # where copies at once share a machine unevenly
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    start: TopicStart = TopicStart()
    id: str | None = None  # its topic id, URL-safe base64; None to draw one

    def size(self, partition: int) -> int:
        return self.sizes[partition] if self.sizes else self.bytes_each

    def in_sync(self, partition: int, down: Collection[int]) -> Brokers:
        """Return the replicas that are in sync at the start, with these brokers down."""
        replicas = self.replicas[partition]
        up = tuple(broker for broker in replicas if broker not in down) if down else replicas
        return self.start.isr.get(partition, up)

    def held(self, down: Collection[int]) -> Counter[int]:
        """Return the bytes on each broker at the start, with these brokers down."""
        held: Counter[int] = Counter()
        for partition in range(len(self.replicas)):
            size = self.size(partition)
            for broker in self.in_sync(partition, down):
                held[broker] += size
        for replica, copied in self.start.held.items():
            held[replica.broker] += copied
        return held

    def weight(self, partition: int) -> int:
        return self.weights[partition] if partition < len(self.weights) else USUAL_WEIGHT


class Tide(msgspec.Struct, frozen=True):
    """The common rise and fall of all inbound rates: a wave with noise around the average."""

    swing: float = 0.0  # amplitude of the wave: 0.3 ranges from 70 % to 130 % of the average
    period_s: float = 3_600.0
    noise: float = 0.0  # largest random deviation of each half minute, as a share of the average


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole cluster at its first moment, healthy by default. Other defaults are Kafka's."""

    brokers: tuple[BrokerSpec, ...]
    topics: tuple[TopicSpec, ...] = ()
    version: str = VERSIONS[-1]
    name: str = "simulated"
    tide: Tide = Tide()
    session_timeout_s: float = 9.0  # broker.session.timeout.ms: from silence to fencing
    lag_time_max_s: float = 30.0  # replica.lag.time.max.ms: how long a follower stays in the ISR
    startup_s: float = 5.0
    shutdown_s: float = 2.0  # alive for so long, but leads nothing and is in no ISR
    copy_start_s: float = 0.0  # from adding a replica to its first bytes
    metadata_lag_s: float = 0.1  # behind the controller; reassignments never lag
    auto_leader_rebalance: bool = True
    rebalance_interval_s: float = 300.0  # leader.imbalance.check.interval.seconds
    broker_configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    groups: tuple[str, ...] = ()
    share_groups: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    transactional_ids: tuple[str, ...] = ()


class Power(enum.Enum):
    """The state of a broker's process."""

    UP = "up"
    HANGING = "hanging"
    STARTING = "starting"
    STOPPED = "stopped"  # shut down properly
    DEAD = "dead"  # ended without a proper shutdown


class Machines:
    """The power of each broker. An action planned in a spell does not outlast the spell."""

    def __init__(self, brokers: Iterable[int], stopped: Collection[int] = ()) -> None:
        self._power = {b: Power.STOPPED if b in stopped else Power.UP for b in brokers}
        self._spell = dict.fromkeys(self._power, 0)
        self._up, self._hanging = self._with(Power.UP), self._with(Power.HANGING)
        self.silent_from_s = dict.fromkeys(self._power, -math.inf)

    def __contains__(self, broker: int) -> bool:
        return broker in self._power

    def __iter__(self) -> Iterator[int]:
        return iter(self._power)

    def power(self, broker: int) -> Power:
        return self._power[broker]

    def turn(self, broker: int, power: Power) -> int:
        """Change a broker's power, and return the number of the new spell."""
        self._power[broker] = power
        self._up, self._hanging = self._with(Power.UP), self._with(Power.HANGING)
        self._spell[broker] += 1
        return self._spell[broker]

    def still(self, broker: int, spell: int) -> bool:
        return self._spell[broker] == spell

    def up(self) -> list[int]:
        return list(self._up)

    def hanging(self) -> list[int]:
        return list(self._hanging)

    def _with(self, power: Power) -> tuple[int, ...]:
        return tuple(sorted(broker for broker, has in self._power.items() if has is power))


class OutsideEvent(msgspec.Struct, frozen=True):
    """Something that happens to a cluster from outside."""


class Kill(OutsideEvent, frozen=True):
    """A broker loses power: fenced when its session times out."""

    broker: int


class Shutdown(OutsideEvent, frozen=True):
    """A broker is stopped properly: it gives up leadership, leaves its ISRs, and then stops."""

    broker: int


class Start(OutsideEvent, frozen=True):
    """A killed or stopped broker comes back with the data that it had."""

    broker: int


class Hang(OutsideEvent, frozen=True):
    """A broker stops answering, as on SIGSTOP: fenced when its session times out."""

    broker: int


class Resume(OutsideEvent, frozen=True):
    """A hanging broker resumes."""

    broker: int


class Slow(OutsideEvent, frozen=True):
    """A broker's network and disk run at this share of their capacity; 1 restores them."""

    broker: int
    share: float


class FillDisk(OutsideEvent, frozen=True):
    """Other data fills a broker's disk down to `leave` free bytes; full, the broker goes down."""

    broker: int
    leave: int


class FailLogDir(OutsideEvent, frozen=True):
    """A log dir of a live broker fails for good; without its first one a broker goes down."""

    broker: int
    path: str


class ChangeController(OutsideEvent, frozen=True):
    """Another controller takes over; earlier decisions stand."""


class SetInbound(OutsideEvent, frozen=True):
    """Producers change their rate to each partition of a topic, in bytes per second."""

    topic: str
    inbound: float


class Append(OutsideEvent, frozen=True):
    """Producers write this many messages to a partition, all at once."""

    tp: TopicPartition
    messages: int


class CreateTopic(OutsideEvent, frozen=True):
    """A topic is created; an earlier, deleted topic of this name is a different one."""

    topic: TopicSpec


class DeleteTopic(OutsideEvent, frozen=True):
    """A topic is deleted, also in the middle of its moves."""

    topic: str


class Alter(OutsideEvent, frozen=True):
    """Another tool starts reassignments, or cancels them with None. Refusals go nowhere."""

    targets: dict[TopicPartition, tuple[int, ...] | None]


class ElectLeaders(OutsideEvent, frozen=True):
    """Another tool elects preferred leaders."""

    partitions: tuple[TopicPartition, ...]


class AlterConfigs(OutsideEvent, frozen=True):
    """Another tool changes settings."""

    changes: tuple[ConfigChange, ...]


class LoseRequest(OutsideEvent, frozen=True):
    """Our next change never arrives, so no answer comes."""


class LoseAnswer(OutsideEvent, frozen=True):
    """Our next change takes effect, and its answer is lost."""


class DelayRequest(OutsideEvent, frozen=True):
    """Our next change is not answered in time, and takes effect `by_s` seconds later."""

    by_s: float


class Deny(OutsideEvent, frozen=True):
    """The principal loses a permission, named like the port's method, such as "log_dirs"."""

    call: str


class Allow(OutsideEvent, frozen=True):
    """The principal has the permission again."""

    call: str


class ScheduledEvent(msgspec.Struct, frozen=True):
    """An event and its time, in seconds from the cluster's first moment."""

    at_s: float
    act: OutsideEvent
