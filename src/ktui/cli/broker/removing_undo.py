"""The way back from a removal: its runs from the last to the first, then its cordon."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import click
import msgspec

from ktui.cli.broker.cordon import check_owner
from ktui.cli.broker.removal_request import CLAIM, WAITS, RemovalRequest, Stopped
from ktui.cli.broker.runs import LeftRuns, made_run
from ktui.cli.broker.undo import find_undo, roll_back, undo_line
from ktui.cli.context.errors import BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.plan.from_run import left_as_is_lines
from ktui.cluster.clock import SystemClock
from ktui.cluster.cordon import CORDONED
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import Cordoner
from ktui.execution.broker.removal import CordonMemory, Removal
from ktui.execution.errors import RunRefused


class UndoRemoval:
    """One call of the undo of a removal, which goes on where an earlier one has ended.

    Args:
        request: what was asked for; its file is locked by the caller, unless it is previewed.
    """

    def __init__(self, request: RemovalRequest) -> None:
        self._broker = request.broker
        self._runs = LeftRuns.of(request.target, request.how)
        self._file = request.file
        self._cluster = request.cluster
        self._again = request.again
        self._removal = self._found()
        self._complete = True

    def _found(self) -> Removal:
        removal = self._file.load()
        if removal is None:
            raise BadInput(
                f"no removal of broker {self._broker} has changed anything, or it was undone: "
                f"{self._runs.state.path} has none"
            )
        if removal.unregistered_at is not None:
            raise RunRefused(
                f"nothing was sent: broker {self._broker} is unregistered, and that ends the way "
                "back. Start the broker, and it registers again. Then give it replicas: "
                f"ktui plan fill {self._broker}"
            )
        return removal

    def preview(self) -> None:
        """Print what would be undone."""
        lists: dict[TopicPartition, Brokers] = {}
        for name in reversed(self._removal.runs):
            if made_run(self._runs.state, name) is None:
                if self._is_gone(name):
                    click.echo(_gone_line(name))
                continue
            undo = find_undo(self._runs, name, lists)
            lists |= undo.lists
            for line in left_as_is_lines(undo.left):
                click.echo(line)
            click.echo(undo_line(undo))
        if (cordon := self._removal.cordon) is not None:
            click.echo(f"{CORDONED}: {_value(cordon.value)} -> {_value(cordon.before)}")
        click.echo("nothing was sent")

    def go_on(self) -> bool:
        """Undo the removal, and return whether all is as before.

        Raises:
            Stopped: it goes no further now.
            RunRefused: something forbids the next part.
            RunProblem, ClusterError: something cannot be read or done.
        """
        if self._broker not in self._cluster.online:
            raise Stopped(
                WAITS,
                f"broker {self._broker} is down. Start it, and call this again: "
                f"{self._again} --undo",
            )
        if not self._removal.undoing:
            self._save(undoing=True)
        for name in reversed(self._removal.runs):
            self._undo_run(name)
            self._save(
                demotes=tuple(each for each in self._removal.demotes if each != name),
                drains=tuple(each for each in self._removal.drains if each != name),
            )
        if self._removal.cordon is not None:
            asyncio.run(self._restore(self._removal.cordon))
        self._file.delete()
        as_before = "all is as before" if self._complete else "the rest is as before"
        click.echo(f"the removal of broker {self._broker} is undone: {as_before}")
        return self._complete

    def _save(self, **changes: Any) -> None:
        self._removal = msgspec.structs.replace(self._removal, **changes)
        self._file.save(self._removal)

    def _undo_run(self, name: str) -> None:
        if made_run(self._runs.state, name) is None:
            if self._is_gone(name):
                print_note(_gone_line(name))
                self._complete = False
            return
        undo = find_undo(self._runs, name)
        for line in left_as_is_lines(undo.left):
            print_note(line)
        back = not undo.partitions or roll_back(self._runs, undo)
        self._complete = self._complete and back and not undo.left

    def _is_gone(self, name: str) -> bool:
        """Whether nothing is left of a run: it may have been begun, and then it is not undone."""
        return not self._runs.state.run(name).path.exists()

    async def _restore(self, cordon: CordonMemory) -> None:
        """Put the earlier cordon back, unless somebody else has changed it since."""
        cluster, broker = self._runs.target.cluster, self._broker
        async with aclosing(cluster.reader()) as reader, aclosing(cluster.writer()) as writer:
            await check_owner(
                cluster,
                self._runs.state,
                self._cluster.cluster_id,
                CLAIM,
                take_over=self._runs.take_over,
                off=self._runs.no_ownership,
            )
            cordoner = Cordoner(ClusterPorts(reader, writer), broker, SystemClock())
            now = (await cordoner.read()).setting.own
            change = f"{CORDONED}: {_value(now)} -> {_value(cordon.before)}"
            if now == cordon.before:
                click.echo(f"{CORDONED} is as before: {_value(now)}")
            elif now != cordon.value:
                print_note(f"left as it is: {CORDONED} is {_value(now)}: somebody has changed it")
                self._complete = False
            else:
                await cordoner.restore(cordon.before)
                click.echo(f"broker {broker}: {change}")


def _gone_line(name: str) -> str:
    return (
        f"run {name} is not there: it was never begun, or it was deleted since. Then what it has "
        "moved stays as it is"
    )


def _value(own: str | None) -> str:
    return "not set" if own is None else clean(own) or "empty"
