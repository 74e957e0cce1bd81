"""What a rehearsal is given: the twin of a cluster, and the faults, as an operator writes them."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict
from ktui.cluster.settings import topic_resource
from ktui.cluster.text import clean, simulated_id
from ktui.inputfile import unknown_key
from ktui.planning.plan import closest_names
from ktui.quantities import Seconds, Share, Size, parse_quantity, parse_typed
from ktui.simulated import layout
from ktui.simulated.controller import schema
from ktui.simulated.controller.configs import Configs, rules_of
from ktui.simulated.layout import ClusterSpec, OutsideEvent, TopicSpec
from ktui.simulated.scenario.file import RatesFrom, SnapshotInfo
from ktui.simulated.scenario.library import load_scenario
from ktui.simulated.twin_parts import rates_of
from ktui.speed.answer import Span
from ktui.speed.capacity import ASSUMED, OF_THROTTLE, THROTTLED
from ktui.speed.copies import SENDING

MOST_OF_THROTTLE = 1.1
"""The share on a fast twin: bytes come through a throttle in gulps of up to 11 s (Kafka's window),
by which a run of less than a minute gets more than its rate."""
_START = Span(2 / 7, 1.0, 12 / 7)
"""How long a new replica waits for its first bytes on a fast, a usual and a slow twin, as a share
of the usual 0.35 s. A follower learns of it in 0.1 s. Its fetch returns at once where data flows,
and waits for up to 0.5 s where none does (replica.fetch.wait.max.ms)."""
_STARTUP = Span(0.4, 1.0, 3.0)
"""How long a broker takes to start on a fast, a usual and a slow twin, as a share of the usual.
Brokers of a lab are back 3 s after a kill; the more logs they have to recover, the longer."""


class Pace(enum.StrEnum):
    """Which end of the range of copy rates a twin has."""

    SLOW = "slow"
    USUAL = "usual"
    FAST = "fast"

    def of(self, times: Span) -> float:
        """The one of some times that this pace has: the shortest on a fast twin."""
        return {Pace.SLOW: times.high, Pace.USUAL: times.middle, Pace.FAST: times.low}[self]


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to rehearse on."""

    name: str  # the file's, cleaned for the terminal
    spec: ClusterSpec
    rates: Span = ASSUMED  # bytes a second that a broker takes in, over all of many copies
    recorded: bool = False  # seen on the cluster; False where assumed

    @property
    def paces(self) -> tuple[Pace, ...]:
        """The twins to play: one where the rate is exact, else one for each part of the range."""
        exact = self.rates.low == self.rates.high
        return (Pace.USUAL,) if exact else (Pace.SLOW, Pace.USUAL, Pace.FAST)

    @property
    def cluster_id(self) -> str:
        return simulated_id(self.spec.name)

    def rate(self, pace: Pace) -> float:
        return {
            Pace.SLOW: self.rates.low,
            Pace.USUAL: self.rates.middle,
            Pace.FAST: self.rates.high,
        }[pace]

    def cluster(self, pace: Pace) -> ClusterSpec:
        rate = self.rate(pace)
        differ = len({b.copy_in for b in self.spec.brokers}) > 1
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rate * (b.copy_in / self.rates.middle if differ else 1.0),
                copy_sends=SENDING if b.copy_half_at else 0.0,
                throttle_share=self._throttled(pace, b.throttle_share),
            )
            for b in self.spec.brokers
        )
        return msgspec.structs.replace(
            self.spec,
            brokers=brokers,
            name=self.cluster_id,
            copy_start_s=pace.of(_START) * self.spec.copy_start_s,
            startup_s=pace.of(_STARTUP) * self.spec.startup_s,
        )

    def _throttled(self, pace: Pace, usual: float) -> float:
        """The share of a throttle that copies get at that pace, by the usual one."""
        if pace is Pace.USUAL or self.rates.low == self.rates.high:
            return usual
        if pace is Pace.FAST:
            return MOST_OF_THROTTLE
        known = OF_THROTTLE if self.recorded else THROTTLED.times(1 / THROTTLED.middle)
        return usual * known.low

    def at(self, rate: float) -> Twin:
        """With one exact rate; copies get all of a throttle below it, as in forecasts."""
        more = max(0.0, rate - self.rates.high)
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rate,
                copy_half_at=0.0,
                throttle_share=1.0,
                net_in=b.net_in + more,
                net_out=b.net_out + more,
                disk_write=b.disk_write + more,
            )
            for b in self.spec.brokers
        )
        spec = msgspec.structs.replace(self.spec, brokers=brokers)
        return msgspec.structs.replace(self, spec=spec, rates=Span(rate, rate, rate))


