"""Settings read and changed for a run: in its journal first, and known who does not take them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ktui.cluster.clock import Clock
from ktui.cluster.errors import ClusterError, NotAuthorized, describe_unreadable
from ktui.cluster.observer import ObservationSource
from ktui.cluster.ports import (
    ClusterPorts,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.resources import SettingKey
from ktui.cluster.send_guard import Guard, Unguarded
from ktui.cluster.throttle_settings import ALL, parse_throttled_list
from ktui.execution.run.events import (
    AnyRunEvent,
    Configure,
    Configured,
    FoundSetting,
    SettingsFound,
)
from ktui.execution.run.events import SettingsLeft as Left
from ktui.execution.run.refusals import DENIALS, NOT_ALLOWED
from ktui.execution.run.throttle_ledger import Entries, Throttled
from ktui.execution.run.unanswered import LastHeard, Unanswered, always_heard

log = logging.getLogger(__name__)

AGAIN_S, LONGEST_S = 5.0, 60.0
"""How long a topic or broker is left alone that would not take a change: doubled each time."""
SETTLE_S = 1.0
"""How long a broker may take to apply a change that it has read; no value is judged before."""
FOUND_STALE_S = 5.0
"""A setting is touched within this time of when it was found, or found again."""
_GONE = ("UNKNOWN_TOPIC_OR_PARTITION", "BROKER_ID_NOT_REGISTERED")

Record = Callable[[Sequence[AnyRunEvent]], None]


class _Rest(NamedTuple):
    rest_s: float
    until_s: float


class Configuring:
    """Reads and changes the settings that throttle.

    Args:
        throttled: the fold of what was changed.
        ways: tell settings as they stand, and change them.
        source: what is seen of the cluster, told to read anew what has changed.
        clock: time.
        record: writes events down and applies them.
        heard: tells which brokers answer.
        guard: decides whether anything may be changed.
    """

    def __init__(
        self,
        throttled: Throttled,
        ways: ClusterPorts,
        source: ObservationSource,
        clock: Clock,
        record: Record,
        *,
        heard: LastHeard = always_heard,
        guard: Guard | None = None,
    ) -> None:
        self._throttled = throttled
        self._guard = guard or Unguarded()
        self._ways = ways
        self._source = source
        self._clock = clock
        self._record = record
        self._rests: dict[ConfigResource, _Rest] = {}
        self._looked_s = 0.0
        self._began_s = clock.monotonic()
        self._changed_s: dict[ConfigResource, float] = {}
        nodes = throttled.open_nodes
        left_open = {r: nodes.get(r, ()) for r in (*throttled.asked, *throttled.lost)}
        self.unanswered = Unanswered(left_open, heard)
        self._found_s: dict[SettingKey, float] = {}
        """When settings were read that the run has not touched."""
        self.late = dict(throttled.late)
        """The entries of each list that a request may put in, or has since they were taken off."""
        self.covered: set[SettingKey] = set()
        """Lists in which someone has put every replica of a topic."""
        self.gone: dict[SettingKey, frozenset[str]] = {}
        """The entries of others that lists had when they were found, and have no more."""
        self.denied = ""
        """Why the last throttles may not be set: what permission is missing. Empty if none is."""

    def look(self, now_s: float) -> None:
        """Take note of a look, but once: those after a lost answer tell when it is not due more."""
        if now_s != self._looked_s:
            self._looked_s = now_s
            self.unanswered.look(now_s)

    @property
    def late_by_now(self) -> Entries:
        """The late entries that are there by now, or never will be."""
        return {key: some for key, some in self.late.items() if key[0] not in self.unanswered}

    @property
    def refusing(self) -> frozenset[ConfigResource]:
        """Whoever would not take a change, or tell one, and is not asked again yet."""
        now_s = self._clock.monotonic()
        return frozenset(r for r, rest in self._rests.items() if rest.until_s > now_s)

    def settled(self, resource: ConfigResource) -> bool:
        """Whether what was changed last is sure to show."""
        changed_s = self._changed_s.get(resource, self._began_s)
        return self._clock.monotonic() - changed_s >= SETTLE_S

    async def find(self, keys: Sequence[SettingKey]) -> None:
        """Write down how settings stand that are about to be touched for the first time."""
        asked_s = self._clock.monotonic()
        told = await self.read(keys)
        self._found_s |= dict.fromkeys(told, asked_s)
        found = [FoundSetting(key[0], key[1], setting) for key, setting in told.items()]
        if found:
            self._record([SettingsFound(found=tuple(found))])

    def outdated(self) -> list[SettingKey]:
        """Return the settings that others may have changed since they were found."""
        now_s = self._clock.monotonic()
        return [
            key
            for key, ours in self._throttled.ours.items()
            if not ours.touched and now_s - self._found_s.get(key, -math.inf) >= FOUND_STALE_S
        ]

    async def look_at_lists(self, keys: Sequence[SettingKey]) -> set[ConfigResource]:
        """See what others have in lists now: every replica, to which nobody can append, or less.

        Returns:
            The topics that did not tell.
        """
        told = await self.read(keys)
        for key, setting in told.items():
            now, ours = _listed(setting), self._throttled.ours.get(key)
            (self.covered.add if ALL in now else self.covered.discard)(key)
            self.gone[key] = _listed(None if ours is None else ours.before) - now
        return {resource for resource, name in keys if (resource, name) not in told}

    async def read(self, keys: Iterable[SettingKey]) -> dict[SettingKey, Setting | None]:
        """Read settings as they stand; those of a resource that does not answer are left out."""
        keys = list(keys)
        if not keys:
            return {}
        resources = {resource for resource, _ in keys}
        try:
            reading = self._ways.reader.settings(resources, {name for _, name in keys})
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
        denials = (why for why in answer.failures.values() if any(d in why for d in DENIALS))
        self.denied = self.denied or next(denials, "")
        for resource in (r for r, why in answer.failures.items() if why.startswith(_GONE)):
            self._forget(resource)
        told = answer.settings
        return {(r, name): told[r].get(name) for r, name in keys if r in told}

    async def change(
        self,
        changes: Sequence[ConfigChange],
        *,
        puts_back: bool = False,
        begins_step: bool = False,
        leaves_within_s: float = FOUND_STALE_S,
    ) -> None:
        """Write an intent down, carry it out, and write down what came of it.

        What was never looked at, or too long ago, is not changed. Nothing is while the cluster may
        be another's.
        """
        until_s = self._clock.monotonic() + leaves_within_s
        stale, ours = set(self.outdated()), self._throttled.ours
        known = [c for c in changes if (c.resource, c.key) in ours.keys() - stale]
        if not known or leaves_within_s <= 0 or self._guard.why_not(begins_step=begins_step):
            return
        self._record([Configure(changes=tuple(known), puts_back=puts_back)])
        results = await self._sent(known, until_s - self._clock.monotonic())
        self._record([_answer(resource, result) for resource, result in results.items()])
        self._tell(results)
        self._changed_s |= dict.fromkeys(results, self._clock.monotonic())
        await self._learn(known, results)

    def let_go(self, resource: ConfigResource, keys: Sequence[str], reason: str) -> None:
        """Write down that settings are the run's no more, as they stand."""
        self._record([Left(resource=resource, keys=tuple(keys), reason=reason)])

    def _forget(self, resource: ConfigResource) -> None:
        held = [name for r, name in self._throttled.ours if r == resource]
        if held:
            self.let_go(resource, held, "it is gone")

    async def _sent(
        self, changes: Sequence[ConfigChange], leaves_within_s: float
    ) -> dict[ConfigResource, WriteResult]:
        resources = dict.fromkeys(change.resource for change in changes)
        if leaves_within_s <= 0:  # the journal was locked for long
            late = WriteResult(Verdict.REFUSED, message="what it rests on is too old")
            return dict.fromkeys(resources, late)
        try:
            results = await self._ways.writer.alter_configs(
                changes, leaves_within_s=leaves_within_s
            )
        except NotAuthorized as error:
            return dict.fromkeys(resources, WriteResult(Verdict.REFUSED, NOT_ALLOWED, str(error)))
        except ClusterError as error:
            return dict.fromkeys(resources, WriteResult(Verdict.REFUSED, message=str(error)))
        except asyncio.CancelledError:
            for resource in resources:  # it may be on its way
                self.unanswered.add(resource)
            raise
        except Exception as error:
            log.exception("the answer to a change of settings cannot be read")
            words = describe_unreadable(error, "its answer")
            return dict.fromkeys(resources, WriteResult(Verdict.UNKNOWN, message=words))
        unanswered = WriteResult(Verdict.UNKNOWN, message="Kafka's answer left it out")
        return {resource: results.get(resource, unanswered) for resource in resources}

    async def _learn(
        self, changes: Sequence[ConfigChange], results: Mapping[ConfigResource, WriteResult]
    ) -> None:
        """See why a change was not made: lost, denied, without a resource, or covered by a list."""
        by_verdict = {v: [r for r, res in results.items() if res.verdict is v] for v in Verdict}
        refused, lost = by_verdict[Verdict.REFUSED], by_verdict[Verdict.UNKNOWN]
        for resource in by_verdict[Verdict.ACCEPTED]:
            self._rests.pop(resource, None)
        for resource in lost:
            self.unanswered.add(resource, results[resource].node)
        self._learn_of_late(c for c in changes if c.resource in by_verdict[Verdict.ACCEPTED])
        self.late |= {key: some for key, some in self._throttled.late.items() if key[0] in lost}
        denials = (results[r].message for r in refused if results[r].code in DENIALS)
        self.denied = self.denied or next(denials, "")
        self._rest([*refused, *lost])
        for resource in refused:
            if results[resource].code in _GONE:
                self._forget(resource)
        appending = [c for c in changes if c.resource in refused and c.op is ConfigOp.APPEND]
        await self.look_at_lists([(change.resource, change.key) for change in appending])

    def _learn_of_late(self, accepted: Iterable[ConfigChange]) -> None:
        """Have done with late entries that were taken off after the last moment they could come."""
        for change in accepted:
            if change.op is ConfigOp.SUBTRACT and change.resource not in self.unanswered:
                self.late.pop((change.resource, change.key), None)

    def _tell(self, changed: Iterable[ConfigResource]) -> None:
        """Have what was changed read again in the next look."""
        by_scope: dict[ConfigScope, list[str]] = {scope: [] for scope in ConfigScope}
        for resource in changed:
            by_scope[resource.scope].append(resource.name)
        brokers = [int(name) for name in by_scope[ConfigScope.BROKER]]
        self._source.settings_changed(by_scope[ConfigScope.TOPIC], brokers)

    def _rest(self, resources: Iterable[ConfigResource]) -> None:
        now_s = self._clock.monotonic()
        for resource in resources:
            before = self._rests.get(resource)
            rest_s = AGAIN_S if before is None else min(LONGEST_S, 2 * before.rest_s)
            self._rests[resource] = _Rest(rest_s, now_s + rest_s)


def _answer(resource: ConfigResource, result: WriteResult) -> Configured:
    return Configured(
        resource=resource,
        verdict=result.verdict,
        code=result.code,
        message=result.message,
        node=result.node,
    )


def _listed(setting: Setting | None) -> frozenset[str]:
    return parse_throttled_list("" if setting is None else setting.value)
