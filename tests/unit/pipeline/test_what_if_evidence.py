"""Nothing is advised beyond the recorded evidence; the missing recordings are named instead."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.pipeline.what_if.model import (
    LEAST_RUNS,
    LEAST_STEPS,
    Evidence,
    HeldOutTests,
    InflowSample,
    RecordedStep,
    SimulatedUse,
    beyond_evidence,
    fit,
    missing_evidence,
    model_too_far_off,
    untested,
)
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates, parse_throttle_rates
from ktui.speed.shown import TELLING_S

MB = 1_000_000
SEEN = Evidence(
    runs=3,
    steps=24,
    broker_bytes_s=40.0 * MB,
    free=True,
    throttle=20 * MB,
    fewest_at_once=1,
    most_at_once=4,
    partitions=8,
)
USE = SimulatedUse(
    throttle=parse_throttle_rates("none"),
    broker_bytes_s=40.0 * MB,
    fewest_at_once=1,
    most_at_once=4,
    partitions=8,
)
FEW = st.integers(0, 6)
RATES = st.none() | st.integers(1, 100 * MB)


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    fewest = draw(FEW)
    return Evidence(
        runs=draw(FEW),
        steps=draw(st.integers(0, 30)),
        broker_bytes_s=draw(st.floats(0, 100.0 * MB)),
        free=draw(st.booleans()),
        throttle=draw(st.integers(0, 100 * MB)),
        fewest_at_once=fewest,
        most_at_once=fewest + draw(FEW),
        partitions=draw(FEW),
    )


@st.composite
def uses(draw: st.DrawFn) -> SimulatedUse:
    own = tuple(BrokerRate(n, draw(RATES)) for n in range(draw(st.integers(0, 2))))
    fewest = draw(FEW)
    return SimulatedUse(
        throttle=ThrottleRates(draw(RATES), own),
        broker_bytes_s=draw(st.floats(0, 100.0 * MB)),
        fewest_at_once=fewest,
        most_at_once=fewest + draw(FEW),
        partitions=draw(FEW),
    )


@given(use=uses(), seen=evidence())
def test_a_use_within_the_evidence_exceeds_nothing_recorded(
    use: SimulatedUse, seen: Evidence
) -> None:
    if list(beyond_evidence(use, seen)):
        return
    rates = [use.throttle.every, *(each.bytes_s for each in use.throttle.brokers)]
    most = max(seen.throttle, seen.broker_bytes_s)
    assert seen.free or None not in rates
    assert all(rate <= most * 1.001 for rate in rates if rate is not None)
    assert use.broker_bytes_s <= seen.broker_bytes_s * 1.001
    assert seen.fewest_at_once <= use.fewest_at_once <= use.most_at_once <= seen.most_at_once
    assert use.partitions <= seen.partitions


@given(use=uses(), seen=evidence(), more=evidence())
def test_more_evidence_never_excludes_a_use_that_was_within(
    use: SimulatedUse, seen: Evidence, more: Evidence
) -> None:
    both = Evidence(
        runs=seen.runs + more.runs,
        steps=seen.steps + more.steps,
        broker_bytes_s=max(seen.broker_bytes_s, more.broker_bytes_s),
        free=seen.free or more.free,
        throttle=max(seen.throttle, more.throttle),
        fewest_at_once=min(seen.fewest_at_once, more.fewest_at_once),
        most_at_once=max(seen.most_at_once, more.most_at_once),
        partitions=max(seen.partitions, more.partitions),
    )
    assert len(list(beyond_evidence(use, both))) <= len(list(beyond_evidence(use, seen)))
    assert len(list(missing_evidence(both))) <= len(list(missing_evidence(seen)))


def test_a_use_as_recorded_is_within_the_evidence() -> None:
    assert list(beyond_evidence(USE, SEEN)) == []
    assert list(missing_evidence(SEEN)) == []


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"throttle": parse_throttle_rates("1GB/s")}, "no throttle above 40 MB/s was recorded"),
        ({"broker_bytes_s": 50.0 * MB}, "50 MB/s into a broker, and 40 MB/s at most were recorded"),
        ({"most_at_once": 5}, "5 at once into a broker, and 4 at most were recorded"),
        ({"fewest_at_once": 0}, "0 at once into a broker, and 1 at least were recorded"),
        ({"partitions": 9}, "9 partitions at once, and 8 at most were recorded"),
    ],
)
def test_a_use_beyond_the_evidence_is_named_with_the_recorded_bound(
    more: dict[str, object], sentence: str
) -> None:
    assert list(beyond_evidence(msgspec.structs.replace(USE, **more), SEEN)) == [sentence]


def test_a_throttle_fifty_times_the_recorded_one_is_beyond_the_evidence() -> None:
    """Every recorded copy was limited by it, so the unthrottled rate is unknown."""
    step = RecordedStep("run", adds=True, took_s=30.0, copying_s=28.0)
    model = fit([InflowSample("run", 1, 2, 60.0, 60.0 * 2 * MB, 2 * MB)], [step] * 12, 2)
    assert model is not None
    assert model.curve.known_to == 2 * MB
    use = msgspec.structs.replace(USE, fewest_at_once=2, most_at_once=2, partitions=2)
    for throttle in ("100MB/s", "none"):
        faster = msgspec.structs.replace(
            use,
            throttle=parse_throttle_rates(throttle),
            broker_bytes_s=model.curve.bytes_s(2, None),
        )
        assert "67 MB/s into a broker, and 2.0 MB/s at most were recorded" in list(
            beyond_evidence(faster, model.seen)
        )
    same = msgspec.structs.replace(
        use, throttle=parse_throttle_rates("2MB/s"), broker_bytes_s=model.curve.bytes_s(2, 2 * MB)
    )
    assert list(beyond_evidence(same, model.seen)) == []


def test_a_throttle_that_never_limited_copies_counts_as_none() -> None:
    """Kafka's largest rate stands for "no limit" on many clusters."""
    model = fit([InflowSample("run", 1, 2, 60.0, 60.0 * 20 * MB, 2**63 - 1)], [])
    assert model is not None
    assert model.seen.free
    assert model.seen.throttle == 0
    use = msgspec.structs.replace(
        USE, throttle=parse_throttle_rates("1GB/s"), broker_bytes_s=20.0 * MB, fewest_at_once=2,
        most_at_once=2, partitions=0,
    )  # fmt: skip
    assert list(beyond_evidence(use, model.seen)) == ["no throttle above 20 MB/s was recorded"]


