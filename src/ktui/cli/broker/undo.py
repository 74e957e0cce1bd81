"""`ktui broker undo`: the order and the leaders from before the last demote of a broker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

import click
import msgspec

from ktui.cli.broker.demote import read_cluster_id
from ktui.cli.broker.plans import DEMOTE
from ktui.cli.broker.read import broker_argument
from ktui.cli.broker.runs import LeftRuns, last_run_of
from ktui.cli.context.cluster import ClusterChoice, warn_of_tls
from ktui.cli.context.errors import BadInput
from ktui.cli.context.ownership_options import ownership_options
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.run import concurrent_option
from ktui.cli.plan.from_run import NOTHING_ELSE, left_as_is_lines, read_undo_plan
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.hand_over import refuse_exported
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.undo_plan import LeftAsIs
from ktui.quantities import as_count


class Undo(msgspec.Struct, frozen=True):
    """What of a run is undone, and what is left as it is."""

    run: Run
    partitions: tuple[TopicPartition, ...]
    """Those that go back, or that do not begin after all."""
    left: tuple[LeftAsIs, ...]

    @property
    def lists(self) -> dict[TopicPartition, Brokers]:
        """The replicas that the partitions get back."""
        return {tp: self.run.tracks[tp].original for tp in self.partitions}


@click.command("undo")
@broker_argument
@cluster_options
@click.option("--dry-run", is_flag=True, help="Show what would be undone, and send nothing.")
@click.option("--json", is_flag=True, help="Print each event as a line of JSON.")
@concurrent_option
@ownership_options
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    broker: int,
    choice: ClusterChoice,
    *,
    dry_run: bool,
    json: bool,
    concurrent: bool,
    take_over: bool,
    no_ownership: bool,
    state: StateDir,
) -> None:
    """Undo the last `ktui broker demote` of broker ID.

    Every partition gets its earlier order back, and its earlier leader, under the limits of that
    run. Partitions that others have changed since are left as they are, each with the reason. An
    undo that was interrupted goes on.

    Exit code 0 if all is as before, 3 if some is not, 2 if there is nothing to undo.
    """
    target = choice.target(changes=not dry_run)
    warn_of_tls(target.cluster)
    cluster_id = asyncio.run(read_cluster_id(target.cluster))
    _refuse_removal(RemovalFile(state, cluster_id, broker), broker)
    last = last_run_of(state, cluster_id, DEMOTE.words(broker))
    if last is None:
        raise BadInput(
            f"no run in {state.path} has demoted broker {broker} by `ktui broker demote`. To undo "
            "another run: ktui cancel RUN --rollback"
        )
    runs = LeftRuns(
        target=target,
        state=state,
        concurrent=concurrent,
        take_over=take_over,
        no_ownership=no_ownership,
        json=json,
    )
    undo = find_undo(runs, last.name)
    for line in left_as_is_lines(undo.left):
        print_note(line)
    if not undo.partitions:
        print_note(f"nothing to do: nothing of run {last.name} is left to be undone")
    elif dry_run:
        click.echo(undo_line(undo))
        click.echo("nothing was sent")
    elif not roll_back(runs, undo):
        sys.exit(NOT_ALL_DONE)
    sys.exit(NOT_ALL_DONE if undo.left else 0)


def find_undo(
    runs: LeftRuns, name: str, before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE
) -> Undo:
    """Return what of a run can be undone now.

    Args:
        runs: how runs are carried on.
        name: the run.
        before_that: replicas that another undo puts back before this one.

    Raises:
        RunRefused: the run was exported, or the cluster is not the run's.
        RunProblem: its journal cannot be read.
        ClusterError: the cluster cannot be read.
    """
    found = RunClient.find(runs.state, name).read_begun()
    run = found.run
    refuse_exported(run)
    plan = asyncio.run(read_undo_plan(runs.target, found, before_that))
    going = [tp for tp, track in run.tracks.items() if not track.state.ended]
    back = [target.tp for target in plan.plan.partitions]
    left = tuple(each for each in plan.left if run.tracks[each.tp].state.ended)
    return Undo(run, tuple(dict.fromkeys((*going, *back))), left)


def undo_line(undo: Undo) -> str:
    """Describe how much of a run is undone."""
    begun = sum(undo.run.tracks[tp].begun for tp in undo.partitions)
    rest = len(undo.partitions) - begun
    words = f"undo run {undo.run.name}: {as_count(begun, 'partition')} put back as before"
    return f"{words}, {rest:,} not begun" if rest else words


def roll_back(runs: LeftRuns, undo: Undo) -> bool:
    """Roll a run back, and return whether all that is undone is as before.

    Ends the program if the run was left before its end.
    """
    print_note(undo_line(undo))
    code = runs.roll_back(undo.run.name, undo.partitions)
    run = RunClient.find(runs.state, undo.run.name).read().run
    if not run.ended:
        sys.exit(code)
    return not _not_back(run, undo.partitions)


def _not_back(run: Run, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    tracks = (run.tracks[tp] for tp in partitions)
    back = (State.ROLLED_BACK, State.TOPIC_GONE)
    return [track.tp for track in tracks if track.begun and track.state not in back]


def _refuse_removal(file: RemovalFile, broker: int) -> None:
    removal = file.load()
    if removal is not None and removal.unregistered_at is None:
        raise RunRefused(
            f"broker {broker} is being removed, and its leadership with it. To undo that: "
            f"ktui broker remove {broker} --undo"
        )
