"""Which broker one call asks next, for how long, and what is told when none answered."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from ktui.cluster.errors import ClusterError
from ktui.kafka.transport.pool import Call
from ktui.kafka.transport.send_deadline import ANY_TIME, SendDeadline
from ktui.kafka.transport.translate_errors import most_telling

NodeId = int | str
"""A broker id, or kafka-python's name for a bootstrap address ("bootstrap-0")."""

FIRST_S = 2.0
"""What a broker gets for a read while another could be asked, doubled with each failure: the one
that was asked may hang, and a view waits for the answer."""

_ENOUGH = 2
"""A node that failed twice in one call is asked no more."""


class Attempts:
    """The attempts of one call. Bounded: by its time, and by two for each node.

    Args:
        limit_s: seconds for the whole call.
        hasty: whether the call may be asked anew elsewhere although its answer may still come.
        leave: when a request may leave at the latest.
    """

    def __init__(
        self, limit_s: float, *, hasty: bool = False, leave: SendDeadline = ANY_TIME
    ) -> None:
        self._leave = leave
        self._until = time.monotonic() + limit_s
        self._hasty = hasty
        self._failed: Counter[NodeId] = Counter()
        self._failures: list[ClusterError] = []

    def left_s(self) -> float:
        """Seconds left for the whole call."""
        return self._until - time.monotonic()

    def choose(self, nodes: Sequence[NodeId]) -> tuple[NodeId, Call] | None:
        """Give the next node and the limit of the call to it; None when it is time to give up.

        A node gets half of what is left, or less in haste, while there is another to turn to.
        """
        left = self.left_s()
        fresh = sorted(
            (n for n in nodes if self._failed[n] < _ENOUGH), key=self._failed.__getitem__
        )
        if not fresh or left <= 0 or self._leave.passed:
            return None
        return fresh[0], Call(left if len(fresh) == 1 else self._share(left), self._leave)

    def _share(self, left: float) -> float:
        most = FIRST_S * 2 ** len(self._failures) if self._hasty else left
        return min(left / 2, most)

    @property
    def too_late(self) -> bool:
        """Whether no request may leave any more."""
        return self._leave.passed

    def failed(self, node: NodeId, error: ClusterError, *, for_good: bool) -> None:
        """Note a failure; `for_good` if the node is not worth another attempt in this call."""
        self._failed[node] += _ENOUGH if for_good else 1
        self._failures.append(error)

    def answered(self) -> None:
        """Forget the failures on the way to an answer: they are not why a later one is missing."""
        self._failures.clear()

    @property
    def failure(self) -> ClusterError | None:
        """What to tell when every attempt failed."""
        return most_telling(self._failures) if self._failures else None
