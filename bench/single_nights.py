"""What producers feel in each single round of a plan, and not on average.

A mean hides the one night in which many records waited. Each round has all at once by Kafka's own
tool, the default pace, `quiet`, and the same load with nothing moving for as long; what stalls then
is the machine's, and is taken off by the second. `KTUI_BENCH_ROUNDS` gives the number of rounds
(20), `KTUI_BENCH_SHARE` the share of a core of each broker, without which they share all cores, and
`KTUI_BENCH_BACKOFF_MS` their replica.fetch.backoff.ms. With `KTUI_BENCH_OTHERS`, the brokers lead
other partitions too, to which so many bytes a second are written in all, or none with 0: followers
then fetch from the new leaders already, and ask for more partitions once that fetch is answered.
All brokers write to one disk, that of the folder for temporary files, which can be one in memory
(`TMPDIR`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from bench.checks import printed_at_end
from bench.disturbing import Cost, Moves, Scene, Way, brokers, cost_of, cost_row, warm_up
from bench.producing import Load, producer
from bench.real.processor_shares import processor_shares, wanted_share
from bench.stalls import causes_text, seconds_by_cause
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic
from ktui.lab.layout import Lab

TEN_BROKERS = Scene(half=5, partitions=16, bytes_each=40 * 1024 * 1024)
THROTTLE = 20_000_000
"""Bytes per second into each broker."""
AT_ONCE = Way("all at once")
DEFAULT = Way("default", ())
QUIET = Way("quiet", ("--pace", "quiet"))
AT_REST = Way("at rest", (), Moves.NOTHING)
AIMS: Mapping[str, tuple[float, float]] = {DEFAULT.name: (0.1, 0.25), QUIET.name: (0.05, 0.25)}
"""The share of all at once's stalls that most rounds have to keep, and that every round has to."""
LEAST_ROUNDS = 0.9
"""The share of rounds that have to keep the first."""
_SHOWN_S = 0.5
_OTHERS = "bench-others"
_APART = (1, 3, 5, 7, 9)
"""The first follower of each of a leader's other partitions comes so many brokers after it, and the
second one more, so that every broker follows every other."""


class Round(msgspec.Struct, frozen=True):
    """One night: the costs by way, in turn."""

    costs: Mapping[str, Cost]

    def net_s(self, way: str) -> float:
        """Return the stalled partition-seconds without those of the machine itself."""
        rest, cost = self.costs[AT_REST.name], self.costs[way]
        return max(0.0, cost.stalled_s - rest.stalled_s * cost.seconds / rest.seconds)

    def share(self, way: str) -> float:
        """Return its stalls as a share of all at once's."""
        return self.net_s(way) / max(self.net_s(AT_ONCE.name), 0.001)


def run() -> None:
    """Print each round, then the distribution of each way and the causes of its stalls."""
    count = int(os.environ.get("KTUI_BENCH_ROUNDS", "20"))
    backoff_ms = os.environ.get("KTUI_BENCH_BACKOFF_MS", "1000")
    settings = {"replica.fetch.backoff.ms": backoff_ms}
    rounds: list[Round] = []
    with (
        processor_shares(wanted_share()) as shares,
        brokers(2 * TEN_BROKERS.half, settings) as lab,
        _others(lab, os.environ.get("KTUI_BENCH_OTHERS")),
    ):
        warm_up(lab, TEN_BROKERS)
        shares.limit(lab)
        for number in range(count):
            print(f"round {number + 1}", flush=True)
            rounds.append(Round(_costs(lab, number)))
            print("\n".join(summary(rounds)), flush=True)


def _costs(lab: Lab, number: int) -> Mapping[str, Cost]:
    costs: dict[str, Cost] = {}
    for way in (AT_ONCE, DEFAULT, QUIET, AT_REST):
        lasts_s = max((cost.seconds for cost in costs.values()), default=None)
        topic = f"bench-{number}-{way.name.replace(' ', '-')}"
        cost = cost_of(lab, topic, way, THROTTLE, lasts_s, TEN_BROKERS)
        costs[way.name] = cost
        print(f"  {way.name:<12}{cost_row(cost)}", flush=True)
        print(f"    stalled by {causes_text(cost.stalls)}", flush=True)
        for line in _longest(cost):
            print(f"      {line}", flush=True)
    return costs


@contextmanager
def _others(lab: Lab, bytes_s: str | None) -> Iterator[None]:
    """Let the brokers lead other partitions until the end of the block, unless it is None."""
    if bytes_s is None:
        yield
        return
    replicas = [_replicas(leader, apart) for leader in range(len(lab.brokers)) for apart in _APART]
    create_topic(Connection.to(lab.bootstrap_servers), _OTHERS, replicas)
    load = Load(float(bytes_s), message_bytes=1024)
    if not load.bytes_s:
        yield
        return
    with producer(lab.bootstrap_servers, _OTHERS, len(replicas), load) as writing:
        yield
        printed_at_end(writing, "other producer")


def _replicas(leader: int, apart: int) -> list[int]:
    count = 2 * TEN_BROKERS.half
    return [(leader + after) % count + 1 for after in (0, apart, apart % (count - 1) + 1)]


def _longest(cost: Cost) -> Iterator[str]:
    for stall, caused in sorted(cost.stalls, key=lambda each: each.stall.sent_s):
        if stall.lasts_s >= _SHOWN_S:
            after = f"after {stall.sent_s - cost.since_s:.1f} s for {stall.lasts_s:.2f} s"
            yield f"partition {stall.partition} {after}: {caused}"


def summary(rounds: Sequence[Round]) -> Iterator[str]:
    """Say how many rounds keep each aim, which was the worst, and what caused the stalls."""
    at_once = sorted(each.net_s(AT_ONCE.name) for each in rounds)
    yield f"{len(rounds)} rounds; all at once {_spread(at_once)} partition-s, net of the machine"
    for way, (most, every) in AIMS.items():
        shares = sorted(each.share(way) for each in rounds)
        times = [e.costs[way].seconds / e.costs[AT_ONCE.name].seconds for e in rounds]
        kept = sum(share <= most for share in shares)
        yield (
            f"  {way}: {_spread(sorted(each.net_s(way) for each in rounds))} partition-s;"
            f" {kept} of {len(rounds)} rounds at most {most} of all at once"
            f" (aim {LEAST_ROUNDS:.0%}), the worst {shares[-1]:.2f} (aim {every});"
            f" at most {max(times):.2f} of its time (aim 1)"
        )
    for way in (AT_ONCE.name, *AIMS, AT_REST.name):
        unread = _spread(sorted(each.costs[way].unread_s for each in rounds))
        yield f"  the longest until a record was read, {way}: {unread} s"
        seconds = seconds_by_cause(each for r in rounds for each in r.costs[way].stalls)
        whole = sum(seconds.values()) or 1.0
        causes = sorted(seconds.items(), key=lambda each: -each[1])
        shares_text = ", ".join(f"{cause} {part / whole:.0%}" for cause, part in causes)
        yield f"  causes, {way}: {shares_text or 'none'}"


def _spread(ordered: Sequence[float]) -> str:
    middle = ordered[len(ordered) // 2]
    return f"{ordered[0]:.1f} to {ordered[-1]:.1f} (median {middle:.1f})"
