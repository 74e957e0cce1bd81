"""The rows of the tables that come directly from recorded lines."""

from __future__ import annotations

import msgspec

Brokers = tuple[int, ...]


class Figure(msgspec.Struct, frozen=True, gc=False):
    """A figure of one replica, with the normalised millisecond of its reading."""

    broker: int
    value: int
    read_t: int


class Rates(msgspec.Struct, frozen=True, gc=False):
    """The throttle rates of a broker, in bytes per second."""

    broker: int
    follower: int | None
    leader: int | None


class Partition(msgspec.Struct, frozen=True, order=True, gc=False):
    """One incarnation of a partition."""

    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as one poll saw it."""

    key: Partition
    session: str
    seq: int
    t: int
    took_ms: int
    replicas: Brokers
    isr: Brokers
    leader: int | None
    leader_epoch: int | None
    adding: Brokers
    removing: Brokers
    offline: Brokers
    elr: Brokers | None
    described: bool
    ends: tuple[Figure, ...]
    log_start: int | None
    log_start_read_t: int | None
    sizes: tuple[Figure, ...]
    rates: tuple[Rates, ...]
    down: Brokers
    shadowed: bool = False

    @property
    def listed(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def missing(self) -> set[int]:
        """The adding replicas that are not in sync."""
        return {*self.adding} - {*self.isr}

    @property
    def order(self) -> tuple[int, str, int]:
        return self.t, self.session, self.seq

    def end(self, broker: int) -> Figure | None:
        return next((each for each in self.ends if each.broker == broker), None)

    def size(self, broker: int) -> int | None:
        return next((each.value for each in self.sizes if each.broker == broker), None)


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """One poll."""

    cluster_id: str
    session: str
    seq: int
    t: int
    took_ms: int
    controller: int | None
    brokers: Brokers
    alive: Brokers
    reassigning: int
    failures: int
    """The number of failures."""
    shadowed: bool = False


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run."""

    cluster_id: str
    run: str
    run_id: str
    entry: int
    at: int
    t: int
    session: str
    seq: int
    event: bytes


class Recorded(msgspec.Struct):
    """All rows that some files contain."""

    samples: list[Sample]
    polls: list[Poll]
    events: list[Happened]
    quarantined: list[tuple[str, int]]
    """File and line number, from 1."""
