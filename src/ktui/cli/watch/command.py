"""`ktui watch`, the default command: the live view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from functools import cached_property
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import CORDON_CLAIM, check_owner
from ktui.cli.context.cluster import Cluster, ClusterChoice, Target, cluster_options
from ktui.cli.context.config import config_dir, load_config
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BadInput, need_terminal, print_note
from ktui.cli.options import common
from ktui.cli.options.outward import (
    recorded_in_words,
    recorder,
    recording_options,
    view_on_event_option,
    with_event_command,
)
from ktui.cli.options.throttle import unnamed_limits
from ktui.cli.output.json_form import engine_died_json
from ktui.cli.output.plan_check import fact_reader
from ktui.cli.output.view import read_keymap, show_app
from ktui.cli.process import Launch, launch_left_run, launch_new_run
from ktui.cli.record_prune import ClusterRecording, prune_as_configured
from ktui.cli.rehearsal_report import on_own_loop
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import ObservationSource, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.foreign_cancels import ListedReassignment, Settled
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import NewRun, prepare_run
from ktui.execution.host.operator_command import EventCommand
from ktui.execution.host.process import engine_death
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import Started
from ktui.execution.run.run import Run
from ktui.kafka.reader import KafkaReader
from ktui.ops.cancel import cancel_foreign
from ktui.ops.start import FactReader, find_missing_for_throttle
from ktui.pacing.limits import Limits
from ktui.planning.intents.layout import Layout, read_layout
from ktui.planning.throttle_rates import ThrottleRates
from ktui.recording.recorder import Recorder
from ktui.tui.app.app import KtuiApp
from ktui.tui.draw.themes import load_themes
from ktui.tui.run_view.launchers import PlanRehearser
from ktui.tui.screens.watch.row_model import BadFilter, RowFilter


class ProcessEngines:
    """Starts engines as `ktui start` and `ktui resume` do."""

    def __init__(
        self, cluster: Cluster, reader: KafkaReader, names: Mapping[str, str], state: StateDir
    ) -> None:
        self._cluster, self._reader, self._names, self._state = cluster, reader, names, state
        self._context = cluster.context

    @cached_property
    def rehearser(self) -> PlanRehearser:
        # slow to import, and only a plan needs it
        from ktui.cli.rehearsal_report import ClusterRehearser  # noqa: PLC0415
        from ktui.cli.snapshot import TwinReading, take_cluster_twin  # noqa: PLC0415

        cluster, state, reading = self._cluster, self._state, TwinReading()
        return ClusterRehearser(
            cluster.name,
            lambda plan: on_own_loop(lambda: take_cluster_twin(cluster, plan, reading, state)),
            measure_s=reading.measure_s,
            clock=SystemClock(),
        )

    def limits(self, named: Mapping[str, object]) -> Limits:
        return unnamed_limits(self._context.limits, named)

    @property
    def facts(self) -> FactReader:
        return fact_reader(self._cluster, self._reader, self._state, self._names)

    @property
    def throttle(self) -> str:
        return "" if self._context.throttle is None else str(self._context.throttle)

    @property
    def canary(self) -> bool:
        return self._context.canary

    async def read_layout(self) -> Layout:
        return await read_layout(self._reader)

    async def check_throttle(self, run: Run, rates: ThrottleRates) -> None:
        """Check that a run's principal may set a throttle, and measure its objective.

        The run's engine sets it. So nothing is refused where that may be somebody else.
        """
        if run.started is None or run.started.connection != self._names:
            return
        with suppress(ClusterError):  # the engine finds out, and answers
            missing = await find_missing_for_throttle(run, self._cluster, rates)
            if missing:
                raise RunRefused("; ".join(finding.sentence for finding in missing))

    async def start(self, wanted: NewRun) -> RunDir:
        options = wanted.options
        canary = options.canary_of(wanted.name, options.throttle)
        reader = fact_reader(self._cluster, self._reader, self._state)
        facts = await reader.read(wanted.plan, canary=canary)
        cluster_id = facts.cluster_id
        options = with_event_command(options, self._context.on_event)
        new = msgspec.structs.replace(wanted, options=options)
        first = prepare_run(new, facts, connection=self._names)
        target = Target(self._cluster, self._names)
        launch = Launch.on(
            target, self._state, cluster_id, wanted.name, concurrent=wanted.concurrent
        )
        engine = await asyncio.to_thread(launch_new_run, launch, first)
        return engine.run

    async def resume(self, run: RunDir, ask: Callable[[], None] | None = None) -> None:
        cluster_id = await self._cluster_id()
        begun = await asyncio.to_thread(_begun, run)
        if begun.cluster_id != cluster_id:
            raise RunProblem(
                f"run {run.name} belongs to cluster {begun.cluster_id}, but this view is on "
                f"{cluster_id}"
            )
        target, ends = Target(self._cluster, self._names), ask is not None
        launch = Launch.on(
            target, self._state, cluster_id, run.name, only_ends=ends, concurrent=False
        )
        await asyncio.to_thread(launch_left_run, launch, *(() if ask is None else (ask,)))

    async def cancel_foreign(
        self, moves: Collection[ListedReassignment]
    ) -> Mapping[TopicPartition, Settled]:
        await check_owner(self._cluster, self._state, await self._cluster_id(), "")
        async with aclosing(self._cluster.writer()) as writer:
            ports = ClusterPorts(self._reader, writer)
            return await cancel_foreign(ports, self._state, SystemClock(), moves)

    @asynccontextmanager
    async def ports(self) -> AsyncIterator[ClusterPorts]:
        """Open the ports for a change that is no run's. RunRefused: others own the cluster."""
        await check_owner(self._cluster, self._state, await self._cluster_id(), CORDON_CLAIM)
        async with aclosing(self._cluster.writer()) as writer:
            yield ClusterPorts(self._reader, writer)

    async def _cluster_id(self) -> str:
        return (await self._reader.describe_cluster()).cluster_id


