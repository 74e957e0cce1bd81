"""Why a partition goes before the others, as text."""

from __future__ import annotations

from ktui.pacing.situation import Urgency


def urgent_text(why: Urgency) -> str:
    """Return why a partition goes before the others, for people: `urgent: under min ISR`."""
    return f"urgent: {why.value}"
