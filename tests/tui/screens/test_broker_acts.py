"""What can be read of one broker on the brokers screen, and done to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, broker_resource
from ktui.execution.run.states import CancelKind
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.brokers.status import ManageBrokerScreen
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import ConfirmScreen
from ktui.tui.screens.run.cancel import CancelScreen
from support.simulated.moving_clusters import a_cluster, tp
from support.views.watching import (
    LARGE,
    SMALL,
    RunWatched,
    a_quiet_cluster,
    field,
    joined_words,
    moved,
    watching_run,
    watching_runs,
)


async def at_broker(watch: RunWatched, broker: int) -> None:
    """Open the brokers screen with the cursor on a broker of 1, 2, 3 and so on."""
    await watch.press("b", *["down"] * (broker - 1))
    await watch.see()


def row(watch: RunWatched, broker: int) -> str:
    return next(line for line in watch.lines if line.split()[:1] == [str(broker)])


def words(watch: RunWatched) -> str:
    return joined_words(watch.text)


def cordon_of(cluster: SimulatedCluster, broker: int) -> frozenset[str]:
    return cluster.controller.configs.cordoned(broker)


async def test_a_cordon_is_asked_about_set_read_back_and_lifted(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, tmp_path, size=SMALL) as watch:
        await at_broker(watch, 4)
        assert "⊘" not in row(watch, 4)
        await watch.press("m", "c")
        await watch.say("Cordon broker 4?")
        assert f"{CORDONED}: not set -> *" in words(watch)
        assert not cordon_of(cluster, 4)
        await watch.press("y")
        await watch.until(lambda: cordon_of(cluster, 4))
        await watch.pass_until("broker 4 reports 1 of 1 log dir cordoned")
        await watch.pass_until("⊘")
        assert "⊘" in row(watch, 4)

        await watch.press("m", "c")
        await watch.say("it is cordoned already")
        await watch.press("m", "u")
        await watch.say("* -> not set")
        await watch.press("y")
        await watch.pass_until("broker 4 reports no cordoned log dir")
        assert not cordon_of(cluster, 4)


async def test_a_cordon_that_has_changed_since_the_question_is_left_alone(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, tmp_path, size=LARGE) as watch:
        await at_broker(watch, 4)
        await watch.press("m", "c")
        await watch.say("Cordon broker 4?")
        path = BrokerSpec(id=4).log_dir_paths[0]
        other = ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, path)
        await cluster.writer().alter_configs([other])
        await watch.press("y")
        await watch.say(f"has changed meanwhile, from not set to {path}")


async def test_a_broker_that_is_down_has_no_cordon_to_change(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, tmp_path, size=SMALL) as watch:
        await watch.do(layout.Kill(9))
        await watch.pass_time(20)
        await at_broker(watch, 9)
        await watch.press("m")
        assert "not now: the broker is down" in watch.line("c  cordon")
        await watch.press("c")
        await watch.say("cordon: the broker is down, and has to answer for its own setting.")
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
    tmp_path: Path, key: str, filled: dict[str, str], focused: str
) -> None:
    cluster = a_cluster({"a": [(4, 5, 6)] * 4, "b": [(1, 2, 3)] * 12}, messages=1_000)
    async with watching_runs(cluster, tmp_path, size=LARGE) as watch:
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


async def test_a_plan_for_a_broker_may_join_the_live_run(tmp_path: Path) -> None:
    async with watching_run(
        a_quiet_cluster("a-0", messages=1_000_000), tmp_path, moved("a-0"), size=LARGE
    ) as watch:
        await at_broker(watch, 4)
        await watch.press("m", "d")
        assert isinstance(watch.app.screen, AddScreen)
        assert field(watch, "#plan-brokers").value == "4"


async def test_what_comes_to_a_broker_or_leaves_it_is_paused_continued_and_cancelled(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(
        {"a": [(1, 2, 3), (1, 2, 3)], "b": [(1, 2, 3)]}, messages=1_000_000, copied_s=1_000
    )
    plan = {**moved("a-0", "a-1", target=(4, 2, 3)), **moved("b-0", target=(5, 2, 3))}
    async with watching_run(cluster, tmp_path, plan, size=LARGE) as watch:
        run = watch.attached.run

        def paused() -> set[TopicPartition]:
            return {*run.pauses.partitions}

        await at_broker(watch, 4)
        await watch.press("m")
        assert "submit nothing more of 2 partitions of run drain-3" in watch.line("p  pause")
        await watch.press("p")
        await watch.say("Pause what comes to broker 4 or leaves it?")
        assert not paused()
        await watch.press("y")
        await watch.pass_until("pause broker 4")
        assert paused() == {tp("a-0"), tp("a-1")}

        await watch.press("m", "g")
        await watch.say("Let go on again what comes to broker 4")
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

        await watch.press("up", "up", "up", "m", "x")
        await watch.say("broker 1")


async def test_the_status_says_what_a_broker_holds_and_why_as_the_shell_does(
    tmp_path: Path,
) -> None:
    async with watching_run(
        a_quiet_cluster("a-0", "a-1", messages=1_000_000), tmp_path, moved("a-0")
    ) as watch:
        await at_broker(watch, 1)
        await watch.press("s")
        await watch.say("holds 2 replicas")
        assert "broker 1: alive" in watch.text
        told = joined_words(" ".join(watch.dialog))
        assert "1 in the plan of run drain-3, to leave, 1 in no plan" in told
        assert "1 of them stays unless a plan takes it away" in told
        assert "proven to be current" in told
        assert "ktui broker remove 1" in told
        await watch.press("escape")
        assert isinstance(watch.app.screen, BrokersScreen)


async def test_a_status_longer_than_the_terminal_scrolls_with_its_keys_in_sight(
    tmp_path: Path,
) -> None:
    names = [f"{letter}-0" for letter in "abcdefgh"]
    async with watching_runs(a_quiet_cluster(*names), tmp_path, size=SMALL) as watch:
        await at_broker(watch, 1)
        await watch.press("s")
        await watch.say("holds 8 replicas")
        assert "ktui broker remove 1" not in watch.text
        assert "esc back ─" in watch.lines[-1]
        await watch.press("pagedown")
        await watch.say("ktui broker remove 1")


async def test_a_broker_is_called_empty_only_once_that_is_proven(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0")
    async with watching_runs(cluster, tmp_path, size=SMALL) as watch:
        await at_broker(watch, 5)
        await watch.pass_until("✓ empty, as proven at")
        assert row(watch, 5).split()[1] == "empty"
        assert row(watch, 6).split()[1] == "alive"  # nothing is counted there, or proven
        await watch.press("s")
        await watch.say("✓ empty: it holds no replica, and none is being moved to it")
        await watch.press("escape")
        # no longer, as soon as something comes
        await watch.do(layout.Alter({tp("a-0"): (1, 2, 5)}))
        await watch.see()
        assert row(watch, 5).split()[1] == "alive"


async def test_a_read_only_view_shows_the_status_and_says_why_it_changes_nothing(
    tmp_path: Path,
) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path, write=False, size=SMALL) as watch:
        await at_broker(watch, 1)
        assert "m manage" not in watch.lines[-1]
        assert "s status" in watch.lines[-1]
        await watch.press("m")
        await watch.say("This view is read-only; open it with ktui watch --write")
        assert isinstance(watch.app.screen, BrokersScreen)
        await watch.press("s")
        await watch.say("holds 1 replica")
        await watch.press("escape", "colon")
        await watch.type("broker cordon 1")
        await watch.press("enter")
        await watch.say("! This view is read-only")


async def test_the_command_line_has_the_verbs_of_a_broker_and_its_plans(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", "a-1")
    async with watching_runs(cluster, tmp_path, size=LARGE) as watch:

        async def command(line: str) -> None:
            await watch.press("colon")
            await watch.type(line)
            await watch.press("enter")

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
