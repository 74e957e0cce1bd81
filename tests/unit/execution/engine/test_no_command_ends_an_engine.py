"""Whatever a command holds, the engine answers it, keeps it and takes the next one."""

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import inspect

from ktui.cluster.partition import TopicPartition
from ktui.execution.engine.command_handler import DEFECT, CommandHandler
from ktui.execution.journal.commands import AddNote, Answer, Command, StoredCommand
from ktui.execution.journal.journal import Journal
from ktui.pacing.limits import CHOICES, KIP_435_NAMES, NUMBERS, PACE, Limits
from ktui.planning.throttle_rates import ThrottleRates
from support.runs.stories import Story
from support.runs.witnessed import WitnessedJournal

TIMES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+14:00",
    "2026-02-30T00:00:00Z",
    "2026-11-28T00:00:00",
    "2200-01-01T00:00:00-23:59",
    "9998-12-31T23:59:59Z",
    "9998-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999-23:59",
    0,
    10**18,
]
TEXTS = [
    "",
    "x" * 10_000,
    "9" * 5_000,
    "\x00\x1b[31m\n",
    "\u202e",
    "'",
    "-1",
    "orders",
    "orders-0",
    "22:00-05:00",
    "22:00-05:00,Mon",
    "22:00-22:00",
    "99:99-00:00",
]
NUMBERS_AT_THE_EDGE = [0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30]
FRACTIONS = [0, -1, 5e-324, 1.7e308, 10**400]


def usual(kind: Any) -> Any:  # noqa: PLR0911 - a case a type
    """Return a value of a type, in JSON, that nothing is wrong with."""
    match kind:
        case inspect.StructType():
            given = {f.encode_name: usual(f.type) for f in kind.fields if f.required}
            return given if kind.tag is None else {kind.tag_field: kind.tag, **given}
        case inspect.UnionType():
            return usual(kind.types[0])
        case inspect.VarTupleType():
            return [usual(kind.item_type)]
        case inspect.DictType():
            return {}
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.DateTimeType():
            return "2030-01-01T00:00:00Z"
        case inspect.NoneType():
            return None
    plain: dict[Any, Any] = {inspect.StrType: "orders", inspect.IntType: 0, inspect.FloatType: 1.5}
    return plain.get(type(kind), False)


def extremes(kind: Any) -> Iterator[Any]:  # noqa: C901 - a case a type
    """Yield the values of a type, in JSON, that are at its edges or beyond them."""
    match kind:
        case inspect.StructType():
            yield usual(kind)
            for field in kind.fields:
                for value in extremes(field.type):
                    yield {**usual(kind), field.encode_name: value}
        case inspect.UnionType():
            for each in kind.types:
                yield from extremes(each)
        case inspect.VarTupleType():
            yield from ([], [usual(kind.item_type)] * 2)
            yield from ([value] for value in extremes(kind.item_type))
        case inspect.DictType():
            text = isinstance(kind.key_type, inspect.StrType)
            known = ("per-broker", "bytes-in-flight", "order", PACE, *KIP_435_NAMES)
            yield from ({name: 1} for name in (*NUMBERS, *CHOICES))
            yield from ({str(name): usual(kind.value_type)} for name in extremes(kind.key_type))
            for name in known if text else ("1",):
                yield from ({name: value} for value in extremes(kind.value_type))
        case inspect.EnumType():
            yield from (each.value for each in kind.cls)
        case inspect.LiteralType():
            yield from kind.values
        case _:
            plain: dict[Any, list[Any]] = {
                inspect.DateTimeType: TIMES,
                inspect.StrType: TEXTS,
                inspect.IntType: NUMBERS_AT_THE_EDGE,
                inspect.FloatType: FRACTIONS,
                inspect.BoolType: [True, False],
            }
            yield from plain.get(type(kind), [None])


COMMAND: Any = inspect.type_info(Command)
KINDS = {kind.tag: kind for kind in COMMAND.types}
ENDING = {"cancel", "leave"}  # after these the run may end, so that each has a run of its own


def every_field(tag: str) -> list[Any]:
    """Return commands of one kind, each with one field at the edge."""
    bodies = {json.dumps(body): body for body in extremes(KINDS[tag])}
    return list(bodies.values())


def fields_together(choose: random.Random, tag: str) -> Any:
    """Return a command with several fields at the edge."""
    some = {f.encode_name: list(extremes(f.type)) for f in KINDS[tag].fields}
    chosen = choose.sample([*some], min(3, len(some)))
    return usual(KINDS[tag]) | {name: choose.choice(some[name]) for name in chosen}


