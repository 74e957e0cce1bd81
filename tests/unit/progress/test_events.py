"""What is told to the operator, in which words, and how loudly."""

from __future__ import annotations

import pytest

from ktui.cluster.broker import TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress import fold as folding
from ktui.progress.news import PER_TIMELINE, EventSeverity
from ktui.progress.timeline import Progress
from ktui.simulated import events as acts
from support.simulated.moving_clusters import a_cluster
from support.simulated.observations import START, T0, a_move, a_partition, an_observation, folded
from support.simulated.seen_polls import Recorder

MIN_ISR_2 = {"orders": TopicConfig(min_insync_replicas=2)}


def shown(*states: PartitionState) -> list[Observation]:
    return [
        an_observation([state], float(second), topic_configs=MIN_ISR_2)
        for second, state in enumerate(states)
    ]


def told(progress: Progress) -> list[tuple[str, int]]:
    return [(event.what, event.severity) for event in progress.events]


def test_a_reassignment_found_under_way_is_told_with_its_lists() -> None:
    (event,) = folded(shown(a_move())).events
    assert event.what.startswith("reassignment under way: [")
    assert event.what.endswith("] -> [4,2,3]")
    assert (event.tp, event.at, event.severity) == (T0, START, EventSeverity.NEWS)


def test_a_reassignment_that_appears_later_has_started() -> None:
    now = folded([an_observation(), an_observation([a_move()], 1.0)])
    assert told(now)[0][0].startswith("reassignment started: ")


def test_a_watched_partition_that_starts_to_move_is_told_in_order() -> None:
    now = folded(shown(a_partition(T0, (2, 1, 3)), a_move(T0, (2, 1, 3), (4, 1, 3))))
    assert told(now) == [("reassignment started: [2,1,3] -> [4,1,3]", 0)]


def test_an_adding_replica_that_joins_the_isr_has_caught_up() -> None:
    now = folded(shown(a_move(), a_move(isr=(1, 2, 3, 4))))
    assert told(now)[-1] == ("adding replica caught up: broker 4 joined the ISR", 0)


def test_a_replica_that_leaves_the_isr_is_a_warning_and_its_return_is_news() -> None:
    now = folded(shown(a_partition(), a_partition(isr=(1, 2)), a_partition()))
    assert told(now) == [
        ("broker 3 left the ISR", 1),
        ("under-replicated: 2 of 3 in sync", 1),
        ("broker 3 joined the ISR", 0),
        ("fully replicated again", 0),
    ]


@pytest.mark.parametrize("isr", [(2, 3), (2,)])
def test_nothing_is_well_again_of_which_no_trouble_was_told(isr: tuple[int, ...]) -> None:
    now = folded(shown(a_move(isr=isr, leader=2), a_move(isr=(2, 3, 4), leader=2)))
    assert told(now)[1:] == [
        *[("broker 3 joined the ISR", 0)][len(isr) - 1 :],
        ("adding replica caught up: broker 4 joined the ISR", 0),
    ]


def test_what_gets_worse_than_it_was_found_is_told_and_so_is_its_end() -> None:
    now = folded(shown(a_partition(isr=(1, 2)), a_partition(isr=(1,)), a_partition()))
    assert ("under min ISR: 1 in sync, 2 needed", 2) in told(now)
    assert told(now)[-1] == ("fully replicated again", 0)
    after = folded([an_observation([a_partition()], 9.0)], now)
    assert [what for what, _ in told(after)].count("fully replicated again") == 1


def test_a_retiring_replica_that_leaves_the_isr_is_only_news() -> None:
    now = folded(shown(a_move(isr=(1, 2, 3, 4), leader=2), a_move(isr=(2, 3, 4), leader=2)))
    assert told(now)[-1] == ("retiring broker 1 left the ISR", 0)


def test_a_partition_below_min_isr_is_trouble() -> None:
    now = folded(shown(a_partition(isr=(1, 2)), a_partition(isr=(1,))))
    assert told(now)[-1] == ("under min ISR: 1 in sync, 2 needed", 2)


def test_an_offline_partition_is_trouble_and_its_new_leader_is_news() -> None:
    offline = a_partition(isr=(1,), leader=None)
    now = folded(shown(a_partition(isr=(1,)), offline, a_partition(isr=(1,), leader_epoch=8)))
    assert told(now) == [
        ("lost its leader, broker 1", 2),
        ("partition offline", 2),
        ("broker 1 leads (epoch 8)", 0),
        ("under min ISR: 1 in sync, 2 needed", 2),
    ]


def test_a_leader_that_moves_is_told_with_its_epoch() -> None:
    now = folded(shown(a_partition(), a_partition(leader=2, leader_epoch=5)))
    assert told(now) == [("leader moved 1 -> 2 (epoch 5)", 0)]


def test_a_reorder_that_was_never_listed_is_told() -> None:
    now = folded(shown(a_partition(), a_partition(replicas=(2, 1, 3), leader=1)))
    assert told(now) == [("replicas changed from [1,2,3] to [2,1,3] between two polls", 0)]
    assert now.timelines[T0].target == (2, 1, 3)


def test_a_watched_topic_that_is_deleted_is_told_and_let_go() -> None:
    now = folded([*shown(a_partition()), an_observation([], 1.0, absent=frozenset({T0}))])
    assert told(now) == [("topic deleted", 1)]
    assert T0 not in now.timelines


def test_nothing_is_told_of_partitions_that_were_unhealthy_before_the_watch_began() -> None:
    assert told(folded(shown(a_partition(isr=(1,)), a_partition(isr=(1,))))) == []


def test_a_broker_that_goes_and_comes_is_told_once_for_the_cluster() -> None:
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


