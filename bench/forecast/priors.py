"""The rates of earlier runs of a cluster, fitted as the pipeline fits them for a new run.

The pipeline needs Spark for its tables; the fit itself is the same code.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import quantiles

from bench.forecast.stored import StoredRun
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Replica
from ktui.insights import Prior, Spread
from ktui.pipeline.forecast.model import InflowSample, RecordedCopy, RunLoads, fit
from ktui.progress.flows import Counted
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.segments import RunLine

_STEP_S = 1.0
_DECILES = 10


def forward_chained(runs: Iterable[StoredRun]) -> Iterator[tuple[StoredRun, Prior | None]]:
    """Yield each run of a cluster with the rates of those before it: never its own or later ones.

    Args:
        runs: the runs of one cluster, in the order of time.
    """
    earlier = EarlierRuns()
    for run in runs:
        yield run, earlier.prior
        earlier.add(run)


class EarlierRuns:
    """The runs of one cluster, up to the one that is to be forecast."""

    def __init__(self) -> None:
        self._samples: list[InflowSample] = []
        self._runs = 0

    def add(self, stored: StoredRun) -> None:
        """Add the next run."""
        self._runs += 1
        progress = Progress()
        for event in stored.events():
            if not isinstance(event, RunLine):
                before, progress = progress.flows.counted, fold(progress, event.observation)
                self._sample(stored.name, before, progress.flows.counted, event.observation)

    @property
    def prior(self) -> Prior | None:
        """Their rates; None where nothing was copied."""
        model = fit(self._samples, ())
        if model is None:
            return None
        rates = [each.bytes_s / each.at_once for each in self._samples if each.bytes > 0]
        cuts = quantiles([*rates, rates[0]], n=_DECILES, method="inclusive")
        spread = Spread(cuts[0], cuts[4], cuts[-1], len(rates))
        return Prior(replica_bytes_s=spread, step_s=_STEP_S, curve=model.curve, runs=self._runs)

    def _sample(
        self,
        run: str,
        before: Mapping[Replica, Counted],
        now: Mapping[Replica, Counted],
        seen: Observation,
    ) -> None:
        """Sample what each broker has copied since the poll before."""
        at_once, copied = Counter[int](), defaultdict[int, float](float)
        going: list[RecordedCopy] = []
        seconds: dict[int, float] = {}
        for replica, counted in now.items():
            was = before.get(replica)
            if was is None or counted.each is None or counted.value < was.value:
                continue
            if counted.by_offsets is not was.by_offsets or counted.at_s <= was.at_s:
                continue
            at_once[replica.broker] += counted.value > was.value
            leader = seen.partitions[replica.tp].leader if replica.tp in seen.partitions else None
            if counted.value > was.value and leader is not None:
                going.append(RecordedCopy((leader, replica.broker), 0.0, 1.0))
            copied[replica.broker] += (counted.value - was.value) * counted.each
            seconds[replica.broker] = counted.at_s - was.at_s
        loads = RunLoads(going)
        for broker, count in at_once.items():
            config = seen.broker_configs.get(broker)
            throttle = None if config is None else config.follower_throttle_rate
            if count or throttle is not None:
                self._samples.append(
                    InflowSample(
                        run,
                        broker,
                        count,
                        seconds[broker],
                        copied[broker],
                        throttle,
                        loads.of(count),
                    )
                )
