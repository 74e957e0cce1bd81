"""Throttles that are set in a cluster: who needs each of them, and the removal of the others."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, TimedOut, Unsupported
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    TopicsAnswer,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    LOG_DIR_RATE,
    LONGEST_LIST,
    RATES,
    REPLICAS,
    BoundReplica,
    CatchingUp,
    SettingKey,
    broker_resource,
    needed_by_move,
    parse_throttled_list,
    topic_resource,
)
from ktui.cluster.text import clean
from ktui.execution.broker.unregister import delete_unseen
from ktui.execution.host.catalog import unfinished_runs
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import SetByRun
from ktui.execution.run.throttle_status import name_resources
from ktui.planning.plan import join_all, join_named, join_some
from ktui.quantities import as_count, as_rate

BROKER_KEYS = (*RATES, LOG_DIR_RATE)
_UNREADABLE = Setting("", ConfigSource.OWN)  # of a broker that is down

SettingsByResource = Mapping[ConfigResource, Mapping[str, Setting]]
SCANS = 5  # after the first one: a run elsewhere pauses some seconds between two steps
EVERY_S = 2.0
WATCHED_S = SCANS * EVERY_S
READ_BACK_S = 5.0  # until the brokers report a change
READ_AGAIN_S = 0.1
_UNANSWERED = WriteResult(Verdict.UNKNOWN)
_BLANKS = (("", ""), (" ", ""), ("", " "), (" ", " "))
NOT_SEEN = "ktui cannot see runs of other hosts, users and state directories. Check those, too"


class ThrottleReason(enum.StrEnum):
    """Why a throttle is set."""

    LEFT_BEHIND = "left behind"  # nobody needs it
    MOVING = "moving"  # a move in flight needs it, or may
    CATCHING_UP = "catching up"  # it binds a replica that is out of sync, or may
    LIVE_RUN = "live run"
    WAITING_RUN = "waiting run"  # without an engine; once resumed, it puts the old value back
    LOG_DIRS = "log dirs"  # for moves between log dirs, which ktui does not see
    INHERITED = "inherited"  # not set on the broker itself


class ThrottleClaim(msgspec.Struct, frozen=True):
    """The settings that an unfinished run has set, or may have set."""

    run: str
    live: bool
    ours: Mapping[SettingKey, frozenset[str]]


class FoundThrottle(msgspec.Struct, frozen=True, kw_only=True):
    """A rate, or the entries of a list that are set for the same reason."""

    resource: ConfigResource
    key: str
    values: tuple[str, ...]
    reason: ThrottleReason
    run: str = ""  # that has set it; empty for none
    setting: Setting  # as a whole, in Kafka's own text
    binds: frozenset[BoundReplica] = frozenset()  # out of sync, and under it; empty where not known
    down: bool = False  # the broker is, so nobody knows whether it is set there

    @property
    def where(self) -> str:
        return f"{self.resource.scope} {self.resource.name}"

    @property
    def value(self) -> str:
        return "cannot be read: the broker is down" if self.down else ",".join(self.values)

    @property
    def shown(self) -> str:
        value = clean(self.value)
        return as_rate(int(value)) if value.isdecimal() else value

    @property
    def setting_key(self) -> SettingKey:
        return (self.resource, self.key)

    @property
    def whole(self) -> bool:
        return frozenset(self.values) == parse_throttled_list(self.setting.value)


class ThrottleUses(msgspec.Struct, frozen=True):
    """Whatever may need a throttle."""

    moving: Mapping[TopicPartition, Reassignment]
    catching_up: CatchingUp
    claims: Sequence[ThrottleClaim]  # of the runs that this machine remembers


def find_throttles(settings: SettingsByResource, uses: ThrottleUses) -> list[FoundThrottle]:
    """Return every throttle, brokers first. `settings` has BROKER_KEYS and REPLICAS of all."""
    found: list[FoundThrottle] = []
    for resource, own_settings in sorted(settings.items(), key=lambda item: _order(item[0])):
        for key in (*BROKER_KEYS, *REPLICAS):
            if key in own_settings:
                found += _of(resource, key, own_settings[key], uses)
    return found


def _unreadable(down: Collection[int], uses: ThrottleUses) -> Iterator[FoundThrottle]:
    for broker in down:
        for key in RATES:
            for found in _of(broker_resource(broker), key, _UNREADABLE, uses):
                yield msgspec.structs.replace(found, values=(), down=True)


def _order(resource: ConfigResource) -> tuple[bool, int, str]:
    number = int(resource.name) if resource.scope is ConfigScope.BROKER else 0
    return resource.scope is ConfigScope.TOPIC, number, resource.name


def _of(
    resource: ConfigResource, key: str, setting: Setting, uses: ThrottleUses
) -> Iterator[FoundThrottle]:
    if setting.source is ConfigSource.DEFAULT:
        return
    alike: dict[tuple[ThrottleReason, str], list[str]] = {}
    values = parse_throttled_list(setting.value) if key in REPLICAS else (setting.value,)
    for value in sorted(values, key=_numbers):
        claimed = _claimed((resource, key), value, uses.claims)
        if setting.source is not ConfigSource.OWN:
            reason = ThrottleReason.INHERITED, ""
        elif claimed is not None:
            reason = (
                ThrottleReason.LIVE_RUN if claimed.live else ThrottleReason.WAITING_RUN,
                claimed.run,
            )
        else:
            reason = _in_use(resource, key, value, uses), ""
        alike.setdefault(reason, []).append(value)
    for (why, run), some in alike.items():
        binds: frozenset[BoundReplica] = frozenset()
        if why is ThrottleReason.CATCHING_UP:
            binds = binds.union(*(_bound(resource, key, value, uses) for value in some))
        yield FoundThrottle(
            resource=resource,
            key=key,
            values=tuple(some),
            reason=why,
            run=run,
            setting=setting,
            binds=binds,
        )


def _in_use(resource: ConfigResource, key: str, value: str, uses: ThrottleUses) -> ThrottleReason:
    if key == LOG_DIR_RATE:
        return ThrottleReason.LOG_DIRS
    listed = key in REPLICAS
    if needed_by_move(resource.name, key, value, uses.moving) if listed else uses.moving:
        return ThrottleReason.MOVING
    unknown = uses.catching_up.unknown
    if (resource.name in unknown if listed else unknown) or _bound(resource, key, value, uses):
        return ThrottleReason.CATCHING_UP
    return ThrottleReason.LEFT_BEHIND


def _bound(
    resource: ConfigResource, key: str, value: str, uses: ThrottleUses
) -> frozenset[BoundReplica]:
    if key in REPLICAS:
        return uses.catching_up.of_entry(resource.name, key, value)
    return uses.catching_up.of_rate((resource, key))


def _claimed(key: SettingKey, value: str, claims: Iterable[ThrottleClaim]) -> ThrottleClaim | None:
    """A rate belongs to any run that set that rate's key: the previous value may come back."""
    for claim in claims:
        ours = claim.ours.get(key)
        if ours is not None and (key[1] not in REPLICAS or value in ours):
            return claim
    return None


