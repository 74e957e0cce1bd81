"""The runs behind `ktui reassign`: an engine submits all of a plan, and Kafka goes on alone.

So a plan has a journal: it survives a crash in the middle, its throttles can be put back, and
`ktui cancel` can roll it back to its original replicas in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ktui.cli.context.claim import ClaimRequest, claim_request
from ktui.cli.context.cluster import Target
from ktui.cli.process.launch import Launch, Leaving, launch_left_run
from ktui.cli.reassign.cluster import state_of
from ktui.cli.reassign.command_line.arguments import Arguments
from ktui.cluster.partition import TopicPartition
from ktui.cluster.resources import SettingKey
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.client import RunClient
from ktui.execution.host.process import EngineProcess
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Command
from ktui.execution.run.run import Run
from ktui.pacing.limits import Shape
from ktui.planning.names import join_some

PROGRAM = "ktui reassign"
"""The name in an ownership claim, where a run would be."""
ENDS_S = 600.0
"""Seconds to wait for an engine that is about to leave; with batches there is no limit."""


class RunsPlace(NamedTuple):
    """Where the runs of `ktui reassign` are, and on which cluster."""

    state: StateDir
    cluster_id: str
    target: Target
    owner: ClaimRequest | None

    def launch(self, name: str, leave: Leaving) -> Launch:
        """Return the launch of an engine that leaves the run before its end."""
        return Launch(
            state=self.state,
            name=name,
            cluster_id=self.cluster_id,
            names=self.target.names,
            until=None,
            concurrent=True,
            record=False,
            owner=self.owner,
            leave=leave,
        )


def runs_place(arguments: Arguments, target: Target, cluster_id: str) -> RunsPlace:
    """Return where the runs of a command line are."""
    state = state_of(arguments)
    owner = claim_request(
        target.cluster,
        state,
        cluster_id,
        PROGRAM,
        off=arguments.has("no-ownership"),
        take_over=arguments.has("take-over"),
    )
    return RunsPlace(state, cluster_id, target, owner)


def left_runs(place: RunsPlace) -> Iterator[Run]:
    """Yield the unfinished runs of `ktui reassign` that no process owns."""
    for run, owner in unfinished_runs(place.state, place.cluster_id):
        begun = run.started  # its limits may be others by now
        whole = begun is not None and begun.limits.shape is Shape.WHOLE
        if owner is None and run.exported is None and whole:
            yield run


def check_not_live(
    state: StateDir, cluster_id: str, partitions: Collection[TopicPartition]
) -> None:
    """Check that no live run is to move any of these partitions.

    Raises:
        RunRefused: one is; names the partitions and the run.
    """
    for run, owner in unfinished_runs(state, cluster_id):
        tracks = (run.tracks.get(tp) for tp in partitions)
        theirs = [track.tp for track in tracks if track is not None and not track.state.ended]
        if owner is not None and theirs:
            raise RunRefused(
                f"run {run.name}, owned by {owner}, moves {join_some(theirs)}. Nothing was sent. "
                f"Wait for its end, add the plan to it (ktui add {run.name} PLAN), or cancel those "
                f"partitions: ktui cancel {run.name}"
            )


def settle(
    place: RunsPlace, name: str, commands: Collection[Command] = ()
) -> tuple[Run, Collection[SettingKey]]:
    """Let an engine take in what Kafka has done meanwhile, and put back throttles that are over.

    Args:
        place: the cluster and the state directory.
        name: the run, which no process owns.
        commands: what the engine does besides; it begins nothing else.

    Returns:
        The run as it is left, and the settings that were put back.

    Raises:
        RunRefused, RunProblem: the engine cannot be started, or has died.
    """
    before = RunClient(place.state.run(name)).read().run.throttled.changed.keys()
    run = carry_on(place.launch(name, Leaving.SETTLED), commands)
    return run, before - run.throttled.changed.keys()


def carry_on(launch: Launch, commands: Collection[Command], limit_s: float = ENDS_S) -> Run:
    """Let an engine go on with a left run; return the run once the engine has left it again.

    Args:
        launch: the engine.
        commands: what the engine begins with.
        limit_s: seconds to wait for its end.

    Raises:
        RunRefused, RunProblem: the engine cannot be started, or has died.
    """
    client = RunClient(launch.state.run(launch.name))

    def ask() -> None:
        for command in commands:
            client.ask(command)

    wait_until_left(launch_left_run(launch, ask), limit_s)
    return client.read().run


def wait_until_left(engine: EngineProcess, limit_s: float) -> None:
    """Wait until an engine has left its run.

    Raises:
        RunProblem: it has not left within `limit_s` seconds, or has died; with its own words.
    """
    if not engine.wait(limit_s):
        raise RunProblem(
            f"the engine of run {engine.run.name} goes on after {limit_s:.0f} s. "
            f"See: ktui status {engine.run.name}"
        )
    if not engine.ended_well:
        raise RunProblem(
            f"the engine of run {engine.run.name} has died: {engine.last_words}\nWhat it had "
            "submitted goes on. For the rest, call --execute again, with --additional"
        )
