"""What operators ask of a run while it lives: limits, pauses, and to be left."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from ktui.execution.commands import Continue, Leave, Pause, SetLimits
from ktui.execution.events import By, Elect, Gate, LimitsChanged, Owned, Paused, StepBegun
from ktui.execution.journal import Journal
from ktui.execution.states import State
from ktui.pacing.limits import Limits, Mode
from ktui.simulated import acts
from ktui.simulated.clock import FIRST_MOMENT
from support.moving_clusters import move, tp
from support.runs import OWNER, Replicas
from support.runs_killed import Killed
from support.runs_stories import LEFT, Story

RF3 = (1, 2, 3)


def _many(count: int, *targets: Replicas) -> dict[str, tuple[Replicas, Replicas]]:
    targets = targets or ((4, 2, 3), (5, 2, 3), (6, 2, 3))
    return {f"orders-{n}": (RF3, targets[n % len(targets)]) for n in range(count)}


def test_the_answer_to_new_limits_names_the_decision_from_which_on_they_bind(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, _many(8), Limits(replicas=1, partitions=1))
    story.asked(12.0, SetLimits({"partitions": 3}))

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.accepted
    (changed,) = [e for e in story.events if isinstance(e, LimitsChanged)]
    assert asked.answer.batch == changed.batch + 1
    assert f"they bind from decision {changed.batch + 1} on" in asked.answer.words
    adds = Counter(e.batch for e in story.events if isinstance(e, StepBegun) and e.adding)
    assert {n for n in adds if n <= changed.batch} == {1, 2}
    assert [adds[1], adds[2], adds[3]] == [1, 1, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"partitions": 4}, {"partitions": 1}),
        ({"partitions": 1}, {"partitions": 4}),
        ({"replicas": 1, "partitions": 2}, {"replicas": "none"}),
        ({"replicas": None, "partitions": 2}, {"replicas": 1}),
        ({"leader_movements": 2}, {"leader-movements": 1}),
        ({"replica_movements": 4}, {"replica-movements": 1}),
        ({"per_broker": 2}, {"per-broker": 1}),
        ({"partitions": 2}, {"shape": "kip-435"}),
        ({"partitions": 3}, {"mode": "wave", "order": "size-desc"}),
    ],
    ids=str,
)
def test_limits_that_change_in_the_middle_of_a_run_leave_what_is_in_flight_and_end_right(
    tmp_path: Path, old: dict[str, int], new: dict[str, int | str | None]
) -> None:
    limits = msgspec.structs.replace(Limits(replicas=1), **old)
    ways = _many(6, (4, 5, 3), (5, 6, 2))
    story = Story(tmp_path, ways, limits)
    story.asked(14.5, SetLimits(new))

    assert story.played().ended

    (changed,) = [e for e in story.events if isinstance(e, LimitsChanged)]
    assert changed.old == limits
    assert changed.new != limits
    assert None not in [each.target for each in story.witness.alters]
    assert story.at_target(*ways)


def test_limits_whose_answer_was_lost_with_the_process_are_answered_alike_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, _many(8), Limits(replicas=1, partitions=1))
    story.asked(12.0, SetLimits({"partitions": 3}))

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(Journal, "answer", dies)
        with pytest.raises(Killed):
            story.played()
    story.clock.pass_time(60.0)
    assert story.resumed().ended

    (asked,) = story.answers
    (changed,) = [e for e in story.events if isinstance(e, LimitsChanged)]
    assert asked.answer is not None
    assert asked.answer.batch == changed.batch + 1


def test_within_a_wave_new_limits_bind_the_rest_of_the_wave(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, mode=Mode.WAVE)
    story = Story(tmp_path, _many(4, (4, 5, 3)), limits)
    story.asked(5.0, SetLimits({"replica-movements": 1}))

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.batch == 1


def test_a_partition_stands_otherwise_under_another_shape_also_while_nothing_may_begin(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.asked(5.0, Pause())
    story.asked(20.0, SetLimits({"shape": "kip-435"}))

    story.played(until_s=30.0)

    assert State.READY in story.states("orders-0")
    assert story.state("orders-0") is State.QUEUED


def test_an_election_that_is_due_is_not_forgotten_over_a_second_look_in_the_same_turn(
    tmp_path: Path,
) -> None:
    ways = {f"orders-{n}": (RF3, (2, 1, 3)) for n in range(8)}
    ways |= {"orders-8": (RF3, (1, 2, 4)), "orders-9": (RF3, (1, 2, 5))}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=2, leader_movements=1))
    story.asked(0.1, SetLimits({"partitions": 3}))

    assert story.played().ended

    (elected,) = story.seconds(lambda e: isinstance(e, Elect) and e.tp == tp("orders-0"))
    assert elected < 1.0
    assert story.begun_at("orders-9")[0] == elected


def test_limits_that_are_no_limits_are_refused_with_the_option_and_change_nothing(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, _many(1))
    story.asked(2.0, SetLimits({"partitions": 0}))

    story.played()

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "--partitions" in asked.answer.words
    assert story.folded.limits == story.limits


def test_two_commands_at_once_are_both_carried_out_in_their_order(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(6), Limits(replicas=1, partitions=1))
    story.asked(5.0, SetLimits({"partitions": 2}), SetLimits({"per-broker": 1}))

    story.played()

    assert [asked.answer.accepted for asked in story.answers if asked.answer] == [True, True]
    assert (story.folded.limits.partitions, story.folded.limits.per_broker) == (2, 1)


def test_a_paused_partition_waits_and_the_others_go_on(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3))
    story.asked(2.0, Pause(partitions=(tp("orders-1"),)))
    story.asked(100.0, Continue(partitions=(tp("orders-1"),)))

    assert story.played().ended

    assert story.begun_at("orders-1")[0] >= 100.0
    assert story.begun_at("orders-2")[-1] < 60.0


def test_a_paused_topic_waits_and_the_others_go_on(tmp_path: Path) -> None:
    ways = {**_many(2), "zebra-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways)
    story.asked(2.0, Pause(topics=("orders",)))
    story.asked(100.0, Continue(topics=("orders",)))

    assert story.played().ended

    assert story.begun_at("zebra-0")[-1] < 60.0
    assert story.begun_at("orders-1")[0] >= 100.0
    assert story.begun_at("orders-0")[1] >= 100.0


def test_a_paused_run_begins_nothing_and_what_is_in_flight_finishes(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(3))
    story.asked(2.0, Pause())
    story.asked(100.0, Continue())

    assert story.played().ended

    begun = [at for name in _many(3) for at in story.begun_at(name)]
    assert [at for at in begun if 3.0 < at < 100.0] == []
    (words,) = [asked.answer.words for asked in story.answers[:1] if asked.answer]
    assert words == "paused: nothing new is submitted; 1 in flight will finish"
    assert State.READY in story.states("orders-0")


def test_an_operators_pause_outlasts_the_process_and_a_signals_does_not(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(2))
    story.asked(2.0, Pause(by=By.SIGNAL))

    run = story.played()

    assert not run.ended
    assert run.left == "paused by a signal"
    assert story.state("orders-0") is State.READY
    story.asked(story.clock.monotonic() + 1.0, Pause())
    story.resumed(until_s=story.clock.monotonic() + 60.0)
    assert set(story.folded.pauses.whole) == {By.OPERATOR}
    sent = len(story.witness.alters)
    story.resumed(until_s=story.clock.monotonic() + 60.0)
    assert len(story.witness.alters) == sent
    story.asked(story.clock.monotonic() + 1.0, Continue())
    assert story.resumed(until_s=story.clock.monotonic() + 600.0).ended


def test_a_run_that_is_to_be_left_is_left_at_once_and_sends_nothing_more(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(2))
    story.asked(9.99, Leave())

    run = story.played()

    assert run.left == "somebody@here (2) asked for it"
    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    story.clock.pass_time(30.0)
    assert story.resumed().ended
    assert story.at_target(*_many(2))


def test_what_is_not_in_the_run_cannot_be_paused(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))
    story.asked(2.0, Pause(topics=("payments",)), Pause(partitions=(tp("orders-9"),)))

    story.played()

    assert [asked.answer.words for asked in story.answers if asked.answer] == [
        "topic payments is not in the run",
        "partition orders-9 is not in the run",
    ]


def test_a_run_with_an_end_in_time_begins_nothing_that_does_not_fit_and_is_left_then(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, _many(6))
    until = FIRST_MOMENT + timedelta(seconds=60)

    run = story.played_by(msgspec.structs.replace(OWNER, until=until))

    assert not run.ended
    assert run.left == run.pauses.whole[By.UNTIL]
    last = story.seconds(lambda e: isinstance(e, StepBegun) and not e.cut)[-1]
    assert 30.0 < last < 50.0
    done = [name for name in _many(6) if story.state(name) is State.DONE]
    assert 3 <= len(done) < 6
    assert len(done) == len([n for n in _many(6) if story.begun_at(n)])
    assert all(story.at_target(name) for name in done)
    assert story.resumed().ended


def test_the_gate_is_shut_while_others_are_not_well_and_opens_by_itself(tmp_path: Path) -> None:
    ways = {**_many(3), "zebra-0": ((9,), (9,))}
    story = Story(tmp_path, ways, most_offline=0)
    del story.targets[tp("zebra-0")]
    story.befalls(5.0, acts.Kill(9))
    story.befalls(120.0, acts.Start(9))

    assert story.played().ended

    gates = [(e.shut, e.reason) for e in story.events if isinstance(e, Gate)]
    assert (True, "1 partition outside the run is offline, more than the 0 allowed") in gates
    assert gates[-1] == (False, "")
    begun = [at for name in _many(3) for at in story.begun_at(name)]
    assert [at for at in begun if 20.0 < at < 120.0] == []
    assert story.at_target(*_many(3))


def test_a_free_place_is_taken_in_the_look_in_which_it_came_free(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(4), Limits(replicas=1, partitions=1))

    assert story.played().ended

    ready = story.seconds(lambda e: getattr(e, "state", None) is State.READY)
    begun = [story.begun_at(f"orders-{n}")[0] for n in range(1, 4)]
    assert all(at in ready for at in begun)


def test_waves_begin_only_when_all_of_the_last_one_have_ended(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, mode=Mode.WAVE)
    story = Story(tmp_path, _many(5), limits)

    assert story.played().ended

    waves = [{e.tp for e in story.events if isinstance(e, StepBegun) and e.batch == n}
             for n in (1, 2, 3)]  # fmt: skip
    assert [len(wave) for wave in waves] == [2, 2, 1]


def test_what_other_people_add_counts_for_the_replicas_that_move_at_once(tmp_path: Path) -> None:
    ways = {**_many(2), "zebra-0": (RF3, (7, 2, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, replica_movements=1))
    del story.targets[tp("zebra-0")]
    story.already(acts.Slow(7, 0.1), move("zebra-0", 7, 2, 3))

    assert story.played().ended

    assert 75.0 < story.begun_at("orders-0")[0] < 90.0
    assert story.at_target(*_many(2))


def test_a_run_that_is_left_by_its_story_says_so(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))

    assert story.played(until_s=3.0).left == LEFT
    assert [type(event) for event in story.events].count(Owned) == 1
    assert not [event for event in story.events if isinstance(event, Paused)]
