"""The options that insights name ask `ktui start` for exactly the limits that they mean."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.insights.insights import limit_options, options_text
from ktui.pacing.limits import (
    InternalOrder,
    Limits,
    Mode,
    Order,
    Shape,
    default_limits,
    parse_limits,
)
from ktui.planning.throttle_rates import ThrottleRates, parse_throttle_rates

COUNTS = st.none() | st.integers(1, 10_000)
SIZES = st.none() | st.integers(1, 2**40)
OF_BOTH = st.sampled_from(Order).filter(lambda order: order is not Order.LONG_FIRST)
COMMON = {
    "replicas": COUNTS, "partitions": COUNTS, "leader_movements": COUNTS,
    "replica_movements": COUNTS, "per_broker": COUNTS, "per_leader": COUNTS,
    "cuts_per_minute": COUNTS, "bytes_in_flight": SIZES, "bytes_per_broker": SIZES,
    "mode": st.sampled_from(Mode), "order": st.sampled_from(Order),
}  # fmt: skip
LIMITS = st.builds(
    Limits,
    **COMMON,
    extra_replicas=COUNTS,
    cut_together=COUNTS,
    internal=st.sampled_from(InternalOrder),
) | st.builds(Limits, **{**COMMON, "order": OF_BOTH}, shape=st.just(Shape.KIP_435))
RATES = st.builds(ThrottleRates, st.none() | st.integers(1, 10**10))


@given(limits=LIMITS | st.just(default_limits()), throttle=RATES)
def test_the_options_typed_after_ktui_start_give_the_limits_and_the_throttle(
    limits: Limits, throttle: ThrottleRates
) -> None:
    words = options_text(limit_options(limits), throttle.typed).split()
    given_options = dict(zip(words[::2], words[1::2], strict=True))

    rates = parse_throttle_rates(given_options.pop("--throttle", "none"))

    assert rates == throttle
    assert parse_limits(given_options, default_limits(given_options)) == limits


def test_options_of_the_insights_file_survive_its_json() -> None:
    options = limit_options(Limits(partitions=4, bytes_per_broker=None))

    assert options["partitions"] == 4
    assert options["replicas"] is None
    assert msgspec.json.decode(msgspec.json.encode(options), type=dict) == options