def _begun(run: RunDir) -> Started:
    first = RunClient(run).first_entry()
    if first is None or not isinstance(first.event, Started):
        raise RunProblem(
            f"{run.journal}: the start of the run was cut off, and nothing was sent. Start its "
            "plan again, with another --name"
        )
    return first.event


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
    recorder: Recorder | None = None
    on_event: str = ""
    """The command that the view runs when the engine of its run dies; empty for none."""


def _check_filter(text: str) -> str:
    try:
        RowFilter(text)
    except BadFilter as problem:
        raise BadInput(f"--filter: {problem}") from None
    return text


@click.command("watch")
@cluster_options
@common.topics_option("List every partition of this topic first; may be repeated.")
@add_option(
    "--filter TEXT",
    "Begin with this filter, as / takes it: 'orders broker:9 state:stalled'.",
    "filter_text",
    default="",
    reads=_check_filter,
)
@add_option("--write", "Allow the view to start and change runs.")
@common.poll_interval_option
@common.theme_option
@add_option("--record", "Record the view, for `ktui replay`.")
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
    clock, cluster = SystemClock(), view.cluster
    interval_s = view.poll_interval_s or cluster.context.poll_interval
    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(aclosing(cluster.reader()))
        observer = Observer(reader, clock, patience_s=common.patience_s(interval_s))
        source: ObservationSource = await stack.enter_async_context(aclosing(observer))
        if view.recorder is not None:
            recording = ClusterRecording(observer, view.recorder, view.state)
            source = await stack.enter_async_context(aclosing(recording))
        engines = None
        if view.names is not None:
            engines = ProcessEngines(cluster, reader, view.names, view.state)
        app = KtuiApp(
            source,
            cluster_name=cluster.name,
            read_only=engines is None,
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
            on_engine_death=stack.enter_context(_death_notice(view, clock)),
            verbs=ShellVerbs(),
            filter_text=view.filter_text,
            keymap=read_keymap(load_config()),
        )
        await show_app(app)


@contextmanager
def _death_notice(view: LiveView, clock: Clock) -> Iterator[Callable[[Run], None] | None]:
    """Run the view's command when the engine of its run has died, which can run none itself."""
    if not view.on_event:
        yield None
        return
    command = EventCommand(view.on_event)

    def notify(run: Run) -> None:
        reason = engine_death(view.state.run(run.name), run) or "its process is gone"
        command.send(engine_died_json(run, clock.now(), reason))

    try:
        yield notify
    finally:
        for failure in command.close():
            click.echo(f"ktui: {failure}", err=True)