def a_run(folder: Path) -> Story:
    """Return a throttled run with a step in flight for as long as the commands come."""
    ways = {f"orders-{n}": ((1, 2, 3), (4 + n, 2, 3)) for n in range(3)}
    throttle = ThrottleRates(50_000_000)
    return Story(folder, ways, Limits(partitions=2), {"messages": 100_000_000}, throttle=throttle)


def asked(story: Story, bodies: Sequence[Any], every_s: float = 1.1) -> float:
    """Have commands asked one after the other, a poll apart; return when the last one is."""
    for number, body in enumerate(bodies):
        raw = msgspec.Raw(body if isinstance(body, bytes) else json.dumps(body).encode())
        story.asked(3.0 + every_s * number, cast("Command", raw))
    return 3.0 + every_s * len(bodies)


def held(folder: Path, bodies: Sequence[Any]) -> None:
    """Check that an engine answers commands, and still carries out one that comes after them."""
    story = a_run(folder)
    at_s = asked(story, bodies)
    story.asked(at_s, AddNote("still here"))

    story.played(at_s + 5.0)

    assert [note.event.text for note in story.folded.notes][-1] == "still here"
    assert len(story.answers) == len(bodies) + 1
    for command in story.answers:
        assert command.answer is not None
        assert DEFECT not in command.answer.words, command


@pytest.mark.parametrize("tag", sorted(KINDS.keys() - ENDING))
def test_an_engine_outlives_every_field_of_a_command_at_its_edges(tmp_path: Path, tag: str) -> None:
    held(tmp_path, every_field(tag))


@pytest.mark.parametrize("seed", range(6))
def test_an_engine_outlives_commands_of_all_kinds_one_upon_the_other(
    tmp_path: Path, seed: int
) -> None:
    choose = random.Random(seed)  # noqa: S311 - a test's dice
    tags = choose.choices(sorted(KINDS.keys() - ENDING), k=80)
    held(tmp_path, [fields_together(choose, tag) for tag in tags])


@pytest.mark.parametrize("tag", sorted(ENDING))
def test_a_command_that_may_end_a_run_is_answered_whatever_it_holds(
    tmp_path: Path, tag: str
) -> None:
    for number, body in enumerate(every_field(tag)):
        folder = tmp_path / str(number)
        folder.mkdir()
        story = a_run(folder)
        asked(story, [body])
        story.played(20.0)
        (command,) = story.answers
        assert command.answer is not None, command
        assert DEFECT not in command.answer.words, command


@pytest.mark.parametrize(
    "body",
    [b"", b"NaN", b'{"command":', b"[]", b"[" * 100_000, b'{"command":"note","text":"\xff"}'],
)
def test_what_cannot_be_read_as_a_command_is_refused_and_the_next_one_is_taken(
    tmp_path: Path, body: bytes
) -> None:
    story = a_run(tmp_path)
    story.played(2.0)
    connection = sqlite3.connect(story.path)
    insert = "INSERT INTO commands (at, who, body) VALUES ('2026-01-01T00:00:00Z', 'ada', ?)"
    connection.execute(insert, (body,))
    connection.commit()
    connection.close()

    story.reopened(AddNote("still here"), until_s=10.0)

    refused, noted = story.answers
    assert refused.command is None
    assert refused.answer is not None
    assert not refused.answer.accepted
    assert noted.answer is not None
    assert noted.answer.accepted


def test_a_command_that_fails_by_a_defect_is_refused_and_no_later_engine_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = CommandHandler._carry_out

    def fails(self: CommandHandler, command: StoredCommand) -> Answer:
        if isinstance(command.command, AddNote) and command.command.text == "fails":
            raise OverflowError("date value out of range")
        return carried_out(self, command)

    monkeypatch.setattr(CommandHandler, "_carry_out", fails)
    monkeypatch.setattr(WitnessedJournal, "answer", Journal.answer)  # which lets no defect pass
    story = a_run(tmp_path)
    story.asked(3.0, AddNote("fails"))
    story.asked(5.0, AddNote("still here"))

    story.played(10.0)

    refused, noted = (command.answer for command in story.answers)
    assert refused is not None
    assert not refused.accepted
    assert refused.words.startswith(DEFECT)
    assert "OverflowError('date value out of range')" in refused.words
    assert noted is not None
    assert noted.accepted
    assert story.folded.tracks[TopicPartition("orders", 0)].step is not None
