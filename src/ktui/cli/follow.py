"""Follow a run without the live view, until its engine has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from types import FrameType

import click

from ktui.cli.context.claim import OwnerChoice, ownership_options
from ktui.cli.context.cluster import (
    ClusterChoice,
    Target,
    check_cluster,
    cluster_options,
    warn_of_tls,
)
from ktui.cli.context.config import load_config
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import FAILED, INTERRUPTED, NOT_ALL_DONE, ProgressLine, print_note
from ktui.cli.engine_log import WarningReader
from ktui.cli.options import common
from ktui.cli.options.outward import metrics_file_option, on_event_option, run_recorded_option
from ktui.cli.options.run import concurrent_option, headless_option, until_option
from ktui.cli.output.json_form import engine_died_json, event_line
from ktui.cli.output.plan_check import gate_line, shut_gate
from ktui.cli.process import Launch, launch_left_run, resume_command
from ktui.cli.run.runs import local_time
from ktui.cluster.clock import Clock, SystemClock
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.progress_text import RunEnding, end_lines, progress_line, run_ending
from ktui.execution.forecast.run_details import ProgressAsSeen
from ktui.execution.host.client import BegunRun, RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.host.ownership import OwnedElsewhere
from ktui.execution.host.process import AttachedEngine, EngineProcess
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import JournalEntry, Paused, PauseOrigin
from ktui.execution.run.run import Run
from ktui.execution.run.scope import CancelScope
from ktui.ops.start import find_missing_for_throttle
from ktui.quantities import as_count

EXIT_CODES = {
    RunEnding.ALL_DONE: 0,
    RunEnding.SOME_NOT_DONE: NOT_ALL_DONE,
    RunEnding.LEFT: INTERRUPTED,
    RunEnding.FAILED: FAILED,
}
Engine = EngineProcess | AttachedEngine
_POLL_S = 0.2
_LEAVING_S = 5.0


class Interrupts:
    """The signals that this process has received."""

    def __init__(self) -> None:
        self.count = 0
        self.terminated = False

    @property
    def leave(self) -> bool:
        return self.terminated or self.count > 1

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count SIGINT and SIGTERM within the block, instead of ending on them."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, self._count)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _count(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.count += 1
        else:
            self.terminated = True


def follow(
    start: Callable[[], Engine],
    state: StateDir,
    *,
    json: bool,
    after: int = 0,
    on_event: str | None = None,
) -> int:
    """Start an engine or attach to one, report its run, and return the exit code.

    The first SIGINT pauses the run; another, or SIGTERM, leaves it.

    Args:
        after: the number of the last event that is not printed.
        on_event: the command that gets the notices; None for that of the run's options.
    """
    interrupts = Interrupts()
    with interrupts.counted():
        engine = start()
        try:
            following = _Following(
                engine, state, interrupts, json=json, after=after, on_event=on_event
            )
            return following.to_the_end()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            with suppress(OSError):
                print_note(f"nobody reads the output any more. Run {engine.run.name} goes on")
            return FAILED


class _Following:
    def __init__(
        self,
        engine: Engine,
        state: StateDir,
        interrupts: Interrupts,
        *,
        json: bool,
        after: int,
        on_event: str | None,
    ) -> None:
        self._engine = engine
        self._resume = resume_command(state, engine.run.name)
        self._interrupts = interrupts
        self._json = json
        self._after = after
        self._on_event = on_event
        self._clock: Clock = SystemClock()
        self._line = ProgressLine()
        self._warnings = WarningReader(engine.run.log)
        self._pause_asked: int | None = None  # the number of our pause command
        earlier = EarlierRuns.beside(engine.run)
        self._progress = ProgressAsSeen(RunClient(engine.run), earlier, self._clock)

    def to_the_end(self) -> int:
        with RunFollower(self._engine.run.journal) as follower:
            self._report_new(follower)
            while not self._engine.gone:
                if self._interrupts.leave:
                    return self._leave(follower)
                if self._interrupts.count and self._pause_asked is None:
                    self._pause()
                self._report_new(follower)
                self._line.show(progress_line(self._progress.of(follower.run)))
                time.sleep(_POLL_S)
            self._report_new(follower)
            return self._end(follower)

    def _report_new(self, follower: RunFollower) -> None:
        new = follower.refresh()
        for warning in self._warnings.new():
            self._line.print(warning)
        if any(map(self._is_our_pause, new)):
            in_flight = as_count(follower.run.in_flight, "step")
            self._line.print(
                f"paused: nothing more is submitted, and {in_flight} in flight may finish"
            )
        if self._json:
            self._print([entry for entry in new if entry.seq > self._after])

    def _print(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            for entry in entries:
                click.echo(event_line(self._engine.run.name, entry))
            sys.stdout.flush()

    def _pause(self) -> None:
        """Pause the run: the engine submits nothing more, and leaves once nothing is in flight."""
        self._pause_asked = RunClient(self._engine.run).ask(Pause(by=PauseOrigin.SIGNAL))
        self._line.print("interrupted: pausing the run. Interrupt again to leave at once")

    def _is_our_pause(self, entry: JournalEntry) -> bool:
        event = entry.event
        return (
            isinstance(event, Paused)
            and event.by is PauseOrigin.SIGNAL
            and event.command == self._pause_asked
        )

    def _leave(self, follower: RunFollower) -> int:
        self._engine.leave()
        if not self._engine.wait(_LEAVING_S):
            self._line.print(f"its engine, process {self._engine.pid}, leaves in a moment")
        self._report_new(follower)
        return self._end(follower)

    def _end(self, follower: RunFollower) -> int:
        run = follower.run
        ending = run_ending(run) if self._engine.gone else RunEnding.LEFT
        if ending is RunEnding.FAILED and run.left is None:
            reason = self._engine.last_words
            self._line.print(f"the engine of run {run.name} has died: {reason}")
            self._hand_on_death(run, reason)
        for line in end_lines(run):
            self._line.print(line)
        if not run.ended:
            self._line.print(f"to resume it: {self._resume}")
        return EXIT_CODES[ending]

    def _hand_on_death(self, run: Run, reason: str) -> None:
        """Run the command of --on-event for an engine that was killed, and could not itself."""
        command = run.options.on_event if self._on_event is None else self._on_event
        if not command or not self._engine.killed:
            return
        event_command = EventCommand(command)
        event_command.send(engine_died_json(run, self._clock.now(), reason))
        for failure in event_command.close():
            self._line.print(failure)


def is_headless(*, headless: bool, json: bool) -> bool:
    """Whether to go without the live view: by option, or for want of a terminal."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return headless or json or not all(s is not None and s.isatty() for s in streams)


