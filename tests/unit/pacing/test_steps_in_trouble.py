"""A partition's next step, or why there is none, when brokers are down or lag."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, BlockReason, Situation
from ktui.pacing.steps import next_step
from support.runs.pacing import gentle, kip_435, on_the_way, step

BOTH = pytest.mark.parametrize("limits", [kip_435(), gentle()])
ALL = pytest.mark.parametrize("limits", [kip_435(), gentle(), kip_435(None)])


def refusal(now: Situation, limits: Limits) -> tuple[BlockReason, tuple[int, ...]]:
    given = next_step(now, limits)
    assert isinstance(given, Blocked), given
    return given.why, given.brokers


@BOTH
def test_a_partition_below_min_isr_adds_all_lacking_replicas_at_once(
    limits: Limits,
) -> None:
    now = on_the_way((0, 1, 2, 3), (4, 5, 6, 7), isr=(0,), min_isr=3)

    given = step(next_step(now, limits))

    assert (given.adds, given.drops, given.urgent) == ((4, 5), (), True)


def test_kip_435_below_min_isr_elects_the_new_leader_if_it_is_added() -> None:
    now = on_the_way((0, 1, 2), (3, 4, 5), isr=(0,), min_isr=2)

    assert step(next_step(now, kip_435(2))).target == (3, 4, 0, 1, 2)
    assert step(next_step(now, kip_435(2))).elects == 3
    assert step(next_step(now, gentle(2))).target == (0, 1, 2, 3, 4)
    assert step(next_step(now, gentle(2))).elects is None


def test_a_limit_on_extra_replicas_does_not_keep_a_partition_below_min_isr() -> None:
    now = on_the_way((0, 1, 2), (3, 4, 5), isr=(0,), min_isr=3)

    assert step(next_step(now, gentle(extra=1))).adds == (3, 4)


def test_min_isr_never_exceeds_the_replicas_the_plan_leaves() -> None:
    now = on_the_way((0, 1, 2), (0,), min_isr=2)

    assert step(next_step(now, kip_435(2))).target == (0,)


@ALL
def test_the_first_step_drops_a_dead_brokers_replica_beyond_the_limit(
    limits: Limits,
) -> None:
    now = on_the_way((0, 1, 2), (3, 0, 4), isr=(0, 1), offline=(2,), before_4_3=True)

    assert 2 in step(next_step(now, limits)).drops


def test_only_the_dead_brokers_replica_is_dropped_where_there_is_one_too_many() -> None:
    now = on_the_way((0, 1, 2), (0, 1), isr=(0, 1), offline=(2,))

    assert step(next_step(now, kip_435())).target == (0, 1)
    assert step(next_step(now, gentle())).target == (0, 1)


@BOTH
def test_a_dead_brokers_replica_stays_while_nothing_can_replace_it(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 1), offline=(2, 3))

    assert refusal(now, limits) == (BlockReason.TARGET_OFFLINE, (3,))


@ALL
def test_before_4_3_a_kept_replica_that_is_offline_blocks(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 2), offline=(1,), before_4_3=True)

    assert refusal(now, limits) == (BlockReason.KEPT_OFFLINE, (1,))


@ALL
def test_from_4_3_a_step_that_adds_proceeds_with_a_kept_replica_offline(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (0, 1, 3), isr=(0, 2), offline=(1,))

    assert step(next_step(now, limits)).adds == (3,)


def test_from_4_3_a_step_that_drops_more_than_it_adds_waits_for_every_kept_replica() -> None:
    now = on_the_way((0, 1, 2, 3), (0, 1), isr=(0, 2, 3), offline=(1,))

    assert refusal(now, kip_435()) == (BlockReason.KEPT_OFFLINE, (1,))


def test_from_4_3_dead_replicas_stay_where_dropping_them_would_make_the_step_wait() -> None:
    now = on_the_way((0, 1, 2, 3), (0, 1, 4), isr=(0,), offline=(1, 2, 3))

    given = step(next_step(now, gentle()))

    assert (given.target, given.drops) == ((0, 1, 2, 3, 4), ())


def test_a_replica_that_min_isr_needs_is_passed_over_for_the_next() -> None:
    now = on_the_way((0, 3, 1, 2), (0, 3), isr=(0, 1), min_isr=2)

    assert step(next_step(now, kip_435())).drops == (2,)


def test_no_drop_leaves_fewer_in_sync_than_min_isr() -> None:
    now = on_the_way((0, 1, 2), (0, 1), isr=(0, 2), min_isr=2)

    assert refusal(now, kip_435()) == (BlockReason.BELOW_MIN_ISR, (2,))
    assert refusal(now, gentle()) == (BlockReason.TARGET_NOT_IN_SYNC, (1,))


@ALL
def test_the_leader_stays_while_its_successor_is_not_in_sync(limits: Limits) -> None:
    now = on_the_way((0, 1, 2), (1, 2), isr=(0, 2))

    assert refusal(now, limits)[1] == (1,)


def test_with_a_target_down_the_others_go_first_and_the_refusal_names_it() -> None:
    now = on_the_way((0, 1, 2), (3, 1, 4), offline=(3,))

    given = step(next_step(now, kip_435()))
    later = replace(now, replicas=given.target, isr=given.target)

    assert given.target == (0, 1, 4)
    assert refusal(later, kip_435()) == (BlockReason.TARGET_OFFLINE, (3,))


@ALL
def test_nothing_is_dropped_for_a_target_that_is_down(limits: Limits) -> None:
    assert refusal(on_the_way((0, 1), (0, 2), offline=(2,)), limits) == (
        BlockReason.TARGET_OFFLINE,
        (2,),
    )


@ALL
def test_a_partition_without_a_leader_waits(limits: Limits) -> None:
    assert refusal(on_the_way((0, 1), (2, 3), leader=None), limits) == (
        BlockReason.PARTITION_OFFLINE,
        (),
    )
    assert refusal(on_the_way((0, 1), (2, 3), isr=()), limits) == (
        BlockReason.PARTITION_OFFLINE,
        (),
    )


@ALL
def test_an_offline_partition_names_the_eligible_leader_that_is_not_a_replica(
    limits: Limits,
) -> None:
    offline = replace(on_the_way((1, 2), (4, 5), leader=None), isr=(), eligible=(3,))

    found = next_step(offline, limits)

    assert isinstance(found, Blocked)
    assert (found.why, found.brokers) == (BlockReason.ELIGIBLE_GONE, (3,))
    assert "waits for broker 3, no longer among its replicas" in found.sentence
    among_replicas = replace(offline, eligible=(2, 3))
    assert refusal(among_replicas, limits) == (BlockReason.PARTITION_OFFLINE, ())


@ALL
def test_a_partition_being_reassigned_is_never_altered(limits: Limits) -> None:
    now = replace(on_the_way((0, 1), (2, 3)), reassigning=True)

    assert refusal(now, limits) == (BlockReason.REASSIGNING, ())


@ALL
def test_a_new_leader_that_is_not_in_sync_blocks_the_end(limits: Limits) -> None:
    now = on_the_way((3, 4), (3, 4), isr=(4,), leader=4)

    assert refusal(now, limits) == (BlockReason.FIRST_NOT_IN_SYNC, (3,))


def test_a_cut_waits_until_every_target_is_in_sync() -> None:
    now = on_the_way((0, 3, 4), (3, 4), isr=(0, 3))

    assert refusal(now, gentle()) == (BlockReason.TARGET_NOT_IN_SYNC, (4,))


def test_a_reorder_does_not_wait_for_an_offline_replica() -> None:
    now = on_the_way((3, 5, 4), (3, 4, 5), isr=(3, 5), offline=(4,), before_4_3=True)

    assert step(next_step(now, kip_435())).target == (3, 4, 5)


def test_the_current_replica_order_stays_until_the_new_leader_can_lead() -> None:
    now = on_the_way((0, 1, 2), (3, 1, 4), offline=(3,))
    assert step(next_step(now, kip_435())).target[0] == 0

    back = on_the_way((0, 1, 4), (3, 1, 4))
    assert step(next_step(back, kip_435())).target == (3, 1, 4, 0)


def test_every_refusal_is_a_sentence_that_names_the_brokers() -> None:
    assert Blocked(BlockReason.TARGET_OFFLINE, (3,)).sentence == "broker 3 of its target is down"
    assert (
        Blocked(BlockReason.TARGET_NOT_IN_SYNC, (3, 4)).sentence
        == "brokers 3, 4 of its target are not in sync"
    )
    assert (
        Blocked(BlockReason.BELOW_MIN_ISR, (1,)).sentence
        == "dropping broker 1 would leave fewer in sync than min.insync.replicas"
    )
    assert all("{" not in Blocked(why, (1,)).sentence for why in BlockReason)
