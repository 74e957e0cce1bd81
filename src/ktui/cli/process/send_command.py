"""Send a command to the engine of a run, and print its answer."""

from __future__ import annotations

import sys

import click
import msgspec

from ktui.cli.context.errors import BAD_INPUT
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.text import clean
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Answer, Command


class AnswerJson(msgspec.Struct, frozen=True):
    """The --json output of a verb that sends a command to a run."""

    schema_version: int
    run: str
    command: int
    accepted: bool
    words: str
    batch: int | None
    """The first decision that the command binds; null for a command that binds none."""


def send_command(run: RunClient, command: Command, *, json: bool) -> None:
    """Send a command to a run's engine, and print the answer. A refusal ends the program."""
    number, answer = run.send(command)
    if json:
        click.echo(encode(answer_json(run.folder, number, answer)))
        end_if_refused(answer)
    else:
        print_answer(run.folder, answer)


def print_answer(run_dir: RunDir, answer: Answer) -> None:
    """Print an answer for people; a refusal ends the program."""
    words = clean(answer.words)
    if answer.accepted:
        click.echo(f"run {run_dir.name}: {words}")
    else:
        click.echo(f"ktui: run {run_dir.name}: refused: {words}", err=True)
    end_if_refused(answer)


def end_if_refused(answer: Answer) -> None:
    """End the program with the exit code of bad input, where the answer is a refusal."""
    if not answer.accepted:
        sys.exit(BAD_INPUT)


def answer_json(run_dir: RunDir, number: int, answer: Answer) -> AnswerJson:
    """Return the JSON form of an answer."""
    return AnswerJson(
        SCHEMA_VERSION, run_dir.name, number, answer.accepted, clean(answer.words), answer.batch
    )
