"""The run banner, two lines above the list: the run's progress, and its limits."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from textual.content import Content

from ktui.execution.forecast.run_progress import UNPREDICTABLE, RunProgress
from ktui.execution.host.catalog import LIVE, OtherRun, RunState
from ktui.execution.run.events import RateHeld
from ktui.execution.run.states import CancelKind, Stage, State
from ktui.execution.run.throttle_status import ThrottleStatus
from ktui.pacing.limits import LETTERS, InternalOrder, Limits, Order, full_limit_figure, is_limited
from ktui.planning.throttle_rates import Objective
from ktui.speed.answer import HowLong, how_long_parts
from ktui.tui.draw import format as figures
from ktui.tui.draw.bars import parts_bar, rate_gauge
from ktui.tui.draw.cells import CANCEL_SIGNS, STAGE_CELLS, Cell, Piece, faded
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.run_view.throttle import BrokerInflow
from ktui.tui.widgets.bindings import key_names
from ktui.tui.widgets.header import HeaderPart, line, part
from ktui.tui.widgets.lines import DrawnLines
from ktui.tui.widgets.services import Status, services
from ktui.tui.widgets.trouble import held_up, own_stalls

_STATES = {
    RunState.RUNNING: ("RUNNING", "moving"),
    RunState.PAUSED: ("PAUSED", "falling-behind"),
    RunState.GATED: ("GATE SHUT", "falling-behind"),
    RunState.WAITING: ("WAITING", "next-leader"),
    RunState.RESUMABLE: ("WAITING FOR RESUME", "stalled"),
    RunState.SUBMITTED: ("SUBMITTED", "moving"),
    RunState.EXPORTED: ("EXPORTED", "dim"),
    RunState.ENDED: ("ENDED", "in-sync"),
    RunState.UNREADABLE: ("UNREADABLE", "stalled"),
}
GOES_ON_ALONE = "Kafka goes on alone; it ends by: ktui reassign --verify"
_BAR_CELLS = 18
_FAR_S = 366 * 86_400
_NONE = HeaderPart(())
_WIDE = 400
_MOST_GAUGES = 6
_INTO_EACH = " into each broker"
_STAGES = (
    (Stage.FAILED, "failed"),
    (Stage.STALLED, "STALLED"),
    (Stage.BLOCKED, "blocked"),
    (Stage.HELD_UP, "held up"),
    (Stage.BEHIND, "behind"),
    (Stage.FOREIGN, "foreign"),
    (Stage.READY, "ready"),
    (Stage.COPYING, "copying"),
    (Stage.WAITING, "waiting"),
    (Stage.QUEUED, "queued"),
)
"""The stages of partitions that are neither done nor called off, the worst first."""
_ENDS = (
    (State.REFUSED, "refused", "falling-behind"),
    (State.STOPPING, "stopping", "cancelled"),
    (State.ROLLING_BACK, "rolling back", "next-leader"),
    (State.STOPPED, "stopped", "cancelled"),
    (State.ROLLED_BACK, "rolled back", "in-sync"),
    (State.CHANGED_ELSEWHERE, "changed elsewhere", "foreign"),
    (State.TOPIC_GONE, "topic gone", "dim"),
)
"""How partitions are called off or left out; of those blocked, the cancels refused for now."""
_QUIET = (Stage.READY, Stage.COPYING, Stage.WAITING, Stage.QUEUED)
_STOPPING_THE_RUN = (Stage.FAILED, *UNPREDICTABLE)
"""What never gives way: while partitions are in one of these, the run does not end well."""
_IN_THE_BAR = (Stage.DONE, Stage.READY, Stage.COPYING, Stage.WAITING, Stage.QUEUED)
_TROUBLE_IN_THE_BAR = (
    Stage.LEFT_OUT, Stage.FOREIGN, Stage.BEHIND, Stage.HELD_UP, Stage.BLOCKED, Stage.FAILED,
    Stage.STALLED,
)  # fmt: skip
"""In the bar from the left: what is well, what is called off, and the trouble."""


class _Rank(enum.IntEnum):
    """How soon a part gives way: the last ones first. Those without a rank never do."""

    # the first line
    TIME = 1
    SHARE = 2
    WHY = 3
    COUNTS = 4
    STAGES = 5
    SPREAD = 6
    BAR = 7
    SIZES = 8
    ETA = 9
    BATCH = 10
    PACE = 11
    # the second line
    THROTTLE = 12
    LIMIT = 13
    GAUGE = 14
    SHAPE = 15
    WORD = 16
    COPYING = 17
    IN_FLIGHT = 18
    FASTEST = 19
    LABEL = 20
    MORE_GAUGES = 21


class ShownAbove(NamedTuple):
    """What the header shows, which the banner does not repeat."""

    counts: Mapping[Stage, int] = {}
    cancel_gate: bool = False

    @classmethod
    def from_status(cls, status: Status | None) -> ShownAbove:
        if status is None or status.outage is not None:
            return cls()
        counts = {Stage.STALLED: own_stalls(status), Stage.HELD_UP: held_up(status)}
        return cls(counts, bool(status.cancel_gate))


_NOTHING_ABOVE = ShownAbove()


class RunBanner(DrawnLines):
    """Draws a `RunStatus`, and names the other runs; takes no room while there is none."""

    DEFAULT_CSS = """
    RunBanner { height: 2; background: $background; display: none; }
    RunBanner.-shown { display: block; }
    RunBanner.-others { display: block; height: 1; }
    RunBanner.-shown.-others { height: 3; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._status: RunStatus | None = None
        self._stale = False
        self._above = _NOTHING_ABOVE
        self._others: Sequence[OtherRun] = ()

    def show(self, status: RunStatus | None) -> None:
        stale = services(self).outage is not None
        seen = services(self).cluster_status()
        above, others = ShownAbove.from_status(seen), () if seen is None else seen.others
        before = (self._status, self._stale, self._above, self._others)
        if (status, stale, above, others) != before:
            self._status, self._stale, self._above, self._others = status, stale, above, others
            shown = status is not None and not _is_chip(status)
            self.set_class(shown, "-shown")
            self.set_class(bool(others), "-others")
            self.redraw()

    def lines(self, width: int) -> list[Content]:
        seen = services(self).cluster_status()
        if self._status is None or seen is None:
            return []
        lines = []
        if not _is_chip(self._status):
            lines = [first_line(self._status, seen.now, width, self._above)]
            lines.append(second_line(self._status, width))
        if self._others:
            key = key_names(self.screen).get("next_run", "")
            lines.append(others_line(self._others, key, width))
        drawn = (content(faded(each) if self._stale else each) for each in lines)
        return Content("\n").join(drawn).split()


def _is_chip(status: RunStatus) -> bool:
    return status.state is RunState.ENDED and not status.problem


def state_words(state: RunState) -> tuple[str, str]:
    """Return the word for the state of a run, and its colour role."""
    return _STATES[state]


def first_line(
    status: RunStatus, now: datetime, width: int = _WIDE, above: ShownAbove = _NOTHING_ABOVE
) -> list[Piece]:
    """Draw the progress of a run in one line of `width` cells."""
    return line(list(_first(status, now, above)), _NONE, width)


def second_line(status: RunStatus, width: int = _WIDE) -> list[Piece]:
    """Draw the limits and the throttle of a run in one line of `width` cells."""
    return line(list(_second(status)), _NONE, width)


def others_line(others: Sequence[OtherRun], key: str, width: int = _WIDE) -> list[Piece]:
    """Name the other runs of the cluster that live or wait, with the key to them."""
    parts = [part("▶ also:", "moving", bold=True)]
    for each in others:
        word, role = _STATES[each.state]
        pieces = [Piece("run ", "dim"), Piece(each.name, bold=True), Piece(f" {word}", role)]
        parts.append(HeaderPart(tuple(pieces)))
        parts.append(part(f"{each.done:,}/{each.partitions:,} done", rank=1, gap=1))
        if each.stalled:
            parts.append(part(f"{each.stalled:,} STALLED", "stalled", bold=True, gap=1))
    words = " shows it" if len(others) == 1 else " next"
    to_it = HeaderPart((Piece(key, "moving", bold=True), Piece(words, "dim")))
    return line(parts, to_it if key else _NONE, width)


def _first(status: RunStatus, now: datetime, above: ShownAbove) -> Iterator[HeaderPart]:
    back, (word, role) = _rolling_back(status), _STATES[status.state]
    if status.died:
        word = "ENGINE DIED"
    yield HeaderPart((Piece("run ", "dim"), Piece(status.name, bold=True)), name=True)
    only_gate = status.by_cancel_gate and above.cancel_gate
    says_all = back is not None and (status.state is RunState.RUNNING or only_gate)
    if not says_all:
        yield part(word, role, bold=True)
    if back is not None:
        yield HeaderPart((back,))
    if status.why and status.state is not RunState.RESUMABLE and not says_all:
        yield part(status.why, role, rank=_Rank.WHY)
    if status.state is RunState.SUBMITTED:
        yield part(GOES_ON_ALONE, "dim", rank=_Rank.TIME)
    elif status.state is RunState.EXPORTED:
        yield part("it goes on where it is imported", "dim", rank=_Rank.TIME)
    yield from _remaining_throttle(status)
    yield from _promise(status, now)
    if status.state is not RunState.ENDED and status.batch:
        whole = "" if status.batches is None else f" of ~{status.batches:,}"
        yield part(f"{status.batch:,}{whole}", label="batch", rank=_Rank.BATCH)
    yield from _counts(status, above, rolls_back=back is not None)
    yield from _copied(status)
    if status.state is RunState.ENDED:
        at = "" if status.ended_at is None else f"at {figures.as_time(status.ended_at)}"
        yield part(at, "dim", rank=_Rank.SHARE)
    elif status.state is RunState.RUNNING or (back is not None and status.only_rolls_back):
        yield from _time_left(status.time_left, now)


def _rolling_back(status: RunStatus) -> Piece | None:
    """Partitions are rolled back while the run is paused too, and while a gate is shut."""
    left, done = status.rolling_back, status.counts.get(State.ROLLED_BACK, 0)
    if not left or status.state not in LIVE:
        return None
    return Piece(f"ROLLING BACK, {done:,} of {done + left:,} back", "next-leader", bold=True)


def _remaining_throttle(status: RunStatus) -> Iterator[HeaderPart]:
    if status.throttle.waits is not None and status.owned:
        words = f"all over but its throttle on {status.throttle.stands_on}"
        yield part(words, "falling-behind")


def _promise(status: RunStatus, now: datetime) -> Iterator[HeaderPart]:
    chosen, by = status.throttle.chosen, status.schedule.by
    if by is None or status.state is RunState.ENDED:
        return
    at = figures.as_clock(by, now)
    if chosen is not None and chosen.late:
        soonest = figures.as_clock(chosen.ends_at, now)
        yield part(f"CANNOT BE DONE BY {at}: {soonest} AT THE SOONEST", "stalled", bold=True)
    else:
        yield part(at, label="done by", rank=_Rank.TIME)


def _counts(status: RunStatus, above: ShownAbove, *, rolls_back: bool) -> Iterator[HeaderPart]:
    """Count each partition once; what the header says already goes first where there is no room."""
    counts, stages, done = status.counts, status.stages, status.done
    if done or not rolls_back:
        yield part(f"{done:,}/{status.partitions:,}", label="done")
    for stage, word in _STAGES:
        if not (count := stages.get(stage, 0)):
            continue
        quiet, role = stage in _QUIET, STAGE_CELLS[stage].role
        rank = _Rank.STAGES if quiet else 0 if stage in _STOPPING_THE_RUN else _Rank.COUNTS
        if above.counts.get(stage) == count:
            rank = _Rank.SPREAD
        yield part(f"{count:,} {word}", "dim" if quiet else role, bold=role == "stalled", rank=rank)
    for state, word, role in _ENDS:
        count = status.stopped if state is State.STOPPED else counts.get(state, 0)
        if count and not (rolls_back and state in (State.ROLLING_BACK, State.ROLLED_BACK)):
            yield part(f"{count:,} {word}", role, rank=_Rank.COUNTS)
    if status.not_started:
        yield part(f"{status.not_started:,} not started", "dim", rank=_Rank.COUNTS)


def _copied(status: RunStatus) -> Iterator[HeaderPart]:
    if status.state is not RunState.ENDED and status.stages:
        yield HeaderPart((Piece("▕", "dim"), *stage_bar(status), Piece("▏", "dim")), _Rank.BAR)
    if status.share is None or _rolling_back(status) is not None:  # it is not of what goes back
        return
    if status.state is RunState.ENDED:  # a share would leave out what was called off
        words = f"{figures.as_bytes(status.bytes_done)} copied"
        yield part(words, rank=_Rank.SIZES)
        return
    sizes = f"{figures.as_bytes(status.bytes_done)} of {figures.as_bytes(status.bytes)}"
    yield part(sizes, rank=_Rank.SIZES)
    yield part(figures.as_share(status.share), rank=_Rank.SHARE)
    yield part("of bytes", "dim", rank=_Rank.SPREAD, gap=1)


def stage_bar(status: RunProgress, cells: int = _BAR_CELLS) -> list[Piece]:
    """Draw how many of a run's partitions are in each stage; a few have a cell, too."""
    stages, back = status.stages, status.counts.get(State.ROLLED_BACK, 0)
    stopped = status.counts.get(State.STOPPED, 0)
    on_the_way = stages.get(Stage.CALLED_OFF, 0) - back - stopped
    shown = [
        *((stages.get(stage, 0), STAGE_CELLS[stage]) for stage in _IN_THE_BAR),
        (back, Cell(CANCEL_SIGNS[CancelKind.ROLLBACK].glyph, "in-sync")),
        (stopped, CANCEL_SIGNS[CancelKind.STOP]),
        (on_the_way, STAGE_CELLS[Stage.CALLED_OFF]),
        *((stages.get(stage, 0), STAGE_CELLS[stage]) for stage in _TROUBLE_IN_THE_BAR),
    ]
    return parts_bar(shown, cells)


def _time_left(time_left: HowLong | None, now: datetime) -> Iterator[HeaderPart]:
    if time_left is None:
        yield part("time left unknown", "dim", rank=_Rank.TIME)
        return
    middle, grounds, pace = how_long_parts(time_left, left=True)
    yield part(middle, rank=_Rank.TIME)
    yield part(grounds, "dim", rank=_Rank.SPREAD, gap=0)
    yield part(pace, "dim", rank=_Rank.PACE, gap=0)
    end = now + timedelta(seconds=min(time_left.time_s.middle, _FAR_S))
    yield part(figures.as_clock(end, now), label="ETA", rank=_Rank.ETA)


def _second(status: RunStatus) -> Iterator[HeaderPart]:
    if status.problem:
        yield part(f"! {status.problem}", "stalled", bold=True)
    yield part("limits", "dim", rank=_Rank.LABEL)
    limits, coming = status.limits, status.coming
    for option, letter in LETTERS.items():
        value = full_limit_figure(limits, option)
        new = value if coming is None else full_limit_figure(coming, option)
        if is_limited(limits, option) or new != value:
            changes = new != value
            yield part(value, label=letter, rank=0 if changes else _Rank.LIMIT)
            yield part(_limit_word(option, value), "dim", rank=_Rank.WORD, gap=1)
            if changes:
                yield part(f"({new} at the next step)", "next-leader", gap=1)
    words = shape_in_words(limits)
    next_words = words if coming is None else shape_in_words(coming)
    if words != next_words or words != shape_in_words(Limits()):
        then = "" if next_words == words else f" ({next_words} next)"
        yield HeaderPart((Piece(words), Piece(then, "next-leader")), rank=_Rank.SHAPE)
    yield from _throttle(status)
    if status.steps_in_flight not in (0, status.stages.get(Stage.COPYING)):  # else said above
        yield part(f"{status.steps_in_flight:,} in flight", "dim", rank=_Rank.IN_FLIGHT)
    if status.traffic.bytes_s and status.state is not RunState.ENDED:
        rate = figures.as_copying(status.traffic.bytes_s)
        yield part(rate, label="all moves together", rank=_Rank.COPYING)


def _throttle(status: RunStatus) -> Iterator[HeaderPart]:
    throttle, traffic = status.throttle, status.traffic
    if status.state is RunState.ENDED:
        return
    left = bool(throttle.settings) and status.state is RunState.RESUMABLE
    if left:
        stays = f"its throttle stays on {throttle.stands_on}"
        yield part(stays, "falling-behind")
    if throttle.bounded or not left:
        yield from _rates(throttle, left=left)
    for place, into in enumerate(traffic.into[:_MOST_GAUGES]):
        if into.flow.in_s is None or not throttle.bounded:
            continue
        rank = _Rank.MORE_GAUGES + place if place else _Rank.GAUGE
        yield HeaderPart((Piece(f"into b{into.broker} ", "dim"), *_gauge(into)), rank=rank)
    if throttle.rates.objective is not None:
        yield _objective(throttle.rates.objective, throttle.held)
    if not throttle.bounded:
        return
    if traffic.fastest is not None:
        inbound = figures.as_rate(traffic.fastest.fastest_bytes_s)
        which = Piece(f" {traffic.fastest.fastest}", "dim")
        yield HeaderPart(
            (Piece("fastest inbound ", "dim"), Piece(inbound), which), rank=_Rank.FASTEST
        )


def _rates(throttle: ThrottleStatus, *, left: bool) -> Iterator[HeaderPart]:
    if not throttle.bounded:
        yield part("none", "dim", label="throttle", rank=_Rank.IN_FLIGHT)
        return
    words = rates_in_words(throttle)
    rate = words.removesuffix(_INTO_EACH)
    yield part(rate, label="throttle", rank=_Rank.LABEL if left else _Rank.THROTTLE)
    if rate != words:
        yield part(_INTO_EACH.strip(), rank=_Rank.LABEL, gap=1)


def rates_in_words(throttle: ThrottleStatus) -> str:
    """Name the rates in force; of those held by broker, the lowest and the highest."""
    if throttle.held is not None and throttle.held.rates:
        rates = [throttle.bounded.of(broker) or 0 for broker in throttle.held.rates]
        low, high = figures.as_rate(min(rates)), figures.as_rate(max(rates))
        return low if low == high else f"{low} to {high}"
    return msgspec.structs.replace(throttle.bounded, objective=None).with_leaders(
        throttled=throttle.leaders
    )


def _objective(objective: Objective, held: RateHeld | None) -> HeaderPart:
    if held is None or held.figure is None:
        words = Piece("no figure", "falling-behind")
    else:
        over = held.figure > objective.below
        words = Piece(objective.value(held.figure), "stalled" if over else "", bold=over)
    share = f" {held.kept / held.windows:.0%} kept" if held is not None and held.windows else ""
    parts = (Piece(f"{objective} ", "dim"), words, Piece(share, "dim"))
    return HeaderPart(parts, rank=_Rank.THROTTLE)


def _gauge(into: BrokerInflow) -> list[Piece]:
    flow = into.flow
    if into.throttle is None:
        return [Piece(figures.as_rate(flow.in_s))]
    return rate_gauge(flow.in_s, into.throttle, broken=flow.breaks_throttle)


def _limit_word(option: str, value: str) -> str:
    """Return what a limit counts: "partitions", "per broker"."""
    if option == "replicas":  # of one partition
        return "per partition"
    word = option.replace("-", " ").removeprefix("bytes ")
    return word.removesuffix("s") if value == "1" else word


def limits_in_words(limits: Limits) -> str:
    """Name the limits that bind: "R 1 P 5"."""
    bound = (option for option in LETTERS if is_limited(limits, option))
    return " ".join(f"{LETTERS[option]} {full_limit_figure(limits, option)}" for option in bound)


def shape_in_words(limits: Limits) -> str:
    """Name shape and mode, and an order that is no shape's default."""
    order = "" if limits.order in {Order.LONG_FIRST, Order.TOPIC} else f" {limits.order}"
    internal = " internal first" if limits.internal is InternalOrder.FIRST else ""
    return f"{limits.shape} {limits.mode}{order}{internal}"
