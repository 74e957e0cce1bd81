"""Which sessions of a recording are played: those of one run together, else one by itself."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from ktui.cli.errors import BadInput
from ktui.cli.table import table
from ktui.cluster.text import clean
from ktui.quantities import as_duration
from ktui.recording.lines import RunLine
from ktui.recording.milliseconds import moment
from ktui.recording.reading import Good, Session, lines

_FIRST_LINES = 200
"""Among which a run's recording names its run: an engine tells of the run first."""


class Choice(msgspec.Struct, frozen=True):
    """What can be played at once."""

    sessions: tuple[Session, ...]
    run: str
    """The name of the run that it tells of first; empty where it tells of none."""
    run_id: str
    """Tells it from other runs of that name."""
    until_ms: int
    """Wall time of its last line."""

    @property
    def session(self) -> str:
        """What it is called with --session."""
        return self.sessions[0].head.session[:8]

    @property
    def row(self) -> tuple[str, ...]:
        """Tell of it in a table."""
        head = self.sessions[0].head
        began = moment(head.at).astimezone()
        return (
            self.session,
            f"{began:%Y-%m-%d %H:%M:%S}",
            clean(head.cluster or head.cluster_id),
            clean(self.run) or "-",
            as_duration((self.until_ms - head.at) / 1000),
        )


_HEADER = ("SESSION", "BEGAN", "CLUSTER", "RUN", "LENGTH")


def choices(sessions: Sequence[Session]) -> list[Choice]:
    """Put those of the same run together that come one after the other, given by their times."""
    found: list[Choice] = []
    for session in sessions:
        told, until_ms = _run_of(session), _until_ms(session)
        run, run_id = ("", "") if told is None else (told.run, told.run_id)
        before = next(
            (
                number
                for number, each in enumerate(found)
                if run_id and each.run_id == run_id and each.until_ms <= session.head.at
            ),
            None,
        )
        if before is None:
            found.append(Choice((session,), run, run_id, until_ms))
        else:
            found[before] = Choice((*found[before].sessions, session), run, run_id, until_ms)
    return found


def choose(known: Sequence[Choice], wanted: str | None, *, ask: bool) -> Choice:
    """Give the one that is wanted, or asked for.

    Args:
        known: at least one.
        wanted: the beginning of a session's id, as --session names it; None for none.
        ask: whether there is somebody to be asked.

    Raises:
        BadInput: there is none such, or not one only and nobody to ask; names all of them.
    """
    if wanted is not None:
        return _named(known, wanted)
    if len(known) == 1:
        return known[0]
    if not ask:
        raise BadInput(
            f"there are several recordings. Choose one with --session:\n{_listed(known)}"
        )
    numbers = [str(number) for number in range(1, len(known) + 1)]
    rows = [(number, *each.row) for number, each in zip(numbers, known, strict=True)]
    click.echo(table(("", *_HEADER), rows))
    answer = click.prompt("Which one", type=click.IntRange(1, len(known)), default=len(known))
    return known[answer - 1]


def _named(known: Sequence[Choice], wanted: str) -> Choice:
    found = [
        each for each in known if any(s.head.session.startswith(wanted) for s in each.sessions)
    ]
    if wanted and len(found) == 1:
        return found[0]
    what = "several sessions begin so" if found and wanted else "there is no such session"
    raise BadInput(f"--session {wanted!r}: {what}; there are\n{_listed(known)}")


def _listed(known: Sequence[Choice]) -> str:
    return table(_HEADER, [each.row for each in known])


def _run_of(session: Session) -> RunLine | None:
    for number, each in enumerate(lines(session.files[0])):
        if number >= _FIRST_LINES:
            return None
        if isinstance(each, Good) and isinstance(each.line, RunLine):
            return each.line
    return None


def _until_ms(session: Session) -> int:
    times = (each.line for each in lines(session.files[-1]) if isinstance(each, Good))
    return max(
        (line.at for line in times if not isinstance(line, RunLine)), default=session.head.at
    )
