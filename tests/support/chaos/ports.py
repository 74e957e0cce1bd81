"""Both ports with time and faults in every call: delays before and after its effect."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.errors import ClusterError, Failure, Operation, TimedOut, Unsupported
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigResource,
    SettingsAnswer,
    TopicsAnswer,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import SettingKey
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import Power
from support.chaos.faults import SUSPENDED_S, Fault, Faults
from support.chaos.judge import Judge, Seen
from support.passing import Ask, PassingReader, PassingWriter, T

KEPT_S = 25.0
"""Longest seconds to arrive: even two such delays are within the 60 s that a broker keeps it."""
CALL_LIMIT_S = 10.0  # seconds that an adapter waits for an answer
_LONG_S = 1.0  # in a call that takes more seconds, others are likely to act

NO_TARGETS: Mapping[TopicPartition, tuple[int, ...] | None] = MappingProxyType({})


class Beside(Protocol):
    """The actions of others during a call."""

    def ask_about(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Have an operator send a command, about some partitions if any are given."""

    def ask_soon(self, partitions: Collection[TopicPartition]) -> None:
        """Have an operator cancel some partitions within a minute."""

    def alter(self, partitions: Collection[TopicPartition]) -> None:
        """Have somebody else alter, or cancel, one of some partitions."""

    def fail(self, partitions: Collection[TopicPartition]) -> None:
        """Stop in-sync brokers of one of some partitions, so that only added replicas are left."""

    @property
    def changed_s(self) -> Mapping[SettingKey, float]:
        """The second at which somebody else last changed each setting."""

    @property
    def about_to_leave(self) -> Sequence[TopicPartition]:
        """The partitions that are about to be altered, according to the journal."""


class ChaosReader(PassingReader):
    """A reader whose calls take time; some fail, or return stale data."""

    def __init__(
        self, reader: ClusterReader, clock: Clock, faults: Faults, judge: Judge, beside: Beside
    ) -> None:
        super().__init__(reader)
        self._clock = clock
        self._faults = faults
        self._judge = judge
        self._beside = beside
        self.denied: str | None = None  # the topic that is denied at present
        self._stale: dict[frozenset[str], TopicsAnswer] = {}
        self._open: dict[object, float] = {}  # the open calls, and the second at which each began

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return await self._call(self._reader.list_reassignments, self._judge.listing())

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        seen = self._judge.describing(names, fresh=fresh)
        key = frozenset(names)
        if not fresh and key in self._stale:
            if self._faults.strikes(Fault.STALE_METADATA, 0.5):
                return self._answered(seen, self._stale[key])
            del self._stale[key]
        try:
            answer = await self._call(lambda: self._reader.describe_topics(names, fresh=fresh))
        except Unsupported:
            self._judge.cannot_be_fresh()
            raise
        self._stale[key] = answer
        return self._answered(seen, answer)

    def _answered(self, seen: Seen, answer: TopicsAnswer) -> TopicsAnswer:
        answer = self._but_denied(answer)
        self._judge.answered(seen, answer.partitions)
        return answer

    def _but_denied(self, answer: TopicsAnswer) -> TopicsAnswer:
        if not self._faults.active or self.denied not in {tp.topic for tp in answer.partitions}:
            return answer
        partitions = {
            tp: state for tp, state in answer.partitions.items() if tp.topic != self.denied
        }
        failure = Failure(
            Operation.METADATA, "TOPIC_AUTHORIZATION_FAILED", topic=self.denied, denied=True
        )
        return msgspec.structs.replace(
            answer, partitions=partitions, failures=(*answer.failures, failure)
        )

    async def settings(
        self, resources: Collection[ConfigResource], names: Collection[str] = ()
    ) -> SettingsAnswer:
        seen = self._judge.reading_settings()
        return await self._call(lambda: self._reader.settings(resources, names), seen)

    async def passes(self, call: str, ask: Ask[T]) -> T:  # noqa: ARG002 - all fail alike
        return await self._call(ask)

    async def _call(self, ask: Callable[[], Awaitable[T]], seen: Seen | None = None) -> T:
        """Let time pass before and after a call's effect; past the limit it may time out."""
        call = object()
        self._open[call] = self._clock.monotonic()
        try:
            return await self._called(ask, seen)
        finally:
            del self._open[call]

    @property
    def slowest_s(self) -> float:
        """Seconds for which the oldest open call has been open."""
        return self._clock.monotonic() - min(self._open.values(), default=math.inf)

    async def _called(self, ask: Callable[[], Awaitable[T]], seen: Seen | None) -> T:
        await self._pass()
        before_s = self._clock.monotonic()
        answer = await ask()
        if seen is not None:
            self._judge.takes_effect(seen, answer)
        if self._faults.strikes(Fault.UNREADABLE, 0.002):
            raise KeyError("no such field")
        await self._pass()
        late = self._clock.monotonic() - before_s > CALL_LIMIT_S
        if late and self._faults.dice.random() < 0.5:
            raise TimedOut("reading")
        if seen is not None:
            self._judge.answered(seen)
        return answer

    async def _pass(self) -> None:
        """Let time pass; half-way others act, above all on requests about to leave."""
        seconds, faults = self._faults.delay_s(), self._faults
        if seconds:
            await self._clock.sleep(seconds / 2)
        coming = self._beside.about_to_leave
        if faults.strikes(Fault.COMMAND, 0.03 if coming or seconds > _LONG_S else 0.003):
            self._beside.ask_about(coming)
        if coming and faults.strikes(Fault.OTHERS_ALTER, 0.03):
            self._beside.alter(coming)
        if coming and faults.strikes(Fault.BROKERS_FAIL, 0.01):
            self._beside.fail(coming)
        if seconds:
            await self._clock.sleep(seconds / 2)


