"""The progress of a run and its end in words, the same everywhere, and as metrics."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from ktui.execution.forecast.run_progress import UNPREDICTABLE, RunProgress
from ktui.execution.host.catalog import RunState
from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.run import ClusterLost, Run
from ktui.execution.run.states import STAGES, Stage, State
from ktui.execution.run.text import chosen_text
from ktui.execution.run.throttle_status import ThrottleStatus, throttle_status
from ktui.execution.time_left.rest import LeastLeft
from ktui.pacing.limits import Limits
from ktui.planning.plan import join_all
from ktui.preview.text import AS_FAST, NO_FASTER, how_much_longer, why_no_less
from ktui.quantities import as_bytes, as_count, as_duration, as_rate
from ktui.speed.answer import how_long_text, in_units, time_text

MOST_NAMED = 10
STAGES_TOLD = (
    Stage.FAILED,
    Stage.LEFT_OUT,
    Stage.STALLED,
    Stage.BLOCKED,
    Stage.FOREIGN,
    Stage.HELD_UP,
    Stage.BEHIND,
    Stage.CALLED_OFF,
    Stage.READY,
    Stage.COPYING,
    Stage.WAITING,
    Stage.QUEUED,
)
"""The order in which partitions that are not done are counted: what needs an eye comes first."""


class RunEnding(enum.Enum):
    """How a run stands after its engine has exited."""

    ALL_DONE = enum.auto()
    SOME_NOT_DONE = enum.auto()  # ended, some not at their target; or nothing more fits its time
    LEFT = enum.auto()  # it can be resumed
    FAILED = enum.auto()  # a failure stopped it, or its engine died


def run_ending(run: Run) -> RunEnding:
    """Return how a run stands after its engine has exited."""
    if run.ended:
        return RunEnding.ALL_DONE if run.counts[State.DONE] == run.over else RunEnding.SOME_NOT_DONE
    whole = run.pauses.whole
    if run.left is None or (PauseOrigin.FAILURE in whole and PauseOrigin.SIGNAL not in whole):
        return RunEnding.FAILED
    if PauseOrigin.UNTIL in whole and PauseOrigin.SIGNAL not in whole:
        return RunEnding.SOME_NOT_DONE
    return RunEnding.LEFT


def progress_line(progress: RunProgress) -> str:
    """Describe the progress of a run in one line, where there is no room for more."""
    return f"{progress.name}: {', '.join(_line_parts(progress))}"


def _line_parts(progress: RunProgress) -> Iterator[str]:
    yield counts_text(progress)
    if progress.batch:
        yield f"batch {progress.batch:,}"
    if progress.bytes:
        yield copied_text(progress)
    yield from _throttle(progress.throttle)
    if progress.outage is not None:
        yield f"cluster lost {outage_text(progress.outage)}"
    if (why := hold_text(progress)) is not None:
        yield why
    elif progress.time_left is not None:
        yield time_text(progress.time_left, left=True)


def progress_lines(progress: RunProgress) -> list[str]:
    """Describe the progress of a run in full: counts and bytes, the time left, the least time."""
    facts = [counts_text(progress)]
    if progress.bytes:
        rate = f", now at {as_rate(progress.bytes_s)}" if progress.bytes_s else ""
        facts.append(f"{copied_text(progress)}{rate}")
    lines = [", ".join(facts)]
    if progress.time_left is not None:
        lines.append(how_long_text(progress.time_left, left=True))
    elif unknown := unknown_text(progress):
        lines.append(unknown)
    if progress.least is not None:
        lines.append(least_text(progress.least, progress.limits))
    return lines


def counts_text(progress: RunProgress) -> str:
    """Count the partitions by stage: "10 of 35 done, 2 blocked, 5 copying, 18 queued"."""
    done = f"{progress.done:,} of {progress.partitions:,} done"
    counts = ((progress.stages.get(stage), stage) for stage in STAGES_TOLD)
    by_stage = (
        f"{count:,} {stage}{_how(progress) if stage is Stage.CALLED_OFF else ''}"
        for count, stage in counts
        if count
    )
    return ", ".join([done, *by_stage])


def _how(progress: RunProgress) -> str:
    """How partitions are called off, which matters: " (2 stopped, 1 rolling back)"."""
    states = [state for state, stage in STAGES.items() if stage is Stage.CALLED_OFF]
    by_words = {state.words: progress.counts.get(state, 0) for state in states}
    by_words[State.STOPPED.words] -= progress.not_started
    by_words["not started"] = progress.not_started
    counts = [(n, words) for words, n in by_words.items() if n]
    if len(counts) == 1:
        return f" ({counts[0][1]})"
    return f" ({', '.join(f'{n:,} {words}' for n, words in counts)})"


def copied_text(progress: RunProgress) -> str:
    """Describe how much has been copied: "14 GiB of 41 GiB copied"."""
    return f"{as_bytes(progress.bytes_done)} of {as_bytes(progress.bytes)} copied"


def unknown_text(progress: RunProgress) -> str:
    """Describe why the time left is unknown; empty for a run that does not go on."""
    if progress.state is not RunState.RUNNING or progress.time_left is not None:
        return ""
    counts = ((progress.stages.get(stage, 0), stage) for stage in UNPREDICTABLE)
    held = [f"{count:,} {stage}" for count, stage in counts if count]
    return f"time left unknown{f': {join_all(held)}' if held else ''}"


def hold_text(progress: RunProgress) -> str | None:
    """Describe what holds the whole run back; None if nothing does."""
    if progress.paused is not None:
        return f"paused: {progress.paused}"
    if progress.cancel_gate_by is not None:
        return f"cancel gate shut by {progress.cancel_gate_by}"
    if progress.gate.until is not None:
        return f"waiting: {progress.gate.reason}"
    return f"gate shut: {progress.gate.reason}" if progress.gate.shut else None


def least_text(least: LeastLeft, limits: Limits) -> str:
    """Like "at best 28 min left, as broker 5 gets 18 GiB: this run takes 6% longer"."""
    why = why_no_less(least.bound, limits)
    if least.times < AS_FAST:
        return f"{why}, {NO_FASTER}"
    least_s = in_units(least.bound.time_s.middle)  # without its range: the forecast has one
    return f"at best {least_s} left, {why}: {how_much_longer(least.times)}"


def outage_text(outage: ClusterLost) -> str:
    """Describe since when the cluster has not answered, in local time, and why."""
    since = outage.since.astimezone().isoformat(" ", timespec="seconds")
    return f"since {since}, {outage.reason}"


def end_lines(run: Run) -> list[str]:
    """Describe a run's end, or where it was left; then the partitions not done, with the reason."""
    count = as_count(len(run.tracks), "partition")
    if not run.ended:
        in_flight = ""
        if run.in_flight:
            go = "goes on" if run.in_flight == 1 else "go on"
            in_flight = f"; {as_count(run.in_flight, 'step')} in flight {go} in Kafka"
        why = f" ({run.left})" if run.left else ""
        left = (
            f"run {run.name} was left{why}: {run.counts[State.DONE]:,} of {count} done{in_flight}"
        )
        return [left, *filter(None, [throttle_status(run).stays])]
    if run.counts[State.DONE] == run.over:
        all_of_them = f"all {count}" if len(run.tracks) > 1 else count
        return [f"run {run.name} has ended: {all_of_them} done{_took(run)}"]
    stand = ((run.counts[state], state.words) for state in State)
    counts = ", ".join(f"{count:,} {words}" for count, words in stand if count)
    others = [track for track in run.troubled.values() if track.state.ended]
    named = [
        f"  {track.tp}: {track.state.words}{f': {track.reason}' if track.reason else ''}"
        for track in others[:MOST_NAMED]
    ]
    more = [f"  and {len(others) - MOST_NAMED:,} more"] if len(others) > MOST_NAMED else []
    return [f"run {run.name} has ended: {counts}{_took(run)}", *named, *more]


