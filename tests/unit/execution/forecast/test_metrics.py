"""The metrics of a run are text that Prometheus reads, whatever the run's name."""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.forecast.progress_text import FIRST_BYTES, EngineTimes, metrics_text
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.run.events import JournalEntry, StateEntered, ThrottleChanged
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.answer import Basis, HowLong, Span
from support.journals.journals import CLUSTER, a_start, step

ENGINE = EngineTimes(up=True, since=FIRST_MOMENT, polled=FIRST_MOMENT + timedelta(seconds=1.5))
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (-?[0-9.e+-]+)')


def a_run(name: str = "drain") -> Run:
    rates = parse_throttle_rates("50MB,3=20MB")
    stalled = StateEntered(topic="orders", partition=0, state=State.STALLED)
    throttled = ThrottleChanged(old=NO_THROTTLE, new=rates)
    events = enumerate([*a_start(), throttled, step(0), stalled], start=1)
    return Run(name).fold(JournalEntry(seq, FIRST_MOMENT, event) for seq, event in events)


def metrics_of(run: Run) -> str:
    return metrics_text(run_progress(run, this_process()), ENGINE)


def read(text: str) -> dict[str, float]:
    """Read the samples of one run, by name and the label that is not the run's."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            own = re.sub(r'^run="(?:[^"\\]|\\.)*",cluster_id="[^"]*",?', "", sample[2])
            samples[f"{sample[1]}{own and '{'}{own}{own and '}'}"] = float(sample[3])
    return samples


def test_a_run_is_seen_with_its_states_bytes_time_left_and_throttle() -> None:
    left = HowLong(time_s=Span(40, 56, 80), basis=Basis())
    known = run_progress(a_run(), this_process())
    known = msgspec.structs.replace(
        known, bytes_done=300, bytes=1_000, bytes_s=12.5, time_left=left
    )

    samples = read(metrics_text(known, ENGINE))

    assert samples['ktui_run_partitions{state="stalled"}'] == 1
    assert samples["ktui_run_stalled_partitions"] == 1
    assert samples["ktui_run_steps_in_flight"] == 1
    assert samples["ktui_run_copied_bytes"] == 300
    assert samples["ktui_run_left_bytes"] == 700
    assert samples["ktui_run_copied_ratio"] == 0.3
    assert samples["ktui_run_copy_rate_bytes_per_second"] == 12.5
    assert samples["ktui_run_left_seconds"] == 56
    assert samples['ktui_run_throttle_bytes_per_second{broker="other"}'] == 50e6
    assert samples['ktui_run_throttle_bytes_per_second{broker="3"}'] == 20e6
    assert samples["ktui_engine_up"] == 1
    assert samples["ktui_engine_poll_timestamp_seconds"] == FIRST_MOMENT.timestamp() + 1.5


def test_what_is_not_known_is_left_out_and_not_shown_as_zero() -> None:
    samples = read(metrics_of(a_run()))

    assert "ktui_run_left_seconds" not in samples
    assert "ktui_run_copied_ratio" not in samples
    assert samples['ktui_run_partitions{state="failed"}'] == 0


def test_each_metric_is_described_once_before_its_values() -> None:
    text = metrics_of(a_run())
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]

    assert text.encode().startswith(FIRST_BYTES)
    assert len(names) == len(set(names))
    assert names == list(dict.fromkeys(re.findall(r"^(ktui\w+)\{", text, re.MULTILINE)))


@given(st.text())
def test_any_name_is_escaped_so_that_it_can_be_read_back(name: str) -> None:
    text = metrics_of(a_run(name))
    line = next(each for each in text.split("\n") if each.startswith("ktui_engine_up"))
    sample = SAMPLE.fullmatch(line)
    assert sample is not None
    escaped = sample[2].removeprefix('run="').removesuffix(f'",cluster_id="{CLUSTER}"')

    unescaped = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], escaped)
    assert unescaped == name
