"""What a throttle does to a run, said before it begins."""

from __future__ import annotations

from collections.abc import Iterator

from ktui.planning.finding import Finding
from ktui.planning.throttle_found import others_throttles
from ktui.planning.throttle_lists import lists_too_long
from ktui.planning.throttle_suffices import does_not_suffice
from ktui.planning.throttled_run import ThrottledRun


def throttle_findings(run: ThrottledRun) -> Iterator[Finding]:
    """Give everything that is to be said of a throttle, each with the number that would do."""
    yield from does_not_suffice(run)
    yield from lists_too_long(run)
    yield from others_throttles(run)
