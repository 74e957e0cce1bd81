"""A run that has something in every field, as the verbs print it for programs: a contract.

A field that is new, gone or renamed shows as a difference of the golden files. Then say so in the
table of docs/progress.md, and write the files again: `pytest --update-golden`.
"""

from datetime import timedelta

import msgspec

from ktui.cli.output.json_form import encode_record
from ktui.cli.run.runs import RunsJson
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict
from ktui.cluster.settings import FOLLOWER_RATE
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
    CancelGate,
    Configure,
    Configured,
    EngineLeft,
    HeldBroker,
    JournalEntry,
    LimitsChanged,
    Noted,
    OnConflict,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    RateCause,
    RateHeld,
    RateReason,
    ScheduleChanged,
    SettingChanged,
    SettingsGivenUp,
    StateEntered,
    StepGate,
    ThrottleChanged,
)
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.time_left.rest import LeastLeft
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.answer import Basis, Bottleneck, Bound, HowLong, Misfit, Source, Span
from support.cli.throttle_sandbox import BROKER_4, all_over, throttled
from support.journals.journals import (
    CLUSTER,
    a_start,
    accepted,
    ended,
    over,
    planned,
    started,
    step,
)

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
        for seq, event in enumerate(everything(), start=1)
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


def everything() -> list[AnyRunEvent]:
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


_ALL = tuple(TopicPartition("orders", n) for n in range(50))


def _entered(partition: int, state: State, reason: str = "") -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state, reason=reason)


def _set_rate(value: str) -> Configure:
    change = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, value)
    return Configure(changes=(change,))


def kinds() -> dict[str, list[AnyRunEvent]]:
    """Return the events of runs, by the name that sessions give them."""
    back = CancelAsked(kind=CancelKind.ROLLBACK, partitions=_ALL[:1])
    stop = CancelAsked(kind=CancelKind.STOP, partitions=_ALL[1:2])
    new = LimitsChanged(
        old=Limits(replicas=1, partitions=2),
        new=Limits(replicas=2, partitions=2, per_broker=4),
        batch=1,
        in_flight=1,
    )
    refused = Configured(
        resource=BROKER_4, verdict=Verdict.REFUSED, code="POLICY_VIOLATION", message="not so low"
    )
    given_up = SettingsGivenUp(
        resource=BROKER_4, keys=(FOLLOWER_RATE,), reason="someone else set it to 7"
    )
    left = EngineLeft(reason="its process got SIGTERM")
    dropping = msgspec.structs.replace(
        step(0), replicas=(1, 2, 4), adding=(), removing=(3,), before=(1, 2, 3, 4)
    )
    paused: list[AnyRunEvent] = [
        *(step(0, 6), accepted(0), new),
        Paused(by=PauseOrigin.OPERATOR),
        Paused(by=PauseOrigin.FAILURE, reason="orders-1 has failed"),
        Paused(by=PauseOrigin.OPERATOR, topics=("orders",), partitions=_ALL[3:4]),
        StepGate(shut=True, reason="3 partitions are offline"),
    ]
    troubled: list[AnyRunEvent] = [
        *(step(0), accepted(0), step(1), accepted(1)),
        _entered(1, State.ADDING, "broker 4 is down"),
        _entered(2, State.CHANGED_ELSEWHERE, "it has 1,2,9 now"),
        _entered(3, State.BLOCKED, "\x1b[2Jgone"),
    ]
    extras: list[AnyRunEvent] = [step(0), accepted(0), over(0), step(1), accepted(1)]
    dropped = msgspec.structs.replace(over(0), replicas=(1, 2, 4))
    of_four: dict[str, list[AnyRunEvent]] = {
        "begun": [],
        "moving": [step(0), accepted(0)],
        "in-the-middle": [
            *(step(0), accepted(0), _entered(0, State.DONE), step(1), accepted(1)),
            *(_entered(2, State.FAILED), _entered(3, State.TOPIC_GONE)),
        ],
        "all-done": [*(_entered(n, State.DONE) for n in range(4)), ended(4)],
        "one-failed": [
            *(_entered(n, State.DONE) for n in range(3)),
            *(_entered(3, State.FAILED, "refused 5 times"), ended(3)),
        ],
        "topics-gone": [_entered(n, State.TOPIC_GONE) for n in range(4)],
        "left": [left],
        "unowned": [Owned(pid=1, host="ops1", user="ada", ownership_off=True)],
        "paused": paused,
        "lost": [Outage(lost=True, reason="no answer")],
        "troubled": troubled,
        "cancelled": [step(0), over(0), stop, back],
        "gated": [CancelGate(shut=True, reason="ada@ops1 (1), to stop all of run drain")],
        "ended": [ended(4)],
        "some-failed": [_entered(0, State.DONE), _entered(1, State.FAILED, "no reason")],
        "foreign": [_entered(0, State.FOREIGN, "it is being reassigned")],
        "extras": extras,
        "dropped": [*extras[:3], dropping, dropped],
        "stopped": [*extras[:3], _entered(0, State.STOPPED)],
    }
    return {
        "everything": everything(),
        "fifty-stopped": [*a_start(50), CancelAsked(kind=CancelKind.STOP, partitions=_ALL)],
        "throttled": throttled(),
        "throttled-left": [*throttled(), left],
        "throttled-over": [*throttled(), *all_over()],
        "throttled-ended": [*a_start(2), ended(2)],
        "their-rate": [
            *throttled(), SettingChanged(resource=BROKER_4, key=FOLLOWER_RATE, found="300000")
        ],
        "refused-rate": [*throttled(), _set_rate("7"), refused],
        "unconfirmed-rate": [*throttled(), _set_rate("7000000")],
        "given-up-rate": [*throttled(), given_up],
        **{name: [*a_start(4), *events] for name, events in of_four.items()},
    }  # fmt: skip
