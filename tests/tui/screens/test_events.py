from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path

import msgspec
import pytest
from textual.events import MouseScrollUp
from textual.widgets import Input

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Event
from ktui.tui.draw.themes import load_themes, role_style
from ktui.tui.screens.events import EventList, EventsScreen, write_events
from support.views.screens import (
    BEGAN,
    HOSTILE,
    SIZES,
    colour_of,
    events,
    hosted,
    resize,
)

ORDERS = TopicPartition("orders", 1)
MIXED = (
    Event(BEGAN, "broker 7 joined the ISR", ORDERS, 7),
    Event(BEGAN + timedelta(seconds=1), "no answer in 2.0 s", None, 9, 1),
    Event(BEGAN + timedelta(seconds=2), "reassignments could not be listed", None, None, 2),
)


def listed(text: str) -> list[str]:
    """The lines between the title and the footer, without the scrollbar."""
    lines = [line.lstrip("▌").rstrip(" ▁▂▃▄▅▆▇█") for line in text.splitlines()[2:-1]]
    return [line for line in lines if line]


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize("size", SIZES)
async def test_an_event_line_shows_local_time_severity_subject_and_text(
    size: tuple[int, int],
) -> None:
    async with hosted(EventsScreen(), size=size) as view:
        lines = listed(await view.show(MIXED))
    local = [f"{event.at.astimezone():%H:%M:%S}" for event in MIXED]
    assert [line.split(maxsplit=2) for line in lines] == [
        [local[0], "·", "orders-1  broker 7 joined the ISR"],
        [local[1], "!", "broker 9  no answer in 2.0 s"],
        [local[2], "‼", "cluster   reassignments could not be listed"],
    ]


async def test_the_title_counts_the_events_of_each_choice() -> None:
    async with hosted(EventsScreen()) as view:
        title = (await view.show(MIXED)).splitlines()[1]
    assert title.strip("─ ") == "events  [all 3]  steps 0  settings 0  ‼ trouble 2"


async def test_events_spanning_several_days_show_their_date() -> None:
    late = Event(BEGAN + timedelta(days=2), "later", ORDERS)
    async with hosted(EventsScreen()) as view:
        text = await view.show((*MIXED, late))
    assert f"{late.at.astimezone():%b %d %H:%M:%S}" in text


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_event_is_wrapped_not_cut(size: tuple[int, int]) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    async with hosted(EventsScreen(), size=size) as view:
        text = await view.show((Event(BEGAN, words, ORDERS),))
    assert [word for word in text.split() if word.startswith("word")] == words.split()


async def test_a_long_topic_keeps_its_partition_number() -> None:
    tp = TopicPartition("a-topic-with-a-name-of-many-many-words-in-it", 123)
    async with hosted(EventsScreen()) as view:
        assert "in-it-123 " in await view.show((Event(BEGAN, "what", tp),))


@pytest.mark.parametrize("size", SIZES)
async def test_what_a_group_is_about_is_never_cut_within_a_word(size: tuple[int, int]) -> None:
    topics = [TopicPartition(topic, 0) for topic in "abcdefgh"]
    alike = tuple(Event(BEGAN, "broker 7 joined the ISR", tp, broker=7) for tp in topics)
    async with hosted(EventsScreen(), size=size) as view:
        (line,) = listed(await view.show(alike))
    assert "· 8 partitions  " in line


@pytest.mark.parametrize("size", SIZES)
async def test_the_events_screen_opens_at_the_newest_event_and_follows_new_ones(
    size: tuple[int, int],
) -> None:
    async with hosted(EventsScreen(), size=size) as view:
        assert listed(await view.show(events(500)))[-1].endswith("event 499")
        assert listed(await view.show(events(501)))[-1].endswith("event 500")


