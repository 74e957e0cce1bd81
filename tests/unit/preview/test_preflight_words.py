"""The text of a preflight: what is known of a plan before it is sent, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.insights.prior import Prior, RateCurve, Spread
from ktui.pacing.limits import Limits, Mode
from ktui.preview.text import lines
from ktui.speed.capacity import Capacity
from support.cli.preflights import GB, Way, a_plan, a_snapshot, preflight

ONE: Way = ((1, 2, 3), (4, 2, 3))
OTHER: Way = ((1, 2, 3), (5, 2, 3))
START = Limits(replicas=1, partitions=6)
ROOMS = {1: (100 * GB, 50 * GB), 4: (100 * GB, 40 * GB)}


def printed(*ways: Way, limits: Limits = START, known: Capacity | None = None, **more: Any) -> str:
    return "\n".join(lines(preflight(a_plan(*ways), a_snapshot(*ways, **more), limits, known)))


def test_a_preflight_fits_a_narrow_terminal_in_blocks() -> None:
    text = printed(ONE, ((1, 2, 3), (1, 2, 3)), rooms=ROOMS)

    assert text.splitlines() == [
        "partitions in the plan         2",
        "already at their target        1",
        "replica movements              1",
        "leader movements               1",
        "to be copied             954 MiB",
        "batches, about                 2",
        "",
        "BROKER  GAINS  LOSES       IN      OUT  ROOM NOW   AFTER  AT PEAK",
        "     1      0      1      0 B  954 MiB    47 GiB  47 GiB   47 GiB",
        "     4      1      0  954 MiB      0 B    37 GiB  36 GiB   36 GiB",
        "",
        "                        gentle, in force  kip-435",
        "alters                  2                 2",
        "elections               0                 1",
        "leader epoch bumps      1                 2",
        "extra replicas at peak  1                 1",
        "most of one partition   4                 4",
        "until they are dropped, monitors see the extra replicas as a higher factor",
        "",
        "time  about 21 s (11 to 51), assumed; broker 4 receives the most",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_with_nothing_to_do_has_no_time() -> None:
    assert printed(((1, 2, 3), (1, 2, 3))).splitlines()[-1] == "leader movements         0"


def test_a_disk_that_lacks_room_is_shown_with_a_negative_figure() -> None:
    assert "     4      1      0  7.5 GiB      0 B   1.9 GiB  -5.6 GiB  -5.6 GiB" in printed(
        ONE, sizes=[8 * GB], rooms={4: (100 * GB, 2 * GB)}
    )


def test_unknown_figures_are_a_dash_with_the_reason() -> None:
    text = printed(ONE, OTHER, sizes=[None, GB])

    assert "to be copied             -" in text
    assert "     4      1      0        -    -         -      -        -" in text
    assert text.splitlines()[-1] == "time  unknown: the size of 1 partition is not known"


def test_the_time_says_whether_it_is_assumed_given_or_by_earlier_runs() -> None:
    curve = RateCurve(most_bytes_s=60e6, half_at=0.5, most_at_once=8, unthrottled_runs=3)
    earlier = Prior(Spread(1e6, 2e6, 3e6, 9), 1.0, curve, runs=3)

    given, learnt = Capacity(given=80e6), Capacity(earlier)

    assert "time  about 21 s (11 to 51), assumed; broker 4" in printed(ONE)
    assert "time  about 14 s, at 80 MB/s, as given; broker 4" in printed(ONE, known=given)
    assert "time  about 27 s (22 to 33), by 3 earlier runs; broker 4" in printed(ONE, known=learnt)


def test_a_throttle_that_the_time_counts_with_is_shown() -> None:
    configs = {b: BrokerConfig(follower_throttle_rate=r) for b, r in ((4, 5 * 10**6), (5, 10**8))}

    own = printed(ONE, OTHER, broker_configs=configs).splitlines()[-1]
    lower = printed(ONE, OTHER, known=Capacity(given=80e6), broker_configs=configs).splitlines()[-1]

    assert own == "throttled already: 5.0 MB/s into broker 4, 100 MB/s into broker 5"
    assert "throttled" not in lower


def test_both_shapes_are_one_column_when_all_replicas_are_added_at_once() -> None:
    text = printed(ONE, limits=Limits(partitions=6))

    assert "\n                        all at once\nalters                  1\n" in text


def test_batches_of_waves_are_called_waves() -> None:
    waves = msgspec.structs.replace(START, partitions=1, mode=Mode.WAVE)

    assert "\nwaves                          2\n" in printed(ONE, OTHER, limits=waves)
