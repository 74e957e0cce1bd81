"""The format of journals: the golden one stays readable, and nothing unknown is passed over."""

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from ktui import __version__
from ktui.execution import JournalProblem
from ktui.execution.engine.command_handler import CommandHandler
from ktui.execution.engine.decider import Decider
from ktui.execution.forecast.run_progress import read_progress
from ktui.execution.host.catalog import RunState
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Answer, Command
from ktui.execution.journal.journal import Journal
from ktui.execution.journal.tables import GENESIS, chain_hash
from ktui.execution.run.events import AnyRunEvent, decode, encode
from ktui.execution.run.run import Run
from ktui.json_text import unknown_field
from ktui.simulated.clock import VirtualClock
from support.journals.golden_journal import Golden, golden, kept, summary
from support.journals.journals import started

KEPT = kept()


def test_the_golden_journal_still_folds_to_the_same_run(tmp_path: Path) -> None:
    KEPT.put_into(tmp_path / "journal.db")

    with Journal.open(tmp_path / "journal.db", VirtualClock()) as journal:
        run = Run("golden").fold(journal.entries())
        asked = journal.asked(unanswered=False)

        assert journal.damage is None
        assert summary(run) == KEPT.summary
        assert [each.id for each in asked if each.command is None] == []
        assert [each.answer is None for each in asked] == [not row[4] for row in KEPT.commands]


def test_rewriting_an_event_or_command_loses_nothing() -> None:
    for _, _, body, _ in KEPT.events:
        assert encode(decode(body.encode())) == body.encode()
    for row in KEPT.commands:
        command = msgspec.json.decode(row[3], type=Command)

        assert unknown_field(row[3].encode(), command) is None
        assert msgspec.json.encode(command) == row[3].encode()


def test_every_kind_of_event_and_command_is_in_the_golden_journal() -> None:
    """If this fails, tests/support/journals/golden_journal.py explains how to write it again."""
    events = {json.loads(row[2])["event"] for row in KEPT.events}
    asked = {json.loads(row[3])["command"] for row in KEPT.commands}

    assert events == {kind.__struct_config__.tag for kind in get_args(AnyRunEvent)}
    assert asked == {kind.__struct_config__.tag for kind in get_args(Command)}


def test_the_golden_journal_is_what_would_be_written_now() -> None:
    assert golden() == KEPT


def a_field_more(body: str, *place: str | int) -> str:
    """Put a field that only a newer ktui knows into an object within another one."""
    whole = json.loads(body)
    within = whole
    for name in place:
        within = within[name]
    within["rack"] = "b"
    return json.dumps(whole)


PLACES: list[tuple[str, tuple[str | int, ...], str]] = [
    ("started", (), "rack"),
    ("started", ("options",), "options.rack"),
    ("started", ("options", "throttle"), "options.throttle.rack"),
    ("started", ("limits",), "limits.rack"),
    ("planned", ("partitions", 1), "partitions[1].rack"),
    ("cancel_asked", ("partitions", 0), "partitions[0].rack"),
    ("settings_found", ("found", 0, "before"), "found[0].before.rack"),
    ("configure", ("changes", 1, "resource"), "changes[1].resource.rack"),
    ("throttle", ("new", "brokers", 0), "new.brokers[0].rack"),
]


@pytest.mark.parametrize(("kind", "place", "named"), PLACES, ids=[each[2] for each in PLACES])
def test_an_event_with_a_field_of_a_newer_ktui_is_rejected_naming_the_field(
    kind: str, place: tuple[str | int, ...], named: str
) -> None:
    bodies = (row[2] for row in KEPT.events)
    body = next(each for each in bodies if json.loads(each)["event"] == kind)

    with pytest.raises(msgspec.ValidationError, match="that only a newer ktui knows") as no:
        decode(a_field_more(body, *place).encode())

    assert f"`{named}`" in str(no.value)


def test_a_run_with_an_option_of_a_newer_ktui_is_reported_and_not_resumed(tmp_path: Path) -> None:
    run = StateDir(tmp_path / "state").create_run("drain")
    at, body = "2026-11-21T12:00:00.000000Z", a_field_more(encode(started(1)).decode(), "options")
    linked = chain_hash(GENESIS, 1, at.encode(), body.encode()).hex()
    Golden("", [(1, at, body, linked)], [], {}).put_into(run.journal)

    listed = read_progress(run)

    assert listed.state is RunState.UNREADABLE
    assert "it has a field `options.rack` that only a newer ktui knows" in str(listed.problem)
    with pytest.raises(JournalProblem, match="Resume it with the ktui that wrote it, or a newer"):
        Journal.recover(run.journal, VirtualClock())


COMMANDS: list[tuple[str, tuple[str | int, ...], str]] = [
    ("cancel", (), "`rack` of this command"),
    ("cancel", ("partitions", 0), "`partitions[0].rack` of this command"),
    ("throttle", ("rates", "brokers", 0), "`rates.brokers[0].rack` of this command"),
    ("add", ("partitions", 0), "`partitions[0].rack` of this command"),
    ("leave", (), "`rack` of this command"),
]


@pytest.mark.parametrize(("kind", "place", "named"), COMMANDS, ids=[each[2] for each in COMMANDS])
def test_a_command_with_a_field_of_a_newer_ktui_is_refused_naming_the_field(
    tmp_path: Path, kind: str, place: tuple[str | int, ...], named: str
) -> None:
    bodies = (row[3] for row in KEPT.commands)
    body = next(each for each in bodies if json.loads(each)["command"] == kind)

    assert answer_to(tmp_path, a_field_more(body, *place)) == Answer(
        accepted=False, words=f"ktui {__version__}, which owns the run, does not know {named}"
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (
            '{"command": "limits", "options": {}, "instead_of": {"rack": "b"}}',
            "`instead_of.rack` of this command",
        ),
        ('{"command": "freeze"}', "this command: Invalid value 'freeze' - at `$.command`"),
        ('{"command": "cancel", "kind": "melt"}', "this command: Invalid enum value 'melt'"),
    ],
)
def test_a_command_only_a_newer_ktui_knows_is_refused_naming_what_is_unknown(
    tmp_path: Path, body: str, named: str
) -> None:
    assert f"does not know {named}" in answer_to(tmp_path, body).words


def answer_to(folder: Path, body: str) -> Answer:
    """Return the owner's answer to a command as another ktui has written it."""
    path, row = folder / "journal.db", (1, "2026-11-21T12:00:00Z", "ada", body, None)
    Golden("", KEPT.events, [row], {}).put_into(path)
    with Journal.open(path, VirtualClock()) as journal:
        run = Run("golden").fold(journal.entries())
        CommandHandler(run, journal, Decider(run), lambda _: None, lambda: None).take_commands()
        answer = journal.answer_to(1).answer
    assert answer is not None
    return answer
