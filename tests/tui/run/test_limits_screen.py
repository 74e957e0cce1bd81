from __future__ import annotations

from pathlib import Path

import pytest

from ktui.pacing.limits import Limits, Shape
from ktui.tui.screens.forms import LimitInput
from support.views.running import a_quiet_cluster, moved, watching_run
from support.views.watching import LARGE, MIDDLE, SMALL

NAMES = ("a-0", "a-1", "a-2", "a-3")


async def test_the_limits_in_force_are_shown_beside_what_is_in_flight(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, per_broker=3)
    cluster = a_quiet_cluster(*NAMES, messages=100_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits) as watch:
        await watch.press("l")
        assert watch.dialog_line("P partitions").split()[2:4] == ["2", "2"]
        assert watch.dialog_line("B per broker").split()[3:][:4] == ["3", "1", "on", "broker"]
        assert watch.dialog_line("L leader movements").split()[3:5] == ["none", "0"]
        assert "gentle" in watch.dialog_line("shape")
        assert "Binds at the next step: 2 steps in flight stay as they are." in watch.text


async def test_what_is_in_flight_is_counted_by_rack(tmp_path: Path) -> None:
    racks = {broker: f"r{broker}" for broker in range(1, 10)}
    cluster = a_quiet_cluster(*NAMES, messages=100_000, racks=racks)
    limits = Limits(replicas=1, partitions=2)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits) as watch:
        await watch.press("l")
        assert watch.dialog_line("Z per rack").split()[3:][:4] == ["none", "2", "in", "rack"]


async def test_several_limits_are_changed_at_once_and_one_is_lifted(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("l")
        await watch.type("2")
        await watch.press("down")
        await watch.type("none")
        await watch.press(*["down"] * 11)
        await watch.type("kip-435")
        await watch.press("enter", "enter")  # twice, as P is lifted
        await watch.pass_until("in force: they bind")
        assert watch.app.attached is not None
        assert watch.app.attached.run.limits == Limits(replicas=2, shape=Shape.KIP_435)


async def test_a_limit_of_the_other_shape_is_refused_at_its_field(tmp_path: Path) -> None:
    limits = Limits(replicas=1, shape=Shape.KIP_435)
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0"), limits) as watch:
        await watch.press("l", *["down"] * 10)
        await watch.type("2")
        assert "! E extra replicas: it has no effect in shape kip-435" in watch.text


async def test_a_run_in_shape_whole_keeps_it_while_other_limits_change(tmp_path: Path) -> None:
    limits = Limits(partitions=1, shape=Shape.WHOLE)
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits) as watch:
        await watch.press("l")
        assert watch.dialog_line("shape").split()[1] == "whole"
        await watch.press("down")
        await watch.type("3")
        await watch.press("enter")
        await watch.pass_until("in force: they bind")
        assert watch.app.attached is not None
        assert watch.app.attached.run.limits == Limits(partitions=3, shape=Shape.WHOLE)


