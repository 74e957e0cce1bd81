"""The machines of a twin copy at the rates that forecasts have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.planning.throttle_rates import ThrottleRates
from ktui.rehearsal.twin import Pace, twin_of
from ktui.simulated.clock import FIRST_MOMENT
from ktui.simulated.data.logs import EVERYWHERE, NOWHERE
from ktui.simulated.layout import ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import SnapshotInfo
from ktui.simulated.twin.brokers import BrokerLoads, broker_spec, rates_of
from ktui.speed.capacity import Capacity
from support.simulated.witness import DataPlane, data_plane

BROKERS = range(6)
pairs = st.tuples(st.sampled_from(BROKERS), st.sampled_from(BROKERS)).filter(lambda p: p[0] != p[1])
priors = st.none() | st.builds(
    lambda most, half_at, share: Prior(
        Spread(1.0, 1.0, 1.0, 1),
        1.0,
        RateCurve(most_bytes_s=most, half_at=half_at, most_at_once=4, throttled=share),
        1,
    ),
    st.floats(1e6, 1e9),
    st.floats(0.1, 20),
    st.sampled_from((0.5, 0.6, 0.9)),
)


@given(
    copies=st.lists(pairs, min_size=1, max_size=12),
    prior=priors,
    throttle=st.sampled_from((None, 3_000_000)),
)
def test_the_machines_of_a_twin_copy_as_fast_as_forecasts_expect(
    copies: list[tuple[int, int]], prior: Prior | None, throttle: int | None
) -> None:
    forecast = Capacity(prior).under(ThrottleRates(throttle))
    load = forecast.load(copies)
    plane = _twin(prior, [leader for leader, _ in copies])
    tps = [TopicPartition("t", number) for number in range(len(copies))]
    if throttle is not None:
        plane.replication.set_throttled_replicas("t", followers=EVERYWHERE, leaders=NOWHERE)
        for broker in BROKERS:
            plane.replication.set_throttle_rates(broker, follower=throttle, leader=None)
    for tp, (_, broker) in zip(tps, copies, strict=True):
        plane.add(tp, broker)

    for tp, pair in zip(tps, copies, strict=True):
        expected = forecast.of_copy(pair, load)
        assert plane.replication.rate(tp, pair[1]) == pytest.approx(expected, rel=0.01)


def _twin(prior: Prior | None, leaders: list[int]) -> DataPlane:
    """Return the usual twin of a cluster of which this is known, at rest."""
    rates = rates_of(prior)
    loads = BrokerLoads({}, {}, {})
    brokers = tuple(
        broker_spec(b, rack=None, log_dirs=None, configs={}, loads=loads, rates=rates)
        for b in BROKERS
    )
    topic = TopicSpec(name="t", replicas=tuple((b,) for b in leaders), bytes_each=10**12)
    info = SnapshotInfo(cluster="prod", taken=FIRST_MOMENT, rates=rates)
    spec = twin_of("prod", ClusterSpec(brokers=brokers), info).cluster(Pace.USUAL)
    return data_plane(topic, brokers=spec.brokers)
