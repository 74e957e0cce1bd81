"""The replicas of a partition as their lanes name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from ktui.cluster.settings import list_includes
from ktui.columns import Column
from ktui.progress.timeline import Lane, Role
from ktui.tui.draw.cells import Piece, cut_pieces
from ktui.tui.draw.paint import RowColumn
from ktui.tui.screens.detail.axis import Subject

RACKS_FROM, _HOSTS_FROM = 100, 150
"""The widths from which on a lane names the rack of its broker, and its address."""
TO_COME = "to add"
_ROLES = {
    Role.ADDING: ("adding", "moving"),
    Role.IN_SYNC: ("in sync", "in-sync"),
    Role.LEADER: ("leader", "leader"),
    Role.OUT_OF_SYNC: ("out of sync", "out-of-sync"),
    Role.RETIRING: ("to leave", "retiring"),
    Role.GONE: ("gone", "dim"),
}


class ReplicaLane(NamedTuple):
    """A replica as its lane names it, now or to come."""

    lane: Lane
    sign: str
    word: str
    role: str
    away: bool  # its broker is down, or it is out of the ISR

    @property
    def broker(self) -> int:
        return self.lane.broker

    @property
    def catches_up(self) -> bool:
        return self.lane.role in (Role.ADDING, Role.OUT_OF_SYNC)

    @property
    def rank(self) -> int:
        """How much it matters where there is no room for all."""
        if self.catches_up or self.away:
            return 3
        return {Role.LEADER: 2, Role.RETIRING: 2, Role.GONE: 0}.get(self.lane.role, 1)


def replica_lanes(subject: Subject) -> list[ReplicaLane]:
    """Return the replicas of a partition, and those that its run is to add."""
    timeline, of_run = subject.timeline, subject.of_run
    lanes = dict(timeline.lanes)
    for broker in timeline.state.replicas:
        role = Role.ADDING if broker in timeline.state.adding else Role.IN_SYNC
        lanes.setdefault(broker, Lane(broker, role))
    goes_on = of_run is not None and not of_run.track.state.ended
    to_come = [b for b in timeline.target if b not in lanes] if goes_on else []
    leaving = subject.context.leaving(timeline)
    named = [_named(lane, subject, leaving) for lane in lanes.values()]
    waiting = (Lane(broker, Role.ADDING) for broker in to_come)
    return [*named, *(ReplicaLane(lane, "+", TO_COME, "waiting", away=False) for lane in waiting)]


def _named(lane: Lane, subject: Subject, leaving: frozenset[int]) -> ReplicaLane:
    timeline, broker = subject.timeline, lane.broker
    word, role = _ROLES[lane.role]
    if lane.role is Role.IN_SYNC and not timeline.state.described:
        word, role = "replica", "waiting"
    leaves = broker in leaving or lane.role is Role.RETIRING
    if leaves and lane.role is Role.IN_SYNC:
        word, role = "to leave", "retiring"
    known = subject.observation.brokers.get(broker)
    down = known is not None and not known.alive and lane.role is not Role.GONE
    if down:
        word, role = "DOWN", "out-of-sync" if subject.ended_at is None else "dim"
    leads = lane.role is Role.LEADER and not down
    first = next(iter(timeline.target), None)
    to_lead = broker == first and not leads and lane.role is not Role.GONE
    added = lane.role is Role.ADDING
    if leads and leaves:
        word = "leader, leaves"
    elif added and to_lead and not down:
        word = "next leader"
    sign = ("*" if leads else ">" if to_lead else "") + ("+" if added else "-" if leaves else "")
    return ReplicaLane(lane, sign, word, role, down or lane.role is Role.OUT_OF_SYNC)


def label_columns(
    lanes: Sequence[ReplicaLane], subject: Subject, width: int
) -> Iterator[RowColumn]:
    """Return the columns of the lanes' labels; a narrow terminal has fewer."""
    most = max([3, *(len(f"{each.sign}{each.broker}") for each in lanes)])

    def broker_cell(each: ReplicaLane) -> list[Piece]:
        after = "!" if each.away else ""
        text = f"{f'{each.sign}{each.broker}':>{most}}{after}"
        return [Piece(text, each.role, bold=True)]

    yield Column(heading="broker", cell=broker_cell)
    # the least cells, so that a role's length does not shift what follows
    yield Column(heading="role", width=14, cell=lambda each: [Piece(each.word, each.role)])
    brokers = subject.observation.brokers
    if width >= RACKS_FROM and any(each.rack for each in brokers.values()):
        yield _place("rack", 12, lambda b: (brokers[b].rack or "-") if b in brokers else "-")
    if width >= _HOSTS_FROM:
        hosts = {b.id: f"{b.host}:{b.port}" for b in brokers.values() if b.host}
        yield _place("host", 32, lambda b: hosts.get(b, "unknown"))


def _place(heading: str, most: int, name: Callable[[int], str]) -> RowColumn:
    def cell(each: ReplicaLane) -> list[Piece]:
        text = Piece(name(each.broker), "dim")
        return cut_pieces([text], min(most, cell_len(text.text)))

    return Column(heading=heading, cell=cell)


def throttle_on_copies(subject: Subject) -> float | None:
    """Return the bytes a second that throttles let all its copies through; None without any."""
    state, seen = subject.timeline.state, subject.observation
    config = seen.topic_configs.get(state.tp.topic)
    if config is None or not state.adding:
        return None
    rates = []
    for broker in state.adding:
        known = seen.broker_configs.get(broker)
        rate = None if known is None else known.follower_throttle_rate
        listed = config.follower_throttled_replicas
        if rate is None or not list_includes(listed, state.tp.partition, broker):
            return None
        rates.append(rate)
    return float(sum(rates))
