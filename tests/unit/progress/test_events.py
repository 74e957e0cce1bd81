"""The events reported to the operator: their wording and severity."""

from datetime import timedelta

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress import fold as folding
from ktui.progress.news import PER_TIMELINE, EventSeverity
from ktui.progress.timeline import Event, Progress, in_time_order
from ktui.simulated import layout as acts
from support.simulated.moving_clusters import a_cluster
from support.simulated.observations import (
    START,
    T0,
    Recorder,
    a_move,
    a_partition,
    an_observation,
    folded,
)

MIN_ISR_2 = {"orders": TopicConfig(min_insync_replicas=2)}


def observed(*states: PartitionState) -> list[Observation]:
    return [
        an_observation([state], float(second), topic_configs=MIN_ISR_2)
        for second, state in enumerate(states)
    ]


def reported(progress: Progress) -> list[tuple[str, int]]:
    return [(event.what, event.severity) for event in progress.events]


def test_a_reassignment_found_under_way_is_reported_with_its_replica_lists() -> None:
    (event,) = folded(observed(a_move())).events
    assert event.what.startswith("reassignment under way: [")
    assert event.what.endswith("] -> [4,2,3]")
    assert (event.tp, event.at, event.severity) == (T0, START, EventSeverity.NEWS)


def test_a_reassignment_that_appears_later_is_reported_as_started() -> None:
    now = folded([an_observation(), an_observation([a_move()], 1.0)])
    assert reported(now)[0][0].startswith("reassignment started: ")


def test_a_watched_partition_that_starts_to_move_is_reported_with_ordered_lists() -> None:
    now = folded(observed(a_partition(T0, (2, 1, 3)), a_move(T0, (2, 1, 3), (4, 1, 3))))
    assert reported(now) == [("reassignment started: [2,1,3] -> [4,1,3]", 0)]


def test_an_adding_replica_that_joins_the_isr_is_reported_as_caught_up() -> None:
    now = folded(observed(a_move(), a_move(isr=(1, 2, 3, 4))))
    assert reported(now)[-1] == ("adding replica caught up: broker 4 joined the ISR", 0)


def test_a_replica_that_leaves_the_isr_is_a_warning_and_its_return_is_news() -> None:
    now = folded(observed(a_partition(), a_partition(isr=(1, 2)), a_partition()))
    assert reported(now) == [
        ("broker 3 left the ISR", 1),
        ("under-replicated: 2 of 3 in sync", 1),
        ("broker 3 joined the ISR", 0),
        ("fully replicated again", 0),
    ]


@pytest.mark.parametrize("isr", [(2, 3), (2,)])
def test_recovery_is_not_reported_when_no_trouble_was(isr: tuple[int, ...]) -> None:
    now = folded(observed(a_move(isr=isr, leader=2), a_move(isr=(2, 3, 4), leader=2)))
    assert reported(now)[1:] == [
        *[("broker 3 joined the ISR", 0)][len(isr) - 1 :],
        ("adding replica caught up: broker 4 joined the ISR", 0),
    ]


def test_health_that_worsens_after_the_first_poll_is_reported_and_so_is_recovery() -> None:
    now = folded(observed(a_partition(isr=(1, 2)), a_partition(isr=(1,)), a_partition()))
    assert ("under min ISR: 1 in sync, 2 needed", 2) in reported(now)
    assert reported(now)[-1] == ("fully replicated again", 0)
    after = folded([an_observation([a_partition()], 9.0)], now)
    assert [what for what, _ in reported(after)].count("fully replicated again") == 1


def test_a_retiring_replica_that_leaves_the_isr_is_only_news() -> None:
    now = folded(observed(a_move(isr=(1, 2, 3, 4), leader=2), a_move(isr=(2, 3, 4), leader=2)))
    assert reported(now)[-1] == ("retiring broker 1 left the ISR", 0)


def test_a_partition_below_min_isr_is_trouble() -> None:
    now = folded(observed(a_partition(isr=(1, 2)), a_partition(isr=(1,))))
    assert reported(now)[-1] == ("under min ISR: 1 in sync, 2 needed", 2)


def test_an_offline_partition_is_trouble_and_its_new_leader_is_news() -> None:
    offline = a_partition(isr=(1,), leader=None)
    now = folded(observed(a_partition(isr=(1,)), offline, a_partition(isr=(1,), leader_epoch=8)))
    assert reported(now) == [
        ("lost its leader, broker 1", 2),
        ("partition offline", 2),
        ("broker 1 leads (epoch 8)", 0),
        ("under min ISR: 1 in sync, 2 needed", 2),
    ]


