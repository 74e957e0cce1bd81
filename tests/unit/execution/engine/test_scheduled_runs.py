"""When the steps of a run begin: from its start on, in its window, while its command succeeds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ktui.execution.host.catalog import run_state
from ktui.execution.host.ownership import Holder
from ktui.execution.journal.commands import SetSchedule
from ktui.execution.run.events import ScheduleChanged, StepBegun, StepGate, StepOver
from ktui.execution.run.options import Schedule, Window
from ktui.pacing.limits import Limits
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.engine_runs import Replicas
from support.runs.stories import Story

RF3 = (1, 2, 3)
MINUTE_S = 60.0


def _many(count: int) -> dict[str, tuple[Replicas, Replicas]]:
    targets = ((4, 2, 3), (5, 2, 3), (6, 2, 3))
    return {f"orders-{n}": (RF3, targets[n % 3]) for n in range(count)}


def _window(from_min: int, to_min: int) -> str:
    """Return a window by minutes after the first moment, whatever the local time is then."""
    local = FIRST_MOMENT.astimezone()
    first = local.hour * 60 + local.minute
    return str(Window((first + from_min) % 1440, (first + to_min) % 1440))


def _begun(story: Story) -> list[float]:
    return story.seconds(lambda event: isinstance(event, StepBegun))


def test_no_step_begins_before_the_start_of_the_run(tmp_path: Path) -> None:
    start_at = FIRST_MOMENT + timedelta(seconds=90)
    story = Story(tmp_path, _many(2), schedule=Schedule(start_at=start_at))

    run = story.played()

    assert run.ended
    assert 90.0 <= _begun(story)[0] < 101.0
    assert not run.gate.shut


def test_steps_begin_in_the_window_and_only_those_that_are_expected_to_end_in_it(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, _many(12), schedule=Schedule(window=_window(2, 3)))

    run = story.played(until_s=400.0)

    assert not run.ended
    begun = _begun(story)
    assert 2 * MINUTE_S <= begun[0] < 2 * MINUTE_S + 11.0
    assert begun[-1] < 3 * MINUTE_S - 5.0
    assert story.seconds(lambda event: isinstance(event, StepOver))[-1] < 3 * MINUTE_S + 2.0
    assert run.over >= 3
    assert run.gate.until == FIRST_MOMENT + timedelta(days=1, minutes=2)
    assert run.gate.reason.startswith("its window, ")
    assert run_state(run, Holder(1, "here", "me", FIRST_MOMENT)).value == "waiting"


def test_a_step_in_flight_finishes_after_its_window_has_closed(tmp_path: Path) -> None:
    slow = {"copied_s": 100.0}
    story = Story(tmp_path, _many(1), cluster=slow, schedule=Schedule(window=_window(1, 2)))

    story.played(until_s=400.0)

    assert len(_begun(story)) == 1
    assert story.seconds(lambda event: isinstance(event, StepOver))[0] > 2 * MINUTE_S


def test_a_move_that_takes_longer_than_any_window_begins_in_one_all_the_same(
    tmp_path: Path,
) -> None:
    large = {"messages": 50_000_000, "copied_s": 1_000.0}
    story = Story(tmp_path, _many(1), cluster=large, schedule=Schedule(window=_window(1, 2)))

    story.played(until_s=200.0)

    assert len(_begun(story)) == 1


def test_an_operator_opens_a_run_that_waits_and_shuts_it_again(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(9), schedule=Schedule(window=_window(60, 120)))
    story.asked(30.0, SetSchedule(window=""))
    story.asked(70.0, SetSchedule(start_at=FIRST_MOMENT + timedelta(seconds=200)))

    assert story.played().ended

    begun = _begun(story)
    assert 30.0 <= begun[0] < 33.0
    assert not [at for at in begun if 72.0 < at < 200.0]
    changed = story.seconds(lambda event: isinstance(event, ScheduleChanged))[1]
    assert not [at for at in begun if changed <= at < 200.0]
    assert [at for at in begun if at >= 200.0]
    words = [asked.answer.words for asked in story.answers if asked.answer is not None]
    assert words[0] == "in force: at any time"
    assert words[1].startswith("in force: from ")


def test_no_step_begins_while_the_command_fails(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(4), schedule=Schedule(while_command="/bin/check it"))
    asked: set[str] = set()

    def forbids(command: str) -> str | None:
        asked.add(command)
        failing = 40.0 <= story.clock.monotonic() < 200.0
        return "--while check ended with exit code 1" if failing else None

    story.forbids = forbids

    assert story.played().ended

    assert asked == {"/bin/check it"}
    assert not [at for at in _begun(story) if 41.0 < at < 200.0]
    shut = [each for each in story.events if isinstance(each, StepGate)]
    assert [(gate.shut, gate.reason) for gate in shut] == [
        (True, "--while check ended with exit code 1"),
        (False, ""),
    ]


def test_a_resumed_run_keeps_the_schedule_that_an_operator_has_set(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3), Limits(replicas=1, partitions=1))
    story.asked(5.0, SetSchedule(start_at=FIRST_MOMENT + timedelta(seconds=100)))
    story.played(until_s=20.0)

    assert story.resumed().ended

    assert not [at for at in _begun(story) if 6.0 < at < 100.0]
