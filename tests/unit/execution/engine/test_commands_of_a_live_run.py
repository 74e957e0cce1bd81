"""Commands to a live run take effect, and only as they say."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from ktui.execution.journal.commands import Pause, SetLimits
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Elect, LimitsChanged, StepBegun, UrgencyChanged
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, Mode
from ktui.pacing.situation import Urgency
from ktui.simulated import layout
from support.chaos.defects import DEFECTS, Defect, put_back
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.runs.witnessed import Killed
from support.simulated.moving_clusters import move, tp

RF3 = (1, 2, 3)


def _many(count: int, *targets: Replicas) -> dict[str, tuple[Replicas, Replicas]]:
    targets = targets or ((4, 2, 3), (5, 2, 3), (6, 2, 3))
    return {f"orders-{n}": (RF3, targets[n % len(targets)]) for n in range(count)}


def test_the_answer_to_new_limits_names_the_first_decision_they_bind(tmp_path: Path) -> None:
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
def test_limits_changed_during_a_run_leave_steps_in_flight_and_the_run_completes(
    tmp_path: Path, old: dict[str, int], new: dict[str, int | str | None]
) -> None:
    limits = msgspec.structs.replace(Limits(replicas=1), **old)
    ways = _many(6, (4, 5, 3), (5, 6, 2))
    story = Story(tmp_path, ways, limits, {"messages": 4_000})
    story.asked(5.8, SetLimits(new))

    assert story.played().ended

    (changed,) = [e for e in story.events if isinstance(e, LimitsChanged)]
    assert changed.old == limits
    assert changed.new != limits
    assert None not in [each.target for each in story.witness.alters]
    assert story.at_target(*ways)


def test_limits_a_killed_process_left_unanswered_are_answered_by_the_next(
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


def test_limits_of_a_broker_that_the_cluster_does_not_have_are_refused(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(4), Limits(replicas=1, partitions=1))
    story.asked(5.0, SetLimits({}, brokers={99: {"per-broker": 1}}))
    story.asked(6.0, SetLimits({}, brokers={4: {"per-broker": 1}}))

    assert story.played().ended

    refused, taken = (asked.answer for asked in story.answers)
    assert refused is not None
    assert taken is not None
    assert (refused.accepted, taken.accepted) == (False, True)
    assert refused.words.startswith("nothing is changed: there is no broker 99 in the cluster")


def test_new_limits_bind_the_rest_of_the_current_wave(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, mode=Mode.WAVE)
    story = Story(tmp_path, _many(4, (4, 5, 3)), limits)
    story.asked(5.0, SetLimits({"replica-movements": 1}))

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.batch == 1
    assert "they bind the rest of wave 1 and what follows" in asked.answer.words
    assert story.folded.limits_changed_at + 1 == 1


def test_a_changed_shape_updates_the_state_of_a_partition_even_while_paused(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.asked(5.0, Pause())
    story.asked(20.0, SetLimits({"shape": "kip-435"}))

    story.played(until_s=30.0)

    assert State.READY in story.states("orders-0")
    assert story.state("orders-0") is State.QUEUED


def test_a_due_election_is_not_forgotten_after_a_second_poll_in_the_same_turn(
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


def test_invalid_limits_are_refused_with_the_option_and_change_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(1))
    story.asked(2.0, SetLimits({"partitions": 0}))

    story.played()

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "--partitions" in asked.answer.words
    assert story.folded.limits == story.limits


def test_an_undo_changes_nothing_once_the_limits_were_changed_meanwhile(tmp_path: Path) -> None:
    first, second = Limits(replicas=1, partitions=1), Limits(replicas=1, partitions=2)
    story = Story(tmp_path, _many(6), first)
    undo = SetLimits({"partitions": 1}, instead_of=second)
    story.asked(5.0, SetLimits({"partitions": 2}), SetLimits({"partitions": 3}), undo)

    story.played()

    refused = story.answers[-1].answer
    assert refused is not None
    assert not refused.accepted
    assert refused.words == "nothing is changed: the limits were changed meanwhile: P 2 -> 3"
    assert story.folded.limits.partitions == 3


def test_a_command_of_a_newer_ktui_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    class Teleport(msgspec.Struct, tag_field="command", tag="teleport"):
        pass

    story = Story(tmp_path, _many(2))
    story.asked(12.0, Teleport())  # type: ignore[arg-type]

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "does not know this command" in asked.answer.words


def test_two_commands_at_once_are_both_carried_out_in_order(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(6), Limits(replicas=1, partitions=1))
    story.asked(5.0, SetLimits({"partitions": 2}), SetLimits({"per-broker": 1}))

    story.played()

    assert [asked.answer.accepted for asked in story.answers if asked.answer] == [True, True]
    assert (story.folded.limits.partitions, story.folded.limits.per_broker) == (2, 1)


def test_a_place_is_filled_in_the_same_poll_that_frees_it(tmp_path: Path) -> None:
    story = Story(tmp_path, _many(4), Limits(replicas=1, partitions=1))

    assert story.played().ended

    ready = story.seconds(lambda e: getattr(e, "state", None) is State.READY)
    begun = [story.begun_at(f"orders-{n}")[0] for n in range(1, 4)]
    assert all(at in ready for at in begun)


def test_no_more_cuts_are_sent_in_a_minute_than_the_limit(tmp_path: Path) -> None:
    ways = {f"orders-{n}": (RF3, RF3[:2]) for n in range(5)}
    story = Story(tmp_path, ways, Limits(partitions=9, cuts_per_minute=2))

    assert story.played().ended

    begun = [story.begun_at(f"orders-{n}")[0] for n in range(5)]
    assert begun[0] == begun[1] < begun[2] == begun[3] < begun[4]
    assert begun[2] - begun[0] >= 60.0
    assert begun[4] - begun[2] >= 60.0


def test_a_resumed_run_counts_the_cuts_of_the_engine_before_it(tmp_path: Path) -> None:
    ways = {f"orders-{n}": (RF3, RF3[:2]) for n in range(3)}
    story = Story(tmp_path, ways, Limits(partitions=9, cuts_per_minute=2))
    assert not story.played(10.0).ended
    assert story.resumed().ended

    begun = [story.begun_at(f"orders-{n}")[0] for n in range(3)]
    assert begun[2] - begun[0] >= 60.0


def test_a_wave_begins_only_when_all_of_the_last_one_has_ended(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2, mode=Mode.WAVE)
    story = Story(tmp_path, _many(5), limits)

    assert story.played().ended

    waves = [{e.tp for e in story.events if isinstance(e, StepBegun) and e.batch == n}
             for n in (1, 2, 3)]  # fmt: skip
    assert [len(wave) for wave in waves] == [2, 2, 1]


def test_replicas_others_add_count_against_the_replica_movement_limit(tmp_path: Path) -> None:
    ways = {**_many(2), "zebra-0": (RF3, (7, 2, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, replica_movements=1))
    del story.targets[tp("zebra-0")]
    story.already(layout.Slow(7, 0.1), move("zebra-0", 7, 2, 3))

    assert story.played().ended

    assert 75.0 < story.begun_at("orders-0")[0] < 90.0
    assert story.at_target(*_many(2))


each_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)


@each_defect
def test_a_fixed_defect_does_not_come_back(defect: Defect, tmp_path: Path) -> None:
    defect.story(tmp_path)


@pytest.mark.soak
@each_defect
def test_a_reintroduced_defect_is_found(defect: Defect, tmp_path: Path) -> None:
    with put_back(defect), pytest.raises((AssertionError, KeyError)):
        defect.story(tmp_path)


ONE_BY_ONE = Limits(replicas=1, partitions=1)
USUAL = [f"orders-{n}" for n in range(4)]
ON_BROKER_9 = ["orders-4", "orders-5"]
WAYS = {**dict.fromkeys(USUAL, ((1, 2), (1, 3))), **dict.fromkeys(ON_BROKER_9, ((8, 9), (8, 5)))}
DIES_S = 5.0


def a_story(folder: Path, limits: Limits = ONE_BY_ONE, min_isr: int = 1, **options: bool) -> Story:
    configs = {"min.insync.replicas": str(min_isr)}
    return Story(folder, WAYS, limits, {"configs": configs, "messages": 40_000}, **options)


def begun(story: Story) -> list[str]:
    """Return the partitions in the order in which their first steps began."""
    steps = (event for event in story.events if isinstance(event, StepBegun))
    return list(dict.fromkeys(str(event.tp) for event in steps))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("min_isr", "why"), [(1, Urgency.ONE_IN_SYNC), (2, Urgency.UNDER_MIN_ISR)])
def test_partitions_of_a_dead_broker_overtake_the_rest_and_the_copy_in_flight(
    tmp_path: Path, min_isr: int, why: Urgency, mode: Mode
) -> None:
    limits = Limits(replicas=1, partitions=1, mode=mode)
    story = a_story(tmp_path, limits, min_isr, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))

    assert story.played(until_s=5_000.0).ended

    assert begun(story) == ["orders-0", *ON_BROKER_9, *USUAL[1:]]
    first = story.begun_at("orders-4")[0]
    noticed = story.seconds(lambda event: isinstance(event, UrgencyChanged))
    assert noticed[0] == pytest.approx(first, abs=1.0)
    assert first < story.seconds(lambda e: getattr(e, "state", None) is State.DONE)[0]
    changes = [each for each in story.events if isinstance(each, UrgencyChanged)]
    assert [(str(each.tp), each.why) for each in changes if each.why is not None] == [
        (each, why) for each in ON_BROKER_9
    ]
    assert [story.folded.tracks[tp(each)].urgency for each in ON_BROKER_9] == [None, None]
    assert story.at_target(*WAYS)


def test_without_the_option_they_wait_for_their_turn(tmp_path: Path) -> None:
    story = a_story(tmp_path)
    story.schedule(DIES_S, layout.Kill(9))

    assert story.played(until_s=5_000.0).ended

    assert begun(story) == [*USUAL, *ON_BROKER_9]
    assert not any(isinstance(event, UrgencyChanged) for event in story.events)


def test_partitions_go_back_to_their_place_when_the_broker_is_back(tmp_path: Path) -> None:
    story = a_story(tmp_path, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))
    story.schedule(30.0, layout.Start(9))

    story.played(until_s=50.0)

    assert story.folded.tracks[tp("orders-4")].step is not None
    assert story.folded.tracks[tp("orders-5")].urgency is None
    assert begun(story) == ["orders-0", "orders-4"]


def test_a_resumed_run_knows_which_steps_were_urgent(tmp_path: Path) -> None:
    story = a_story(tmp_path, urgent_first=True)
    story.schedule(DIES_S, layout.Kill(9))
    story.played(until_s=30.0)
    assert begun(story) == ["orders-0", "orders-4"]

    story.resumed(until_s=50.0)
    assert begun(story) == ["orders-0", "orders-4"]

    assert story.resumed(until_s=5_000.0).ended
    assert begun(story) == ["orders-0", *ON_BROKER_9, *USUAL[1:]]
