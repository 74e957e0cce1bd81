"""Make docs/example-report.html: three runs on a simulated cluster, recorded and reported.

    PYTHONPATH=tests python scripts/example_report.py [FILE]

An engine carries out the runs in virtual time, so they are the same each time. Then `ktui pipeline
run` makes a lake of their recordings, for which it needs Java. A few minutes of work.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import (
    AddNote,
    CancelMoves,
    Command,
    Continue,
    Pause,
    SetLimits,
    SetThrottle,
)
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits
from ktui.pipeline.report.lake import ArrowLake, Provenance, choose_subject, trace_provenance
from ktui.pipeline.report.load import load_facts
from ktui.pipeline.report.page import page
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import (
    GIB,
    BrokerSpec,
    ClusterSpec,
    Kill,
    OutsideEvent,
    ScheduledEvent,
    Start,
    Tide,
    TopicSpec,
)
from support.recordings.drained_recordings import RecordedRun
from support.runs.engine_runs import Replicas

PAGE = Path(__file__).parents[1] / "docs" / "example-report.html"
MB = 1_000_000
DRAINED, TARGETS = 3, (4, 5, 6)
TOPICS = {"orders": (12, 4 * GIB), "clicks": (6, 9 * GIB), "payments": (6, 2 * GIB)}
"""The number of partitions of each topic, and the size of each."""

_CALLED_OFF = CancelMoves(CancelKind.ROLLBACK, partitions=(TopicPartition("clicks", 5),))
REPORTED = "drain-broker-3"
ASKED: Mapping[float, Command] = {
    120.0: AddNote("the evening's peak is over: the throttle may go up"),
    125.0: SetThrottle(parse_throttle_rates("40MB")),
    420.0: _CALLED_OFF,
    600.0: Pause(),
    720.0: Continue(),
    1_080.0: SetLimits({"partitions": 8}),
}
"""What the operator of the reported run asks for, by the second of the run."""
HAPPENS: Mapping[float, OutsideEvent] = {830.0: Kill(5), 930.0: Start(5)}
"""What happens to the cluster in the meantime, by the second of the run."""

_LINE = '<p class="dim">Partition reassignments, reported by ktui</p>\n'
_ORIGIN = (
    '<p class="note">An example, made by <code>scripts/example_report.py</code> from a simulated'
    " cluster of six brokers: no machine has these figures. Broker 3 is drained. The operator"
    " raises the throttle, cancels one partition, pauses and goes on, and raises a limit; broker 5"
    " fails for a while. Two earlier drains on the cluster are what other limits are learnt"
    " from.</p>\n"
)


def main(path: Path) -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory(prefix="ktui-example-") as work:
        folder = Path(work)
        recordings, lake = folder / "recordings", folder / "lake"
        drain(recordings, "drain-before", Limits(partitions=4, replicas=1), "20MB")
        drain(recordings, "drain-again", Limits(partitions=8, replicas=1), "40MB", hours=4)
        limits = Limits(partitions=4, replicas=1)
        drain(recordings, REPORTED, limits, "20MB", hours=8, asked=ASKED, happens=HAPPENS)
        words = ("--recordings", str(recordings), "--lake", str(lake), "--state-dir", str(folder))
        subprocess.run(  # noqa: S603 - ktui itself
            [sys.executable, "-m", "ktui", "pipeline", "run", "--what-if", *words], check=True
        )
        path.write_text(_reported(lake, folder), encoding="utf-8")


def _reported(place: Path, folder: Path) -> str:
    lake = ArrowLake.open(str(place))
    subject = choose_subject(lake, REPORTED, None)
    facts = load_facts(lake, subject)
    sources = _relative(trace_provenance(lake, str(place), subject, facts), folder)
    before, line, after = page(facts, sources).partition(_LINE)
    if not line:
        raise SystemExit(f"The page has no line to put the origin after: {_LINE}")
    return f"{before}{line}{_ORIGIN}{after}"


def _relative(sources: Provenance, folder: Path) -> Provenance:
    """Name the sources by their place in the folder of this script's work, which is gone later."""
    inside = f"{folder}/"
    return msgspec.structs.replace(
        sources,
        lake=sources.lake.removeprefix(inside),
        segments=tuple(
            msgspec.structs.replace(each, path=each.path.removeprefix(inside))
            for each in sources.segments
        ),
    )


def drain(
    recordings: Path,
    name: str,
    limits: Limits,
    throttle: str,
    *,
    hours: float = 0.0,
    asked: Mapping[float, Command] | None = None,
    happens: Mapping[float, OutsideEvent] | None = None,
) -> None:
    """Drain a broker of a new cluster, and record the run."""
    folder = recordings / name
    folder.mkdir(parents=True)
    clock = VirtualClock(leaping=True)
    clock.pass_time(3_600 * hours)
    topics = tuple(_topics())
    cluster = SimulatedCluster(_cluster(topics), clock)
    for at_s, event in (happens or {}).items():
        cluster.schedule(ScheduledEvent(at_s, event))
    run = RecordedRun(
        cluster,
        folder,
        dict(_plan(topics)),
        limits,
        throttle=parse_throttle_rates(throttle),
        poll_s=2.0,
    )
    run.name, run.asked = name, asked or {}
    run.recorder = Recorder(folder, clock, program=f"ktui {__version__}")
    try:
        asyncio.run(run.to_its_end())
    finally:
        run.recorder.close()


def _cluster(topics: tuple[TopicSpec, ...]) -> ClusterSpec:
    return ClusterSpec(
        name="example",
        brokers=tuple(
            BrokerSpec(id=broker, rack="abc"[broker % 3], net_in=80.0 * MB)
            for broker in range(1, 7)
        ),
        topics=topics,
        tide=Tide(swing=0.2, period_s=1_800.0, noise=0.15),
        auto_leader_rebalance=False,
    )


def _topics() -> Iterator[TopicSpec]:
    for name, (count, size) in TOPICS.items():
        replicas = tuple(_in_order((1, 2, DRAINED), first) for first in range(count))
        yield TopicSpec(name=name, replicas=replicas, bytes_each=size, inbound=300_000.0)


def _in_order(brokers: Replicas, first: int) -> Replicas:
    at = first % len(brokers)
    return (*brokers[at:], *brokers[:at])


def _plan(topics: Sequence[TopicSpec]) -> Iterator[tuple[TopicPartition, Replicas]]:
    """Yield the replicas after the drain: each partition gets one of `TARGETS` in turn."""
    partitions = [(topic.name, n, at) for topic in topics for n, at in enumerate(topic.replicas)]
    for place, (topic, number, replicas) in enumerate(partitions):
        new = TARGETS[place % len(TARGETS)]
        target = tuple(new if broker == DRAINED else broker for broker in replicas)
        yield TopicPartition(topic, number), target


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PAGE)
