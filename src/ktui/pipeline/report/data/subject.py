"""What a report is about: one run, or all that was recorded of a cluster."""

from __future__ import annotations

import msgspec
import pyarrow.compute as pc

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.records import RunRecord
from ktui.pipeline.report.data.lake import Tables, records, values

_MOST_NAMED = 10


class Subject(msgspec.Struct, frozen=True):
    """Which rows of the lake concern the report."""

    cluster_id: str
    run: RunRecord | None = None
    """None for the whole cluster."""

    def where(self, *, of_run: bool = True) -> pc.Expression:
        """Tell the rows of the cluster, and of the run if there is one and `of_run`."""
        cluster = pc.field("cluster_id") == self.cluster_id
        if self.run is None or not of_run:
            return cluster
        return cluster & (pc.field("run_id") == self.run.run_id)


def choose(tables: Tables, run: str | None, cluster: str | None) -> Subject:
    """Find what was asked for.

    Args:
        tables: the lake.
        run: a run's name, or its id where several have the name.
        cluster: a cluster's id; with a run, that run of this cluster.

    Raises:
        PipelineProblem: there is no such, or several; names those that there are.
    """
    runs = records(tables, "runs", RunRecord, pc.scalar(value=True))
    if run is not None:
        return _the_run([one for one in runs if cluster in (None, one.cluster_id)], run)
    clusters = sorted(values(tables, "polls", "cluster_id", pc.scalar(value=True)))
    if cluster is None:
        if len(clusters) == 1 and not runs:
            return Subject(clusters[0])
        raise PipelineProblem(
            "say what the report is about: --run or --cluster. "
            f"{_those('Runs', _names(runs))} {_those('Clusters', clusters)}"
        )
    if cluster not in clusters:
        raise PipelineProblem(f"no cluster {cluster} in the lake. {_those('Clusters', clusters)}")
    return Subject(cluster)


def _the_run(runs: list[RunRecord], name: str) -> Subject:
    found = [one for one in runs if name == one.run_id] or [one for one in runs if name == one.run]
    if not found:
        raise PipelineProblem(f"no run {name} in the lake. {_those('Runs', _names(runs))}")
    if len(found) > 1:
        ids = _those("Say which", [one.run_id for one in found])
        raise PipelineProblem(f"{len(found)} runs are called {name}. {ids}")
    return Subject(found[0].cluster_id, found[0])


def _names(runs: list[RunRecord]) -> list[str]:
    return sorted({one.run for one in runs})


def _those(what: str, names: list[str]) -> str:
    if not names:
        return f"{what}: none."
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}: {', '.join(names[:_MOST_NAMED])}{more}."
