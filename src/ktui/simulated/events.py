"""Outside events of a simulated cluster: machines fail, other operators use their tools."""

from __future__ import annotations

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange
from ktui.simulated.layout import TopicSpec


class Kill(msgspec.Struct, frozen=True):
    """A broker loses power: fenced when its session times out."""

    broker: int


class Shutdown(msgspec.Struct, frozen=True):
    """A broker is stopped properly: it gives up leadership, leaves its ISRs, and then stops."""

    broker: int


class Start(msgspec.Struct, frozen=True):
    """A killed or stopped broker comes back with the data that it had.

    A broker that is still shutting down is started once it has stopped.
    """

    broker: int


class Hang(msgspec.Struct, frozen=True):
    """A broker stops answering, as on SIGSTOP: fenced when its session times out."""

    broker: int


class Resume(msgspec.Struct, frozen=True):
    """A hanging broker resumes."""

    broker: int


class Slow(msgspec.Struct, frozen=True):
    """A broker's network and disk run at this share of their capacity; 1 restores them."""

    broker: int
    share: float


class FillDisk(msgspec.Struct, frozen=True):
    """Other data fills a broker's disk down to `leave` free bytes, or makes room again.

    A broker whose disk is full goes down.
    """

    broker: int
    leave: int


class FailLogDir(msgspec.Struct, frozen=True):
    """A log dir of a live broker fails for good, and its replicas are lost to the broker.

    Without its first log dir, which has the metadata log, a broker goes down.
    """

    broker: int
    path: str


class ChangeController(msgspec.Struct, frozen=True):
    """Another controller takes over; earlier decisions stand."""


class SetInbound(msgspec.Struct, frozen=True):
    """Producers change their rate to each partition of a topic, in bytes per second."""

    topic: str
    inbound: float


class Append(msgspec.Struct, frozen=True):
    """Producers write this many messages to a partition, all at once."""

    tp: TopicPartition
    messages: int


class CreateTopic(msgspec.Struct, frozen=True):
    """A topic is created; an earlier, deleted topic of this name is a different one."""

    topic: TopicSpec


class DeleteTopic(msgspec.Struct, frozen=True):
    """A topic is deleted, also in the middle of its moves."""

    topic: str


class Alter(msgspec.Struct, frozen=True):
    """Another tool starts reassignments, or cancels them with None. Refusals go nowhere."""

    targets: dict[TopicPartition, tuple[int, ...] | None]


class ElectLeaders(msgspec.Struct, frozen=True):
    """Another tool elects preferred leaders."""

    partitions: tuple[TopicPartition, ...]


class AlterConfigs(msgspec.Struct, frozen=True):
    """Another tool changes settings."""

    changes: tuple[ConfigChange, ...]


class LoseRequest(msgspec.Struct, frozen=True):
    """Our next change never arrives, so no answer comes."""


class LoseAnswer(msgspec.Struct, frozen=True):
    """Our next change takes effect, and its answer is lost."""


class DelayRequest(msgspec.Struct, frozen=True):
    """Our next change is not answered in time, and takes effect `by_s` seconds later."""

    by_s: float


class Deny(msgspec.Struct, frozen=True):
    """The principal loses a permission, named like the port's method, such as "log_dirs".

    Without "describe_quorum" a client cannot know how old metadata is.
    """

    call: str


class Allow(msgspec.Struct, frozen=True):
    """The principal has the permission again."""

    call: str


OutsideEvent = (
    Kill
    | Shutdown
    | Start
    | Hang
    | Resume
    | Slow
    | FillDisk
    | FailLogDir
    | ChangeController
    | SetInbound
    | Append
    | CreateTopic
    | DeleteTopic
    | Alter
    | ElectLeaders
    | AlterConfigs
    | LoseRequest
    | LoseAnswer
    | DelayRequest
    | Deny
    | Allow
)


class ScheduledEvent(msgspec.Struct, frozen=True):
    """An event and its time, in seconds from the cluster's first moment."""

    at_s: float
    act: OutsideEvent
