"""Notes of operators on a run: journalled by its engine, or without one by whoever writes them."""

from __future__ import annotations

from ktui.cluster.clock import Clock, SystemClock
from ktui.execution.errors import JournalProblem, RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.commands import AddNote
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Noted

LONGEST_NOTE = 500


def note_problem(text: str) -> str | None:
    """Return why a text is no note; None for one that can be written."""
    if not text.strip():
        return "a note needs some words"
    if len(text) > LONGEST_NOTE:
        return f"a note has {LONGEST_NOTE} characters at most; this text has {len(text):,}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the note is not UTF-8"
    return None


def write_note(client: RunClient, text: str, clock: Clock | None = None) -> None:
    """Write a note among the events of a run, whether it has an engine, has none or has ended.

    Raises:
        RunRefused: the text is no note, the run was exported, or its start was cut off.
        RunProblem: the journal is damaged or cannot be written, or the engine does not answer.
    """
    if (problem := note_problem(text)) is not None:
        raise RunRefused(problem)
    found = client.read_begun()
    refuse_exported(found.run)
    if found.damage is not None:
        fix = f"`ktui resume {client.name}` recovers what is whole"
        raise JournalProblem(f"{found.damage}. {fix}")
    if client.owner is None:
        _write_here(client, text, clock or SystemClock())
        return
    _, answer = client.send(AddNote(text))
    if not answer.accepted:
        raise RunRefused(f"run {client.name}: refused: {answer.words}")


def _write_here(client: RunClient, text: str, clock: Clock) -> None:
    """Own a run without an engine for as long as the note takes."""
    folder = client.folder
    with own_run(folder) as owned, Journal.open(folder.journal, clock) as journal:
        journal.append([Noted(text=text, who=owned.holder.short)])