def test_a_leader_movement_is_reported_with_its_epoch() -> None:
    now = folded(observed(a_partition(), a_partition(leader=2, leader_epoch=5)))
    assert reported(now) == [("leader moved 1 -> 2 (epoch 5)", 0)]


def test_a_reorder_between_two_polls_is_reported() -> None:
    now = folded(observed(a_partition(), a_partition(replicas=(2, 1, 3), leader=1)))
    assert reported(now) == [("replicas changed from [1,2,3] to [2,1,3] between two polls", 0)]
    assert now.timelines[T0].target == (2, 1, 3)


def test_a_deleted_watched_topic_is_reported_and_dropped() -> None:
    now = folded([*observed(a_partition()), an_observation([], 1.0, absent=frozenset({T0}))])
    assert reported(now) == [("topic deleted", 1)]
    assert T0 not in now.timelines


def test_partitions_unhealthy_before_the_watch_began_are_not_reported() -> None:
    assert reported(folded(observed(a_partition(isr=(1,)), a_partition(isr=(1,))))) == []


def test_a_broker_outage_and_return_are_each_reported_once_for_the_cluster() -> None:
    polls = [
        an_observation([], 0.0),
        an_observation([], 1.0, down=[7]),
        an_observation([], 2.0, brokers=range(1, 7)),
        an_observation([], 3.0),
    ]
    now = folded(polls)
    assert [(e.what, e.severity, e.broker, e.tp) for e in now.events] == [
        ("broker 7 is down", 2, 7, None),
        ("broker 8 is down", 2, 8, None),
        ("broker 9 is down", 2, 9, None),
        ("broker 7 is back", 0, 7, None),
        ("broker 8 is back", 0, 8, None),
        ("broker 9 is back", 0, 9, None),
    ]


def test_a_new_broker_is_reported_as_joined() -> None:
    now = folded([an_observation(brokers=[1]), an_observation([], 1.0, brokers=[1, 2])])
    assert reported(now) == [("broker 2 joined the cluster", 0)]


def test_missing_figures_of_a_broker_and_their_return_are_each_reported_once() -> None:
    failing = (
        Failure(Operation.LOG_ENDS, "no answer for 2.1 s", 4),
        Failure(Operation.LOG_DIRS, "no answer for 2.2 s", 4),
    )
    polls = [
        an_observation([], 0.0),
        an_observation([], 1.0, failures=failing),
        an_observation([], 2.0, failures=failing[:1]),
        an_observation([], 3.0),
    ]
    assert reported(folded(polls)) == [
        ("figures of broker 4 are missing: no answer", 1),
        ("figures of broker 4 are back", 0),
    ]


def test_missing_figures_are_not_reported_for_a_broker_that_is_down() -> None:
    failing = (Failure(Operation.LOG_ENDS, "no answer", 4),)
    polls = [
        an_observation([], 0.0),
        an_observation([], 1.0, down=[4], failures=failing),
        an_observation([], 2.0),
    ]
    assert reported(folded(polls)) == [("broker 4 is down", 2), ("broker 4 is back", 0)]


def test_figures_are_not_reported_as_back_when_their_broker_goes_down() -> None:
    failing = (Failure(Operation.LOG_ENDS, "connection refused", 4),)
    polls = [an_observation([], 0.0, failures=failing), an_observation([], 1.0, down=[4])]
    assert [what for what, _ in reported(folded(polls))][1:] == ["broker 4 is down"]


def test_missing_figures_are_reported_without_address_or_advice() -> None:
    failure = Failure(
        Operation.LOG_ENDS,
        "reading log ends (127.0.0.1:9094): no answer: connection refused. Is the broker up?",
        4,
    )
    now = folded([an_observation([], 0.0, failures=(failure,))])
    assert reported(now) == [("figures of broker 4 are missing: no answer", 1)]


