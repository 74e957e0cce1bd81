"""The plans to rehearse and carry out: labs, each with its runs, drawn from the lab's seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.forecast.real_runs import BROKERS, placements
from bench.real.lab import MIB, SizedTopic

SMALL, LARGE = "small", "large"
MESSAGE_BYTES = 4_096
"""A follower of a lab fetches 64 KiB of a partition at a time, so batches have to be small."""
OUTAGE_S = 40.0
"""A broker that is killed is started again so many seconds later: more than until an alarm."""


class RehearsedLab(NamedTuple):
    """A lab to rehearse on."""

    version: str
    seed: int


LABS = (RehearsedLab("4.3.1", 301), RehearsedLab("4.1.2", 302))


class Trial(NamedTuple):
    """A plan to rehearse from a snapshot, and to carry out then."""

    name: str
    topic: str
    target: Sequence[Sequence[int]]
    options: Sequence[str]
    written: int = 0
    """Bytes a second that producers write to the topic meanwhile."""
    kill: int | None = None
    """The broker that is killed at `at_s`, and started again `OUTAGE_S` later."""
    doubled: bool = False
    """Whether producers write twice as much from `at_s` on."""
    at_s: float = 0.0
    """Seconds from the start of the run."""

    @property
    def events(self) -> list[str]:
        """What happens, as `ktui rehearse --event` has it."""
        at = f"at {self.at_s:.0f}s"
        if self.kill is not None:
            return [f"kill {self.kill} {at}", f"start {self.kill} at {self.at_s + OUTAGE_S:.0f}s"]
        return [f"load {self.topic} x2 {at}"] if self.doubled else []


class Trials:
    """The topics and runs of one lab."""

    def __init__(self, lab: RehearsedLab) -> None:
        self._rng = rng = random.Random(lab.seed)  # noqa: S311 - a repeatable choice
        small = [round(MIB * 3 * 8 ** rng.random()) for _ in range(14)]
        # large enough for a quiet lab to show how fast it copies
        large = [round(MIB * 64 * 4 ** rng.random()) for _ in range(12)]
        self.topics = (SizedTopic(SMALL, small), SizedTopic(LARGE, large))
        self.placed = {
            topic.name: placements(rng, [()] * len(topic.sizes)) for topic in self.topics
        }
        """The replicas of each topic's partitions, as of the last run."""

    def calibrating(self) -> Iterator[Trial]:
        """Draw the runs from whose recordings the lab's copy rates are learnt."""
        yield self._trial("first", LARGE, "--partitions", "4")
        yield self._trial("first-throttled", SMALL, "--throttle", self._throttle(2, 3))

    def rest(self) -> Iterator[Trial]:
        """Draw the other runs."""
        rng = self._rng
        yield self._trial("throttled", SMALL, "--throttle", self._throttle(2, 3))
        yield self._trial("one-by-one", SMALL, "--partitions", "1")._replace(written=500_000)
        yield self._trial(
            "written-to", SMALL, "--throttle", self._throttle(3, 4), "--per-broker", "3"
        )._replace(written=800_000)
        yield self._skewed("skewed", SMALL, "--throttle", self._throttle(4, 6))
        yield self._trial(
            "broker-dies", SMALL, "--throttle", self._throttle(2, 3), "--per-broker", "2"
        )._replace(kill=rng.randrange(1, BROKERS + 1), at_s=float(rng.randrange(6, 13)))
        order = rng.choice(["size-asc", "size-desc"])
        yield self._trial("one-each", LARGE, "--per-broker", "1", "--order", order)
        yield self._trial("load-doubles", SMALL, "--throttle", self._throttle(3, 4))._replace(
            written=600_000, doubled=True, at_s=float(rng.randrange(5, 12))
        )

    def _trial(self, name: str, topic: str, *options: str) -> Trial:
        target = placements(self._rng, self.placed[topic])
        self.placed[topic] = target
        return Trial(name, topic, target, options)

    def _skewed(self, name: str, topic: str, *options: str) -> Trial:
        """Let one broker receive a replica of every partition that it does not have."""
        onto = self._rng.randrange(1, BROKERS + 1)
        target = [
            replicas if onto in replicas else (replicas[0], onto) for replicas in self.placed[topic]
        ]
        self.placed[topic] = target
        return Trial(name, topic, target, options)

    def _throttle(self, low: float, high: float) -> str:
        return f"{self._rng.uniform(low, high):.1f}MB"