async def test_a_scrolled_up_list_stays_put_until_the_end_key() -> None:
    many = events(520)
    async with hosted(EventsScreen(), many[:500]) as view:
        await view.press("pageup")
        before = listed(view.text)
        after = await view.show(many[:510])
        assert listed(after) == before
        assert "lines below, end: follow" in after.splitlines()[1]
        await view.press("end")
        assert listed(await view.show(many))[-1].endswith("event 519")


async def test_the_wheel_scrolls_the_events() -> None:
    async with hosted(EventsScreen(), events(500)) as view:
        await view.pilot._post_mouse_events([MouseScrollUp], view.screen.query_one(EventList))
        await view.pilot.wait_for_scheduled_animations()
        assert not listed(view.text)[-1].endswith("event 499")


async def test_dropping_old_events_does_not_move_the_visible_ones() -> None:
    many = events(600)
    async with hosted(EventsScreen(), many[:500]) as view:
        await view.press("pageup")
        before = listed(view.text)
        assert listed(await view.show(many[100:])) == before


async def test_the_list_is_correct_after_any_change_of_the_events() -> None:
    many = events(600)
    async with hosted(EventsScreen(), size=(80, 60)) as view:
        for seen in (many[:10], many[:30], many[5:35], many[100:140], (), many[:3]):
            lines = listed(await view.show(seen))
            assert [line.split()[-1] for line in lines[-20:] if seen] == [
                event.what.split()[-1] for event in seen[-20:]
            ]


async def test_only_visible_lines_of_ten_thousand_events_are_drawn() -> None:
    many = events(10_001)
    drawn = 0
    async with hosted(EventsScreen(), many[:10_000], size=(120, 30)) as view:
        listing = view.screen.query_one(EventList)
        original = listing.render_line

        def counting(y: int) -> object:
            nonlocal drawn
            drawn += 1
            return original(y)

        listing.render_line = counting  # type: ignore[method-assign,assignment] # a spy
        text = await view.show(many[1:])
        assert listed(text)[-1].endswith("event 10000")
        assert 0 < drawn < 200
        await view.press("home")
        assert listed(view.text)[0].endswith("event 1")


async def test_the_filter_shows_events_that_contain_all_its_words() -> None:
    async with hosted(EventsScreen(), MIXED) as view:
        await view.press("slash", *"ISR orders")
        text = view.text
        assert [line.split(maxsplit=2)[2] for line in listed(text)[1:]] == [
            "orders-1  broker 7 joined the ISR"
        ]
        assert "1 of 3" in text.splitlines()[1]
        assert "filter: ISR orders" in text.splitlines()[1]


async def test_events_can_be_filtered_by_severity() -> None:
    async with hosted(EventsScreen(), MIXED) as view:
        await view.press("slash", *"trouble")
        assert listed(view.text)[-1].endswith("reassignments could not be listed")
        assert len(listed(view.text)) == 2


async def test_the_filter_applies_to_new_events_too() -> None:
    async with hosted(EventsScreen(), events(20)) as view:
        await view.press("slash", *"event 2")
        await view.press("enter")
        text = await view.show(events(30))
        assert [int(line.split()[-1]) for line in listed(text)] == [2, 12, *range(20, 30)]


async def test_enter_keeps_the_filter_and_escape_clears_it_before_going_back() -> None:
    async with hosted(EventsScreen(), MIXED) as view:
        await view.press("slash", *"broker")
        await view.press("enter")
        assert not view.screen.query_one(Input).display
        assert "2 of 3" in view.text
        await view.press("escape")
        assert "of 3" not in view.text
        assert not view.left
        await view.press("escape")
        assert view.left


async def test_a_filter_without_matches_shows_how_to_clear_it() -> None:
    async with hosted(EventsScreen(), MIXED) as view:
        await view.press("slash", *"zzz")
        assert "No event has 'zzz' in it. Escape clears the filter." in view.text


async def test_an_empty_events_screen_states_that_nothing_has_happened() -> None:
    async with hosted(EventsScreen()) as view:
        assert "Nothing has happened since this view was opened." in await view.show(())


