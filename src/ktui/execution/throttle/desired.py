"""Compute the throttle changes due now from a run's steps in flight and its settings; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from types import MappingProxyType

from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope, Setting
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_OF,
    SettingKey,
    broker_resource,
    list_room,
    parse_throttled_list,
    throttled_entry,
    topic_resource,
)
from ktui.execution.run.events import StepBegun
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import ListEntries, SetByRun
from ktui.max_min import max_min_rates
from ktui.pacing.situation import Move
from ktui.progress.timeline import Lane, Role, Timeline

SLACK = 0.1  # a share stays while it differs by no more than this part of it
UNUSED = 0.8  # a broker that takes in less than this part of its share cannot use all of it
USED = 0.9  # from this part of its share on, such a broker may get more again
ROOM = 1.25  # how much more than it takes in such a broker keeps, to be able to take in more
_LEAST = 1_000


def usable(
    intake: Mapping[int, float], shares: Mapping[int, int], before: Mapping[int, float]
) -> Mapping[int, float]:
    """Return what is of use to brokers that cannot use their share, in bytes a second."""
    return {
        broker: ROOM * bytes_s
        for broker, bytes_s in intake.items()
        if broker in shares and bytes_s < (USED if broker in before else UNUSED) * shares[broker]
    }


def share_budget(
    budget: int, most: Mapping[int, float | None], before: Mapping[int, int]
) -> Mapping[int, int]:
    """Return what each broker gets of a budget, in bytes a second, at `most` what is of use.

    What differs little from `before` stays, as long as all together exceed the budget by little.
    """
    new = _fair(budget, {b: min(budget, budget if of is None else of) for b, of in most.items()})
    kept = {
        broker: before[broker] if broker in before and _alike(share, before[broker]) else share
        for broker, share in new.items()
    }
    return kept if sum(kept.values()) <= (1 + SLACK) * budget else new


def _fair(budget: int, most: Mapping[int, float]) -> dict[int, int]:
    """Share the budget max-min fairly among brokers, each with the most that is of use to it."""
    flows = [((0, number), 1) for number in range(1, len(most) + 1)]
    rates = max_min_rates([budget, *most.values()], flows)
    return {broker: max(_LEAST, int(rate)) for broker, rate in zip(most, rates, strict=True)}


def _alike(share: int, before: int) -> bool:
    return abs(share - before) <= SLACK * before


NEAR_S = 0.5  # near: a lag of at most the bytes of its broker's rate in so many seconds...
NEAR_SHARE = 0.95  # ... and this share of its size copied: little is copied without a throttle
FAR = 4  # one that falls back to so many times the lag of `NEAR_S` is throttled again

CopyTimelines = Mapping[TopicPartition, Timeline]


class NearlyInSync:
    """The replicas in flight that are about to be in sync, and have not fallen back since.

    A replica in sync that is still listed waits for its broker's quota whenever it lags, and
    producers with acks=all wait with it. That lasts from when it joins the ISR until a poll shows
    it and its broker has read the shorter list. Removed from the list before, it joins at full
    speed.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.replicas: frozenset[Replica] = frozenset()

    def update(self, timelines: CopyTimelines) -> None:
        throttled = bool(self._run.throttled.in_force)
        self.replicas = frozenset(self._near(timelines)) if throttled else frozenset()

    def _near(self, timelines: CopyTimelines) -> Iterator[Replica]:
        for tp in self._run.tracks_in_flight:
            timeline = timelines.get(tp)
            for lane in () if timeline is None else timeline.lanes.values():
                replica = Replica(tp, lane.broker)
                if lane.role is Role.ADDING and self._is_near(replica, lane):
                    yield replica

    def _is_near(self, replica: Replica, lane: Lane) -> bool:
        rate = self._run.throttled.in_force.of(replica.broker)
        if rate is None or lane.lag_bytes is None or lane.share is None:
            return False
        if replica in self.replicas:
            return lane.lag_bytes <= FAR * NEAR_S * rate
        return lane.lag_bytes <= NEAR_S * rate and lane.share >= NEAR_SHARE


BrokerSet = frozenset[int]
Resources = frozenset[ConfigResource]
States = Mapping[TopicPartition, PartitionState]
Lists = Mapping[SettingKey, Mapping[TopicPartition, BrokerSet]]

_NOTHING = SetByRun(None)


