"""Moves between log dirs at a pace: begun one after the other, followed, and never forced."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ktui.cli.reassign.log_dirs.pacing import Pace
from ktui.cluster.clock import Clock
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigScope
from ktui.cluster.throttle_settings import LOG_DIR_RATE
from ktui.execution.errors import RunRefused
from ktui.simulated import events
from ktui.simulated.layout import MIB
from support.contract.world import setting
from support.simulated.moving_log_dirs import (
    FIRST,
    SECOND,
    SIZE,
    MovingDirs,
    on,
    started,
    unreachable,
)

ONE, TWO, ONE_BROKER = Pace(per_dir=1), Pace(per_dir=2), Pace(one_broker=True)
OUT = {on(1, 0): SECOND, on(1, 2): SECOND, on(1, 4): SECOND}
"""Three replicas of broker 1 leave its first log dir."""
MIDDLE_S = 5.0
"""A second at which the first move is under way."""


@pytest.fixture
def dirs() -> MovingDirs:
    return MovingDirs()


def clock(dirs: MovingDirs) -> Clock:
    return dirs.cluster.clock


@pytest.mark.parametrize(("pace", "most"), [(ONE, 1), (TWO, 2), (Pace(per_dir=9), 3)])
async def test_so_many_replicas_move_into_or_out_of_a_log_dir_at_a_time(
    dirs: MovingDirs, pace: Pace, most: int
) -> None:
    assert await dirs.move(OUT, pace) == {}

    assert await dirs.places(*OUT) == [SECOND] * 3
    assert dirs.report.lines == started(SECOND, *OUT)
    assert dirs.ports.most == {(1, FIRST): most, (1, SECOND): most}


async def test_moves_there_and_back_share_the_pace_of_a_log_dir(dirs: MovingDirs) -> None:
    assert await dirs.move({on(1, 0): SECOND, on(1, 1): FIRST}, ONE) == {}

    assert await dirs.places(on(1, 0), on(1, 1)) == [SECOND, FIRST]
    assert dirs.ports.most == {(1, FIRST): 1, (1, SECOND): 1}


async def test_the_moves_of_a_broker_are_complete_before_those_of_the_next_begin(
    dirs: MovingDirs,
) -> None:
    wanted = {on(2, 0): SECOND, on(1, 0): SECOND, on(2, 2): SECOND, on(1, 2): SECOND}

    assert await dirs.move(wanted, ONE_BROKER) == {}

    assert dirs.ports.together == {frozenset(), frozenset({1}), frozenset({2})}
    assert dirs.ports.most[1, FIRST] == 2
    assert dirs.report.lines == started(SECOND, on(1, 0), on(1, 2), on(2, 0), on(2, 2))


async def test_brokers_move_side_by_side_unless_asked_otherwise(dirs: MovingDirs) -> None:
    assert await dirs.move({on(2, 0): SECOND, on(1, 0): SECOND}, ONE) == {}

    assert frozenset({1, 2}) in dirs.ports.together


async def test_only_the_brokers_of_the_moves_are_read(dirs: MovingDirs) -> None:
    await dirs.move(OUT, ONE)

    assert {*dirs.ports.asked} == {1}


async def test_a_command_that_was_killed_goes_on_with_what_is_left(dirs: MovingDirs) -> None:
    first = asyncio.create_task(dirs.move(OUT, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert dirs.ports.sent == [on(1, 0)]

    assert await dirs.move(OUT, ONE) == {}

    assert dirs.ports.sent == [*OUT]
    assert dirs.ports.most[1, FIRST] == 1
    assert await dirs.move(OUT, ONE) == {}
    assert len(dirs.ports.sent) == 3


async def test_moves_of_others_count_against_the_pace(dirs: MovingDirs) -> None:
    await dirs.somebody_moves(on(1, 4), SECOND)

    assert await dirs.move({on(1, 0): SECOND}, ONE) == {}

    assert dirs.ports.most[1, FIRST] == 1
    assert await dirs.places(on(1, 0), on(1, 4)) == [SECOND, SECOND]


async def test_ctrl_c_says_what_goes_on_and_what_has_not_begun(dirs: MovingDirs) -> None:
    moving = asyncio.create_task(dirs.move(OUT, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving

    (note,) = dirs.report.notes
    assert note.splitlines() == [
        "interrupted",
        "goes on by itself: orders-0-1",
        "has not begun: orders-2-1 and orders-4-1",
        "The same command goes on with the rest; --cancel ends what is under way",
    ]


async def test_a_terminal_shows_what_is_awaited(dirs: MovingDirs) -> None:
    await dirs.move(OUT, ONE)

    first = dirs.report.waits[0]
    assert first.startswith("0 of 3 moves between log dirs complete, 1 under way (")
    assert first.endswith(" left), 2 waiting")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (FIRST, f"was cancelled: it is in {FIRST}"),
        (f"{FIRST}-3", f"was cancelled: it is in {FIRST}, and moves to {FIRST}-3"),
    ],
    ids=["cancelled", "sent elsewhere"],
)
async def test_a_move_that_somebody_ends_is_named_and_not_sent_again(path: str, words: str) -> None:
    dirs = MovingDirs(log_dirs=3)
    moving = asyncio.create_task(dirs.move({on(1, 0): SECOND, on(1, 3): SECOND}, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    await dirs.somebody_moves(on(1, 0), path)

    assert await moving == {"orders-0-1": words}
    assert dirs.ports.sent == [on(1, 0), on(1, 3)]


async def test_answers_that_miss_a_move_for_a_moment_mean_nothing(dirs: MovingDirs) -> None:
    """A broker that replaces a replica by its copy leaves the copy out for some milliseconds."""
    moving = asyncio.create_task(dirs.move(OUT, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    dirs.ports.hidden = 2

    assert await moving == {}
    assert dirs.ports.sent == [*OUT]


async def test_a_broker_that_dies_leaves_its_moves_unknown_and_the_others_go_on(
    dirs: MovingDirs,
) -> None:
    dirs.at(MIDDLE_S, events.Kill(1))
    wanted = {**OUT, on(2, 0): SECOND, on(2, 2): SECOND}

    left = await dirs.move(wanted, ONE)

    assert left == {
        "orders-0-1": "its state is unknown: broker 1 does not answer",
        "orders-2-1": "was not begun: broker 1 does not answer",
        "orders-4-1": "was not begun: broker 1 does not answer",
    }
    assert await dirs.places(on(2, 0), on(2, 2)) == [SECOND, SECOND]
    (note,) = dirs.report.notes
    assert note.startswith("warning: nothing begins on broker 1: ")


async def test_a_broker_that_comes_back_soon_goes_on(dirs: MovingDirs) -> None:
    dirs.at(MIDDLE_S, events.Kill(1))
    dirs.at(MIDDLE_S + 20.0, events.Start(1))

    assert await dirs.move(OUT, ONE) == {}

    assert dirs.report.notes[-1] == "broker 1 answers again"


async def test_the_next_broker_waits_for_one_that_is_down_and_then_goes_on(
    dirs: MovingDirs,
) -> None:
    dirs.ports.silent = {1}

    left = await dirs.move({on(1, 0): SECOND, on(2, 0): SECOND}, ONE_BROKER)

    assert left == {"orders-0-1": "was not begun: broker 1 does not answer"}
    assert await dirs.places(on(2, 0)) == [SECOND]


async def test_once_a_log_dir_fails_nothing_more_begins_on_its_broker(dirs: MovingDirs) -> None:
    dirs.at(MIDDLE_S, events.FailLogDir(1, SECOND))
    wanted = {**OUT, on(2, 0): SECOND, on(2, 2): SECOND}

    left = await dirs.move(wanted, ONE)

    failed = f"log dir {SECOND} of broker 1 has failed (KAFKA_STORAGE_ERROR)"
    assert left == {
        "orders-0-1": f"its move has ended, and it is in {FIRST}: {failed}",
        "orders-2-1": f"was not begun: {failed}",
        "orders-4-1": f"was not begun: {failed}",
    }
    assert dirs.report.notes == [f"warning: {failed}. Nothing more begins on this broker"]
    assert dirs.ports.sent == [on(1, 0), on(2, 0), on(2, 2)]
    assert await dirs.places(on(2, 0), on(2, 2)) == [SECOND, SECOND]


async def test_what_has_begun_is_followed_to_its_end_also_where_another_log_dir_has_failed() -> (
    None
):
    dirs = MovingDirs(log_dirs=3)
    dirs.at(MIDDLE_S, events.FailLogDir(1, f"{FIRST}-3"))

    left = await dirs.move({on(1, 0): SECOND, on(1, 3): SECOND}, ONE)

    assert {*left} == {"orders-3-1"}
    assert await dirs.places(on(1, 0)) == [SECOND]


async def test_a_move_out_of_a_log_dir_that_fails_is_lost_with_it(dirs: MovingDirs) -> None:
    dirs.at(MIDDLE_S, events.FailLogDir(1, SECOND))

    left = await dirs.move({on(1, 1): FIRST}, ONE)

    assert left == {"orders-1-1": f"log dir {SECOND} of broker 1 has failed (KAFKA_STORAGE_ERROR)"}


async def test_a_move_waits_until_others_have_made_room(dirs: MovingDirs) -> None:
    dirs.cluster.do(events.FillDisk(1, 3 * SIZE // 2))

    assert await dirs.move(OUT, TWO) == {}

    assert dirs.ports.most[1, SECOND] == 1
    assert dirs.report.notes[0] == (
        f"warning: orders-2-1 needs 900 MiB in {SECOND} of broker 1, "
        "where 450 MiB are left (450 MiB too few): it waits for room"
    )


async def test_a_move_that_never_gets_room_is_named_with_its_bytes(dirs: MovingDirs) -> None:
    dirs.cluster.do(events.FillDisk(1, SIZE // 2))

    left = await dirs.move({**OUT, on(2, 0): SECOND}, ONE)

    lack = f"needs 900 MiB in {SECOND} of broker 1, where 450 MiB are left (450 MiB too few)"
    assert left == {f"orders-{number}-1": f"was not begun: it {lack}" for number in (0, 2, 4)}
    assert await dirs.places(on(2, 0)) == [SECOND]


async def test_the_next_broker_has_its_turn_once_one_lacks_room_for_good(dirs: MovingDirs) -> None:
    dirs.cluster.do(events.FillDisk(1, SIZE // 2))

    left = await dirs.move({on(1, 0): SECOND, on(2, 0): SECOND}, ONE_BROKER)

    assert {*left} == {"orders-0-1"}
    assert await dirs.places(on(2, 0)) == [SECOND]


async def test_room_that_comes_a_minute_after_a_move_is_used(dirs: MovingDirs) -> None:
    """Kafka deletes the files of a replica that has moved only after a minute."""
    moving = asyncio.create_task(dirs.move({on(1, 0): SECOND, on(1, 2): SECOND}, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    dirs.ports.usable = SIZE // 2
    await clock(dirs).sleep(75.0)
    dirs.ports.usable = None

    assert await moving == {}


async def test_room_is_no_matter_where_it_is_ignored(dirs: MovingDirs) -> None:
    dirs.cluster.do(events.FillDisk(1, 3 * SIZE // 2))

    moving = asyncio.create_task(dirs.move(OUT, Pace(per_dir=2, full_dirs=True)))
    await clock(dirs).sleep(1.0)
    moving.cancel()

    assert dirs.ports.sent == [on(1, 0), on(1, 2)]


@pytest.mark.parametrize("problem", [RunRefused("the gate is shut"), unreachable(3)])
async def test_what_may_not_be_sent_any_more_is_named_and_the_rest_is_followed(
    dirs: MovingDirs, problem: Exception
) -> None:
    moving = asyncio.create_task(dirs.move(OUT, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    dirs.refusal = problem

    left = await moving

    assert left == {
        "orders-2-1": "was not begun: nothing more may be sent",
        "orders-4-1": "was not begun: nothing more may be sent",
    }
    assert dirs.report.notes == [f"no move begins: {problem}"]
    assert await dirs.places(on(1, 0)) == [SECOND]


async def test_a_move_without_permission_is_named_and_the_others_go_on(dirs: MovingDirs) -> None:
    dirs.cluster.do(events.Deny("alter_log_dirs"))

    left = await dirs.move({on(1, 0): SECOND}, ONE)

    assert left["orders-0-1"].startswith("was refused: ")


@pytest.mark.parametrize("mishap", [events.LoseAnswer(), events.LoseRequest()])
async def test_a_request_that_gets_lost_begins_each_move_once(
    dirs: MovingDirs, mishap: events.OutsideEvent
) -> None:
    moving = asyncio.create_task(dirs.move(OUT, ONE))
    await clock(dirs).sleep(MIDDLE_S)
    dirs.cluster.do(mishap)

    assert await moving == {}

    assert sorted(dirs.report.lines) == sorted(started(SECOND, *OUT))
    assert dirs.ports.most[1, SECOND] == 1


async def test_a_replica_that_its_broker_gets_only_later_moves_once_it_is_there(
    dirs: MovingDirs,
) -> None:
    tp = TopicPartition("orders", 0)
    dirs.at(3.0, events.Alter({tp: (1, 2, 3)}))

    assert await dirs.move({on(3, 0): SECOND}, ONE) == {}

    assert await dirs.places(on(3, 0)) == [SECOND]


async def test_a_replica_that_never_comes_is_named(dirs: MovingDirs) -> None:
    left = await dirs.move({on(3, 0): SECOND, on(1, 0): SECOND}, ONE)

    why = "was not begun: its broker does not have it after 10 s (--timeout)"
    assert left == {"orders-0-3": why}
    assert dirs.ports.sent == [on(1, 0)]


async def test_a_replica_that_leaves_its_broker_in_the_middle_is_named(dirs: MovingDirs) -> None:
    dirs.at(MIDDLE_S, events.Alter({TopicPartition("orders", 0): (2,)}))

    assert await dirs.move(OUT, ONE) == {"orders-0-1": "its broker does not have it any more"}


async def test_a_slow_move_is_polled_once_a_second(dirs: MovingDirs) -> None:
    rate = setting(ConfigScope.BROKER, "1", LOG_DIR_RATE, ConfigOp.SET, str(10 * MIB))
    dirs.cluster.do(events.AlterConfigs((rate,)))

    await dirs.move({on(1, 0): SECOND}, ONE)

    seconds = clock(dirs).monotonic()
    assert seconds >= 90.0
    assert dirs.ports.asked <= Counter({1: round(seconds) + 4})