class ChaosWriter(PassingWriter):
    """A writer whose requests take time, arrive twice or late, or are never answered.

    Args:
        writer: executes a request when it arrives.
        cluster: the cluster where requests arrive.
        faults: decides what goes wrong.
        judge: notified of each request as it leaves.
        beside: the actions of others.
    """

    def __init__(
        self,
        writer: ClusterWriter,
        cluster: SimulatedCluster,
        faults: Faults,
        judge: Judge,
        beside: Beside,
    ) -> None:
        super().__init__(writer)
        self._cluster = cluster
        self._clock = cluster.clock
        self._faults = faults
        self._judge = judge
        self._beside = beside
        self.on_their_way: set[asyncio.Task[Any]] = set()

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        grounds = self._judge.called()
        await self._connect(leaves_within_s, targets)
        self._judge.alter_leaves(targets, grounds)
        left_s = self._clock.monotonic()

        async def alter() -> Mapping[TopicPartition, WriteResult]:
            self._others_act(targets)
            for tp, target in targets.items():
                self._judge.arrives(tp, target, left_s)
            return await self._writer.alter_reassignments(
                targets, allow_replication_factor_change=allow_replication_factor_change
            )

        return await self._sent(targets, alter, self._judge.on_its_way(targets), targets)

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        grounds = self._judge.called()
        await self._connect(leaves_within_s)
        self._judge.election_leaves(partitions, grounds)
        return await self._sent(
            partitions, lambda: self._writer.elect_preferred_leaders(partitions)
        )

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        grounds = self._judge.called()
        await self._connect(leaves_within_s)
        resources = list(dict.fromkeys(change.resource for change in changes))
        self._judge.settings_leave(changes, grounds)
        left_s = self._clock.monotonic()

        async def alter() -> Mapping[ConfigResource, WriteResult]:
            self._judge.settings_arrive(changes, left_s)
            self._judge.met_unseen(changes, grounds, self._beside.changed_s)
            return await self._writer.alter_configs(changes)

        return await self._sent(resources, alter)

    async def passes(
        self,
        sending: str,  # noqa: ARG002 - what is not judged fails alike
        parts: Collection[Any],
        within_s: float | None,
        send: Ask[Mapping[T, WriteResult]],
    ) -> Mapping[T, WriteResult]:
        await self._connect(within_s)
        return await self._sent(parts, send)

    async def all_arrived(self) -> None:
        """Wait until no request is in flight any more."""
        while self.on_their_way:
            await asyncio.wait(self.on_their_way)

    async def _connect(
        self,
        leaves_within_s: float | None,
        targets: Mapping[TopicPartition, tuple[int, ...] | None] = NO_TARGETS,
    ) -> None:
        """Let time pass before a request leaves; after too long a time it does not leave."""
        if self._faults.strikes(Fault.COMMAND, 0.01):
            self._beside.ask_about([*targets])
        self._others_act(targets)
        seconds = self._faults.delay_s()
        within_s = CALL_LIMIT_S if leaves_within_s is None else leaves_within_s
        began_s = self._clock.monotonic()
        await self._clock.sleep(seconds)
        seconds = self._clock.monotonic() - began_s  # another run's journal may have been locked
        if seconds > within_s or self._faults.strikes(Fault.NOT_LEFT, 0.1):
            raise TimedOut("sending", answer="no connection")

    def _others_act(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        """Have others act between the read that a request rests on and its effect."""
        if targets and self._faults.strikes(Fault.OTHERS_ALTER, 0.05):
            self._beside.alter(targets)
        cancelled = [tp for tp, target in targets.items() if target is None]
        if cancelled and self._faults.strikes(Fault.BROKERS_FAIL, 0.3):
            self._beside.fail(cancelled)

    async def _sent(
        self,
        parts: Collection[T],
        act: Callable[[], Awaitable[Mapping[T, WriteResult]]],
        arrived: Callable[[], None] = lambda: None,
        moved: Collection[TopicPartition] = (),
    ) -> Mapping[T, WriteResult]:
        held_by = self._holder(0.1 if moved else 0.03)
        if held_by is not None and moved:
            self._beside.ask_soon(moved)
        delivery = asyncio.ensure_future(self._delivered(act, held_by, arrived))
        self.on_their_way.add(delivery)
        delivery.add_done_callback(self.on_their_way.discard)
        await wait_at_most(CALL_LIMIT_S, delivery, self._clock)
        lost = self._faults.strikes(Fault.LOST_ANSWER, 0.08)
        if not delivery.done() or lost:
            unknown = WriteResult(
                Verdict.UNKNOWN, message="no answer", node=held_by or self._node()
            )
            return dict.fromkeys(parts, unknown)
        return delivery.result() or dict.fromkeys(parts, WriteResult(Verdict.UNKNOWN))

    async def _delivered(
        self,
        act: Callable[[], Awaitable[Mapping[T, WriteResult]]],
        held_by: int | None,
        arrived: Callable[[], None],
    ) -> Mapping[T, WriteResult] | None:
        """Let a request take effect, once or twice; None if it never arrives."""
        if held_by is not None and not await self._suspended(held_by):
            arrived()
            return None
        results = await self._arrives(act)
        if self._faults.strikes(Fault.TWICE, 0.1):
            await self._clock.sleep(self._faults.dice.uniform(0.0, 5.0))
            results = await self._arrives(act)
        arrived()
        await self._clock.sleep(min(self._faults.delay_s(), 50.0))
        return results

    async def _arrives(
        self, act: Callable[[], Awaitable[Mapping[T, WriteResult]]]
    ) -> Mapping[T, WriteResult] | None:
        await self._clock.sleep(min(self._faults.delay_s(), KEPT_S))
        try:
            return await act()
        except ClusterError:
            return None

    def _holder(self, chance: float) -> int | None:
        """Choose a broker to be suspended with the request; None if there is none."""
        up = self._up
        if len(up) < 3 or not self._faults.strikes(Fault.HELD, chance):
            return None
        return self._faults.dice.choice(up)

    def _node(self) -> int | None:
        """Choose the broker that got a request whose answer was lost; sometimes None."""
        return self._faults.dice.choice([*self._up, None, None])

    @property
    def _up(self) -> list[int]:
        machines = self._cluster.machines
        return [broker for broker in machines if machines.power(broker) is Power.UP]

    async def _suspended(self, broker: int) -> bool:
        """Suspend a broker for a while; return whether it then resumes its requests."""
        machines = self._cluster.machines
        self._cluster.do(layout.Hang(broker))
        until_s = self._clock.monotonic() + self._faults.dice.choice(SUSPENDED_S)
        while self._clock.monotonic() < until_s and machines.power(broker) is Power.HANGING:
            await self._clock.sleep(1.0)
            self._cluster.catch_up()
        self._cluster.do(layout.Resume(broker))
        return machines.power(broker) is Power.UP
