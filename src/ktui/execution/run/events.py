"""The events of a run, as the journal keeps them and scripts read them: a run is their fold.

Each event is one JSON object whose `event` field names its kind. Intents (`step`, `elect`,
`cancel`) are written and synced before anything is sent. `answered` is the outcome. The times and
numbers of events are in the journal's rows, not in the events.
"""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, Setting, Verdict
from ktui.execution.run.options import RunOptions, Schedule
from ktui.execution.run.states import CancelKind, State
from ktui.json_text import Dated, decode_untrusted, unknown_field
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Move, Step, Urgency, weight_of
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates


class RateCause(enum.StrEnum):
    """Why a rate moved last, or stays."""

    OVER = "over"  # down: the figure was too high
    FAR_OVER = "far_over"  # down at once: the figure was more than twice as high
    UNDER = "under"  # up: the figure was below the band
    IN_BAND = "in_band"  # stays: the figure was in the band
    UNUSED = "unused"  # stays: too little of the rate was in use
    NO_FIGURE = "no_figure"  # down to the least rate: there was no figure


class RateReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a rate moved last, or stays, with the facts that decided it."""

    cause: RateCause
    figure: float | None = None  # the mean of the windows' figures, or one far over; None for none
    of: int | None = None  # the broker whose figure it was; None for one of all brokers
    used: float | None = None  # the share of the rate that was in use; None while unknown
    aim: float = 1.0  # the part of the objective that the mean stays below, for single windows


class HeldBroker(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an objective allows for one broker."""

    broker: int
    rate: int | None = None  # bytes a second into the broker; None for one that only sends
    figure: float | None = None  # its own figure in the last window; None if there was none
    why: RateReason | None = None  # None while it has not been decided yet


