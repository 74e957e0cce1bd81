"""The attempts of one call: the next broker, its time limit, and the error to report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from ktui.cluster.errors import ClusterError
from ktui.kafka.transport.pool import ANY_TIME, Call, SendDeadline
from ktui.kafka.transport.translate_errors import most_informative

NodeId = int | str
"""A broker id, or kafka-python's name for a bootstrap address ("bootstrap-0")."""

FIRST_S = 2.0
"""Seconds for a read from one broker while another could be asked; doubled with each failure. The
broker may hang, and a view waits for the answer."""

_MOST_FAILURES = 2
"""A node that has failed this often in one call is not asked again."""


class Attempts:
    """The attempts of one call, bounded by its time and by two for each node.

    Args:
        limit_s: seconds for the whole call.
        hasty: whether to ask another node while the first answer may still come.
        leave: the deadline for sending a request.
    """

    def __init__(
        self, limit_s: float, *, hasty: bool = False, leave: SendDeadline = ANY_TIME
    ) -> None:
        self._deadline = leave
        self._until = time.monotonic() + limit_s
        self._hasty = hasty
        self._failed: Counter[NodeId] = Counter()
        self._failures: list[ClusterError] = []

    def left_s(self) -> float:
        """Seconds left for the whole call."""
        return self._until - time.monotonic()

    def choose(self, nodes: Sequence[NodeId]) -> tuple[NodeId, Call] | None:
        """Return the next node and its call, with a time limit; None when it is time to give up.

        While another node is left to ask, a node gets half of the remaining time, or less if the
        call is hasty.
        """
        left_s = self.left_s()
        candidates = sorted(
            (n for n in nodes if self._failed[n] < _MOST_FAILURES), key=self._failed.__getitem__
        )
        if not candidates or left_s <= 0 or self._deadline.passed:
            return None
        limit_s = left_s if len(candidates) == 1 else self._share_s(left_s)
        return candidates[0], Call(limit_s, self._deadline)

    def _share_s(self, left_s: float) -> float:
        most_s = FIRST_S * 2 ** len(self._failures) if self._hasty else left_s
        return min(left_s / 2, most_s)

    @property
    def too_late(self) -> bool:
        """Whether the deadline for sending a request has passed."""
        return self._deadline.passed

    def failed(self, node: NodeId, error: ClusterError, *, for_good: bool) -> None:
        """Record a failure; `for_good` if the node is not worth another attempt in this call."""
        self._failed[node] += _MOST_FAILURES if for_good else 1
        self._failures.append(error)

    def answered(self) -> None:
        """Forget the failures before an answer: they do not explain a later failure."""
        self._failures.clear()

    @property
    def failure(self) -> ClusterError | None:
        """The error to report after every attempt failed; None without a failure."""
        return most_informative(self._failures) if self._failures else None
