"""The command line, the dashboard, help and keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import Limits, Mode
from ktui.progress.timeline import Phase
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.screens.brokers.screen import BrokersScreen
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.model import MAP_CELLS, MapModel, MapState
from ktui.tui.screens.help import HelpScreen
from ktui.tui.screens.watch.words import RowContext
from ktui.tui.widgets import services
from support.simulated.moving_clusters import a_cluster, move
from support.views.screens import BEGAN_S, timeline
from support.views.watching import (
    LARGE,
    MIDDLE,
    SMALL,
    Watching,
    a_quiet_cluster,
    moved,
    watching,
    watching_moves,
    watching_run,
)

NAMES = ("a-0", "a-1", "b-0", "b-1")


def a_cluster_of_four() -> SimulatedCluster:
    return a_quiet_cluster(*NAMES, messages=100_000)


async def command(watch: Watching, line: str) -> None:
    await watch.press("colon")
    await watch.submit(line)


async def test_limits_and_throttle_are_changed_as_in_the_shell() -> None:
    async with watching_run(a_cluster_of_four(), moved(*NAMES), size=SMALL) as watch:
        await command(watch, "limits P=3 --mode wave")
        await watch.pass_until("limits: in force: they bind")
        run = watch.attached.run
        assert run.limits == Limits(replicas=1, partitions=3, mode=Mode.WAVE)

        await command(watch, "throttle 80MB,3=20MB")
        await watch.pass_until("throttle 80 MB/s")
        assert watch.attached.run.throttled.rates.every == 80_000_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("limits P=0", "--partitions: 0 is too small. Use a whole number from 1"),
        ("limits --partition 3", "No such option"),
        ("schedule", "schedule: nothing to change. Give --window, --start-at, --while or --by"),
        ("schedule --window 22", "--window: '22' is not a window. Give it such as 22:00-05:00"),
        ("throttle fast", "RATE: 'fast': expected a rate such as 50MB/s"),
        ("cancel a-0", "none of --stop, --rollback, --trim was given. Give one of them"),
        ("cancel --stop", "no scope was given. Give --topic T"),
        ("cancel a-9 --stop", "run drain-3 does not have topic 'a-9'"),
        ("cancel a-0 --stop --json", "No such option"),
        ("pause --partition a", "expected TOPIC:NUMBER, such as orders:3"),
        ("filter broker:x", "broker:x is not a number"),
        ("view topics", "there is no view 'topics'. Use run or reassigning or unhealthy"),
        ("sort size", "there is no order 'size'. Use state or partition"),
        ("theme pink", "there is no theme 'pink'. Use colour-blind or dark"),
        ("trottle 5MB", "unknown command 'trottle'. Did you mean throttle?"),
        ("pause 'a-0", "A quote is not closed."),
    ],
)
async def test_what_the_shell_refuses_is_refused_below_the_line_which_stays(
    line: str, problem: str
) -> None:
    async with watching_run(a_cluster_of_four(), moved(*NAMES)) as watch:
        await command(watch, line)
        assert problem in " ".join(watch.text.split())
        assert f":{line}" in watch.text
        await watch.press("backspace")
        assert problem not in " ".join(watch.text.split())


async def test_a_run_that_waits_for_its_window_says_until_when_and_can_be_let_go_on() -> None:
    async with watching_moves(*NAMES) as watch:
        await command(watch, "schedule --start-at 2030-01-01T22:00Z")
        await watch.pass_until("WAITING")
        shown = f"{datetime(2030, 1, 1, 22, tzinfo=UTC).astimezone():%Y-%m-%d %H:%M}"
        assert f"the run starts at {shown}" in watch.text
        await command(watch, "schedule --start-at none")
        await watch.pass_until("RUNNING")


async def test_a_cancel_is_shown_before_it_is_sent_and_a_pause_is_asked_first() -> None:
    async with watching_run(a_cluster_of_four(), moved(*NAMES)) as watch:
        await command(watch, "cancel a-0 b --rollback")
        assert "● b, a-0 (3 partitions)" in watch.text
        assert "● roll back" in watch.text
        await watch.press("escape")

        await command(watch, "pause")
        assert "Pause run drain-3?" in watch.text
        await watch.press("y")
        await watch.pass_until("PAUSED")
        await command(watch, "continue")
        assert "Let run drain-3 go on?" in watch.text
        await watch.press("y")
        await watch.pass_until("RUNNING")

        await command(watch, "pause a-1")
        await watch.pass_until("pause: ")
        assert {str(tp) for tp in watch.attached.run.pauses.partitions} == {"a-1"}


async def test_a_read_only_view_changes_no_run_and_still_filters_and_sorts() -> None:
    targets = moved(*NAMES)
    async with watching_run(a_cluster_of_four(), targets, write=False) as watch:
        await command(watch, "throttle 80MB")
        assert "! This view is read-only" in watch.text
        await watch.press("escape", "enter")  # in the detail
        await command(watch, "filter b-")
        assert watch.rows == ["b-0", "b-1"]
        await command(watch, "sort partition reverse")
        assert watch.rows == ["b-1", "b-0"]
        await command(watch, "view reassigning")
        assert "reassigning ·" in watch.text
        await command(watch, "theme light")
        assert watch.app.theme == "light"


async def test_tab_completes_and_up_brings_back_earlier_lines() -> None:
    async with watching_run(a_cluster_of_four(), moved(*NAMES)) as watch:
        await watch.press("colon")
        assert "brokers cancel continue events filter" in watch.text
        await watch.type("canc")
        await watch.press("tab")
        await watch.type("b-0 --st")
        await watch.press("tab")
        assert ":cancel b-0 --stop" in watch.text
        await watch.press("enter", "escape")

        await command(watch, "sort lag")
        await watch.press("colon", "up")
        assert ":sort lag" in watch.text
        await watch.press("up")
        assert ":cancel b-0 --stop" in watch.text
        await watch.press("down", "down")
        assert ":sort" not in watch.text


DASHBOARD_NAMES = ("audit-0", *(f"orders-{n}" for n in range(4)))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
async def test_the_dashboard_shows_flow_brokers_the_run_and_every_partition(
    size: tuple[int, int],
) -> None:
    limits = Limits(replicas=3, partitions=2)
    run = watching_moves(
        *DASHBOARD_NAMES, limits=limits, throttle="2MB", messages=60_000, size=size
    )
    async with run as watch:
        await watch.pass_time(30)
        await watch.press_and_see("d")

        assert "copied into all brokers 3.0 MB/s · last 1 minute" in watch.text
        assert "1.0/2.0 MB/s" in watch.line("4  ▕")
        assert "RUNNING" in watch.text
        assert "▒ 2 copying  · 3 queued" in watch.line("partitions 5")
        assert "▒ 1 copying  · 3 queued" in watch.line("orders  ")

        await watch.press("home", "down", "down", "down", "right", "right")
        assert "orders-2  queued" in watch.text
        await watch.press("enter")
        assert "orders-2" in watch.lines[1]
        await watch.press("escape", "escape")
        assert "run drain-3" in watch.text


async def test_trouble_has_a_sign_and_a_key_that_goes_to_it() -> None:
    names = [f"orders-{n}" for n in range(6)]
    cluster = a_cluster(moving=names, messages=10**6)
    async with watching(cluster) as watch:
        await watch.press("d")
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)

        assert "! 6 stalled" in watch.line("partitions 6")
        await watch.press("w")
        assert "orders-1  STALLED" in watch.text
        await watch.press("space")
        assert "the worst of 6 in orders:  ! orders-0  STALLED" in watch.text
        await watch.press("w")  # shows the cells again
        assert "▾ orders" in watch.text


async def test_the_dashboard_begins_at_the_first_trouble() -> None:
    names = ["audit-0", *(f"orders-{n}" for n in range(3))]
    cluster = a_quiet_cluster(*names, messages=10**6)
    cluster.do(move("audit-0", 1, 2, 5))
    cluster.do(move("orders-1", 1, 2, 4))
    async with watching(cluster) as watch:
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)
        await watch.press_and_see("d")
        assert "orders-1  STALLED" in watch.text


async def test_an_empty_dashboard_says_what_it_waits_for() -> None:
    async with watching(a_cluster(resting=["orders-0"])) as watch:
        await watch.press("d")

        assert "Nothing is being reassigned" in watch.text
        await watch.press("enter")
        assert "There is no partition to open." in watch.text


async def test_a_click_puts_the_cursor_on_a_partition() -> None:
    async with watching_moves(*DASHBOARD_NAMES) as watch:
        await watch.press("d")
        shown = watch.app.screen.query_one(PartitionMap)
        size = shown.model.size
        await watch.pilot.click(shown, offset=(4 + 3 * size.columns, 2 + size.lines))
        assert shown.partition == TopicPartition("orders", 3)


async def test_a_topic_is_folded_and_unfolded_by_key_and_by_mouse() -> None:
    async with watching_moves(*DASHBOARD_NAMES) as watch:
        await watch.press("d")
        shown = watch.app.screen.query_one(PartitionMap)
        await watch.press("end")
        assert shown.partition == TopicPartition("orders", 0)
        await watch.press("space")
        assert "▸ orders" in watch.text
        assert "the worst of 4 in orders:  · orders-0  queued" in watch.text
        await watch.press("space", "down")
        assert shown.partition == TopicPartition("orders", 0)
        await watch.pilot.click(shown, offset=(2, 0))
        assert "▸ audit" in watch.text


async def test_many_partitions_are_judged_beside_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FEW", 0)
    cluster = a_cluster(moving=[f"orders-{n}" for n in range(6)], messages=10**6)
    async with watching(cluster) as watch:
        await watch.press("d")
        shown = watch.app.screen.query_one(PartitionMap)
        await watch.until(lambda: "▓ 6 moving" in watch.text)
        await watch.press("right", "right")
        await watch.do(layout.Kill(4))
        await watch.pass_time(60)
        await watch.until(lambda: not shown.judging)

        assert "! 6 stalled" in watch.line("partitions 6")
        assert shown.partition == TopicPartition("orders", 2)


def test_each_state_has_a_sign_of_its_own() -> None:
    assert len({cell.glyph for cell in MAP_CELLS.values()}) == len(MapState)


def a_map(topics: int, each: int, width: int, height: int) -> MapModel:
    """A map of partitions of which nothing is wrong."""
    tps = [TopicPartition(f"t{topic:04}", n) for topic in range(topics) for n in range(each)]
    model = MapModel()
    model.fit(width, height)
    model.update(dict.fromkeys(tps, timeline(tps[0])), RowContext(BEGAN_S))
    return model


@pytest.mark.parametrize(("topics", "each"), [(5, 20_000), (1_000, 100), (1, 100_000)])
def test_a_hundred_thousand_partitions_fit_on_a_screen_folded(topics: int, each: int) -> None:
    model = a_map(topics, each, 100, 20)
    assert model.height <= 20
    assert sum(model.counts.values()) == topics * each
    assert sum(group.partitions for group in model.groups) == topics * each
    # each of them is found, folded and unfolded, and a heading has all of its topics
    for tp in (TopicPartition("t0000", 7), TopicPartition(f"t{topics - 1:04}", each - 1)):
        place = model.place_of(tp)
        assert place is not None
        if model.lines[place[0]].heading:
            model.fold(place[0])
        place = model.place_of(tp)
        assert place is not None
        assert model.partition(*place) == tp


def test_where_not_all_cells_fit_those_of_topics_that_move_are_shown() -> None:
    going, model = TopicPartition("going", 7), MapModel()
    tps = [TopicPartition(topic, n) for topic in ("at-rest", "going") for n in range(50)]
    seen = {tp: timeline(tp, phase=Phase.MOVING if tp == going else Phase.SETTLED) for tp in tps}
    model.fit(60, 3)
    model.update(seen, RowContext(BEGAN_S))
    assert [(group.name, group.folded) for group in model.groups] == [
        ("at-rest", True), ("going", False),
    ]  # fmt: skip


def test_cells_grow_with_the_room_that_there_is() -> None:
    sizes = [a_map(4, 9, 100, height).size for height in (8, 12, 16, 24, 60)]
    assert sizes == sorted(sizes)
    assert sizes[0].columns >= 2
    assert sizes[-1].lines >= 5
    for height in (8, 12, 16, 24, 60):
        assert a_map(4, 9, 100, height).height <= height


def _subtitle(watch: Watching) -> str:
    return watch.lines[-2]


@pytest.mark.parametrize(
    ("keys", "title"),
    [((), "list of partitions"), (("b",), "brokers"), (("e",), "events"), (("d",), "dashboard")],
)
async def test_the_help_opens_at_the_keys_of_the_screen(keys: tuple[str, ...], title: str) -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press(*keys, "question_mark")
        assert f"{title} (this screen)" in watch.lines[3]
        assert "/ search · esc close" in watch.text


async def test_the_help_is_searched_and_its_matches_are_walked() -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press("question_mark", "slash")
        await watch.type("broker")
        assert "match 1 of " in watch.text
        await watch.press("down")
        assert "match 2 of " in watch.text
        await watch.press("up", "enter", "n", "enter")
        assert "match 3 of " in watch.text
        await watch.press("N")
        assert "match 2 of " in watch.text
        # before the first comes the last
        await watch.press("N", "N")
        assert " of " in watch.text
        total = watch.text.split("match ")[1].split()
        assert total[0] == total[2]
        await watch.press("escape")
        assert "/ search" in watch.text
        await watch.press("escape")
        assert not isinstance(watch.app.screen, HelpScreen)


async def test_a_match_far_below_comes_into_view_and_one_that_is_not_there_is_reported() -> None:
    async with watching(a_cluster(), SMALL) as watch:
        await watch.press("question_mark", "slash")
        assert "the topic is gone" not in watch.text
        await watch.type("topic gone")
        await watch.until(lambda: "the topic is gone" in watch.text)
        await watch.type(" nowhere")
        assert "no match · esc clear" in watch.text


KEYMAP = {
    "app.brokers": "B,f5",
    "app.help": "h",
    "app.resume": "ctrl+e",
    "app.cancel": "exclamation_mark",
    "watch.unfold": "w",
}


async def test_mapped_keys_act_in_place_of_the_usual_ones_and_are_named_everywhere() -> None:
    async with watching(a_cluster(moving=["a-0"]), MIDDLE, keymap=KEYMAP) as watch:
        footer = watch.lines[-1]
        assert "B brokers" in footer
        assert "h help" in footer
        await watch.press("b")
        assert not isinstance(watch.app.screen, BrokersScreen)
        await watch.do(layout.Kill(4))
        await watch.pass_time(20)
        assert "broker 4 down" in watch.lines[1]
        assert "(B)" in watch.lines[1]
        assert watch.lines[-1].strip().startswith("B brokers · ↵ detail   ")
        await watch.press("h", "slash")
        await watch.type("traffic, disks")
        assert "B f5" in watch.line("Show the brokers: traffic, disks")
        await watch.press("escape", "escape", "B")
        assert isinstance(watch.app.screen, BrokersScreen)
        await watch.press("escape", "ctrl+p")
        await watch.type("brokers")
        await watch.until(lambda: "(B f5)" in watch.text)


async def test_the_trouble_line_names_the_mapped_keys() -> None:
    async with watching_moves("a-0", keymap=KEYMAP) as watch:
        await watch.kill_engine()
        assert "(ctrl+e resume, ! call off)" in watch.lines[1]
        assert watch.lines[-1].strip().startswith("ctrl+e resume · ! call off   ")


async def test_the_line_of_folded_partitions_names_the_mapped_key() -> None:
    names = [f"a-{number}" for number in range(60)]  # rows that fit are not folded
    async with watching_moves(*names, keymap=KEYMAP) as watch:
        await watch.see()
        assert "w shows the rows" in watch.line("▸ queued")
