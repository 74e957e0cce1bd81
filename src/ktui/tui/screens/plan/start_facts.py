"""What was chosen in the steps before a run is started."""

from __future__ import annotations

import textwrap

from textual.content import Content

from ktui.cluster.text import clean
from ktui.pacing.limits import LETTERS, Limits, full_limit_figure, is_limited
from ktui.preview.preview import PlanPreview
from ktui.preview.text import time_text
from ktui.quantities import as_bytes, as_count
from ktui.tui.screens.watch.run_banner import shape_in_words

_LABEL = 16


def start_facts(
    plan: str, throttle: str, canary: str, preview: PlanPreview, width: int, *, rehearsed: str = ""
) -> Content:
    """Return the plan, what it moves, its limits, its throttle and its time, a line each.

    Args:
        plan: the name of the plan's file.
        throttle: the throttle in words.
        canary: what the canary does; empty for none.
        preview: the preview under the limits and the throttle chosen.
        width: the width in cells.
        rehearsed: how long it took in a rehearsal; empty without one.
    """
    pairs = [
        ("plan", clean(plan)),
        ("moves", _moves(preview)),
        ("limits", _limits(preview.limits)),
        ("throttle", throttle),
    ]
    pairs += [("canary", canary)] if canary else []
    pairs += [("time", time_text(preview))] if preview.moves else []
    pairs += [("rehearsed", rehearsed)] if rehearsed else []
    return Content("\n").join(
        Content.assemble((f"{'' if n else name:<{_LABEL}}", "$dim"), part)
        for name, words in pairs
        for n, part in enumerate(textwrap.wrap(words, width - _LABEL, break_on_hyphens=False))
    )


def _moves(preview: PlanPreview) -> str:
    summary = preview.summary
    replicas = as_count(summary.replica_movements, "replica")
    copied = preview.bytes_to_copy
    size = "size not known" if copied is None else f"{as_bytes(copied)} to copy"
    return f"{replicas} ({size}), {as_count(summary.leader_movements, 'leader')}"


def _limits(limits: Limits) -> str:
    numbers = [
        f"{letter} {full_limit_figure(limits, option)}"
        for option, letter in LETTERS.items()
        if is_limited(limits, option)
    ]
    return "  ".join([*numbers, shape_in_words(limits)])
