"""The schema of a scenario file, key by key. docs/scenarios.md explains it to users."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from ktui.captions import Caption, TourStep
from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean
from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits
from ktui.quantities import Rate, Seconds, Share, Size, parse_quantity
from ktui.simulated.layout import VERSIONS, ClusterSpec, ScheduledEvent
from ktui.yamlfile import KeyPath, YamlFile

FASTEST = 100.0  # the cluster's seconds per real second; nobody can follow more
MOST_AHEAD_S = 3_600.0  # that are played before a view opens, while nothing is seen


class ScenarioPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions to move, and when to start."""

    targets: dict[TopicPartition, tuple[int, ...]]
    """Final replicas in order, the preferred leader first; only partitions that change."""
    start_s: float = 0.0
    throttle: float | None = None  # bytes a second that each broker receives for added replicas


class RatesFrom(enum.StrEnum):
    """Where the rates of a snapshot are from."""

    ASSUMED = "assumed"
    RECORDED = "recorded"  # from recorded runs, by way of the insights


class SnapshotRates(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker takes in of the replicas that it is adding. Bytes a second, ascending."""

    slow: float
    usual: float
    fast: float
    half_at: float = 0.0  # replicas at once that take in half; 0 where any number takes all
    most_at: int | None = None  # replicas at once beyond which more bring no more
    throttled: float = 1.0  # the share of a replication throttle that it takes in
    of: Mapping[int, float] = {}  # of brokers that differ; in a file, `copy-in`
    source: RatesFrom


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster of a scenario comes from, if it is the twin of a real one."""

    cluster: str  # the id of the real cluster, or what hides it
    taken: datetime
    rates: SnapshotRates


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The checked contents of a scenario file."""

    title: str
    about: str
    spec: ClusterSpec
    faults: tuple[ScheduledEvent, ...] = ()
    plan: ScenarioPlan | None = None
    limits: Limits = Limits()
    speed: float = 1.0
    opens_at_s: float = 0.0  # what is before it has been played when the view opens
    captions: tuple[Caption, ...] = ()
    tour: tuple[TourStep, ...] = ()
    snapshot: SnapshotInfo | None = None  # None for a cluster that somebody made up


T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
CountField = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
BrokerId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
HalfAt = Annotated[float, msgspec.Meta(ge=0, le=1_000)]
ThrottleShare = Annotated[float, msgspec.Meta(gt=0, le=1)]
Speed = Annotated[float, msgspec.Meta(gt=0, le=FASTEST)]
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Text = str | int | float | bool  # a setting's value, which YAML may read as a number or a boolean


class FieldPlace:
    """A value in a file, for errors that name its line."""

    def __init__(self, file: YamlFile, keys: KeyPath = ()) -> None:
        self._file = file
        self._keys = keys

    def at(self, *keys: str | int) -> FieldPlace:
        return FieldPlace(self._file, (*self._keys, *keys))

    def problem(self, words: str) -> FileProblem:
        name = clean(".".join(map(str, self._keys)))
        return self._file.problem(self._keys, f"{name}: {words}" if name else words)

    def convert(self, value: Any, to: type[V]) -> V:
        return self._file.convert(self._keys, value, to, hook=parse_quantity)


def _key(field: str) -> str:
    return field.removesuffix("_s").replace("_", "-")


class ScenarioSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=_key):
    """A section of a file. Its fields are named as those of the record that it becomes.

    Keys are in kebab-case, without the unit of seconds, and unknown keys are errors.
    """


def record_of(kind: type[T], part: ScenarioSection, **more: Any) -> T:
    """Return the record with the fields of a section, as far as they are set, and with `more`."""
    found = {name: _plain(getattr(part, name, None)) for name in kind.__struct_fields__}
    return kind(**{name: value for name, value in found.items() if value is not None} | more)


def _plain(value: Any) -> Any:
    """Return a quantity as a number."""
    if isinstance(value, Rate | Seconds | Share):
        return float(value)
    return int(value) if isinstance(value, Size) else value


class MachinePart(ScenarioSection, frozen=True, kw_only=True):
    """What a broker's machine can do."""

    net_in: Rate | None = msgspec.field(name="network-in", default=None)
    net_out: Rate | None = msgspec.field(name="network-out", default=None)
    disk_write: Rate | None = None
    copy_in: Rate | None = None
    copy_half_at: HalfAt | None = None
    copy_most_at: CountField | None = None
    throttle_share: ThrottleShare | None = None
    disk_bytes: Size | None = msgspec.field(name="disk", default=None)


class BrokerPart(MachinePart, frozen=True, kw_only=True):
    """One broker; missing fields are taken from the cluster."""

    id: BrokerId
    rack: str | None = None
    down: bool = False
    configs: dict[str, Text] = {}


class TidePart(ScenarioSection, frozen=True, kw_only=True):
    """The rise and fall of traffic."""

    swing: Share = Share(0)
    period_s: Seconds = Seconds(3_600)
    noise: Share = Share(0)


class ClusterPart(MachinePart, frozen=True, kw_only=True):
    """The cluster. `brokers` is a count, or a list of ids and of `BrokerPart`."""

    brokers: int | list[Any] = 3
    racks: list[str] = []
    version: str | float = VERSIONS[-1]
    name: str = "simulated"
    tide: TidePart = TidePart()
    session_timeout_s: Seconds = Seconds(9)
    lag_time_max_s: Seconds = msgspec.field(name="replica-lag-time", default=Seconds(30))
    startup_s: Seconds = Seconds(5)
    copy_start_s: Seconds = Seconds(0)
    metadata_lag_s: Seconds = Seconds(0.1)
    auto_leader_rebalance: bool = True
    rebalance_interval_s: Seconds = Seconds(300)
    configs: dict[str, Text] = {}


class TopicPart(ScenarioSection, frozen=True, kw_only=True):
    """A topic, or many alike.

    Either `replicas` places each partition, or the three fields before it say how many there are
    and on which brokers. `replicas`, `size` and `inbound` may be texts.
    """

    partitions: CountField | None = None
    replication_factor: CountField | None = None
    brokers: list[BrokerId] | None = None
    replicas: Any = None
    size: Any = 0
    message_size: Size = Size(1_000)
    inbound: Any = 0
    spread: Share = Share(0)
    configs: dict[str, Text] = {}


class TopicStartPart(TopicPart, frozen=True, kw_only=True):
    """A topic of the first moment, and how some of its partitions are then: maps or texts."""

    leaders: Any = None
    isr: Any = None
    reassigning: Any = None
    held: Any = None


class MovePart(ScenarioSection, frozen=True, kw_only=True, rename=None):
    """One partition's target, as in the plan files of Kafka's own tool."""

    topic: str
    partition: int
    replicas: list[BrokerId]
    log_dirs: list[Literal["any"]] | None = None


class TargetsPart(ScenarioSection, frozen=True, kw_only=True):
    """The goal of a plan: exactly one of these fields, and optionally `topics`."""

    topics: list[str] | None = None
    drain: list[BrokerId] | None = None
    expand: list[BrokerId] | None = None
    replication_factor: CountField | None = None
    leaders_off: list[BrokerId] | None = None
    partitions: list[MovePart] | None = None


class PlanPart(TargetsPart, frozen=True, kw_only=True):
    """The plan of a scenario."""

    start_s: Seconds = Seconds(5)
    throttle: Rate | None = None
    limits: dict[str, Any] = {}


class CaptionPart(ScenarioSection, frozen=True, kw_only=True):
    """One caption: what it says, and either a time or a moment."""

    say: str
    at_s: Seconds | None = None
    when: str | None = None


class TourPart(ScenarioSection, frozen=True, kw_only=True):
    """One step of a tour; `hold` is real time."""

    say: str
    press: list[str] = []
    hold_s: Seconds = Seconds(8)
    when: str | None = None
    speed: Speed | None = None


class RatesPart(ScenarioSection, frozen=True, kw_only=True):
    """The rates of a snapshot."""

    slow: Rate
    usual: Rate
    fast: Rate
    half_at: HalfAt = 0.0
    most_at: CountField | None = None
    throttled: ThrottleShare = 1.0
    source: RatesFrom = msgspec.field(name="from")


class SnapshotPart(ScenarioSection, frozen=True, kw_only=True):
    """The real cluster behind a file, when it was read, and how fast its brokers take data in."""

    cluster: str
    taken: Annotated[datetime, msgspec.Meta(tz=True)]
    rates: RatesPart


class ScenarioPart(ScenarioSection, frozen=True, kw_only=True):
    """The whole file; its larger sections are read one by one."""

    title: Title
    about: str = ""
    speed: Speed = 1.0
    opens_at_s: Seconds = Seconds(0)
    cluster: dict[str, Any] = {}
    topics: dict[str | int, Any] = {}
    captions: list[dict[str, Any]] = []
    tour: list[dict[str, Any]] = []
    faults: list[dict[str, Any]] = []
    plan: dict[str, Any] | None = None
    snapshot: dict[str, Any] | None = None


def as_text(value: Text) -> str:
    """Return a setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
