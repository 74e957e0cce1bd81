"""Recommended limits put to the test on real brokers: each plan under its own limits, then theirs.

Every plan is first carried out under limits of its own. From the recordings of all of these runs
the pipeline recommends limits, to every second run those for a window. Then each plan is carried
out the other way round, with the same replicas to copy, under what is recommended to it. The time
that this takes is compared with the predicted one.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.checks import check_count
from bench.disturbing import brokers
from bench.machine import sampled
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import StepBegun, StepOver
from ktui.insights import ClusterInsights, RunAdvice, advice_options, insights_in
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, fill
from ktui.lab.layout import Lab
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.quantities import as_duration

PAIRS = 12
LEAST_ADVISED = 10
BROKERS = 5
MIB = 1024 * 1024
_THROTTLES = ("1500kB", "2MB", "1500kB", "2MB", "3MB", "none")
"""A copy takes 10 s or more under each, longer than the window of Kafka's throttles."""
WINDOW = "90s"
"""Every second run is to end within it. It is then given the gentlest limits that do."""
_LIMIT_S = 900.0
_BACK = "back"


class Pair(msgspec.Struct, frozen=True):
    """One plan, and the options under which it is carried out first."""

    name: str
    sizes: tuple[int, int]
    """Bytes of each partition with an even number, and with an odd one; one replica moves."""
    partitions: int
    options: tuple[str, ...]


class Taken(msgspec.Struct, frozen=True):
    """How long a run took."""

    seconds: float
    """From its first step to the end of its last."""
    idle: float
    """The share of the CPUs' time that was idle meanwhile."""


class Compared(msgspec.Struct, frozen=True):
    """What was recommended to a run, and how long that took."""

    advice: RunAdvice
    own: Taken
    seen: Taken

    @property
    def error(self) -> float:
        """The predicted time less the seen one, as a share of that."""
        return self.advice.predicted_s / self.seen.seconds - 1

    @property
    def within(self) -> bool:
        """Whether the run took a time of the stated range."""
        return self.advice.low_s <= self.seen.seconds <= self.advice.high_s


def run() -> None:
    """Print what was predicted and what was seen, pair by pair, and how far off that is."""
    with brokers(BROKERS) as lab, tempfile.TemporaryDirectory(prefix="ktui-bench-") as folder:
        state = Path(folder) / "state"
        own = dict(_under_their_own(lab, state))
        fastest, in_time = _insights(state, "--what-if"), _insights(state, "--window", WINDOW)
        compared = []
        for number, (pair, took) in enumerate(own.items()):
            print(f"{pair.name}: {_own(pair, took)}", flush=True)
            advice = _advice(pair, fastest, in_time, windowed=bool(number % 2))
            if advice is None:
                print("  nothing is recommended", flush=True)
                continue
            options = advice_options(advice).split()
            seen = _carried_out(lab, pair, Path(folder) / _BACK, options)
            compared.append(Compared(advice, took, seen))
            print(f"  {advice.reason}\n  {_line(compared[-1])}", flush=True)
        _print_summary(compared)
        _print_held_out(fastest)


def _under_their_own(lab: Lab, state: Path) -> Iterator[tuple[Pair, Taken]]:
    for pair in _pairs():
        _fill(lab, pair)
        taken = _carried_out(lab, pair, state, pair.options)
        print(f"{pair.name}: {_own(pair, taken)}, idle {taken.idle:.0%}", flush=True)
        yield pair, taken


def _own(pair: Pair, taken: Taken) -> str:
    return f"{' '.join(pair.options)}: {as_duration(taken.seconds)}"


def _line(of: Compared) -> str:
    advice, seen = of.advice, of.seen
    predicted, low, high = map(as_duration, (advice.predicted_s, advice.low_s, advice.high_s))
    return (
        f"{advice_options(advice)}: predicted {predicted} ({low} to {high}), "
        f"seen {as_duration(seen.seconds)}: {of.error:+.0%}, idle {seen.idle:.0%}"
    )