async def test_new_limits_bind_at_the_next_decision_and_the_view_reports_it(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), size=LARGE) as watch:
        await watch.press("l", "down")
        await watch.type("3")
        await watch.press("enter")
        await watch.say("Requested; it takes effect at the next decision.")
        # those that are not in force yet are shown beside those that are
        watch.app.refresh_run()
        await watch.pilot.pause()
        assert "1 > 3" in watch.dialog_line("P partitions")
        assert "P 1 (3 at the next step)" in watch.line("limits  R")

        await watch.pass_until("in force: they bind from decision 2 on; 1 in flight stay")
        assert watch.dialog_line("P partitions").split()[2] == "3"
        await watch.press("escape")
        await watch.pass_until("P 3")
        await watch.press("e")
        assert "limits: P 1 -> 3" in watch.text


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_every_limit_is_on_the_screen_and_bad_input_is_named_at_its_field(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0"), size=size) as watch:
        await watch.press("l")
        for letter in "RPLMBECZ":
            assert any(line.split()[:1] == [letter] for line in watch.dialog)
        # the line below explains the limit that is typed
        assert "R replicas: replicas of one partition added at once." in watch.text
        await watch.press("pagedown")
        await watch.see()
        assert "Binds at the next step" in watch.text
        await watch.press("up")
        assert "internal: first or last or none" in watch.text

        field = watch.app.screen.query_one("#new-partitions", LimitInput)
        field.focus()
        for typed, words in (
            ("x", "'x' is not a whole number. Use a whole number from 1, or none to lift"),
            ("0", "0 is too small"),
            ("-1", "'-1' is not a whole number"),
        ):
            field.value = ""
            await watch.type(typed)
            await watch.press("enter")
            await watch.see()
            assert words in " ".join(" ".join(watch.dialog).split())
            assert "! P partitions:" in watch.text
            assert "P!partitions" in watch.text
            assert watch.app.attached is not None
            assert watch.app.attached.status.coming is None
        await watch.press("escape")
        assert "step 1/4" in watch.text


async def test_limits_of_one_broker_are_shown_and_an_undo_in_the_dialog_takes_them_back(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press(":")
        await watch.type("limits --broker 3 B=1 S=2")
        await watch.press("enter")
        await watch.pass_until("B none (broker 3: 1)")
        await watch.press("l")
        assert "Limits of one broker alone: broker 3: B 1, S 2." in watch.text
        await watch.press("ctrl+z")
        assert "B none (broker 3: 1) -> none" in watch.text
        await watch.press("enter")
        await watch.pass_until("in force: they bind")
        assert "Undoes your change" not in watch.text
        assert watch.app.attached is not None
        assert watch.app.attached.run.limits.brokers == ()


async def test_limits_already_in_force_are_not_requested_again(tmp_path: Path) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.press("l", "down", "1", "enter")
        assert "These limits are in force already." in watch.text
        await watch.press("escape")
        # without an engine it says what to do first
        await watch.engines.aclose()
        await watch.see()
        await watch.press("l", "2", "enter")
        assert "Resume it first: ktui resume drain-3" in watch.text


async def test_each_limit_that_would_change_is_shown_as_old_and_new_before_enter(
    tmp_path: Path,
) -> None:
    async with watching_run(a_quiet_cluster("a-0"), tmp_path, moved("a-0")) as watch:
        await watch.press("l", "2", "down", "1", *["down"] * 13)
        await watch.type("size-asc")
        assert "1 -> 2" in watch.dialog_line("R replicas")
        assert "->" not in watch.dialog_line("P partitions")  # as it was
        assert "->" not in watch.dialog_line("shape")
        assert "topic -> size-asc" in watch.dialog_line(" order")


@pytest.mark.parametrize(
    ("keys", "words"), [((), "R 1 -> 25"), (("down",), "P 1 -> 25"), (("down",) * 4, "B 2 -> none")]
)
async def test_a_count_raised_fivefold_or_lifted_wants_a_second_enter(
    tmp_path: Path, keys: tuple[str, ...], words: str
) -> None:
    limits = Limits(replicas=1, partitions=1, per_broker=2)
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES), limits) as watch:
        await watch.press("l", *keys)
        await watch.type(words.rsplit(maxsplit=1)[-1])
        await watch.press("enter")
        await watch.see()
        assert f"{words} lets far more move at once. Press enter again to apply it." in watch.text
        assert watch.app.attached is not None
        assert watch.app.attached.status.coming is None
        assert watch.app.attached.run.limits == limits
        await watch.press("enter")
        await watch.pass_until("in force: they bind")
        assert watch.app.attached.run.limits != limits


async def test_a_count_raised_less_than_fivefold_wants_one_enter(tmp_path: Path) -> None:
    cluster = a_quiet_cluster(*NAMES, messages=50_000)
    async with watching_run(cluster, tmp_path, moved(*NAMES)) as watch:
        await watch.press("l", "down", "4", "enter")
        await watch.pass_until("in force: they bind")
