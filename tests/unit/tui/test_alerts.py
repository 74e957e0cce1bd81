"""An operator who looks elsewhere is alerted once, by a text that cannot drive the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.events import (
    AnyRunEvent,
    Ended,
    EngineLeft,
    JournalEntry,
    Outage,
    StateEntered,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.simulated.clock import FIRST_MOMENT
from ktui.tui.app.terminal import Alerts
from support.journals.journals import a_start, owned


class Terminal:
    """A run, and a terminal that keeps what it got."""

    def __init__(self, *, on: bool = True) -> None:
        self.rung, self.written = 0, list[str]()
        self.alerts = Alerts(self._ring, self.written.append, on=on)
        self.run = Run("drain")
        self.happen(*a_start(), owned())

    def _ring(self) -> None:
        self.rung += 1

    def happen(self, *events: AnyRunEvent, owned: bool = True) -> None:
        first = self.run.seq + 1
        entries = [JournalEntry(n, FIRST_MOMENT, each) for n, each in enumerate(events, first)]
        self.run.fold(entries)
        self.alerts.note_entries(self.run, entries, owned=owned)

    @property
    def words(self) -> list[str]:
        assert self.rung == len(self.written)
        return [each.removeprefix("\x1b]9;ktui: ").removesuffix("\x07") for each in self.written]


def stalled(partition: int) -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=State.STALLED)


def test_a_stall_a_failure_and_the_end_of_the_run_ring_once_each() -> None:
    terminal = Terminal()

    terminal.happen(stalled(0), stalled(1))
    terminal.happen(stalled(0))
    terminal.happen(StateEntered(topic="orders", partition=2, state=State.FAILED, reason="no"))
    terminal.happen(Ended(counts={State.FAILED: 1}), owned=False)

    assert terminal.words == [
        "run drain: orders-0: stalled; and 1 more",
        "run drain: orders-2: failed: no",
        "run drain: ended: 1 failed",
    ]


def test_an_engine_that_dies_rings_and_one_that_leaves_does_not() -> None:
    died, left = Terminal(), Terminal()

    for _ in range(3):
        died.happen(owned=False)
    left.happen(owned=False)  # its last words are read a moment later
    left.happen(EngineLeft(reason="shift over"), owned=False)

    assert died.words == ["the engine of run drain has died"]
    assert left.words == []


def test_a_lost_cluster_rings_and_its_return_does_not() -> None:
    terminal = Terminal()

    terminal.happen(Outage(lost=True, reason="no answer"))
    terminal.happen(Outage(lost=False))

    assert terminal.words == ["run drain: the cluster is lost: no answer"]


def test_stalls_of_others_ring_when_they_become_more() -> None:
    terminal = Terminal()

    for count in (0, 2, 2, 1, 3):
        terminal.alerts.note_stalls(count)

    assert terminal.words == ["2 partitions stalled", "3 partitions stalled"]


@given(st.text(st.characters(codec="utf-8")))
def test_no_name_can_end_or_begin_an_escape_sequence(name: str) -> None:
    terminal = Terminal()
    terminal.alerts.note_entries(
        terminal.run,
        [JournalEntry(9, FIRST_MOMENT, StateEntered(topic=name, partition=0, state=State.STALLED))],
        owned=True,
    )

    (words,) = terminal.words
    assert words.isprintable()


@pytest.mark.parametrize("events", [(stalled(0),), (Ended(counts={}),)])
def test_nothing_rings_where_the_operator_has_switched_it_off(
    events: tuple[AnyRunEvent, ...],
) -> None:
    terminal = Terminal(on=False)

    terminal.happen(*events)

    assert terminal.words == []


def test_a_death_is_handed_on_once_though_nobody_wants_the_bell() -> None:
    died = list[str]()
    terminal = Terminal(on=False)
    terminal.alerts = Alerts(
        terminal._ring,
        terminal.written.append,
        on=False,
        on_death=lambda run: died.append(run.name),
    )
    terminal.happen(owned())
    for _ in range(4):
        terminal.happen(owned=False)
    assert died == ["drain"]
    assert (terminal.rung, terminal.written) == (0, [])


def test_an_engine_that_leaves_by_itself_has_not_died() -> None:
    died = list[str]()
    terminal = Terminal()
    terminal.alerts = Alerts(
        terminal._ring, terminal.written.append, on=True, on_death=lambda run: died.append(run.name)
    )
    terminal.happen(owned())
    terminal.happen(EngineLeft(reason="asked to"))
    for _ in range(3):
        terminal.happen(owned=False)
    assert died == []
