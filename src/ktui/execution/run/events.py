"""What happens in a run, as the journal keeps it and scripts read it: a run is their fold.

Each is one JSON object whose `event` names it. Intents (`step`, `elect`, `cancel`) are written and
synced before anything is sent; `answered` is what came back. Times and numbers of events are with
the journal's rows, not in here.
"""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, Setting, Verdict
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import State
from ktui.execution.run.unknown_fields import unknown_field
from ktui.json_input import checked_moment, decode_untrusted
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Step
from ktui.planning.throttle_rates import ThrottleRates


class RunEvent(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened in a run. Fields that are as by default are not written."""


class Recording(RunEvent, frozen=True, kw_only=True, tag="recording"):
    """What the process that owns the run sees is recorded, or is not any more."""

    on: bool
    reason: str = ""
    """Why not; empty where that is as was asked for."""


NOT_RECORDED = Recording(on=False)


class ThrottleEvent(RunEvent, frozen=True):
    """One of those below."""


class ThrottleChanged(ThrottleEvent, frozen=True, kw_only=True, tag="throttle"):
    """Other rates were put in force, at once and also for what is in flight."""

    old: ThrottleRates
    new: ThrottleRates
    command: int | None = None
    who: str = ""
    """Who asked for it, where someone did: user@host (pid)."""


class FoundSetting(msgspec.Struct, frozen=True):
    """A setting as it stood before the run touched it."""

    resource: ConfigResource
    key: str
    before: Setting | None
    """None where nobody has set it: of such rates a broker tells nothing."""


class SettingsFound(ThrottleEvent, frozen=True, kw_only=True, tag="settings_found"):
    """Written before any of these settings is touched: what they are put back to."""

    found: tuple[FoundSetting, ...]


class Configure(ThrottleEvent, frozen=True, kw_only=True, tag="configure"):
    """An intent: settings are about to be changed. Nothing is sent before it is in the journal."""

    changes: tuple[ConfigChange, ...]
    puts_back: bool = False
    """Whether these give a setting back what stood there before the run."""


class Configured(ThrottleEvent, frozen=True, kw_only=True, tag="configured"):
    """What became of the last intent about one resource."""

    resource: ConfigResource
    verdict: Verdict
    code: str | None = None
    message: str = ""
    node: int | None = None
    """The broker that got it, where it did not answer and is known."""


class SettingChanged(ThrottleEvent, frozen=True, kw_only=True, tag="setting_changed"):
    """Somebody else changed or deleted a setting of the run while it is needed.

    What they deleted is set again. A rate that they set stays.
    """

    resource: ConfigResource
    key: str
    found: str | None
    """The value that is there now; None where there is none."""


class SettingsLeft(ThrottleEvent, frozen=True, kw_only=True, tag="settings_left"):
    """Settings that are the run's no more, as they stand: someone else's value, or no resource."""

    resource: ConfigResource
    keys: tuple[str, ...]
    reason: str
    """Empty where the run has changed nothing there."""


class CancelAsked(RunEvent, frozen=True, kw_only=True, tag="cancel_asked"):
    """From here on some partitions do not go to their targets; nothing that does is sent."""

    kind: CancelKind
    partitions: tuple[TopicPartition, ...]
    command: int | None = None
    who: str = ""


class CancelGate(RunEvent, frozen=True, kw_only=True, tag="cancel_gate"):
    """The cluster's cancel gate (KIP-236's reassign_cancel) was found shut, or open again.

    While it is shut nothing is submitted on the cluster but what cancels and rolls back.
    """

    shut: bool
    reason: str = ""
    """Who shut it, and when."""


CancelEvent = CancelAsked | CancelGate


class OnConflict(enum.StrEnum):
    """What becomes of a partition that the run is moving elsewhere."""

    ROLLBACK = "rollback"
    """It is rolled back first, then queued with its new target (KIP-236)."""
    KEEP = "keep"
    """The run's own target stays, and the extra plan's is dropped for it."""
    RETARGET = "retarget"
    """Its step in flight is cancelled, and it goes to the new target from where it is."""


class Added(RunEvent, frozen=True, kw_only=True, tag="added"):
    """An extra plan joins the run; `partitions` of it follow in `planned` events, all or none."""

    plan: str
    """The file's name."""
    plan_sha256: str
    partitions: int
    on_conflict: OnConflict
    command: int | None = None
    who: str = ""


