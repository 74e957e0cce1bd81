"""Whether throttles that nobody seems to need are at rest: looked at over some seconds.

A run of another state directory, user or host is seen only by what it does. Between two of its
steps nothing may be reassigned for a moment, and its throttle looks as one that was left behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from ktui.cli.throttles_look import Look
from ktui.cluster.clock import Clock
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.text import clean
from ktui.planning.names import among
from ktui.quantities import as_count

LOOKS = 5
"""After the first."""
EVERY_S = 2.0
WATCHED_S = LOOKS * EVERY_S

NOT_SEEN = "Runs of other hosts, users and state directories are not seen: look there, too"

Again = Callable[[], Awaitable[Look]]
"""Looks at the throttles once more."""


async def stirring(first: Look, again: Again, clock: Clock) -> tuple[str, ...]:
    """Watch for some seconds, and say what moved or changed as soon as something does.

    Returns:
        Sentences; none where all was at rest for `WATCHED_S`.

    Raises:
        ClusterError: the cluster does not answer any more.
    """
    look = first
    for left in range(LOOKS, -1, -1):
        seen = tuple(_seen(first, look))
        if seen or not left:
            return seen
        await clock.sleep(EVERY_S)
        look = await again()
    return ()


def _seen(first: Look, now: Look) -> Iterator[str]:
    if now.moving:
        verb = "is" if len(now.moving) == 1 else "are"
        count = as_count(len(now.moving), "partition")
        yield f"{count} {verb} being reassigned: {among(now.moving)}"
    before, after = _values(first), _values(now)
    for resource, key in sorted(before.keys() | after.keys(), key=str):
        then, since = before.get((resource, key)), after.get((resource, key))
        if then != since:
            yield f"{key} of {_named(resource)} was {_shown(then)}, and is {_shown(since)}"


def _values(look: Look) -> Mapping[tuple[ConfigResource, str], str]:
    """Every throttle with its whole setting."""
    return {(each.resource, each.key): each.setting.value for each in look.throttles}


def _named(resource: ConfigResource) -> str:
    scope = "broker" if resource.scope is ConfigScope.BROKER else "topic"
    return f"{scope} {resource.name}"


def _shown(value: str | None) -> str:
    return "not set" if value is None else clean(value) or "empty"
