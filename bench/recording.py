"""The cost of recording: bytes per partition and poll, and time relative to the fold of a poll."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from bench.checks import check_count
from ktui.cluster.broker import Broker
from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.codec import Encoder
from ktui.recording.reading import PlayedPoll, find_sessions, play_session
from ktui.recording.recorder import Recorder
from ktui.recording.segments import encode

START = datetime(2026, 1, 1, tzinfo=UTC)
LEADER, KEPT, NEW, OLD = 1, 2, 3, 4
SIZES_EVERY = 5
"""Polls between two reads of the sizes on disk."""


def run() -> None:
    """Print the figures. Every log end grows by an irregular amount at every poll."""
    for moving, polls in ((100, 900), (1_000, 300), (10_000, 40)):
        _measure(moving, polls)


def _measure(moving: int, polls: int) -> None:
    progress, encoder, text_bytes = Progress(), Encoder(), 0
    looks, folds = [], []
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as name:
        recorder = Recorder(Path(name), SystemClock(), program="bench")
        for number, seen in enumerate(moving_polls(moving, polls)):
            started = time.process_time()
            recorder.poll(seen)
            looks.append(time.process_time() - started)
            started = time.process_time()
            progress = fold(progress, seen)
            folds.append(time.process_time() - started)
            text_bytes += len(encode(encoder.poll(seen, seq=number, whole=number % 300 == 0)))
        recorder.close()
        if recorder.problem is not None:
            raise SystemExit(f"not measured: {recorder.problem}")
        started = time.process_time()
        read = sum(
            len(each.observation.partitions)
            for each in play_session(find_sessions(Path(name))[0])
            if isinstance(each, PlayedPoll)
        )
        read_s = time.process_time() - started
    check_count("partitions and polls read again", read, moving * polls)
    check_count("timelines", len(progress.timelines), moving)
    samples = moving * polls
    look_ms, fold_ms = statistics.median(looks) * 1000, statistics.median(folds) * 1000
    print(
        f"{moving:,} moving: {text_bytes / samples:.1f} bytes of text per partition and poll, "
        f"{recorder.written_bytes / samples:.1f} on disk (aim: under 60); "
        f"to record a poll {look_ms:.1f} ms, worst {max(looks) * 1000:.0f} ms, "
        f"to fold it {fold_ms:.1f} ms; "
        f"read {read / read_s:,.0f} partitions and polls per second"
    )


def moving_polls(moving: int, polls: int) -> Iterator[Observation]:
    """Yield polls of so many moving partitions, a second apart."""
    chance = Random(7)  # noqa: S311 - figures for a measurement
    names = [TopicPartition(f"orders-{n % 40:03}", n // 40) for n in range(moving)]
    partitions = {tp: _move(tp) for tp in names}
    brokers = {id_: Broker(id_, f"broker-{id_}.example", 9092) for id_ in range(1, 13)}
    ends = {Replica(tp, b): Reading(10**7, 0.0) for tp in names for b in (LEADER, NEW)}
    sizes = {Replica(tp, b): Reading(10**10, 0.0) for tp in names for b in (LEADER, NEW)}
    for number in range(polls):
        read_s = {b: number - chance.random() * 0.05 for b in brokers}
        for replica, last in ends.items():
            grown = chance.gauss(*((100, 20) if replica.broker == LEADER else (2_000, 500)))
            ends[replica] = Reading(last.value + max(0, round(grown)), read_s[replica.broker])
        if number % SIZES_EVERY == 0:
            for replica, last in sizes.items():
                grown = chance.gauss(5e6, 1e6)
                sizes[replica] = Reading(last.value + round(grown), read_s[replica.broker])
        yield Observation(
            cluster_id="bench",
            controller=1,
            brokers=brokers,
            partitions=partitions,
            ends=dict(ends),
            sizes=dict(sizes),
            at=START + timedelta(seconds=number),
            monotonic_s=float(number),
            took_s=chance.random() * 0.1,
        )


def _move(tp: TopicPartition) -> PartitionState:
    return PartitionState(
        tp,
        f"id-of-{tp.topic}",
        (NEW, LEADER, KEPT, OLD),
        (LEADER, KEPT, OLD),
        LEADER,
        leader_epoch=4,
        adding=(NEW,),
        removing=(OLD,),
    )