def load_twin(path: Path) -> Twin:
    """Read a twin from a scenario file's cluster and topics. Raises FileProblem, with the line."""
    scenario = load_scenario(path)
    return twin_of(clean(str(path)), scenario.spec, scenario.snapshot)


def twin_of(name: str, spec: ClusterSpec, snapshot: SnapshotInfo | None) -> Twin:
    """Return the twin of a cluster, with the copy rates of its snapshot, or else assumed ones."""
    rates = rates_of(None) if snapshot is None else snapshot.rates
    if snapshot is None:
        brokers = tuple(
            msgspec.structs.replace(
                b,
                copy_in=rates.usual,
                copy_half_at=b.copy_half_at or rates.half_at,
                throttle_share=min(b.throttle_share, rates.throttled),
            )
            for b in spec.brokers
        )
        spec = msgspec.structs.replace(spec, brokers=brokers)
    return Twin(
        name=name,
        spec=spec,
        rates=Span(rates.slow, rates.usual, rates.fast),
        recorded=rates.source is RatesFrom.RECORDED,
    )


_AT = re.compile(r"(?P<what>.+?)\s+at\s+(?P<when>\S+)")
_FOR = re.compile(r"(?P<broker>\S+)(?:\s+for\s+(?P<time>\S+))?")
_SLOW = re.compile(r"(?P<broker>\S+)\s+to\s+(?P<share>\S+)")
_DISK = re.compile(r"(?P<broker>\S+)\s+(?:full|leave\s+(?P<leave>\S+))")
_LOAD = re.compile(r"(?:(?P<topic>\S+)\s+)?x(?P<factor>\d{1,6}(?:\.\d{1,6})?)")
_SETTING = re.compile(r"(?P<topic>[^\s=]+)=(?P<value>\S+)")


class FaultProblem(ValueError):
    """A fault that cannot be used; the message names the mistake and the fix."""


