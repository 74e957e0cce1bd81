"""The system clock: seconds pass even while the machine sleeps."""

from __future__ import annotations

import time

import pytest

from ktui.cluster.clock import SystemClock

ASLEEP_S = 3_600.0


def test_time_asleep_counts_as_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On Linux only CLOCK_BOOTTIME advances during sleep; elsewhere CLOCK_MONOTONIC does.
    reading = time.clock_gettime
    boot_clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    asleep_s = {boot_clock: 0.0}

    def read(which: int) -> float:
        return reading(which) + asleep_s.get(which, 0.0)

    monkeypatch.setattr(time, "clock_gettime", read)
    clock = SystemClock()
    before = clock.monotonic()
    asleep_s[boot_clock] = ASLEEP_S

    assert clock.monotonic() - before >= ASLEEP_S


def test_seconds_never_go_backwards() -> None:
    clock = SystemClock()

    read = [clock.monotonic() for _ in range(1_000)]

    assert read == sorted(read)
