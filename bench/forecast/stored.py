"""The stored recordings: of real runs and of simulated ones, by cluster, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.forecast import real_runs, simulated
from bench.forecast.real_runs import Kind, Machine
from ktui.pipeline.forecast.replay import DecodedPoll, SessionStream
from ktui.recording.reading import find_sessions
from ktui.recording.segments import RunLine

RECORDINGS = Path(__file__).parent / "recordings"


class StoredRun(NamedTuple):
    """The recording of one run."""

    cluster: str
    number: int
    """Its place among the runs of its cluster, from 1."""
    name: str
    folder: Path

    def events(self) -> Iterator[DecodedPoll | RunLine]:
        """Yield its polls and the events of its journal, in order.

        Raises:
            SystemExit: the folder does not hold exactly one session.
        """
        sessions = find_sessions(self.folder)
        if len(sessions) != 1:
            raise SystemExit(f"not measured: {len(sessions)} sessions in {self.folder}, not one")
        contents = [path.read_bytes() for path in sessions[0].files]
        return SessionStream(sessions[0].head.cluster_id).events(contents)


class RunSet(NamedTuple):
    """Some clusters and their runs, in the order of time."""

    title: str
    clusters: dict[str, list[StoredRun]]

    @property
    def runs(self) -> list[StoredRun]:
        """All runs."""
        return [run for runs in self.clusters.values() for run in runs]


def real(machine: Machine, *, frozen: bool) -> RunSet:
    """Return the real runs on such a machine: to learn on, or the frozen ones."""
    labs = [lab for lab in real_runs.LABS if (lab.frozen, lab.machine) == (frozen, machine)]
    title = f"real runs, {_which(frozen=frozen)}, on {machine.value}"
    return RunSet(title, _clusters([lab.name for lab in labs]))


def long_real_runs() -> RunSet:
    """Return the frozen runs of labs whose runs are long; `real` has them, too."""
    labs = [lab for lab in real_runs.LABS if lab.frozen and lab.kind is Kind.LONG]
    return RunSet("real runs, frozen, of some minutes", _clusters([lab.name for lab in labs]))


def simulated_runs(*, frozen: bool) -> RunSet:
    """Return the recorded simulated runs to learn on, or the frozen ones."""
    seeds = simulated.FROZEN if frozen else simulated.TRAINING
    names = [simulated.cluster_name(seed) for seed in seeds]
    return RunSet(f"simulated runs, {_which(frozen=frozen)}", _clusters(names))


def together(title: str, sets: Iterable[RunSet]) -> RunSet:
    """Return the runs of several sets as one."""
    return RunSet(title, {name: of for runs in sets for name, of in runs.clusters.items()})


def _which(*, frozen: bool) -> str:
    return "frozen" if frozen else "training"


def _clusters(names: list[str]) -> dict[str, list[StoredRun]]:
    """Return the runs of clusters.

    Raises:
        SystemExit: a cluster was not recorded.
    """
    found = {}
    for name in names:
        folders = sorted((RECORDINGS / name).glob("*-*"), key=_number)
        if not folders:
            raise SystemExit(f"not measured: no recordings in {RECORDINGS / name}")
        found[name] = [
            StoredRun(name, _number(each), each.name.partition("-")[2], each) for each in folders
        ]
    return found


def _number(folder: Path) -> int:
    return int(folder.name.partition("-")[0])
