"""What can be read of one broker and done to it, and what a run does to each broker."""

from __future__ import annotations

import re

import pytest

from ktui.cluster.broker import BrokerConfig, LogDir
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, broker_resource
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits
from ktui.progress.flows import BrokerFlow
from ktui.progress.summary import BrokerLoad
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec
from ktui.tui.draw.cells import pieces_width
from ktui.tui.run_view.rows import ToMove
from ktui.tui.screens.brokers.row import BrokerView, broker_lines
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.brokers.status import ManageBrokerScreen
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import ConfirmScreen
from ktui.tui.screens.run.cancel import CancelScreen
from support.simulated.moving_clusters import a_cluster, move, throttle, tp
from support.views.screens import BROKERS, plain
from support.views.watching import (
    LARGE,
    SMALL,
    RunWatched,
    a_quiet_cluster,
    field,
    joined_words,
    moved,
    watching,
    watching_moves,
    watching_run,
    watching_runs,
)


async def at_broker(watch: RunWatched, broker: int) -> None:
    """Open the brokers screen with the cursor on a broker of 1, 2, 3 and so on."""
    await watch.press_and_see("b", *["down"] * (broker - 1))


def row(watch: RunWatched, broker: int) -> str:
    return next(line for line in watch.lines if line.split()[:1] == [str(broker)])


def words(watch: RunWatched) -> str:
    return joined_words(watch.text)


def cordon_of(cluster: SimulatedCluster, broker: int) -> frozenset[str]:
    return cluster.controller.configs.cordoned(broker)


async def test_a_cordon_is_asked_about_set_read_back_and_lifted() -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, size=SMALL) as watch:
        await at_broker(watch, 4)
        assert "⊘" not in row(watch, 4)
        await watch.press("m", "c", say="Cordon broker 4?")
        assert f"{CORDONED}: not set -> *" in words(watch)
        assert not cordon_of(cluster, 4)
        await watch.press("y")
        await watch.until(lambda: cordon_of(cluster, 4))
        await watch.pass_until("broker 4 reports 1 of 1 log dir cordoned")
        await watch.pass_until("⊘")
        assert "⊘" in row(watch, 4)

        await watch.press("m", "c", say="it is cordoned already")
        await watch.press("m", "u", say="* -> not set")
        await watch.press("y")
        await watch.pass_until("broker 4 reports no cordoned log dir")
        assert not cordon_of(cluster, 4)


async def test_a_cordon_that_has_changed_since_the_question_is_left_alone() -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, size=LARGE) as watch:
        await at_broker(watch, 4)
        await watch.press("m", "c", say="Cordon broker 4?")
        path = BrokerSpec(id=4).log_dir_paths[0]
        other = ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, path)
        await cluster.writer().alter_configs([other])
        await watch.press("y")
        await watch.say(f"has changed meanwhile, from not set to {path}")


async def test_a_broker_that_is_down_has_no_cordon_to_change() -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, size=SMALL) as watch:
        await watch.do(layout.Kill(9))
        await watch.pass_time(20)
        await at_broker(watch, 9)
        await watch.press("m")
        assert "not now: the broker is down" in watch.line("c  cordon")
        await watch.press(
            "c", say="cordon: the broker is down, and has to answer for its own setting."
        )
        assert isinstance(watch.app.screen, ManageBrokerScreen)


@pytest.mark.parametrize(
    ("key", "filled", "focused"),
    [
        ("d", {"#plan-brokers": "4"}, ""),
        ("m", {"#plan-brokers": "4"}, ""),
        ("h", {"#plan-broker": "4", "#plan-until": ""}, "plan-until"),
        ("f", {"#plan-brokers": "4"}, ""),
    ],
)
async def test_the_plans_for_a_broker_open_the_start_screen_with_it(
    key: str, filled: dict[str, str], focused: str
) -> None:
    cluster = a_cluster({"a": [(4, 5, 6)] * 4, "b": [(1, 2, 3)] * 12}, messages=1_000)
    async with watching_runs(cluster, size=LARGE) as watch:
        await at_broker(watch, 4)
        await watch.press("m", key)
        assert isinstance(watch.app.screen, StartScreen)
        assert {name: field(watch, name).value for name in filled} == filled
        if focused:
            assert watch.app.focused is not None
            assert watch.app.focused.id == focused
        else:
            await watch.until(lambda: "The plan is read" in watch.text or "! " in watch.text)
        await watch.press("escape")
        assert isinstance(watch.app.screen, BrokersScreen)


async def test_a_plan_for_a_broker_may_join_the_live_run() -> None:
    async with watching_moves("a-0", messages=1_000_000, size=LARGE) as watch:
        await at_broker(watch, 4)
        await watch.press("m", "d")
        assert isinstance(watch.app.screen, AddScreen)
        assert field(watch, "#plan-brokers").value == "4"


