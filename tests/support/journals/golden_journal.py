"""Write the golden journal of the present format, with every kind of event and command.

Run `python -m support.journals.golden_journal`.

For a new kind or a new field add it here, and write the journal again.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ktui import __version__
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigSource, Setting, Verdict
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.journal import file as journal_file
from ktui.execution.journal.commands import (
    Add,
    AddNote,
    Answer,
    CancelMoves,
    Command,
    Continue,
    LeaveThrottles,
    Pause,
    SetLimits,
    SetSchedule,
    SetThrottle,
    StopEngine,
)
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Added,
    Answered,
    AnyRunEvent,
    BudgetShared,
    Cancel,
    CancelAsked,
    CancelGate,
    Configure,
    Configured,
    Continued,
    Elect,
    Ended,
    EngineLeft,
    EventCommandFailed,
    Exported,
    FoundSetting,
    HeldBroker,
    Imported,
    Joined,
    LimitsChanged,
    Noted,
    OnConflict,
    OpenRequest,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    RateCause,
    RateChosen,
    RateHeld,
    RateReason,
    Recording,
    Recovered,
    Replanned,
    Request,
    ScheduleChanged,
    SettingChanged,
    SettingsFound,
    SettingsGivenUp,
    Started,
    StateEntered,
    StepBegun,
    StepGate,
    StepOver,
    ThrottleChanged,
    UrgencyChanged,
)
from ktui.execution.run.options import (
    NO_SCHEDULE,
    OnForeignChange,
    OnForeignThrottle,
    OnStall,
    RunOptions,
    Schedule,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import BrokerLimits, InternalOrder, Limits, Mode, Order, Shape
from ktui.pacing.situation import Urgency
from ktui.planning.throttle_rates import NO_THROTTLE, BrokerRate, parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from support.cli.throttle_sandbox import BROKER_4, ORDERS

FILE = Path(__file__).parents[2] / "unit" / "execution" / "journal" / "golden" / "journal.json"
WHO = "ada@ops1 (4711)"
LIMITS = Limits(
    replicas=1, partitions=2, per_broker=3, per_leader=4, per_rack=5, cuts_per_minute=600,
    bytes_in_flight=2**30, bytes_per_broker=2**25, internal=InternalOrder.LAST,
    brokers=(BrokerLimits(broker=3, per_broker=1, bytes_per_broker=None),),
)  # fmt: skip
RATES = parse_throttle_rates("50MB,3=20MB,total=400MB,slo=p99<150ms")
BROKERS = (
    HeldBroker(1, figure=212.0),
    HeldBroker(4, 4_000_000, 95.5, RateReason(RateCause.OVER, 212.0, of=1, used=0.95, aim=0.8)),
    HeldBroker(5, 9_000_000, None, RateReason(RateCause.NO_FIGURE, of=5)),
)
LATER = datetime(2026, 11, 28, 20, tzinfo=UTC)
SCHEDULE = Schedule(
    start_at=LATER,
    window="22:00-05:00,Fri,Sat",
    while_command="/bin/check it",
    by=LATER + timedelta(hours=8),
)


class Golden(msgspec.Struct, frozen=True):
    """The stored rows of a journal, and the summary of their run."""

    version: str  # the version of ktui that wrote the journal
    events: list[tuple[int, str, str, str]]
    commands: list[tuple[int, str, str, str, str | None]]
    summary: dict[str, Any]  # the result of `summary` for the run at that time

    def put_into(self, path: Path) -> None:
        """Write the rows into a new journal."""
        connection = journal_file.create(path)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", self.events)
        connection.executemany("INSERT INTO commands VALUES (?, ?, ?, ?, ?)", self.commands)
        connection.execute("COMMIT")
        connection.close()


def kept() -> Golden:
    return msgspec.json.decode(FILE.read_bytes(), type=Golden)


def summary(run: Run) -> dict[str, Any]:
    """Return the summary of a run, as plain JSON values."""
    made = {
        "seq": run.seq,
        "ended": run.ended,
        "limits": {k: v for k, v in msgspec.to_builtins(run.limits).items() if v and v != "none"},
        "rates": run.throttled.rates.words,
        "settings": sorted(f"{r.scope} {r.name} {key}" for r, key in run.throttled.ours),
        "plans": [each.event.plan for each in run.additions.plans],
        "pauses": [run.pauses.whole, sorted(run.pauses.topics), sorted(run.pauses.partitions)],
        "gates": [run.gate.shut, run.cancel_gate.shut],
        "recording": run.recording.reason,
        "damage": run.damage,
        "counts": {state: count for state, count in run.counts.items() if count},
        "partitions": {
            str(tp): [t.state, t.replicas, t.original, t.target, t.steps, t.cancel, t.reason]
            for tp, t in run.tracks.items()
        },
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(made))
    return plain


def events() -> list[AnyRunEvent]:
    """Return the course of a run that has every kind of event in it."""
    found = (
        FoundSetting(BROKER_4, FOLLOWER_RATE, Setting("1000", ConfigSource.OWN)),
        FoundSetting(ORDERS, FOLLOWER_REPLICAS, None),
    )
    rate = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, "50000000")
    entry = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOp.APPEND, "0:4")
    off = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, "1000")
    later = Limits(
        replicas=2, partitions=3, leader_movements=1, replica_movements=4, per_broker=3,
        extra_replicas=1, cut_together=2, shape=Shape.GENTLE, mode=Mode.WAVE, order=Order.SIZE_DESC,
    )  # fmt: skip
    whole = Limits(partitions=3, shape=Shape.WHOLE, mode=Mode.WAVE)
    owned = Owned(pid=4711, host="ops1", user="ada", until=FIRST_MOMENT + timedelta(hours=2))
    return [
        _started(),
        PlannedPart(partitions=tuple(map(_planned, range(6)))),
        owned,
        Recording(on=True),
        ThrottleChanged(old=NO_THROTTLE, new=RATES, command=1, who=WHO),
        BudgetShared(shares=(BrokerRate(4, 50_000_000),)),
        RateChosen(rate=40_000_000, ends_at=LATER),
        RateChosen(ends_at=LATER, late=True),
        RateHeld(rate=12_000_000, figure=143.5, windows=20, kept=19),
        RateHeld(rate=1_000_000, reason="no metrics", windows=21, kept=19),
        RateHeld(
            rate=4_000_000, figure=212.0, windows=22, kept=19, brokers=BROKERS,
            why=BROKERS[1].why,
        ),
        ScheduleChanged(old=NO_SCHEDULE, new=SCHEDULE, command=2, who=WHO),
        _step(0, elect=4),
        SettingsFound(found=found),
        Configure(changes=(rate, entry)),
        Configured(resource=BROKER_4, verdict=Verdict.ACCEPTED),
        Configured(resource=ORDERS, verdict=Verdict.REFUSED, code="X", message="no"),
        Configured(resource=ORDERS, verdict=Verdict.UNKNOWN, message="no answer", node=4),
        _answered(0, Request.ALTER),
        Elect(topic="orders", partition=0, leader=4),
        _answered(0, Request.ELECT),
        StepOver(topic="orders", partition=0, replicas=(4, 1, 2), leader=4),
        StateEntered(topic="orders", partition=0, state=State.DONE),
        LimitsChanged(old=LIMITS, new=later, batch=1, in_flight=0, command=2, who=WHO),
        _step(1, batch=2),
        Answered(
            topic="orders", partition=1, request=Request.ALTER, verdict=Verdict.UNKNOWN,
            message="no answer", node=4,
        ),
        CancelAsked(
            kind=CancelKind.ROLLBACK, partitions=(TopicPartition("orders", 1),), command=3, who=WHO
        ),
        Cancel(topic="orders", partition=1, reason="called off"),
        _answered(1, Request.CANCEL),
        StepOver(
            topic="orders", partition=1, replicas=(1, 2, 3), leader=1, reached=False, reason="off"
        ),
        StateEntered(topic="orders", partition=1, state=State.DONE),
        StateEntered(
            topic="orders", partition=2, state=State.CHANGED_ELSEWHERE, reason="someone",
            replicas=(5, 6, 7),
        ),
        UrgencyChanged(topic="orders", partition=3, why=Urgency.ONE_IN_SYNC),
        UrgencyChanged(topic="orders", partition=4, why=Urgency.UNDER_MIN_ISR),
        UrgencyChanged(topic="orders", partition=4),
        Replanned(topic="orders", partition=3, replicas=(1, 2, 5), before=(1, 2, 3)),
        StepGate(shut=True, reason="3 offline"),
        StepGate(shut=True, reason="the run starts at 2026-11-28 20:00", until=LATER),
        StepGate(shut=False),
        CancelGate(shut=True, reason=WHO),
        CancelGate(shut=False),
        Outage(lost=True, reason="no answer"),
        Outage(lost=False),
        Paused(
            by=PauseOrigin.OPERATOR, reason="", topics=("audit",),
            partitions=(TopicPartition("orders", 5),), command=4, who=WHO,
        ),
        Continued(by=PauseOrigin.OPERATOR, topics=("audit",), command=5, who=WHO),
        Paused(by=PauseOrigin.FAILURE, reason="orders-4 failed"),
        Paused(by=PauseOrigin.OTHERS, reason="others cancelled 3 steps"),
        Added(
            plan="more.json", plan_sha256="1" * 64, partitions=2,
            on_conflict=OnConflict.RETARGET, command=6, who=WHO,
        ),
        PlannedPart(partitions=(_planned(0), Planned("audit", 0, None, (2,), (1,), None, 7))),
        Joined(partitions=(TopicPartition("orders", 0),)),
        LimitsChanged(old=later, new=whole, batch=2, in_flight=0, command=2, who=WHO),
        Recording(on=False, reason="the disk is nearly full"),
        Noted(text="broker 4 gets a new disk at 15:00", command=7, who=WHO),
        EventCommandFailed(reason="--on-event page ended with exit code 1: no route"),
        EngineLeft(reason="its process got SIGTERM"),
        Recovered(lost="event 40 is damaged"),
        Exported(run="golden", file="golden.run", host="ops1", user="ada"),
        Imported(host="ops2", user="bob", connection={"context": "prod"}),
        Owned(pid=4712, host="ops2", user="bob", ownership_off=True),
        Configure(changes=(off,), puts_back=True),
        SettingChanged(resource=BROKER_4, key=FOLLOWER_RATE, found="9000000"),
        SettingsGivenUp(resource=ORDERS, keys=(FOLLOWER_REPLICAS,), reason="the topic is gone"),
        StateEntered(topic="orders", partition=4, state=State.TOPIC_GONE, reason="deleted"),
        Ended(
            counts={State.DONE: 2, State.TOPIC_GONE: 1},
            open=(OpenRequest(topic="orders", partition=1, node=4),),
        ),
    ]  # fmt: skip


def commands() -> list[tuple[Command, Answer | None]]:
    """Return every kind of command, each with an answer or None."""
    tp = TopicPartition("orders", 5)
    yes = Answer(accepted=True, words="in force", batch=2)
    return [
        (SetThrottle(RATES), yes),
        (SetSchedule(window="22:00-05:00,Sat", while_command="/bin/check"), yes),
        (SetLimits({"partitions": 4}, instead_of=LIMITS), yes),
        (SetThrottle(RATES, instead_of=RATES), yes),
        (SetLimits({"partitions": 3, "per-broker": None, "mode": "wave"}), yes),
        (SetLimits({}, {3: {"per-broker": 1, "per-leader": "run"}}), yes),
        (CancelMoves(CancelKind.ROLLBACK, (), (TopicPartition("orders", 1),)), yes),
        (Pause(PauseOrigin.OPERATOR, ("audit",), (tp,)), yes),
        (Continue(("audit",), ()), Answer(accepted=False, words="topic audit is not in the run")),
        (Add("more.json", "1" * 64, (_planned(0),), OnConflict.RETARGET), yes),
        (LeaveThrottles(), None),
        (AddNote("broker 4 gets a new disk at 15:00"), yes),
        (StopEngine(), None),
    ]


def golden() -> Golden:
    with tempfile.TemporaryDirectory() as folder:
        clock = VirtualClock()
        with Journal.create(Path(folder) / "journal.db", clock) as journal:
            for event in events():
                clock.pass_time(1.25)
                journal.append([event])
            for command, answer in commands():
                number = journal.ask(command, WHO)
                if answer is not None:
                    journal.answer(number, answer)
            run = Run("golden").fold(journal.entries())
            path = journal.path
        connection = journal_file.connect(path, read_only=True)
        connection.text_factory = str
        rows = [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - ours
            for table in ("events", "commands")
        ]
        connection.close()
    return Golden(__version__, rows[0], rows[1], summary(run))


def main() -> None:
    FILE.write_text(_a_row_a_line(golden()), encoding="utf-8")


def _a_row_a_line(made: Golden) -> str:
    parts = []
    for name in made.__struct_fields__:
        value = getattr(made, name)
        rows = ",\n ".join(msgspec.json.encode(each).decode() for each in value)
        whole = isinstance(value, list)
        text = f"[\n {rows}\n]" if whole else msgspec.json.encode(value).decode()
        parts.append(f'"{name}": {text}')
    return "{" + ",\n".join(parts) + "}\n"


def _started() -> Started:
    options = RunOptions(
        on_stall=OnStall.CANCEL, stall_timeout_s=120.5, on_foreign_change=OnForeignChange.REPLAN,
        on_foreign_throttle=OnForeignThrottle.GO_ON,
        stop_on_failure=True, urgent_first=True, most_under_min_isr=3, most_offline=0,
        throttle=RATES,
        throttle_leaders=True, schedule=SCHEDULE, poll_s=2.0, record=False,
        on_event="/usr/local/bin/page drain", metrics_file="/var/lib/metrics/drain.prom",
        canary=True,
        sli_command="/usr/local/bin/latency drain",
        sli_prometheus=("http://prometheus:9090", "max(latency)"),
    )  # fmt: skip
    return Started(
        cluster_id="cFlPpHqxRmOaCrPxQZu1bA",
        plan="drain.json",
        plan_sha256="0" * 64,
        partitions=6,
        limits=LIMITS,
        options=options,
        connection={"context": "prod"},
        version=__version__,
        racks={"a": (4,), "b": (5, 6)},
    )


def _planned(number: int) -> Planned:
    return Planned(
        "orders", number, "id", (4, 1, 2), (1, 2, 3), 1, size=1_000 * number, sized=number > 0
    )


def _step(partition: int, batch: int = 1, elect: int | None = None) -> StepBegun:
    return StepBegun(
        topic="orders", partition=partition, batch=batch, replicas=(4, 1, 2), adding=(4,),
        removing=(3,), elect=elect, before=(1, 2, 3), leader=1, alters=True,
        moves_leader=elect is not None, cut=True, urgent=True, alone=True, holds_place=False,
        among_urgent=True,
    )  # fmt: skip


def _answered(partition: int, request: Request) -> Answered:
    return Answered(topic="orders", partition=partition, request=request, verdict=Verdict.ACCEPTED)


if __name__ == "__main__":
    main()