def _numbers(value: str) -> tuple[list[int], str]:
    return [int(part) for part in value.split(":") if part.isdecimal()], value


class ThrottleScan(msgspec.Struct, frozen=True):
    """The result of one scan for throttles."""

    throttles: tuple[FoundThrottle, ...]
    unread: tuple[str, ...] = ()  # what could not be read, and why, as sentences
    down: tuple[int, ...] = ()  # nobody can read what they have set
    moving: tuple[TopicPartition, ...] = ()


def _claim(run: Run, owner: Holder | None) -> ThrottleClaim:
    """A live run also relies on the entries it found."""
    if owner is None:
        remaining = {key: ours.values for key, ours in run.throttled.changed.items()}
        return ThrottleClaim(run.name, live=False, ours=remaining)
    ours = {key: ours.values | _found(ours) for key, ours in run.throttled.ours.items()}
    return ThrottleClaim(run.name, live=True, ours=ours)


def _found(ours: SetByRun) -> frozenset[str]:
    return parse_throttled_list("" if ours.before is None else ours.before.value)


class ScannedTopics(msgspec.Struct, frozen=True):
    """The topics of a cluster, as far as they are visible."""

    names: Collection[str]
    brokers: Collection[int] = ()  # in their lists of replicas; some may be down, or may not exist
    unread: tuple[str, ...] = ()  # what could not be read, as sentences


