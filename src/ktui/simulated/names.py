"""Which names Kafka takes for topics."""

from __future__ import annotations

import re

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def legal_topic_name(name: str) -> bool:
    """Whether a topic can have this name (Kafka's Topic.validate)."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
