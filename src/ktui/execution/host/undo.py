"""Undo of an operator's last change of a run's limits or throttle, as the journal has it."""

from __future__ import annotations

import msgspec

from ktui.execution.errors import RunRefused
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import SetLimits, SetThrottle
from ktui.execution.run.events import LimitsChanged, ThrottleChanged
from ktui.execution.run.run import Change, ChangeT, Run
from ktui.execution.run.text import limit_changes_text
from ktui.execution.run.throttle_status import foreign_rates_text
from ktui.pacing.limits import CHOICES, NUMBERS, OF_ONE_BROKER, OF_RUN, Limits


class Undo(msgspec.Struct, frozen=True):
    """The command that puts back what a change has replaced, unless that was changed again."""

    change: Change[LimitsChanged] | Change[ThrottleChanged]
    command: SetLimits | SetThrottle

    @property
    def words(self) -> str:
        event = self.change.event
        if isinstance(event, LimitsChanged):
            return limit_changes_text(event.new, event.old)
        return f"{event.new.words} -> {event.old.words}"


def undo_limits(run: Run) -> Undo:
    """Return the undo of the last change of the limits. RunRefused: none, or somebody else's."""
    change = _own(run, run.limits_change, "limits")
    old, new = change.event.old, change.event.new
    command = SetLimits(_differing(old, new), _differing_brokers(old, new), instead_of=new)
    return Undo(change, command)


def undo_throttle(run: Run) -> Undo:
    """Return the undo of the last throttle change. RunRefused: none, or others' rate."""
    change = _own(run, run.throttle_change, "throttle")
    old, new = change.event.old, change.event.new
    if run.throttled.foreign:
        since = foreign_rates_text(run.throttled.foreign)
        raise RunRefused(
            f"the throttle of run {run.name} is not put back: {since}. To set the run's over it: "
            f"ktui throttle {run.name} {old.typed}"
        )
    return Undo(change, SetThrottle(old, instead_of=new))


def undo_last(run: Run) -> Undo:
    """Return the undo of the last change of either. RunRefused: as the two above."""
    limits, throttle = run.limits_change, run.throttle_change
    if limits is None and throttle is None:
        raise RunRefused(
            f"neither the limits nor the throttle of run {run.name} were changed since its start: "
            "there is nothing to undo"
        )
    if throttle is None or (limits is not None and limits.seq > throttle.seq):
        return undo_limits(run)
    return undo_throttle(run)


def _own(run: Run, change: Change[ChangeT] | None, what: str) -> Change[ChangeT]:
    if change is None:
        verb = "were" if what == "limits" else "was"
        raise RunRefused(
            f"the {what} of run {run.name} {verb} not changed since its start: there is nothing to "
            "undo"
        )
    who = change.event.who
    if _operator(who) != _operator(this_process().short):
        raise RunRefused(
            f"the last change of the {what} of run {run.name} is not yours: "
            f"{who or 'no operator'} made it. To change it all the same, give the new value"
        )
    return change


def _operator(who: str) -> str:
    """Who a process belongs to, for it may have been another view: "ada@ops1"."""
    return who.rpartition(" (")[0]


def _differing(old: Limits, new: Limits) -> dict[str, int | str | None]:
    fields = {option: option.replace("-", "_") for option in (*NUMBERS, *CHOICES)}
    return {
        option: getattr(old, field)
        for option, field in fields.items()
        if getattr(old, field) != getattr(new, field)
    }


def _differing_brokers(old: Limits, new: Limits) -> dict[int, dict[str, int | str | None]]:
    brokers: dict[int, dict[str, int | str | None]] = {}
    for option in OF_ONE_BROKER:
        before, now = old.own_of(option), new.own_of(option)
        for broker in sorted({*before, *now}):
            value = before.get(broker, OF_RUN)
            if value != now.get(broker, OF_RUN):
                brokers.setdefault(broker, {})[option] = value
    return brokers