class Leftovers:
    """The throttles of one cluster: who needs each of them, and the removal of the others."""

    def __init__(
        self,
        reader: ClusterReader,
        state: StateDir,
        clock: Clock,
        topics: ScannedTopics | None = None,
    ) -> None:
        self._reader, self._state, self._clock, self._topics = reader, state, clock, topics

    async def scan(self) -> ThrottleScan:
        """And who needs them. Raises ClusterError, or StateDirProblem: no list of runs."""
        reader, topics = self._reader, self._topics or await scan_topics(self._reader)
        self._topics = topics
        cluster = await reader.describe_cluster()
        settings, unread = await _read(reader, sorted(cluster.online), topics.names)
        # Whatever may need a throttle is read after it: one set just before is never left behind.
        catching_up, unseen = await _catching_up(reader, settings)
        moving = await reader.list_reassignments()
        runs = unfinished_runs(self._state, cluster.cluster_id)
        uses = ThrottleUses(moving, catching_up, [_claim(run, owner) for run, owner in runs])
        down = sorted({*cluster.brokers, *topics.brokers} - cluster.online)
        return ThrottleScan(
            throttles=(*find_throttles(settings, uses), *_unreadable(down, uses)),
            unread=(*topics.unread, *unread, *unseen),
            down=tuple(down),
            moving=tuple(sorted(moving)),
        )

    async def watch(self, first: ThrottleScan) -> tuple[str, ...]:
        """Return what moved or changed within `WATCHED_S`, early if so. Raises ClusterError."""
        scan = first
        for left in range(SCANS, -1, -1):
            changes = tuple(_changes(first, scan))
            if changes or not left:
                return changes
            await self._clock.sleep(EVERY_S)
            scan = await self.scan()
        return ()

    async def remove(
        self, writer: ClusterWriter, stray: Sequence[FoundThrottle]
    ) -> dict[FoundThrottle, str]:
        """Return what is still set, and why: brokers report changes a moment late."""
        seen = [throttle for throttle in stray if not throttle.down]
        left = await self._remove_seen(writer, seen) if seen else {}
        for resource in dict.fromkeys(throttle.resource for throttle in stray if throttle.down):
            theirs = [throttle for throttle in stray if throttle.resource == resource]
            names = [throttle.key for throttle in theirs]
            if why := await delete_unseen(writer, int(resource.name), names):
                left |= dict.fromkeys(theirs, why)
        return left

    async def _remove_seen(
        self, writer: ClusterWriter, stray: Sequence[FoundThrottle]
    ) -> dict[FoundThrottle, str]:
        answers = await _sent(writer, stray)
        until_s = self._clock.monotonic() + READ_BACK_S
        resources, keys = {t.resource for t in stray}, {t.key for t in stray}
        while True:
            now = (await self._reader.settings(resources, keys)).settings
            remaining = [throttle for throttle in stray if _is_there(now, throttle)]
            emptied = [t for t in stray if t.key in REPLICAS and _own(now, t) == ""]
            if emptied:
                await writer.alter_configs(
                    [ConfigChange(t.resource, t.key, ConfigOp.DELETE) for t in emptied]
                )
            results = {t: answers.get(t.resource, _UNANSWERED) for t in remaining}
            refused = all(result.verdict is Verdict.REFUSED for result in results.values())
            if (refused and not emptied) or self._clock.monotonic() >= until_s:
                return {throttle: _why(result) for throttle, result in results.items()}
            await self._clock.sleep(READ_AGAIN_S)


