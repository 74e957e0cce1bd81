from __future__ import annotations

import asyncio
from functools import cache

import msgspec
import pytest
from textual.containers import VerticalScroll

from ktui.cluster.broker import Broker, TopicConfig
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.timeline import (
    Cause,
    Event,
    LagHistory,
    Lane,
    Mark,
    Phase,
    Progress,
    Role,
    Stall,
    StallKind,
)
from ktui.tui.draw.themes import role_style
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.widgets.footer import FooterKeys
from support.views.screens import (
    BEGAN_S,
    BROKERS,
    HOSTILE,
    RAN_S,
    SHIPPED,
    SIZES,
    TP,
    Host,
    colour_of,
    history,
    hosted,
    line_with,
    observation,
    progress,
    text_of,
    timeline,
)

OTHERS = [TopicPartition("orders", 0), TP, TopicPartition("orders", 2)]


class ListHost(Host[DetailScreen]):
    """A host that knows an order of partitions, as the app does."""

    def neighbour(self, tp: TopicPartition, step: int) -> TopicPartition | None:
        at = OTHERS.index(tp) + step
        return OTHERS[at] if 0 <= at < len(OTHERS) else None


async def seen_at(size: tuple[int, int], seen: Progress) -> str:
    return await text_of(DetailScreen(TP), seen, size=size)


@cache
def drawn(size: tuple[int, int]) -> str:
    """The screen of a move under way; drawn once for all tests of it."""
    return asyncio.run(seen_at(size, progress(timeline())))


@pytest.mark.parametrize("size", SIZES)
def test_the_top_shows_the_partition_its_state_and_its_replicas_before_and_after(
    size: tuple[int, int],
) -> None:
    text = drawn(size)
    assert text.splitlines()[1].rstrip("─").split() == ["─", "orders-1", "·", "STALLED", "3m"]
    for words in (
        "dPqkT3xvRHqXw8mXb0yZ9A",
        "1, leader epoch 12",
        "1 2 3  (order not known)",
        "1 2 9 4",
    ):
        assert words in text
    assert "*1 2 +9! +4 -3" in text


@pytest.mark.parametrize("size", SIZES)
def test_each_broker_that_was_ever_a_replica_has_a_lane(size: tuple[int, int]) -> None:
    text = drawn(size)
    assert "═" * 27 in line_with(text, "*1     ")
    assert "━" * 27 in line_with(text, "in sync")
    assert "╌" * 25 in line_with(text, "to leave")
    assert "▁▁" in line_with(text, "+4     ")
    assert "!!!!" in line_with(text, "+9!    DOWN")


@pytest.mark.parametrize("size", SIZES)
def test_a_replica_that_catches_up_has_its_share_lag_rate_and_time_left(
    size: tuple[int, int],
) -> None:
    text = drawn(size)
    assert "87%" in line_with(text, "+4     ")
    line = line_with(text, "1.2 M msg, 3.2 GiB")
    assert "48 MB/s" in line
    assert "1m 12s (1m-1m 50s)" in line


async def test_figures_of_a_different_width_do_not_shift_the_lanes() -> None:
    lane = Lane(4, Role.ADDING, lag_messages=5, share=0.999, rate_bytes_s=9.0)
    short = timeline(lanes={4: msgspec.structs.replace(lane, history=history((99, 150)))})
    many, few = [
        line_with(await seen_at((120, 30), progress(seen)), "+4     ")
        for seen in (timeline(), short)
    ]
    assert many.index("┄") == few.index("█")


async def test_the_time_axis_of_a_finished_move_ends_with_it() -> None:
    end = observation(251)
    done = timeline(phase=Phase.DONE, ended_at=end.at)
    heading = line_with(await seen_at((80, 24), progress(done)), "role")
    assert heading.split()[-1] == f"{end.at.astimezone():%H:%M:%S}"


async def test_only_a_replica_that_catches_up_has_a_share() -> None:
    lanes = {1: Lane(1, Role.LEADER, share=1.0), 2: Lane(2, Role.IN_SYNC, share=1.0)}
    assert "100%" not in await seen_at((120, 30), progress(timeline(lanes=lanes)))


async def test_an_approximate_share_is_marked() -> None:
    lane = Lane(4, Role.ADDING, share=0.5, approximate=True, lag_bytes=2**30)
    text = await seen_at((120, 30), progress(timeline(lanes={4: lane})))
    assert "~50%" in line_with(text, "+4     ")
    assert "1.0 GiB" in line_with(text, "  lag ")


async def test_an_alarm_shows_its_cause_and_what_to_do() -> None:
    async with hosted(DetailScreen(TP), size=(200, 60)) as view:
        for cause in Cause:
            stall = Stall(StallKind.STALLED, cause, BEGAN_S + 408, 9, "as the cluster says")
            lane = Lane(9, Role.ADDING, stall=stall)
            text = await view.show(progress(timeline(lanes={9: lane})))
            line = line_with(text, "! copy onto broker 9")
            assert f"stalled for 3m 12s: {cause}: as the cluster says." in line
            assert line.rstrip().endswith(".")
            assert len(line.split(". ", 1)[1].split()) > 3


