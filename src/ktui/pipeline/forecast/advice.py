"""Which limits to advise for a recorded run, and why: of those it was simulated under."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from ktui.insights import limit_options, options_text
from ktui.pipeline.forecast.play import GridCell, SimulatedCell
from ktui.pipeline.tables.runs import RateChooser
from ktui.quantities import as_count, as_duration, as_rate

_OBJECTIVE = (
    "the run was as fast as its objective allowed, and what producers feel at another rate was not "
    "recorded"
)
_NO_OTHER = (
    "the rate of the run changed on the way, and nothing else was simulated that was recorded"
)
_DEFAULTS = "the defaults"
_ALIKE = 1.05  # times and rates within this factor count as the same: no forecast is more exact


class Advice(msgspec.Struct, frozen=True):
    """The advice for one run."""

    place: int | None
    reason: str
    told_of: int
    record: str | None = None  # options of `ktui start` for a run to record, to know more


def advise(played: Sequence[SimulatedCell], window_s: float | None) -> Advice:
    """Choose the gentlest cell of a run that fits a window of so many seconds.

    The time of --by is a window too. Without one, choose the fastest cell with no more extra
    replicas than the run's own. Never chosen are cells beyond the recorded evidence (the advice
    names the run to record where they might do better), cells that gain nothing, and rates that
    --by chose: no other run could have them. A run whose rate followed an objective gets none.
    """
    place = next(n for n, one in enumerate(played) if one.own)
    own = played[place]
    if own.beyond:  # too little was recorded for anything
        record = recorded_with(own.cell)
        such = f"record one more run, such as with {record or _DEFAULTS}"
        reason = f"{'; '.join(own.beyond)}; to know, {such}"
        return Advice(None, reason, place, record)
    if RateChooser.OBJECTIVE in (own.driven_by or ""):
        return Advice(None, _OBJECTIVE, place)
    window = "the time of --by, " if window_s is None else ""
    window_s = own.by_s if window_s is None else window_s
    if window_s is None:
        return _fastest(played, place)
    return _gentlest(played, place, window_s, window + as_duration(window_s))


def _gentlest(played: Sequence[SimulatedCell], place: int, window_s: float, window: str) -> Advice:
    """Advise the gentlest cell that fits a window; gentler than the run's own, where that fits."""
    own = played[place]
    within = _advisable(played)
    fits = [n for n in within if played[n].high_s <= window_s]
    as_it_was = not own.driven_by and own.high_s <= window_s
    chosen = [n for n in fits if _gentler(played[n], own)] if as_it_was else fits
    if chosen:
        best = min(chosen, key=lambda n: _gentleness(played[n]))
        reason = f"the fewest at once of the {len(fits):,} that fit {window}"
        return Advice(best, f"{reason}: {_compared(played[best], own)}", best)
    others = [one for one in played if one.beyond and one.high_s <= window_s]
    if as_it_was:
        reason = f"nothing that was recorded has less at once than the run, and fits {window} too"
        gentler = [one for one in others if _gentler(one, own)]
        return _with_record(Advice(None, reason, place), gentler, "others might have")
    if not within and own.driven_by:
        return Advice(None, _NO_OTHER, place)
    soonest = min([*within, *([] if own.driven_by else [place])], key=lambda n: played[n].high_s)
    reason = f"none fits {window}; the soonest is {_shown(played[soonest])}"
    return _with_record(Advice(None, reason, soonest), others, "others might fit")


