"""`ktui watch`, the default command: the live view."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Self

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import need_terminal, print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.outward import view_on_event_option
from ktui.cli.options.recording import recorded_in_words, recorder, recording_options
from ktui.cli.output.event_json import engine_died_json
from ktui.cli.output.keymap import read_keymap
from ktui.cli.output.view import show_app
from ktui.cli.record.prune import ClusterRecording, prune_as_configured
from ktui.cli.watch.launcher import ProcessEngines
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.asking import PATIENCE
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observer import ObservationSource, Observer
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.host.process import engine_death
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.kafka.reader import KafkaReader
from ktui.recording.recorder import Recorder
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw.themes import load_themes
from ktui.tui.screens.watch.filter import BadFilter, RowFilter

LEAST_PATIENCE_S = 0.5


class LiveView(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a live view."""

    cluster: Cluster
    state: StateDir
    names: Mapping[str, str] | None = None
    """The options that name the cluster to an engine process; None for a read-only view."""
    run: Path | None = None
    """The folder of the run to show; None for the cluster's live run, if there is one."""
    topics: frozenset[str] = frozenset()
    poll_interval_s: float | None = None
    theme: str | None = None
    filter_text: str = ""
    """The filter to begin with."""
    recorder: Recorder | None = None
    """Records every poll; None to record nothing."""
    on_event: str = ""
    """The command that the view runs when the engine of its run dies; empty for none."""


def _check_filter(_context: click.Context, _option: click.Parameter, text: str) -> str:
    try:
        RowFilter(text)
    except BadFilter as problem:
        raise BadInput(f"--filter: {problem}") from None
    return text


@click.command("watch")
@cluster_options
@common.topics_option("List every partition of this topic first; may be repeated.")
@click.option(
    "--filter",
    "filter_text",
    default="",
    metavar="TEXT",
    callback=_check_filter,
    help="Begin with this filter, as / takes it: 'orders broker:9 state:stalled'.",
)
@click.option("--write", is_flag=True, help="Allow the view to start and change runs.")
@common.poll_interval_option
@common.theme_option
@click.option("--record", is_flag=True, help="Record the view, for `ktui replay`.")
@recording_options
@view_on_event_option
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    choice: ClusterChoice,
    *,
    topics: tuple[str, ...],
    filter_text: str,
    write: bool,
    poll_interval: float | None,
    theme: str | None,
    record: bool,
    to: Path | None,
    redact: bool,
    on_event: str | None,
    state: StateDir,
) -> None:
    """Watch partition reassignments live, and the run that moves them.

    Changes nothing on the cluster, unless --write allows the view to start and change runs. With
    --record, the view is recorded to files, for `ktui replay`.
    """
    if (to or redact) and not record:
        raise BadInput(f"{'--to' if to else '--redact'} needs a recording. Give --record, too")
    names = None
    if write:
        target = choice.target()
        cluster, names = target.cluster, target.names
    else:
        cluster = choice.cluster()
    need_terminal()
    records = None
    if record:
        for warning in prune_as_configured(state):
            print_note(warning)
        clock, named = SystemClock(), cluster.name
        records = recorder(state, to, clock, cluster=named, verb="watch", redact=redact)
    show(
        LiveView(
            cluster=cluster,
            state=state,
            names=names,
            topics=frozenset(topics),
            poll_interval_s=poll_interval,
            theme=theme,
            filter_text=filter_text,
            recorder=records,
            on_event=on_event or "",
        )
    )
    if records is not None:
        click.echo(recorded_in_words(records), err=True)


def show(view: LiveView) -> None:
    """Show a live view until it is closed."""
    asyncio.run(_shown(view))


async def _shown(view: LiveView) -> None:
    clock = SystemClock()
    interval_s = view.poll_interval_s or view.cluster.context.poll_interval
    patience_s = max(LEAST_PATIENCE_S, PATIENCE * interval_s)
    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(aclosing(view.cluster.reader()))
        observer = Observer(reader, clock, patience_s=patience_s)
        source: ObservationSource = await stack.enter_async_context(aclosing(observer))
        if view.recorder is not None:
            recording = ClusterRecording(observer, view.recorder, view.state)
            source = await stack.enter_async_context(aclosing(recording))
        death = None if not view.on_event else stack.enter_context(DeathNotice(view, clock))
        await show_app(_app(view, source, reader, clock, interval_s, death))


class DeathNotice:
    """Runs the view's command when the engine of its run has died, which can run none itself."""

    def __init__(self, view: LiveView, clock: Clock) -> None:
        self._command, self._state, self._clock = EventCommand(view.on_event), view.state, clock

    def __call__(self, run: Run) -> None:
        reason = engine_death(self._state.run(run.name), run) or "its process is gone"
        self._command.send(engine_died_json(run, self._clock.now(), reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for failure in self._command.close():
            click.echo(f"ktui: {failure}", err=True)


def _app(
    view: LiveView,
    source: ObservationSource,
    reader: KafkaReader,
    clock: Clock,
    interval_s: float,
    on_engine_death: DeathNotice | None,
) -> KtuiApp:
    cluster, engines = view.cluster, None
    if view.names is not None:
        engines = ProcessEngines(cluster, reader, view.names, view.state)
    return KtuiApp(
        source,
        cluster_name=cluster.name,
        read_only=view.names is None,
        tls_unverified=bool(cluster.unverified),
        poll_interval_s=interval_s,
        theme=view.theme or cluster.theme,
        themes=load_themes(config_dir() / "themes"),
        topics=view.topics,
        clock=clock,
        run=view.run,
        state_dir=view.state,
        engines=engines,
        brokers=BrokerAccess(reader, clock, None if engines is None else engines.ports),
        recorder=view.recorder,
        alerts=cluster.bell,
        on_engine_death=on_engine_death,
        verbs=ShellVerbs(),
        filter_text=view.filter_text,
        keymap=read_keymap(load_config()),
    )