async def _catching_up(
    reader: ClusterReader, settings: SettingsByResource
) -> tuple[CatchingUp, tuple[str, ...]]:
    """In the topics with throttled lists; also what could not be read."""
    lists = {
        (resource, key): parse_throttled_list(values[key].value)
        for resource, values in settings.items()
        for key in REPLICAS
        if key in values
    }
    topics = sorted({topic.name for (topic, _), entries in lists.items() if entries})
    try:
        answer = await _described(reader, topics) if topics else TopicsAnswer({})
    except ClusterError as error:
        return CatchingUp(lists, (), topics), (str(error),)
    unknown = {failure.topic for failure in answer.failures if failure.topic is not None}
    states = CatchingUp(lists, answer.partitions.values(), unknown)
    return states, tuple(failure.sentence for failure in answer.failures)


async def _described(reader: ClusterReader, topics: Collection[str]) -> TopicsAnswer:
    try:
        return await reader.describe_topics(topics, fresh=True)
    except (Unsupported, TimedOut):
        return await reader.describe_topics(topics)


async def scan_topics(reader: ClusterReader) -> ScannedTopics:
    """Return every visible topic. Raises ClusterError: no topic can be read."""
    names: set[str] = set()
    brokers: set[int] = set()
    unread: list[str] = []
    async for page in reader.scan_topics():
        names |= {tp.topic for tp in page.partitions}
        brokers.update(*(state.replicas for state in page.partitions.values()))
        unread += [failure.sentence for failure in page.failures]
    return ScannedTopics(names, brokers, tuple(unread))


async def _read(
    reader: ClusterReader, brokers: Collection[int], topics: Collection[str]
) -> tuple[SettingsByResource, tuple[str, ...]]:
    resources = [*map(broker_resource, brokers), *map(topic_resource, topics)]
    answer = await reader.settings(resources, (*BROKER_KEYS, *REPLICAS))
    alike: dict[str, list[SettingKey]] = {}
    for resource, why in answer.failures.items():
        alike.setdefault(why, []).append((resource, ""))
    return answer.settings, tuple(f"{name_resources(keys)}: {why}" for why, keys in alike.items())


def _changes(first: ThrottleScan, now: ThrottleScan) -> Iterator[str]:
    if now.moving:
        verb = "is" if len(now.moving) == 1 else "are"
        count = as_count(len(now.moving), "partition")
        yield f"{count} {verb} being reassigned: {join_some(now.moving)}"
    before, after = _values(first), _values(now)
    for resource, key in sorted(before.keys() | after.keys(), key=str):
        previous, current = before.get((resource, key)), after.get((resource, key))
        if previous != current:
            where = f"{resource.scope} {resource.name}"
            yield f"{key} of {where} changed: {_shown(previous)} -> {_shown(current)}"


def _values(scan: ThrottleScan) -> Mapping[tuple[ConfigResource, str], str]:
    return {(each.resource, each.key): each.setting.value for each in scan.throttles}


def _shown(value: str | None) -> str:
    return "not set" if value is None else clean(value) or "empty"


async def _sent(
    writer: ClusterWriter, throttles: Sequence[FoundThrottle]
) -> dict[ConfigResource, WriteResult]:
    """Return the worst answers by resource; a request has a key once, a list takes several."""
    answers: dict[ConfigResource, WriteResult] = {}
    for changes in zip_longest(*map(_removals, throttles)):
        sent = [change for change in changes if change is not None]
        for resource, result in (await writer.alter_configs(sent)).items():
            if resource not in answers or answers[resource].verdict is Verdict.ACCEPTED:
                answers[resource] = result
    return answers


