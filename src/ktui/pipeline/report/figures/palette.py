"""The colours of states and lines: names in the page's style, which has light and dark ones."""

from __future__ import annotations

from ktui.pipeline.report.data import marks

STATES = {
    "queued": "var(--queued)",
    "between steps": "var(--between)",
    "adding": "var(--adding)",
    "catching up": "var(--catching-up)",
    "stalled": "var(--stalled)",
    "in sync": "var(--in-sync)",
    "electing": "var(--electing)",
}
"""The colours of states, in the order in which a move goes through the states."""
PATTERNS = {"stalled": "x", "adding": "/", "electing": "."}
"""The patterns of some states, so that colour is not the only difference."""
ENDED = "var(--ended)"
UNSEEN = "no state seen"
"""The time between two polls in which a move goes on, and no poll shows its state."""

UNRECORDED = "not recorded"

MARKS = {
    marks.PAUSE: ("square", "var(--line-4)"),
    marks.LIMITS: ("diamond", "var(--line-1)"),
    marks.THROTTLE: ("triangle-up", "var(--line-3)"),
    marks.BROKER: ("x", "var(--line-8)"),
    marks.OTHER: ("star", "var(--line-7)"),
}
"""The symbol and the colour of what happened, by kind."""

LINES = tuple(f"var(--line-{number})" for number in range(1, 9))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