async def test_x_exports_the_shown_events_as_json_lines_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with hosted(EventsScreen(), MIXED, size=(120, 30), notifications=True) as view:
        await view.press("slash", *"broker")
        await view.pilot.press("enter", "x")
        await view.app.workers.wait_for_complete()
        await view.pilot.pause()
        (path,) = files(tmp_path)
        assert [n.message for n in view.app._notifications] == [f"Wrote 2 events to {path}"]
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert lines[0] == {
        "schema_version": 1,
        "at": "2026-11-21T14:02:31Z",
        "severity": "news",
        "topic": "orders",
        "partition": 1,
        "broker": 7,
        "what": "broker 7 joined the ISR",
    }
    assert lines[1]["severity"] == "warning"
    assert next(iter(lines[1])) == "schema_version"


async def test_x_without_events_reports_that_there_are_none_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with hosted(EventsScreen(), (), notifications=True) as view:
        await view.press("x")
        assert [n.message for n in view.app._notifications] == ["There are no events to write."]
    assert files(tmp_path) == []


def test_an_export_falls_back_to_the_state_folder_if_the_current_one_is_unwritable(
    tmp_path: Path,
) -> None:
    path = write_events(MIXED, [tmp_path / "missing", tmp_path / "state"], BEGAN)
    assert path.parent == tmp_path / "state"
    assert len(path.read_bytes().splitlines()) == 3


def test_a_second_export_in_the_same_second_does_not_overwrite_the_first(tmp_path: Path) -> None:
    first = write_events(MIXED, [tmp_path], BEGAN)
    second = write_events(MIXED[:1], [tmp_path], BEGAN)
    assert first != second
    assert len(first.read_bytes().splitlines()) == 3
    assert first.name == f"ktui-events-{BEGAN.astimezone():%Y%m%d-%H%M%S}.jsonl"


def test_an_export_that_no_folder_accepts_raises_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_events(MIXED, [tmp_path / "missing", tmp_path / "file"], BEGAN)


async def test_a_failed_export_is_reported_and_the_app_keeps_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "missing")
    monkeypatch.setattr("platformdirs.user_state_path", lambda _name: tmp_path / "file")
    async with hosted(EventsScreen(), MIXED, notifications=True) as view:
        await view.pilot.press("x")
        await view.app.workers.wait_for_complete()
        await view.pilot.pause()
        (notification,) = view.app._notifications
        assert notification.message.startswith("Could not write the events: ")
        assert view.app.is_running


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_text_is_shown_verbatim_and_can_be_searched(size: tuple[int, int]) -> None:
    hostile = Event(BEGAN, HOSTILE, TopicPartition(HOSTILE, 0), severity=2)
    async with hosted(EventsScreen(), size=size) as view:
        text = await view.show((hostile,))
        assert "[bold]x[/bold]" in text
        await view.press("slash", *"[bold")
        text = view.text
        assert "filter: [bold" in text.splitlines()[1]
        assert "1" in text.splitlines()[1]


@pytest.mark.parametrize("theme", load_themes(None).themes)
async def test_lines_take_a_new_theme_at_once(theme: str) -> None:
    async with hosted(EventsScreen(), MIXED) as view:
        view.app.theme = theme
        await view.pilot.pause()
        assert (
            colour_of(view.app, "no answer")
            == role_style(view.app.theme_variables, "warning").color
        )
        assert (
            colour_of(view.app, "orders-1") == role_style(view.app.theme_variables, "header").color
        )


async def test_a_resize_wraps_the_lines_again_and_still_follows_the_newest() -> None:
    words = " ".join(f"word{number}" for number in range(30))
    long = tuple(Event(BEGAN, f"{words} end{i}", ORDERS) for i in range(40))
    async with hosted(EventsScreen(), size=(80, 24)) as view:
        assert "end39" in await view.show(long)
        await resize(view.pilot, (120, 30))
        await view.pilot.pause()
        assert "end39" in view.text


