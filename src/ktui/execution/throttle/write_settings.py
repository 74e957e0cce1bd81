"""Read and change settings for a run: each change is in its journal first; refusals are tracked."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, Means, NotAuthorized, means
from ktui.cluster.observer import ObservationSource
from ktui.cluster.ownership import SendGuard
from ktui.cluster.ports import (
    ClusterPorts,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import ALL, SettingKey, names_by_scope, parse_throttled_list
from ktui.execution.run import events
from ktui.execution.run.throttle_ledger import ListEntries, ThrottleLedger
from ktui.execution.run.unanswered import LastHeard, Unanswered, outcomes

log = logging.getLogger(__name__)

AGAIN_S, LONGEST_S = 5.0, 60.0  # the first and longest wait; it doubles each time
SETTLE_S = 1.0  # a broker may take to apply a change that it has read: none is judged before
FOUND_STALE_S = 5.0  # a setting is changed only within so many seconds of its last read

Record = Callable[[Sequence[events.AnyRunEvent]], None]


class _Rest(NamedTuple):
    rest_s: float
    until_s: float


class SettingsWriter:
    """Read and change the throttle settings."""

    def __init__(
        self,
        throttled: ThrottleLedger,
        ports: ClusterPorts,
        source: ObservationSource,
        clock: Clock,
        record: Record,
        *,
        heard: LastHeard,
        guard: SendGuard,
    ) -> None:
        self._throttled = throttled
        self._guard = guard
        self._ports = ports
        self._source = source
        self._clock = clock
        self._record = record
        self._rests: dict[ConfigResource, _Rest] = {}
        self._polled_s = 0.0
        self._began_s = clock.monotonic()
        self._changed_s: dict[ConfigResource, float] = {}
        nodes = throttled.open_nodes
        left_open = {r: nodes.get(r, ()) for r in (*throttled.asked, *throttled.lost)}
        self.unanswered = Unanswered(left_open, heard)
        self._found_s: dict[SettingKey, float] = {}  # if the run has not changed it
        self.late = dict(throttled.late)  # may yet be appended, or were after removal
        self.covered: set[SettingKey] = set()  # someone has put every replica of a topic into them
        self.gone: dict[SettingKey, frozenset[str]] = {}  # others', read once, and gone
        self.denied = ""  # the missing permission, for the last throttles; empty if none is

    def update(self, now_s: float) -> None:
        """Once for each poll; polls show when a lost request can no longer take effect."""
        if now_s != self._polled_s:
            self._polled_s = now_s
            self.unanswered.note_poll(now_s)

    @property
    def late_by_now(self) -> ListEntries:
        return {key: some for key, some in self.late.items() if key[0] not in self.unanswered}

    @property
    def refusing(self) -> frozenset[ConfigResource]:
        now_s = self._clock.monotonic()
        return frozenset(r for r, rest in self._rests.items() if rest.until_s > now_s)

    def settled(self, resource: ConfigResource) -> bool:
        """A read is sure to show the last change."""
        changed_s = self._changed_s.get(resource, self._began_s)
        return self._clock.monotonic() - changed_s >= SETTLE_S

    async def find(self, keys: Sequence[SettingKey]) -> None:
        """Journal the values of settings before their first change; known ones not again."""
        asked_s = self._clock.monotonic()
        settings, ours = await self.read(keys), self._throttled.ours
        self._found_s |= dict.fromkeys(settings, asked_s)
        found = [
            events.FoundSetting(key[0], key[1], setting)
            for key, setting in settings.items()
            if key not in ours or ours[key].before != setting
        ]
        if found:
            self._record([events.SettingsFound(found=tuple(found))])

    def outdated(self) -> list[SettingKey]:
        now_s = self._clock.monotonic()
        return [
            key
            for key, ours in self._throttled.ours.items()
            if not ours.touched and now_s - self._found_s.get(key, -math.inf) >= FOUND_STALE_S
        ]

    async def read_lists(self, keys: Sequence[SettingKey]) -> set[ConfigResource]:
        """Update `covered` and `gone`; return topics without an answer."""
        settings = await self.read(keys)
        for key, setting in settings.items():
            now, ours = _listed(setting), self._throttled.ours.get(key)
            (self.covered.add if ALL in now else self.covered.discard)(key)
            self.gone[key] = _listed(None if ours is None else ours.before) - now
        return {resource for resource, name in keys if (resource, name) not in settings}

    async def read(self, keys: Iterable[SettingKey]) -> dict[SettingKey, Setting | None]:
        keys = list(keys)
        if not keys:
            return {}
        resources = {resource for resource, _ in keys}
        try:
            reading = self._ports.reader.settings(resources, {name for _, name in keys})
            answer = await self._guard.beside(reading)
        except ClusterError as error:
            if isinstance(error, NotAuthorized):
                self.denied = self.denied or str(error)
            self._rest(resources)
            return {}
        except Exception:
            log.exception("the cluster's answer cannot be read")
            self._rest(resources)
            return {}
        self._rest(answer.failures)
        for resource, code in answer.errors.items():
            if means(code, Means.DENIED):
                self.denied = self.denied or answer.failures[resource]
            elif means(code, Means.ABSENT):
                self._forget(resource)
        found = answer.settings
        return {(r, name): found[r].get(name) for r, name in keys if r in found}

    async def change(
        self,
        changes: Sequence[ConfigChange],
        *,
        puts_back: bool = False,
        begins_step: bool = False,
        leaves_within_s: float = FOUND_STALE_S,
    ) -> None:
        """Journal an intent, send it, and journal its outcome.

        A setting that was never read, or too long ago, is not changed. Nothing is changed while
        the cluster may belong to another owner.
        """
        until_s = self._clock.monotonic() + leaves_within_s
        stale, ours = set(self.outdated()), self._throttled.ours
        known = [c for c in changes if (c.resource, c.key) in ours.keys() - stale]
        first = [key for c in known if not ours[key := (c.resource, c.key)].touched]
        until_s = min([until_s, *(self._found_s[key] + FOUND_STALE_S for key in first)])
        if not known or leaves_within_s <= 0 or self._guard.why_not(begins_step=begins_step):
            return
        self._record([events.Configure(changes=tuple(known), puts_back=puts_back)])
        results = await self._sent(known, until_s - self._clock.monotonic())
        self._record([_answer(resource, result) for resource, result in results.items()])
        self._source.settings_changed(*names_by_scope(results))
        self._changed_s |= dict.fromkeys(results, self._clock.monotonic())
        await self._learn(known, results)

    def give_up(self, resource: ConfigResource, keys: Sequence[str], reason: str) -> None:
        self._record([events.SettingsGivenUp(resource=resource, keys=tuple(keys), reason=reason)])

    def _forget(self, resource: ConfigResource) -> None:
        held = [name for r, name in self._throttled.ours if r == resource]
        if held:
            self.give_up(resource, held, "it is gone")

    async def _sent(
        self, changes: Sequence[ConfigChange], leaves_within_s: float
    ) -> dict[ConfigResource, WriteResult]:
        resources = dict.fromkeys(change.resource for change in changes)
        if leaves_within_s <= 0:  # the journal was locked for long
            late = WriteResult(Verdict.REFUSED, message="the values it relies on are too old")
            return dict.fromkeys(resources, late)
        work = self._ports.writer.alter_configs(changes, leaves_within_s=leaves_within_s)
        try:
            return await outcomes(resources.keys(), work)
        except asyncio.CancelledError:
            for resource in resources:  # it may be on its way
                self.unanswered.add(resource)
            raise

    async def _learn(
        self, changes: Sequence[ConfigChange], results: Mapping[ConfigResource, WriteResult]
    ) -> None:
        """Note why changes failed: answer lost, denied, resource gone, list with every replica."""
        by_verdict = {v: [r for r, res in results.items() if res.verdict is v] for v in Verdict}
        refused, lost = by_verdict[Verdict.REFUSED], by_verdict[Verdict.UNKNOWN]
        for resource in by_verdict[Verdict.ACCEPTED]:
            self._rests.pop(resource, None)
        for resource in lost:
            self.unanswered.add(resource, results[resource].node)
        for c in changes:
            accepted = c.resource in by_verdict[Verdict.ACCEPTED]
            if accepted and c.op is ConfigOp.SUBTRACT and c.resource not in self.unanswered:
                self.late.pop((c.resource, c.key), None)
        self.late |= {key: some for key, some in self._throttled.late.items() if key[0] in lost}
        denials = (results[r].message for r in refused if means(results[r].code, Means.DENIED))
        self.denied = self.denied or next(denials, "")
        self._rest([*refused, *lost])
        for resource in refused:
            if means(results[resource].code, Means.ABSENT):
                self._forget(resource)
        appending = [c for c in changes if c.resource in refused and c.op is ConfigOp.APPEND]
        await self.read_lists([(change.resource, change.key) for change in appending])

    def _rest(self, resources: Iterable[ConfigResource]) -> None:
        now_s = self._clock.monotonic()
        for resource in resources:
            before = self._rests.get(resource)
            rest_s = AGAIN_S if before is None else min(LONGEST_S, 2 * before.rest_s)
            self._rests[resource] = _Rest(rest_s, now_s + rest_s)


def _answer(resource: ConfigResource, result: WriteResult) -> events.Configured:
    return events.Configured(
        resource=resource,
        verdict=result.verdict,
        code=result.code,
        message=result.message,
        node=result.node,
    )


def _listed(setting: Setting | None) -> frozenset[str]:
    return parse_throttled_list("" if setting is None else setting.value)
