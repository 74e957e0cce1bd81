"""`python -m support.chaos.soak [FIRST] [COUNT]`: many seeds on all processors, one line each.

A seed and a commit reproduce what happened. The soak fails if a kind of fault never fired, or if a
kind of change between a read and its request's effect never happened.
"""

import asyncio
import logging
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import msgspec

from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from support.chaos.faults import Fault
from support.chaos.judge import GIVEN_BACK, LAST, MOVES, ON_A_RESUME, ON_MORE, OTHERS, TAKEN_OVER
from support.chaos.run import ChaosRun
from support.runs.engine_runs import Replicas
from support.runs.witnessed import facts


def check_end(run: ChaosRun) -> None:
    """Check that partitions have ended or report what they wait for, and settings are restored."""
    for each in run.runs:
        each.judge.check()
        outcome = each.folded
        assert facts(Run("run").fold(each.entries())) == facts(outcome)
        _check_where_partitions_ended(each, outcome)
        if not outcome.ended:
            now_s = each.clock.monotonic()
            assert each.at_rest, f"it has not ended after {now_s:.0f} s, and is not idle"
            if not each.turned_away:
                _check_what_it_waits_for(each, outcome)
    run.check_settings()


def _check_where_partitions_ended(run: ChaosRun, outcome: Run) -> None:
    """Check each state by the controller's record, where nobody else has had a hand in it."""
    for track in outcome.tracks.values():
        foreign, deleted = track.tp in run.foreign(), track.tp.topic in run.deleted()
        if track.state is State.TOPIC_GONE:
            assert deleted, track
        elif track.state is State.CHANGED_ELSEWHERE:
            assert foreign, track
        elif track.state is State.FAILED:
            assert "refused" in track.reason
        elif track.state.ended and not (foreign or deleted):
            known = run.cluster.controller.get(track.tp)
            assert known is not None
            assert not known.reassigning, f"it moves still: {track}"
            _check_replicas(track, known.replicas)


def _check_replicas(track: Track, replicas: Replicas) -> None:
    match track.state:
        case State.DONE:
            assert replicas == track.planned.target, track
        case State.ROLLED_BACK:
            assert replicas == track.original, track
        case State.STOPPED if not track.begun:
            assert replicas == track.planned.original, track
        case State.STOPPED if track.cancel is CancelKind.TRIM:
            assert len(replicas) <= max(len(track.original), len(track.planned.target)), track
        case _:
            pass


def _check_what_it_waits_for(run: ChaosRun, outcome: Run) -> None:
    """Check that an idle run is idle for a reason: nothing that could proceed stands still.

    All machines are up again by then, and an operator has lifted every pause.
    """
    controller, pauses = run.cluster.controller, outcome.pauses
    asked = {PauseOrigin.FAILURE} if outcome.options.stop_on_failure else set()
    paused = {*pauses.whole} - asked or pauses.topics or pauses.partitions
    assert not paused, f"what an operator has lifted is paused: {pauses}"
    left = [track for track in outcome.tracks.values() if not track.state.ended]
    assert left, f"all is over, and it does not end: its throttle is {outcome.throttled.ours}"
    assert not outcome.gate.shut or run.gated_for_good, f"a gate is shut: {outcome.gate.reason}"
    for track in left:
        if track.step is not None:
            known = controller.get(track.tp)
            assert track.reason, f"{track.tp} is in flight without a reason: {known}"
    assert not run.idle, f"stands still: {run.idle}"


COUNT = 2_000
_REQUESTS = (ON_A_RESUME, ON_MORE, TAKEN_OVER, GIVEN_BACK)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one seed."""

    seed: int
    words: str
    problem: str = ""
    simulated_s: float = 0.0
    partitions: int = 0
    fired: dict[Fault, int] = {}
    changed: dict[str, int] = {}
    requests: dict[str, int] = {}


def played(seed: int) -> Outcome:
    """Execute one seed's run to its end, and check its promises."""
    with tempfile.TemporaryDirectory() as folder:
        run = ChaosRun(seed, Path(folder))
        problem = ""
        try:
            asyncio.run(run.to_its_end())
            check_end(run)
        except Exception:  # noqa: BLE001 - it is reported with its seed
            problem = traceback.format_exc()
    return outcome_of(seed, run, problem)


def outcome_of(seed: int, run: ChaosRun, problem: str = "") -> Outcome:
    return Outcome(
        seed,
        run.words,
        problem,
        run.clock.monotonic(),
        sum(len(each.targets) for each in run.runs),
        dict(run.faults.fired),
        dict(sum((each.judge.changed_since for each in run.runs), Counter[str]())),
        dict(sum((each.judge.requests for each in run.runs), Counter[str]())),
    )


class Tally:
    """What happened in all seeds together."""

    def __init__(self) -> None:
        self.fired = Counter[Fault]()
        self.changed = Counter[str]()
        self.requests = Counter[str]()

    def add(self, outcome: Outcome) -> None:
        self.fired.update(outcome.fired)
        self.changed.update(outcome.changed)
        self.requests.update(outcome.requests)

    @property
    def never(self) -> list[str]:
        """The kinds of fault, of request, and of change before a request, that no seed had."""
        return [
            *(fault.value for fault in Fault if not self.fired[fault]),
            *(what for what in (MOVES, LAST, OTHERS) if not self.changed[what]),
            *(
                what
                for what in (ON_A_RESUME, ON_MORE, TAKEN_OVER, GIVEN_BACK)
                if not self.requests[what]
            ),
        ]


def main() -> int:
    first, count = [*map(int, sys.argv[1:]), 0, COUNT][:2] if sys.argv[1:] else (0, COUNT)
    tally = Tally()
    failed: list[Outcome] = []
    simulated_s, partitions = 0.0, 0
    with multiprocessing.Pool(os.cpu_count(), logging.disable, [logging.CRITICAL]) as pool:
        for outcome in pool.imap_unordered(played, range(first, first + count)):
            print(f"seed {outcome.seed}: {outcome.words}", flush=True)
            if outcome.problem:
                failed.append(outcome)
                print(outcome.problem, flush=True)
            tally.add(outcome)
            simulated_s += outcome.simulated_s
            partitions += outcome.partitions
    print(f"{count} seeds, {partitions} partitions, {simulated_s / 3600:.0f} simulated hours")
    print("fired:", ", ".join(f"{fault.value} {tally.fired[fault]}" for fault in Fault))
    print("changed between a read and its request's effect:", dict(tally.changed) or "nothing")
    print("sent:", dict(tally.requests))
    silent = tally.never if count >= COUNT else []
    if silent:
        print("never fired:", ", ".join(silent))
    print("failed:", ", ".join(str(outcome.seed) for outcome in failed) or "none")
    return 1 if failed or silent else 0


if __name__ == "__main__":
    sys.exit(main())
