"""Advice never goes beyond the recordings, and always gains something over the run."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.pacing.limits import Limits
from ktui.pipeline.what_if.advice import advise
from ktui.pipeline.what_if.play import GridCell, SimulatedCell

TIMES = st.integers(1, 40).map(lambda n: 10.0 * n)
CELLS = st.builds(
    SimulatedCell,
    cell=st.builds(GridCell, st.builds(Limits, partitions=st.integers(1, 50))),
    own=st.just(False),  # noqa: FBT003 - Hypothesis' own signature
    predicted_s=TIMES,
    low_s=TIMES,
    high_s=TIMES,
    partitions_at_once=st.integers(1, 3),
    peak_extra_replicas=st.integers(0, 3),
    batches=st.just(1),
    broker_bytes_s=st.sampled_from([1e6, 1.01e6, 2e6]),
    actual_s=st.none(),
    beyond=st.lists(st.sampled_from(["more", "faster"]), max_size=1).map(tuple),
)


@given(
    cells=st.lists(CELLS, min_size=1, max_size=6),
    took_s=st.none() | TIMES,
    window_s=st.none() | TIMES,
)
def test_advised_limits_were_recorded_and_gain_time_or_have_less_at_once(
    cells: list[SimulatedCell], took_s: float | None, window_s: float | None
) -> None:
    own = cells[0] = msgspec.structs.replace(cells[0], own=True, actual_s=took_s)

    advice = advise(cells, window_s)

    assert advice.reason
    if own.beyond:
        assert advice.place is None
        assert advice.record is not None
    if advice.place is None:
        return
    chosen = cells[advice.place]
    less = (
        chosen.partitions_at_once < own.partitions_at_once
        or chosen.peak_extra_replicas < own.peak_extra_replicas
        or chosen.broker_bytes_s < own.broker_bytes_s
    )
    faster = chosen.predicted_s < own.predicted_s and chosen.predicted_s < (took_s or own.high_s)
    fits_alone = window_s is not None and chosen.high_s <= window_s < own.high_s
    assert not chosen.own
    assert not chosen.beyond
    assert less or faster or fits_alone
    assert window_s is None or chosen.high_s <= window_s
