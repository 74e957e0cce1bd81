"""Stories of runs with throttles, and their promises, checked against each request."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    REPLICAS,
    parse_throttled_list,
    throttled_entry,
)
from ktui.execution.run.events import (
    Configure,
    Configured,
    JournalEntry,
    SettingsFound,
    StepBegun,
    ThrottleChanged,
)
from ktui.execution.run.run import Run
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.configs import Configs
from support.rule_book import unthrottled
from support.runs.engine_runs import Replicas
from support.runs.stories import KilledStory
from support.runs.witnessed import Reaper, WitnessedRun
from support.simulated.witness import Arrival

Settings = dict[ConfigResource, dict[str, str]]


def settings_of(configs: Configs) -> Settings:
    """Return every dynamic setting of all topics and brokers, by its exact text."""
    return {resource: dict(values) for resource, values in configs._dynamic.items() if values}


def settings_in(cluster: SimulatedCluster) -> Settings:
    """Return every dynamic setting of a cluster."""
    return settings_of(cluster.controller.configs)


class Others:
    """The settings as they would be without our runs: only the changes of others."""

    def __init__(self, run: WitnessedRun, *beside: WitnessedRun) -> None:
        configs = run.cluster.controller.configs
        self.touched: set[tuple[ConfigResource, str]] = set()
        """The settings that somebody else has changed since the run began."""
        self.changed_s: dict[tuple[ConfigResource, str], float] = {}
        """When somebody else last changed each setting."""
        self._clock = run.cluster.clock
        self._runs = (run, *beside)
        self._configs = Configs(run.cluster.spec, configs._topics, configs._rules)
        self._configs._dynamic = dict(configs._dynamic)
        self._listen(configs)

    @property
    def settings(self) -> Settings:
        return settings_of(self._configs)

    def _listen(self, configs: Configs) -> None:
        alter, create, forget = configs.alter, configs.create, configs.forget

        def altered(changes: Sequence[ConfigChange]) -> dict[ConfigResource, WriteResult]:
            if not any(run.witness.acts for run in self._runs):
                self._configs.alter(changes)
                now_s = self._clock.monotonic()
                self.changed_s |= {(c.resource, c.key): now_s for c in changes}
                if any(run.engines for run in self._runs):
                    self.touched |= {(change.resource, change.key) for change in changes}
            return alter(changes)

        def created(topic: str, values: Mapping[str, str]) -> WriteResult:
            self._configs.create(topic, values)
            return create(topic, values)

        def forgotten(topic: str) -> None:
            self._configs.forget(topic)
            self.touched |= {(ConfigResource(ConfigScope.TOPIC, topic), key) for key in REPLICAS}
            forget(topic)

        configs.alter = altered  # type: ignore[method-assign] # records the changes
        configs.create = created  # type: ignore[method-assign]
        configs.forget = forgotten  # type: ignore[method-assign]


class ThrottleRules:
    """Checks each request of a run, as it arrives, against the promises of throttles."""

    def __init__(self, run: WitnessedRun, others: Others) -> None:
        self._run = run
        self._others = others
        self._configs = run.cluster.controller.configs
        self.journaled = True
        """Whether the disk takes the journal; else throttles are removed without a record."""
        self._intended: set[ConfigChange] = set()
        self._putting_back: set[ConfigChange] = set()
        self._found: set[tuple[ConfigResource, str]] = set()
        self._troubled: set[ConfigResource] = set()
        """The resources whose last change was not answered, or was refused."""
        self.listed: dict[tuple[str, str], set[str]] = {}
        """Our entries by topic and list, as they arrived."""
        self.rates_sent: set[str] = set()  # the rates that arrived, except those that were put back
        self.bound: set[tuple[TopicPartition, int]] = set()
        """The replicas that were throttled at the arrival of the alter that added them."""
        run.checks.append(self._written)
        run.witness.arrivals.append(self._arrives)

    def _written(self, written: Sequence[JournalEntry]) -> None:
        for each in written:
            match each.event:
                case SettingsFound(found=found):
                    for one in found:
                        described = self._configs.described(one.resource)
                        assert described is not None
                        assert one.before == described.get(one.key), f"found otherwise: {one}"
                    self._found |= {(one.resource, one.key) for one in found}
                case Configure() as intent:
                    assert {(c.resource, c.key) for c in intent.changes} <= self._found
                    self._intended |= {*intent.changes}
                    self._putting_back |= {*intent.changes} if intent.puts_back else set()
                    self._troubled |= {change.resource for change in intent.changes}
                case Configured(verdict=Verdict.ACCEPTED) as answer:
                    self._troubled.discard(answer.resource)
        if any(isinstance(each.event, StepBegun) for each in written):
            self._decided()

    def _decided(self) -> None:
        """Check the lists against the poll of a decision: no listed replica is in sync or at rest.

        Entries that came late are excepted: they are removed again when no more of them can come.
        """
        assert self._run.seen is not None
        came_late = self._run.folded.throttled.late
        for (name, key), mine in self.listed.items():
            resource = ConfigResource(ConfigScope.TOPIC, name)
            if resource not in self._troubled and (resource, key) not in came_late:
                for each in mine & self._listed(name, key):
                    tp = TopicPartition(name, int(each.partition(":")[0]))
                    assert tp in self._run.folded.tracks_in_flight, (
                        f"{each} is listed, and not in flight"
                    )
        for tp, state in self._run.seen.partitions.items():
            up = self._ours_of(tp, FOLLOWER_REPLICAS) - {*self._run.cluster.metadata.fenced}
            resource = ConfigResource(ConfigScope.TOPIC, tp.topic)
            late = (resource, FOLLOWER_REPLICAS) in came_late
            if resource not in self._troubled and not late:
                assert not up & {*state.isr}, f"{tp} is listed with {up}, and in sync"

    def _arrives(self, arrival: Arrival) -> None:
        for resource, changes in arrival.settings.items():
            for change in changes:
                self._configured(resource, change)
        for tp, target in arrival.partitions.items():
            if arrival.late and self._overtaken(tp, target):
                continue
            if target == ():
                assert not self._ours_of(tp, *REPLICAS), f"{tp} is elected while it is listed"
            elif target is not None:
                self._altered(tp, target, arrival)

    def _overtaken(self, tp: TopicPartition, target: Replicas | None) -> bool:
        """Whether a late request differs from the run's step in flight, at these rates."""
        track = self._run.folded.tracks_in_flight.get(tp)
        step = None if track is None or track.step is None else track.step.begun
        rates = (isinstance(each.event, ThrottleChanged) for each in self._run.witnessed)
        return step is None or step.replicas != target or any(rates)

    def _configured(self, resource: ConfigResource, change: ConfigChange) -> None:
        if self.journaled:
            assert change in self._intended, f"no intent for {change}"
            assert change.op is not ConfigOp.DELETE or change in self._putting_back
        else:
            assert change.op in {ConfigOp.SUBTRACT, ConfigOp.DELETE}, f"unrecorded: {change}"
        assert (resource, change.key) in self._found, f"not looked at before: {change}"
        assert change.key in (*REPLICAS, FOLLOWER_RATE, LEADER_RATE)
        if change.key not in REPLICAS:
            if change not in self._putting_back and change.value is not None:
                self.rates_sent.add(change.value)
            return
        assert change.op is not ConfigOp.SET, f"a list is overwritten: {change}"
        named = parse_throttled_list(change.value or "")
        assert ALL not in named
        mine = self.listed.setdefault((resource.name, change.key), set())
        if change.op is ConfigOp.APPEND:
            mine |= named - self._listed(resource.name, change.key)
        elif change.op is ConfigOp.SUBTRACT:
            mine -= named
        else:
            mine.clear()

    def _altered(self, tp: TopicPartition, target: Replicas, arrival: Arrival) -> None:
        known = self._run.cluster.controller.get(tp)
        if known is None or known.reassigning:
            return
        adding, removing = {*target} - {*known.replicas}, {*known.replicas} - {*target}
        if removing or not adding:
            mine = self._ours_of(tp, *REPLICAS)
            leading = {*known.replicas} if self._run.options.throttle_leaders and adding else set()
            assert mine <= adding | leading, f"{tp} is cut while {mine} are listed"
        for broker in adding:
            self._bound(tp, broker, FOLLOWER_REPLICAS, FOLLOWER_RATE, arrival)
        if self._run.options.throttle_leaders and adding:
            for broker in {*known.replicas} - self._seen_down(tp):
                self._bound(tp, broker, LEADER_REPLICAS, LEADER_RATE, arrival)

    def _seen_down(self, tp: TopicPartition) -> set[int]:
        """Return the replicas that cannot lead, by the run's last poll."""
        state = None if self._run.seen is None else self._run.seen.partitions.get(tp)
        return set() if state is None else {*state.offline}

    def _bound(
        self, tp: TopicPartition, broker: int, key: str, rate: str, arrival: Arrival
    ) -> None:
        wanted = self._run.folded.throttled.in_force.of(broker)
        topic = ConfigResource(ConfigScope.TOPIC, tp.topic)
        machine = ConfigResource(ConfigScope.BROKER, str(broker))
        if wanted is None:
            return
        held = self._configs.of(topic).get(key, "")
        touched = self._others.touched
        listed = None if (topic, key) in touched else parse_throttled_list(held)
        allowed = None if (machine, rate) in touched else {str(wanted)}
        found = self._configs.of(machine).get(rate)
        assert not (why := unthrottled(tp, broker, listed, found, allowed)), f"{why}: {arrival}"
        self.bound.add((tp, broker))

    def _listed(self, topic: str, key: str) -> AbstractSet[str]:
        return parse_throttled_list(
            self._configs.of(ConfigResource(ConfigScope.TOPIC, topic)).get(key, "")
        )

    def _ours_of(self, tp: TopicPartition, *keys: str) -> set[int]:
        """Return the brokers of a partition that we have listed, and that are still listed."""
        found = set()
        for key in keys:
            for each in self.listed.get((tp.topic, key), set()) & self._listed(tp.topic, key):
                partition, _, broker = each.partition(":")
                if int(partition) == tp.partition:
                    found.add(int(broker))
        return found


