"""Consumer groups with one static member, as measured on 3.9.1 and 4.3.1 (docs/owning.md)."""

from __future__ import annotations

import math
from zlib import crc32

import msgspec

from ktui.cluster.ownership import (
    INSTANCE,
    KIND,
    GroupDescription,
    HeartbeatAnswer,
    Member,
    MemberDescription,
)
from ktui.simulated.layout import Machines, Power

SHORTEST_SESSION_S = 6.0  # group.min.session.timeout.ms
LONGEST_SESSION_S = 1_800.0  # group.max.session.timeout.ms


class _Present(msgspec.Struct):
    id: str
    metadata: bytes
    session_s: float
    heard_s: float


class _Group(msgspec.Struct):
    generation: int = 0
    present: _Present | None = None
    coordinator: int | None = None


class Groups:
    """The consumer groups of a cluster, each kept by its coordinator."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._brokers = tuple(machines)
        self._groups: dict[str, _Group] = {}
        self._joins = 0
        self._fenced: frozenset[int] = frozenset()
        self.stored = False

    def coordinator(self, group: str) -> int | None:
        """Return the group's coordinator: the first live broker in a fixed order; None if none."""
        first = crc32(group.encode()) % len(self._brokers)
        order = self._brokers[first:] + self._brokers[:first]
        return next((broker for broker in order if broker not in self._fenced), None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._groups)

    def catch_up(self, now_s: float, fenced: frozenset[int]) -> None:
        """Move groups to their current coordinators, where sessions begin again."""
        if fenced == self._fenced:
            return
        self._fenced = fenced
        for name, group in self._groups.items():
            self._expire(group, now_s)
            coordinator = self.coordinator(name)
            if coordinator != group.coordinator:
                group.coordinator = coordinator
                if group.present is not None:
                    group.present.heard_s = now_s

    def describe(self, name: str, now_s: float) -> GroupDescription:
        group = self._groups.get(name)
        if group is None:
            return GroupDescription("", settled=True, members=())
        self._expire(group, now_s)
        present = group.present
        members = (
            () if present is None else (MemberDescription(present.id, INSTANCE, present.metadata),)
        )
        return GroupDescription(KIND, settled=True, members=members)

    def join(
        self, name: str, metadata: bytes, session_s: float, member_id: str, now_s: float
    ) -> Member | None:
        group = self._groups.setdefault(name, _Group(coordinator=self.coordinator(name)))
        self._expire(group, now_s)
        present = group.present
        if member_id and (present is None or present.id != member_id):
            return None
        if not member_id:
            self._joins += 1
        replaces = present is not None and not member_id
        if not replaces:  # replacing a static member triggers no rebalance (KIP-345)
            group.generation += 1
        joined = member_id or f"{INSTANCE}-{self._joins}"
        group.present = _Present(joined, metadata, session_s, now_s)
        self.stored = True
        return Member(joined, group.generation)

    def heartbeat(self, name: str, member: Member, now_s: float) -> HeartbeatAnswer:
        group = self._groups.get(name, _Group())
        self._expire(group, now_s)
        present = group.present
        if present is None or Member(present.id, group.generation) != member:
            return HeartbeatAnswer.GONE
        present.heard_s = now_s
        return HeartbeatAnswer.STAYS

    def leave(self, name: str, member: Member, now_s: float) -> None:
        group = self._groups.get(name, _Group())
        self._expire(group, now_s)
        if group.present is not None and group.present.id == member.id:
            self._remove(group)

    def _expire(self, group: _Group, now_s: float) -> None:
        present = group.present
        until_s = self._counts_until_s(group.coordinator, now_s)
        if present is not None and until_s - present.heard_s >= present.session_s:
            self._remove(group)

    def _counts_until_s(self, coordinator: int | None, now_s: float) -> float:
        """Return until when a coordinator has counted sessions; one that is down counts none."""
        if coordinator is None:
            return -math.inf
        up = self._machines.power(coordinator) is Power.UP
        return now_s if up else self._machines.silent_from_s[coordinator]

    def _remove(self, group: _Group) -> None:
        group.present = None
        group.generation += 1