class FaultMoment(msgspec.Struct, frozen=True):
    """When a fault happens: at a share of the work, or so long after the start of the run."""

    share: float | None = None  # of the plan's bytes copied; without bytes, of its partitions
    after_s: float | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to the twin while the plan is carried out."""

    text: str  # as written, cleaned for the terminal
    at: FaultMoment
    acts: tuple[tuple[float, OutsideEvent], ...]  # each so many seconds after the fault's moment


Acts = tuple[tuple[float, OutsideEvent], ...]


def parse_fault(text: str, spec: ClusterSpec, *, now_s: float | None = None) -> Fault:
    """Read a fault like `suspend 3 for 60s at 50%`, or at `now_s`. Raises FaultProblem."""
    match = _AT.fullmatch(text.strip())
    if match is None and now_s is None:
        raise FaultProblem("it has no time. End it with `at 40%` of the work, or `at 10m`")
    at = FaultMoment(after_s=now_s) if match is None else _moment(match["when"])
    verb, _, rest = (text if match is None else match["what"]).strip().partition(" ")
    return Fault(text=clean(text.strip()), at=at, acts=_acts(verb, rest, spec))


def _acts(verb: str, rest: str, spec: ClusterSpec) -> Acts:
    known = _FAULTS.get(verb)
    if known is not None:
        form, read = known
        try:
            return read(rest.strip(), spec)
        except _Malformed:
            raise FaultProblem(
                f"expected `{form}`, got {clean(f'{verb} {rest}'.strip())!r}"
            ) from None
    if verb in schema.TOPIC or "=" in rest:
        return _setting(verb, rest.strip(), spec)
    forms = ", ".join(f"`{form}`" for form, _ in _FAULTS.values())
    near = closest_names(verb, _FAULTS)
    hint = f"Did you mean `{near[0]}`?" if near else f"Use one of {forms}, `{_SETTING_FORM}`"
    raise FaultProblem(f"there is no event {clean(verb)!r}. {hint}")


class _Malformed(Exception):
    """The words after the verb do not have its form."""


def _moment(text: str) -> FaultMoment:
    try:
        if text.endswith("%"):
            return FaultMoment(share=float(parse_quantity(Share, text)))
        return FaultMoment(after_s=float(parse_quantity(Seconds, text)))
    except ValueError:
        raise FaultProblem(
            f"{clean(text)!r} is not a time. Use a share of the work such as 40%, at most 100%, or"
            " a time since the start of the run such as 10m"
        ) from None


def _matched(pattern: re.Pattern[str], rest: str) -> re.Match[str]:
    match = pattern.fullmatch(rest)
    if match is None:
        raise _Malformed
    return match


def _broker_of(text: str, spec: ClusterSpec) -> int:
    known = sorted(broker.id for broker in spec.brokers)
    if not text.isdecimal() or int(text) not in known:
        some = ", ".join(map(str, known[:8])) + (" ..." if len(known) > 8 else "")  # noqa: PLR2004 - a few are enough
        raise FaultProblem(f"there is no broker {clean(text)!r}. The brokers are {some}")
    return int(text)


def _topic_of(name: str, spec: ClusterSpec) -> TopicSpec:
    topics = {topic.name: topic for topic in spec.topics}
    if name not in topics:
        near = closest_names(name, topics)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise FaultProblem(f"there is no topic {clean(name)!r}{hint}")
    return topics[name]


def _quantity(kind: type, text: str) -> float:
    try:
        return float(parse_typed(kind, text))
    except ValueError as error:
        raise FaultProblem(f"{clean(text)!r}: {error}") from None


def _of_broker(make: Callable[[int], OutsideEvent]) -> Callable[[str, ClusterSpec], Acts]:
    def read(rest: str, spec: ClusterSpec) -> Acts:
        if not rest or " " in rest:
            raise _Malformed
        return ((0.0, make(_broker_of(rest, spec))),)

    return read


def _suspend(rest: str, spec: ClusterSpec) -> Acts:
    match = _matched(_FOR, rest)
    broker = _broker_of(match["broker"], spec)
    hangs: Acts = ((0.0, layout.Hang(broker)),)
    if match["time"] is None:
        return hangs
    return (*hangs, (_quantity(Seconds, match["time"]), layout.Resume(broker)))


def _slow(rest: str, spec: ClusterSpec) -> Acts:
    match = _matched(_SLOW, rest)
    broker = _broker_of(match["broker"], spec)
    return ((0.0, layout.Slow(broker, _quantity(Share, match["share"]))),)


def _disk(rest: str, spec: ClusterSpec) -> Acts:
    match = _matched(_DISK, rest)
    broker = _broker_of(match["broker"], spec)
    leave = 0 if match["leave"] is None else int(_quantity(Size, match["leave"]))
    return ((0.0, layout.FillDisk(broker, leave)),)


def _load(rest: str, spec: ClusterSpec) -> Acts:
    match = _matched(_LOAD, rest)
    topics = spec.topics if match["topic"] is None else (_topic_of(match["topic"], spec),)
    factor = float(match["factor"])
    written = [topic for topic in topics if topic.inbound]
    if not written:
        raise FaultProblem("nothing is written to it, so its load cannot change")
    return tuple((0.0, layout.SetInbound(each.name, each.inbound * factor)) for each in written)


def _delete(rest: str, spec: ClusterSpec) -> Acts:
    return ((0.0, layout.DeleteTopic(_topic_of(rest, spec).name)),)


def _controller(rest: str, _spec: ClusterSpec) -> Acts:
    if rest != "moves":
        raise _Malformed
    return ((0.0, layout.ChangeController()),)


def _setting(key: str, rest: str, spec: ClusterSpec) -> Acts:
    match = _SETTING.fullmatch(rest)
    if match is None:
        raise FaultProblem(f"expected `{_SETTING_FORM}`, got {clean(f'{key} {rest}'.strip())!r}")
    if key not in schema.TOPIC:
        raise FaultProblem(unknown_key(key, schema.TOPIC))
    topic = _topic_of(match["topic"], spec)
    change = ConfigChange(topic_resource(topic.name), key, ConfigOp.SET, match["value"])
    settings = Configs(spec, {topic.name: topic}, rules_of(spec.version))
    settings.create(topic.name, topic.configs)
    for result in settings.alter([change]).values():
        if result.verdict is not Verdict.ACCEPTED:
            raise FaultProblem(f"Kafka would refuse it: {clean(result.message)}")
    return ((0.0, layout.AlterConfigs((change,))),)


_SETTING_FORM = "KEY TOPIC=VALUE"
_FAULTS: Mapping[str, tuple[str, Callable[[str, ClusterSpec], Acts]]] = {
    "kill": ("kill BROKER", _of_broker(layout.Kill)),
    "stop": ("stop BROKER", _of_broker(layout.Shutdown)),
    "start": ("start BROKER", _of_broker(layout.Start)),
    "suspend": ("suspend BROKER for TIME", _suspend),
    "resume": ("resume BROKER", _of_broker(layout.Resume)),
    "slow": ("slow BROKER to SHARE", _slow),
    "disk": ("disk BROKER full", _disk),
    "load": ("load xFACTOR", _load),
    "delete": ("delete TOPIC", _delete),
    "controller": ("controller moves", _controller),
}
FAULT_VERBS = tuple(_FAULTS)  # first words, but of settings
FAULT_FORMS = (*(form for form, _ in _FAULTS.values()), _SETTING_FORM)  # for help and docs