async def test_what_comes_to_a_broker_or_leaves_it_is_paused_continued_and_cancelled() -> None:
    cluster = a_cluster(
        {"a": [(1, 2, 3), (1, 2, 3)], "b": [(1, 2, 3)]}, messages=1_000_000, copied_s=1_000
    )
    plan = {**moved("a-0", "a-1", target=(4, 2, 3)), **moved("b-0", target=(5, 2, 3))}
    async with watching_run(cluster, plan, size=LARGE) as watch:
        run = watch.attached.run

        def paused() -> set[TopicPartition]:
            return {*run.pauses.partitions}

        await at_broker(watch, 4)
        await watch.press("m")
        assert "submit nothing more of 2 partitions of run drain-3" in watch.line("p  pause")
        await watch.press("p", say="Pause what comes to broker 4 or leaves it?")
        assert not paused()
        await watch.press("y")
        await watch.pass_until("pause broker 4")
        assert paused() == {tp("a-0"), tp("a-1")}

        await watch.press("m", "g", say="Let go on again what comes to broker 4")
        await watch.press("y")
        await watch.pass_until("continue broker 4")
        assert not paused()

        await watch.press("m", "x")
        assert isinstance(watch.app.screen, CancelScreen)
        assert "what has to do with broker 4 (2 partitions)" in watch.text
        await watch.press("y")
        await watch.until(lambda: run.tracks[tp("a-1")].cancel is CancelKind.STOP or watch.text)
        await watch.pass_time(3)
        assert run.tracks[tp("a-0")].cancel is CancelKind.STOP
        assert run.tracks[tp("b-0")].cancel is None

        await watch.press("up", "up", "up", "m", "x", say="broker 1")


async def test_the_status_says_what_a_broker_holds_and_why_as_the_shell_does() -> None:
    async with watching_run(
        a_quiet_cluster("a-0", "a-1", messages=1_000_000), moved("a-0")
    ) as watch:
        await at_broker(watch, 1)
        await watch.press("s", say="holds 2 replicas")
        assert "broker 1: alive" in watch.text
        told = joined_words(" ".join(watch.dialog))
        assert "1 in the plan of run drain-3, to leave, 1 in no plan" in told
        assert "1 of them stays unless a plan takes it away" in told
        assert "proven to be current" in told
        assert "ktui broker remove 1" in told
        await watch.press("escape")
        assert isinstance(watch.app.screen, BrokersScreen)


async def test_a_status_longer_than_the_terminal_scrolls_with_its_keys_in_sight() -> None:
    names = [f"{letter}-0" for letter in "abcdefgh"]
    async with watching_runs(a_quiet_cluster(*names), size=SMALL) as watch:
        await at_broker(watch, 1)
        await watch.press("s", say="holds 8 replicas")
        assert "ktui broker remove 1" not in watch.text
        assert "esc back ─" in watch.lines[-1]
        await watch.press("pagedown", say="ktui broker remove 1")


async def test_a_broker_is_called_empty_only_once_that_is_proven() -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, size=SMALL) as watch:
        await at_broker(watch, 5)
        await watch.pass_until("✓ empty, as proven at")
        assert row(watch, 5).split()[1] == "empty"
        assert row(watch, 6).split()[1] == "alive"  # nothing is counted there, or proven
        await watch.press("s", say="✓ empty: it holds no replica, and none is being moved to it")
        await watch.press("escape")
        # no longer, as soon as something comes
        await watch.do(layout.Alter({tp("a-0"): (1, 2, 5)}))
        await watch.see()
        assert row(watch, 5).split()[1] == "alive"


async def test_a_read_only_view_shows_the_status_and_says_why_it_changes_nothing() -> None:
    async with watching_runs(a_quiet_cluster("a-0"), write=False, size=SMALL) as watch:
        await at_broker(watch, 1)
        assert "m manage" not in watch.lines[-1]
        assert "s status" in watch.lines[-1]
        await watch.press("m", say="This view is read-only; open it with ktui watch --write")
        assert isinstance(watch.app.screen, BrokersScreen)
        await watch.press("s", say="holds 1 replica")
        await watch.press("escape", "colon")
        await watch.submit("broker cordon 1", "! This view is read-only")


