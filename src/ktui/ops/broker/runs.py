"""The runs on the way out of a broker: their plans, and their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

import msgspec

from ktui.cluster.ports import ClusterReader
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.execution.broker.removal import RemovalFile
from ktui.execution.broker.status import BrokerStatus, find_status, read_broker, read_metadata
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.events import AnyRunEvent, Started
from ktui.execution.run.run import Run
from ktui.planning.intents.drain import drain
from ktui.planning.intents.layout import Layout, read_layout, unread_warnings, without_rack
from ktui.planning.intents.leader_flow import demote
from ktui.planning.intents.made_plan import MadePlan, Wishes, left_lines
from ktui.quantities import as_bytes, as_count

Intent = Callable[[Layout, Collection[int], Wishes], MadePlan]


class Purpose(msgspec.Struct, frozen=True):
    """What a run does to a broker."""

    verb: str  # begins the name of a run: demote, drain
    intent: Intent

    def words(self, broker: int) -> str:
        return f"{self.verb} broker {broker}"

    def words_in_removal(self, broker: int) -> str:
        """As a part of a removal, which `ktui broker undo` leaves alone."""
        return f"{self.words(broker)}, to remove it"

    def run_name(self, broker: int) -> str:
        return f"{self.verb}-{broker}"


DEMOTE = Purpose("demote", demote)
DRAIN = Purpose("drain", drain)


async def read_plan_layout(reader: ClusterReader, note: Callable[[str], None]) -> Layout:
    """Read what the plans are made from. Raises ClusterError: the cluster cannot be read."""
    layout = await read_layout(reader)
    for line in unread_warnings(layout.failures):
        note(line)
    return layout


async def read_status(
    reader: ClusterReader,
    state: StateDir,
    broker: int,
    *,
    fresh: bool = False,
    disks: bool = True,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Read a broker and the runs that take it away. Raises ClusterError, RunProblem."""
    facts = await (read_broker if disks else read_metadata)(reader, broker, fresh=fresh)
    runs = [(run, owner is not None) for run, owner in unfinished_runs(state, facts.cluster_id)]
    removal = RemovalFile(state, facts.cluster_id, broker).load()
    return find_status(facts, runs, fresh=fresh, removal=removal, exclude=exclude)


def runs_on(state: StateDir) -> Callable[[str], Iterator[Run]]:
    """Return a function that yields the unfinished runs on a cluster, by its id."""
    return lambda cluster_id: (run for run, _ in unfinished_runs(state, cluster_id))


def make(
    purpose: Purpose,
    broker: int,
    layout: Layout,
    *,
    rack_aware: bool | None = None,
    exclude: tuple[str, ...] = (),
) -> MadePlan:
    """Return a plan, perhaps empty, on as many racks where brokers have some. Raises CannotMake."""
    racks = not without_rack(layout) if rack_aware is None else rack_aware
    wishes = Wishes(rack_aware=racks, exclude=exclude)
    return purpose.intent(layout, (broker,), wishes)


def plan_text(made: MadePlan) -> str:
    """Describe a plan in one line: how much it copies, and how many leaders it changes."""
    partitions = as_count(len(made.plan.partitions), "partition")
    copied = (
        f"{as_count(made.moves, 'replica')} to copy ({as_bytes(made.bytes)})"
        if made.moves
        else "nothing to copy"
    )
    return f"{partitions}, {copied}, {as_count(made.leader_changes, 'preferred leader')} to change"


def left_text(made: MadePlan) -> list[str]:
    """Return a sentence for each reason why something stays as it is."""
    return [clean(line) for line in left_lines(made.left)]


def free_run_name(state: StateDir, base: str, taken: Collection[str] = ()) -> str:
    """Return a name that no run has: "demote-4", else "demote-4-2" and so on."""
    return next(
        name for name in _numbered(base) if name not in taken and not state.run(name).path.exists()
    )


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1


def made_run(state: StateDir, name: str) -> Run | None:
    """Return a run; None where nothing was sent (not made, or cut off). Raises RunProblem."""
    folder = state.run(name)
    if not folder.journal.exists():
        return None
    found = RunClient(folder).read()
    return found.run if found.run.complete or found.damage is not None else None


def last_run_of(state: StateDir, cluster_id: str, words: str) -> RunClient | None:
    """Return the last run that was started for a purpose, of those that can be read."""
    found: list[tuple[datetime, str]] = []
    for folder in state.run_dirs():
        try:
            first = RunClient(folder).first_entry()
        except RunProblem:
            continue
        if first is not None and _is_for(first.event, cluster_id, words):
            found.append((first.at, folder.name))
    return RunClient(state.run(max(found)[1])) if found else None


def _is_for(event: AnyRunEvent, cluster_id: str, words: str) -> bool:
    return isinstance(event, Started) and (event.cluster_id, event.plan) == (cluster_id, words)
