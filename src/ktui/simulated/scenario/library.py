"""Read scenario files: YAML written by users or shipped with ktui, with its events and captions."""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

from ktui.captions import Caption, StoryMoment, TourStep
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
)
from ktui.cluster.text import clean
from ktui.inputfile import unknown_key
from ktui.pacing.limits import Limits
from ktui.quantities import Rate, Seconds, Share, Size
from ktui.simulated import layout
from ktui.simulated.controller import schema
from ktui.simulated.layout import MIB, OutsideEvent, ScheduledEvent, TopicSpec, TopicStart
from ktui.simulated.scenario.file import (
    MOST_AHEAD_S,
    BrokerId,
    CaptionPart,
    FieldPlace,
    Scenario,
    ScenarioPart,
    ScenarioSection,
    SnapshotInfo,
    SnapshotPart,
    SnapshotRates,
    TargetsPart,
    Text,
    TopicPart,
    TourPart,
    as_text,
    record_of,
)
from ktui.simulated.scenario.plan import plan_of, targets_of
from ktui.simulated.scenario.topics import add_topics, topic_of
from ktui.simulated.scenario.world import World, check_broker_settings, read_cluster, with_topics
from ktui.yamlfile import read_yaml

FaultReader = Callable[[FieldPlace, Any, World], tuple[OutsideEvent, ...]]
CALLS = frozenset(
    name
    for port in (ClusterReader, ClusterWriter)
    for name in vars(port)
    if not name.startswith("_") and name != "aclose"
)  # the calls that a principal can be denied: the methods of both ports


class SlowPart(ScenarioSection, frozen=True, kw_only=True):
    """The fields of `slow`."""

    broker: BrokerId
    share: Share


class FillDiskPart(ScenarioSection, frozen=True, kw_only=True):
    """The fields of `fill-disk`."""

    broker: BrokerId
    leave: Size = Size(0)


class InboundPart(ScenarioSection, frozen=True, kw_only=True):
    """The fields of `set-inbound`."""

    topic: str
    inbound: Rate


class NewTopicPart(TopicPart, frozen=True, kw_only=True):
    """The fields of `create-topic`."""

    name: str


class SettingPart(ScenarioSection, frozen=True, kw_only=True):
    """An entry of `configure`: one setting of a topic or a broker."""

    topic: str | None = None
    broker: BrokerId | None = None
    key: str
    op: Literal["set", "delete", "append", "subtract"] = "set"
    value: Text | None = None


def read_faults(
    place: FieldPlace, values: list[dict[str, Any]], world: World
) -> tuple[ScheduledEvent, ...]:
    """Read the section `faults` of a file, and apply topic changes to `world` as they happen."""
    times = [_time(place.at(index), value) for index, value in enumerate(values)]
    in_order = sorted(range(len(values)), key=times.__getitem__)
    return tuple(
        ScheduledEvent(times[index], act)
        for index in in_order
        for act in _acts(place.at(index), values[index], world)
    )


def _time(place: FieldPlace, value: dict[str, Any]) -> float:
    if "at" not in value:
        raise place.problem("expected 'at', the time of the event")
    return float(place.at("at").convert(value["at"], Seconds))


def _acts(place: FieldPlace, value: dict[str, Any], world: World) -> tuple[OutsideEvent, ...]:
    names = [name for name in value if name != "at"]
    for name in names:
        if name not in FAULTS:
            raise place.at(name).problem(unknown_key(str(name), ["at", *FAULTS]))
    if len(names) != 1:
        raise place.problem(f"expected 'at' and exactly one event, got {len(names)} events")
    return FAULTS[names[0]](place.at(names[0]), value[names[0]], world)


