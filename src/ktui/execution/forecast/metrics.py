"""The metrics of a run, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.run.states import State

FIRST_BYTES = b"# HELP ktui_"
"""The start of every file of metrics, by which ktui knows its own."""


Labels = tuple[tuple[str, str], ...]


class EngineTimes(msgspec.Struct, frozen=True):
    """Whether a run has an engine, and its times."""

    up: bool
    since: datetime
    polled: datetime


class _Metric(msgspec.Struct, frozen=True):
    """A gauge: its value by its own labels; no value where it is not known."""

    name: str
    text: str
    values: Mapping[Labels, float]

    def lines(self, labels: Labels) -> Iterator[str]:
        """Yield the lines of the metric: none without a value."""
        if self.values:
            yield f"# HELP ktui_{self.name} {self.text}"
            yield f"# TYPE ktui_{self.name} gauge"
        for own, value in self.values.items():
            yield f"ktui_{self.name}{{{_labels((*labels, *own))}}} {_number(value)}"


def metrics_text(progress: RunProgress, engine: EngineTimes) -> str:
    """Return the metrics of a run; those that are not known are left out."""
    labels = (("run", progress.name), ("cluster_id", progress.cluster_id or ""))
    metrics = (*_engine(engine), *_partitions(progress), *_copies(progress), *_holds(progress))
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines(labels))


def _engine(engine: EngineTimes) -> Iterator[_Metric]:
    yield _one("engine_up", "Whether the run has an engine; watch the time of its poll, too.",
               engine.up)  # fmt: skip
    yield _one("engine_start_timestamp_seconds", "When the engine took the run on.",
               engine.since.timestamp())  # fmt: skip
    yield _one("engine_poll_timestamp_seconds", "When the engine last polled the cluster.",
               engine.polled.timestamp())  # fmt: skip


def _partitions(run: RunProgress) -> Iterator[_Metric]:
    states: dict[Labels, float] = {
        (("state", state.value),): float(count) for state, count in run.counts.items()
    }
    yield _Metric("run_partitions", "Partitions of the run by state.", states)
    yield _one("run_steps_in_flight", "Steps in flight.", run.steps_in_flight)
    yield _one("run_stalled_partitions", "Partitions whose step makes no progress.",
               run.counts[State.STALLED])  # fmt: skip
    yield _one("run_ended", "Whether every partition has reached its end.",
               run.ended_at is not None)  # fmt: skip


def _copies(run: RunProgress) -> Iterator[_Metric]:
    left_s = None if run.time_left is None else run.time_left.time_s.middle
    yield _one("run_copied_bytes", "Bytes copied, of the sizes at the start.", run.bytes_done)
    yield _one("run_left_bytes", "Bytes left to copy.", run.bytes_left)
    yield _one("run_copied_ratio", "Share of the bytes that is copied, 0 to 1.", run.share)
    yield _one("run_copy_rate_bytes_per_second", "Bytes copied a second.", run.bytes_s)
    yield _one("run_left_seconds", "Estimated seconds until the end.", left_s)
    rates = run.throttle.in_force
    by_broker = {"other" if rates.brokers else "every": rates.every}
    by_broker |= {str(each.broker): each.bytes_s for each in rates.brokers}
    yield _Metric(
        "run_throttle_bytes_per_second",
        "Rate of the throttle into each broker.",
        {(("broker", broker),): float(rate) for broker, rate in by_broker.items() if rate},
    )


def _holds(run: RunProgress) -> Iterator[_Metric]:
    yield _one("run_paused", "Whether the whole run is paused.", run.paused is not None)
    yield _one("run_gate_shut", "Whether the health gate or the cancel gate is shut.",
               run.gate.shut or run.cancel_gate_by is not None)  # fmt: skip
    chosen = run.throttle.chosen
    yield _one("run_late", "Whether the run cannot be done by the time of --by, at any rate.",
               chosen is not None and chosen.late)  # fmt: skip
    yield _one("run_cluster_lost", "Whether the cluster does not answer.", run.outage is not None)


def _one(name: str, text: str, value: float | None) -> _Metric:
    return _Metric(name, text, {} if value is None else {(): float(value)})


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
