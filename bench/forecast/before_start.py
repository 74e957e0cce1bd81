"""What a check says of a run before its start, against what the real run then took.

Each run of a frozen lab is checked with what the runs of the lab before it have shown, as
`ktui plan check` finds it in the state directory, as if nothing were known, and as checks were made
before ktui learnt from runs. Left out are the first run of a lab, and runs in which something
happened that nobody could know of: a broker died, the throttle was changed on the way, or the run
was stopped. These still count as earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import NamedTuple

from bench.forecast.moments import Watch
from bench.forecast.real_runs import Machine
from bench.forecast.stored import StoredRun, real, together
from bench.timing import percentile
from ktui.cluster.broker import Broker
from ktui.cluster.partition import PartitionState, Replica
from ktui.execution.forecast.earlier_runs import LAST
from ktui.execution.run.events import JournalEntry, Owned, decode
from ktui.execution.run.run import Run
from ktui.execution.time_left.forecast import TimeLeftForecast
from ktui.pipeline.forecast.replay import EtaReplay
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PreviewBase
from ktui.quantities import Rate
from ktui.recording.segments import RunLine, from_wall_ms
from ktui.speed.answer import HowLong, basis_text, span_text
from ktui.speed.shown import SpeedShown, prior_of

FLAT = Rate(50_000_000)
"""Checks used to say that each broker takes in 50 MB/s over all its copies, or its throttle."""
_NO_FORECASTS_MS = 10**12


class Checked(NamedTuple):
    """A run, and what checks said of it before its start."""

    stored: StoredRun
    run: Run
    """As it was at its start."""
    took_s: float
    flat: HowLong
    """By the flat rate of earlier versions."""
    assumed: HowLong
    """As if nothing were known."""
    known: HowLong
    """With the runs of the lab before it."""

    def error(self, said: HowLong) -> float:
        """Return |said - took| / took."""
        return abs(said.time_s.middle / self.took_s - 1)

    def contains(self, said: HowLong) -> bool:
        """Whether the range contains what the run took, to a second."""
        return said.time_s.low - 1 <= self.took_s <= said.time_s.high + 1


def checks(runs: Sequence[StoredRun]) -> Iterator[Checked]:
    """Yield the checks of one lab's runs.

    Args:
        runs: the runs of the lab, in the order of time.
    """
    shown: list[SpeedShown] = []
    for stored in runs:
        lived = _lived(stored)
        took_s = lived.took_s
        if shown and took_s is not None:
            yield Checked(stored, lived.at_start, took_s, *_said(lived.at_start, shown[-LAST:]))
        if lived.shown is not None:
            shown.append(lived.shown)


def run() -> None:
    """Print the checks of all frozen real runs, and how far off they were."""
    frozen = together("real runs, frozen", (real(machine, frozen=True) for machine in Machine))
    found = [checked for runs in frozen.clusters.values() for checked in checks(runs)]
    if not found:
        raise SystemExit("not measured: no run ended undisturbed")
    print("| lab | run | took | flat | nothing known | earlier runs known |\n" + "|---" * 6 + "|")
    for each in found:
        took, flat, assumed = (
            f"{seconds:.0f} s"
            for seconds in (each.took_s, each.flat.time_s.middle, each.assumed.time_s.middle)
        )
        said = f"{span_text(each.known.time_s)}, {basis_text(each.known.basis)}"
        run = f"{each.stored.cluster} | {each.stored.name}"
        print(f"| {run} | {took} | {flat} | {assumed} | {said} |")
    print(
        "\n| runs | flat | nothing known | earlier runs known | in the range of these two |\n"
        + "|---" * 5
        + "|"
    )
    throttled = [each for each in found if each.run.throttles]
    free = [each for each in found if not each.run.throttles]
    fitting = [each for each in found if not each.known.basis.misfits]
    _print_errors("all", found)
    _print_errors("like earlier ones", fitting)
    _print_errors("with a throttle", throttled)
    _print_errors("without one", free)


def _print_errors(title: str, found: Sequence[Checked]) -> None:
    figures = []
    for said in ("flat", "assumed", "known"):
        errors = [each.error(getattr(each, said)) for each in found]
        figures.append(f"{median(errors):.0%}, {percentile(errors, 0.9):.0%}")
    inside = [
        sum(each.contains(getattr(each, said)) for each in found) / len(found)
        for said in ("assumed", "known")
    ]
    ranges = ", ".join(f"{share:.0%}" for share in inside)
    print(f"| {title} ({len(found)}) | {' | '.join(figures)} | {ranges} |")


class _Lived(NamedTuple):
    """A run from its start to its end."""

    at_start: Run
    took_s: float | None
    """From its start to the end of its last partition; None for one that was disturbed."""
    shown: SpeedShown | None


def _lived(stored: StoredRun) -> _Lived:
    replayed, watch = EtaReplay(every_ms=_NO_FORECASTS_MS), Watch()
    events = list(stored.events())
    for _ in replayed.replay(watch.watch(events)):
        pass  # only what is learnt counts
    (state,) = replayed.state.runs.values()
    seen = replayed.progress.last
    if seen is None:
        raise SystemExit(f"not measured: no polls in {stored.folder}")
    learnt = TimeLeftForecast(state.run, None, state.estimate.forecast)
    lines = [each for each in events if isinstance(each, RunLine)]
    at_start, began = _start(stored.name, lines)
    ended_t, disturbed = watch.outcome.ended_t, watch.outcome.disturbed_t
    took_s = None
    if ended_t is not None and not disturbed:
        took_s = (from_wall_ms(ended_t) - began).total_seconds()
    return _Lived(at_start, took_s, learnt.shown(seen.at, len(seen.brokers)))


def _start(name: str, lines: Sequence[RunLine]) -> tuple[Run, datetime]:
    """Return a run as it was when its first engine took it up, and when that was."""
    run = Run(name)
    for line in lines:
        entry = JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event)))
        if isinstance(entry.event, Owned):
            return run, entry.at
        run.apply(entry)
    raise SystemExit(f"not measured: nobody has taken up {name}")


def _said(run: Run, shown: Sequence[SpeedShown]) -> tuple[HowLong, HowLong, HowLong]:
    """Return what checks say: at the flat rate, with nothing known, and with earlier runs."""
    tracks = [track.planned for track in run.tracks.values()]
    plan = Plan(tuple(PartitionTarget(one.topic, one.partition, one.target) for one in tracks))
    brokers = {broker for one in tracks for broker in (*one.original, *one.target)}
    snapshot = ClusterSnapshot(
        partitions={
            one.tp: PartitionState(one.tp, one.topic_id, one.original, one.original, one.leader)
            for one in tracks
        },
        brokers={broker: Broker(broker) for broker in brokers},
        sizes={Replica(one.tp, broker): one.size for one in tracks for broker in one.original},
    )
    terms = Terms(limits=run.limits, throttle=run.throttled.in_force)
    nothing = ClusterFacts(seen=snapshot)
    earlier = ClusterFacts(seen=snapshot, prior=prior_of(shown))
    flat, assumed, known = (
        PreviewBase(plan, facts, rate=rate).under(terms).how_long
        for facts, rate in ((nothing, FLAT), (nothing, None), (earlier, None))
    )
    if flat is None or assumed is None or known is None:
        raise SystemExit(f"not measured: not all sizes of {run.name} are known")
    return flat, assumed, known
