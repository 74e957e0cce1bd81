"""Which colour stands for what: names in the page's style, which has each for light and dark."""

from __future__ import annotations

STATES = {
    "queued": "var(--queued)",
    "between steps": "var(--between)",
    "adding": "var(--adding)",
    "catching up": "var(--catching-up)",
    "stalled": "var(--stalled)",
    "in sync": "var(--in-sync)",
    "electing": "var(--electing)",
}
"""In the order in which a move goes through them."""
PATTERNS = {"stalled": "x", "adding": "/", "electing": "."}
"""So that colour is not all that tells them apart."""
ENDED = "var(--ended)"
UNSEEN = "no state seen"
"""What lies between two looks: a move goes on, and no look tells in which state."""

LINES = tuple(f"var(--line-{number})" for number in range(1, 9))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
