"""The text in place of an empty list: why there are no rows, and what to do."""

from __future__ import annotations

import msgspec
from textual.content import Content

from ktui.tui.draw import format as figures
from ktui.tui.poll.outages import ClusterOutage
from ktui.tui.screens.watch.views import View

_OTHER_KEYS = "v  another view\nT  choose topics\nb  brokers\ne  events\n?  all keys"


class EmptyState(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that explain why there are no rows."""

    cluster_name: str
    connected: bool
    outage: ClusterOutage | None = None
    last_at: str = ""
    """The time of the last poll that was answered, as local time."""
    view: View = View.REASSIGNING
    topics: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Those of `topics` that the cluster does not have."""
    filter_text: str = ""
    belonging: int = 0
    quiet_s: float | None = None
    """Seconds for which no reassignment has been seen."""
    counted: int | None = None
    """Partitions of the whole cluster, once all of them have been polled."""
    counted_at: str = ""
    """The time of that count, as local time."""
    counting: bool = False
    """Whether all partitions are being polled: for the first time, or since brokers changed."""
    interval_s: float = 1.0
    when_quiet: tuple[str, ...] = ()
    """Paragraphs to show in place of the other keys while nothing moves."""
    when_never_polled: str = ""
    """The sentence for partitions that will never be polled; empty if they will be."""


def empty_state_text(empty: EmptyState) -> Content:
    """Explain why nothing is shown: one sentence, then what helps."""
    headline, *more = _lines(empty)
    return Content("\n\n").join(
        [Content.styled(headline, "bold $foreground"), *(Content.styled(t, "$dim") for t in more)]
    )


def _lines(empty: EmptyState) -> list[str]:
    if not empty.connected:
        return _connecting(empty)
    if empty.filter_text and empty.belonging:
        count = figures.as_count(empty.belonging, "partition")
        return [
            f"No partition matches the filter {empty.filter_text!r}.",
            f"Without it there are {count}.",
            "esc  clear the filter\n/    change it",
        ]
    if empty.outage is not None:
        return _not_known(empty, empty.outage)
    if empty.view is View.TOPICS:
        return _no_topics(empty)
    return _nothing_moves(empty) if empty.view is View.REASSIGNING else _all_well(empty)


def _connecting(empty: EmptyState) -> list[str]:
    if empty.outage is not None:
        return [
            f"Cannot reach {empty.cluster_name} yet.",
            empty.outage.details,
            "Retrying; q quits.",
        ]
    if empty.when_never_polled:
        return ["Reading the recording …"]
    return [f"Connecting to {empty.cluster_name} …"]


def _not_known(empty: EmptyState, outage: ClusterOutage) -> list[str]:
    """Explain that only the past is known: anything may be moving by now."""
    return [
        f"Not known: {empty.cluster_name} does not answer.",
        f"At {empty.last_at}, when it last did, there was nothing to show here.",
        outage.details,
    ]


def _nothing_moves(empty: EmptyState) -> list[str]:
    quiet = "" if empty.quiet_s is None else f"Quiet for {figures.as_duration(empty.quiet_s)}. "
    return [
        "Nothing is being reassigned.",
        f"{quiet}The controller's list is read every {empty.interval_s:g} s.",
        *(empty.when_quiet or (_OTHER_KEYS,)),
    ]


def _all_well(empty: EmptyState) -> list[str]:
    if empty.counted is None and empty.when_never_polled:
        return ["It is not known which partitions were unhealthy.", empty.when_never_polled]
    if empty.counted is None:
        return ["Checking all partitions of the cluster …"]
    count = figures.as_count(empty.counted, "partition")
    if empty.counting:
        return [
            f"Checking all {count} of the cluster again …",
            f"Brokers went or came since {empty.counted_at}. None was in trouble then.",
        ]
    return [
        "No partition is under-replicated, under min ISR or offline.",
        f"As at {empty.counted_at}. All {count} of the cluster are checked every 30 s.",
        _OTHER_KEYS,
    ]


def _no_topics(empty: EmptyState) -> list[str]:
    if empty.missing:
        return [
            f"The cluster has no topic {', '.join(sorted(empty.missing))}.",
            "It may also be that Describe on it is not granted. T chooses other topics.",
        ]
    names = ", ".join(sorted(empty.topics))
    if empty.when_never_polled:
        return [f"Nothing is known of {names} here.", empty.when_never_polled]
    return [f"Looking at {names} …", "T chooses other topics."]
