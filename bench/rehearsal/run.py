"""How far off rehearsals are: `python -m bench rehearse`.

Each plan is rehearsed on a snapshot of its lab, with its options and with what is to happen. Then
it is carried out there. The first two runs of a lab are rehearsed with assumed copy rates. From
their recordings the pipeline learns the rates of the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from bench.forecast.real_runs import BROKERS
from bench.machine import sampled
from bench.producing import Load, producer
from bench.real.lab import asked, create_filled, in_sync, ktui, lab_of, until
from bench.rehearsal.figures import Figures, figures_of
from bench.rehearsal.plans import LABS, MESSAGE_BYTES, OUTAGE_S, RehearsedLab, Trial, Trials
from bench.rehearsal.report import Compared, print_line, print_summary
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import ClusterError
from ktui.execution import JournalProblem
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import StepBegun
from ktui.lab import control
from ktui.lab.layout import Lab, LabError
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json

_MEASURE = "6s"
_LONGEST_S = 300.0
_HELD = (0, 3)
"""The exit codes of a rehearsal."""


class Unusable(Exception):
    """A run that shows nothing, and the reason."""


class Rehearsed(NamedTuple):
    """What a rehearsal predicted."""

    usual: Figures
    slow_s: float
    fast_s: float
    rates: str
    """Where its copy rates are from."""


def run() -> None:
    """Print for each plan what its rehearsal predicted and what was seen, and how far off it was.

    Raises:
        SystemExit: something was not measured.
    """
    compared: list[Compared] = []
    left_out: list[str] = []
    for lab in LABS:
        _on(lab, compared, left_out)
    print_summary(compared, left_out)


def _on(of: RehearsedLab, compared: list[Compared], left_out: list[str]) -> None:
    trials = Trials(of)
    with lab_of(of.version, BROKERS) as (lab, folder):
        for topic in trials.topics:
            placed = trials.placed[topic.name]
            create_filled(lab, topic, placed, message_bytes=MESSAGE_BYTES)
        for trial in _in_turn(trials, folder):
            try:
                until(lambda: in_sync(lab, trial.topic), "every replica is in sync")  # noqa: B023
                compared.append(_compared(of.version, lab, folder, trial))
            except (Unusable, SystemExit, ClusterError, LabError) as reason:
                left_out.append(f"{of.version} {trial.name}: {reason}")
                print(f"left out: {left_out[-1]}", flush=True)
            else:
                print_line(compared[-1])


def _in_turn(trials: Trials, folder: Path) -> Iterator[Trial]:
    """Yield the calibrating runs, then those for which their copy rates are known."""
    yield from trials.calibrating()
    asked(ktui(folder, "pipeline", "run"))
    yield from trials.rest()


def _compared(version: str, lab: Lab, folder: Path, trial: Trial) -> Compared:
    """Rehearse a plan, and carry it out.

    Raises:
        Unusable: the run shows nothing.
    """
    plan = folder / f"{trial.name}.json"
    parts = [PartitionTarget(trial.topic, n, tuple(to)) for n, to in enumerate(trial.target)]
    plan.write_text(plan_as_json(Plan(tuple(parts))))
    with ExitStack() as stack:
        if trial.written:
            _write(stack, lab, trial)
        predicted = _rehearsed(lab, folder, plan, trial)
        with sampled(None) as machine:
            began_s = time.monotonic()
            _carry_out(stack, lab, folder, plan, trial)
            idle = machine.idle(began_s, time.monotonic())
    seen = figures_of(StateDir(folder / "state").run(trial.name).recording)
    return Compared(
        version=version,
        name=trial.name,
        rates=predicted.rates,
        slow_s=predicted.slow_s,
        fast_s=predicted.fast_s,
        predicted=predicted.usual,
        seen=seen,
        idle=idle,
    )


def _write(stack: ExitStack, lab: Lab, trial: Trial) -> None:
    """Let a producer write to the topic until the end of the stack."""
    load = Load(trial.written, message_bytes=MESSAGE_BYTES)
    writing = producer(lab.bootstrap_servers, trial.topic, len(trial.target), load)
    stack.callback(stack.enter_context(writing).communicate)


def _rehearsed(lab: Lab, folder: Path, plan: Path, trial: Trial) -> Rehearsed:
    twin, record = folder / f"{trial.name}.yaml", folder / f"rehearsed-{trial.name}"
    where = ("--bootstrap-server", lab.bootstrap_servers)
    asked(ktui(folder, "snapshot", str(plan), "-o", str(twin), "--measure", _MEASURE, *where))
    events = [word for event in trial.events for word in ("--event", event)]
    how = ("--on", str(twin), "--record", str(record), "--json", *trial.options, *events)
    report = json.loads(asked(ktui(folder, "rehearse", str(plan), *how), _HELD))
    seconds = {twin["pace"]: twin["summary"]["time_s"] for twin in report["twins"]}
    missed = [event for twin in report["twins"] for event in twin["summary"]["missed"]]
    if missed:
        raise Unusable(f"the rehearsal was over before {', '.join(sorted(set(missed)))}")
    return Rehearsed(
        figures_of(record), seconds["slow"], seconds["fast"], str(report["rates"]["from"])
    )


def _carry_out(stack: ExitStack, lab: Lab, folder: Path, plan: Path, trial: Trial) -> None:
    where = ("--bootstrap-server", lab.bootstrap_servers)
    argv = ktui(folder, "start", str(plan), "--headless", *where, *trial.options)
    journal = StateDir(folder / "state").run(trial.name).journal
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as mover:
        try:
            if trial.events:
                until(lambda: _began(journal), "the run begins", every_s=0.05)
                _happen(stack, lab, trial, mover, time.monotonic())
            output, _ = mover.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise Unusable(f"it was not done within {_LONGEST_S:.0f} s") from None
        finally:
            mover.kill()
    if mover.returncode:
        raise Unusable(f"it ended with {mover.returncode}: {output.decode()}")


def _began(journal: Path) -> bool:
    """Return whether the first step of a run has begun, which a rehearsal begins with."""
    if not journal.exists():
        return False
    with (
        suppress(JournalProblem),
        Journal.open(journal, SystemClock(), read_only=True) as opened,
    ):
        return any(isinstance(entry.event, StepBegun) for entry in opened.entries())
    return False


def _happen(
    stack: ExitStack, lab: Lab, trial: Trial, mover: subprocess.Popen[bytes], began_s: float
) -> None:
    """Let happen what the rehearsal was told, at the same moments."""
    _sleep_until(began_s + trial.at_s)
    if mover.poll() is not None:
        raise Unusable("it was over before anything happened to it")
    if trial.kill is not None:
        control.kill(lab, trial.kill)
        _sleep_until(began_s + trial.at_s + OUTAGE_S)
        control.start(lab, trial.kill)
    elif trial.doubled:
        _write(stack, lab, trial)


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def main(names: Sequence[str]) -> None:
    """Run on the labs of the named versions alone."""
    compared: list[Compared] = []
    left_out: list[str] = []
    for lab in LABS:
        if lab.version in names:
            _on(lab, compared, left_out)
    print_summary(compared, left_out)


if __name__ == "__main__":
    main(sys.argv[1:])
