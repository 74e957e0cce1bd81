"""A lake of drains on three clusters, with forecasts, simulations and insights."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import Row, SparkSession

from ktui.execution.journal.commands import SetThrottle
from ktui.insights.insights import NAME, insights_in
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions
from ktui.pipeline.lake.schema import Table
from ktui.pipeline.run.run import PipelineOutcome, PipelineRequest, run
from ktui.pipeline.what_if.play import GridCell
from ktui.planning.throttle_rates import parse_throttle_rates
from support.pipeline.lake_rows import lake_table
from support.recordings.drained_recordings import MB, drained, driven

SIZES = [300 * MB, 500 * MB, 400 * MB, 200 * MB, 600 * MB, 350 * MB]
SMALL_SIZES = [30 * MB, 50 * MB, 40 * MB, 20 * MB, 60 * MB, 35 * MB]
_FOUR = Limits(partitions=4, replicas=1)
CELLS = (
    GridCell(Limits(partitions=1, replicas=1)),
    GridCell(_FOUR),
    GridCell(_FOUR, parse_throttle_rates("10MB")),
    GridCell(_FOUR, parse_throttle_rates("3MB")),
)
_CHANGED = {25.0: "1MB", 80.0: "3MB"}
"""The throttle of cluster c, by the second at which it is changed."""


class DrainedLake:
    """A lake in three states, each made by one run of the pipeline.

    `first` has two drains of cluster a, an hour apart, a small one of b, one of c, of which nothing
    was copied without a throttle, and one of d, whose rates two promises chose; `recorded` has
    their recordings. Then its file of insights was lost, and a run made it again. `lake` is after a
    further drain of b, whose first recording is gone by then, with a window for all runs.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._recordings, self.lake = spark, folder / "recordings", folder / "lake"
        self._drain("two", "a", SIZES, partitions=2)
        self._drain("three", "a", SIZES, partitions=3, hours=1)
        self._drain("alone", "b", SIZES[:2])
        drained(
            self._recordings,
            sizes=SMALL_SIZES,
            limits=_FOUR,
            name="throttled",
            cluster="c",
            throttle=parse_throttle_rates("4MB"),
            asked={at: SetThrottle(parse_throttle_rates(rate)) for at, rate in _CHANGED.items()},
        )
        driven(self._recordings, within_s=60, sizes=SMALL_SIZES, name="driven", cluster="d")
        self.outcome = self._run(DerivedOptions(CELLS))
        self.first, self.recorded = folder / "first", folder / "recorded first"
        shutil.copytree(self.lake, self.first)
        shutil.copytree(self._recordings, self.recorded)

        (self.lake / NAME).unlink()
        self.nothing_new = self._run(DerivedOptions(CELLS))
        self.made_again = insights_in(self.lake)

        for segment in (self._recordings / "alone").rglob("*.gz"):
            segment.unlink()
        self._drain("later", "b", SIZES[:2], hours=2)
        self.later = self._run(DerivedOptions(CELLS, window_s=3600.0, anew=True))

    def _drain(
        self,
        name: str,
        cluster: str,
        sizes: list[int],
        *,
        partitions: int | None = None,
        hours: float = 0.0,
    ) -> None:
        limits = Limits(replicas=1, partitions=partitions)
        drained(
            self._recordings, sizes=sizes, limits=limits, name=name, cluster=cluster, hours=hours
        )

    def _run(self, asked: DerivedOptions) -> PipelineOutcome:
        request = PipelineRequest((str(self._recordings),), str(self.lake), asked=asked)
        return run(self._spark, request)


def records_of(lake: Path, table: Table, **where: str) -> list[Row]:
    """Return rows of a table as records, chosen by values of some columns."""
    rows = lake_table(lake, table).to_pylist()
    return [Row(**row) for row in rows if all(row[name] == value for name, value in where.items())]