class ThrottleChanges:
    """Compare the settings of a run with the desired ones.

    The lists should name the replicas that are being added and are not `near` being in sync. A
    replica in sync that is still listed stalls producers once the quota is used up. With throttled
    leaders, the leaders' list names each replica that may lead meanwhile.

    Someone has put every replica into `covered` lists; `gone` entries of others were there at
    first.
    """

    def __init__(
        self,
        run: Run,
        states: States,
        covered: AbstractSet[SettingKey],
        gone: ListEntries = MappingProxyType({}),
        near: Collection[Replica] = (),
    ) -> None:
        self._run = run
        self._throttled = run.throttled
        self._covered = covered
        self._gone = gone
        self._wanted = _wanted(run, states, near)

    @property
    def receiving(self) -> set[int]:
        key = FOLLOWER_REPLICAS
        lists = (wanted for (_, name), wanted in self._wanted.items() if name == key)
        return {broker for wanted in lists for brokers in wanted.values() for broker in brokers}

    def removals(self, late: ListEntries = MappingProxyType({})) -> Iterator[ConfigChange]:
        """Of the run's unwanted entries; `late` ones may have been appended after their removal."""
        for key, ours in self._throttled.ours.items():
            mine = ours.values | (late.get(key, frozenset()) - self._theirs(key))
            if key[1] in RATE_OF and (gone := mine - self._listed(key)):
                yield ConfigChange(key[0], key[1], ConfigOp.SUBTRACT, ",".join(sorted(gone)))

    def done_with(self, *, leaving: bool) -> list[SettingKey]:
        used = {
            (broker_resource(int(listed.partition(":")[2])), RATE_OF[key])
            for (_, key), ours in self._throttled.ours.items()
            if key in RATE_OF
            for listed in ours.values
        }
        goes_on = not leaving and bool(self._throttled.in_force)
        return [
            key
            for key, ours in self._throttled.ours.items()
            if key not in used
            and not (key[1] in RATE_OF and ours.values)
            and not (goes_on and self._needed_later(key))
        ]

    def rates(self) -> Iterator[ConfigChange]:
        for key in sorted(self._rates() - self._throttled.foreign.keys()):
            if not self._rate_is_set(key):
                rate = self._throttled.in_force.of(int(key[0].name))
                yield ConfigChange(key[0], key[1], ConfigOp.SET, str(rate))

    def additions(self) -> Iterator[ConfigChange]:
        """Yield the missing list entries to append, as far as a list may grow.

        An entry that is not certainly in its list counts as missing. None is appended before its
        broker's rate is set. The first entry is tried even where others have filled the list: they
        may have made room.
        """
        for key in self._wanted:
            if self._all_listed(key):
                continue
            ours, room = self._ours(key), self._room[key]
            adding: list[str] = []
            for each in sorted(self._listed_with_rate(key) - self._present[key]):
                room -= 0 if each in ours.values else len(each) + 1
                if room >= 0 or not (adding or ours.values):
                    adding.append(each)
            if adding:
                yield ConfigChange(key[0], key[1], ConfigOp.APPEND, ",".join(adding))

    def full_lists(self, tp: TopicPartition) -> list[SettingKey]:
        lists = [(topic_resource(tp.topic), name) for name in RATE_OF]
        return [key for key in lists if key in self._wanted and self._is_full(key, tp)]

    def _is_full(self, key: SettingKey, tp: TopicPartition) -> bool:
        entries = {throttled_entry(tp.partition, b) for b in self._wanted[key].get(tp, ())}
        lacking = () if self._all_listed(key) else entries - self._present[key]
        return any(len(each) + 1 > self._room[key] for each in lacking)

    def unread(self) -> list[SettingKey]:
        return sorted({*self._wanted, *self._rates()} - self._throttled.ours.keys())

    def counted_on(self) -> list[SettingKey]:
        """Those in which others' entries throttle replicas for the run, or did."""
        return [
            key
            for key in self._wanted
            if key in self._covered or self._theirs(key) & {ALL, *self._listed(key)}
        ]

    def promised(self, partitions: Collection[TopicPartition]) -> set[SettingKey]:
        """Those that should throttle the new replicas of some partitions."""
        lists = {
            key: {b for tp in partitions for b in wanted.get(tp, ())}
            for key, wanted in self._wanted.items()
        }
        rates = {(broker_resource(b), RATE_OF[key[1]]) for key, ids in lists.items() for b in ids}
        return rates | {key for key, brokers in lists.items() if brokers}

    def as_promised(self, key: SettingKey, found: Setting | None) -> bool:
        value = "" if found is None else found.value
        if key[1] in RATE_OF:
            listed = parse_throttled_list(value)
            return ALL in listed or self._ours(key).values <= listed
        own = None if found is None else found.own
        rate = self._throttled.in_force.of(int(key[0].name))
        return own is not None and own in (str(rate), self._throttled.foreign.get(key))

    def in_force(self, tp: TopicPartition) -> bool:
        """Every rate and list entry to throttle a partition's new replicas is set."""
        return all(
            self._entry_is_set(key, tp, b)
            and self._rate_is_set((broker_resource(b), RATE_OF[key[1]]))
            for key, partitions in self._wanted.items()
            for b in partitions.get(tp, ())
        )

    def _entry_is_set(self, key: SettingKey, tp: TopicPartition, b: int) -> bool:
        ours, each = self._ours(key), throttled_entry(tp.partition, b)
        theirs = self._all_listed(key) or each in self._bound_by_others(key)
        return theirs or (each in ours.values and not ours.unsure)

    def _rate_is_set(self, key: SettingKey) -> bool:
        if key in self._throttled.foreign:
            return self._run.options.on_foreign_throttle is OnForeignThrottle.GO_ON
        rate, ours = str(self._throttled.in_force.of(int(key[0].name))), self._ours(key)
        if ours.touched:
            return ours.values == {rate} and not ours.unsure
        return ours.before is not None and ours.before.own == rate

    def _rates(self) -> set[SettingKey]:
        return {
            (broker_resource(b), RATE_OF[key])
            for (_, key), partitions in self._wanted.items()
            for brokers in partitions.values()
            for b in brokers
        }

    def _needed_later(self, key: SettingKey) -> bool:
        resource, name = key
        if resource.scope is ConfigScope.TOPIC:
            return self._run.copies.topics[resource.name] > 0
        if self._throttled.in_force.of(int(resource.name)) is None:
            return False
        if name == LEADER_RATE:
            return self._run.over < len(self._run.tracks)
        return self._run.copies.onto[int(resource.name)] > 0

    def _listed(self, key: SettingKey) -> set[str]:
        partitions = self._wanted.get(key, {})
        return {
            throttled_entry(tp.partition, b) for tp, brokers in partitions.items() for b in brokers
        }

    def _listed_with_rate(self, key: SettingKey) -> set[str]:
        brokers = {b for wanted in self._wanted[key].values() for b in wanted}
        rated = {b for b in brokers if self._rate_is_set((broker_resource(b), RATE_OF[key[1]]))}
        return {each for each in self._listed(key) if int(each.partition(":")[2]) in rated}

    @cached_property
    def _present(self) -> Mapping[SettingKey, frozenset[str]]:
        bound = {key: self._bound_by_others(key) for key in self._wanted}
        ours = {key: self._ours(key) for key in self._wanted}
        return {k: bound[k] if ours[k].unsure else ours[k].values | bound[k] for k in bound}

    @cached_property
    def _room(self) -> Mapping[SettingKey, int]:
        """The bytes left in each list: as it was first read, with the run's entries."""
        return {k: list_room(self._ours(k).values | self._theirs(k)) for k in self._wanted}

    def _ours(self, key: SettingKey) -> SetByRun:
        return self._throttled.ours.get(key, _NOTHING)

    def _theirs(self, key: SettingKey) -> frozenset[str]:
        before = self._ours(key).before
        return parse_throttled_list("" if before is None else before.value)

    def _all_listed(self, key: SettingKey) -> bool:
        return key in self._covered or ALL in self._bound_by_others(key)

    def _bound_by_others(self, key: SettingKey) -> frozenset[str]:
        return self._theirs(key) - self._gone.get(key, frozenset())


