"""Remove throttles that nobody needs, and read back that they are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from ktui.cli.context.cluster import Cluster
from ktui.cli.doctor.throttle_scan import FoundThrottle
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.throttle_settings import LONGEST_LIST, REPLICAS, parse_throttled_list
from ktui.execution.broker.unregister import delete_unseen

READ_BACK_S = 5.0
"""Seconds to wait until the brokers report a change."""
READ_AGAIN_S = 0.1
_UNANSWERED = WriteResult(Verdict.UNKNOWN)
_BLANKS = (("", ""), (" ", ""), ("", " "), (" ", " "))
CurrentSettings = Mapping[ConfigResource, Mapping[str, Setting]]


async def remove_throttles(
    cluster: Cluster, reader: ClusterReader, stray: Sequence[FoundThrottle]
) -> dict[FoundThrottle, str]:
    """Remove throttles; return the ones that are still set, and why.

    A broker reports a change a moment after Kafka's answer, so this waits for it.
    """
    if not stray:
        return {}
    if unseen := [throttle for throttle in stray if throttle.down]:
        seen = [throttle for throttle in stray if not throttle.down]
        left = await remove_throttles(cluster, reader, seen)
        return left | await _delete_unseen(cluster, unseen)
    clock, writer = SystemClock(), cluster.writer()
    try:
        answers = await _sent(writer, stray)
        until_s = clock.monotonic() + READ_BACK_S
        while True:
            current = await _read(reader, stray)
            remaining = [throttle for throttle in stray if _is_there(current, throttle)]
            emptied = [t for t in stray if t.key in REPLICAS and _own(current, t) == ""]
            await _delete(writer, emptied)
            results = {t: answers.get(t.resource, _UNANSWERED) for t in remaining}
            refused = all(result.verdict is Verdict.REFUSED for result in results.values())
            if (refused and not emptied) or clock.monotonic() >= until_s:
                return {throttle: _why(result) for throttle, result in results.items()}
            await clock.sleep(READ_AGAIN_S)
    finally:
        await writer.aclose()


async def _delete_unseen(
    cluster: Cluster, throttles: Sequence[FoundThrottle]
) -> dict[FoundThrottle, str]:
    """Delete the rates of brokers that are down; return those that may be set still, and why."""
    left: dict[FoundThrottle, str] = {}
    writer = cluster.writer()
    try:
        for resource in dict.fromkeys(throttle.resource for throttle in throttles):
            theirs = [throttle for throttle in throttles if throttle.resource == resource]
            names = [throttle.key for throttle in theirs]
            if why := await delete_unseen(writer, int(resource.name), names):
                left |= dict.fromkeys(theirs, why)
    finally:
        await writer.aclose()
    return left


async def _sent(
    writer: ClusterWriter, throttles: Sequence[FoundThrottle]
) -> dict[ConfigResource, WriteResult]:
    """Send all changes, and return the worst answer for each resource.

    A resource may have a key once in a request, so a long list takes several.
    """
    answers: dict[ConfigResource, WriteResult] = {}
    for changes in zip_longest(*map(_changes, throttles)):
        sent = [change for change in changes if change is not None]
        for resource, result in (await writer.alter_configs(sent)).items():
            if resource not in answers or answers[resource].verdict is Verdict.ACCEPTED:
                answers[resource] = result
    return answers


def _changes(throttle: FoundThrottle) -> list[ConfigChange]:
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


async def _delete(writer: ClusterWriter, emptied: Iterable[FoundThrottle]) -> None:
    changes = [ConfigChange(t.resource, t.key, ConfigOp.DELETE) for t in emptied]
    if changes:
        await writer.alter_configs(changes)


async def _read(reader: ClusterReader, throttles: Sequence[FoundThrottle]) -> CurrentSettings:
    keys = {throttle.key for throttle in throttles}
    return (await reader.settings({t.resource for t in throttles}, keys)).settings


def _setting(current: CurrentSettings, throttle: FoundThrottle) -> Setting | None:
    return current.get(throttle.resource, {}).get(throttle.key)


def _own(current: CurrentSettings, throttle: FoundThrottle) -> str | None:
    setting = _setting(current, throttle)
    return None if setting is None else setting.own


def _is_there(current: CurrentSettings, throttle: FoundThrottle) -> bool:
    """Whether a throttle is still set, or that is not known."""
    if throttle.resource not in current:
        return True
    own = _own(current, throttle)
    if throttle.key in REPLICAS:
        return not parse_throttled_list(own or "").isdisjoint(throttle.values)
    return own == throttle.value


def _why(result: WriteResult) -> str:
    if result.verdict is Verdict.UNKNOWN:
        return "Kafka's answer was lost"
    if result.verdict is Verdict.REFUSED:
        return ": ".join(filter(None, (result.code, result.message)))
    return "Kafka accepted the removal, but the throttle is still set, or set again"
