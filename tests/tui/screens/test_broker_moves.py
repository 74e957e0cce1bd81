"""What a run does to each broker: what is left to move, over time, and beside the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktui.cluster.broker import BrokerConfig, LogDir
from ktui.pacing.limits import Limits
from ktui.progress.flows import BrokerFlow
from ktui.progress.summary import BrokerLoad
from ktui.simulated import layout
from ktui.tui.draw.cells import pieces_width
from ktui.tui.run_view.rows import ToMove
from ktui.tui.screens.brokers.row import BrokerView, broker_lines
from support.simulated.moving_clusters import a_cluster, move, throttle
from support.views.screens import BROKERS
from support.views.watching import LARGE, a_quiet_cluster, moved, watching, watching_run

TIB = 2**40

ORDERS = [f"orders-{n}" for n in range(3)]


async def test_a_run_says_what_it_still_takes_off_a_broker_and_brings_to_it(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*ORDERS, messages=30_000)
    limits = Limits(replicas=3, partitions=1)
    run = watching_run(cluster, tmp_path, moved(*ORDERS, target=(4, 2, 3)), limits, "2MB")
    async with run as watch:
        await watch.press("b")
        await watch.see()
        assert " 3 to go" in watch.line("1  alive")
        assert " +3 to come" in watch.line("4  alive")
        assert "takes 3 replicas off this broker: 0 done, 3 left." in watch.text
        assert "leaves  orders-0" in watch.text
        await watch.pass_until("1 of 3 to go")
        await watch.pass_until("all 3 gone")
        assert "all 3 came" in watch.line("4  alive")


async def test_a_broker_that_is_down_says_since_when_what_waits_and_which_key_helps(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*ORDERS, messages=10**6)
    async with watching_run(cluster, tmp_path, moved(*ORDERS), Limits(replicas=3)) as watch:
        await watch.do(layout.Kill(5))
        await watch.pass_time(70)
        await watch.press("b")
        await watch.see()
        assert "DOWN 1m" in watch.line("5  DOWN")
        assert "broker 5 · DOWN 1m" in watch.text  # the cursor is there
        assert re.search(
            r"! DOWN since \d\d:\d\d:\d\d. 3 moves of run drain-3 wait for it.", watch.text
        )
        assert "Start it, and they go on. Or press m, then x to call them off." in watch.text
        assert watch.text.count("broker 5 is down") == 3


@pytest.mark.parametrize("width", range(38, 101))
def test_brokers_below_the_list_never_take_more_than_their_width(width: int) -> None:
    load = BrokerLoad(1004, 41e6, 123e6, BrokerFlow(41e6, 123e6, 41e6, 40_000_000))
    config = BrokerConfig(follower_throttle_rate=40_000_000)
    to_move = ToMove(234, 123)
    dirs = (LogDir(1004, "/data", None, 4 * TIB, 3 * TIB),)
    views = [
        BrokerView(1004, BROKERS[4], load, dirs, config, to_move=to_move),
        BrokerView(5, None, BrokerLoad(5), down_s=3_000.0),
    ]
    lines = broker_lines(views, width, 4)
    assert max(map(pieces_width, lines)) <= width
    texts = ["".join(piece.text for piece in line) for line in lines]
    assert "DOWN 50m" in texts[1]
    assert "█▏ 41/40 MB/s" in texts[2]
    assert "123 of 234" in texts[2]


async def test_a_read_only_view_names_no_key_that_it_does_not_have() -> None:
    async with watching(a_cluster(moving=["orders-0"]), (120, 30)) as watch:
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)
        await watch.press("b")
        await watch.see()
        assert "1 move waits for it." in watch.text
        assert "Start it, and they go on." in watch.text
        assert "to call them off" not in watch.text


def test_brokers_for_which_there_is_no_line_are_counted() -> None:
    views = [BrokerView(n, BROKERS[4], BrokerLoad(n)) for n in range(100)]
    lines = broker_lines(views, 60, 5)
    assert [line[0].text for line in lines[-1:]] == ["  … and 97 more (b)"]


async def test_the_flows_of_a_broker_are_drawn_over_time_under_the_line_of_its_throttle() -> None:
    cluster = a_cluster(moving=["orders-0"], copied_s=5_000, messages=10**7)
    cluster.do(throttle("follower", 4, 50_000_000))
    async with watching(cluster, LARGE) as watch:
        await watch.pass_time(60)
        await watch.press("b")
        await watch.see()
        assert "broker 4 · alive" in watch.text
        assert "copied in 5.0 MB/s" in watch.line("copied in")
        assert "█" in watch.text
        assert "comes   orders-0" in watch.line("moving")
        assert "the other brokers" in watch.text
        assert "broker 1 out 5.0 MB/s" in watch.text


async def test_without_a_run_it_is_what_anybody_moves_that_is_left() -> None:
    cluster = a_cluster(resting=["orders-0", "orders-1"])
    cluster.do(move("orders-0", 1, 3, 5))
    async with watching(cluster, (120, 40)) as watch:
        await watch.press("b")
        await watch.see()
        assert "+1 to come" in watch.line("5  alive")
        assert "1 to go" in watch.line("2  alive")


def test_a_single_broker_has_its_line() -> None:
    (_, line) = broker_lines([BrokerView(1, BROKERS[4], BrokerLoad(1))], 58, 9)
    assert "".join(piece.text for piece in line).split() == ["1", "▕····▏", "-", "-", "-", "-"]
