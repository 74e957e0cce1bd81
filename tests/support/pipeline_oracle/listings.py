"""Samples grouped into listings, and listings split into intervals by state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from support.pipeline_oracle.tables import Partition, Sample

NEAR_MS = 60_000
"""Samples farther apart show nothing about the time between them."""
STALLED_MS = 30_000


class Interval(msgspec.Struct):
    """A time in which a partition was in one state."""

    state: str
    began: int
    ended: int
    open: bool


class Listing(msgspec.Struct):
    """A time in which the controller listed a partition, without a gap."""

    samples: list[Sample]
    after: Sample | None
    """The next sample of the partition, however much later."""
    intervals: list[Interval] = []

    @property
    def began(self) -> int:
        return self.samples[0].t

    @property
    def left(self) -> Sample | None:
        """The sample just after the listing; None if none is near."""
        near = self.after is not None and self.after.t - self.samples[-1].t <= NEAR_MS
        return self.after if near else None

    @property
    def added(self) -> list[int]:
        return sorted({broker for sample in self.samples for broker in sample.adding})

    def milliseconds(self, state: str) -> int:
        return sum(each.ended - each.began for each in self.intervals if each.state == state)


def listings(samples: Iterable[Sample]) -> dict[Partition, list[Listing]]:
    """Return the listings of each partition, in order."""
    rows: defaultdict[Partition, list[Sample]] = defaultdict(list)
    for sample in samples:
        if not sample.shadowed:
            rows[sample.key].append(sample)
    return {
        key: list(_listings(sorted(each, key=lambda sample: sample.order)))
        for key, each in rows.items()
    }


def _listings(samples: list[Sample]) -> Iterator[Listing]:
    current: list[Sample] = []
    for sample in samples:
        if current and (not sample.listed or sample.t - current[-1].t > NEAR_MS):
            yield _with_intervals(Listing(current, sample))
            current = []
        if sample.listed:
            current.append(sample)
    if current:
        yield _with_intervals(Listing(current, None))


def _with_intervals(listing: Listing) -> Listing:
    states = _states(listing)
    last: Interval | None = None
    for number, sample in enumerate(listing.samples):
        following = (*listing.samples[number + 1 :], listing.after)[0]
        state = states[number]
        if state is None:
            last = None
            continue
        if last is None or last.state != state:
            last = Interval(state, sample.t, sample.t, open=False)
            listing.intervals.append(last)
        last.open = following is None
        near = following is not None and following.t - sample.t <= NEAR_MS
        last.ended = following.t if following is not None and near else sample.t
    return listing


def _states(listing: Listing) -> list[str | None]:
    """Name the state of each sample of a listing."""
    ends: dict[int, int] = {}
    headway = listing.began
    states: list[str | None] = []
    still: list[int] = []
    """The numbers of the samples since the last headway that saw a replica missing, and no more."""
    for number, sample in enumerate(listing.samples):
        grew = False
        for figure in sample.ends:
            grown = figure.value > ends.get(figure.broker, -1)
            grew = grew or (figure.broker in sample.missing and grown)
            ends[figure.broker] = figure.value
        state = _before_judgement(sample, ends)
        states.append(state)
        if grew:
            headway = sample.t
        if grew or state == "in sync":
            still = []
        elif state == "catching up":
            still.append(number)
            if sample.t - headway >= STALLED_MS:
                states = ["stalled" if n in still else each for n, each in enumerate(states)]
    return states


def _before_judgement(sample: Sample, ends: Mapping[int, int]) -> str | None:
    if not sample.described:
        return None
    if not sample.missing:
        return "in sync"
    return "catching up" if sample.missing & ends.keys() else "adding"