async def test_every_alarm_is_shown_including_falling_behind() -> None:
    behind = Stall(StallKind.FALLING_BEHIND, Cause.THROTTLED, BEGAN_S + 540, 4, "2.0 MB/s")
    lanes = {
        4: Lane(4, Role.ADDING, stall=behind),
        9: Lane(9, Role.ADDING, stall=Stall(StallKind.STALLED, Cause.UNKNOWN, BEGAN_S, 9)),
    }
    text = await seen_at((120, 30), progress(timeline(lanes=lanes)))
    assert "! copy onto broker 4 falling behind for 1m" in text
    assert "! copy onto broker 9 stalled for 10m: unknown. " in text


@pytest.mark.parametrize("size", SIZES)
async def test_lanes_isr_lag_and_rates_share_one_axis_with_the_peak_of_each_curve(
    size: tuple[int, int],
) -> None:
    async with hosted(DetailScreen(TP), progress(timeline()), size=size) as view:
        body = str(view.screen.query_one(".text").render())
        rows = [line_with(body, each) for each in ("*1     ", "in sync", "lag peak 14 M msg")]
        rows += [line_with(body, each) for each in ("copied peak", "begun")]
        assert len({row.index("│") for row in rows}) == 1
        assert line_with(body, "ISR size").index("3") - rows[0].index("│") in (0, 1)


def test_the_partition_events_are_listed_newest_first_in_local_time() -> None:
    text = drawn((120, 30))
    lines = [line for line in text.splitlines() if "broker 2" in line and ":" in line]
    local = timeline().events[2].at.astimezone()
    assert lines[0].split()[1:7] == ["·", "broker", "2", "joined", "the", "ISR"]
    assert lines[1].startswith(f"  {local:%H:%M:%S}  ! broker 2 left the ISR")


@pytest.mark.parametrize("size", SIZES)
async def test_a_small_terminal_scrolls_to_the_first_event(size: tuple[int, int]) -> None:
    async with hosted(DetailScreen(TP), progress(timeline()), size=size) as view:
        await view.press("end")
        assert "reassignment seen: adding 9, 4; removing 3" in view.text
        await view.press("home")
        assert "topic id" in view.text


async def test_a_new_poll_keeps_the_scroll_position() -> None:
    async with hosted(DetailScreen(TP), progress(timeline()), size=(80, 24)) as view:
        body = view.screen.query_one(VerticalScroll)
        await view.press("end")
        place = body.scroll_offset.y
        assert place > 0
        await view.show(progress(timeline(), last=observation(RAN_S + 1)))
        assert body.scroll_offset.y == place


async def test_brackets_walk_through_the_list_and_stop_at_its_ends() -> None:
    async with hosted(ListHost(DetailScreen(TP)), size=(120, 30)) as view:
        every = progress(*(timeline(tp) for tp in OTHERS))
        await view.show(every)
        await view.press("]")
        assert view.text.split("\n")[1].startswith("─ orders-2 ")
        await view.press("]")
        assert view.text.split("\n")[1].startswith("─ orders-2 ")
        await view.press("[", "[")
        assert view.text.split("\n")[1].startswith("─ orders-0 ")


async def test_the_detail_shows_that_it_waits_for_the_first_answer() -> None:
    assert "Waiting for the first answer of the cluster." in await seen_at((80, 24), Progress())


async def test_a_partition_never_seen_moving_is_shown_as_not_being_reassigned() -> None:
    text = await seen_at((80, 24), progress())
    assert "This partition is not being reassigned" in text


async def test_a_partition_that_vanished_stays_on_screen_as_last_seen() -> None:
    async with hosted(DetailScreen(TP), progress(timeline()), size=(80, 24)) as view:
        text = await view.show(progress(last=observation(RAN_S + 60)))
        local = observation().at.astimezone()
        assert f"No longer watched. What follows is as of {local:%H:%M:%S}." in text
        assert "dPqkT3xvRHqXw8mXb0yZ9A" in text


ENDED = {
    Phase.DONE: "done · reached its target",
    Phase.CANCELLED: "cancelled · ended on its original replicas",
    Phase.CHANGED_ELSEWHERE: "changed elsewhere · ended on replicas that are neither",
    Phase.TOPIC_GONE: "topic gone · the topic was deleted",
}


async def test_a_finished_move_shows_its_outcome_and_duration() -> None:
    async with hosted(DetailScreen(TP), size=(80, 24)) as view:
        for phase, words in ENDED.items():
            ended = timeline(phase=phase, ended_at=observation(251).at, lanes={})
            text = await view.show(progress(ended))
            assert words in text.splitlines()[1]
            assert ", 4m 11s" in line_with(text, "moved")


