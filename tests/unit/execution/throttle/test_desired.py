"""What is due of throttles: whom the lists hold, which rates are set, and what may go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigResource, ConfigSource, Setting, Verdict
from ktui.cluster.resources import SettingKey
from ktui.cluster.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LONGEST_LIST,
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
from ktui.execution.run.first_events import planned_parts
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.throttle.desired import ThrottleChanges, throttle_resources
from ktui.pacing.decision import Move
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.runs.throttled import broker, change_list, many_entries, set_rate, topic
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
LIST, LEADERS = (topic("orders"), FOLLOWER_REPLICAS), (topic("orders"), LEADER_REPLICAS)
AT = datetime(2026, 1, 1, tzinfo=UTC)
UNSET = Setting("", ConfigSource.DEFAULT)


class Ground:
    """A run of partitions like "orders-0", from 1, 2, 3 to 4, 2, 3 unless told otherwise."""

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


def test_nothing_is_due_of_a_run_without_steps_or_without_a_throttle() -> None:
    idle, free = Ground(), Ground("none")
    free.begins("orders-0")

    for ground in (idle, free):
        due = ground.due
        assert not [*due.rates(), *due.additions(), *due.removals(), *due.unread()]
        assert due.in_force(tp("orders-0"))


def test_the_settings_are_read_then_the_rate_is_set_then_the_replica_listed() -> None:
    ground = Ground()
    ground.begins("orders-0")
    assert ground.due.unread() == [(broker(4), FOLLOWER_RATE), LIST]
    assert not ground.due.in_force(tp("orders-0"))

    ground.found({})
    assert list(ground.due.rates()) == [set_rate(4, 5_000)]
    assert list(ground.due.additions()) == []

    ground.carried_out(ground.due.rates())
    assert list(ground.due.rates()) == []
    assert list(ground.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]

    ground.carried_out(ground.due.additions())
    assert list(ground.due.additions()) == []
    assert ground.due.in_force(tp("orders-0"))


@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.UNKNOWN])
def test_a_throttle_that_was_refused_or_not_answered_is_not_in_force(verdict: Verdict) -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.found({})
    ground.carried_out(ground.due.rates(), verdict)
    assert list(ground.due.additions()) == []
    assert list(ground.due.rates()) == [set_rate(4, 5_000)]

    ground.carried_out(ground.due.rates())
    ground.carried_out(ground.due.additions(), verdict)

    assert not ground.due.in_force(tp("orders-0"))
    assert list(ground.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]


def test_a_replica_that_is_in_sync_is_taken_off_and_the_others_stay() -> None:
    ground = Ground()
    ground.begins("orders-0", (4, 5))
    ground.begins("orders-1")
    ground.tightened()

    ground.in_sync("orders-0", 1, 2, 3, 4)

    assert list(ground.due.removals()) == [change_list(ConfigOp.SUBTRACT, "0:4")]


def test_the_leaders_list_holds_each_that_may_lead_until_all_new_ones_are_in_sync() -> None:
    ground = Ground(leaders=True)
    ground.begins("orders-0")
    ground.tightened()
    assert ground.run.throttled.held(LEADERS) == parse_throttled_list("0:1,0:2,0:3")
    assert ground.run.throttled.brokers == [1, 2, 3, 4]
    assert ground.run.throttled.held((broker(1), LEADER_RATE)) == {"5000"}

    ground.in_sync("orders-0", 1, 2, 3, 4)

    assert {change.value for change in ground.due.removals()} == {"0:4", "0:1,0:2,0:3"}


def test_a_rate_that_is_there_already_is_not_set() -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.found({(broker(4), FOLLOWER_RATE): Setting("5000", ConfigSource.OWN)})

    assert list(ground.due.rates()) == []
    assert list(ground.due.additions()) == [change_list(ConfigOp.APPEND, "0:4")]


@pytest.mark.parametrize("source", set(ConfigSource) - {ConfigSource.OWN})
def test_a_rate_that_is_not_the_brokers_own_is_set_all_the_same(source: ConfigSource) -> None:
    ground = Ground()
    ground.begins("orders-0")

    ground.found({(broker(4), FOLLOWER_RATE): Setting("5000", source)})

    assert list(ground.due.rates()) == [set_rate(4, 5_000)]


@pytest.mark.parametrize("theirs", ["*", "0:4", "7:7, 0:4"])
def test_a_list_of_others_that_binds_the_replica_is_left_as_it_is(theirs: str) -> None:
    ground = Ground()
    ground.begins("orders-0")

    ground.tightened({LIST: Setting(theirs, ConfigSource.OWN)})

    assert ground.run.throttled.held(LIST) == frozenset()
    assert ground.due.in_force(tp("orders-0"))


def test_a_list_of_everything_found_later_is_enough() -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.found({})
    ground.carried_out(ground.due.rates())

    ground.covered.add(LIST)

    assert list(ground.due.additions()) == []
    assert ground.due.in_force(tp("orders-0"))


def test_a_list_is_filled_as_far_as_it_goes_and_no_further() -> None:
    names = [f"orders-{n}" for n in range(10)]
    theirs = many_entries(LONGEST_LIST - 12)
    ground = Ground("5kB", *names)
    for name in names:
        ground.begins(name)

    ground.tightened({LIST: Setting(theirs, ConfigSource.OWN)})

    held = ground.run.throttled.held(LIST)
    assert 0 < len(held) < len(names)
    assert len(",".join((theirs, *held))) <= LONGEST_LIST
    assert sum(ground.due.in_force(tp(name)) for name in names) == len(held)


def test_another_rate_is_due_at_once_for_each_broker_that_copies() -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.begins("orders-1", (5,))
    ground.tightened()

    change = ThrottleChanged(
        old=parse_throttle_rates("5kB"), new=parse_throttle_rates("7kB,5=none")
    )
    ground.happen(change)

    assert list(ground.due.rates()) == [set_rate(4, 7_000)]
    assert list(ground.due.removals()) == [change_list(ConfigOp.SUBTRACT, "1:5")]


def test_a_setting_is_kept_as_long_as_something_in_flight_or_to_come_needs_it() -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.tightened()
    assert ground.due.done_with(leaving=False) == []
    assert ground.due.done_with(leaving=True) == []

    over = StepOver(topic="orders", partition=0, replicas=(*RF3, 4), leader=1)
    ground.happen(over)
    ground.carried_out(ground.due.removals())

    rate = (broker(4), FOLLOWER_RATE)
    assert ground.due.done_with(leaving=False) == []
    assert set(ground.due.done_with(leaving=True)) == {rate, LIST}
    ground.happen(ThrottleChanged(old=parse_throttle_rates("5kB"), new=NO_THROTTLE))
    assert set(ground.due.done_with(leaving=False)) == {rate, LIST}


def test_a_rate_is_kept_while_an_entry_of_its_broker_may_be_listed() -> None:
    ground = Ground()
    ground.begins("orders-0")
    ground.tightened()
    ground.happen(ThrottleChanged(old=parse_throttle_rates("5kB"), new=NO_THROTTLE))

    ground.carried_out(ground.due.removals(), Verdict.UNKNOWN)

    assert ground.due.done_with(leaving=True) == []


def test_a_step_needs_its_topic_and_the_brokers_that_it_adds_and_a_cut_needs_none() -> None:
    ground = Ground()
    ground.begins("orders-0")
    begun = ground.run.flying[tp("orders-0")].step
    assert begun is not None
    move = Move(tp("orders-0"), begun.begun.step, alone=False, holds_place=True)

    assert throttle_resources(move, {}) == {broker(4), topic("orders")}


def test_with_leaders_throttled_a_step_needs_the_brokers_that_may_lead_too() -> None:
    ground = Ground(leaders=True)
    ground.begins("orders-0")
    begun = ground.run.flying[tp("orders-0")].step
    assert begun is not None
    move = Move(tp("orders-0"), begun.begun.step, alone=False, holds_place=True)
    ground.states[tp("orders-0")] = PartitionState(
        tp("orders-0"), "t", replicas=RF3, isr=RF3, leader=1, offline=(3,)
    )

    def needs(resource: ConfigResource, *, leaders: bool) -> bool:
        return resource in throttle_resources(move, ground.states, leaders=leaders)

    assert needs(broker(1), leaders=True)
    assert not needs(broker(1), leaders=False)
    assert not needs(broker(3), leaders=True)