def _removals(throttle: FoundThrottle) -> list[ConfigChange]:
    """Return the changes that remove a throttle; entries that others add meanwhile stay.

    A list written with blanks keeps them, but Kafka reports it without blanks. So each entry is
    subtracted in every spelling. A value longer than `LONGEST_LIST` no broker can read.
    """
    resource, key = throttle.resource, throttle.key
    if key not in REPLICAS:
        return [ConfigChange(resource, key, ConfigOp.DELETE)]
    listed = sorted(parse_throttled_list(throttle.value))
    texts = [",".join(f"{before}{each}{after}" for before, after in _BLANKS) for each in listed]
    most = LONGEST_LIST // (max(map(len, texts), default=0) + 1)
    return [
        ConfigChange(resource, key, ConfigOp.SUBTRACT, ",".join(texts[n : n + most]))
        for n in range(0, len(texts), most)
    ]


def _own(now: SettingsByResource, throttle: FoundThrottle) -> str | None:
    setting = now.get(throttle.resource, {}).get(throttle.key)
    return None if setting is None else setting.own


def _is_there(now: SettingsByResource, throttle: FoundThrottle) -> bool:
    if throttle.resource not in now:
        return True
    own = _own(now, throttle)
    if throttle.key in REPLICAS:
        return not parse_throttled_list(own or "").isdisjoint(throttle.values)
    return own == throttle.value


def _why(result: WriteResult) -> str:
    if result.verdict is Verdict.UNKNOWN:
        return "Kafka's answer was lost"
    if result.verdict is Verdict.REFUSED:
        return ": ".join(filter(None, (result.code, result.message)))
    return "Kafka accepted the removal, but the throttle is still set, or set again"


def catching_up_sentences(scan: ThrottleScan) -> Iterator[str]:
    """Yield who catches up under throttles that would be left behind otherwise, with the rates."""
    kept = [t for t in scan.throttles if t.reason is ThrottleReason.CATCHING_UP]
    by_broker: defaultdict[int, set[BoundReplica]] = defaultdict(set)
    for throttle in kept:
        for bound in throttle.binds:
            by_broker[bound.replica.broker].add(bound)
    for _, theirs in sorted(by_broker.items()):
        topics = join_named("topic", sorted({each.replica.tp.topic for each in theirs}), most=5)
        yield f"{who_catches_up(theirs, scan.down)} of {topics}, {_under(scan, theirs)}"
    if any(not throttle.binds for throttle in kept):
        yield "replicas may be catching up under throttles: not every partition could be read"


def who_catches_up(bound: Collection[BoundReplica], down: Collection[int]) -> str:
    """Name the brokers of replicas that are out of sync, and of how many partitions."""
    partitions: defaultdict[int, set[object]] = defaultdict(set)
    for each in bound:
        partitions[each.replica.broker].add(each.replica.tp)
    words = [
        f"broker {broker} is {'down and behind in' if broker in down else 'catching up on'} "
        f"{as_count(len(tps), 'partition')}"
        for broker, tps in sorted(partitions.items())
    ]
    return join_all(words) if words else "a replica may be catching up; its topic could not be read"


def _under(scan: ThrottleScan, bound: Collection[BoundReplica]) -> str:
    """Return the rates that bind replicas: "throttled to 1.0 MB/s by KEY on broker 3"."""
    binding = {each.rate for each in bound}
    alike: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for throttle in scan.throttles:
        if throttle.setting_key in binding:
            alike[throttle.shown, throttle.key].append(int(throttle.resource.name))
    words = [
        f"to {rate} by {key} on {join_named('broker', brokers, most=8)}"
        for (rate, key), brokers in alike.items()
    ]
    return f"throttled {join_all(words)}" if words else "in a list of throttled replicas"
