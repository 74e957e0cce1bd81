"""The screens of limits, throttle and notes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.widgets import Input

from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.host.client import RunClient
from ktui.pacing.limits import Limits, Shape
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.screens.forms import LimitInput, RateInput
from ktui.tui.screens.run.change_screen import ThrottleScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.runs.throttled import set_rate
from support.views.watching import (
    ELSEWHERE,
    LARGE,
    MIDDLE,
    SMALL,
    RunWatched,
    a_quiet_cluster,
    moved,
    watching_moves,
    watching_run,
    watching_runs,
)

NAMES = ("a-0", "a-1", "a-2", "a-3")


async def test_the_limits_in_force_are_shown_beside_what_is_in_flight() -> None:
    limits = Limits(replicas=1, partitions=2, per_broker=3)
    async with watching_moves(*NAMES, limits=limits, messages=100_000) as watch:
        await watch.press("l")
        assert watch.dialog_line("P partitions").split()[2:5] == ["2", "keep", "2"]
        of_broker = watch.dialog_line("B per broker").split()[3:]
        assert of_broker[:5] == ["3", "keep", "1", "on", "broker"]
        assert watch.dialog_line("L leader movements").split()[3:6] == ["none", "keep", "0"]
        assert "gentle" in watch.dialog_line("shape")
        assert "Binds at the next step: 2 steps in flight stay as they are." in watch.text


async def test_what_is_in_flight_is_counted_by_rack() -> None:
    racks = {broker: f"r{broker}" for broker in range(1, 10)}
    limits = Limits(replicas=1, partitions=2)
    async with watching_moves(*NAMES, limits=limits, messages=100_000, racks=racks) as watch:
        await watch.press("l")
        assert re.search(r"none +keep +2 in r\d", watch.dialog_line("Z per rack"))


async def test_several_limits_are_changed_at_once_and_one_is_lifted() -> None:
    async with watching_moves(*NAMES, messages=50_000) as watch:
        await watch.press("l")
        await watch.type("2")
        await watch.press("down")
        await watch.type("none")
        await watch.press(*["down"] * 11)
        await watch.type("kip-435")
        await watch.press("enter", "enter")  # twice, as P is lifted
        await watch.pass_until("in force: they bind")
        assert watch.attached.run.limits == Limits(replicas=2, shape=Shape.KIP_435)


async def test_a_limit_of_the_other_shape_is_refused_at_its_field() -> None:
    limits = Limits(replicas=1, shape=Shape.KIP_435)
    async with watching_moves("a-0", limits=limits) as watch:
        await watch.press("l", *["down"] * 10)
        await watch.type("2")
        assert "! E extra replicas: it has no effect in shape kip-435" in watch.text


async def test_a_run_in_shape_whole_keeps_it_while_other_limits_change() -> None:
    limits = Limits(partitions=1, shape=Shape.WHOLE)
    async with watching_moves(*NAMES, limits=limits, messages=50_000) as watch:
        await watch.press("l")
        assert watch.dialog_line("shape").split()[1] == "whole"
        await watch.press("down")
        await watch.submit("3")
        await watch.pass_until("in force: they bind")
        assert watch.attached.run.limits == Limits(partitions=3, shape=Shape.WHOLE)


async def test_new_limits_bind_at_the_next_decision_and_the_view_reports_it() -> None:
    async with watching_moves(*NAMES, messages=50_000, size=LARGE) as watch:
        await watch.press("l", "down")
        await watch.submit("3", "Requested; it takes effect at the next decision.")
        # those that are not in force yet are shown beside those that are
        watch.app.refresh_run()
        await watch.pilot.pause()
        assert "1 > 3" in watch.dialog_line("P partitions")
        assert "P 1 partition (3 at the next step)" in watch.line("limits  R")

        await watch.pass_until("in force: they bind from decision 2 on; 1 in flight stay")
        assert watch.dialog_line("P partitions").split()[2] == "3"
        await watch.press("escape")
        await watch.pass_until("P 3")
        await watch.press("e")
        assert "limits: P 1 -> 3" in watch.text


async def test_a_question_mark_in_a_field_explains_the_words_and_is_not_typed() -> None:
    async with watching_moves("a-0", size=SMALL) as watch:
        for key, words in (("l", "limits of run"), ("t", "throttle of run")):
            await watch.press(key, "question_mark")
            assert "words and limits" in watch.text
            assert "leader epoch" in watch.text
            await watch.press("escape")
            assert words in watch.text
            assert watch.app.screen.query(Input).first().value == ""
            await watch.press("escape")


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_every_limit_is_on_the_screen_and_bad_input_is_named_at_its_field(
    size: tuple[int, int],
) -> None:
    async with watching_moves("a-0", size=size) as watch:
        await watch.press("l")
        for letter in "RPLMBECZ":
            assert any(line.split()[:1] == [letter] for line in watch.dialog)
        # the line below explains the limit that is typed
        assert "R replicas: replicas of one partition added at once." in watch.text
        await watch.press_and_see("pagedown")
        assert "Binds at the next step" in watch.text
        await watch.press("up")
        assert "internal: first, last or none" in watch.text

        field = watch.app.screen.query_one("#new-partitions", LimitInput)
        field.focus()
        for typed, words in (
            ("x", "'x' is not a whole number. Use a whole number from 1, or none to lift"),
            ("0", "0 is too small"),
            ("-1", "'-1' is not a whole number"),
        ):
            field.value = ""
            await watch.submit(typed)
            await watch.see()
            assert words in " ".join(" ".join(watch.dialog).split())
            assert "! P partitions:" in watch.text
            assert "P!partitions" in watch.text
            assert watch.attached.status.coming is None
        await watch.press("escape")
        assert "step 1/4" in watch.text


async def test_limits_of_one_broker_are_shown_and_an_undo_in_the_dialog_takes_them_back() -> None:
    async with watching_moves(*NAMES, messages=50_000) as watch:
        await watch.press(":")
        await watch.submit("limits --broker 3 B=1 S=2")
        await watch.pass_until("B none (broker 3: 1)")
        await watch.press("l")
        assert "Limits of one broker alone: broker 3: B 1, S 2." in watch.text
        await watch.press("ctrl+z")
        assert "B none (broker 3: 1) -> none" in watch.text
        await watch.press("enter")
        await watch.pass_until("in force: they bind")
        assert "Undoes your change" not in watch.text
        assert watch.attached.run.limits.brokers == ()


async def test_limits_already_in_force_are_not_requested_again() -> None:
    async with watching_moves("a-0") as watch:
        await watch.press("l", "down", "1", "enter")
        assert "These limits are in force already." in watch.text
        await watch.press("escape")
        # without an engine it says what to do first
        await watch.kill_engine()
        await watch.press("l", "2", "enter")
        assert "Resume it first: ktui resume drain-3" in watch.text


async def test_each_limit_that_would_change_is_shown_as_old_and_new_before_enter() -> None:
    async with watching_moves("a-0") as watch:
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
    keys: tuple[str, ...], words: str
) -> None:
    limits = Limits(replicas=1, partitions=1, per_broker=2)
    async with watching_moves(*NAMES, limits=limits, messages=50_000) as watch:
        await watch.press("l", *keys)
        await watch.submit(words.rsplit(maxsplit=1)[-1])
        await watch.see()
        assert f"{words} lets far more move at once. Press enter again to apply it." in watch.text
        assert watch.attached.status.coming is None
        assert watch.attached.run.limits == limits
        await watch.press("enter")
        await watch.pass_until("in force: they bind")
        assert watch.attached.run.limits != limits


async def test_a_count_raised_less_than_fivefold_wants_one_enter() -> None:
    async with watching_moves(*NAMES, messages=50_000) as watch:
        await watch.press("l", "down", "4", "enter")
        await watch.pass_until("in force: they bind")


THROTTLE_SCREEN_NAMES = ("a-0", "a-1")
TOGETHER = Limits(replicas=1, partitions=2)
WRITTEN_S = 2_000
"""Messages a second written to each partition: 2 MB/s."""


def a_written_cluster(**how: Any) -> SimulatedCluster:
    return a_quiet_cluster(
        *THROTTLE_SCREEN_NAMES,
        **{"messages": 200_000, "inbound_s": WRITTEN_S, "copied_s": 50_000, **how},
    )


def throttled(throttle: str = "1MB", **how: Any) -> Any:
    return watching_run(
        how.pop("cluster", None) or a_written_cluster(),
        moved(*THROTTLE_SCREEN_NAMES),
        TOGETHER,
        throttle,
        **how,
    )


async def rates_of(watch: RunWatched) -> dict[str, str]:
    """Return the rates that are set on brokers."""
    resources = [ConfigResource(ConfigScope.BROKER, str(broker)) for broker in range(1, 10)]
    answer = await watch.cluster.reader().settings(resources, (FOLLOWER_RATE,))
    found = {
        r.name: configs[FOLLOWER_RATE].value for r, configs in answer.settings.items() if configs
    }
    return dict(sorted(found.items()))


async def test_many_brokers_can_be_paged_while_the_field_stays_visible() -> None:
    own = ",".join(f"{broker}=3MB" for broker in range(1, 10))
    async with throttled(f"20MB,{own}", size=SMALL) as watch:
        await watch.pass_time(3)
        await watch.press("t")
        assert "new throttle" in watch.text
        assert "Enter puts it in force at once" in watch.text
        assert "listed for it" not in watch.text
        await watch.press("pagedown", "pagedown")
        assert "listed for it" in watch.text
        await watch.press("pageup", "pageup")
        assert "fastest inbound" in watch.text


async def test_a_read_only_view_shows_the_throttle_and_why_it_cannot_be_changed() -> None:
    async with throttled("20MB", write=False) as watch:
        await watch.press("t")
        assert isinstance(watch.app.screen, ThrottleScreen)
        assert "throttle of run drain-3" in watch.text
        assert "in force: 20 MB/s into each broker" in watch.text
        assert "This view is read-only" in watch.text
        await watch.press("3", "enter", "escape")
        assert isinstance(watch.app.screen, WatchScreen)


async def test_the_throttle_key_without_a_run_reports_that_none_is_attached() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        await watch.press("t")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("No run is attached.")


async def test_a_run_without_an_engine_shows_the_remaining_throttle_and_how_to_resume_it() -> None:
    async with throttled("20MB", size=LARGE) as watch:
        await watch.kill_engine()
        assert "its throttle stays on broker 4 and topic a" in watch.line("limits")
        await watch.press("t", "3", "enter")
        assert "The run has no engine; its throttle may stay on broker 4" in watch.text
        assert "Resume it first: ktui resume drain-3" in watch.text


async def test_a_throttle_that_is_too_low_is_reported_and_a_new_one_takes_effect_at_once() -> None:
    async with throttled() as watch:
        await watch.pass_time(60)
        for size in (SMALL, LARGE, MIDDLE):
            await watch.resize(size)
            assert "‼ THROTTLE TOO LOW (t): 1.0 MB/s into broker 4, needs more than 4" in watch.text
            assert "needs more than" in watch.line("THROTTLE TOO LOW")
            assert watch.lines[-1].strip().startswith("t raise throttle   ")

        await watch.press("t")
        await watch.submit("30MB", "Requested; the brokers are set at the run's next poll.")
        await watch.pass_until("30 MB/s into each broker, at once; 2 steps in flight")
        assert await rates_of(watch) == {"4": "30000000"}
        await watch.press("escape")
        await watch.pass_until("throttle 30 MB/s into each broker")
        assert "THROTTLE TOO LOW" not in watch.text
        assert "raise" not in watch.lines[-1]


async def test_each_broker_row_shows_the_requested_current_and_previous_rate() -> None:
    cluster = a_written_cluster()
    cluster.configure([set_rate(4, 7_000_000)])
    async with throttled("20MB,5=3MB", cluster=cluster, size=MIDDLE) as watch:
        await watch.pass_time(20)
        await watch.press("t")
        assert "in force: 20 MB/s into each broker, 3.0 MB/s into" in watch.text
        row = watch.dialog_line("4       20 MB/s")
        assert row.split()[3:7] == ["20", "MB/s", "7.0", "MB/s"]
        assert "2.0 MB/s a-" in row
        assert "2 replicas listed for it, of topic a." in watch.text
        # a broker whose own rate is not typed again is named
        await watch.type("30MB")
        assert "Broker 5 would get 30 MB/s too" in watch.text


async def test_the_runs_own_rate_is_taken_again_after_somebody_else_has_set_another() -> None:
    cluster = a_written_cluster()
    async with throttled("20MB", cluster=cluster, size=MIDDLE) as watch:
        await watch.pass_time(20)
        cluster.configure([set_rate(4, 7_000_000)])
        await watch.pass_time(20)
        assert await rates_of(watch) == {"4": "7000000"}

        await watch.press("t")
        await watch.type("20MB")
        assert "This is in force already." not in watch.text
        await watch.press("enter")
        await watch.pass_until("20 MB/s into each broker, at once")

        assert await rates_of(watch) == {"4": "20000000"}


async def test_every_rate_is_restored_when_the_run_ends() -> None:
    cluster = a_written_cluster(messages=20_000)
    cluster.configure([set_rate(4, 7_000_000)])
    async with throttled("30MB", cluster=cluster, size=LARGE) as watch:
        await watch.pass_until("ENDED", most_s=600)
        assert await rates_of(watch) == {"4": "7000000"}
        # the detail tells when a partition was throttled, and when no more
        await watch.press("enter")
        assert "run drain-3: throttled on broker 4" in watch.text
        assert "run drain-3: throttled no more on broker 4" in watch.text


async def test_a_typed_throttle_is_assessed_before_it_is_requested() -> None:
    async with throttled("20MB", size=LARGE) as watch:
        await watch.pass_time(20)
        # the line of limits tells the throttle, and what comes in under it
        line = watch.line("limits")
        assert "throttle 20 MB/s into each broker" in line
        assert "b4 ▕" in line
        assert "▏ 20/20 MB/s" in line
        assert "fastest inbound 2.0 MB/s a-" in line

        await watch.press("t")
        field = watch.app.screen.query_one(RateInput)
        for typed, *configs in (
            ("3MB", "May be too low for the 2 copies onto broker 4"),
            ("1500kB", "Too low for a-"),
            (
                "9MB",
                "Everything in flight catches up under it",
                "Lowered: for up to 11 s, until Kafka",
            ),
            ("20MB", "This is in force already."),
            ("none", "Removes the throttle: earlier settings are restored."),
            ("20kB", "At 20 kB/s one fetch of 1 MiB takes 52 s"),
            ("20 apples", "! throttle: '20 apples'"),
            ("20MB,99=5MB", "! There is no broker 99 in the cluster, which has brokers 1, 2"),
            ("5=x", "! throttle: 'x'"),
        ):
            field.value = ""
            await watch.type(typed)
            for words in configs:
                assert words in watch.text
        await watch.press("enter")  # what cannot be is not asked for
        await watch.pass_time(3)
        assert "! throttle: 'x'" in watch.text
        field.value = ""
        await watch.type("50")
        await watch.press("enter")  # nor a rate under which no copy ends
        await watch.pass_time(3)
        assert "No copy in flight would end under it. Did you mean 50MB?" in watch.text
        assert "Asked for" not in watch.text
        assert watch.attached.run.throttled.rates.every == 20_000_000


COUNTS_NAMES = ("a-0", "a-1", "a-2")


async def test_what_is_ready_for_its_cut_is_counted_as_ready_and_nowhere_as_done() -> None:
    limits = Limits(replicas=3, replica_movements=6, cut_together=3)
    async with watching_moves(*COUNTS_NAMES, limits=limits, size=LARGE) as watch:
        await watch.pass_until("2 ready")
        assert "done 0/3  2 ready  1 copying" in watch.line("run drain-3  RUNNING")
        assert sum("ready" in watch.row(name) for name in COUNTS_NAMES) == 2
        await watch.press("d")
        assert "partitions 3  ▒ 1 copying  ▙ 2 ready ─" in watch.text
        assert "done 0/3  2 ready  1 copying" in watch.line("run drain-3  RUNNING")


async def test_a_cut_waits_for_no_more_partitions_than_the_plan_has() -> None:
    limits = Limits(replicas=3, replica_movements=6)
    async with watching_moves(*COUNTS_NAMES, limits=limits, size=LARGE) as watch:
        await watch.pass_until("drop waits: 2 of 3 ready")


async def test_copies_onto_a_broker_that_is_down_count_as_trouble_from_the_first_poll_on() -> None:
    limits = Limits(replicas=3)
    async with watching_moves(*COUNTS_NAMES, limits=limits, messages=50_000, size=LARGE) as watch:
        assert "3 copying" in watch.line("run drain-3")
        await watch.do(*map(layout.Kill, ELSEWHERE))
        await watch.pass_until("down", most_s=20)
        assert "3 held up" in watch.line("‼")
        assert "copying" not in watch.line("run drain-3")
        assert "held up" in watch.row("a-0")
        await watch.press("d")
        assert "□ 3 held up" in watch.text
        await watch.pass_until("3 STALLED", most_s=60)
        assert "held up" not in watch.text


PLAN = moved("orders-0", "orders-1")


async def test_a_note_is_written_by_a_key_and_shown_among_the_events() -> None:
    cluster = a_quiet_cluster("orders-0", "orders-1")
    async with watching_run(cluster, PLAN) as watch:
        await watch.press("e", "N")
        assert "note on run drain-3" in watch.text
        await watch.press(*"new disk", "enter")
        await watch.pass_until("note: new disk, by ")

        assert [each.event.text for each in RunClient(watch.run).read().run.notes] == ["new disk"]


async def test_a_read_only_view_writes_no_note_and_says_why() -> None:
    cluster = a_quiet_cluster("orders-0", "orders-1")
    async with watching_run(cluster, PLAN, write=False) as watch:
        await watch.press("e", "N")

        assert "This view is read-only" in watch.text
        assert RunClient(watch.run).read().run.notes == []
