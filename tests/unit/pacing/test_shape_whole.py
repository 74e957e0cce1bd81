"""A partition in shape whole: one request for all of the target, as Kafka's own tool sends it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.limits import Limits
from ktui.pacing.situation import DONE, Blocked, BlockReason, Step
from ktui.pacing.steps import next_step
from support.runs.pacing import WHOLE, Brokers, numbers, on_the_way, roster_of, step, submit, way

RF3 = (0, 1, 2)


@pytest.mark.parametrize(
    "target",
    [(3, 4, 5), (0, 1, 3), (2, 1, 0), (0, 1, 2, 3), (2,), (4, 0)],
    ids=["all others", "one other", "another order", "one more", "fewer", "fewer, and another"],
)
def test_one_request_without_an_election_asks_for_the_target_in_its_order(target: Brokers) -> None:
    assert way(RF3, target, WHOLE) == [(target, None)]


def test_the_step_names_what_it_adds_and_drops_and_whether_the_leader_goes() -> None:
    leader_goes = step(next_step(on_the_way(RF3, (3, 1, 4)), WHOLE))
    leader_stays = step(next_step(on_the_way(RF3, (3, 0, 4)), WHOLE))

    assert leader_goes == Step(
        target=(3, 1, 4), adds=(3, 4), drops=(0, 2), alters=True, moves_leader=True
    )
    assert leader_stays == Step(target=(3, 0, 4), adds=(3, 4), drops=(1, 2), alters=True)


def test_a_partition_below_min_isr_is_moved_like_any_other() -> None:
    now = on_the_way(RF3, (3, 4, 5), isr=(0,), min_isr=3)

    assert step(next_step(now, WHOLE)).target == (3, 4, 5)
    assert not step(next_step(now, WHOLE)).urgent


def test_replicas_out_of_sync_are_dropped_down_to_one_that_lags() -> None:
    now = on_the_way(RF3, (2,), isr=(0, 1), min_isr=2)

    assert step(next_step(now, WHOLE)).target == (2,)


def test_a_kept_replica_whose_broker_is_down_does_not_hold_the_step_back() -> None:
    now = on_the_way(RF3, (0, 2, 3), isr=(0, 1), offline=(2,))

    assert step(next_step(now, WHOLE)).target == (0, 2, 3)


def test_a_partition_waits_for_the_brokers_of_its_added_replicas() -> None:
    now = on_the_way(RF3, (3, 4, 5), offline=(3, 5, 2))

    assert next_step(now, WHOLE) == Blocked(BlockReason.TARGET_OFFLINE, (3, 5))


def test_a_partition_that_somebody_reassigns_waits() -> None:
    now = replace(on_the_way(RF3, (3, 4, 5)), reassigning=True)

    assert next_step(now, WHOLE) == Blocked(BlockReason.REASSIGNING)


def test_a_partition_at_its_target_is_done_whoever_leads_it() -> None:
    assert next_step(on_the_way(RF3, RF3, leader=2), WHOLE) == DONE
    assert next_step(on_the_way(RF3, RF3, leader=None), WHOLE) == DONE


def test_a_rollback_elects_the_leader_that_the_partition_had() -> None:
    back = replace(on_the_way((3, 4, 5), RF3), lead=1)
    at_its_replicas = replace(on_the_way(RF3, RF3, leader=0), lead=1)

    assert step(next_step(back, WHOLE)).elects == 1
    assert step(next_step(at_its_replicas, WHOLE)).elects == 1


def test_without_limits_all_partitions_are_submitted_together() -> None:
    ways = [(RF3, (3, 4, 5)), (RF3, (2, 1, 0)), ((0, 1), (2, 3))]

    assert numbers(submit(roster_of(WHOLE, *ways))) == [0, 1, 2]
    assert numbers(submit(roster_of(replace(WHOLE, partitions=2), *ways))) == [0, 1]


@pytest.mark.parametrize("more", [{"replicas": 1}, {"replicas": 2}, {"replica_movements": 1}])
def test_limits_on_replicas_do_not_cut_the_step(more: dict[str, int]) -> None:
    limits: Limits = replace(WHOLE, **more)

    assert way(RF3, (3, 4, 5), limits) == [((3, 4, 5), None)]
