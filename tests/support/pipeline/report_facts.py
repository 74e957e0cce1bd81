"""A made-up run for a report, and insights about a made-up cluster, with one of everything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from ktui.insights import (
    ClusterInsights,
    EtaError,
    Insights,
    PairRate,
    Prior,
    RateCurve,
    RunAdvice,
    SizeRate,
    Spread,
    StallCause,
)
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.pipeline.lake.records import (
    BROKER,
    LIMITS,
    PAUSE,
    THROTTLE,
    ForecastRecord,
    InFlightCounts,
    InflowRecord,
    Interval,
    JudgedStall,
    LimitsSince,
    LogEndRecord,
    Mark,
    MoveRecord,
    RateRecord,
    ReportFacts,
    RunRecord,
    Sample,
    ThrottleRecord,
    WhatIf,
)
from ktui.pipeline.report.figures.figure import Figure, Missing
from ktui.pipeline.report.lake import Provenance, UnusableLine
from ktui.progress.timeline import Cause

R = TypeVar("R", bound=msgspec.Struct)

BEGAN = int(datetime(2026, 5, 4, 13, 0, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000
STALLED = 7
"""The partition that stalls for a while."""


def a_run(partitions: int = 24, topic: str = "orders") -> ReportFacts:
    """Return the lake's facts about a run of `partitions` partitions, four of them at a time."""
    ended = BEGAN + (partitions // 4 + 3) * 2 * MINUTE
    run = RunRecord(
        cluster_id="cluster-one", run="drain-4", run_id="drain-4@2026-05-04", began=BEGAN,
        ended=ended, partitions=partitions, plan="plan.json", version="0.1.0",
        batches=partitions // 4, limit_changes=1, objective="p99<150ms", windows=60, kept=57,
        by=ended + 3 * MINUTE, late_ms=-3 * MINUTE, rate_changes=12,
    )  # fmt: skip
    moves = tuple(_move(topic, number) for number in range(partitions))
    return ReportFacts(
        cluster_id="cluster-one",
        runs=(run,),
        of_run=True,
        moves=moves,
        intervals=tuple(i for move in moves for i in _intervals(move)),
        gaps=((BEGAN + 6 * MINUTE, BEGAN + 7 * MINUTE),),
        marks=tuple(_marks()),
        inflow=tuple(_inflow(ended)),
        in_flight=tuple(InFlightCounts(t, 4, 8) for t in _polled(ended)),
        limits=(LimitsSince(BEGAN, 4, 10), LimitsSince(BEGAN + 5 * MINUTE, 6, 12)),
        rates=tuple(_rates(ended)),
        slowest=tuple(s for move in sorted(moves, key=_took)[:8] for s in _samples(move)),
        stalls=tuple(
            JudgedStall(interval, Cause.TARGET_DOWN, "broker 4 was down")
            for move in moves
            for interval in _intervals(move)
            if interval.state == "stalled"
        ),
        guesses=tuple(_guesses(ended)),
        what_ifs=tuple(_what_ifs()),
    )


def twice(facts: ReportFacts, *, hours: int) -> ReportFacts:
    """Return facts of a run whose moves were made again some hours later, with nothing between."""
    later = hours * 60 * MINUTE
    run, end = facts.runs[0], facts.span[1]
    assert run.ended is not None
    return msgspec.structs.replace(
        facts,
        runs=(msgspec.structs.replace(run, ended=run.ended + later),),
        moves=(*facts.moves, *(_later(m, later, "began", "ended") for m in facts.moves)),
        intervals=(
            *facts.intervals,
            *(_later(i, later, "began", "ended") for i in facts.intervals),
        ),
        in_flight=(*facts.in_flight, *(_later(seen, later, "t") for seen in facts.in_flight)),
        slowest=(*facts.slowest, *(_later(sample, later, "t") for sample in facts.slowest)),
        inflow=(*facts.inflow, *(_later(one, later, "began") for one in facts.inflow)),
        gaps=((end, BEGAN + later),),
        idle=((end + MINUTE, BEGAN + later - MINUTE),),
    )


def _later(record: R, ms: int, *times: str) -> R:
    return msgspec.structs.replace(record, **{name: getattr(record, name) + ms for name in times})


def drawn(found: Figure | Missing) -> Figure:
    """Return a figure, which must not be missing."""
    assert isinstance(found, Figure)
    return found


def a_provenance(*lost: UnusableLine) -> Provenance:
    """Return the provenance of such a report."""
    return Provenance(
        made_at=datetime(2026, 5, 5, tzinfo=UTC),
        version="0.1.0",
        lake="/data/lake",
        segments=(SegmentRead("recordings/cluster-one/000000.jsonl.gz", 1000, 0, "ab" * 32),),
        lost=lost,
    )


def _move(topic: str, number: int) -> MoveRecord:
    began = BEGAN + (number // 4) * 2 * MINUTE
    stood = 2 * MINUTE if number == STALLED else 0
    return MoveRecord(
        topic=topic, partition=number, topic_id="id", run="drain-4", began=began,
        ended=began + 2 * MINUTE + number * 1000 + stood, outcome="done", steps=2,
        batch=number // 4, original=(1, 2, 3), target=(1, 2, 4), bytes=10**9 + number,
        rate_bytes_p50=8e6 + number, stalls=int(stood > 0), stalled_ms=stood,
    )  # fmt: skip


def _took(move: MoveRecord) -> int:
    assert move.ended is not None
    return move.began - move.ended


def _intervals(move: MoveRecord) -> Iterable[Interval]:
    assert move.ended is not None
    copied = move.began + 100_000
    parts = [("queued", BEGAN, move.began), ("adding", move.began, move.began + 5_000)]
    in_sync = max(copied + (move.stalled_ms or 0), move.ended - 27_000)
    if move.stalls:
        parts.append(("catching up", move.began + 5_000, copied))
        parts.append(("stalled", copied, in_sync))
    else:
        parts.append(("catching up", move.began + 5_000, in_sync))
    parts.append(("in sync", in_sync, move.ended - 2_000))
    parts.append(("electing", move.ended - 2_000, move.ended))
    for state, began, ended in parts:
        yield Interval(
            topic=move.topic, partition=move.partition, topic_id="id", state=state, began=began,
            ended=ended,
        )  # fmt: skip


def _samples(move: MoveRecord) -> Iterable[Sample]:
    assert move.ended is not None
    for t in range(move.began, move.ended, 2_000):
        stood = bool(move.stalls) and t >= move.began + 100_000
        share = min(1.0, (t - move.began) / (move.ended - move.began))
        yield Sample(
            topic=move.topic, partition=move.partition, topic_id="id", t=t, leader=1,
            isr=(1, 2, 3), adding=(4,), down=(4,) if stood else (),
            ends=(LogEndRecord(1, 1_000_000), LogEndRecord(4, int(1_000_000 * share))),
            rates=(ThrottleRecord(4, 50_000_000, None),),
        )  # fmt: skip


def _polled(ended: int) -> Iterable[int]:
    """The times of the polls, with a minute in which none was recorded."""
    return (t for t in range(BEGAN, ended, 5_000) if not 360_000 < t - BEGAN < 420_000)


def _marks() -> Iterable[Mark]:
    at = BEGAN + 3 * MINUTE
    yield Mark(at, PAUSE, "paused by an operator", at + 30_000)
    yield Mark(at + 30_000, PAUSE, "continued: an operator")
    yield Mark(at + 40_000, BROKER, "broker 4 went down", at + 160_000)
    yield Mark(at + 2 * MINUTE, LIMITS, "limits: P 4 -> 6; from decision 3 on")
    yield Mark(at + 160_000, BROKER, "broker 4 was back")
    yield Mark(at + 3 * MINUTE, THROTTLE, "throttle: 50 MB/s -> 60 MB/s, at once")


def _inflow(ended: int) -> Iterable[InflowRecord]:
    for place, minute in enumerate(range(BEGAN, ended, MINUTE)):
        for broker in (4, 5, 6):
            yield InflowRecord(
                broker=broker, began=minute, bytes_in=60 * (30e6 + place * 1e6 * (broker - 3)),
                follower_throttle=50_000_000 if broker == 4 else None,
            )  # fmt: skip


def _rates(ended: int) -> Iterable[RateRecord]:
    """A run that begins slowly, is driven by its objective, has no figure for a while, and by."""
    yield RateRecord(
        entry=1, t=BEGAN, kind="started", bytes_s=1_000_000, chosen_by="objective",
        in_flight_ms=20_000, objective="p99<150ms",
    )  # fmt: skip
    for place, t in enumerate(range(BEGAN + 20_000, ended, 20_000), start=2):
        silent, by = 20 <= place < 24, place % 16 >= 12
        figure = None if silent else 90.0 + 20 * (place % 5) - (0 if place % 7 else -25)
        yield RateRecord(
            entry=place, t=t, kind="rate_held",
            bytes_s=1_000_000 if silent else 30_000_000 if by else (20 + place % 9) * 1_000_000,
            chosen_by="by" if by and not silent else "objective", in_flight_ms=20_000,
            figure=figure, reason="no answer for 8 s" if silent else None,
            objective="p99<150ms",
        )  # fmt: skip


def _guesses(ended: int) -> Iterable[ForecastRecord]:
    for t in range(BEGAN, ended, 5_000):
        truth = (ended - t) / 1000
        yield ForecastRecord(
            run_id="drain-4@2026-05-04", t=t, share=(t - BEGAN) / (ended - BEGAN),
            left_s=truth * 1.1, low_s=truth * 0.9, high_s=truth * 1.4, truth_s=truth,
            linear_s=truth * 1.6, recent_s=truth * 0.5,
        )  # fmt: skip


def _what_ifs() -> Iterable[WhatIf]:
    for partitions in (2, 4, 8, 16):
        for throttle, rate in (("none", 1e12), ("100MB", 100e6), ("50MB", 50e6), ("20MB", 20e6)):
            predicted = 7200 / partitions + 3e10 / rate
            yield WhatIf(
                run_id="drain-4@2026-05-04", limits=f'{{"partitions":{partitions}}}',
                throttle=throttle, predicted_s=predicted, low_s=predicted * 0.8,
                high_s=predicted * 1.3, error_held_out=0.12,
                own=(partitions, throttle) == (4, "50MB"),
                recommended=(partitions, throttle) == (8, "100MB"),
                actual_s=1080 if (partitions, throttle) == (4, "50MB") else None,
                reason="the gentlest that fits 30 minutes" if partitions == 8 else None,
                record="--partitions 32" if partitions == 8 else None,
                assumed=("30 MB/s into a broker without a throttle",) if throttle == "none" else (),
            )  # fmt: skip


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
                as_started_s=290.0,
                actual_s=300.0,
                held_out_error=-0.02,
                reason="the fewest at once of the 12 that fit 5m: 3m 26s (3m 22s to 4m 10s)",
            ),
        ),
    )


def insights(*cluster_ids: str) -> Insights:
    clusters = tuple(of_cluster(each) for each in cluster_ids or ("prod",))
    return Insights(made_at=AT, version="0.1.0", clusters=clusters)
