"""The part of each limit that is in use at the moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

from ktui.execution.run.run import Run
from ktui.execution.run.states import State


def usage_by_limit(run: Run) -> Mapping[str, str]:
    """Return, by the limit's option, how much of the run counts against each limit now."""
    begun = [track.step.begun for track in run.flying.values() if track.step is not None]
    adds = [len(step.adding) for step in begun]
    brokers = Counter(chain.from_iterable(step.adding for step in begun))
    return {
        "replicas": _most(max(adds, default=0), "one partition"),
        "partitions": f"{run.in_flight:,}",
        "leader-movements": f"{sum(step.moves_leader for step in begun):,}",
        "replica-movements": f"{sum(adds):,}",
        "per-broker": _most(max(brokers.values(), default=0), _busiest(brokers)),
        "extra-replicas": "",
        "cut-together": f"{run.counts[State.READY]:,} ready",
    }


def _most(count: int, where: str) -> str:
    return f"{count:,} on {where}" if count and where else f"{count:,}"


def _busiest(brokers: Counter[int]) -> str:
    return f"broker {brokers.most_common(1)[0][0]}" if brokers else ""
