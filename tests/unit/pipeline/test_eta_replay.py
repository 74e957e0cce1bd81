"""Forecasts of the live view, recomputed from a recording."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec
import pytest
from bench.forecast.settling import Settled, Settling

from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.replay import (
    EVERY_MS,
    PARTITION,
    RUN,
    DecodedPoll,
    EtaReplay,
    Forecast,
    session_events,
)
from ktui.recording.lines import RunLine
from support.recordings.drained_recordings import MB, drained

SIZES = [300 * MB, 500 * MB, 400 * MB, 600 * MB, 200 * MB, 800 * MB]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("recorded")
    drained(folder, sizes=SIZES, limits=Limits(replicas=1, partitions=2))
    return [path.read_bytes() for path in sorted(folder.rglob("*.gz"))]


@pytest.fixture(scope="module")
def forecasts(segments: list[bytes]) -> list[Settled]:
    return settled(session_events(segments, "simulated"))


def settled(events: Iterable[DecodedPoll | RunLine]) -> list[Settled]:
    return list(Settling().settle(EtaReplay().replay(events)))


def of(scope: str, forecasts: list[Settled]) -> list[Forecast]:
    return [each.forecast for each in forecasts if each.forecast.scope == scope]


def test_a_run_is_forecast_from_its_first_seconds_to_its_end(forecasts: list[Settled]) -> None:
    run = of(RUN, forecasts)
    assert {each.run_id for each in run} == {"run@1"}
    shares = [each.share for each in run if each.share is not None]
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] > 0.9
    assert sum(each.predicted is not None for each in run) > len(run) / 2


def test_each_run_and_partition_has_at_most_one_forecast_in_five_seconds(
    forecasts: list[Settled],
) -> None:
    places = [(e.scope, e.topic, e.partition, e.t // EVERY_MS) for e, _ in forecasts]
    assert len(places) == len(set(places))


def test_a_partition_is_forecast_until_it_is_in_sync(forecasts: list[Settled]) -> None:
    partitions = of(PARTITION, forecasts)
    assert {each.topic for each in partitions} == {f"t{n}" for n in range(len(SIZES))}
    assert {each.run_id for each in partitions} == {"run@1"}
    off = []
    for each, truth_s in forecasts:
        if each.scope == PARTITION:
            assert truth_s is not None
            assert truth_s >= 0
            if each.predicted is not None and (each.share or 0) > 0.5:
                off.append(abs(each.predicted.middle - truth_s))
    off.sort()
    assert off[len(off) // 2] < 3.0


def test_the_naive_forecasts_are_based_on_the_share_done(forecasts: list[Settled]) -> None:
    run = of(RUN, forecasts)
    began = run[0].t - 1_000
    for each in run[4:]:
        if each.share and each.linear_s is not None:
            passed = (each.t - began) / 1000
            assert each.linear_s == pytest.approx(passed * (1 / each.share - 1), rel=0.1, abs=2)
    first = [each.t - run[0].t for each in run if each.recent_s is not None]
    assert min(first) >= 10_000


def test_only_partitions_that_ended_have_forecasts(segments: list[bytes]) -> None:
    events = list(session_events(segments, "simulated"))
    half = events[: len(events) // 2]
    forecasts = settled(half)
    ended = {(each.topic, each.partition) for each in of(PARTITION, forecasts)}
    assert 0 < len(ended) < len(SIZES)


def test_segments_in_any_order_and_duplicated_give_the_same_forecasts(
    segments: list[bytes], forecasts: list[Settled]
) -> None:
    again = settled(session_events([*segments, *segments[::-1]], "simulated"))
    assert again == forecasts


def test_an_event_of_a_newer_ktui_ends_the_forecasts_of_its_run(segments: list[bytes]) -> None:
    events = []
    for each in session_events(segments, "simulated"):
        strange = isinstance(each, RunLine) and each.entry == 3
        raw = msgspec.Raw(b'{"event": "of a newer ktui"}')
        events.append(msgspec.structs.replace(each, event=raw) if strange else each)
    forecasts = settled(events)
    assert not of(RUN, forecasts)
    assert of(PARTITION, forecasts)


def test_a_run_leaves_the_state_ten_minutes_after_its_end_and_comes_back_with_its_events(
    segments: list[bytes],
) -> None:
    events = list(session_events(segments, "simulated"))
    polls = [each for each in events if isinstance(each, DecodedPoll)]
    replay = EtaReplay()
    list(replay.replay(events))

    list(replay.replay([later(polls[-1], minutes=9)]))
    assert replay.run("run@1").ended

    list(replay.replay([later(polls[-1], minutes=11)]))
    assert not replay.state.runs

    taken_again = [each for each in events if isinstance(each, RunLine)]
    list(replay.replay(taken_again))
    assert replay.run("run@1").ended


def later(poll: DecodedPoll, minutes: int) -> DecodedPoll:
    """Return a poll that shows the same so many minutes later."""
    seen = poll.observation
    seen = msgspec.structs.replace(
        seen, at=seen.at + timedelta(minutes=minutes), monotonic_s=seen.monotonic_s + 60 * minutes
    )
    return DecodedPoll(poll.seq + minutes, poll.t + 60_000 * minutes, seen)
