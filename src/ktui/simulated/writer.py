"""The writing port of a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from ktui.cluster.errors import ClusterError, NotAuthorized, TimedOut
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import broker_resource, group_by_resource
from ktui.simulated import layout
from ktui.simulated.controller.altering import refuse_other_factor
from ktui.simulated.core import TIMEOUT_S, Calls, SimulatedCore, attempted

_Part = TypeVar("_Part")
_Effect = Callable[[Sequence[_Part]], Mapping[_Part, WriteResult]]
_Targets = Mapping[TopicPartition, tuple[int, ...] | None]

_LOST = WriteResult(Verdict.UNKNOWN, message="sent, but its answer was lost")
_PARTITIONS_A_REQUEST = 1_000
_TOPICS_A_REQUEST = 500


class SimulatedWriter:
    """A `ClusterWriter` on a simulated cluster."""

    def __init__(self, cluster: SimulatedCore) -> None:
        self._cluster = cluster
        self._calls = Calls(cluster)

    async def alter_reassignments(
        self,
        targets: _Targets,
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        self._cluster.catch_up()
        controller = self._cluster.controller
        refused: dict[TopicPartition, WriteResult] = {}
        if not (allow_replication_factor_change or controller.rules.guards_replication_factor):
            refused = self._refuse_other_factors(targets)

        def alter(part: Sequence[TopicPartition]) -> Mapping[TopicPartition, WriteResult]:
            return controller.alter(
                {tp: targets[tp] for tp in part},
                allow_replication_factor_change=allow_replication_factor_change,
            )

        rest = [tp for tp in targets if tp not in refused]
        return refused | await self._in_turn("alter_reassignments", rest, alter, leaves_within_s)

    def _refuse_other_factors(self, targets: _Targets) -> dict[TopicPartition, WriteResult]:
        get = self._cluster.controller.get
        return {
            tp: refusal
            for tp, replicas in targets.items()
            if replicas is not None
            and (known := get(tp)) is not None
            and (refusal := refuse_other_factor(known, replicas)) is not None
        }

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        chosen = list(dict.fromkeys(partitions))
        elect = self._cluster.controller.elect
        return await self._in_turn("elect_preferred_leaders", chosen, elect, leaves_within_s)

    async def alter_configs(
        self,
        changes: Sequence[ConfigChange],
        *,
        leaves_within_s: float | None = None,  # noqa: ARG002 - all leave at once
    ) -> Mapping[ConfigResource, WriteResult]:
        grouped = group_by_resource(changes)

        def configure(part: Sequence[ConfigResource]) -> Mapping[ConfigResource, WriteResult]:
            return self._cluster.configure([c for resource in part for c in grouped[resource]])

        brokers = [r for r in grouped if r.scope is ConfigScope.BROKER and r.name.isdigit()]
        others = [r for r in grouped if r not in brokers]
        requests: list[tuple[Sequence[ConfigResource], int | None]] = [
            *(([r], int(r.name)) for r in brokers),
            *((part, None) for part in _requests(others, _TOPICS_A_REQUEST)),
        ]
        outcomes = await asyncio.gather(
            *(self._request("alter_configs", part, configure, to) for part, to in requests)
        )
        errors = [outcome for outcome in outcomes if isinstance(outcome, ClusterError)]
        if errors and len(errors) == len(outcomes):
            raise errors[0]
        results: dict[ConfigResource, WriteResult] = {}
        for (part, _), outcome in zip(requests, outcomes, strict=True):
            results |= _not_sent(part, outcome) if isinstance(outcome, ClusterError) else outcome
        return results

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        replication = self._cluster.replication

        def move(part: Sequence[TopicPartition]) -> Mapping[TopicPartition, WriteResult]:
            codes = {tp: replication.alter_log_dir(tp, broker, paths[tp]) for tp in part}
            return {
                tp: WriteResult(Verdict.REFUSED if code else Verdict.ACCEPTED, code)
                for tp, code in codes.items()
            }

        return await self._in_turn("alter_log_dirs", list(paths), move, leaves_within_s, broker)

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        create = self._cluster.controller.create_partitions
        return await self._one(
            "create_partitions", lambda: create(topic, count, assignment), leaves_within_s
        )

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        unregister = self._cluster.unregister
        return await self._one("unregister_broker", lambda: unregister(broker), leaves_within_s)

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        resource, configure = broker_resource(broker), self._cluster.configure
        changes = [ConfigChange(resource, name, ConfigOp.DELETE) for name in names]
        return await self._one(
            "delete_broker_settings", lambda: configure(changes)[resource], leaves_within_s
        )

    async def _one(
        self, call: str, act: Callable[[], WriteResult], leaves_within_s: float | None
    ) -> WriteResult:
        return (await self._in_turn(call, [call], lambda _: {call: act()}, leaves_within_s))[call]

    async def _in_turn(
        self,
        call: str,
        parts: Sequence[_Part],
        act: _Effect[_Part],
        leaves_within_s: float | None,
        broker: int | None = None,
    ) -> dict[_Part, WriteResult]:
        clock = self._cluster.clock
        within_s = TIMEOUT_S if leaves_within_s is None else min(TIMEOUT_S, leaves_within_s)
        until_s = clock.monotonic() + within_s
        results: dict[_Part, WriteResult] = {}
        for part in _requests(parts, _PARTITIONS_A_REQUEST):
            outcome: Mapping[_Part, WriteResult] | ClusterError
            if results and clock.monotonic() >= until_s:
                outcome = TimedOut(attempted(call), answer="no time was left to send it")
            else:
                outcome = await self._request(call, part, act, broker)
            if isinstance(outcome, ClusterError):
                if not results:
                    raise outcome
                outcome = _not_sent(part, outcome)
            results |= outcome
        return results

    async def _request(
        self, call: str, parts: Sequence[_Part], act: _Effect[_Part], broker: int | None = None
    ) -> Mapping[_Part, WriteResult] | ClusterError:
        """Send one request. Return the result of each part, or why the request was not sent."""
        try:
            if broker is None:
                await self._calls.any_broker(call)
            else:
                await self._calls.broker(broker, call)
        except NotAuthorized as denied:
            result = WriteResult(Verdict.REFUSED, denied.answer, str(denied), needs=denied.needs)
            return dict.fromkeys(parts, result)
        except TimedOut:  # a hanging broker accepts a request all the same
            return dict.fromkeys(parts, _LOST)
        except ClusterError as error:
            return error
        await self._calls.controller()
        return await self._deliver(parts, act)

    async def _deliver(
        self, parts: Sequence[_Part], act: _Effect[_Part]
    ) -> Mapping[_Part, WriteResult]:
        cluster = self._cluster
        if not cluster.mishaps:
            return act(parts)
        match cluster.mishaps.popleft():
            case layout.LoseAnswer():
                act(parts)
            case layout.DelayRequest(by_s):
                cluster.at(cluster.now_s + by_s, lambda: act(parts))
        await cluster.clock.sleep(TIMEOUT_S)
        return dict.fromkeys(parts, _LOST)

    async def aclose(self) -> None:
        self._calls.closed = True


def _requests(parts: Sequence[_Part], size: int) -> list[Sequence[_Part]]:
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def _not_sent(parts: Sequence[_Part], error: ClusterError) -> dict[_Part, WriteResult]:
    return dict.fromkeys(parts, WriteResult(Verdict.REFUSED, message=f"not sent: {error}"))
