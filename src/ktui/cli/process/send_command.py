"""Send a command to the engine of a run, and wait for its answer."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from ktui.cli.context.errors import BAD_INPUT, BadInput
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.ownership import holder, this_process
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.commands import Answer, Command
from ktui.execution.journal.follower import RunFollower
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run

PATIENCE_S = 30.0
"""Seconds to wait for an answer: an engine may be in the middle of polling a slow cluster."""
_PAUSE_S = 0.05


class AnswerJson(msgspec.Struct, frozen=True):
    """The --json output of a verb that sends a command to a run."""

    schema_version: int
    run: str
    command: int
    accepted: bool
    words: str
    batch: int | None
    """The first decision that the command binds; null for a command that binds none."""


def run_with_engine(run_dir: RunDir) -> Run:
    """Return a run that has an engine, as its journal has it.

    Raises:
        BadInput: it has ended, or has no engine that could answer.
        RunRefused: it was exported.
        RunProblem: its journal cannot be read.
    """
    with RunFollower(run_dir.journal) as follower:
        follower.refresh()
    run, name = follower.run, run_dir.name
    if run.ended:
        raise BadInput(f"run {name} has ended. See its outcome: ktui status {name}")
    refuse_exported(run)
    if holder(run_dir) is None:
        raise BadInput(f"run {name} has no engine. Start one: ktui resume {name}")
    return run


def send_command(run_dir: RunDir, command: Command, *, json: bool) -> None:
    """Write a command into a run's journal, wait for its answer, and print the answer.

    A refusal ends the program with the exit code of bad input.

    Raises:
        RunProblem: no answer came; the message says when the command takes effect.
    """
    number = write_command(run_dir, command)
    answer = wait_for_answer(run_dir, number)
    if json:
        click.echo(encode(answer_json(run_dir, number, answer)))
        end_if_refused(answer)
    else:
        print_answer(run_dir, answer)


def write_command(run_dir: RunDir, command: Command) -> int:
    """Write a command into a run's journal, and return its number."""
    with Journal.open(run_dir.journal, SystemClock()) as journal:
        return journal.ask(command, this_asker())


def wait_for_answer(run_dir: RunDir, number: int) -> Answer:
    """Wait for the answer to a command.

    Raises:
        RunProblem: no answer came; the message says when the command takes effect.
    """
    with Journal.open(run_dir.journal, SystemClock(), read_only=True) as journal:
        return _answer(run_dir, journal, number)


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


def this_asker() -> str:
    """Return who asks, as "user@host (pid)"."""
    me = this_process()
    return f"{me.user}@{me.host} ({me.pid})"


def _answer(run_dir: RunDir, journal: Journal, number: int) -> Answer:
    until, name = time.monotonic() + PATIENCE_S, run_dir.name
    while (answer := journal.answer_to(number).answer) is None:
        owner = holder(run_dir)
        if owner is None and journal.answer_to(number).answer is None:
            raise RunProblem(
                f"the engine of run {name} ended before it answered. Your command is in the "
                f"journal, and takes effect when you resume the run: ktui resume {name}"
            )
        if time.monotonic() >= until:
            raise RunProblem(
                f"no answer within {PATIENCE_S:.0f} s from {owner}. Your command is in the "
                f"journal, and takes effect when that process reads it. See: ktui status {name}"
            )
        time.sleep(_PAUSE_S)
    return answer