def test_short_recordings_are_not_evidence() -> None:
    long, short = TELLING_S, TELLING_S / 4
    model = fit(
        [
            InflowSample("a", 1, 2, long, 1.0, None),
            *(InflowSample("b", n, 9, short, 1.0, None) for n in (1, 2)),
        ],
        [],
    )
    assert model is not None
    assert (model.seen.fewest_at_once, model.seen.most_at_once) == (2, 2)
    assert list(missing_evidence(model.seen)) == [
        f"{LEAST_STEPS} steps that copy have to be recorded, and there are 0"
    ]
    alone = msgspec.structs.replace(SEEN, runs=1)
    assert list(missing_evidence(alone)) == [
        f"{LEAST_RUNS} runs have to be recorded, and there is 1"
    ]


@pytest.mark.parametrize(
    ("error", "far"), [(None, 0), (0.5, 0), (-0.5, 0), (0.51, 1), (-0.6, 1), (float("nan"), 1)]
)
def test_a_model_far_off_for_a_run_gives_no_advice(error: float | None, far: int) -> None:
    assert len(list(model_too_far_off(error))) == far


def test_a_range_has_the_error_of_predictions_for_other_runs_in_it() -> None:
    slow, fast = HeldOutTests(runs=3, low=0.9, high=1.6), HeldOutTests(runs=3, low=0.5, high=1.0)
    assert slow.widened(100.0, 95.0, 110.0) == (90.0, 160.0)
    assert fast.widened(100.0, 40.0, 110.0) == (40.0, 110.0)


def test_a_model_that_no_run_has_tested_gives_no_advice() -> None:
    assert list(untested(HeldOutTests(runs=1))) == []
    (reason,) = untested(HeldOutTests())
    assert "record one that keeps its limits" in reason
