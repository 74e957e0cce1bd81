"""Replicas that are nearly in sync come off their list: they join the ISR at full speed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ConfigOp
from ktui.execution.run.events import Configure, Planned
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.execution.throttle.desired import NearlyInSync
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress.timeline import Lane, Phase, Role, Slots, Timeline
from support.runs.throttled import ThrottledStory
from support.simulated.moving_clusters import tp

MB = 1_000_000
ORDERS = tp("orders-0")
NEW = Replica(ORDERS, 4)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_timeline(**lane: Any) -> dict[TopicPartition, Timeline]:
    return {
        ORDERS: Timeline(
            state=PartitionState(ORDERS, None, (1, 2, 3, 4), (1, 2, 3), 1),
            phase=Phase.MOVING,
            began_at=AT,
            began_s=0.0,
            ended_at=None,
            original=(1, 2, 3),
            original_ordered=True,
            target=(1, 2, 3, 4),
            lanes={4: Lane(**{"broker": 4, "role": Role.ADDING, **lane})},
            recent=Slots(5.0, 0.0, b"\x00"),
        )
    }


@pytest.fixture
def run() -> Run:
    """Return a run that copies orders-0 onto broker 4, under 10 MB/s."""
    planned = Planned(
        topic="orders", partition=0, topic_id=None, target=(4, 2, 3), original=(1, 2, 3), leader=1
    )
    run = Run("drain")
    run.throttled.set_rates(parse_throttle_rates("10MB"))
    run.tracks_in_flight[ORDERS] = Track(planned, 0, (1, 2, 3), (1, 2, 3))
    return run


@pytest.fixture
def near(run: Run) -> NearlyInSync:
    return NearlyInSync(run)


@pytest.mark.parametrize(
    ("lane", "is_near"),
    [
        ({"lag_bytes": 5 * MB, "share": 0.96}, True),
        ({"lag_bytes": 6 * MB, "share": 0.96}, False),
        ({"lag_bytes": 1 * MB, "share": 0.5}, False),
        ({"lag_bytes": None, "share": 0.99}, False),
        ({"lag_bytes": 1 * MB, "share": 0.99, "role": Role.IN_SYNC}, False),
    ],
)
def test_a_replica_is_near_if_its_lag_is_small_by_rate_and_by_share(
    near: NearlyInSync, lane: dict[str, Any], *, is_near: bool
) -> None:
    near.update(a_timeline(**lane))
    assert near.replicas == ({NEW} if is_near else set())


def test_a_near_replica_stays_near_until_it_has_fallen_far_back(near: NearlyInSync) -> None:
    near.update(a_timeline(lag_bytes=4 * MB, share=0.99))
    near.update(a_timeline(lag_bytes=19 * MB, share=0.9))
    assert near.replicas == {NEW}

    near.update(a_timeline(lag_bytes=21 * MB, share=0.9))
    assert near.replicas == set()


def test_no_replica_is_near_when_nothing_is_throttled(run: Run, near: NearlyInSync) -> None:
    run.throttled.set_rates(parse_throttle_rates("none"))
    near.update(a_timeline(lag_bytes=0, share=1.0))
    assert near.replicas == set()


def test_a_replica_comes_off_its_list_before_it_joins_the_isr(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path)
    joined: list[bool] = []

    def look(entries: Any) -> None:
        for entry in entries:
            event = entry.event
            if isinstance(event, Configure) and event.changes[0].op is ConfigOp.SUBTRACT:
                known = story.cluster.controller.get(ORDERS)
                assert known is not None
                joined.append(4 in known.isr)

    story.checks.append(look)
    story.to_the_end()

    assert joined == [False]
    story.assert_left_as_found()
