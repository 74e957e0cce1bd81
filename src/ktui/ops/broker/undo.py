"""The way back from a removal: its runs from the last to the first, and its cordon.

The cordon goes first where Kafka refuses lists that name a cordoned broker, else last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.settings import CORDONED
from ktui.cluster.text import clean
from ktui.execution.broker.cordon import Cordoner
from ktui.execution.broker.removal import CordonMemory, Removal
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.run.states import CancelKind
from ktui.ops.broker.removal import REFUSED, WAITS, RemovalRequest, Stopped
from ktui.ops.broker.runs import made_run
from ktui.ops.undo import NOTHING_ELSE, Undo, find_undo, left_as_is_lines


class UndoRemoval:
    """One call of the undo of a removal, which goes on where an earlier one has ended.

    Args:
        request: what was asked for; its file is locked by the caller, unless it is previewed.
        removal: what its file remembers.

    Raises:
        RunRefused: the broker is unregistered.
    """

    def __init__(self, request: RemovalRequest, removal: Removal) -> None:
        if removal.unregistered_at is not None:
            raise RunRefused(
                f"nothing was sent: broker {request.broker} is unregistered, and that ends the way "
                "back. Start the broker, and it registers again. Then give it replicas: "
                f"ktui plan fill {request.broker}"
            )
        self._request = request
        self._broker = request.broker
        self._program = request.program
        self._file = request.file
        self._removal = removal
        self._complete = True

    def preview(self) -> Iterator[str]:
        """Yield what would be undone, in order."""
        cordon = self._removal.cordon
        words = "" if cordon is None else _change(cordon.value, cordon.before)
        if words and self._request.refuses:
            yield words
        lists: dict[TopicPartition, Brokers] = {}
        for name in reversed(self._removal.runs):
            if made_run(self._request.state, name) is None:
                if self._is_gone(name):
                    yield _gone_line(name)
                continue
            undo = self._find_undo(name, lists)
            lists |= undo.lists
            yield from left_as_is_lines(undo.left)
            yield undo.text
        if words and not self._request.refuses:
            yield words

    def go_on(self) -> bool:
        """Undo the removal, and return whether all is as before.

        Raises:
            Stopped: it goes no further now.
            RunRefused: something forbids the next part.
            RunProblem, ClusterError: something cannot be read or done.
        """
        if self._broker not in self._request.cluster.online:
            raise Stopped(
                WAITS,
                f"broker {self._broker} is down. Start it, and call this again: "
                f"{self._program.again} --undo",
            )
        if not self._removal.undoing:
            self._save(undoing=True)
        if self._request.refuses:
            self._undo_cordon()
            self._check_open()
        for name in reversed(self._removal.runs):
            self._undo_run(name)
            self._save(
                demotes=tuple(each for each in self._removal.demotes if each != name),
                drains=tuple(each for each in self._removal.drains if each != name),
            )
        self._undo_cordon()
        self._file.delete()
        return self._complete

    def _save(self, **changes: Any) -> None:
        self._removal = msgspec.structs.replace(self._removal, **changes)
        self._file.save(self._removal)

    def _undo_cordon(self) -> None:
        if (cordon := self._removal.cordon) is not None:
            self._request.act(lambda ports: self._restore(ports, cordon))
            self._save(cordon=None)

    def _check_open(self) -> None:
        """Check that no cordon is left under which Kafka refuses the way back.

        Raises:
            Stopped: there is one, of somebody else.
        """
        request = self._request
        if request.cluster.refuses_cordoned and request.is_closed(request.read_cordon()):
            raise Stopped(
                WAITS,
                f"{REFUSED.format(self._broker)}. Lift the cordon: ktui broker uncordon "
                f"{self._broker}. Then call this again: {self._program.again} --undo",
            )

    def _undo_run(self, name: str) -> None:
        if made_run(self._request.state, name) is None:
            if self._is_gone(name):
                self._program.note(_gone_line(name))
                self._complete = False
            return
        undo = self._find_undo(name)
        for line in left_as_is_lines(undo.left):
            self._program.note(line)
        if undo.partitions:
            self._program.note(undo.text)
            code = self._program.cancel(name, CancelKind.ROLLBACK, undo.partitions)
            run = RunClient.find(self._request.state, name).read().run
            if not run.ended:
                raise Stopped(code)
            self._complete = self._complete and not undo.not_back(run)
        self._complete = self._complete and not undo.left

    def _find_undo(
        self, name: str, before_that: Mapping[TopicPartition, Brokers] = NOTHING_ELSE
    ) -> Undo:
        found = RunClient.find(self._request.state, name).read_begun()
        clock, same_cluster = self._program.clock, self._program.same_cluster
        return self._request.act(
            lambda ports: find_undo(ports.reader, clock, found, same_cluster, before_that)
        )

    def _is_gone(self, name: str) -> bool:
        """Whether nothing is left of a run: it may have been begun, and then it is not undone."""
        return not self._request.state.run(name).path.exists()

    async def _restore(self, ports: ClusterPorts, cordon: CordonMemory) -> None:
        await self._program.check_owner(self._removal.cluster_id)
        cordoner = Cordoner(ports, self._broker, self._program.clock)
        now = (await cordoner.read()).setting.own
        if now == cordon.before:
            self._program.report("", f"{CORDONED} is as before: {_value(now)}")
        elif now != cordon.value:
            changed = f"{CORDONED} is {_value(now)}: somebody has changed it"
            self._program.note(f"left as it is: {changed}")
            self._complete = False
        else:
            await cordoner.restore(cordon.before)
            change = _change(now, cordon.before)
            self._program.report("", f"broker {self._broker}: {change}")


def _gone_line(name: str) -> str:
    return (
        f"run {name} is not there: it was never begun, or it was deleted since. Then what it has "
        "moved stays as it is"
    )


def _change(now: str | None, then: str | None) -> str:
    return f"{CORDONED}: {_value(now)} -> {_value(then)}"


def _value(own: str | None) -> str:
    return "not set" if own is None else clean(own) or "empty"