async def test_the_command_line_has_the_verbs_of_a_broker_and_its_plans() -> None:
    cluster = a_quiet_cluster("a-0", "a-1")
    async with watching_runs(cluster, size=LARGE) as watch:

        async def command(line: str) -> None:
            await watch.press("colon")
            await watch.submit(line)

        await command("broker status 1")
        await watch.say("holds 2 replicas")
        await watch.press("escape")
        await command("broker cordon 4")
        await watch.say("Cordon broker 4?")
        assert isinstance(watch.app.screen, ConfirmScreen)
        await watch.press("n")
        await command("broker empty 4")
        await watch.say("there is no verb of a broker 'empty'. Use status or cordon or uncordon")
        await watch.press("escape")
        await command("plan drain 1 --max-moves 1")
        assert isinstance(watch.app.screen, StartScreen)
        assert field(watch, "#plan-max_moves").value == "1"
        await watch.say("1 of 1 moves")
        await watch.press("escape")
        await command("move a-0 4,2,3")
        assert isinstance(watch.app.screen, StartScreen)
        assert field(watch, "#plan-moves").value == "a-0 4,2,3"


TIB = 2**40

ORDERS = [f"orders-{n}" for n in range(3)]


async def test_a_run_says_what_it_still_takes_off_a_broker_and_brings_to_it() -> None:
    cluster = a_quiet_cluster(*ORDERS, messages=30_000)
    limits = Limits(replicas=3, partitions=1)
    run = watching_run(cluster, moved(*ORDERS, target=(4, 2, 3)), limits, "2MB")
    async with run as watch:
        await watch.press_and_see("b")
        assert " 3 to go" in watch.line("1  alive")
        assert " +3 to come" in watch.line("4  alive")
        assert "takes 3 replicas off this broker: 0 done, 3 left." in watch.text
        assert "leaves  orders-0" in watch.text
        await watch.pass_until("1 of 3 to go")
        await watch.pass_until("all 3 gone")
        assert "all 3 came" in watch.line("4  alive")


async def test_a_broker_that_is_down_says_since_when_what_waits_and_which_key_helps() -> None:
    async with watching_moves(*ORDERS, limits=Limits(replicas=3), messages=10**6) as watch:
        await watch.do(layout.Kill(5))
        await watch.pass_time(70)
        await watch.press_and_see("b")
        assert "DOWN 1m" in watch.line("5  DOWN")
        assert "broker 5 · DOWN 1m" in watch.text  # the cursor is there
        assert re.search(
            r"! DOWN since \d\d:\d\d:\d\d. 3 moves of run drain-3 wait for it.", watch.text
        )
        assert "Start it, and they go on. Or press m, then x to call all of them off." in watch.text
        assert watch.text.count("broker 5 is down") == 3


@pytest.mark.parametrize("width", range(38, 101))
def test_brokers_below_the_list_never_take_more_than_their_width(width: int) -> None:
    load = BrokerLoad(1004, 41e6, 123e6, BrokerFlow(41e6, 123e6, 40_000_000))
    config = BrokerConfig(follower_throttle_rate=40_000_000)
    to_move = ToMove(234, 123)
    dirs = (LogDir(1004, "/data", None, 4 * TIB, 3 * TIB),)
    views = [
        BrokerView(1004, BROKERS[4], load, dirs, config, to_move=to_move),
        BrokerView(5, None, BrokerLoad(5), down_s=3_000.0),
    ]
    lines = broker_lines(views, width, 4)
    assert max(map(pieces_width, lines)) <= width
    texts = [plain(line) for line in lines]
    assert "DOWN 50m" in texts[1]
    assert "█▏ 41/40 MB/s" in texts[2]
    assert "123 of 234" in texts[2]


async def test_a_read_only_view_names_no_key_that_it_does_not_have() -> None:
    async with watching(a_cluster(moving=["orders-0"]), (120, 30)) as watch:
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)
        await watch.press_and_see("b")
        assert "1 move waits for it." in watch.text
        assert "Start it, and they go on." in watch.text
        assert "to call all of them off" not in watch.text


def test_brokers_for_which_there_is_no_line_are_counted() -> None:
    views = [BrokerView(n, BROKERS[4], BrokerLoad(n)) for n in range(100)]
    lines = broker_lines(views, 60, 5)
    assert [line[0].text for line in lines[-1:]] == ["  … and 97 more (b)"]


async def test_the_flows_of_a_broker_are_drawn_over_time_under_the_line_of_its_throttle() -> None:
    cluster = a_cluster(moving=["orders-0"], copied_s=5_000, messages=10**7)
    cluster.do(throttle("follower", 4, 50_000_000))
    async with watching(cluster, LARGE) as watch:
        await watch.pass_time(60)
        await watch.press_and_see("b")
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
        await watch.press_and_see("b")
        assert "+1 to come" in watch.line("5  alive")
        assert "1 to go" in watch.line("2  alive")


def test_a_single_broker_has_its_line() -> None:
    (_, line) = broker_lines([BrokerView(1, BROKERS[4], BrokerLoad(1))], 58, 9)
    assert plain(line).split() == ["1", "-", "-", "-", "-"]