@pytest.mark.parametrize(("replicas", "alike"), [(5, False), (6, True)])
def test_six_or_more_replicas_of_a_broker_with_the_same_alarm_are_reported_together(
    replicas: int, *, alike: bool
) -> None:
    cluster = a_cluster(moving=[f"orders-{n}" for n in range(replicas)])
    recorder = Recorder(cluster)
    cluster.do(acts.Slow(4, 0.0))
    now = folded(recorder.record(40))
    cluster.do(acts.Slow(4, 1.0))
    after = folded(recorder.record(2), now)
    alarms = [what for what, severity in reported(now) if severity == EventSeverity.TROUBLE]
    recoveries = [what for what, _ in reported(after)[len(now.events) :]]
    if alike:
        assert alarms == ["broker 4: 6 replicas stalled: broker 4 does not fetch from 1"]
        assert recoveries == ["broker 4: 6 replicas make headway again"]
    else:
        assert alarms == ["replica 4 stalled: broker 4 does not fetch from 1"] * 5
        assert recoveries == ["replica 4 makes headway again"] * 5
    for timeline in after.timelines.values():
        assert [event.what for event in timeline.events[-2:]] == [
            "replica 4 stalled: broker 4 does not fetch from 1",
            "replica 4 makes headway again",
        ]


def test_health_ignores_the_longer_replica_list_of_stale_metadata_after_a_move() -> None:
    move = a_move(isr=(1, 2, 3, 4))
    stale = a_partition(T0, (4, 2, 3, 1), isr=(2, 3, 4), leader=4)
    now = folded(observed(move, stale, a_partition(T0, (4, 2, 3))))
    assert not [what for what, _ in reported(now) if "replicated" in what]


def test_a_partition_that_ends_under_replicated_is_reported_once_settled() -> None:
    lacking = a_partition(T0, (4, 2, 3), isr=(2, 3), leader=2)
    settling = folded(observed(a_move(), lacking))
    assert "under-replicated: 2 of 3 in sync" not in [what for what, _ in reported(settling)]
    now = folded(observed(a_move(), lacking, lacking, lacking))
    assert ("under-replicated: 2 of 3 in sync", 1) in reported(now)


def test_an_adding_replica_dropped_by_a_new_target_is_not_reported_as_missing() -> None:
    dropped = a_partition(
        T0, (5, 2, 3, 1, 4), isr=(1, 2, 3), adding=(5,), removing=(1, 4), leader=1
    )
    lagging = a_partition(T0, (5, 2, 3, 1, 4), isr=(1, 2, 3), adding=(5,), removing=(1,), leader=1)
    now = folded(observed(a_move(), lagging, dropped, a_partition(T0, (5, 2, 3))))
    assert not [what for what, _ in reported(now) if "replicated" in what]


def test_unauthorized_settings_are_reported_as_missing() -> None:
    denied = (Failure(Operation.TOPIC_CONFIGS, "not authorized", topic="orders", denied=True),)
    now = folded([an_observation([], 0.0, failures=denied)])
    assert reported(now) == [("topic settings are missing: not authorized", 1)]


def test_a_timeline_keeps_a_bounded_number_of_its_own_events() -> None:
    flapping = [a_partition(leader=n % 2 + 1, leader_epoch=n) for n in range(PER_TIMELINE + 50)]
    now = folded(observed(*flapping))
    events = now.timelines[T0].events
    assert len(events) == PER_TIMELINE
    assert events[-1] == now.events[-1]


def test_the_total_number_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_EVENTS", 100)
    many = [a_move(TopicPartition("orders", n)) for n in range(150)]
    events = folded([an_observation(many)]).events
    assert len(events) == 100
    assert events[-1].tp == TopicPartition("orders", 149)


def test_the_number_of_ended_timelines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_ENDED", 5)
    tps = [TopicPartition("orders", n) for n in range(8)]
    polls = [an_observation([a_move(tp) for tp in tps])]
    for n in range(8):
        done = a_partition(tps[n], (4, 2, 3))
        polls.append(an_observation([done, *map(a_move, tps[n + 1 :])], 1.0 + n))
    polls.append(an_observation([], 9.0))
    assert list(folded(polls).timelines) == tps[3:]


def test_events_of_several_sources_stand_in_the_order_of_time_whatever_their_clocks_did() -> None:
    def at(second: float) -> Event:
        return Event(START + timedelta(seconds=second), f"at {second}")

    set_back = [at(3), at(1), at(5)]
    assert [e.what for e in in_time_order(set_back, [at(2), at(4)])] == [
        "at 1", "at 2", "at 3", "at 4", "at 5",
    ]  # fmt: skip
