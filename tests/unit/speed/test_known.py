"""What earlier runs were like that makes them say less of the next one."""

from __future__ import annotations

import msgspec
import pytest

from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.speed.answer import Misfit
from ktui.speed.capacity import Case, misfits

MB = 10**6
GB = 10**9
FREE = Prior(
    replica_bytes_s=Spread(MB, MB, MB, 1),
    step_s=0.0,
    curve=RateCurve(most_bytes_s=80.0 * MB, half_at=1.0, most_at_once=3),
    runs=2,
    onto=(4, 5),
    largest=GB,
    brokers=5,
)
HELD = msgspec.structs.replace(
    FREE, throttle=20 * MB, curve=msgspec.structs.replace(FREE.curve, known_to=20.0 * MB)
)
BOTH = msgspec.structs.replace(FREE, throttle=20 * MB)
UNKNOWN = Prior(FREE.replica_bytes_s, 0.0, FREE.curve, 3)
"""Rates of insights of an earlier version, which do not say what the runs were like."""


@pytest.mark.parametrize(
    ("prior", "asked", "expected"),
    [
        (FREE, {}, ()),
        (FREE, {"throttle": 20 * MB}, (Misfit.THROTTLE,)),
        (HELD, {"throttle": 20 * MB}, ()),
        (HELD, {"throttle": 10 * MB}, ()),
        (HELD, {"throttle": 40 * MB}, (Misfit.THROTTLE,)),
        (HELD, {}, (Misfit.THROTTLE,)),
        (BOTH, {}, ()),
        (BOTH, {"throttle": 40 * MB}, ()),
        (FREE, {"onto": (4,)}, ()),
        (FREE, {"onto": (4, 6)}, (Misfit.BROKERS,)),
        (FREE, {"brokers": 5}, ()),
        (FREE, {"brokers": 3}, ()),
        (FREE, {"onto": (6,), "brokers": 6}, (Misfit.BROKERS, Misfit.GROWN)),
        (FREE, {"largest": 3 * GB}, ()),
        (FREE, {"largest": 10 * GB}, (Misfit.SIZES,)),
        (UNKNOWN, {"onto": (9,), "largest": 10 * GB, "brokers": 9, "throttle": MB}, ()),
    ],
)
def test_a_run_unlike_the_earlier_ones_is_told_by_what_differs(
    prior: Prior, asked: dict[str, int | tuple[int, ...]], expected: tuple[Misfit, ...]
) -> None:
    throttle, case = asked.pop("throttle", None), Case(**{"onto": (4, 5), **asked})  # type: ignore[arg-type]
    assert tuple(misfits(prior, case, lambda _broker: throttle)) == expected  # type: ignore[arg-type, return-value]