def test_times_in_an_export_are_utc(tmp_path: Path) -> None:
    event = Event(BEGAN.astimezone(tz=None), "x")
    line = write_events([event], [tmp_path], BEGAN).read_bytes()
    assert f'"at":"{BEGAN.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"'.encode() in line


# ------------------------------------------------------------------- groups and choices

_STEPS = tuple(
    Event(BEGAN, "run drain-3: step finished: 4,5,6, leader 4", TopicPartition("orders", n))
    for n in range(12)
)
_SETTING = Event(BEGAN + timedelta(seconds=30), "run drain-3: limits: P 1 -> 2; from batch 3 on")
_WRONG = Event(BEGAN + timedelta(seconds=60), "broker 4 is down", None, 4, 2)


async def test_events_of_one_moment_are_a_line_that_unfolds_and_folds_by_keys() -> None:
    async with hosted(EventsScreen(), size=(80, 24)) as view:
        lines = listed(await view.show((*_STEPS, _SETTING, _WRONG)))
        assert len(lines) == 3
        assert lines[0].endswith("12 steps finished ▸")
        await view.pilot.press("home", "right")
        lines = listed(view.text)
        assert lines[0].endswith("12 steps finished ▾")
        assert [line.split()[2] for line in lines[1:13]] == [str(each.tp) for each in _STEPS]
        # from any of its lines
        await view.pilot.press("down", "down", "left")
        assert len(listed(view.text)) == 3
        await view.pilot.press("enter")
        assert len(listed(view.text)) == 15
        await view.pilot.press("enter")
        assert len(listed(view.text)) == 3
        # an event more does not fold what is unfolded
        await view.pilot.press("enter")
        later = msgspec.structs.replace(_WRONG, what="broker 4 is back", severity=0)
        assert len(listed(await view.show((*_STEPS, _SETTING, _WRONG, later)))) == 16


async def test_keys_choose_steps_settings_and_trouble_and_go_together_with_the_words() -> None:
    async with hosted(EventsScreen(), (*_STEPS, _SETTING, _WRONG), size=(120, 24)) as view:
        footer = view.text.splitlines()[-1]
        assert "1 all 2 steps 3 settings 4 trouble" in footer
        for key, words, count in (("2", "12 steps", 1), ("3", "limits", 1), ("4", "is down", 1)):
            await view.pilot.press(key)
            lines = listed(view.text)
            assert len(lines) == count
            assert words in lines[0]
        assert "[‼ trouble 1]" in view.text.splitlines()[1]
        await view.pilot.press("2")
        await view.press("slash", *"orders-1")
        await view.pilot.press("enter")
        assert "3 of 12" in view.text.splitlines()[1]
        # escape clears the words, then the choice, then goes back
        await view.pilot.press("escape")
        assert "[steps 12]" in view.text.splitlines()[1]
        await view.pilot.press("escape")
        assert "[all 14]" in view.text.splitlines()[1]
        assert not view.left


async def test_an_export_has_every_event_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with hosted(EventsScreen(), (*_STEPS, _SETTING, _WRONG), size=(80, 24)) as view:
        await view.pilot.press("2", "x")
        await view.app.workers.wait_for_complete()
    (file,) = files(tmp_path)
    partitions = [msgspec.json.decode(line)["partition"] for line in file.read_bytes().splitlines()]
    assert partitions == list(range(12))


async def test_where_there_is_little_room_an_event_has_one_line_and_a_sign_for_the_rest() -> None:
    async with hosted(EventsScreen(), (), size=(50, 12)) as view:
        narrow = EventList(one_line=True)
        await view.app.screen.mount(narrow)
        await view.pilot.pause()
        narrow.show((_SETTING, _WRONG))
        await view.pilot.pause()
        texts = [narrow.render_line(y).text.rstrip() for y in range(2)]
        assert texts[0].endswith("limits: P ▸")
        assert texts[1].endswith("broker 4 is down")
