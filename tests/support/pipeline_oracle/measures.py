"""The measures of a move: what it copied, how fast, and what delayed it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from support.pipeline_oracle.copying import pairs
from support.pipeline_oracle.listings import Listing


def measures(listings: list[Listing]) -> dict[str, Any]:
    """Return the measures of a move, over the listings that belong to it."""
    found = [pair for listing in listings for pair in pairs(listing)]
    messages = [pair.messages_s for pair in found]
    sizes = [pair.bytes_s for pair in found if pair.bytes_s is not None]
    throttles = _throttles(listings)
    return {
        "added": sorted({broker for listing in listings for broker in listing.added}),
        "messages": total(_messages(listing, b) for listing in listings for b in listing.added),
        "bytes": total(_bytes(listing, b) for listing in listings for b in listing.added),
        **{f"rate_messages_p{p}": _percentile(messages, p / 100) for p in (10, 50, 90)},
        **{f"rate_bytes_p{p}": _percentile(sizes, p / 100) for p in (10, 50, 90)},
        "stalls": sum(i.state == "stalled" for each in listings for i in each.intervals),
        "stalled_ms": _milliseconds(listings, "stalled"),
        "catching_up_ms": _milliseconds(listings, "catching up"),
        "in_sync_ms": _milliseconds(listings, "in sync"),
        "adding_ms": _milliseconds(listings, "adding"),
        "throttle_min": min(throttles, default=None),
        "throttle_max": max(throttles, default=None),
        "looks": sum(len(listing.samples) for listing in listings),
    }


def _milliseconds(listings: list[Listing], state: str) -> int:
    return sum(listing.milliseconds(state) for listing in listings)


def total(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _messages(listing: Listing, broker: int) -> int | None:
    ends = [figure.value for sample in listing.samples if (figure := sample.end(broker))]
    starts = [sample.log_start for sample in listing.samples if sample.log_start is not None]
    return max(0, ends[-1] - starts[0]) if ends and starts else None


def _bytes(listing: Listing, broker: int) -> int | None:
    sizes = [_last(sample.size(broker) for sample in listing.samples)]
    if any(broker in sample.isr for sample in (listing.samples[-1], listing.left) if sample):
        leaders = ((sample, sample.leader) for sample in listing.samples)
        sizes.append(_last(None if b is None else sample.size(b) for sample, b in leaders))
    return max((size for size in sizes if size is not None), default=None)


def _last(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return known[-1] if known else None


def _throttles(listings: list[Listing]) -> list[int]:
    return [
        rates.follower
        for listing in listings
        for sample in listing.samples
        for rates in sample.rates
        if rates.broker in sample.adding and rates.follower is not None
    ]


def _percentile(figures: list[float], share: float) -> float | None:
    """Return the exact percentile, with linear interpolation between two figures."""
    if not figures:
        return None
    ordered, place = sorted(figures), share * (len(figures) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