class Joined(RunEvent, frozen=True, kw_only=True, tag="joined"):
    """Partitions that the run had before wait in its queue for what an extra plan wants of them.

    What the run did with them before is over.
    """

    partitions: tuple[TopicPartition, ...]


AddEvent = Added | Joined


class Planned(msgspec.Struct, frozen=True, gc=False):
    """One partition of the run, as it was before the run."""

    topic: str
    partition: int
    topic_id: str | None
    target: Brokers
    original: Brokers
    """Its replicas in order, those that someone was adding left out: Kafka forgets them."""
    leader: int | None
    size: int = 0
    """Bytes of the leader's replica; 0 where that could not be read."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class By(enum.StrEnum):
    """Who paused a run, or let it go on."""

    OPERATOR = "operator"
    SIGNAL = "signal"
    """An interrupt from the terminal that started it."""
    UNTIL = "until"
    """The time given with --until: nothing more fits before it."""
    FAILURE = "failure"
    """A partition failed, and --stop-on-failure was given; or a permission is missing."""
    RECOVERY = "recovery"
    """The journal was damaged: pauses and limits that were asked for may be lost."""


class Started(RunEvent, frozen=True, kw_only=True, tag="started"):
    """A run was made; `partitions` of them follow in `planned` events."""

    cluster_id: str
    plan: str
    """The file's name."""
    plan_sha256: str
    partitions: int
    limits: Limits
    options: RunOptions
    connection: dict[str, str] = msgspec.field(default_factory=dict)
    """How the cluster was named: bootstrap_server, command_config, context. Never a secret."""
    version: str
    """Of ktui."""


class PlannedPart(RunEvent, frozen=True, kw_only=True, tag="planned"):
    """Some of the run's partitions, in the order of the plan."""

    partitions: tuple[Planned, ...]


class Owned(RunEvent, frozen=True, kw_only=True, tag="owned"):
    """A process took the run on: the first one, or one that resumed it."""

    pid: int
    host: str
    user: str
    until: datetime | None = None
    """It begins nothing that is not expected to end by then."""
    ownership_off: bool = False
    """It was told not to ask who owns the cluster."""

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        if self.until is not None:
            checked_moment(self.until)


class Left(RunEvent, frozen=True, kw_only=True, tag="left"):
    """The process that owned the run went, and the run was not at its end."""

    reason: str


class Exported(RunEvent, frozen=True, kw_only=True, tag="exported"):
    """The run was written into a file, and goes on in the state directory that takes it from there.

    It is the last event in the file. Here nothing more happens until the run is imported again.
    """

    run: str
    """Its name here."""
    file: str
    host: str
    user: str


class Imported(RunEvent, frozen=True, kw_only=True, tag="imported"):
    """The run was taken from a file, and goes on in this state directory."""

    host: str
    user: str
    connection: dict[str, str]
    """How the cluster is named from now on: bootstrap_server, command_config, context."""


class LimitsChanged(RunEvent, frozen=True, kw_only=True, tag="limits"):
    """Other limits were put in force, for every decision after `batch`."""

    old: Limits
    new: Limits
    batch: int
    """The last decision that was made under the old ones."""
    in_flight: int
    """How many steps stayed as they were."""
    command: int | None = None
    who: str = ""
    """Who asked for it, where someone did: user@host (pid)."""


class Paused(RunEvent, frozen=True, kw_only=True, tag="paused"):
    """Nothing new is submitted, for the whole run or for some of it; what is in flight finishes."""

    by: By
    reason: str = ""
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    command: int | None = None
    who: str = ""


class Continued(RunEvent, frozen=True, kw_only=True, tag="continued"):
    """A pause was lifted; without topics and partitions, every pause of the same kind."""

    by: By
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    command: int | None = None
    who: str = ""


class Gate(RunEvent, frozen=True, kw_only=True, tag="gate"):
    """The cluster's health let no new step begin, or does so again."""

    shut: bool
    reason: str = ""


class Outage(RunEvent, frozen=True, kw_only=True, tag="outage"):
    """The process that owns the run has lost the cluster, or has it again."""

    lost: bool
    reason: str = ""


