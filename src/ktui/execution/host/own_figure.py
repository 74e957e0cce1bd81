"""The operator's own figure for an objective: what a command prints, or a Prometheus answers."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from math import isfinite
from pathlib import Path

from ktui.cluster.text import clean
from ktui.execution.host.operator_command import CommandProblem, command_output, split_command
from ktui.execution.run.options import RunOptions
from ktui.execution.throttle.keep_objective import no_figure
from ktui.execution.throttle.objective_rates import Figure
from ktui.planning.objective import Objective

EVERY_S = 10.0
"""Seconds between two figures."""
TIMEOUT_S = 8.0
"""Seconds after which a command is killed, and a query given up."""
STALE_S = 2 * EVERY_S
"""Seconds after which a figure says nothing any more."""
_MOST_BYTES = 1_000_000


class FigureProblem(ValueError):
    """There is no figure. The message has the reason."""


class OwnFigure:
    """Ask for the figure again and again, in a thread of its own.

    Args:
        ask: returns the figure now, or raises a FigureProblem.
        every_s: seconds between two figures.
    """

    def __init__(self, ask: Callable[[], float], every_s: float = EVERY_S) -> None:
        self._ask = ask
        self._every_s = every_s
        self._started = False
        self._figure: float | None = None
        self._asked_s = self._wanted_s = 0.0
        self._problem = ""

    def __call__(self, _objective: Objective) -> Figure:
        """Return the figure, if there is one that is new enough.

        The first call begins to ask, and without calls nobody is asked any more.
        """
        self._wanted_s = time.monotonic()
        if not self._started:
            self._started = True
            threading.Thread(target=self._serve, daemon=True).start()
        return self.latest

    @property
    def latest(self) -> Figure:
        """The last figure, if it is new enough."""
        if self._figure is not None and time.monotonic() - self._asked_s < STALE_S:
            return Figure(self._figure)
        return Figure(None, self._problem or "no figure came in time")

    def _serve(self) -> None:
        while True:
            if time.monotonic() - self._wanted_s < STALE_S:
                self.look()
            time.sleep(self._every_s)

    def look(self) -> None:
        """Ask once."""
        asked_s = time.monotonic()
        try:
            self._figure, self._asked_s = self._ask(), asked_s
            self._problem = ""
        except FigureProblem as problem:
            self._figure, self._problem = None, str(problem)


def own_figure(options: RunOptions) -> Callable[[Objective], Figure]:
    """Return the figure that the options of a run name; never one if they name none."""
    if options.sli_command:
        return OwnFigure(lambda: ask_command(options.sli_command))
    if options.sli_prometheus:
        url, query = options.sli_prometheus
        return OwnFigure(lambda: ask_prometheus(url, query))
    return no_figure


def ask_command(text: str, timeout_s: float = TIMEOUT_S) -> float:
    """Run a command, and return the number in the last line that it prints.

    Raises:
        FigureProblem: it fails, hangs, or prints no number.
    """
    try:
        words = split_command(text)
    except CommandProblem as problem:
        raise FigureProblem(f"--sli-command {problem}") from None
    name = f"--sli-command {clean(Path(words[0]).name)}"
    output, failed = command_output(words, timeout_s)
    if failed is not None:
        raise FigureProblem(f"{name} {failed}")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return _number(name, lines[-1] if lines else "")


def ask_prometheus(url: str, query: str, timeout_s: float = TIMEOUT_S) -> float:
    """Return the highest value of a query's result.

    Raises:
        FigureProblem: there is no answer, or no value in it.
    """
    full = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(full, timeout=timeout_s) as answer:  # noqa: S310 - http and https only, checked at the start
            found = json.loads(answer.read(_MOST_BYTES))
        data = found["data"]
        samples = [data["result"]] if data["resultType"] == "scalar" else [
            each["value"] for each in data["result"]
        ]  # fmt: skip
        values = [_number("--sli-prometheus", str(value)) for _, value in samples]
    except urllib.error.HTTPError as error:
        raise FigureProblem(f"--sli-prometheus: it answers {error.code} {error.reason}") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise FigureProblem(f"--sli-prometheus: {clean(str(reason))}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FigureProblem):
            raise
        raise FigureProblem("--sli-prometheus: its answer is none of Prometheus") from None
    if not values:
        raise FigureProblem("--sli-prometheus: the query has no result")
    return max(values)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise FigureProblem(f"{name} printed {clean(text)[:60]!r}, which is no number") from None
    if not isfinite(number) or number < 0:
        raise FigureProblem(f"{name} printed {clean(text)[:60]}, which is no figure")
    return number