def _throttle(throttle: ThrottleStatus) -> Iterator[str]:
    if throttle.waits is not None:
        yield throttle.waits
    elif throttle.bounded:
        yield f"throttle {throttle.bounded.words}"
    if throttle.chosen is not None and throttle.chosen.late:
        yield chosen_text(throttle.chosen)
    if throttle.refusal:
        yield f"throttle refused: {throttle.refusal}"


def _took(run: Run) -> str:
    if run.started_at is None or run.ended_at is None:
        return ""
    return f", after {as_duration((run.ended_at - run.started_at).total_seconds())}"


FIRST_BYTES = b"# HELP ktui_"  # the start of every file of metrics, by which ktui knows its own


Labels = tuple[tuple[str, str], ...]


class EngineTimes(msgspec.Struct, frozen=True):
    """Whether a run has an engine, and its times."""

    up: bool
    since: datetime
    polled: datetime


def metrics_text(progress: RunProgress, engine: EngineTimes) -> str:
    """Return the metrics of a run; those that are not known are left out."""
    labels = (("run", progress.name), ("cluster_id", progress.cluster_id or ""))
    metrics = (*_engine(engine), *_partitions(progress), *_copies(progress), *_holds(progress))
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric, labels))


_Metric = tuple[str, str, float | Mapping[Labels, float] | None]
"""A gauge: its name, what it is, and its value, or values by labels; None where it is not known."""


