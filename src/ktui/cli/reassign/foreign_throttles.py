"""Throttles that someone else has set: removed only from a cluster that is at rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from ktui.cli.context.terminal import print_note
from ktui.cli.doctor.remove_throttles import remove_throttles
from ktui.cli.doctor.throttle_findings import catching_up_sentences
from ktui.cli.doctor.throttle_scan import (
    WATCHED_S,
    FoundThrottle,
    ThrottleReason,
    claims_reader,
    scan_throttles,
    scan_topics,
    watch_for_changes,
)
from ktui.cli.reassign.left_runs import RunsPlace
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import ClusterReader, ConfigScope
from ktui.cluster.resources import SettingKey
from ktui.cluster.throttle_settings import ALL, REPLICAS
from ktui.execution.errors import RunRefused
from ktui.planning.names import join_some

_STRAY = (ThrottleReason.LEFT_BEHIND, ThrottleReason.LOG_DIRS)


class ForeignThrottles:
    """Removes throttles as `ktui doctor` does: from a cluster in which nothing moves or changes.

    Kafka's tool sets a throttle before it submits anything, so one read is not enough.

    Args:
        place: the cluster and the state directory.
        reader: reads the cluster.
    """

    def __init__(self, place: RunsPlace, reader: ClusterReader) -> None:
        self._place = place
        self._reader = reader

    async def remove(
        self, wanted: Collection[SettingKey], *, needed: bool
    ) -> frozenset[SettingKey]:
        """Remove settings; return those that are gone.

        Args:
            wanted: what to remove.
            needed: whether a rate stays that another list of throttled replicas may need.

        Raises:
            ClusterError: the cluster does not answer.
        """
        if not wanted:
            return frozenset()
        topics = await scan_topics(self._reader)
        claims = claims_reader(self._place.state)
        again = partial(scan_throttles, self._reader, topics, claims)
        scan = await again()
        if any(
            t.reason is ThrottleReason.CATCHING_UP and _key(t) in wanted for t in scan.throttles
        ):
            for sentence in catching_up_sentences(scan):
                print_note(f"{sentence}: the throttles that it needs stay")
        going = [
            throttle
            for throttle in _stray(scan.throttles, wanted)
            if not (needed and _is_needed(throttle, scan.throttles, wanted))
        ]
        if not going or not await self._may_change():
            return frozenset()
        print_note(f"watching for {WATCHED_S:.0f} s, before throttles go that someone else has set")
        if changes := await watch_for_changes(scan, again, SystemClock()):
            print_note(f"they stay: {join_some(changes)}")
            return frozenset()
        left = await remove_throttles(self._place.target.cluster, self._reader, going)
        for throttle, why in left.items():
            print_note(f"{throttle.where} {throttle.key} stays: {why}")
        return frozenset(_key(throttle) for throttle in going if throttle not in left)

    async def _may_change(self) -> bool:
        """Whether no other state directory owns the cluster."""
        try:
            await self._place.check_owner()
        except RunRefused as owned:
            print_note(str(owned))
            return False
        return True


def _key(throttle: FoundThrottle) -> SettingKey:
    return (throttle.resource, throttle.key)


def _stray(
    throttles: Sequence[FoundThrottle], wanted: Collection[SettingKey]
) -> Iterator[FoundThrottle]:
    for throttle in throttles:
        if _key(throttle) in wanted and throttle.whole and throttle.reason in _STRAY:
            yield throttle


def _is_needed(
    throttle: FoundThrottle, throttles: Sequence[FoundThrottle], wanted: Collection[SettingKey]
) -> bool:
    """Whether a list that stays names the broker of a rate."""
    if throttle.resource.scope is not ConfigScope.BROKER:
        return False
    broker = throttle.resource.name
    return any(
        entry == ALL or entry.partition(":")[2] == broker
        for each in throttles
        if each.key in REPLICAS and _key(each) not in wanted
        for entry in each.values
    )
