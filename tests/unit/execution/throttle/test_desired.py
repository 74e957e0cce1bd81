"""The throttle changes that are due: entries to list, rates to set, and what may go."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigResource, ConfigSource, Setting, Verdict
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST,
    SettingKey,
    parse_throttled_list,
)
from ktui.execution.run.events import (
    AnyRunEvent,
    Configure,
    Configured,
    FoundSetting,
    JournalEntry,
    Planned,
    SettingsFound,
    Started,
    StepBegun,
    StepOver,
    ThrottleChanged,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import planned_parts
from ktui.execution.run.run import Run
from ktui.execution.throttle.desired import ThrottleChanges, throttle_resources
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Move
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.runs.throttled import broker, change_list, many_entries, set_rate, topic
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
LIST, LEADERS = (topic("orders"), FOLLOWER_REPLICAS), (topic("orders"), LEADER_REPLICAS)
AT = datetime(2026, 1, 1, tzinfo=UTC)
UNSET = Setting("", ConfigSource.DEFAULT)


class SampleRun:
    """A run of partitions like "orders-0", from 1, 2, 3 to 4, 2, 3 by default."""

    def __init__(
        self, rate: str = "5kB", *names: str, leaders: bool = False, target: int = 4
    ) -> None:
        options = RunOptions(throttle=parse_throttle_rates(rate), throttle_leaders=leaders)
        self.run = Run("run")
        planned = [
            Planned(
                topic=each.topic,
                partition=each.partition,
                topic_id="t",
                target=(target, 2, 3),
                original=RF3,
                leader=1,
                size=1,
            )
            for each in map(tp, names or ("orders-0", "orders-1"))
        ]
        started = Started(
            cluster_id="c", plan="p", plan_sha256="", partitions=len(planned), limits=Limits(),
            options=options, connection={}, version="",
        )  # fmt: skip
        self.happen(started, *planned_parts(planned))
        self.states: dict[TopicPartition, PartitionState] = {}
        self.covered: set[SettingKey] = set()

    def happen(self, *events: AnyRunEvent) -> None:
        for event in events:
            self.run.apply(JournalEntry(self.run.seq + 1, AT, event))

    def begins(self, name: str, adding: tuple[int, ...] = (4,)) -> None:
        self.happen(
            StepBegun(
                topic=tp(name).topic, partition=tp(name).partition, batch=1,
                replicas=(*RF3, *adding), adding=adding, removing=(), elect=None, before=RF3,
                leader=1,
            )
        )  # fmt: skip

    def in_sync(self, name: str, *isr: int) -> None:
        self.states[tp(name)] = PartitionState(
            tp=tp(name), topic_id="t", replicas=(*RF3, 4), isr=isr, leader=1, leader_epoch=0
        )

    def found(self, before: Mapping[SettingKey, Setting]) -> None:
        found = [FoundSetting(*key, before.get(key, UNSET)) for key in self.due.unread()]
        self.happen(SettingsFound(found=tuple(found)))

    def carried_out(self, changes: Iterable[object], verdict: Verdict = Verdict.ACCEPTED) -> None:
        for change in changes:
            self.happen(
                Configure(changes=(change,)),  # type: ignore[arg-type] # they are changes
                Configured(resource=change.resource, verdict=verdict),  # type: ignore[attr-defined]
            )

    def tightened(self, before: Mapping[SettingKey, Setting] | None = None) -> None:
        self.found(before or {})
        self.carried_out(self.due.rates())
        self.carried_out(self.due.additions())

    @property
    def due(self) -> ThrottleChanges:
        return ThrottleChanges(self.run, self.states, self.covered)


def test_nothing_is_due_for_a_run_without_steps_or_without_a_throttle() -> None:
    idle, free = SampleRun(), SampleRun("none")
    free.begins("orders-0")

    for sample in (idle, free):
        due = sample.due
        assert not [*due.rates(), *due.additions(), *due.removals(), *due.unread()]
        assert due.in_force(tp("orders-0"))


def test_the_settings_are_read_then_the_rate_is_set_then_the_replica_listed() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    assert sample.due.unread() == [(broker(4), FOLLOWER_RATE), LIST]
    assert not sample.due.in_force(tp("orders-0"))

    sample.found({})
    assert list(sample.due.rates()) == [set_rate(4, 5_000)]
    assert list(sample.due.additions()) == []

    sample.carried_out(sample.due.rates())
    assert list(sample.due.rates()) == []
    assert list(sample.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]

    sample.carried_out(sample.due.additions())
    assert list(sample.due.additions()) == []
    assert sample.due.in_force(tp("orders-0"))


@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.UNKNOWN])
def test_a_throttle_that_was_refused_or_not_answered_is_not_in_force(verdict: Verdict) -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.found({})
    sample.carried_out(sample.due.rates(), verdict)
    assert list(sample.due.additions()) == []
    assert list(sample.due.rates()) == [set_rate(4, 5_000)]

    sample.carried_out(sample.due.rates())
    sample.carried_out(sample.due.additions(), verdict)

    assert not sample.due.in_force(tp("orders-0"))
    assert list(sample.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]


def test_an_in_sync_replica_is_removed_from_the_list_and_the_others_stay() -> None:
    sample = SampleRun()
    sample.begins("orders-0", (4, 5))
    sample.begins("orders-1")
    sample.tightened()

    sample.in_sync("orders-0", 1, 2, 3, 4)

    assert list(sample.due.removals()) == [change_list(ConfigOp.SUBTRACT, "0:4")]


def test_the_leader_list_holds_possible_leaders_until_all_added_replicas_are_in_sync() -> None:
    sample = SampleRun(leaders=True)
    sample.begins("orders-0")
    sample.tightened()
    assert sample.run.throttled.held(LEADERS) == parse_throttled_list("0:1,0:2,0:3")
    assert sample.run.throttled.brokers == [1, 2, 3, 4]
    assert sample.run.throttled.held((broker(1), LEADER_RATE)) == {"5000"}

    sample.in_sync("orders-0", 1, 2, 3, 4)

    assert {change.value for change in sample.due.removals()} == {"0:4", "0:1,0:2,0:3"}


def test_a_rate_already_in_place_is_not_set() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.found({(broker(4), FOLLOWER_RATE): Setting("5000", ConfigSource.OWN)})

    assert list(sample.due.rates()) == []
    assert list(sample.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]


@pytest.mark.parametrize("source", sorted(set(ConfigSource) - {ConfigSource.OWN}))
def test_a_rate_that_is_not_the_brokers_own_is_still_set(source: ConfigSource) -> None:
    sample = SampleRun()
    sample.begins("orders-0")

    sample.found({(broker(4), FOLLOWER_RATE): Setting("5000", source)})

    assert list(sample.due.rates()) == [set_rate(4, 5_000)]


@pytest.mark.parametrize("theirs", ["*", "0:4", "7:7, 0:4"])
def test_a_list_of_others_that_binds_the_replica_is_left_as_it_is(theirs: str) -> None:
    sample = SampleRun()
    sample.begins("orders-0")

    sample.tightened({LIST: Setting(theirs, ConfigSource.OWN)})

    assert sample.run.throttled.held(LIST) == frozenset()
    assert sample.due.in_force(tp("orders-0"))


def test_a_wildcard_list_found_later_is_enough() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.found({})
    sample.carried_out(sample.due.rates())

    sample.covered.add(LIST)

    assert list(sample.due.additions()) == []
    assert sample.due.in_force(tp("orders-0"))


def test_a_list_is_filled_up_to_its_limit_and_no_further() -> None:
    names = [f"orders-{n}" for n in range(10)]
    theirs = many_entries(LONGEST_LIST - 12)
    sample = SampleRun("5kB", *names)
    for name in names:
        sample.begins(name)

    sample.tightened({LIST: Setting(theirs, ConfigSource.OWN)})

    held = sample.run.throttled.held(LIST)
    assert 0 < len(held) < len(names)
    assert len(",".join((theirs, *held))) <= LONGEST_LIST
    assert sum(sample.due.in_force(tp(name)) for name in names) == len(held)


def test_a_changed_rate_is_due_at_once_for_each_broker_that_copies() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.begins("orders-1", (5,))
    sample.tightened()

    change = ThrottleChanged(
        old=parse_throttle_rates("5kB"), new=parse_throttle_rates("7kB,5=none")
    )
    sample.happen(change)

    assert list(sample.due.rates()) == [set_rate(4, 7_000)]
    assert list(sample.due.removals()) == [change_list(ConfigOp.SUBTRACT, "1:5")]


def test_a_setting_is_kept_while_something_in_flight_or_to_come_needs_it() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.tightened()
    assert sample.due.done_with(leaving=False) == []
    assert sample.due.done_with(leaving=True) == []

    over = StepOver(topic="orders", partition=0, replicas=(*RF3, 4), leader=1)
    sample.happen(over)
    sample.carried_out(sample.due.removals())

    rate = (broker(4), FOLLOWER_RATE)
    assert sample.due.done_with(leaving=False) == []
    assert set(sample.due.done_with(leaving=True)) == {rate, LIST}
    sample.happen(ThrottleChanged(old=parse_throttle_rates("5kB"), new=NO_THROTTLE))
    assert set(sample.due.done_with(leaving=False)) == {rate, LIST}


def test_a_rate_is_kept_while_an_entry_of_its_broker_may_be_listed() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    sample.tightened()
    sample.happen(ThrottleChanged(old=parse_throttle_rates("5kB"), new=NO_THROTTLE))

    sample.carried_out(sample.due.removals(), Verdict.UNKNOWN)

    assert sample.due.done_with(leaving=True) == []


def test_a_step_needs_the_settings_of_its_topic_and_of_the_brokers_it_adds() -> None:
    sample = SampleRun()
    sample.begins("orders-0")
    begun = sample.run.tracks_in_flight[tp("orders-0")].step
    assert begun is not None
    move = Move(tp("orders-0"), begun.begun.step, alone=False, holds_place=True)

    assert throttle_resources(move, {}) == {broker(4), topic("orders")}


def test_with_leaders_throttled_a_step_needs_the_brokers_that_may_lead_too() -> None:
    sample = SampleRun(leaders=True)
    sample.begins("orders-0")
    begun = sample.run.tracks_in_flight[tp("orders-0")].step
    assert begun is not None
    move = Move(tp("orders-0"), begun.begun.step, alone=False, holds_place=True)
    sample.states[tp("orders-0")] = PartitionState(
        tp("orders-0"), "t", replicas=RF3, isr=RF3, leader=1, offline=(3,)
    )

    def needs(resource: ConfigResource, *, leaders: bool) -> bool:
        return resource in throttle_resources(move, sample.states, leaders=leaders)

    assert needs(broker(1), leaders=True)
    assert not needs(broker(1), leaders=False)
    assert not needs(broker(3), leaders=True)
