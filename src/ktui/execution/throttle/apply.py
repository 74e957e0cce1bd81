"""Set throttles before a step, remove them once its replicas are in sync, and restore settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.ownership import SendGuard
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import (
    ALL,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    RATE_OF,
    SettingKey,
    parse_throttled_list,
    topic_resource,
)
from ktui.execution.run.events import BudgetShared, SettingChanged
from ktui.execution.run.options import OnForeignThrottle
from ktui.execution.run.run import Run
from ktui.execution.throttle.desired import (
    CopyTimelines,
    NearlyInSync,
    ThrottleChanges,
    share_budget,
    usable,
)
from ktui.execution.throttle.write_settings import FOUND_STALE_S, SETTLE_S, Record, SettingsWriter
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.progress.flows import Flows

KEEPS_S = 5.0  # seconds for which a broker that receives nothing keeps its share of the budget
SETTLES_S = 22.0  # until a rate shows in what a broker takes in: two of Kafka's windows


class ThrottleManager:
    """Keep the throttles of a run in line with its steps.

    The journal has every original value before the run changes it, and every change before it is
    sent. After a crash the fold of the journal shows all settings that may be left behind.
    """

    def __init__(
        self, run: Run, settings: SettingsWriter, clock: Clock, record: Record, guard: SendGuard
    ) -> None:
        self._run = run
        self._guard = guard
        self._throttled = run.throttled
        self._clock = clock
        self._near = NearlyInSync(run)
        self._record = record
        self._settings = settings
        self._unread: frozenset[ConfigResource] = frozenset()  # their lists could not be read
        self._received_s: dict[int, float] = {}  # last seen to receive copies
        self._usable: Mapping[int, float] = {}  # by brokers that cannot use their share
        self._shared_s = -inf  # when the budget was last shared in another way
        self._read_back_s: dict[SettingKey, float] = {}  # of settings that the run relies on

    def update(self, timelines: CopyTimelines) -> None:
        self._near.update(timelines)

    def share(self, seen: Observation, flows: Flows) -> list[BudgetShared]:
        """Nothing if it stays as it is. A broker between two steps keeps its share for a moment."""
        rates = self._throttled.bounded
        if rates.budget is None:
            return []
        now_s, before = self._clock.monotonic(), self._throttled.shares
        for broker in self._due(seen).receiving:
            self._received_s[broker] = now_s
        self._received_s = {b: s for b, s in self._received_s.items() if now_s - s <= KEEPS_S}
        if now_s - self._shared_s >= SETTLES_S:
            known = {broker: flows.of(broker).in_s for broker in before}
            intake = {broker: in_s for broker, in_s in known.items() if in_s is not None}
            self._usable = usable(intake, before, self._usable)
        shares = share_budget(rates.budget, self._most_of_use(rates), before)
        if shares == before:
            return []
        self._shared_s = now_s
        return [BudgetShared(shares=tuple(BrokerRate(*each) for each in sorted(shares.items())))]

    def _most_of_use(self, rates: ThrottleRates) -> Mapping[int, float | None]:
        own = msgspec.structs.replace(rates, budget=None)
        bounds = {b: (own.of(b), self._usable.get(b)) for b in self._received_s}
        return {
            b: min((x for x in each if x is not None), default=None) for b, each in bounds.items()
        }

    async def loosen(self, seen: Observation, *, leaving: bool = False) -> None:
        """Remove list entries that are not wanted any more, and restore settings no longer needed.

        A broker that is down is left alone until it is back. A topic or broker that has refused a
        change is left alone for a while. Where an answer was lost, a list is emptied at once, and
        once more when the lost request can no longer take effect. Only then is anything restored.
        """
        self._settings.update(seen.monotonic_s)
        if not self._throttled.ours:
            return
        if self._guard.is_due:  # the poll may have taken long
            await self._guard.ask()
        removals = self._due(seen).removals(self._settings.late_by_now)
        await self._settings.change(self._left_out(self._settings.refusing, removals))
        await self._put_back(self._done_with(seen, leaving=leaving))
        if leaving and (rest := self._done_with(seen, leaving=True)):
            await self._clock.sleep(SETTLE_S)
            await self._put_back(rest)

    async def tighten(self, seen: Observation, adding: Collection[TopicPartition]) -> None:
        """Throttle the replicas of steps that are about to be sent, and are in the journal already.

        The rates may change, and the throttles be given up, while anything here is awaited. So each
        change follows from the run's state when it is sent. `not_in_force` returns the outcome.
        """
        self._settings.denied = ""
        self._unread = frozenset()
        if not self._throttled.in_force:
            return
        counted_on = self._due(seen).counted_on() if adding else ()
        self._unread = frozenset(await self._settings.read_lists(counted_on))
        resting = self.resting
        due = {*self._due(seen).unread(), *self._settings.outdated()}
        await self._settings.find([key for key in sorted(due) if key[0] not in resting])
        begins = any(self._run.tracks[tp].cancel is None for tp in adding)
        await self._set(seen, begins_step=begins)
        for again in (True, False):
            await self._read_back(seen, adding)
            if not again or not self._lacks(seen):
                return
            await self._set(seen, begins_step=begins)

    def not_in_force(
        self, seen: Observation, adding: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Return the partitions whose steps must not be sent, with the reason.

        Their throttle is not in force. It is in force if every rate and list entry is set, and was
        read back less than `FOUND_STALE_S` ago.
        """
        if not self._throttled.in_force:
            return {}
        due, now_s = self._due(seen), self._clock.monotonic()
        held: dict[TopicPartition, WriteResult] = {}
        for tp in adding:
            keys = due.promised([tp])
            stale = any(now_s - self._read_back_s.get(key, -inf) >= FOUND_STALE_S for key in keys)
            if topic_resource(tp.topic) in self._unread or not due.in_force(tp) or stale:
                held[tp] = self._not_sent(keys, due.full_lists(tp))
        return held

    def holds_for_s(self, seen: Observation, adding: Collection[TopicPartition]) -> float:
        """For how many seconds the values read back for steps stay valid; inf without any."""
        keys = self._due(seen).promised(adding) if self._throttled.in_force else set()
        read_s = min((self._read_back_s.get(key, -inf) for key in keys), default=inf)
        return read_s + FOUND_STALE_S - self._clock.monotonic()

    @property
    def silent_brokers(self) -> set[int]:
        """They have not answered since they got a change of settings."""
        return self._settings.unanswered.silent

    async def _set(self, seen: Observation, *, begins_step: bool) -> None:
        asked_s = self._clock.monotonic()
        clear = await self._look_at_rates(seen)
        # one that rested when the read began may rest no longer, and was not read
        rates = [
            change
            for change in self._left_out(self.resting, self._due(seen).rates())
            if (key := (change.resource, change.key)) in clear or not self._is_touched(key)
        ]
        left_s = FOUND_STALE_S - (self._clock.monotonic() - asked_s)
        await self._change(rates, begins_step=begins_step, leaves_within_s=left_s)
        if rates:
            await self._guard.ask()
        additions = self._left_out(self.resting, self._due(seen).additions())
        await self._change(additions, begins_step=begins_step)

    async def _look_at_rates(self, seen: Observation) -> set[SettingKey]:
        """Note others' changes of rates to set next; return the sure ones."""
        due = self._left_out(self.resting, self._due(seen).rates())
        keys = ((change.resource, change.key) for change in due)
        again = [key for key in keys if self._is_touched(key)]
        found = await self._settings.read(again)
        known = {key: each for key, each in found.items() if key in self._throttled.ours}
        settled = [key for key in known if self._settings.settled(key[0])]
        for key in settled:
            self._note(key, known[key])
        return {
            key
            for key, setting in known.items()
            if key in settled
            or not self._throttled.changed_by_others(key, None if setting is None else setting.own)
        }

    def _is_touched(self, key: SettingKey) -> bool:
        ours = self._throttled.ours.get(key)
        return ours is not None and ours.touched

    async def _change(
        self,
        changes: Sequence[ConfigChange],
        *,
        begins_step: bool,
        leaves_within_s: float = FOUND_STALE_S,
    ) -> None:
        """Send changes that steps rely on; values read back before are no longer valid."""
        for change in changes:
            self._read_back_s.pop((change.resource, change.key), None)
        await self._settings.change(
            changes, begins_step=begins_step, leaves_within_s=leaves_within_s
        )

    def _lacks(self, seen: Observation) -> bool:
        due, resting = self._due(seen), self.resting
        changes = (*due.rates(), *due.additions())
        return any(change.resource not in resting for change in changes)

    async def _read_back(self, seen: Observation, adding: Collection[TopicPartition]) -> None:
        resting, asked_s = self.resting, self._clock.monotonic()
        theirs = {
            key
            for key in self._throttled.foreign
            if asked_s - self._read_back_s.get(key, -inf) >= FOUND_STALE_S
        }
        relied = self._due(seen).promised(adding) | self._suspicious(seen) | theirs
        found = await self._settings.read(sorted(key for key in relied if key[0] not in resting))
        due = self._due(seen)
        for key, setting in found.items():
            ours = self._throttled.ours.get(key)
            if due.as_promised(key, setting):
                self._read_back_s[key] = asked_s
                if key in self._throttled.foreign and key[1] not in RATE_OF and setting is not None:
                    self._note_rate(key, setting.own)
            else:
                self._read_back_s.pop(key, None)  # no step relies on the earlier value
                if ours is not None and ours.touched and self._settings.settled(key[0]):
                    self._note(key, setting)

    def _note(self, key: SettingKey, setting: Setting | None) -> None:
        throttled, is_list = self._throttled, key[1] in RATE_OF
        found = None if setting is None else (setting.value if is_list else setting.own)
        if is_list or key in throttled.foreign or throttled.changed_by_others(key, found):
            self._record([SettingChanged(resource=key[0], key=key[1], found=found)])

    def _note_rate(self, key: SettingKey, own: str | None) -> None:
        if own != self._throttled.foreign[key]:
            self._record([SettingChanged(resource=key[0], key=key[1], found=own)])

    def _suspicious(self, seen: Observation) -> set[SettingKey]:
        due = self._due(seen)
        return {
            key
            for key in due.promised(self._run.tracks_in_flight)
            if (ours := self._throttled.ours.get(key)) is not None
            and ours.touched
            and key not in self._throttled.foreign
            and not _shows(key, ours.values, seen)
        }

    @property
    def resting(self) -> frozenset[ConfigResource]:
        """They get no change yet, so no step that needs one begins."""
        if not self._throttled.in_force:
            return frozenset()
        return frozenset((*self._settings.refusing, *self._settings.unanswered))

    @property
    def hindered(self) -> Mapping[ConfigResource, str]:
        why: dict[ConfigResource, str] = {}
        for resource in self.resting:
            node = self._settings.unanswered.node(resource)
            refusal = self._throttled.refusals.get(resource) or self._settings.denied
            silent = "no answer in time" if node is None else silent_text(node)
            reason = refusal or silent
            why[resource] = f"{resource.scope} {resource.name}: {reason}"
        if self._run.options.on_foreign_throttle is OnForeignThrottle.HOLD:
            why |= {key[0]: self._foreign_in_words(key) for key in self._throttled.foreign}
        return why

    @property
    def denied(self) -> str:
        return self._settings.denied

    def _left_out(
        self, resting: frozenset[ConfigResource], changes: Iterable[ConfigChange]
    ) -> list[ConfigChange]:
        return [change for change in changes if change.resource not in resting]

    def _done_with(self, seen: Observation, *, leaving: bool) -> list[SettingKey]:
        ours = self._throttled.ours
        return [
            key
            for key in self._due(seen).done_with(leaving=leaving)
            if key not in self._settings.late
            and (not ours[key].touched or self._reachable(key[0], seen))
        ]

    async def _put_back(self, keys: Sequence[SettingKey]) -> None:
        for key in [key for key in keys if not self._throttled.ours[key].touched]:
            self._settings.give_up(key[0], [key[1]], "")
        asked_s = self._clock.monotonic()
        ours = self._throttled.ours
        found = await self._settings.read(key for key in keys if key in ours)
        changes = []
        for key, now in found.items():
            if key not in self._throttled.ours:
                continue  # given up meanwhile
            if change := self._putting_back(key, now):
                changes.append(change)
            elif self._settings.settled(key[0]):
                self._settings.give_up(key[0], [key[1]], self._why_left(key, now))
        left_s = FOUND_STALE_S - (self._clock.monotonic() - asked_s)
        await self._settings.change(changes, puts_back=True, leaves_within_s=left_s)

    def _putting_back(self, key: SettingKey, now: Setting | None) -> ConfigChange | None:
        """None if nothing of the run is left there. An emptied list was emptied by its owners."""
        ours, own = self._throttled.ours[key], None if now is None else now.own
        before = None if ours.before is None else ours.before.own
        is_list = key[1] in RATE_OF
        if own == before or own is None or not (own == "" if is_list else own in ours.values):
            return None
        if before is None or is_list:
            return ConfigChange(key[0], key[1], ConfigOp.DELETE)
        return ConfigChange(key[0], key[1], ConfigOp.SET, before)

    def _why_left(self, key: SettingKey, now: Setting | None) -> str:
        ours, own = self._throttled.ours[key], None if now is None else now.own
        was_there = ours.values and not ours.unsure and key[0] not in self._throttled.asked
        is_back = own == (None if ours.before is None else ours.before.own)
        if key[1] in RATE_OF or (is_back and not was_there):
            return ""
        return f"someone else set it to {own}" if own is not None else "someone else deleted it"

    def _due(self, seen: Observation) -> ThrottleChanges:
        settings, near = self._settings, self._near.replicas
        return ThrottleChanges(self._run, seen.partitions, settings.covered, settings.gone, near)

    def _reachable(self, resource: ConfigResource, seen: Observation) -> bool:
        if resource in self._settings.unanswered or resource in self._settings.refusing:
            return False
        return resource.scope is not ConfigScope.BROKER or seen.alive(int(resource.name))

    def _foreign_in_words(self, key: SettingKey) -> str:
        resource, name = key
        return (
            f"someone else set {name} of broker {resource.name} to "
            f"{self._throttled.foreign[key]}. Delete that, or set the run's rate in its place, and "
            f"have it put back at the end: ktui throttle {self._run.name} RATE"
        )

    def _not_sent(self, keys: Collection[SettingKey], full: Collection[SettingKey]) -> WriteResult:
        foreign = self._throttled.foreign
        for key in sorted(keys & foreign.keys()):
            why = self._foreign_in_words(key)
            return WriteResult(Verdict.REFUSED, message=f"its throttle is not in force: {why}")
        not_allowed = self._guard.why_not(begins_step=True)
        denied = self._settings.denied
        no_room = next((f"{name} of {topic.name} is full" for topic, name in full), "")
        why = self._throttled.refusal or not_allowed or denied or no_room or "no answer in time"
        return WriteResult(Verdict.REFUSED, message=f"its throttle could not be set: {why}")


def silent_text(node: int) -> str:
    """Return why a setting waits that a broker has been asked to change."""
    return f"broker {node} has not answered since it got the change"


def _shows(key: SettingKey, values: frozenset[str], seen: Observation) -> bool:
    resource, name = key
    if name == FOLLOWER_REPLICAS:
        topic = seen.topic_configs.get(resource.name)
        listed = frozenset(
            () if topic is None else parse_throttled_list(topic.follower_throttled_replicas)
        )
        return topic is None or ALL in listed or values <= listed
    if name == FOLLOWER_RATE:
        broker = seen.broker_configs.get(int(resource.name))
        return broker is None or str(broker.follower_throttle_rate) in values
    return True
