"""The moment in which partitions are shown: what their words and order depend on beside them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.widgets.health_words import HealthWords, health_words


class Moment(msgspec.Struct, frozen=True):
    """What a row's words depend on beyond its own timeline."""

    now_s: float
    """Monotonic second of the last observation."""
    configs: Mapping[str, TopicConfig] = msgspec.field(default_factory=dict)
    """By topic, where they are known."""
    health_first: bool = False
    """Whether the health of a partition tells more than that its move has ended."""

    def health(self, timeline: Timeline) -> HealthWords:
        """Give what is wrong with a partition apart from any move."""
        return health_words(timeline.state, self.configs.get(timeline.tp.topic))

    def told_by_health(self, timeline: Timeline, well: HealthWords) -> bool:
        """Whether a partition's state is that of its health and not that of its move."""
        if timeline.phase is Phase.TOPIC_GONE:
            return False
        if timeline.phase.ended or timeline.phase is Phase.SETTLING:
            return self.health_first and well.ill
        return timeline.phase is Phase.SETTLED or well.offline
