"""Extra plans, scopes and throttles, as the journal has them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigSource, Setting, Verdict
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, SettingKey, parse_throttled_list
from ktui.execution.engine.add_plan import JoinEffect, join_effect, join_effects_text
from ktui.execution.journal.commands import Add
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    CancelAsked,
    Configure,
    Configured,
    FoundSetting,
    Joined,
    JournalEntry,
    OnConflict,
    Planned,
    PlannedPart,
    Recovered,
    SettingsFound,
    SettingsGivenUp,
    StateEntered,
    StepOver,
    ThrottleChanged,
    ThrottleEvent,
    decode,
    encode,
)
from ktui.execution.run.run import Run
from ktui.execution.run.scope import partitions_on
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.text import event_sentence
from ktui.execution.run.throttle_ledger import SetByRun, ThrottleLedger
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import VirtualClock
from support.journals.journals import a_start, accepted, planned, started, step
from support.runs.throttled import broker, change_list, set_rate, topic
from support.simulated.moving_clusters import tp
from support.simulated.observations import START

AT = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
MORE = tuple(Planned("audit", n, "id", (1, 2, 4), (1, 2, 3), 1, 10) for n in range(3))
AGAIN = Planned("orders", 0, "id", (7, 8, 9), (1, 2, 3), 1, 10)
ADDED = Added(plan="more.json", plan_sha256="", partitions=4, on_conflict=OnConflict.ROLLBACK)
PARTS = (PlannedPart(partitions=MORE[:2]), PlannedPart(partitions=(MORE[2], AGAIN)))


def folded(*events: AnyRunEvent) -> Run:
    entries = (JournalEntry(n, AT, decode(encode(event))) for n, event in enumerate(events, 1))
    return Run("drain").fold(entries)


def test_the_partitions_of_an_extra_plan_count_once_all_of_them_are_there() -> None:
    run = folded(*a_start(3), ADDED, *PARTS)

    assert len(run.tracks) == 6
    assert run.complete
    assert run.tracks[tp("orders-0")].then == AGAIN
    assert [each.event.plan for each in run.additions.plans] == ["more.json"]


@pytest.mark.parametrize("parts", [(), PARTS[:1]])
def test_an_extra_plan_partly_lost_to_damage_does_not_count(parts: tuple[PlannedPart, ...]) -> None:
    run = folded(*a_start(3), ADDED, *parts, Recovered(lost="the end of it"))

    assert len(run.tracks) == 3
    assert run.complete
    assert run.tracks[tp("orders-0")].then is None
    assert not run.additions.plans


def test_an_extra_plan_added_after_a_lost_one_counts() -> None:
    run = folded(*a_start(3), ADDED, PARTS[0], Recovered(lost="the end of it"), ADDED, *PARTS)

    assert len(run.tracks) == 6
    assert len(run.additions.plans) == 1


def test_a_partition_queued_again_comes_after_those_the_run_had() -> None:
    run = folded(*a_start(3), ADDED, *PARTS, Joined(partitions=(tp("orders-0"),)))

    numbers = [track.number for track in run.tracks.values()]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 6
    assert list(run.tracks)[-1] == tp("orders-0")
    assert run.tracks[tp("orders-0")].planned.target == (7, 8, 9)


def test_a_partition_of_a_recreated_topic_starts_from_its_new_replicas() -> None:
    other = Planned("orders", 0, "another id", (7, 8, 9), (4, 5, 6), 4, 10)
    added = Added(plan="", plan_sha256="", partitions=1, on_conflict=OnConflict.RETARGET)
    joined = Joined(partitions=(other.tp,))

    run = folded(*a_start(3), step(0), added, PlannedPart(partitions=(other,)), joined)

    track = run.tracks[other.tp]
    assert (track.original, track.replicas, track.led) == ((4, 5, 6), (4, 5, 6), 4)


def test_two_hundred_thousand_partitions_are_requested_in_one_row(tmp_path: Path) -> None:
    many = tuple(Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1, n) for n in range(200_000))
    with Journal.create(tmp_path / "journal.db", VirtualClock()) as journal:
        journal.ask(Add("more.json", "", many, OnConflict.KEEP), "ada@ops1 (7)")

        (asked,) = journal.asked()

    assert isinstance(asked.command, Add)
    assert asked.command.partitions == many


def test_events_of_an_extra_plan_are_described_in_a_sentence() -> None:
    assert event_sentence(ADDED) == (
        "plan more.json joins the run, 4 partitions; partitions that the run moves elsewhere are "
        "rolled back first"
    )
    assert event_sentence(Joined(partitions=(tp("orders-0"),))) == (
        "orders-0 waits for the target of an extra plan"
    )


def test_the_effects_on_partitions_are_described_with_their_counts() -> None:
    some = [JoinEffect.NEW] * 1200 + [
        JoinEffect.ROLL_BACK,
        JoinEffect.INSTEAD,
        JoinEffect.SAME,
        JoinEffect.SAME,
    ]

    assert join_effects_text(some) == (
        "1,200 join the queue, 1 that waited goes to the new target instead, 1 is rolled back "
        "first, then queued, 2 are at that target or on the way there already"
    )


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_a_partition_the_run_does_not_have_is_new(on_conflict: OnConflict) -> None:
    assert join_effect(None, (1, 2), (3, 4), on_conflict) is JoinEffect.NEW


P0, P1 = (TopicPartition("orders", n) for n in range(2))


def moved() -> list[AnyRunEvent]:
    """Move orders-0 from broker 3 to 4, to its end."""
    at_target = StepOver(topic="orders", partition=0, replicas=(1, 2, 4), leader=1)
    done = StateEntered(topic="orders", partition=0, state=State.DONE)
    return [step(0), accepted(0), at_target, done]


def run_of(events: Sequence[AnyRunEvent] = ()) -> Run:
    run = Run("drain")
    for seq, event in enumerate([started(2), planned(2), *events], 1):
        run.apply(JournalEntry(seq, START, event))
    return run


@pytest.mark.parametrize("broker", [1, 2, 3, 4])
def test_a_partition_has_to_do_with_the_brokers_that_it_has_and_gets(broker: int) -> None:
    assert partitions_on(run_of(), [broker]) == (P0, P1)


def test_no_partition_has_to_do_with_any_other_broker() -> None:
    assert partitions_on(run_of(), [5, 6]) == ()
    assert partitions_on(run_of(), []) == ()


def test_a_partition_that_has_left_a_broker_has_nothing_to_do_with_it_any_more() -> None:
    run = run_of(moved())

    assert partitions_on(run, [3]) == (P1,)
    assert partitions_on(run, [4]) == (P0, P1)


def test_a_pause_is_lifted_of_partitions_that_have_left_the_broker_since() -> None:
    assert partitions_on(run_of(moved()), [3], ever=True) == (P0, P1)


def test_a_stopped_partition_gains_nothing_any_more() -> None:
    stop = CancelAsked(kind=CancelKind.STOP, partitions=(P1,))

    assert partitions_on(run_of([stop]), [4]) == (P0,)
    assert partitions_on(run_of([stop]), [3]) == (P0, P1)


def test_a_partition_that_is_rolled_back_gains_its_original_replicas() -> None:
    rollback = CancelAsked(kind=CancelKind.ROLLBACK, partitions=(P0,))

    assert partitions_on(run_of([*moved()[:3], rollback]), [3]) == (P0, P1)


UNSET = Setting("", ConfigSource.DEFAULT)
LIST, RATE = (topic("orders"), FOLLOWER_REPLICAS), (broker(4), FOLLOWER_RATE)
FOUND = SettingsFound(found=(FoundSetting(*LIST, UNSET), FoundSetting(*RATE, None)))
APPEND, SUBTRACT = ConfigOp.APPEND, ConfigOp.SUBTRACT


def put_in(value: str) -> Configure:
    return Configure(changes=(change_list(APPEND, value),))


def take_off(value: str) -> Configure:
    return Configure(changes=(change_list(SUBTRACT, value),))


def rate(bytes_s: int) -> Configure:
    return Configure(changes=(set_rate(4, bytes_s),))


PUT_BACK = Configure(
    changes=(change_list(ConfigOp.DELETE, None), set_rate(4, None)), puts_back=True
)


def answer(verdict: Verdict, message: str = "", who: object = LIST[0]) -> Configured:
    assert who in (LIST[0], RATE[0])
    resource = LIST[0] if who == LIST[0] else RATE[0]
    return Configured(resource=resource, verdict=verdict, code="ANY", message=message)


YES, NO, LOST = (answer(verdict) for verdict in Verdict)
RATE_YES, RATE_NO, RATE_LOST = (answer(verdict, who=RATE[0]) for verdict in Verdict)


def fold(*events: ThrottleEvent) -> ThrottleLedger:
    throttled = ThrottleLedger()
    for event in (FOUND, *events):
        throttled.apply(event)
    return throttled


@pytest.mark.parametrize(
    ("events", "listed", "unsure"),
    [
        ([], "", False),
        ([put_in("0:4")], "0:4", True),
        ([put_in("0:4"), YES], "0:4", False),
        ([put_in("0:4"), NO], "", False),
        ([put_in("0:4"), LOST], "0:4", True),
        ([put_in("0:4"), LOST, put_in("0:4"), YES], "0:4", False),
        ([put_in("0:4"), LOST, put_in("0:4"), NO], "0:4", True),
        ([put_in("0:4"), YES, put_in("1:4,2:5")], "0:4,1:4,2:5", True),
        ([put_in("0:4"), YES, put_in("1:4,2:5"), NO], "0:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4")], "0:4,1:4", True),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), YES], "1:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), NO], "0:4,1:4", False),
        ([put_in("0:4,1:4"), YES, take_off("0:4"), LOST], "0:4,1:4", True),
        ([put_in("0:4"), YES, take_off("0:4"), YES, PUT_BACK, LOST], "", True),
    ],
)
def test_an_entry_is_ours_from_its_intent_until_kafka_confirms_its_removal(
    events: Sequence[ThrottleEvent], listed: str, *, unsure: bool
) -> None:  # fmt: skip
    throttled = fold(*events)

    ours = throttled.ours[LIST]
    assert ours == SetByRun(UNSET, parse_throttled_list(listed), bool(events), unsure)
    partitions = {TopicPartition("orders", int(each[0])) for each in listed.split(",") if each}
    assert throttled.partitions == partitions


@pytest.mark.parametrize(
    ("events", "values", "unsure"),
    [
        ([rate(5)], {"5"}, True),
        ([rate(5), RATE_YES], {"5"}, False),
        ([rate(5), RATE_NO], set(), False),
        ([rate(5), RATE_LOST], {"5"}, True),
        ([rate(5), RATE_LOST, rate(7)], {"5", "7"}, True),
        ([rate(5), RATE_LOST, rate(7), RATE_YES], {"7"}, False),
        ([rate(5), RATE_YES, rate(7), RATE_LOST], {"5", "7"}, True),
        ([rate(5), RATE_YES, rate(7), RATE_NO], {"5"}, False),
        ([rate(5), RATE_YES, PUT_BACK, RATE_NO], {"5"}, False),
        ([rate(5), RATE_YES, PUT_BACK, RATE_LOST], {"5"}, True),
    ],
)
def test_a_rate_is_ours_as_long_as_it_may_be_set(
    events: Sequence[ThrottleEvent], values: set[str], *, unsure: bool
) -> None:  # fmt: skip
    throttled = fold(*events)

    assert throttled.ours[RATE] == SetByRun(None, frozenset(values), touched=True, unsure=unsure)
    assert throttled.brokers == ([4] if values else [])


def test_a_setting_put_back_or_given_up_is_no_longer_ours() -> None:
    both = fold(rate(5), RATE_YES, put_in("0:4"), YES)
    assert not both.clean

    both.apply(PUT_BACK)
    both.apply(YES)
    assert list(both.ours) == [RATE]
    both.apply(
        SettingsGivenUp(resource=RATE[0], keys=(RATE[1],), reason="someone else set it to 9")
    )

    assert both.clean


class NeverScanned(dict[SettingKey, SetByRun]):
    """Settings of so many topics that nobody may look through all of them for one."""

    def __iter__(self) -> Iterator[SettingKey]:
        raise AssertionError


def test_to_put_a_setting_back_costs_the_same_however_many_there_are() -> None:
    throttled = fold(put_in("0:4"), YES, PUT_BACK)
    throttled.ours = NeverScanned(throttled.ours)

    throttled.apply(YES)

    assert [*throttled.ours.keys() & {LIST, RATE}] == [RATE]


def test_the_value_found_at_first_is_never_forgotten() -> None:
    again = FoundSetting(*RATE, Setting("5", ConfigSource.OWN))

    throttled = fold(rate(5), RATE_LOST, SettingsFound(found=(again,)))

    assert throttled.ours[RATE].before is None


def test_a_refusal_is_kept_until_the_change_is_accepted_or_another_rate_requested() -> None:
    refusal = answer(Verdict.REFUSED, "the list is too long")
    refused = fold(put_in("0:4"), refusal, rate(5), RATE_YES)
    assert refused.refusal == "the list is too long"

    assert fold(put_in("0:4"), refusal, put_in("0:4"), YES).refusal == ""
    refused.apply(ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("5MB")))
    assert refused.refusal == ""
    assert refused.rates == parse_throttle_rates("5MB")


def test_an_unanswered_change_is_known_until_its_resource_is_answered() -> None:
    throttled = fold(put_in("0:4"), LOST, rate(5))
    assert throttled.asked.keys() == {LIST[0], RATE[0]}

    throttled.apply(RATE_NO)
    throttled.apply(put_in("0:4"))
    throttled.apply(YES)

    assert not throttled.asked


class _Kafka:
    """The real list of a topic, by the changes that arrived."""

    def __init__(self) -> None:
        self.listed: frozenset[str] = frozenset()

    def take(self, change: ConfigChange) -> None:
        values = parse_throttled_list(change.value or "")
        added = change.op is APPEND
        self.listed = self.listed | values if added else self.listed - values


_ENTRY = st.sets(st.integers(0, 4), min_size=1).map(
    lambda numbers: ",".join(f"{number}:4" for number in sorted(numbers))
)
_CHANGE = st.builds(change_list, st.sampled_from((APPEND, SUBTRACT)), _ENTRY)
_HAPPENS = st.tuples(_CHANGE, st.sampled_from(Verdict), st.booleans())


@given(st.lists(_HAPPENS, max_size=12))
def test_every_entry_of_ours_that_is_listed_is_known_whatever_is_answered(
    happens: list[tuple[ConfigChange, Verdict, bool]],
) -> None:
    throttled, kafka = fold(), _Kafka()
    for change, verdict, arrived in happens:
        for event in (Configure(changes=(change,)), answer(verdict)):
            throttled.apply(decode(encode(event)))  # type: ignore[arg-type] # it is one of throttles
        if verdict is Verdict.ACCEPTED or (verdict is Verdict.UNKNOWN and arrived):
            kafka.take(change)

        known = throttled.held(LIST)
        assert kafka.listed <= known
        assert throttled.ours[LIST].unsure or known == kafka.listed