def _fastest(played: Sequence[SimulatedCell], place: int) -> Advice:
    """Advise the gentlest of the fastest cells; without a faster one, one with less at once."""
    own = played[place]
    within = _advisable(played)
    if not within and own.driven_by:
        return Advice(None, _NO_OTHER, place)
    held = [n for n in within if played[n].peak_extra_replicas <= own.peak_extra_replicas]
    soonest = min((played[n].predicted_s for n in held), default=math.inf)
    surely = [
        n for n in held if max(played[n].high_s, played[n].predicted_s * _ALIKE) <= own.to_beat_s
    ]
    most = as_count(own.peak_extra_replicas, "extra replica")
    if surely:
        soonest = min(played[n].predicted_s for n in surely)
        chosen = [n for n in surely if played[n].predicted_s <= _ALIKE * soonest]
        reason = f"the gentlest of the fastest that hold {most} at most, as the run did"
    else:
        as_fast = [n for n in held if played[n].predicted_s <= _ALIKE * own.to_beat_s]
        chosen = [n for n in as_fast if _gentler(played[n], own)]
        reason = "as fast as the run, with less at once"

    if chosen:
        best = min(chosen, key=lambda n: _gentleness(played[n]))
        advice = Advice(best, f"{reason}: {_compared(played[best], own)}", best)
    elif soonest * _ALIKE <= own.to_beat_s:
        fastest = min(held, key=lambda n: played[n].predicted_s)
        close = f"{_shown(played[fastest])}, is within the range of error of {_as_started(own)}"
        advice = Advice(None, f"the fastest that was recorded, {close}", place)
    else:
        nothing = "nothing that was recorded is faster than the run, or as fast with less at once"
        advice = Advice(None, nothing, place)
    others = [
        one
        for one in played
        if one.beyond
        and one.peak_extra_replicas <= own.peak_extra_replicas
        and one.predicted_s * _ALIKE < min(soonest, own.to_beat_s)
    ]
    return _with_record(advice, others, "others might be faster")


def _advisable(played: Sequence[SimulatedCell]) -> list[int]:
    return [n for n, one in enumerate(played) if not (one.own or one.beyond)]


def _with_record(advice: Advice, others: Sequence[SimulatedCell], words: str) -> Advice:
    """Name the run to record to know more of the nearest of `others`, cells beyond the evidence."""
    if not others:
        return advice
    nearest = min(others, key=lambda one: (len(one.beyond), _gentleness(one)))
    record = recorded_with(nearest.cell)
    reason = (
        f"{advice.reason}; {words}, beyond what was recorded ({'; '.join(nearest.beyond)}): to "
        f"know, record one run with {record or _DEFAULTS}"
    )
    return msgspec.structs.replace(advice, reason=reason, record=record)


def recorded_with(cell: GridCell) -> str:
    """Return the options of `ktui start` for a run with the limits and the throttle of a cell."""
    return options_text(limit_options(cell.limits), cell.throttle.typed)


def _gentler(one: SimulatedCell, own: SimulatedCell) -> bool:
    pairs = [*zip(_uses(one), _uses(own), strict=True)]
    return all(a <= b for a, b in pairs) and any(a * _ALIKE <= b and a < b for a, b in pairs)


def _uses(one: SimulatedCell) -> tuple[float, ...]:
    return (one.partitions_at_once, one.peak_extra_replicas, one.broker_bytes_s)


def _gentleness(one: SimulatedCell) -> tuple[float, ...]:
    """Return a sort key, the gentlest first: what is going on at once, then what is allowed."""
    limits = one.cell.limits
    counts = (limits.partitions, limits.replicas, limits.per_broker, limits.replica_movements)
    allowed = (math.inf if count is None else count for count in counts)
    return (*_uses(one), one.predicted_s, *allowed)


def _compared(one: SimulatedCell, own: SimulatedCell) -> str:
    times = f"{_shown(one)} instead of {_as_started(own)}"
    return "; ".join((times, *_differences(one, own)))


def _as_started(own: SimulatedCell) -> str:
    """Return the time to compare others with, of the same model, and what the run really took."""
    how = f"with the rates that --{own.driven_by} chose" if own.driven_by else "as it was started"
    its = f"{_shown(own)} predicted for it {how}"
    if own.actual_s is None:
        return its
    why = f": {', '.join(own.disturbed)}" if own.disturbed else ""
    return f"{its} (it took {as_duration(own.actual_s)}{why})"


def _differences(one: SimulatedCell, own: SimulatedCell) -> Iterator[str]:
    if one.partitions_at_once != own.partitions_at_once:
        at_once = as_count(one.partitions_at_once, "partition")
        yield f"{at_once} at once instead of {own.partitions_at_once:,}"
    if one.peak_extra_replicas != own.peak_extra_replicas:
        extra = as_count(one.peak_extra_replicas, "extra replica")
        yield f"{extra} instead of {own.peak_extra_replicas:,}"
    rates = (one.broker_bytes_s, own.broker_bytes_s)
    if max(rates) > _ALIKE * min(rates):
        ours, its = map(as_rate, rates)
        yield f"{ours} into a broker at most instead of {its}"


def _shown(one: SimulatedCell) -> str:
    low, high = as_duration(one.low_s), as_duration(one.high_s)
    return f"{as_duration(one.predicted_s)} ({low} to {high})"
