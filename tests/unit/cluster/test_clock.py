"""The machine's own clock: seconds that pass also while it sleeps."""

from __future__ import annotations

import time

import pytest

from ktui.cluster.clock import SystemClock

ASLEEP_S = 3_600.0


def test_a_while_that_the_machine_was_asleep_counts_as_time_that_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On Linux only CLOCK_BOOTTIME goes on meanwhile, elsewhere CLOCK_MONOTONIC does.
    reading = time.clock_gettime
    goes_on = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    asleep_s = {goes_on: 0.0}

    def read(which: int) -> float:
        return reading(which) + asleep_s.get(which, 0.0)

    monkeypatch.setattr(time, "clock_gettime", read)
    clock = SystemClock()
    before = clock.monotonic()
    asleep_s[goes_on] = ASLEEP_S

    assert clock.monotonic() - before >= ASLEEP_S


def test_seconds_never_go_backwards() -> None:
    clock = SystemClock()

    read = [clock.monotonic() for _ in range(1_000)]

    assert read == sorted(read)
