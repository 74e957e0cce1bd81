"""Add partitions to a topic, with one request.

Kafka charges a request for its partitions where a quota (controller_mutation_rate) is set, also one
that it only validates. So ktui lets it validate none first.
"""

from __future__ import annotations

from ktui.cli.alter.change import TopicChange
from ktui.cli.alter.topic import TopicNow, find_topic
from ktui.cli.context.errors import BadInput
from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.fresh_read import LEAVES_WITHIN_S
from ktui.cluster.ports import ClusterReader, ClusterWriter, Verdict, WriteResult
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.run.unanswered import MAY_COME_S
from ktui.quantities import as_count

KNOWN_WITHIN_S = 30.0
"""Seconds in which brokers learn of partitions that the controller has added."""
_POLL_S = 0.5


class PartitionAdder:
    """Adds the partitions of a change.

    Args:
        reader: reads the cluster.
        writer: changes the cluster.
        change: the change.
        seen: the topic, on which the change rests.
    """

    def __init__(
        self, reader: ClusterReader, writer: ClusterWriter, change: TopicChange, seen: TopicNow
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._change = change
        self._seen = seen
        self._clock: Clock = SystemClock()

    async def add(self) -> TopicNow:
        """Add the partitions, and return the topic with them.

        Raises:
            RunRefused: nothing was changed: the topic is another one by now, or Kafka refuses.
            RunProblem: the answer was lost, and the partitions are not there or are others.
            ClusterError: nothing was sent.
        """
        now = await find_topic(self._reader, self._change.topic)
        if now is None or not self._still_holds(now):
            raise RunRefused(
                f"nothing was sent: {self._change.topic} has changed since ktui read it. Repeat "
                "the command"
            )
        result = await self._writer.create_partitions(
            self._change.topic,
            self._change.count,
            self._change.placed,
            leaves_within_s=LEAVES_WITHIN_S,
        )
        match result.verdict:
            case Verdict.REFUSED:
                raise RunRefused(f"nothing was changed: {self._refusal(result)}")
            case Verdict.UNKNOWN:
                after = await self._known_within(MAY_COME_S)
                if after is None:
                    raise RunProblem(self._lost(result))
            case Verdict.ACCEPTED:
                after = await self._known_within(KNOWN_WITHIN_S)
                if after is None:
                    raise RunProblem(
                        f"{self._change.topic}: Kafka has added the partitions, but no broker "
                        f"shows them after {KNOWN_WITHIN_S:.0f} s. Repeat the command later"
                    )
        self._check_as_placed(after)
        return after

    def _still_holds(self, now: TopicNow) -> bool:
        """Whether the change would be the same for the topic as it is now."""
        seen = self._seen
        if now.id != seen.id or len(now.partitions) != self._change.before:
            return False
        if now.moving or now.factors != seen.factors:
            return False
        return self._change.placed is None or now.replicas == seen.replicas

    async def _known_within(self, seconds: float) -> TopicNow | None:
        """Wait until brokers show the partitions; None if they do not."""
        until_s = self._clock.monotonic() + seconds
        while True:
            try:
                now = await find_topic(self._reader, self._change.topic)
            except (ClusterError, BadInput):  # brokers may be down for a while
                now = None
            if now is not None and len(now.partitions) >= self._change.count:
                return now
            if self._clock.monotonic() >= until_s:
                return None
            await self._clock.sleep(_POLL_S)

    def _check_as_placed(self, now: TopicNow) -> None:
        """Check that no one else has added partitions in the same moment."""
        placed, topic = self._change.placed, self._change.topic
        begin = self._change.before
        asked = None if placed is None else dict(enumerate(placed, begin))
        added = {tp.partition: s for tp, s in now.partitions.items() if tp.partition >= begin}
        as_asked = asked is None or {n: s.target for n, s in added.items()} == asked
        if now.id != self._seen.id or len(added) != self._change.adds or not as_asked:
            raise RunProblem(
                f"{topic} has {as_count(len(now.partitions), 'partition')} now, but not those that "
                "ktui asked for: someone else has changed it in this moment. Repeat the command"
            )

    def _refusal(self, result: WriteResult) -> str:
        answer = ": ".join(filter(None, (result.code, result.message)))
        again = ". Then repeat the command" if result.code == "THROTTLING_QUOTA_EXCEEDED" else ""
        return f"Kafka does not add partitions to {self._change.topic}: {answer}{again}"

    def _lost(self, result: WriteResult) -> str:
        before = as_count(self._change.before, "partition")
        return (
            f"the answer was lost ({result.message}), and {self._change.topic} still has {before} "
            f"after {MAY_COME_S:.0f} s. Once brokers answer again, repeat the command: partitions "
            "that the request has added by then are not added twice"
        )
