"""Record all runs again: `python -m bench forecast-record`.

Or single clusters: `python -m bench.forecast.record train-1 simulated-3`. Those of real runs are
redacted.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.forecast.real_runs import (
    BROKERS,
    CORE_SHARE,
    LABS,
    Act,
    LabRuns,
    Machine,
    RealRun,
    placements,
    topics,
)
from bench.forecast.simulated import FROZEN, TRAINING, cluster_name, record_cluster
from bench.forecast.stored import RECORDINGS
from bench.producing import Load, producer
from bench.real.lab import asked, create_filled, in_sync, ktui, lab_of, leave, moves, until
from bench.real.processor_shares import ProcessorShares, processor_shares
from ktui.execution.host.state_dir import StateDir
from ktui.lab import control
from ktui.lab.layout import Lab
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.recording.segments import files_under, segment_path

_OUTAGE_S = 8.0
_LEFT_AFTER_S = 25.0
"""A run that never ends is left so long after its broker's death."""
_LONGEST_S, _LEFT = 400.0, 130


def run(names: Sequence[str] = ()) -> None:
    """Record the named clusters, or all of them, in the place of earlier recordings.

    Raises:
        SystemExit: there is no such cluster, or a run was not recorded.
    """
    seeds = {cluster_name(seed): seed for seed in (*TRAINING, *FROZEN)}
    if unknown := set(names) - seeds.keys() - {lab.name for lab in LABS}:
        sys.exit(f"no such cluster: {', '.join(sorted(unknown))}. See LABS and TRAINING, FROZEN")
    for number, runs_of in enumerate(LABS):
        if not names or runs_of.name in names:
            _record(runs_of, number)
    for name, seed in seeds.items():
        if not names or name in names:
            _simulate(name, seed)


def _simulate(name: str, seed: int) -> None:
    to = RECORDINGS / name
    shutil.rmtree(to, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        record_cluster(seed, Path(folder))
        for made in sorted(Path(folder).iterdir()):
            _copy(made, to / made.name)
    print(f"{name}: {len(list(to.iterdir()))} runs", flush=True)


class _Place(NamedTuple):
    """Where runs are carried out."""

    lab: Lab
    folder: Path
    """Has the files of the lab and of ktui."""
    shares: ProcessorShares


def _record(of: LabRuns, number: int) -> None:
    rng, to = random.Random(of.seed), RECORDINGS / of.name  # noqa: S311 - a repeatable choice
    shutil.rmtree(to, ignore_errors=True)
    share = CORE_SHARE if of.machine is Machine.SHARES else None
    with processor_shares(share) as shares, lab_of(of.version, BROKERS) as (lab, folder):
        place = _Place(lab, folder, shares)
        placed: dict[str, list[tuple[int, ...]]] = {}
        for topic in topics(rng, of):
            first = placements(rng, [()] * len(topic.sizes))
            placed[topic.name] = first
            create_filled(lab, topic, first)
        for nth, real in enumerate(of.runs(rng, number), start=1):
            target = placements(rng, placed[real.topic])
            until(lambda: in_sync(lab, real.topic), "every replica is in sync")  # noqa: B023
            shares.limit(lab)
            took_s = _carry_out(place, real, target, rng.randrange(1, BROKERS + 1))
            _keep(folder, real, to / f"{nth}-{real.name}")
            placed[real.topic] = target
            print(f"{of.name}: {real.name} took {took_s:.0f} s", flush=True)


def _carry_out(place: _Place, real: RealRun, target: Sequence[Sequence[int]], victim: int) -> float:
    """Carry out a run, and return the seconds that it took."""
    lab, folder = place.lab, place.folder
    plan = folder / f"{real.name}.json"
    parts = [PartitionTarget(real.topic, n, tuple(to)) for n, to in enumerate(target)]
    plan.write_text(plan_as_json(Plan(tuple(parts))))
    cluster = ["--bootstrap-server", lab.bootstrap_servers]
    argv = ktui(folder, "start", str(plan), "--headless", *cluster, *real.options)
    load = Load(real.written)
    with ExitStack() as stack:
        if real.written:
            writing = producer(lab.bootstrap_servers, real.topic, len(target), load)
            stack.callback(stack.enter_context(writing).communicate)
        began_s = time.monotonic()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as mover:
            try:
                _act(place, real, mover, victim)
                output = _output(mover)
            finally:
                mover.kill()
        took_s = time.monotonic() - began_s
    codes = {Act.STOP: (0, 3)}.get(real.act, (0, _LEFT))
    if mover.returncode not in codes:
        sys.exit(f"not recorded: {real.name} ended with {mover.returncode}: {output.decode()}")
    return took_s


def _output(mover: subprocess.Popen[bytes]) -> bytes:
    """Return what a run printed; one that takes too long is left, and never ends."""
    try:
        output, _ = mover.communicate(timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        leave(mover)
        output, _ = mover.communicate()
    return output


def _act(place: _Place, real: RealRun, mover: subprocess.Popen[bytes], victim: int) -> None:
    if real.act is Act.NOTHING:
        return
    lab, folder = place.lab, place.folder
    until(lambda: moves(lab), "a move begins")
    time.sleep(real.at_s)
    if mover.poll() is not None:
        sys.exit(f"not recorded: {real.name} was over before anything happened to it")
    if real.act is Act.THROTTLE:
        asked(ktui(folder, "throttle", real.name, real.throttle))
    elif real.act is Act.STOP:
        asked(ktui(folder, "cancel", real.name, "--stop", "--topic", real.topic))
    else:
        control.kill(lab, victim)
        time.sleep(_OUTAGE_S if real.act is Act.OUTAGE else _LEFT_AFTER_S)
        if real.act is Act.OUTAGE:
            control.start(lab, victim)
            place.shares.limit(lab)
            return
        leave(mover)


def _keep(folder: Path, real: RealRun, to: Path) -> None:
    """Keep the recording of a run, without names."""
    made, recording = folder / f"redacted-{real.name}", StateDir(folder / "state").run(real.name)
    copy = ("record", "--from", str(recording.recording), "--redact", "--to", str(made))
    asked(ktui(folder, *copy))
    _copy(made, to)


def _copy(recording: Path, to: Path) -> None:
    """Copy the segments of a recording, also one that was not closed."""
    to.mkdir(parents=True)
    for number, file in enumerate(files_under(recording)):
        shutil.copyfile(file, segment_path(to, number))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run(sys.argv[1:])
