"""Insights computed from a few rows made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.forecast import insights
from ktui.pipeline.forecast.insights import eta_errors
from ktui.pipeline.tables.moves import stalls_with_cause

_STATES = (
    "cluster_id string, topic string, topic_id string, partition int, listing long, "
    "listing_t long, state string, began_t long, ended_t long"
)
_SAMPLES = (
    "cluster_id string, topic string, topic_id string, partition int, t long, adding array<int>, "
    "isr array<int>, leader int, down array<int>, "
    "rates array<struct<broker: int, follower: long, leader: long>>, replicas array<int>, "
    "removing array<int>, offline array<int>, described boolean, "
    "ends array<struct<broker: int, end: long, read_t: long>>, shadowed boolean"
)


def stalled(partition: int, seconds: int, state: str = "stalled") -> tuple[Any, ...]:
    return ("a", "orders", None, partition, 1, 0, state, 1_000, 1_000 + seconds * 1000)


def seen(partition: int, t: int = 1_000, *, shadowed: bool = False, **how: Any) -> tuple[Any, ...]:
    sample = {
        "adding": [4, 5], "isr": [1, 2, 5], "leader": 1, "down": [], "rates": [],
        "replicas": [4, 5, 1, 2, 3], "removing": [3], "offline": [], "described": True, "ends": [],
        **how,
    }  # fmt: skip
    return ("a", "orders", None, partition, t, *sample.values(), shadowed)


def test_a_stall_is_attributed_to_the_strongest_cause_in_its_first_minute(
    spark: SparkSession,
) -> None:
    limited, behind = [(4, 30_000, None)], [(1, 100, 0), (4, 70, 0)]
    states = [
        *(stalled(n, 10 * (n + 1)) for n in range(5)),
        stalled(5, 400),
        stalled(6, 90, "in sync"),
        stalled(7, 800),
        stalled(8, 30, "in sync"),
        stalled(9, 60, "catching up"),
    ]
    samples = [
        seen(0, down=[4], rates=limited, leader=None),
        seen(1, leader=None, rates=limited),
        seen(2, rates=limited),
        seen(3, down=[5], rates=[(5, 30_000, None)]),
        seen(4, down=[1]),
        seen(4, down=[4], shadowed=True),
        seen(1, t=20_999),
        seen(2, t=31_000, down=[4]),
        seen(5, ends=behind),
        seen(5, t=60_999, rates=limited, ends=behind),
        seen(5, t=61_000, down=[4]),
        seen(6, t=2_000, isr=[1, 4, 5]),
        seen(6, t=61_000, isr=[1, 2, 5], down=[4]),
        seen(7, ends=behind),
        seen(8, t=30_000, isr=[1, 4, 5]),
        seen(9, down=[4]),
    ]
    stalls_seen = stalls_with_cause(
        spark.createDataFrame(states, _STATES), spark.createDataFrame(samples, _SAMPLES)
    )
    found = insights._stalls(stalls_seen).collect()
    assert {(row.cause, row["count"], row.seconds) for row in found} == {
        ("target broker down", 1, 10.0),
        ("no leader", 1, 20.0),
        ("throttled", 2, 430.0),
        ("kept replica out of ISR", 1, 90.0),
        ("follower not fetching", 1, 800.0),
        ("unknown", 2, 90.0),
    }


def forecast_at(share: float, truth_s: float, *forecasts: float | None) -> dict[str, Any]:
    left_s, linear_s, recent_s = forecasts
    return {
        "cluster_id": "a",
        "session": "s",
        "scope": "run",
        "run_id": "r",
        "share": share,
        "truth_s": truth_s,
        "left_s": left_s,
        "linear_s": linear_s,
        "recent_s": recent_s,
    }


def test_forecasts_are_compared_only_at_moments_where_all_of_them_exist(
    spark: SparkSession,
) -> None:
    columns = "cluster_id string, session string, scope string, run_id string"
    columns += ", share double, truth_s double, left_s double, linear_s double, recent_s double"
    rows = [
        forecast_at(0.51, 100.0, 110.0, 150.0, 50.0),
        forecast_at(0.55, 100.0, 90.0, 130.0, 150.0),
        forecast_at(0.59, 100.0, 130.0, 100.0, 100.0),
        forecast_at(0.52, 100.0, None, 500.0, 500.0),
        forecast_at(0.53, 100.0, 900.0, 100.0, None),
        forecast_at(0.54, 4.0, 400.0, 4.0, 4.0),
        forecast_at(1.0, 10.0, 10.0, 20.0, None),
    ]
    compared = spark.createDataFrame([tuple(r.values()) for r in rows], columns)
    found = insights._eta(eta_errors(compared)).collect()
    half, end = sorted(map(insights._eta_error, found), key=lambda error: error.decile)
    assert (half.decile, half.moments, half.told) == (5, 3, 0.8)
    assert (half.ktui, half.linear, half.recent) == pytest.approx((0.1, 0.3, 0.5), rel=0.01)
    assert (end.decile, end.moments, end.ktui, end.told) == (9, 0, None, 1.0)
