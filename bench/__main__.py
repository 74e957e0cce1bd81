"""`python -m bench [PART ...]`: run all benchmarks, or the named ones."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from bench import (
    commits,
    disturbing,
    keys,
    lines,
    listing,
    living,
    planning,
    plans,
    polling,
    promising,
    reassigning,
    recording,
    showing,
    simulating,
    single_nights,
    small,
    snapshots,
    spanning,
    starting,
)
from bench.clusters import lab_with_a_dead_broker
from bench.forecast import ablation as forecast_ablation
from bench.forecast import before_start as forecast_before_start
from bench.forecast import plans as forecast_plans
from bench.forecast import record as forecast_record
from bench.forecast import report as forecast_report
from bench.objective import latency
from bench.objective import real as objective_real
from bench.objective import simulated as objective
from bench.peers import run as peers
from bench.pipeline import engines, following, what_if, what_if_real
from bench.pipeline import from_recordings as pipeline
from bench.pipeline import starting as pipeline_starting
from bench.rehearsal import large as rehearsal_large
from bench.rehearsal import run as rehearsal
from ktui.lab.layout import Lab

ALONE: dict[str, Callable[[], None]] = {
    "keys": keys.run,
    "live": living.run,
    "line": lines.run,
    "start": starting.run,
    "simulate": simulating.run,
    "plan": plans.run,
    "make-plans": planning.run,
    "snapshot": snapshots.run,
    "peers": peers.run,
    "span": spanning.run,
    "disturb": disturbing.run,
    "commits": commits.run,
    "latency": latency.run,
    "small": small.run,
    "promise": promising.run,
    "objective": objective.run,
    "objective-real": objective_real.run,
    "record": recording.run,
    "what-if": what_if.run,
    "pipeline-start": pipeline_starting.run,
    "forecast": forecast_report.run,
}
ON_DEMAND: dict[str, Callable[[], None]] = {
    "forecast-ablate": forecast_ablation.run,
    "forecast-before-start": forecast_before_start.run,
    "forecast-plans": forecast_plans.run,
    "forecast-record": forecast_record.run,
    "pipeline": pipeline.run,
    "pipeline-engines": engines.run,
    "pipeline-follow": following.run,
    "rehearse": rehearsal.run,
    "rehearse-large": rehearsal_large.run,
    "single-nights": single_nights.run,
    "what-if-real": what_if_real.run,
}
"""The parts that run only if they are named: they take long, or replace what others measure."""
ON_A_CLUSTER: dict[str, Callable[[Lab], None]] = {
    "list": listing.run,
    "poll": polling.run,
    "reassign": reassigning.run,
    "show": showing.run,
}
PARTS = (*ALONE, *ON_A_CLUSTER)


def main() -> None:
    """Run the benchmarks named on the command line, or all. SIGTERM takes their labs down, too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = sys.argv[1:] or PARTS
    alone = ALONE | ON_DEMAND
    if unknown := set(chosen) - {*PARTS, *ON_DEMAND}:
        known = ", ".join((*PARTS, *ON_DEMAND))
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}. Choose from {known}")
    for part in alone.keys() & set(chosen):
        alone[part]()
    if on_a_cluster := [part for part in ON_A_CLUSTER if part in chosen]:
        with lab_with_a_dead_broker() as lab:
            for part in on_a_cluster:
                ON_A_CLUSTER[part](lab)


main()
