"""Describe the rates at which an objective holds, and why they moved last."""

from __future__ import annotations

from ktui.execution.run.events import RateHeld
from ktui.execution.run.held_rate import RateCause, RateReason
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.planning.objective import Objective
from ktui.quantities import as_count, as_rate

_MOVES = {
    RateCause.OVER: "down",
    RateCause.FAR_OVER: "down at once",
    RateCause.UNDER: "up",
    RateCause.IN_BAND: "stays",
}


def held_text(held: RateHeld, objective: Objective | None = None) -> str:
    """Describe the rates of an objective, how often it has held, and why the last one moved.

    Args:
        held: the rates.
        objective: the objective; None leaves the figure without its name and unit.
    """
    none = f"there is no figure{f': {held.reason}' if held.reason else ''}"
    name, figure = _named(objective, held.figure)
    figures = none if held.figure is None else f"{name} is {figure}"
    share = f", {held.kept:,} of {as_count(held.windows, 'window')} kept" if held.windows else ""
    why = "" if held.why is None else f"; {reason_text(held.why, held.rate, objective)}"
    return f"{_rates(held)}: {figures}{share}{why}"


def reason_text(why: RateReason, rate: int, objective: Objective | None = None) -> str:
    """Describe why a rate moved last, or stays: "down: p99 of broker 4 was 212ms".

    Args:
        why: the reason.
        rate: the rate now, in bytes a second.
        objective: the objective; None leaves the figure without its name and unit.
    """
    name, value = _named(objective, why.figure)
    whose = "" if why.of is None else f" of broker {why.of}"
    if why.cause is RateCause.NO_FIGURE:
        return f"the least rate: there was no figure{whose}"
    if why.cause is RateCause.UNUSED:
        return f"stays: {why.used or 0.0:.0%} of it is used"
    least = rate <= FLOOR and why.cause in (RateCause.OVER, RateCause.FAR_OVER)
    move = "the least rate" if least else _MOVES[why.cause]
    return f"{move}: {name}{whose} was {value}"


def _named(objective: Objective | None, figure: float | None) -> tuple[str, str]:
    """Return the name of a figure, and its value; empty where there is none."""
    if objective is None:
        return "the figure", "" if figure is None else f"{figure:g}"
    return objective.name, "" if figure is None else objective.value(figure)


def _rates(held: RateHeld) -> str:
    rates = sorted(held.rates.values())
    if not rates:
        return f"{as_rate(held.rate)} into each broker"
    low, high = as_rate(rates[0]), as_rate(rates[-1])
    into = as_count(len(rates), "broker")
    return f"{low} into {into}" if low == high else f"{low} to {high} into {into}"
