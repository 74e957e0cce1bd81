"""One request to many brokers, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ktui.cluster.errors import ClusterError, Failure, NotAuthorized, Operation

A = TypeVar("A")


async def call_each_broker(
    operation: Operation, calls: Mapping[int, Coroutine[Any, Any, A]]
) -> tuple[Mapping[int, A], Sequence[Failure]]:
    """Call brokers, all at once: a slow one costs at most the adapter's call timeout."""
    answers: dict[int, A] = {}
    failures: dict[int, Failure] = {}

    async def one(broker: int, call: Coroutine[Any, Any, A]) -> None:
        try:
            answers[broker] = await call
        except ClusterError as error:
            denied = isinstance(error, NotAuthorized)
            failures[broker] = Failure(operation, str(error), broker, denied=denied)

    await asyncio.gather(*(one(broker, call) for broker, call in calls.items()))
    return answers, [failures[broker] for broker in sorted(failures)]
