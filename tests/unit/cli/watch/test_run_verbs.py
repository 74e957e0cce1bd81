"""The verbs behind `:` in a view take the scopes of the shell."""

from __future__ import annotations

import pytest

from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import CancelMoves, Continue, Pause
from ktui.execution.run.events import AnyRunEvent, JournalEntry
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind
from ktui.tui.run_view.launchers import BadCommand
from support.journals.journals import planned, started
from support.simulated.observations import START

BOTH = (TopicPartition("orders", 0), TopicPartition("orders", 1))


@pytest.fixture
def run() -> Run:
    """A run that moves two partitions of orders from broker 3 to 4."""
    events: list[AnyRunEvent] = [started(2), planned(2)]
    return Run("drain").fold(JournalEntry(n, START, e) for n, e in enumerate(events, 1))


def test_a_broker_is_a_scope_of_the_views_verbs(run: Run) -> None:
    verbs = ShellVerbs()

    assert verbs.parse("pause", ["--broker", "4"], run) == Pause(partitions=BOTH)
    assert verbs.parse("continue", ["--broker", "3"], run) == Continue(partitions=BOTH)
    assert verbs.parse("cancel", ["--broker", "4", "--stop"], run) == CancelMoves(
        CancelKind.STOP, partitions=BOTH
    )


@pytest.mark.parametrize("words", [["pause"], ["continue"], ["cancel", "--stop"]])
def test_a_broker_that_the_run_has_nothing_to_do_with_is_refused_in_the_view(
    run: Run, words: list[str]
) -> None:
    with pytest.raises(BadCommand, match="replica on broker 9"):
        ShellVerbs().parse(words[0], [*words[1:], "--broker", "9"], run)
