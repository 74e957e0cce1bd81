"""What is refused of moves between log dirs, before any of them is sent."""

from typing import cast

import pytest

from ktui.cli.context.terminal import print_note
from ktui.cluster.partition import Replica
from ktui.cluster.ports import ClusterReader
from ktui.execution import RunRefused
from ktui.ops.reassign.log_dirs import check_moves
from ktui.simulated import layout
from support.simulated.clusters import FIRST, SECOND, SIZE, MovingDirs, on, wait

FULL = "a full log dir takes all its replicas offline"


@pytest.fixture
def dirs() -> MovingDirs:
    return MovingDirs()


async def check(
    dirs: MovingDirs, wanted: dict[Replica, str], sent: str = "", *, full_dirs: bool = False
) -> None:
    states = (await dirs.cluster.reader().describe_topics(["orders"])).partitions
    reader = cast("ClusterReader", dirs.ports)
    await check_moves(reader, wanted, states, print_note, full_dirs=full_dirs, sent=sent)


async def refusal(dirs: MovingDirs, wanted: dict[Replica, str], sent: str = "") -> list[str]:
    with pytest.raises(RunRefused) as refused:
        await check(dirs, wanted, sent)
    return str(refused.value).splitlines()


async def test_moves_that_fit_together_pass(dirs: MovingDirs) -> None:
    dirs.ports.usable = 2 * SIZE

    await check(dirs, {on(1, 0): SECOND, on(1, 2): SECOND, on(1, 1): FIRST})


async def test_the_first_move_that_does_not_fit_is_named_with_its_bytes(dirs: MovingDirs) -> None:
    dirs.ports.usable = 3 * SIZE // 2

    problem, end = await refusal(dirs, {on(1, 0): SECOND, on(1, 2): SECOND, on(2, 0): SECOND})

    lack = f"needs 900 MiB in {SECOND} of broker 1, where 450 MiB are left (450 MiB too few)"
    assert problem == f"orders-2-1 {lack}"
    assert end == (
        f"Nothing was sent: {FULL}. Make room, move fewer at a time, or ignore it with "
        "--allow-full-log-dirs"
    )


async def test_later_on_the_refusal_says_what_goes_on(dirs: MovingDirs) -> None:
    dirs.ports.usable = 0

    *_, end = await refusal(dirs, {on(1, 0): SECOND}, sent="The reassignment goes on")

    sent = "The reassignment goes on, and no replica was sent to a log dir"
    assert end.startswith(f"{sent}: {FULL}. ")


async def test_an_option_ignores_room(dirs: MovingDirs) -> None:
    dirs.ports.usable = 0

    await check(dirs, {on(1, 0): SECOND}, full_dirs=True)


async def test_what_moves_already_counts_with_the_bytes_that_are_left(dirs: MovingDirs) -> None:
    await dirs.somebody_moves(on(1, 0), SECOND)
    wait(dirs.cluster, 6.0)
    dirs.ports.usable = SIZE + SIZE // 3

    await check(dirs, {on(1, 0): SECOND, on(1, 2): SECOND})
    dirs.ports.usable = SIZE + SIZE // 3 - 1
    problem, _ = await refusal(dirs, {on(1, 2): SECOND})

    assert problem.startswith("orders-2-1 needs 900 MiB")


async def test_a_replica_that_is_there_needs_no_room(dirs: MovingDirs) -> None:
    dirs.ports.usable = 0

    await check(dirs, {on(1, 0): FIRST, on(1, 1): SECOND})


async def test_a_replica_that_its_broker_gets_needs_the_bytes_of_its_leader(
    dirs: MovingDirs,
) -> None:
    dirs.ports.usable = SIZE - 1

    problem, _ = await refusal(dirs, {on(3, 0): SECOND})

    assert problem.startswith(f"orders-0-3 needs 900 MiB in {SECOND} of broker 3")


@pytest.mark.parametrize("full_dirs", [False, True])
async def test_a_log_dir_that_is_offline_takes_no_replica(
    dirs: MovingDirs, *, full_dirs: bool
) -> None:
    dirs.cluster.do(layout.FailLogDir(1, SECOND))
    wait(dirs.cluster, 1.0)

    with pytest.raises(RunRefused) as refused:
        await check(dirs, {on(1, 0): SECOND}, full_dirs=full_dirs)

    problem, end = str(refused.value).splitlines()
    assert problem == (
        f"orders-0-1 cannot move to {SECOND}: that log dir of broker 1 is offline "
        "(KAFKA_STORAGE_ERROR). Repair its disk, or name another"
    )
    assert end == "Nothing was sent"


async def test_a_log_dir_that_is_cordoned_takes_no_further_replica(dirs: MovingDirs) -> None:
    await dirs.somebody_moves(on(1, 2), SECOND)
    dirs.ports.cordoned = SECOND

    problem, _ = await refusal(dirs, {on(1, 0): SECOND, on(1, 1): SECOND, on(1, 2): SECOND})

    assert problem == (
        f"orders-0-1 cannot move to {SECOND}: that log dir of broker 1 is cordoned. "
        "Uncordon it (cordoned.log.dirs), or name another"
    )


async def test_a_replica_cannot_leave_a_log_dir_that_is_offline(dirs: MovingDirs) -> None:
    dirs.cluster.do(layout.FailLogDir(1, SECOND))
    wait(dirs.cluster, 1.0)

    problem, _ = await refusal(dirs, {on(1, 1): FIRST})

    assert problem == (
        f"orders-1-1 cannot move: it is in an offline log dir of broker 1: {SECOND} "
        "(KAFKA_STORAGE_ERROR). Repair its disk, or move the replica to another broker"
    )


async def test_another_log_dir_that_is_offline_is_no_matter() -> None:
    dirs = MovingDirs(log_dirs=3)
    dirs.cluster.do(layout.FailLogDir(1, f"{FIRST}-3"))
    wait(dirs.cluster, 1.0)

    await check(dirs, {on(1, 0): SECOND})


async def test_a_log_dir_that_does_not_exist_is_left_to_the_broker(dirs: MovingDirs) -> None:
    await check(dirs, {on(1, 0): "/elsewhere"})  # Kafka's tool begins too, and then fails


async def test_many_problems_are_named_and_the_rest_is_counted(dirs: MovingDirs) -> None:
    dirs.ports.usable = 0
    wanted = {on(b, p): (FIRST, SECOND)[p % 2 == 0] for b in (1, 2) for p in range(6)}

    shown = await refusal(dirs, wanted)

    assert len(shown) == 12
    assert shown[10] == "and 2 more"


async def test_room_that_is_not_reported_or_cannot_be_read_is_not_checked_and_that_is_said_once(
    dirs: MovingDirs, capsys: pytest.CaptureFixture[str]
) -> None:
    dirs.ports.unmeasured = True
    dirs.ports.silent = {2}

    for sent in ("", "The reassignment goes on"):
        await check(dirs, {on(1, 0): SECOND, on(1, 2): SECOND, on(2, 0): SECOND}, sent=sent)

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("the room in its log dirs is not checked")
    assert second == "broker 1: the room in log dirs is not checked, since the answers lack it"
