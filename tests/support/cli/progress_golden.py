"""A run that has something in every field, as the verbs print it for programs: a contract.

A field that is new, gone or renamed shows as a difference of the golden files. Then say so in the
table of docs/progress.md, and write the files again: `pytest --update-golden`.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from ktui.cli.output.json_form import encode_record
from ktui.cli.run.runs import RunsJson
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import CopiedBytes
from ktui.execution.forecast.progress_text import EngineTimes, metrics_text
from ktui.execution.forecast.run_details import RunDetails, WaitingPartition, run_details
from ktui.execution.forecast.run_progress import RunProgress, run_progress
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import Holder, ShutGate
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    CancelAsked,
    HeldBroker,
    JournalEntry,
    Noted,
    OnConflict,
    Owned,
    RateCause,
    RateHeld,
    RateReason,
    ScheduleChanged,
    StateEntered,
    ThrottleChanged,
)
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.time_left.simulate_rest import LeastLeft
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Misfit, Source, Span
from support.cli.throttle_sandbox import throttled
from support.journals.journals import CLUSTER, a_start, accepted, planned, started, step

_NOW = FIRST_MOMENT + timedelta(minutes=5)
_OWNER = Holder(4711, "ops1", "ada", FIRST_MOMENT)


def printed() -> dict[str, str]:
    """Return what each verb prints, by the name of its file."""
    details = _details()
    progress = RunProgress(
        **{field: getattr(details, field) for field in RunProgress.__struct_fields__}
    )
    unreadable = RunProgress(name="garbage", state=RunState.UNREADABLE, problem="no journal")
    runs = RunsJson("/var/lib/ktui", (progress, unreadable), (_gate(),))
    throttle = {"run": details.name, "throttle": details.throttle}
    schedule = {
        "run": details.name, "schedule": details.schedule, "begins_at": details.begins_at
    }  # fmt: skip
    engine = EngineTimes(up=True, since=FIRST_MOMENT, polled=_NOW)
    return {
        "status": encode_record(details) + "\n",
        "runs": encode_record(runs) + "\n",
        "throttle": encode_record(throttle) + "\n",
        "schedule": encode_record(schedule) + "\n",
        "metrics.prom": metrics_text(progress, engine),
    }


def _details() -> RunDetails:
    """Return a run that has something in every field that can be full at once."""
    run = Run("drain").fold(
        JournalEntry(seq, FIRST_MOMENT + timedelta(seconds=seq), event)
        for seq, event in enumerate(_events(), start=1)
    )
    copied = CopiedBytes(done=300, whole=1_000, bytes_s=12.5)
    progress = run_progress(run, _OWNER, now=_NOW, copied=copied, last_poll=_NOW)
    pace = Bound(time_s=Span(40, 50, 60), bottleneck=Bottleneck.RECEIVER, broker=4, bytes=2**30)
    basis = Basis(Source.EARLIER_RUNS, runs=2, misfits=(Misfit.THROTTLE,))
    left = HowLong(time_s=Span(40, 56, 80), basis=basis, pacesetter=pace, copying_s=50, batches=3)
    progress = msgspec.structs.replace(
        progress,
        batches=12,
        bytes=1_000,
        time_left=left,
        least=LeastLeft(pace, 1.12, basis),
        silence="no poll for 2m: its process may be suspended, or wait for a locked journal",
    )
    waiting = WaitingPartition(
        topic="orders",
        partition=3,
        state=State.QUEUED,
        since=FIRST_MOMENT,
        waits_for="partitions",
        reason="P lets 2 partitions be under way, and 2 are.",
    )
    return run_details(run, progress, (waiting,), _gate())


def _events() -> list[AnyRunEvent]:
    rates = parse_throttle_rates("50MB,3=20MB,slo=p99<150ms")
    start = msgspec.structs.replace(started(5), options=RunOptions(throttle=rates, canary=True))
    why = RateReason(RateCause.OVER, 212.0, of=4, used=0.95)
    held = RateHeld(rate=4_000_000, figure=95.0, windows=20, kept=19, why=why,
                    brokers=(HeldBroker(4, 4_000_000, 95.0, why),))  # fmt: skip
    until = FIRST_MOMENT + timedelta(hours=8)
    window = Schedule(start_at=FIRST_MOMENT + timedelta(hours=1), by=until)
    joins = Added(plan="more.json", plan_sha256="1" * 64, partitions=1, on_conflict=OnConflict.KEEP)
    extra = msgspec.structs.replace(planned(1).partitions[0], topic="clicks")
    return [
        start,
        *a_start(5)[1:2],
        Owned(pid=4711, host="ops1", user="ada", until=until),
        *(event for event in throttled() if event not in a_start(2)),
        step(1, 2),
        accepted(1),
        ThrottleChanged(old=NO_THROTTLE, new=rates),
        held,
        StateEntered(topic="orders", partition=2, state=State.BLOCKED, reason="broker 4 is down"),
        CancelAsked(kind=CancelKind.STOP, partitions=(TopicPartition("orders", 4),)),
        joins,
        msgspec.structs.replace(planned(1), partitions=(extra,)),
        ScheduleChanged(old=NO_SCHEDULE, new=window),
        Noted(text="the night shift knows", who="ada@ops1 (1)"),
    ]


def _gate() -> ShutGate:
    return ShutGate(CLUSTER, FIRST_MOMENT, "ada@ops1 (1)", "stop all of run night")
