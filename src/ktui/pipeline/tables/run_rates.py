"""The rates of a run over time, from its recorded events: which was in force, and who chose it."""

from __future__ import annotations

import enum

import msgspec

from ktui.execution.run.events import (
    BudgetShared,
    JournalEntry,
    RateChosen,
    RateHeld,
    ScheduleChanged,
    Started,
    ThrottleChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import FLOOR, ThrottleLedger
from ktui.planning.throttle_rates import BrokerRate
from ktui.recording.milliseconds import wall_ms

_SETS_RATES = (Started, ThrottleChanged, ScheduleChanged, BudgetShared, RateChosen, RateHeld)


class RateChooser(enum.StrEnum):
    """The person or the promise whose rate is in force."""

    OPERATOR = "operator"
    BUDGET = "budget"
    BY = "by"
    OBJECTIVE = "objective"


class RateFacts(msgspec.Struct):
    """The rates in force from one event on; times in ms."""

    entry: int
    t: int
    kind: str
    """The name of the event."""
    bytes_s: int | None
    """Bytes a second into each broker that `brokers` does not name; None for no throttle."""
    brokers: tuple[BrokerRate, ...]
    chosen_by: RateChooser | None
    in_flight_ms: int = 0
    """How long steps were in flight under these rates."""
    objective: str | None = None
    figure: float | None = None
    """The figure of the last window, of an event `rate_held`; None if there is none."""
    reason: str | None = None
    """Why an event `rate_held` has no figure."""
    windows: int | None = None
    kept: int | None = None
    ends_at_t: int | None = None
    """The end that an event `rate_chosen` expects."""
    late: bool | None = None


class RunRates:
    """Collects the rates of one run. Without the run's start, nothing is known of them."""

    def __init__(self) -> None:
        self.rows: list[RateFacts] = []
        self.changes = 0
        """How often the rates in force have changed since the run's start."""
        self._last_t = 0

    def pass_time(self, run: Run, t: int) -> None:
        """Count the time until the next event, before the run applies it."""
        if self.rows and run.in_flight:
            self.rows[-1].in_flight_ms += max(0, t - self._last_t)
        self._last_t = max(self._last_t, t)

    def note(self, run: Run, entry: JournalEntry, t: int) -> None:
        """Add the rates after an event that the run has applied, if it is about them."""
        event, ledger = entry.event, run.throttled
        if run.started is None or not isinstance(event, _SETS_RATES):
            return
        row = RateFacts(
            entry=entry.seq,
            t=t,
            kind=str(event.__struct_config__.tag),
            bytes_s=ledger.in_force.every,
            brokers=ledger.in_force.brokers,
            chosen_by=rate_chooser(ledger),
            objective=None if ledger.rates.objective is None else str(ledger.rates.objective),
        )
        if isinstance(event, RateHeld):
            row.figure, row.windows, row.kept = event.figure, event.windows, event.kept
            row.reason = event.reason if event.figure is None else None
        elif isinstance(event, RateChosen):
            row.ends_at_t, row.late = wall_ms(event.ends_at), event.late
        if self.rows and _rates(self.rows[-1]) != _rates(row):
            self.changes += 1
        self.rows.append(row)


def _rates(row: RateFacts) -> tuple[int | None, tuple[BrokerRate, ...]]:
    return row.bytes_s, row.brokers


def rate_chooser(ledger: ThrottleLedger) -> RateChooser | None:
    """Return whose rate is the lowest; None without a throttle.

    Rates that an operator has named for single brokers count only where there is no other rate.
    """
    wanted, chosen, held = ledger.rates, ledger.chosen, ledger.held_at
    budget, allowed = wanted.budget, FLOOR if held is None else held.rate
    rates = {
        RateChooser.OPERATOR: wanted.every,
        RateChooser.BUDGET: budget and min(ledger.shares.values(), default=budget),
        RateChooser.BY: None if chosen is None else chosen.rate,
        RateChooser.OBJECTIVE: None if wanted.objective is None else allowed,
    }
    known = {source: rate for source, rate in rates.items() if rate is not None}
    if not known and any(each.bytes_s is not None for each in wanted.brokers):
        return RateChooser.OPERATOR
    return min(known, key=lambda source: known[source], default=None)