def throttle_resources(move: Move, states: States, *, leaders: bool = False) -> Resources:
    """Return the topics and brokers that a step's throttle needs; none if the step adds nothing."""
    state = states.get(move.tp)
    leading = _may_lead(state.replicas, state) if leaders and state is not None else ()
    needs = {topic_resource(move.tp.topic), *map(broker_resource, (*move.step.adds, *leading))}
    return frozenset(needs if move.step.adds else ())


def _wanted(run: Run, states: States, near: Collection[Replica]) -> Lists:
    lists: defaultdict[SettingKey, dict[TopicPartition, BrokerSet]] = defaultdict(dict)
    rates = run.throttled.in_force
    for track, step in run.open_steps if rates else ():
        tp, begun, state = track.tp, step.begun, states.get(track.tp)
        if not (new := joining(begun, state, near)):
            continue
        sides = {FOLLOWER_REPLICAS: new}
        if run.options.throttle_leaders:
            sides[LEADER_REPLICAS] = _may_lead(begun.before, state)
        for name, brokers in sides.items():
            if rated := frozenset(b for b in brokers if rates.of(b) is not None):
                lists[topic_resource(tp.topic), name][tp] = rated
    return lists


def joining(
    begun: StepBegun, state: PartitionState | None, near: Collection[Replica] = ()
) -> BrokerSet:
    """Return the brokers whose replica a step adds, and that is neither in sync nor `near` it."""
    # After a cancel the ISR may still name a dropped replica. That replica copies from the start.
    in_sync = () if state is None else {*state.isr} & {*state.replicas}
    behind = (b for b in begun.adding if b not in in_sync)
    return frozenset(b for b in behind if Replica(begun.tp, b) not in near)


def _may_lead(replicas: tuple[int, ...], state: PartitionState | None) -> BrokerSet:
    """No rate can be set on brokers that are down until they are back."""
    return frozenset(replicas) - frozenset(() if state is None else state.offline)