class StepBegun(RunEvent, frozen=True, kw_only=True, tag="step"):
    """An intent: a step of a partition that is about to be sent. It is never sent before this."""

    topic: str
    partition: int
    batch: int
    replicas: Brokers
    """What is asked for, in order (TR)."""
    adding: Brokers
    removing: Brokers
    elect: int | None
    """Who is to be elected as the preferred leader, once the alter is over."""
    before: Brokers
    """The replicas in order just before; for the first step of a partition, its original ones."""
    leader: int | None
    alters: bool = True
    """False where the election is all."""
    moves_leader: bool = False
    cut: bool = False
    urgent: bool = False
    alone: bool = False
    """It can never fit the limits, and went when nothing else did."""
    holds_place: bool = True

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def step(self) -> Step:
        """The step as pacing has it."""
        return Step(
            target=self.replicas, adds=self.adding, drops=self.removing, alters=self.alters,
            elects=self.elect, moves_leader=self.moves_leader, cut=self.cut, urgent=self.urgent,
        )  # fmt: skip


class _OfPartition(RunEvent, frozen=True, kw_only=True):
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class Elect(_OfPartition, frozen=True, kw_only=True, tag="elect"):
    """An intent: the election at the end of a step."""

    leader: int


class Cancel(_OfPartition, frozen=True, kw_only=True, tag="cancel"):
    """An intent: the step in flight is cancelled (KIP-455)."""

    reason: str


class Request(enum.StrEnum):
    """What was asked of Kafka for a partition."""

    ALTER = "alter"
    ELECT = "elect"
    CANCEL = "cancel"


class Answered(_OfPartition, frozen=True, kw_only=True, tag="answered"):
    """What became of a request: accepted, refused in the broker's words, or unknown."""

    request: Request
    verdict: Verdict
    code: str | None = None
    """Kafka's name of the error; None with `refused` where nothing could be sent."""
    message: str = ""
    node: int | None = None
    """The broker that the request went to, where its answer was lost."""


class StepOver(_OfPartition, frozen=True, kw_only=True, tag="step_over"):
    """The step in flight has ended.

    `reached` where the replicas are what it asked for, and its election has taken place.
    """

    replicas: Brokers
    leader: int | None
    reached: bool = True
    reason: str = ""


class NowIn(_OfPartition, frozen=True, kw_only=True, tag="state"):
    """A partition came into a state that no intent of ours put it in."""

    state: State
    reason: str = ""
    replicas: Brokers | None = None
    """Those that it has now, where someone else gave it other ones."""


class Replanned(_OfPartition, frozen=True, kw_only=True, tag="replanned"):
    """Someone else gave a waiting partition other replicas; it goes on to its target from there."""

    replicas: Brokers
    before: Brokers


class Recovered(RunEvent, frozen=True, kw_only=True, tag="recovered"):
    """The journal was damaged; what is before this event is all that could be read."""

    lost: str
    """What was wrong, and where the damaged file is."""


class OpenRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An alter or cancel that was not answered, and may take effect after the run has ended."""

    topic: str
    partition: int
    node: int | None = None
    """The broker that has it, where that is known."""


class Ended(RunEvent, frozen=True, kw_only=True, tag="ended"):
    """Every partition has reached its end."""

    counts: dict[State, int]
    open: tuple[OpenRequest, ...] = ()
    """What may take effect yet."""


AnyRunEvent = (
    Started | PlannedPart | Owned | Left | Exported | Imported | LimitsChanged | Paused | Continued
    | Gate | Outage
    | StepBegun | Elect | Cancel | Answered | StepOver | NowIn | Replanned | Recovered | Ended
    | ThrottleChanged | SettingsFound | Configure | Configured | SettingsLeft | SettingChanged
    | CancelAsked | CancelGate | Added | Joined | Recording
)  # fmt: skip


class JournalEntry(msgspec.Struct, frozen=True):
    """An event as it stands in the journal."""

    seq: int
    """From 1, without gaps."""
    at: datetime
    """Wall time, UTC."""
    event: AnyRunEvent


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(AnyRunEvent)


def encode(event: AnyRunEvent) -> bytes:
    """Give an event as JSON; the same event always as the same bytes."""
    return _ENCODER.encode(event)


def decode(body: bytes) -> AnyRunEvent:
    """Read an event.

    What this version would not write in the same way may have fields that it does not know.

    Raises:
        msgspec.DecodeError: it is none that this version knows, or has a field that it does not.
    """
    event: AnyRunEvent = decode_untrusted(_DECODER, body)
    if _ENCODER.encode(event) != body and (field := unknown_field(body, event)):
        raise msgspec.ValidationError(f"it has a field `{field}` that only a newer ktui knows")
    return event
