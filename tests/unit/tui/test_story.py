"""The captions of a demo come when they are due, and its pictures have a name of their own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktui.captions import Caption, StoryMoment
from ktui.execution.host.catalog import RunState
from ktui.execution.run.states import State
from ktui.progress.summary import Totals
from ktui.tui.poll.polling import Overview
from ktui.tui.run_view.attached import RunStatus
from ktui.tui.story import CaptionLine, CaptionTrack, StoryMoments, picture_name, save_picture

CAPTIONS = (
    Caption(say="one", at_s=0.0),
    Caption(say="two", at_s=60.0),
    Caption(say="three", when=StoryMoment.STALLED),
    Caption(say="four", at_s=90.0),
)


def said(track: CaptionTrack, now_s: float, *seen: StoryMoment) -> str | None:
    track.advance(now_s, set(seen))
    return None if track.shown is None else track.shown.say


def test_captions_come_at_their_times_and_moments() -> None:
    track = CaptionTrack(CAPTIONS)
    assert said(track, -1.0) is None
    assert said(track, 0.0) == "one"
    assert said(track, 60.0) == "two"
    assert said(track, 70.0, StoryMoment.STALLED) == "three"
    assert said(track, 90.0, StoryMoment.STALLED) == "four"


def test_no_earlier_caption_comes_back() -> None:
    track = CaptionTrack(CAPTIONS)
    assert said(track, 30.0, StoryMoment.STALLED) == "three"
    assert said(track, 60.0, StoryMoment.STALLED) == "three"


def moments(*seen: Overview, run: RunStatus | None = None) -> set[StoryMoment]:
    found = StoryMoments()
    for each in seen:
        found.note(each, run)
    return found.seen


def shows(**sums: int) -> Overview:
    return Overview(msgspec.structs.replace(Totals(), **sums), brokers=3)


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        (shows(moving=1), StoryMoment.MOVING),
        (shows(falling_behind=1), StoryMoment.BEHIND),
        (shows(stalled=1), StoryMoment.STALLED),
        (shows(done=1), StoryMoment.DONE),
        (shows(cancelled=1), StoryMoment.CANCELLED),
        (shows(topic_gone=1), StoryMoment.TOPIC_GONE),
        (Overview(brokers=3, down=(2,)), StoryMoment.BROKER_DOWN),
    ],
)
def test_a_moment_has_come_once_the_view_shows_it(now: Overview, moment: StoryMoment) -> None:
    assert moment in moments(now)
    assert moment not in moments(shows())


def test_a_story_has_recovered_when_no_trouble_is_left() -> None:
    moving, stalled = shows(moving=1), shows(moving=1, stalled=1)
    assert StoryMoment.RECOVERED not in moments(moving, stalled)
    assert StoryMoment.RECOVERED in moments(moving, stalled, moving)


def test_a_story_is_over_when_nothing_moves_any_more() -> None:
    assert StoryMoment.OVER not in moments(shows())
    assert StoryMoment.OVER not in moments(shows(moving=1), shows(settling=1))
    assert StoryMoment.OVER in moments(shows(moving=1), shows(done=1))


def test_between_two_steps_of_a_run_its_story_is_not_over() -> None:
    run = RunStatus(name="x", state=RunState.RUNNING, counts={State.DONE: 1})
    found = moments(shows(moving=1), shows(), run=run)
    assert StoryMoment.OVER not in found
    assert StoryMoment.DONE in found
    ended = msgspec.structs.replace(run, state=RunState.ENDED)
    assert StoryMoment.OVER in moments(shows(moving=1), shows(), run=ended)


def test_the_line_is_as_high_as_the_longest_caption() -> None:
    size = (None, None)
    line = CaptionLine([Caption(say="short"), Caption(say="word " * 20)])
    assert line.get_content_height(*size, 40) == 3  # type: ignore[arg-type]  # not looked at
    assert line.get_content_height(*size, 120) == 1  # type: ignore[arg-type]  # not looked at


def test_a_picture_is_named_by_its_story_and_its_time() -> None:
    assert picture_name("dead-target", 125.9) == "dead-target-2m05s"
    assert picture_name("../a b", 0.0) == "a-b-0m00s"
    assert picture_name("", 0.0) == "story-0m00s"


def test_no_picture_replaces_another(tmp_path: Path) -> None:
    paths = [save_picture(tmp_path, "x-0m01s", f"<svg>{n}</svg>") for n in range(3)]
    assert [path.name for path in paths] == ["x-0m01s.svg", "x-0m01s-2.svg", "x-0m01s-3.svg"]
    assert paths[1].read_text(encoding="utf-8") == "<svg>1</svg>"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no folder"):
        save_picture(tmp_path / "gone", "x", "<svg/>")
