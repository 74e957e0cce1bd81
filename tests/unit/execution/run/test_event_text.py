"""A run's events, holds and notices in words."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope, ConfigSource, Setting, Verdict
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Cancel,
    CancelGate,
    Continued,
    Elect,
    Ended,
    EngineLeft,
    FoundSetting,
    HeldBroker,
    JournalEntry,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    PlannedPart,
    RateCause,
    RateHeld,
    RateReason,
    Recording,
    Recovered,
    Replanned,
    Request,
    SettingChanged,
    SettingsFound,
    StateEntered,
    StepBegun,
    StepGate,
    StepOver,
)
from ktui.execution.run.notices import NoticeFilter, NoticeKind
from ktui.execution.run.plans import tool_command, tool_commands
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import describe_event, event_sentence, held_text, reason_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.planning.throttle_rates import ThrottleRates, parse_objective
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import a_start, planned, read, started, step, written

TP: dict[str, Any] = {"topic": "orders", "partition": 3}


def a_cut(**more: Any) -> StepBegun:
    fields: dict[str, Any] = {
        "batch": 1_200, "replicas": (4, 5, 6), "adding": (), "removing": (1, 2, 3), "elect": 4,
        "before": (1, 2, 3, 4, 5, 6), "leader": 1, **TP, **more,
    }  # fmt: skip
    return StepBegun(**fields)


def answered(verdict: Verdict, code: str | None = None, message: str = "") -> Answered:
    return Answered(request=Request.ALTER, verdict=verdict, code=code, message=message, **TP)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (step(0), "batch 1: 1,2,3 -> 1,2,3,4 (+4)"),
        (a_cut(), "batch 1,200: 1,2,3,4,5,6 -> 4,5,6 (-1 -2 -3), then elect 4"),
        (a_cut(alters=False), "batch 1,200: elect 4"),
        (
            a_cut(elect=None, alone=True),
            "batch 1,200: 1,2,3,4,5,6 -> 4,5,6 (-1 -2 -3), alone, for it can never fit the limits",
        ),
        (Elect(leader=4, **TP), "electing leader 4"),
        (Cancel(reason="broker 9 is gone", **TP), "step cancelled: broker 9 is gone"),
        (answered(Verdict.ACCEPTED), "Kafka accepted the alter"),
        (
            answered(Verdict.ACCEPTED, "ELECTION_NOT_NEEDED"),
            "Kafka accepted the alter: ELECTION_NOT_NEEDED",
        ),
        (answered(Verdict.UNKNOWN), "the answer to the alter was lost: it may have taken effect"),
        (
            answered(Verdict.REFUSED, "INVALID_REPLICA_ASSIGNMENT", "no broker 9"),
            "the alter was refused: INVALID_REPLICA_ASSIGNMENT: no broker 9",
        ),
        (
            answered(Verdict.REFUSED, None, "connection refused"),
            "the alter could not be sent: connection refused",
        ),
        (StepOver(replicas=(1, 2), leader=1, **TP), "step finished: 1,2, leader 1"),
        (
            StepOver(replicas=(1, 2), leader=None, reached=False, reason="cancelled", **TP),
            "step given up: cancelled; 1,2, no leader",
        ),
        (StateEntered(state=State.DONE, **TP), "done"),
        (
            StateEntered(state=State.CHANGED_ELSEWHERE, reason="it has 1,9", **TP),
            "changed elsewhere: it has 1,9",
        ),
        (
            Replanned(replicas=(1, 9), before=(1, 2), **TP),
            "someone else gave it 1,9 instead of 1,2; it goes on from there",
        ),
    ],
)  # fmt: skip
def test_an_event_of_a_partition_is_described_with_the_partition_named_first(
    event: AnyRunEvent, said: str
) -> None:
    assert describe_event(event) == said
    assert event_sentence(event) == f"{getattr(event, 'tp')}: {said}"  # noqa: B009 - not every event has


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            started(4, "abc"),
            "run of drain.json, 4 partitions of cluster abc; R 1, P 2, gentle, rolling, by topic",
        ),
        (planned(3), "3 partitions of the plan, orders-0 to orders-2"),
        (PlannedPart(partitions=()), "no partitions of the plan"),
        (Owned(pid=7, host="ops1", user="ada"), "process 7 of ada on ops1 runs the engine"),
        (EngineLeft(reason="SIGTERM"), "the engine has exited: SIGTERM"),
        (Paused(by=PauseOrigin.OPERATOR), "paused by an operator"),
        (
            Paused(by=PauseOrigin.UNTIL, reason="nothing more fits before 15:00"),
            "paused by the time given with --until: nothing more fits before 15:00",
        ),
        (
            Paused(
                by=PauseOrigin.OPERATOR, topics=("a", "b"), partitions=(TopicPartition("c", 1),)
            ),
            "paused topic a, topic b and c-1 by an operator",
        ),
        (Continued(by=PauseOrigin.OPERATOR), "continued: an operator"),
        (Continued(by=PauseOrigin.OPERATOR, topics=("a",)), "topic a continues: an operator"),
        (StepGate(shut=True, reason="3 offline"), "the gate is shut: 3 offline"),
        (StepGate(shut=False), "the gate is open again"),
        (Outage(lost=True, reason="no answer"), "the cluster is lost: no answer"),
        (Outage(lost=False), "the cluster answers again"),
        (Recording(on=True), "the engine records what it observes"),
        (Recording(on=False), "the engine does not record what it observes"),
        (Recording(on=False, reason="/x: no space left"), "/x: no space left"),
        (Recovered(lost="event 9"), "the journal was damaged and is recovered: event 9"),
        (
            Ended(counts={State.DONE: 1_000, State.CHANGED_ELSEWHERE: 2, State.FAILED: 0}),
            "ended: 1,000 done, 2 changed elsewhere",
        ),
        (EngineLeft(reason="\x1b[31mred"), "the engine has exited: \\x1b[31mred"),
    ],
)
def test_an_event_of_the_run_is_described(event: AnyRunEvent, said: str) -> None:
    assert describe_event(event) == event_sentence(event) == said


MB = 1_000_000
P99 = parse_objective("p99<150ms")


@pytest.mark.parametrize(
    ("why", "rate", "words"),
    [
        (RateReason(RateCause.OVER, 212.0, of=4), 9 * MB, "down: p99 of broker 4 was 212ms"),
        (RateReason(RateCause.OVER, 212.0), FLOOR, "the least rate: p99 was 212ms"),
        (RateReason(RateCause.FAR_OVER, 400.0), 9 * MB, "down at once: p99 was 400ms"),
        (RateReason(RateCause.UNDER, 63.0), 9 * MB, "up: p99 was 63ms"),
        (RateReason(RateCause.IN_BAND, 130.0), 9 * MB, "stays: p99 was 130ms"),
        (RateReason(RateCause.UNUSED, 63.0, used=0.55), 9 * MB, "stays: 55% of it is used"),
        (
            RateReason(RateCause.NO_FIGURE, of=4),
            FLOOR,
            "the least rate: there was no figure of broker 4",
        ),
    ],
)
def test_each_cause_has_its_words(why: RateReason, rate: int, words: str) -> None:
    assert reason_text(why, rate, P99) == words


def test_without_the_objective_the_figure_has_no_name() -> None:
    why = RateReason(RateCause.UNDER, 63.5)
    held = RateHeld(rate=12 * MB, figure=143.5, windows=20, kept=19, why=why)

    assert held_text(held) == (
        "12 MB/s into each broker: the figure is 143.5, 19 of 20 windows kept; "
        "up: the figure was 63.5"
    )


def test_rates_by_broker_are_described_by_the_lowest_and_the_highest() -> None:
    brokers = (HeldBroker(1, figure=143.0), HeldBroker(4, 4 * MB), HeldBroker(5, 12 * MB))
    held = RateHeld(rate=4 * MB, figure=143.0, brokers=brokers)

    assert held_text(held, P99) == "4.0 MB/s to 12 MB/s into 2 brokers: p99 is 143ms"


def state(partition: int, state: State, reason: str = "") -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state, reason=reason)


def told(notices: NoticeFilter, *events: AnyRunEvent) -> list[tuple[NoticeKind, int]]:
    """Return the kind of each notice of events journalled at once, and how many it has."""
    entries = [JournalEntry(seq, FIRST_MOMENT, event) for seq, event in enumerate(events, start=1)]
    return [(notice.kind, len(notice.entries)) for notice in notices.take(entries)]


def test_a_run_that_goes_as_it_should_is_not_worth_a_notice_before_its_end() -> None:
    notices = NoticeFilter()

    assert told(notices, *a_start(), step(0), state(0, State.DONE)) == []
    assert told(notices, Ended(counts={State.DONE: 1})) == [(NoticeKind.END, 1)]


def test_partitions_that_stall_or_fail_at_once_make_one_notice_a_kind() -> None:
    events = [state(n, State.STALLED) for n in range(12)] + [state(12, State.TOPIC_GONE)]

    assert told(NoticeFilter(), *events) == [(NoticeKind.STALL, 12), (NoticeKind.FAILURE, 1)]


def test_another_reason_for_the_same_stall_or_gate_is_no_news() -> None:
    notices = NoticeFilter()
    told(notices, state(0, State.STALLED), StepGate(shut=True, reason="2 offline"))

    again = told(notices, state(0, State.STALLED, "why"), StepGate(shut=True, reason="3 offline"))
    opened = told(notices, StepGate(shut=False), CancelGate(shut=True, reason="ada"))
    told(notices, state(0, State.ADDING))
    anew = told(notices, state(0, State.STALLED))

    assert again == []
    assert opened == [(NoticeKind.GATE, 2)]
    assert anew == [(NoticeKind.STALL, 1)]


def test_a_rate_of_somebody_else_is_told_and_once_only_where_the_run_finds_it() -> None:
    notices, broker = NoticeFilter(), ConfigResource(ConfigScope.BROKER, "4")

    def found(rate: str | None) -> SettingsFound:
        before = None if rate is None else Setting(rate, ConfigSource.OWN)
        return SettingsFound(found=(FoundSetting(broker, FOLLOWER_RATE, before),))

    def changed(rate: str | None) -> SettingChanged:
        return SettingChanged(resource=broker, key=FOLLOWER_RATE, found=rate)

    news = [(NoticeKind.THROTTLE, 1)]
    assert told(notices, found(None)) == []
    assert told(notices, found("300000")) == news
    assert told(notices, found("300000")) == []
    assert told(notices, changed("400000")) == news
    assert told(notices, found("400000")) == []
    assert told(notices, changed(None)) == news


def test_pauses_and_a_lost_cluster_are_told_with_their_end() -> None:
    events: list[AnyRunEvent] = [
        Paused(by=PauseOrigin.OPERATOR),
        Continued(by=PauseOrigin.OPERATOR),
        Outage(lost=True),
        Outage(lost=False),
    ]

    assert told(NoticeFilter(), *events) == [
        (NoticeKind.PAUSE, 1),
        (NoticeKind.CONTINUE, 1),
        (NoticeKind.OUTAGE, 2),
    ]


def a_run(folder: Path, **names: str) -> Run:
    first, *others = started(2), planned(2)
    options = msgspec.structs.replace(first.options, throttle=ThrottleRates(50_000_000))
    begun = msgspec.structs.replace(first, connection=names, options=options)
    written(folder / "journal.db", [begun, *others]).close()
    return Run("drain-b3").fold(read(folder / "journal.db")[0])


def test_the_commands_name_the_brokers_the_client_settings_and_the_rate(tmp_path: Path) -> None:
    config = str(tmp_path / "my client.properties")
    run = a_run(tmp_path, bootstrap_server="b1:9092", command_config=config)

    lines = [*tool_commands(run)]

    where = f"--bootstrap-server b1:9092 --command-config '{config}'"
    assert lines[1] == f"kafka-reassign-partitions.sh {where} --list"
    assert lines[4] == (
        f"kafka-reassign-partitions.sh {where} --execute "
        "--reassignment-json-file drain-b3-left.json --throttle 50000000"
    )
    assert tool_command(run, "verify", "plan.json") == (
        f"kafka-reassign-partitions.sh {where} --verify --reassignment-json-file plan.json"
    )