class RunEvent(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """An event of a run. Fields that have their default are not written."""


class Recording(RunEvent, frozen=True, kw_only=True, tag="recording"):
    """The engine has begun or stopped recording what it observes."""

    on: bool
    reason: str = ""  # why recording is off; empty where asked for


NOT_RECORDED = Recording(on=False)


class ThrottleEvent(RunEvent, frozen=True):
    """An event about throttles: one of the kinds below."""


class ThrottleChanged(ThrottleEvent, frozen=True, kw_only=True, tag="throttle"):
    """New rates are in force, at once and also for the steps in flight."""

    old: ThrottleRates
    new: ThrottleRates
    command: int | None = None
    who: str = ""  # the operator, as user@host (pid); empty where nobody asked


class BudgetShared(ThrottleEvent, frozen=True, kw_only=True, tag="budget_shared"):
    """The budget of the throttle is shared in this way from now on."""

    shares: tuple[BrokerRate, ...]  # the share of each broker that receives copies


class RateChosen(ThrottleEvent, Dated, frozen=True, kw_only=True, tag="rate_chosen"):
    """The lowest rate into each broker at which the run is expected to end by the time of --by."""

    rate: int | None = None  # bytes a second; None where the run needs all there is
    ends_at: datetime  # the latest expected end
    late: bool = False  # whether that is after the time promised, even at any rate


class RateHeld(ThrottleEvent, frozen=True, kw_only=True, tag="rate_held"):
    """The rate at which the objective of --slo holds: into each broker, or into single ones."""

    rate: int  # bytes a second into each broker that `brokers` gives none
    figure: float | None = None  # of the last window, in the objective's unit; the highest broker's
    reason: str = ""  # why there is none
    windows: int = 0  # those with copies so far, and those that kept the objective
    kept: int = 0
    why: RateReason | None = None  # why the rate moved last or stays; by broker: the highest one's
    brokers: tuple[HeldBroker, ...] = ()  # those that copy; none where one figure is that of all

    @property
    def rates(self) -> dict[int, int]:
        return {each.broker: each.rate for each in self.brokers if each.rate is not None}


class FoundSetting(msgspec.Struct, frozen=True):
    """A setting as it stood before the run touched it."""

    resource: ConfigResource
    key: str
    before: Setting | None  # None where nobody has set it: brokers do not report such rates


class SettingsFound(ThrottleEvent, frozen=True, kw_only=True, tag="settings_found"):
    """The values to restore, written before any of these settings is touched."""

    found: tuple[FoundSetting, ...]


class Configure(ThrottleEvent, frozen=True, kw_only=True, tag="configure"):
    """An intent: settings are about to change. Nothing is sent before it is in the journal."""

    changes: tuple[ConfigChange, ...]
    puts_back: bool = False  # whether these changes restore the values from before the run


class Configured(ThrottleEvent, frozen=True, kw_only=True, tag="configured"):
    """The outcome of the last intent about one resource."""

    resource: ConfigResource
    verdict: Verdict
    code: str | None = None
    message: str = ""
    node: int | None = None  # got the request, did not answer; None if it answered or is unknown


class SettingChanged(ThrottleEvent, frozen=True, kw_only=True, tag="setting_changed"):
    """Somebody else changed a setting in use; the run sets a deleted one again, a rate stays."""

    resource: ConfigResource
    key: str
    found: str | None  # the present value; None where there is none


class SettingsGivenUp(ThrottleEvent, frozen=True, kw_only=True, tag="settings_left"):
    """The run has given settings up as they are: someone else's value, or the resource is gone."""

    resource: ConfigResource
    keys: tuple[str, ...]
    reason: str  # empty where the run has not changed these settings


class CancelAsked(RunEvent, frozen=True, kw_only=True, tag="cancel_asked"):
    """A cancel: from here on, no request moves these partitions towards their targets."""

    kind: CancelKind
    partitions: tuple[TopicPartition, ...]
    command: int | None = None
    who: str = ""


class CancelGate(RunEvent, frozen=True, kw_only=True, tag="cancel_gate"):
    """The cancel gate (KIP-236) was shut, so that only cancels and rollbacks go, or opened."""

    shut: bool
    reason: str = ""  # the operator who shut the gate, and when


class OnConflict(enum.StrEnum):
    """What to do with a partition of an extra plan that the run is moving elsewhere."""

    ROLLBACK = "rollback"  # roll it back first, then queue it with its new target (KIP-236)
    KEEP = "keep"  # keep the run's own target; drop that of the extra plan for this partition
    RETARGET = "retarget"  # cancel its step, and go to the new target from the present one


class Added(RunEvent, frozen=True, kw_only=True, tag="added"):
    """An extra plan joins the run; its partitions follow in `planned` events, all or none."""

    plan: str  # the name of the plan's file
    plan_sha256: str
    partitions: int
    on_conflict: OnConflict
    command: int | None = None
    who: str = ""


class Joined(RunEvent, frozen=True, kw_only=True, tag="joined"):
    """Partitions whose earlier moves are over are queued for their targets of an extra plan."""

    partitions: tuple[TopicPartition, ...]


class Planned(msgspec.Struct, frozen=True, gc=False):
    """One partition of the run, as it was before the run."""

    topic: str
    partition: int
    topic_id: str | None
    target: Brokers
    original: Brokers  # in order, without any being added; Kafka forgets them
    leader: int | None
    size: int = 0  # bytes of the leader's replica; 0 where the size could not be read
    sized: bool = True  # whether the size is known
    ahead: int = 0  # bytes by which it goes before others with `long-first`; 0 for most

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def weight(self) -> int:
        """What each of its replicas counts under V and W while it is being added, in bytes."""
        return weight_of(self.size, known=self.sized)


class PauseOrigin(enum.StrEnum):
    """The origin of a pause, or of its end."""

    OPERATOR = "operator"
    SIGNAL = "signal"  # an interrupt from the terminal that started it
    UNTIL = "until"  # the time of --until: nothing more fits before it
    FAILURE = "failure"  # a partition failed under --stop-on-failure; or a permission is missing
    RECOVERY = "recovery"  # the journal was damaged: commands for pauses and limits may be lost
    OTHERS = "others"  # others cancelled several steps in flight, or all of them

    @property
    def words(self) -> str:
        return _PAUSE_ORIGINS[self]


_PAUSE_ORIGINS = {
    PauseOrigin.OPERATOR: "an operator",
    PauseOrigin.SIGNAL: "an interrupt (Ctrl-C)",
    PauseOrigin.UNTIL: "the time given with --until",
    PauseOrigin.FAILURE: "a failure",
    PauseOrigin.RECOVERY: "the recovery of a damaged journal",
    PauseOrigin.OTHERS: "others",
}


class Started(RunEvent, frozen=True, kw_only=True, tag="started"):
    """A run was created; its partitions, `partitions` in number, follow in `planned` events."""

    cluster_id: str
    plan: str  # the name of the plan's file
    plan_sha256: str
    partitions: int
    limits: Limits
    options: RunOptions
    connection: dict[str, str] = msgspec.field(default_factory=dict)  # options; no secret
    version: str  # the version of ktui
    racks: dict[str, tuple[int, ...]] = {}  # rack -> brokers, for limits that count by rack

    @property
    def rack_of(self) -> dict[int, str]:
        return {broker: rack for rack, brokers in self.racks.items() for broker in brokers}


class PlannedPart(RunEvent, frozen=True, kw_only=True, tag="planned"):
    """Some of the run's partitions, in the order of the plan."""

    partitions: tuple[Planned, ...]


class Owned(RunEvent, Dated, frozen=True, kw_only=True, tag="owned"):
    """An engine took the run on: the first one, or one that resumed it."""

    pid: int
    host: str
    user: str
    until: datetime | None = None  # nothing begins that is not expected to end by then
    ownership_off: bool = False  # --no-ownership: it does not check who owns the cluster


class EngineLeft(RunEvent, frozen=True, kw_only=True, tag="left"):
    """The engine of the run has exited before the run's end."""

    reason: str


class Exported(RunEvent, frozen=True, kw_only=True, tag="exported"):
    """The run was exported, and goes on in the directory that imports it: this ends the file."""

    run: str  # the run's name here
    file: str
    host: str
    user: str


class Imported(RunEvent, frozen=True, kw_only=True, tag="imported"):
    """The run was imported from a file, and goes on in this state directory."""

    host: str
    user: str
    connection: dict[str, str]  # its address from now on: bootstrap_server, command_config, context


class LimitsChanged(RunEvent, frozen=True, kw_only=True, tag="limits"):
    """New limits are in force, for every decision after `batch`."""

    old: Limits
    new: Limits
    batch: int  # the last decision under the old limits
    in_flight: int  # how many steps in flight stayed as they were
    command: int | None = None
    who: str = ""  # the operator, as user@host (pid); empty where nobody asked


class Paused(RunEvent, frozen=True, kw_only=True, tag="paused"):
    """A pause of the whole run or part of it: no new step is submitted; those in flight finish."""

    by: PauseOrigin
    reason: str = ""
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    command: int | None = None
    who: str = ""


class Continued(RunEvent, frozen=True, kw_only=True, tag="continued"):
    """A pause was lifted; without topics and partitions, every pause of the same origin."""

    by: PauseOrigin
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    command: int | None = None
    who: str = ""


class StepGate(RunEvent, Dated, frozen=True, kw_only=True, tag="gate"):
    """The cluster's health, an unknown owner or the schedule holds new steps back, or no longer."""

    shut: bool
    reason: str = ""
    until: datetime | None = None  # when it opens, where known: the schedule's


class ScheduleChanged(RunEvent, frozen=True, kw_only=True, tag="schedule"):
    """Steps may begin at other times from now on."""

    old: Schedule
    new: Schedule
    command: int | None = None
    who: str = ""  # the operator who asked, as user@host (pid)


class Outage(RunEvent, frozen=True, kw_only=True, tag="outage"):
    """The engine has lost the cluster, or has an answer again."""

    lost: bool
    reason: str = ""


class _OfPartition(RunEvent, frozen=True):
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class StepBegun(_OfPartition, frozen=True, kw_only=True, tag="step"):
    """An intent: a step of a partition is about to be sent, never before this is written."""

    batch: int
    replicas: Brokers  # the replicas asked for, in order (TR)
    adding: Brokers
    removing: Brokers
    elect: int | None  # the preferred leader to elect once the alter is over
    before: Brokers  # in order, just before; at its first step the original ones
    leader: int | None
    alters: bool = True  # False for a step that only elects
    moves_leader: bool = False
    cut: bool = False
    urgent: bool = False
    alone: bool = False  # sent while nothing else was in flight: it never fits the limits
    holds_place: bool = True
    among_urgent: bool = False  # the step counts with those of urgent partitions

    @property
    def step(self) -> Step:
        return Step(
            target=self.replicas, adds=self.adding, drops=self.removing, alters=self.alters,
            elects=self.elect, moves_leader=self.moves_leader, cut=self.cut, urgent=self.urgent,
        )  # fmt: skip

    @property
    def move(self) -> Move:
        return Move(self.tp, self.step, self.alone, self.holds_place, self.among_urgent)


class Elect(_OfPartition, frozen=True, kw_only=True, tag="elect"):
    """An intent: the election at the end of a step."""

    leader: int


class Cancel(_OfPartition, frozen=True, kw_only=True, tag="cancel"):
    """An intent: the step in flight is cancelled (KIP-455)."""

    reason: str


class Request(enum.StrEnum):
    """The kind of a request to Kafka for a partition."""

    ALTER = "alter"
    ELECT = "elect"
    CANCEL = "cancel"


class Answered(_OfPartition, frozen=True, kw_only=True, tag="answered"):
    """The outcome of a request: accepted, refused with the broker's message, or unknown."""

    request: Request
    verdict: Verdict
    code: str | None = None  # Kafka's name of the error; None with `refused`: nothing was sent
    message: str = ""
    node: int | None = None  # the broker that got the request, where its answer was lost


class StepOver(_OfPartition, frozen=True, kw_only=True, tag="step_over"):
    """A step has ended; `reached`: with the replicas asked for, and its election done."""

    replicas: Brokers
    leader: int | None
    reached: bool = True
    reason: str = ""


class StateEntered(_OfPartition, frozen=True, kw_only=True, tag="state"):
    """A partition has entered a state without an intent of the run."""

    state: State
    reason: str = ""
    replicas: Brokers | None = None  # its present replicas, where someone else has changed them


class UrgencyChanged(_OfPartition, frozen=True, kw_only=True, tag="urgency"):
    """A waiting partition goes before the others from now on, or does not any more."""

    why: Urgency | None = None  # why it is urgent; None if it is not any more


class Replanned(_OfPartition, frozen=True, kw_only=True, tag="replanned"):
    """Someone else changed a waiting partition's replicas; its move to the target starts there."""

    replicas: Brokers
    before: Brokers


class Noted(RunEvent, frozen=True, kw_only=True, tag="note"):
    """An operator's note on the run, for whoever reads its events."""

    text: str
    command: int | None = None
    who: str = ""


class EventCommandFailed(RunEvent, frozen=True, kw_only=True, tag="on_event_failed"):
    """The command of `--on-event` did not take a notice; the run goes on all the same."""

    reason: str


class Recovered(RunEvent, frozen=True, kw_only=True, tag="recovered"):
    """The journal was damaged; the events before this one are all that could be read."""

    lost: str  # the damage, and where the damaged file is


class OpenRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alter or cancel that was not answered, and may take effect after the run has ended."""

    topic: str
    partition: int
    node: int | None = None  # the broker that has the request; None if it is not known


class Ended(RunEvent, frozen=True, kw_only=True, tag="ended"):
    """Every partition has reached its end."""

    counts: dict[State, int]
    open: tuple[OpenRequest, ...] = ()  # the requests that may still take effect


AnyRunEvent = (
    Started | PlannedPart | Owned | EngineLeft | Exported | Imported | LimitsChanged | Paused
    | Continued | StepGate | ScheduleChanged | Outage
    | StepBegun | Elect | Cancel | Answered | StepOver | StateEntered | UrgencyChanged | Replanned
    | Recovered
    | Ended
    | ThrottleChanged | BudgetShared | RateChosen | RateHeld
    | SettingsFound | Configure | Configured | SettingsGivenUp | SettingChanged
    | CancelAsked | CancelGate | Added | Joined | Recording | Noted | EventCommandFailed
)  # fmt: skip


class JournalEntry(msgspec.Struct, frozen=True):
    """An event as stored in the journal."""

    seq: int  # from 1, without gaps
    at: datetime  # wall time, UTC
    event: AnyRunEvent


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(AnyRunEvent)


def encode(event: AnyRunEvent) -> bytes:
    """Encode an event as JSON; the same event always gives the same bytes."""
    return _ENCODER.encode(event)


def decode(body: bytes) -> AnyRunEvent:
    """Decode an event from JSON.

    An event that this version would encode otherwise may have fields that it does not know.

    Raises:
        msgspec.DecodeError: this version does not know the event, or one of its fields.
    """
    event: AnyRunEvent = decode_untrusted(_DECODER, body)
    if _ENCODER.encode(event) != body and (field := unknown_field(body, event)):
        raise msgspec.ValidationError(f"it has a field `{field}` that only a newer ktui knows")
    return event
