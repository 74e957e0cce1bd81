"""The data copied to each replica being added, from one reading of its log end to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from support.pipeline_oracle.listings import NEAR_MS, Listing
from support.pipeline_oracle.tables import Sample


class Pair(msgspec.Struct, frozen=True):
    """Two readings of one replica, and what was copied between them."""

    broker: int
    leader: int | None
    read_t: int
    messages: int
    bytes: int | None
    messages_s: float
    bytes_s: float | None


def pairs(listing: Listing) -> Iterator[Pair]:
    """Yield the pairs of a listing, broker by broker."""
    for broker in listing.added:
        read = [(sample, end) for sample in listing.samples if (end := sample.end(broker))]
        for (before, first), (sample, second) in pairwise(read):
            passed = second.read_t - first.read_t
            adding = broker in before.adding and broker in sample.adding
            if not adding or not 0 < passed <= NEAR_MS or second.value < first.value:
                continue
            if sample.log_start is not None and first.value < sample.log_start:
                continue
            messages, each = second.value - first.value, _bytes_per_message(sample)
            messages_s = messages * 1000 / passed
            yield Pair(
                broker=broker,
                leader=sample.leader,
                read_t=second.read_t,
                messages=messages,
                bytes=None if each is None else math.floor(messages * each + 0.5),
                messages_s=messages_s,
                bytes_s=None if each is None else messages_s * each,
            )


def _bytes_per_message(sample: Sample) -> float | None:
    """Return the bytes per message of the leader; None while they are not known."""
    if sample.leader is None or sample.log_start is None:
        return None
    end, size = sample.end(sample.leader), sample.size(sample.leader)
    if end is None or size is None or end.value <= sample.log_start:
        return None
    return size / (end.value - sample.log_start)