def _lines(metric: _Metric, labels: Labels) -> Iterator[str]:
    name, text, known = metric
    values = known if isinstance(known, Mapping) else {} if known is None else {(): known}
    if values:
        yield f"# HELP ktui_{name} {text}"
        yield f"# TYPE ktui_{name} gauge"
    for own, value in values.items():
        yield f"ktui_{name}{{{_labels((*labels, *own))}}} {_number(float(value))}"


def _engine(engine: EngineTimes) -> Iterator[_Metric]:
    yield "engine_up", "Whether the run has an engine; watch the time of its poll, too.", engine.up
    since, polled = engine.since.timestamp(), engine.polled.timestamp()
    yield "engine_start_timestamp_seconds", "When the engine took the run on.", since
    yield "engine_poll_timestamp_seconds", "When the engine last polled the cluster.", polled


def _partitions(run: RunProgress) -> Iterator[_Metric]:
    states: dict[Labels, float] = {
        (("state", state.value),): float(count) for state, count in run.counts.items()
    }
    stalled, ended = run.counts[State.STALLED], run.ended_at is not None
    yield "run_partitions", "Partitions of the run by state.", states
    yield "run_steps_in_flight", "Steps in flight.", run.steps_in_flight
    yield "run_stalled_partitions", "Partitions whose step makes no progress.", stalled
    yield "run_ended", "Whether every partition has reached its end.", ended


def _copies(run: RunProgress) -> Iterator[_Metric]:
    left_s = None if run.time_left is None else run.time_left.time_s.middle
    yield "run_copied_bytes", "Bytes copied, of the sizes at the start.", run.bytes_done
    yield "run_left_bytes", "Bytes left to copy.", run.bytes_left
    yield "run_copied_ratio", "Share of the bytes that is copied, 0 to 1.", run.share
    yield "run_copy_rate_bytes_per_second", "Bytes copied a second.", run.bytes_s
    yield "run_left_seconds", "Estimated seconds until the end.", left_s
    rates = run.throttle.in_force
    by_broker = {"other" if rates.brokers else "every": rates.every}
    by_broker |= {str(each.broker): each.bytes_s for each in rates.brokers}
    values: dict[Labels, float] = {
        (("broker", broker),): float(rate) for broker, rate in by_broker.items() if rate
    }
    yield "run_throttle_bytes_per_second", "Rate of the throttle into each broker.", values


def _holds(run: RunProgress) -> Iterator[_Metric]:
    shut = run.gate.shut or run.cancel_gate_by is not None
    chosen = run.throttle.chosen
    late = chosen is not None and chosen.late
    yield "run_paused", "Whether the whole run is paused.", run.paused is not None
    yield "run_gate_shut", "Whether the health gate or the cancel gate is shut.", shut
    yield "run_late", "Whether the run cannot be done by the time of --by, at any rate.", late
    yield "run_cluster_lost", "Whether the cluster does not answer.", run.outage is not None


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