def show_run(
    start: Callable[[], EngineProcess],
    where: Target,
    state: StateDir,
    *,
    headless: bool,
    json: bool,
    after: int = 0,
    on_event: str | None = None,
) -> int:
    """Start an engine, and show its run until the run ends or the view is closed.

    Returns the exit code; 0 for a run that goes on without the view. The rest is as in `follow`.
    """
    if headless:
        return follow(start, state, json=json, after=after, on_event=on_event)
    from ktui.cli.output.view import read_keymap  # noqa: PLC0415 - scripts need no screens
    from ktui.cli.watch.command import LiveView, show  # noqa: PLC0415 - likewise

    read_keymap(load_config())  # a mistake in it is refused before anything starts
    engine = start()
    show(LiveView(cluster=where.cluster, state=state, names=where.names, run=engine.run.path))
    if not engine.gone:
        return 0  # the view has said that the run goes on
    run = RunClient(engine.run).read().run
    print_note("\n".join(end_lines(run)))
    return EXIT_CODES[run_ending(run)]


@click.command("resume")
@common.run_argument
@cluster_options
@until_option
@run_recorded_option
@on_event_option
@metrics_file_option
@headless_option
@add_option("--json", "Print each new event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    name: str,
    choice: ClusterChoice,
    *,
    until: datetime | None,
    record: bool | None,
    on_event: str | None,
    metrics_file: str | None,
    headless: bool,
    json: bool,
    concurrent: bool,
    ownership: OwnerChoice,
    state: StateDir,
) -> None:
    """Resume RUN after a crash, an interrupt or a failure.

    The connection to the cluster is that of the start, unless an option names another. A pause from
    an interrupt is lifted; a pause from `ktui pause` stays. Recording, --on-event and
    --metrics-file are as at the start, unless an option changes that for this time.

    Exit codes are those of `ktui start`.
    """
    client = RunClient.find(state, name)
    left = _read_left(client)
    if left.damage is not None:
        print_note(f"damaged: {left.damage}. The run goes on from what comes before")
    if left.run.ended and not _reopens(client, left.run):
        print_note("\n".join(end_lines(left.run)))
        sys.exit(EXIT_CODES[run_ending(left.run)])
    if left.run.until is not None and until is None:
        print_note(
            f"its --until {local_time(left.run.until)} no longer holds. Set a time again: "
            "--until TIME"
        )
    shut = shut_gate(state, left.begun.cluster_id)
    if shut is not None:
        print_note(f"{gate_line(shut, state, name)}. Until then only cancels are submitted")
    where = choice.or_of_run(left.begun).target()
    warn_of_tls(where.cluster)
    asyncio.run(_check_cluster(where, left))
    launch = Launch.on(
        where,
        state,
        left.begun.cluster_id,
        name,
        ownership,
        until=until,
        concurrent=concurrent,
        record=record,
        on_event=on_event,
        metrics_file=metrics_file,
    )
    code = show_run(
        lambda: launch_left_run(launch),
        where,
        state,
        headless=is_headless(headless=headless, json=json),
        json=json,
        after=left.run.seq,
        on_event=on_event,
    )
    sys.exit(code)


def _read_left(client: RunClient) -> BegunRun:
    if (owner := client.owner) is not None:
        raise OwnedElsewhere(client.name, owner)
    left = client.read_begun()
    refuse_exported(left.run)
    return left


async def _check_cluster(where: Target, left: BegunRun) -> None:
    """Check that the cluster is the run's, and warn of permissions that its throttle lacks.

    The run is resumed without them, too: it may have steps in flight.
    """
    await check_cluster(where, left.begun.cluster_id)
    if left.run.throttles:
        rates = left.run.throttled.rates
        for finding in await find_missing_for_throttle(left.run, where.cluster, rates):
            print_note(f"warning: {finding.sentence}")


def _reopens(client: RunClient, run: Run) -> bool:
    return any(
        not CancelScope(run, command.kind, command.topics, command.partitions).idle
        for command in client.unanswered()
        if isinstance(command, CancelMoves)
    )