def test_a_new_broker_has_joined() -> None:
    now = folded([an_observation(brokers=[1]), an_observation([], 1.0, brokers=[1, 2])])
    assert told(now) == [("broker 2 joined the cluster", 0)]


def test_missing_figures_of_a_broker_are_told_once_and_so_is_their_return() -> None:
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
    assert told(folded(polls)) == [
        ("figures of broker 4 are missing: no answer", 1),
        ("figures of broker 4 are back", 0),
    ]


def test_a_broker_that_is_down_is_not_also_told_to_give_no_figures() -> None:
    failing = (Failure(Operation.LOG_ENDS, "no answer", 4),)
    polls = [
        an_observation([], 0.0),
        an_observation([], 1.0, down=[4], failures=failing),
        an_observation([], 2.0),
    ]
    assert told(folded(polls)) == [("broker 4 is down", 2), ("broker 4 is back", 0)]


def test_figures_are_not_told_to_be_back_when_their_broker_has_gone_down() -> None:
    failing = (Failure(Operation.LOG_ENDS, "connection refused", 4),)
    polls = [an_observation([], 0.0, failures=failing), an_observation([], 1.0, down=[4])]
    assert [what for what, _ in told(folded(polls))][1:] == ["broker 4 is down"]


def test_missing_figures_are_told_without_address_and_advice() -> None:
    failure = Failure(
        Operation.LOG_ENDS,
        "reading log ends (127.0.0.1:9094): no answer: connection refused. Is the broker up?",
        4,
    )
    now = folded([an_observation([], 0.0, failures=(failure,))])
    assert told(now) == [("figures of broker 4 are missing: no answer", 1)]


@pytest.mark.parametrize(("replicas", "alike"), [(5, False), (6, True)])
def test_many_replicas_of_a_broker_with_the_same_alarm_are_told_at_once(
    replicas: int, *, alike: bool
) -> None:
    cluster = a_cluster(moving=[f"orders-{n}" for n in range(replicas)])
    recorder = Recorder(cluster)
    cluster.do(acts.Slow(4, 0.0))
    now = folded(recorder.record(40))
    cluster.do(acts.Slow(4, 1.0))
    after = folded(recorder.record(2), now)
    alarms = [what for what, severity in told(now) if severity == EventSeverity.TROUBLE]
    well = [what for what, _ in told(after)[len(now.events) :]]
    if alike:
        assert alarms == ["broker 4: 6 replicas stalled: broker 4 does not fetch from 1"]
        assert well == ["broker 4: 6 replicas make headway again"]
    else:
        assert alarms == ["replica 4 stalled: broker 4 does not fetch from 1"] * 5
        assert well == ["replica 4 makes headway again"] * 5
    for timeline in after.timelines.values():
        assert [event.what for event in timeline.events[-2:]] == [
            "replica 4 stalled: broker 4 does not fetch from 1",
            "replica 4 makes headway again",
        ]


def test_health_is_not_judged_by_the_longer_list_that_metadata_still_shows_at_the_end() -> None:
    move = a_move(isr=(1, 2, 3, 4))
    stale = a_partition(T0, (4, 2, 3, 1), isr=(2, 3, 4), leader=4)
    now = folded(shown(move, stale, a_partition(T0, (4, 2, 3))))
    assert not [what for what, _ in told(now) if "replicated" in what]


def test_a_partition_that_ends_with_a_replica_out_of_sync_is_told_once_it_has_settled() -> None:
    lacking = a_partition(T0, (4, 2, 3), isr=(2, 3), leader=2)
    settling = folded(shown(a_move(), lacking))
    assert "under-replicated: 2 of 3 in sync" not in [what for what, _ in told(settling)]
    now = folded(shown(a_move(), lacking, lacking, lacking))
    assert ("under-replicated: 2 of 3 in sync", 1) in told(now)


def test_an_adding_replica_that_a_new_target_drops_is_not_missed() -> None:
    dropped = a_partition(
        T0, (5, 2, 3, 1, 4), isr=(1, 2, 3), adding=(5,), removing=(1, 4), leader=1
    )
    lagging = a_partition(T0, (5, 2, 3, 1, 4), isr=(1, 2, 3), adding=(5,), removing=(1,), leader=1)
    now = folded(shown(a_move(), lagging, dropped, a_partition(T0, (5, 2, 3))))
    assert not [what for what, _ in told(now) if "replicated" in what]


def test_settings_that_may_not_be_read_are_told() -> None:
    denied = (Failure(Operation.TOPIC_CONFIGS, "not authorized", topic="orders", denied=True),)
    now = folded([an_observation([], 0.0, failures=denied)])
    assert told(now) == [("topic settings are missing: not authorized", 1)]


def test_a_partition_keeps_its_own_events_but_not_without_end() -> None:
    flapping = [a_partition(leader=n % 2 + 1, leader_epoch=n) for n in range(PER_TIMELINE + 50)]
    now = folded(shown(*flapping))
    events = now.timelines[T0].events
    assert len(events) == PER_TIMELINE
    assert events[-1] == now.events[-1]


def test_events_overall_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_EVENTS", 100)
    many = [a_move(TopicPartition("orders", n)) for n in range(150)]
    events = folded([an_observation(many)]).events
    assert len(events) == 100
    assert events[-1].tp == TopicPartition("orders", 149)


def test_timelines_that_ended_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_ENDED", 5)
    tps = [TopicPartition("orders", n) for n in range(8)]
    polls = [an_observation([a_move(tp) for tp in tps])]
    for n in range(8):
        done = a_partition(tps[n], (4, 2, 3))
        polls.append(an_observation([done, *map(a_move, tps[n + 1 :])], 1.0 + n))
    polls.append(an_observation([], 9.0))
    assert list(folded(polls).timelines) == tps[3:]