def _print_summary(compared: Sequence[Compared]) -> None:
    if len(compared) < LEAST_ADVISED:
        raise SystemExit(f"not measured: limits were recommended to {len(compared)} of {PAIRS}")
    off = sorted(abs(each.error) for each in compared)
    within = sum(each.within for each in compared)
    faster = sum(each.seen.seconds < each.own.seconds for each in compared)
    idle = statistics.median(each.seen.idle for each in compared)
    print(
        f"{len(compared)} of {PAIRS} runs were given other limits: median error "
        f"{statistics.median(off):.0%} (largest {off[-1]:.0%}), {within} of {len(compared)} within "
        f"the stated range, {faster} faster than under their own; {idle:.0%} of the CPUs idle"
    )


def _print_held_out(found: ClusterInsights) -> None:
    errors = [abs(e) for e in (each.held_out_error for each in found.advice) if e is not None]
    if errors:
        print(
            f"under their own limits, predicted from the other runs: median error "
            f"{statistics.median(errors):.0%} (largest {max(errors):.0%}) of {len(errors)}"
        )


def _pairs() -> Iterator[Pair]:
    chance = random.Random(1)  # noqa: S311 - a seed, not a secret
    for number in range(PAIRS):
        sizes = (chance.randrange(30, 45) * MIB, chance.randrange(50, 75) * MIB)
        at_once = chance.choice((2, 3, 4))
        throttle = _THROTTLES[number % len(_THROTTLES)]
        limits = ("--partitions", str(at_once), "--throttle", throttle)
        yield Pair(f"pair-{number:02}", sizes, chance.randrange(5, 8), limits)


def _advice(
    pair: Pair, fastest: ClusterInsights, in_time: ClusterInsights, *, windowed: bool
) -> RunAdvice | None:
    """Return what is recommended to a run; where its kind has nothing, what the other kind has."""
    both = (in_time, fastest) if windowed else (fastest, in_time)
    found: Mapping[str, RunAdvice]
    for insights in both:
        found = {each.run: each for each in insights.advice}
        if pair.name in found:
            return found[pair.name]
    return None


def _fill(lab: Lab, pair: Pair) -> None:
    connection = Connection.to(lab.bootstrap_servers)
    create_topic(connection, pair.name, [_first(n) for n in range(pair.partitions)])
    for odd, size in enumerate(pair.sizes):
        fill(connection, pair.name, range(odd, pair.partitions, 2), bytes_each=size)


def _carried_out(lab: Lab, pair: Pair, state: Path, options: Sequence[str]) -> Taken:
    """Carry out a plan, there or, the second time, back."""
    placed = _first if state.name == _BACK else _second
    targets = (PartitionTarget(pair.name, n, placed(n)) for n in range(pair.partitions))
    state.mkdir(exist_ok=True)
    file = state.parent / f"{pair.name}.json"
    file.write_text(plan_as_json(Plan(tuple(targets))))
    command = [sys.executable, "-m", "ktui", "start", str(file), "--headless"]
    where = ["--bootstrap-server", lab.bootstrap_servers, "--state-dir", str(state)]
    with sampled(lab) as machine:
        began_s = time.monotonic()
        done = subprocess.run(
            [*command, *where, *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            raise SystemExit(f"not measured: {' '.join(options)}: {done.stderr}")
        idle = machine.idle(began_s, time.monotonic())
    return Taken(_seconds(state, pair.name), idle)


def _first(number: int) -> tuple[int, ...]:
    return (1 + number % BROKERS, 1 + (number + 1) % BROKERS)


def _second(number: int) -> tuple[int, ...]:
    return (1 + number % BROKERS, 1 + (number + 2) % BROKERS)


def _seconds(state: Path, name: str) -> float:
    """Return the seconds from a run's first step to the end of its last."""
    (found,) = (each for each in StateDir(state).run_dirs() if each.name == name)
    with Journal.open(found.journal, SystemClock(), read_only=True) as journal:
        entries = list(journal.entries())
    began = [each.at for each in entries if isinstance(each.event, StepBegun)]
    over = [each.at for each in entries if isinstance(each.event, StepOver)]
    return (max(over) - min(began)).total_seconds()


def _insights(state: Path, *options: str) -> ClusterInsights:
    """Run the pipeline over the recordings of a state directory, and return its insights."""
    command = [sys.executable, "-m", "ktui", "pipeline", "run", "--state-dir", str(state)]
    done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"not measured: {done.stderr}")
    clusters = insights_in(state).clusters
    check_count("clusters", len(clusters), 1)
    return clusters[0]


if __name__ == "__main__":
    run()
