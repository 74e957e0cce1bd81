"""What the terminal shows of a run that is started or resumed in it: the live view, or a line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ktui.cli.start_headless import EXIT_CODES, follow
from ktui.cli.start_launch import Target, say
from ktui.execution.follow import RunFollower
from ktui.execution.headless import end_lines, outcome
from ktui.execution.process import EngineProcess
from ktui.execution.statedir import StateDir


def is_headless(*, headless: bool, json: bool) -> bool:
    """Whether the live view stays away: it was asked to, or there is nothing to draw it on."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return headless or json or not all(s is not None and s.isatty() for s in streams)


def shown(
    start: Callable[[], EngineProcess],
    where: Target,
    state: StateDir,
    *,
    headless: bool,
    json: bool,
    after: int = 0,
) -> int:
    """Start an engine, and show its run: to its end, or until the view is closed.

    Args:
        start: gives the process, which owns the run.
        where: the cluster.
        state: where the run is.
        headless: as `is_headless` says.
        json: whether each event is a line on standard output.
        after: the number of the last event that is not told of.

    Returns:
        The exit code; 0 for a run that goes on without the view.
    """
    if headless:
        return follow(start, state, json=json, after=after)
    from ktui.cli.watch import View, show  # noqa: PLC0415 - scripts need no screens

    engine = start()
    show(View(cluster=where.cluster, state=state, names=where.names, run=engine.run.path))
    if not engine.gone:
        return 0  # the view has said that the run goes on
    with RunFollower(engine.run.journal) as follower:
        follower.refresh()
    say("\n".join(end_lines(follower.run)))
    return EXIT_CODES[outcome(follower.run)]