RF3 = (1, 2, 3)
ONE: Mapping[str, tuple[Replicas, Replicas]] = {"orders-0": (RF3, (4, 2, 3))}
TWO = {**ONE, "orders-1": (RF3, (5, 2, 3))}
IN_5_S: Mapping[str, Any] = {"messages": 2_500}
IN_10_S: Mapping[str, Any] = {"messages": 5_000}
"""Clusters whose replicas are copied in so many seconds at the rate of a run."""


class _AtWords(Reaper):
    """Kills at the first instant whose description matches."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = re.compile(words)

    def due(self, where: str) -> bool:
        if self.where or not self._words.search(where):
            return False
        self.where.append(where)
        return True


class ThrottledStory(KilledStory):
    """A story whose run copies at 500 kB/s into a broker: 20 s a replica by default.

    Args:
        folder: the folder of the journal.
        ways: each partition's replicas at first, and its target.
        rate: the throttle as operators write it.
        more: as for `Story`.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]] = ONE,
        rate: str = "500kB",
        **more: Any,
    ) -> None:
        super().__init__(folder, ways, throttle=parse_throttle_rates(rate), **more)
        self.others = Others(self)
        self.rules = ThrottleRules(self, self.others)

    def killed(self, words: str) -> None:
        """Kill its engine at the first instant that matches the words."""
        self.reaper = _AtWords(words)

    def to_the_end(self, dead_s: float | None = 2.0, until_s: float = 2_000.0) -> Run:
        return super().to_the_end(dead_s, until_s)

    @property
    def lists(self) -> dict[str, str]:
        """The present throttled lists of the topic orders."""
        values = settings_in(self.cluster).get(topic("orders"), {})
        return {key: value for key, value in values.items() if key in REPLICAS}

    @property
    def rates(self) -> dict[int, str]:
        """The dynamic follower rate of each broker that has one."""
        found = settings_in(self.cluster)
        brokers = ((r, v) for r, v in found.items() if r.scope is ConfigScope.BROKER)
        return {int(r.name): v[FOLLOWER_RATE] for r, v in brokers if FOLLOWER_RATE in v}

    def assert_left_as_found(self) -> None:
        """Check that every setting of the cluster is byte for byte as without the run."""
        assert self.run.ended, self.run.left
        assert self.run.throttled.clean
        found, wanted = settings_in(self.cluster), self.others.settings
        for resource, key in self.others.touched:
            if key in REPLICAS:  # an empty list that somebody leaves behind counts as none
                for settings in (found, wanted):
                    if settings.get(resource, {}).get(key) == "":
                        settings[resource].pop(key)
        assert {r: s for r, s in found.items() if s} == {r: s for r, s in wanted.items() if s}


def topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigScope.TOPIC, name)


def broker(number: int) -> ConfigResource:
    return ConfigResource(ConfigScope.BROKER, str(number))


def set_rate(number: int, bytes_s: int | None, key: str = FOLLOWER_RATE) -> ConfigChange:
    """Return somebody else's change of a broker's rate; None deletes it."""
    if bytes_s is None:
        return ConfigChange(broker(number), key, ConfigOp.DELETE)
    return ConfigChange(broker(number), key, ConfigOp.SET, str(bytes_s))


def change_list(
    op: ConfigOp, value: str | None, key: str = FOLLOWER_REPLICAS, name: str = "orders"
) -> ConfigChange:
    """Return somebody else's change of a topic's list."""
    return ConfigChange(topic(name), key, op, value)


def many_entries(length: int) -> str:
    """Return a list of replicas of ``length`` bytes, or a few less."""
    found: list[str] = []
    left = length + 1
    for partition in range(1_000, 9_999):
        each = throttled_entry(partition, 9)
        if (left := left - len(each) - 1) < 0:
            break
        found.append(each)
    return ",".join(found)
