"""The faults of a rehearsal, as an operator writes them: `kill 5 at 40%`, `load x2 at 10m`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ktui.cluster.ports import ConfigChange, ConfigOp, Verdict
from ktui.cluster.settings import topic_resource
from ktui.cluster.text import clean
from ktui.inputfile import unknown_key
from ktui.planning.plan import closest_names
from ktui.simulated import layout
from ktui.simulated.controller import schema
from ktui.simulated.controller.configs import Configs, rules_of
from ktui.simulated.layout import ClusterSpec, OutsideEvent, TopicSpec
from ktui.units import Seconds, Share, Size, parse_quantity, parse_typed

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
