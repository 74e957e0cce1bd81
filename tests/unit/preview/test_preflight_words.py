"""The text of a preflight: what is known of a plan before it is sent, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktui.cluster.broker import BrokerConfig
from ktui.pacing.limits import Limits, Mode
from ktui.preview.preflight import preflight
from ktui.preview.text import lines, time_in_words
from ktui.speed.answer import Span
from ktui.units import Rate
from support.cli.preflights import GB, Way, a_plan, a_snapshot

ONE: Way = ((1, 2, 3), (4, 2, 3))
OTHER: Way = ((1, 2, 3), (5, 2, 3))
START = Limits(replicas=1, partitions=6)
ROOMS = {1: (100 * GB, 50 * GB), 4: (100 * GB, 40 * GB)}


def printed(*ways: Way, limits: Limits = START, assume: Rate | None = None, **more: Any) -> str:
    return "\n".join(lines(preflight(a_plan(*ways), a_snapshot(*ways, **more), limits, assume)))


def test_a_preflight_fits_a_narrow_terminal_in_blocks() -> None:
    text = printed(ONE, ((1, 2, 3), (1, 2, 3)), rooms=ROOMS)

    assert text.splitlines() == [
        "partitions in the plan         2",
        "already at their target        1",
        "replica movements              1",
        "leader movements               1",
        "to be copied             954 MiB",
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
        "time  21 s (11 s-51 s), in about 2 batches",
        "      at least 20 s (10 s-50 s), as broker 4 gets 954 MiB",
        "      the run takes 5% longer than that",
        "      at 50 MB/s (20 MB/s to 100 MB/s) into each broker (assumed)",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_that_copies_next_to_nothing_is_not_compared_with_the_least_time() -> None:
    *_, time, rates = printed(ONE, sizes=[7_000]).splitlines()

    assert time.startswith("time  ")
    assert rates == "      at 50 MB/s (20 MB/s to 100 MB/s) into each broker (assumed)"


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
    assert text.splitlines()[-1] == (
        "time  unknown: the size of 1 partition is not known; at least 2 batches"
    )


@pytest.mark.parametrize(
    ("throttled", "assume", "sentence"),
    [
        ({}, 80e6, "80 MB/s into each broker, as given"),
        ({4: 5_000_000}, 80e6, "80 MB/s into each broker, as given"),
        (
            {4: 5_000_000, 5: 5_000_000},
            None,
            "5.0 MB/s into brokers 4 and 5, which are throttled",
        ),
        (
            {5: 8_000_000, 4: 5_000_000},
            None,
            (
                "5.0 MB/s into broker 4, which is throttled, "
                "8.0 MB/s into broker 5, which is throttled"
            ),
        ),
        (
            {4: 5_000_000},
            None,
            (
                "5.0 MB/s into broker 4, which is throttled, "
                "50 MB/s (20 MB/s to 100 MB/s) into each other broker (assumed)"
            ),
        ),
    ],
)
def test_the_time_is_shown_with_the_rate_it_is_based_on(
    throttled: dict[int, int], assume: float | None, sentence: str
) -> None:
    configs = {broker: BrokerConfig(follower_throttle_rate=r) for broker, r in throttled.items()}
    rate = None if assume is None else Rate(assume)

    text = printed(ONE, OTHER, assume=rate, broker_configs=configs)

    assert text.splitlines()[-1] == f"      at {sentence}"


def test_both_shapes_are_one_column_when_all_replicas_are_added_at_once() -> None:
    text = printed(ONE, limits=Limits(partitions=6))

    assert "\n                        all at once\nalters                  1\n" in text


def test_batches_of_waves_are_called_waves() -> None:
    waves = msgspec.structs.replace(START, partitions=1, mode=Mode.WAVE)

    assert "in about 2 waves" in printed(ONE, OTHER, limits=waves)


def test_a_time_without_a_range_is_printed_alone() -> None:
    assert time_in_words(Span(100.1, 100.2, 100.3)) == "1m 40s"
    assert time_in_words(Span(60, 120, 240)) == "2m (1m-4m)"
    assert time_in_words(None) == "unknown"
