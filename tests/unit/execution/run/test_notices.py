"""An operator hears of what matters once, and of everything that happened at once together."""

from __future__ import annotations

from ktui.cluster.ports import ConfigResource, ConfigScope, ConfigSource, Setting
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelGate,
    Continued,
    Ended,
    FoundSetting,
    JournalEntry,
    Outage,
    Paused,
    PauseOrigin,
    SettingChanged,
    SettingsFound,
    StateEntered,
    StepGate,
)
from ktui.execution.run.notices import NoticeFilter, NoticeKind
from ktui.execution.run.states import State
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import a_start, step


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