def _broker(make: Callable[[int], OutsideEvent]) -> FaultReader:
    def read(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
        return (make(world.broker(place, place.convert(value, int))),)

    return read


def _plain(act: OutsideEvent) -> FaultReader:
    def read(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
        del world
        if value is not None:
            raise place.problem("expected nothing after the colon")
        return (act,)

    return read


def _call(make: Callable[[str], OutsideEvent]) -> FaultReader:
    def read(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
        del world
        call = place.convert(value, str)
        if call not in CALLS:
            raise place.problem(f"expected one of {', '.join(sorted(CALLS))}, got {call!r}")
        return (make(call),)

    return read


def _slow(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    part = place.convert(value, SlowPart)
    return (layout.Slow(world.broker(place.at("broker"), part.broker), float(part.share)),)


def _fill_disk(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    part = place.convert(value, FillDiskPart)
    return (layout.FillDisk(world.broker(place.at("broker"), part.broker), int(part.leave)),)


def _set_inbound(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    part = place.convert(value, InboundPart)
    topic = world.topic(place.at("topic"), part.topic)
    return (layout.SetInbound(topic.name, float(part.inbound)),)


def _create_topic(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    part = place.convert(value, NewTopicPart)
    return (layout.CreateTopic(topic_of(place, part.name, part, world)),)


def _delete_topic(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    topic = world.topic(place, place.convert(value, str))
    world.remove(topic)
    return (layout.DeleteTopic(topic.name),)


def _recreate_topic(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    topic = world.topic(place, place.convert(value, str))
    empty: TopicSpec = msgspec.structs.replace(topic, bytes_each=0, sizes=(), start=TopicStart())
    world.remove(topic)
    world.add(place, empty)
    return (layout.DeleteTopic(topic.name), layout.CreateTopic(empty))


def _alter(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    targets = targets_of(place, place.convert(value, TargetsPart), world)
    return (layout.Alter(dict(targets)),)


def _cancel(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    if value == "all":
        partitions = tuple(world.all_partitions(world.topics.values()))
    else:
        partitions = world.partitions(place, place.convert(value, list[str]))
    return (layout.Alter(dict.fromkeys(partitions)),)


def _elect(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    return (layout.ElectLeaders(world.partitions(place, place.convert(value, list[str]))),)


def _configure(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    entries = place.convert(value, list[Any])
    changes = tuple(_change(place.at(i), each, world) for i, each in enumerate(entries))
    if not changes:
        raise place.problem("expected at least one setting")
    return (layout.AlterConfigs(changes),)


def _change(place: FieldPlace, value: Any, world: World) -> ConfigChange:
    part = place.convert(value, SettingPart)
    op = ConfigOp(part.op)
    if (op is ConfigOp.DELETE) != (part.value is None):
        expected = "no value" if op is ConfigOp.DELETE else "a value"
        raise place.problem(f"expected {expected} with op {op.value}")
    text = None if part.value is None else as_text(part.value)
    resource = _resource(place, part, world)
    if resource.scope is ConfigScope.TOPIC and part.key not in schema.TOPIC:
        raise place.at("key").problem(unknown_key(part.key, schema.TOPIC))
    change = ConfigChange(resource, part.key, op, text)
    world.configure(place, change)
    return change


def _resource(place: FieldPlace, part: SettingPart, world: World) -> ConfigResource:
    if part.topic is not None and part.broker is None:
        return ConfigResource(ConfigScope.TOPIC, world.topic(place.at("topic"), part.topic).name)
    if part.broker is not None and part.topic is None:
        broker = world.broker(place.at("broker"), part.broker)
        return ConfigResource(ConfigScope.BROKER, str(broker))
    raise place.problem("expected either 'topic' or 'broker'")


def _delay_request(place: FieldPlace, value: Any, world: World) -> tuple[OutsideEvent, ...]:
    del world
    return (layout.DelayRequest(float(place.convert(value, Seconds))),)


FAULTS: Mapping[str, FaultReader] = {
    "kill": _broker(layout.Kill),
    "shutdown": _broker(layout.Shutdown),
    "start": _broker(layout.Start),
    "hang": _broker(layout.Hang),
    "resume": _broker(layout.Resume),
    "slow": _slow,
    "fill-disk": _fill_disk,
    "change-controller": _plain(layout.ChangeController()),
    "set-inbound": _set_inbound,
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "recreate-topic": _recreate_topic,
    "alter": _alter,
    "cancel": _cancel,
    "elect": _elect,
    "configure": _configure,
    "lose-request": _plain(layout.LoseRequest()),
    "lose-answer": _plain(layout.LoseAnswer()),
    "delay-request": _delay_request,
    "deny": _call(layout.Deny),
    "allow": _call(layout.Allow),
}


KEY_NAMES = frozenset({
    "backspace", "delete", "down", "end", "enter", "escape", "home", "left", "pagedown", "pageup",
    "right", "space", "tab", "up",
})  # fmt: skip
"""The keys that a tour may press, beside characters."""
LONGEST = 140  # the most characters of a caption: it then fits two lines of 80 columns


def read_captions(place: FieldPlace, values: Sequence[dict[str, Any]]) -> tuple[Caption, ...]:
    """Read the section `captions` of a file."""
    captions: list[Caption] = []
    last_s = -math.inf
    for index, value in enumerate(values):
        caption = _caption(place.at(index), value)
        if caption.at_s is not None:
            if caption.at_s <= last_s:
                raise place.at(index, "at").problem(
                    "expected a time after that of the caption before; captions stand in order"
                )
            last_s = caption.at_s
        captions.append(caption)
    return tuple(captions)


def _caption(place: FieldPlace, value: dict[str, Any]) -> Caption:
    part = place.convert(value, CaptionPart)
    if (part.at_s is None) is (part.when is None):
        both = "" if part.at_s is None else "; both are set"
        raise place.problem(f"expected either 'at', a time, or 'when', a moment{both}")
    say, when = _say(place.at("say"), part.say), _moment(place, part.when)
    return record_of(Caption, part, say=say, when=when)


def _step(place: FieldPlace, value: dict[str, Any]) -> TourStep:
    part = place.convert(value, TourPart)
    for index, name in enumerate(part.press):
        if len(name) > 1 and name not in KEY_NAMES:
            raise place.at("press", index).problem(
                f"expected one character, or one of {', '.join(sorted(KEY_NAMES))}"
            )
    say, when = _say(place.at("say"), part.say), _moment(place, part.when)
    return record_of(TourStep, part, say=say, press=tuple(part.press), when=when)


def _say(place: FieldPlace, text: str) -> str:
    said = clean(" ".join(text.split()))
    if not said:
        raise place.problem("expected a sentence that says what happens now")
    if len(said) > LONGEST:
        raise place.problem(
            f"expected at most {LONGEST} characters, got {len(said)}; make two captions of it"
        )
    if said.count("`") % 2:
        raise place.problem("expected each key between two backticks, as in `enter`")
    return said


def _moment(place: FieldPlace, when: str | None) -> StoryMoment | None:
    if when is None:
        return None
    known = [each.value for each in StoryMoment]
    if when in known:
        return StoryMoment(when)
    near = get_close_matches(when, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    raise place.at("when").problem(f"there is no moment {clean(when)!r}; {hint}")


DEFAULT = "drain-a-broker"
MOST_BYTES = 64 * MIB  # of a file; a cluster of the most partitions needs a third of that
_FOLDER = Path(str(importlib.resources.files("ktui"))) / "simulated" / "scenarios"


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file and check all of it."""
    file = read_yaml(path, MOST_BYTES)
    root = FieldPlace(file)
    part = root.convert(file.data, ScenarioPart)
    if math.isnan(part.speed):
        raise root.at("speed").problem("expected a number")
    if part.opens_at_s > MOST_AHEAD_S:
        raise root.at("opens-at").problem(f"expected at most {MOST_AHEAD_S:,.0f} seconds")
    cluster = read_cluster(root.at("cluster"), part.cluster)
    world = World(cluster)
    check_broker_settings(root.at("cluster", "brokers"), cluster, world)
    add_topics(root.at("topics"), part.topics, world, cluster.brokers)
    spec = with_topics(cluster, tuple(world.topics.values()))
    plan, limits = None, Limits()
    if part.plan is not None:
        plan, limits = plan_of(root.at("plan"), part.plan, world)
    return record_of(
        Scenario,
        part,
        title=clean(part.title),
        about=clean(" ".join(part.about.split())),
        spec=spec,
        faults=read_faults(root.at("faults"), part.faults, world),
        plan=plan,
        limits=limits,
        captions=read_captions(root.at("captions"), part.captions),
        tour=tuple(_step(root.at("tour", index), each) for index, each in enumerate(part.tour)),
        snapshot=None if part.snapshot is None else _snapshot(root.at("snapshot"), part.snapshot),
    )


def _snapshot(place: FieldPlace, value: dict[str, Any]) -> SnapshotInfo:
    part = place.convert(value, SnapshotPart)
    rates = part.rates
    if not 1 <= rates.slow <= rates.usual <= rates.fast:
        raise place.at("rates").problem(
            "expected at least 1 byte a second, and slow <= usual <= fast"
        )
    found = record_of(SnapshotRates, rates)
    return record_of(SnapshotInfo, part, cluster=clean(part.cluster), rates=found)


def shipped_names() -> tuple[str, ...]:
    """Return the names of the shipped scenarios, the default first."""
    names = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT))


def shipped_path(name: str) -> Path:
    """Return the path of a shipped scenario."""
    return _FOLDER / f"{name}.yaml"
