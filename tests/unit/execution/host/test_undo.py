"""What an undo puts back, and when it is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import undo_last, undo_limits, undo_throttle
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import SetLimits, SetThrottle
from ktui.execution.run.events import AnyRunEvent, JournalEntry, LimitsChanged, ThrottleChanged
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits, Mode, parse_limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
ME = this_process().short
MY_LAST_VIEW = f"{ME.rpartition(' (')[0]} (1)"
FAST, SLOW = parse_throttle_rates("80MB,3=20MB"), parse_throttle_rates("10MB")


def a_run(*events: AnyRunEvent) -> Run:
    entries = (JournalEntry(seq, AT, event) for seq, event in enumerate(events, 1))
    return Run("drain").fold(entries)


def limits_changed(old: Limits, new: Limits, who: str = ME) -> LimitsChanged:
    return LimitsChanged(old=old, new=new, batch=1, in_flight=0, who=who)


def test_an_undo_names_only_the_limits_that_differ() -> None:
    old = Limits(replicas=1, partitions=4)
    new = Limits(replicas=1, partitions=None, mode=Mode.WAVE)

    undo = undo_limits(a_run(limits_changed(old, new, MY_LAST_VIEW)))

    assert undo.command == SetLimits({"partitions": 4, "mode": "rolling"}, instead_of=new)
    assert isinstance(undo.command, SetLimits)
    assert parse_limits(undo.command.options, new) == old
    assert undo.words == "P none -> 4, wave -> rolling"


def test_the_undo_of_an_undo_puts_the_change_back() -> None:
    one, other = Limits(partitions=1), Limits(partitions=2)

    undo = undo_limits(a_run(limits_changed(one, other), limits_changed(other, one)))

    assert undo.command == SetLimits({"partitions": 2}, instead_of=one)


def test_the_later_change_of_limits_and_throttle_is_undone_first() -> None:
    limits = limits_changed(Limits(partitions=1), Limits(partitions=2))
    throttle = ThrottleChanged(old=NO_THROTTLE, new=FAST, who=ME)

    assert isinstance(undo_last(a_run(limits, throttle)).command, SetThrottle)
    assert isinstance(undo_last(a_run(throttle, limits)).command, SetLimits)


def test_a_run_without_a_change_has_nothing_to_undo() -> None:
    for undo in (undo_limits, undo_throttle, undo_last):
        with pytest.raises(RunRefused, match="nothing to undo"):
            undo(a_run())


@pytest.mark.parametrize("who", ["ada@ops1 (7)", ""])
def test_a_change_of_somebody_else_is_not_undone(who: str) -> None:
    mine = limits_changed(Limits(partitions=1), Limits(partitions=2))
    theirs = limits_changed(Limits(partitions=2), Limits(partitions=9), who)

    with pytest.raises(RunRefused, match="is not yours") as refused:
        undo_limits(a_run(mine, theirs))

    assert (who or "no operator") in str(refused.value)


def test_a_rate_that_somebody_else_has_set_since_is_not_overwritten() -> None:
    run = a_run(ThrottleChanged(old=FAST, new=SLOW, who=ME))
    run.throttled.foreign = {(ConfigResource(ConfigScope.BROKER, "4"), FOLLOWER_RATE): "5000000"}

    with pytest.raises(RunRefused, match="someone else has set another rate on broker 4") as no:
        undo_throttle(run)

    assert "ktui throttle drain 80MB,3=20MB" in str(no.value)


@pytest.mark.parametrize("text", ["none", "50MB", "1500kB", "7", "3=none", "80MB,3=20MB,9=none"])
def test_rates_are_typed_as_an_operator_would(text: str) -> None:
    rates = parse_throttle_rates(text)

    assert parse_throttle_rates(rates.typed) == rates
    if text != "3=none":
        assert rates.typed == text
