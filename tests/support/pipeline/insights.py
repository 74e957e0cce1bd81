"""Insights about a made-up cluster, with at least one of everything."""

from __future__ import annotations

from datetime import UTC, datetime

from ktui.insights.insights import (
    ClusterInsights,
    EtaError,
    Insights,
    PairRate,
    RunAdvice,
    SizeRate,
    StallCause,
)
from ktui.insights.prior import Prior, RateCurve, Spread

MB = 1_000_000
RATE = Spread(10.0 * MB, 40.0 * MB, 50.0 * MB, count=70)
CURVE = RateCurve(most_bytes_s=50.0 * MB, half_at=0.25, most_at_once=8, low=0.8, high=1.1)
AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def of_cluster(cluster_id: str = "prod") -> ClusterInsights:
    return ClusterInsights(
        cluster_id=cluster_id,
        runs=3,
        moves=72,
        began=AT,
        ended=AT,
        prior=Prior(RATE, step_s=2.0, curve=CURVE, runs=3),
        pairs=(PairRate(1, 7, RATE), PairRate(2, 8, RATE)),
        sizes=(SizeRate(0, 100 << 20, RATE), SizeRate(100 << 20, 1 << 30, RATE)),
        stalls=(StallCause("target broker down", 2, 190.0),),
        eta=(
            EtaError("run", 5, 120, 0.07, 0.09, 0.21, 1.0),
            EtaError("partition", 5, 300, 0.12, None, 0.14, 0.93),
        ),
        advice=(
            RunAdvice(
                run="drain-3",
                run_id="drain-3@2026-11-21T14:00:00Z",
                partitions=24,
                bytes=18_000 * MB,
                limits={"replicas": 1, "partitions": 4},
                throttle="50MB",
                predicted_s=206.0,
                low_s=202.0,
                high_s=250.0,
                actual_s=300.0,
                held_out_error=-0.02,
                reason="the fewest at once of the 12 that fit 5m: 3m 26s (3m 22s to 4m 10s)",
            ),
        ),
    )


def insights(*cluster_ids: str) -> Insights:
    clusters = tuple(of_cluster(each) for each in cluster_ids or ("prod",))
    return Insights(made_at=AT, version="0.1.0", clusters=clusters)