async def test_a_move_with_an_unseen_start_shows_a_lower_bound_of_its_duration() -> None:
    local = f"{timeline().began_at.astimezone():%H:%M:%S}"
    under_way = await seen_at((120, 30), progress(timeline(seen_from_start=False)))
    assert f"seen since {local}, for at least 10m" in under_way
    done = timeline(phase=Phase.DONE, ended_at=observation(62).at, lanes={}, seen_from_start=False)
    assert "at least 1m 2s" in await seen_at((120, 30), progress(done))


async def test_a_replica_that_only_waits_is_shown_without_an_alarm() -> None:
    turn = "waits for its turn: 2.0 MB/s throttle"
    stall = Stall(StallKind.WAITING, Cause.THROTTLED, BEGAN_S + 588, 4, turn)
    lanes = {4: Lane(4, Role.ADDING, share=0.125, stall=stall)}
    async with hosted(DetailScreen(TP), size=(120, 30)) as view:
        text = await view.show(progress(timeline(phase=Phase.MOVING, lanes=lanes)))
        assert "moving 12%" in text.splitlines()[1]
        assert "· the copy onto broker 4 has waited for 12 s: throttled: waits for its turn" in text
        assert colour_of(view.app, "broker 4 has waited") not in (
            role_style(view.app.theme_variables, role).color
            for role in ("stalled", "falling-behind")
        )


def test_a_replica_that_copies_nothing_has_no_rate() -> None:
    text = drawn((120, 30))
    assert "0 B/s" not in text.replace("00 B/s", "")
    assert "48 MB/s" in text


async def test_a_partition_at_rest_is_shown_as_such_with_its_problems() -> None:
    state = PartitionState(TP, None, (1, 2, 3), (1,), 1)
    lanes = {1: Lane(1, Role.LEADER), 2: Lane(2, Role.OUT_OF_SYNC), 3: Lane(3, Role.OUT_OF_SYNC)}
    still = timeline(
        phase=Phase.SETTLED,
        state=state,
        lanes=lanes,
        target=(1, 2, 3),
        lag_history=LagHistory(),
        events=(),
    )
    seen = progress(
        still, last=observation(topic_configs={"orders": TopicConfig(min_insync_replicas=2)})
    )
    text = await seen_at((120, 30), seen)
    first = text.splitlines()[1]
    assert "not being reassigned" in first
    assert "UNDER MIN" in first
    assert "! ISR 1, min 2; out of ISR: 2, 3." in text
    assert "none yet" in text


async def test_an_offline_partition_is_not_confused_with_one_not_described() -> None:
    offline = PartitionState(TP, None, (1, 2), (), None)
    text = await seen_at((120, 30), progress(timeline(state=offline)))
    assert "none: offline" in text
    unknown = PartitionState(TP, None, (1, 2), (), None, described=False)
    text = await seen_at((120, 30), progress(timeline(state=unknown)))
    assert "none: offline" not in text


async def test_a_broker_unknown_to_the_cluster_still_has_a_lane() -> None:
    lanes = {77: Lane(77, Role.OUT_OF_SYNC, history=history((Mark.OUT_OF_SYNC, 150)))}
    text = await seen_at((200, 60), progress(timeline(lanes=lanes)))
    assert "unknown" in line_with(text, "77!")


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_are_shown_as_they_are_and_do_nothing(size: tuple[int, int]) -> None:
    tp = TopicPartition(HOSTILE, 1)
    brokers = {i: Broker(i, HOSTILE, 9092, rack=HOSTILE) for i in BROKERS}
    hostile = timeline(tp, events=(Event(observation().at, HOSTILE, tp),))
    async with hosted(DetailScreen(tp), size=size) as view:
        seen = progress(hostile, last=observation(brokers=brokers))
        text = await view.show(seen)
        assert "[bold]x[/bold][@click=app.quit]y[/]" in text.splitlines()[1]
        await view.pilot.click(offset=(30, 0))
        await view.pilot.pause()
        assert not view.left
        assert view.app.is_running


async def test_the_screen_takes_every_theme_while_it_is_open() -> None:
    async with hosted(DetailScreen(TP), size=(120, 30)) as view:
        before = await view.show(progress(timeline()))
        for theme in SHIPPED.themes:
            view.app.theme = theme
            await view.pilot.pause()
            assert view.text == before
            assert (
                colour_of(view.app, "to leave")
                == role_style(view.app.theme_variables, "retiring").color
            )


async def test_the_footer_lists_the_keys() -> None:
    async with hosted(DetailScreen(TP), size=(80, 24)) as view:
        text = await view.show(progress(timeline()))
        assert view.screen.query_one(FooterKeys).display
        assert text.splitlines()[-1].split()[:6] == ["esc", "back", "[", "previous", "]", "next"]
