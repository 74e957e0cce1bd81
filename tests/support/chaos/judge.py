"""What a run may never do, judged at the simulated controller and never at the run's own view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope
from ktui.cluster.resources import of_broker, of_topic
from ktui.cluster.throttle_settings import ALL, FOLLOWER_RATE, FOLLOWER_REPLICAS, entries, entry
from ktui.execution.events import Cancel, Elect, Ended, Entry, StepBegun
from ktui.execution.options import OnForeignThrottle
from ktui.execution.states import State
from ktui.simulated.controller.registration import Registration
from support.runs_witnessed import WitnessedRun
from support.witness import Arrival

STALE_S = 5.0
"""What a request rests on is no older when it leaves."""

QUIET_LOOKS, QUIET_S = 20, 90.0
"""A step in flight that is not listed has a reason by then."""

Partitions = Mapping[TopicPartition, Registration | None]
Settings = Mapping[ConfigResource, Mapping[str, str]]


class Seen(msgspec.Struct):
    """One read, and how everything was at the controller when it took effect."""

    what: str
    asked_s: float
    names: frozenset[str] = frozenset()
    fresh: bool = False
    partitions: Partitions = {}
    settings: Settings = {}
    resources: frozenset[ConfigResource] = frozenset()
    answered: bool = False


class Judge:
    """Holds each request to the reads before it, as it leaves, and to the end, as it arrives."""

    def __init__(self, run: WitnessedRun) -> None:
        self._run = run
        self._reads: list[Seen] = []
        self._departed: set[tuple[TopicPartition, int]] = set()
        """The steps of which a request has left, by their number."""
        self.ended: Ended | None = None
        self.told_to_leave = False
        self.disowned_s: float | None = None
        """Since when the process that carries it on does not own it any more."""
        self._quiet: dict[TopicPartition, tuple[float, int]] = {}
        """Since when nothing is known to happen to a step in flight, and for how many looks."""
        self.changed_since = Counter[str]()
        """What had changed between a request's read and its effect: the window."""
        self.requests = Counter[str]()
        run.checks.append(self._written)
        run.witness.arrivals.append(self._arrives)

    # ------------------------------------------------------------------ reads

    def listing(self) -> Seen:
        return self._asked("list")

    def describing(self, names: Collection[str], *, fresh: bool) -> Seen:
        seen = self._asked("describe")
        seen.names, seen.fresh = frozenset(names), fresh
        return seen

    def reading_settings(self, resources: Collection[ConfigResource]) -> Seen:
        seen = self._asked("settings")
        seen.resources = frozenset(resources)
        return seen

    def takes_effect(self, seen: Seen) -> None:
        """Keep how everything is at the controller now."""
        controller = self._run.cluster.controller
        if seen.what == "settings":
            configs = controller.configs
            seen.settings = {each: dict(configs.of(each)) for each in seen.resources}
        else:
            seen.partitions = {tp: controller.get(tp) for tp in self._run.folded.tracks}

    def answered(self, seen: Seen) -> None:
        seen.answered = True

    def _asked(self, what: str) -> Seen:
        now_s = self._run.clock.monotonic()
        self._reads = [read for read in self._reads if now_s - read.asked_s <= 4 * STALE_S]
        seen = Seen(what, now_s)
        self._reads.append(seen)
        return seen

    def _recent(self, what: str) -> list[Seen]:
        now_s = self._run.clock.monotonic()
        return [
            read
            for read in self._reads
            if read.what == what and read.answered and now_s - read.asked_s <= STALE_S + 1e-6
        ]

    # -------------------------------------------------------------- departures

    def alter_leaves(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        """Hold alters and cancels to what they rest on, and to what operators were told."""
        self._owned()
        for tp, target in targets.items():
            if target is None:
                self.requests["cancel"] += 1
                self._cancel_leaves(tp)
            else:
                self.requests["alter"] += 1
                self._alter_leaves(tp, target)

    def _cancel_leaves(self, tp: TopicPartition) -> None:
        lists = [read for read in self._recent("list") if _moving(read.partitions.get(tp))]
        assert lists, f"{tp} is cancelled, and no list of the last {STALE_S} s shows it"
        told = [
            read
            for read in self._recent("describe")
            if tp.topic in read.names and read.asked_s >= min(each.asked_s for each in lists)
        ]
        safe = any(_keeps_data(read.partitions.get(tp)) for read in (*told, *lists))
        assert told, f"{tp} is cancelled, and no metadata of the last {STALE_S} s tells its ISR"
        assert safe, f"{tp} is cancelled though nothing else was in sync: {told}"

    def _alter_leaves(self, tp: TopicPartition, target: tuple[int, ...]) -> None:
        lists = self._recent("list")
        still = [read for read in lists if not _moving(read.partitions.get(tp))]
        assert lists, f"{tp} is altered, and nothing was listed for {STALE_S} s"
        assert still, f"{tp} is altered while it moves, by every list of the last {STALE_S} s"
        track = self._run.folded.tracks[tp]
        assert track.step is not None, f"{tp} is altered without a step"
        assert track.step.begun.replicas == target, f"{tp}: no intent for {target}"
        assert not track.step.called_off, f"{tp} is altered though it was called off"
        self._new_step(tp)
        for broker in track.step.begun.adding:
            self._throttled(tp, broker)

    def election_leaves(self, partitions: Collection[TopicPartition]) -> None:
        self._owned()
        for tp in partitions:
            self.requests["election"] += 1
            track = self._run.folded.tracks[tp]
            assert track.step is not None, f"{tp} is elected without a step"
            if not track.step.begun.alters:
                self._new_step(tp)

    def _owned(self) -> None:
        """Hold each request to the lock: what was checked before it left is 5 s old at most."""
        if self.disowned_s is not None:
            age_s = self._run.clock.monotonic() - self.disowned_s
            assert age_s <= STALE_S, f"something is sent {age_s:.0f} s after the lock is gone"

    def looked(self) -> None:
        """Hold each step in flight to being listed, or having a reason, after a while."""
        now_s, controller = self._run.clock.monotonic(), self._run.cluster.controller
        quiet: dict[TopicPartition, tuple[float, int]] = {}
        for tp, track in self._run.folded.flying.items():
            known = controller.get(tp)
            told = track.reason or (known is not None and known.reassigning)
            if not told and track.state is not State.ELECTING:
                since_s, looks = self._quiet.get(tp, (now_s, 0))
                quiet[tp] = (since_s, looks + 1)
                tells = looks < QUIET_LOOKS or now_s - since_s < QUIET_S
                assert tells, f"{tp} stands still for {now_s - since_s:.0f} s without a word"
        self._quiet = quiet

    def _new_step(self, tp: TopicPartition) -> None:
        """Hold the first request of a step to the words of all answers so far."""
        run, track = self._run.folded, self._run.folded.tracks[tp]
        if (tp, track.steps) in self._departed:
            return
        self._departed.add((tp, track.steps))
        assert not run.pauses.stop(tp), f"a step of {tp} leaves while it is paused"
        shut = run.cancel_gate.shut and track.cancel is None
        assert not shut, f"a step of {tp} leaves while the cancel gate is shut"
        assert not self.told_to_leave, f"a step of {tp} leaves though the run is being left"

    def _throttled(self, tp: TopicPartition, broker: int) -> None:
        """Hold a step that adds a replica to the rate that is promised for it."""
        throttled, options = self._run.folded.throttled, self._run.options
        wanted = throttled.rates.of(broker)
        if wanted is None:
            return
        rates = [r.settings[of_broker(broker)] for r in self._settings(of_broker(broker))]
        lists = [r.settings[of_topic(tp.topic)] for r in self._settings(of_topic(tp.topic))]
        allowed = {str(wanted)}
        if options.on_foreign_throttle is OnForeignThrottle.GO_ON:
            allowed |= set(throttled.foreign.values())
        found = {told.get(FOLLOWER_RATE) for told in rates}
        assert found & allowed, f"{tp} onto {broker} at {found or 'a rate that nobody has read'}"
        each = entry(tp.partition, broker)
        listed = [entries(told.get(FOLLOWER_REPLICAS, "")) for told in lists]
        assert any(each in some or ALL in some for some in listed), f"{tp} onto {broker}: unlisted"

    def _settings(self, resource: ConfigResource) -> list[Seen]:
        return [read for read in self._recent("settings") if resource in read.settings]

    def settings_leave(self, changes: Sequence[ConfigChange]) -> None:
        self._owned()
        for change in changes:
            self.requests[f"settings {change.op}"] += 1
            if change.resource.scope is ConfigScope.BROKER:
                assert change.value != "None", f"a rate of nothing is sent: {change}"

    # ----------------------------------------------------------------- arrivals

    def _arrives(self, arrival: Arrival) -> None:
        if self.ended is not None:
            named = {TopicPartition(each.topic, each.partition) for each in self.ended.open}
            for tp in arrival.partitions:
                assert tp in named, f"{tp}: {arrival} arrives after the end, which did not name it"
            assert not arrival.settings, f"{arrival} arrives after the end"
        for tp, target in arrival.partitions.items():
            known = self._run.cluster.controller.get(tp)
            if target is None and known is not None and known.reassigning:
                self.changed_since["cancel, nothing else in sync"] += not _keeps_data(known)
            elif target and known is not None and known.reassigning:
                step = self._run.folded.tracks[tp].step
                ours = step is not None and {*step.begun.adding} >= {*known.adding}
                self.changed_since["alter of what moves"] += not ours

    def _written(self, written: Sequence[Entry]) -> None:
        for entry_ in written:
            match entry_.event:
                case Ended() as ended:
                    self.ended = ended
                case StepBegun() | Cancel() | Elect():
                    assert self.ended is None or self._reopened, "an intent after the end"

    @property
    def _reopened(self) -> bool:
        return not self._run.folded.ended


def _moving(known: Registration | None) -> bool:
    return known is not None and known.reassigning


def _keeps_data(known: Registration | None) -> bool:
    return known is not None and bool({*known.isr} - {*known.adding})
