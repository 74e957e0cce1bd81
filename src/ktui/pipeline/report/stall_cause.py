"""Why a partition stood still, as far as its samples show: the most telling cause first."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.throttle_settings import FETCH_BYTES
from ktui.pipeline.report.records import Sample
from ktui.progress.stalls import STALLED_AFTER_S
from ktui.progress.timeline import Cause


def cause_of(samples: Iterable[Sample]) -> tuple[Cause, str]:
    """Name the cause of a stall, and give it in words.

    Args:
        samples: of the partition, while it stood still.
    """
    found = [judged for sample in samples if (judged := _of_sample(sample)) is not None]
    return min(found, key=lambda one: _MOST_TELLING.index(one[0]), default=(Cause.UNKNOWN, ""))


_MOST_TELLING = (
    Cause.TARGET_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.NO_LEADER,
    Cause.THROTTLED,
    Cause.UNKNOWN,
)


def _of_sample(sample: Sample) -> tuple[Cause, str] | None:
    down = [broker for broker in sample.missing if broker in sample.down]
    if down:
        return Cause.TARGET_DOWN, f"broker {down[0]} was down"
    offline = [broker for broker in sample.missing if broker in sample.offline]
    if offline:
        return Cause.LOG_DIR_OFFLINE, f"a log dir of broker {offline[0]} was offline"
    if sample.described and sample.leader is None:
        return Cause.NO_LEADER, "there was no leader to copy from"
    return _throttled(sample)


def _throttled(sample: Sample) -> tuple[Cause, str] | None:
    """Name a throttle under which one fetch takes longer than it takes to be called stalled."""
    for rates in sample.rates:
        rate = rates.follower if rates.broker in sample.missing else None
        if rate is None and rates.broker == sample.leader:
            rate = rates.leader
        if rate is not None and rate * STALLED_AFTER_S < FETCH_BYTES:
            return Cause.THROTTLED, f"the throttle of broker {rates.broker} was {rate:,} B/s"
    return None
