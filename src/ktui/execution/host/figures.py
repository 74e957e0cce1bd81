"""The figure of an objective: as the operator's command, a Prometheus or ktui's canary has it."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from math import isfinite
from typing import Any, Protocol

from ktui.cluster.text import clean
from ktui.execution.host.operator_command import (
    CommandProblem,
    HelperThread,
    command_name,
    run_command,
    split_command,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.throttle.objective import Figure, no_figure
from ktui.planning.throttle_rates import Objective, not_measured_by_canary

log = logging.getLogger(__name__)

EVERY_S = 10.0  # between two figures
TIMEOUT_S = 8.0  # until a command is killed, and a query given up
STALE_S = 2 * EVERY_S  # until a figure says nothing any more
_MOST_BYTES = 1_000_000


class FigureProblem(ValueError):
    """There is no figure. The message has the reason."""


class OwnFigure:
    """Ask for the figure again and again, in a thread; `ask` may raise FigureProblem."""

    def __init__(self, ask: Callable[[], float], every_s: float = EVERY_S) -> None:
        self._ask = ask
        self._every_s = every_s
        self._thread = HelperThread(self._serve)
        self._figure: float | None = None
        self._asked_s = self._wanted_s = 0.0
        self._problem = ""

    def __call__(self, _objective: Objective) -> Figure:
        """The first call begins to ask, and without calls nobody is asked any more."""
        self._wanted_s = time.monotonic()
        if problem := self._thread.keep_alive():
            return Figure(None, f"no figure can be asked for: {problem}")
        return self.latest

    @property
    def latest(self) -> Figure:
        if self._figure is not None and time.monotonic() - self._asked_s < STALE_S:
            return Figure(self._figure)
        return Figure(None, self._problem or "no figure came in time")

    def _serve(self) -> None:
        while True:
            if time.monotonic() - self._wanted_s < STALE_S:
                self.look()
            time.sleep(self._every_s)

    def look(self) -> None:
        asked_s = time.monotonic()
        try:
            self._figure, self._asked_s = self._ask(), asked_s
            self._problem = ""
        except FigureProblem as problem:
            self._figure, self._problem = None, str(problem)
        except Exception as error:  # it is asked for again, and until then there is none
            log.exception("the figure of the objective was not had")
            self._figure, self._problem = None, f"no figure: {error!r:.200}"


def own_figure(options: RunOptions) -> Callable[[Objective], Figure]:
    """Return the figure that the options of a run name; never one if they name none."""
    if options.sli_command:
        return OwnFigure(lambda: ask_command(options.sli_command))
    if options.sli_prometheus:
        url, query = options.sli_prometheus
        return OwnFigure(lambda: ask_prometheus(url, query))
    return no_figure


def ask_command(text: str, timeout_s: float = TIMEOUT_S) -> float:
    """Return the last line's number of a command's output. Raises FigureProblem."""
    try:
        words = split_command(text)
    except CommandProblem as problem:
        raise FigureProblem(f"--sli-command {problem}") from None
    name = command_name("--sli-command", words)
    output, failed = run_command(words, timeout_s)
    if failed is not None:
        raise FigureProblem(f"{name} {failed}")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return _number(name, lines[-1] if lines else "")


def ask_prometheus(url: str, query: str, timeout_s: float = TIMEOUT_S) -> float:
    """Return the highest value of a query's result. Raises FigureProblem."""
    until_s = time.monotonic() + timeout_s
    late = f"--sli-prometheus: no whole answer within {timeout_s:g} s"
    full = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with _cut_after(timeout_s) as opener, opener.open(full, timeout=timeout_s) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
        data = found["data"]
        samples = [data["result"]] if data["resultType"] == "scalar" else [
            each["value"] for each in data["result"]
        ]  # fmt: skip
        values = [_number("--sli-prometheus", str(value)) for _, value in samples]
    except urllib.error.HTTPError as error:
        words = f"{error.code} {clean(str(error.reason))}"
        raise FigureProblem(f"--sli-prometheus: it answers {words}") from None
    except OSError as error:
        if time.monotonic() >= until_s:  # a connection that is cut may look as if it were reset
            raise FigureProblem(late) from None
        reason = getattr(error, "reason", error)
        raise FigureProblem(f"--sli-prometheus: {clean(str(reason))}") from None
    except (ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException) as error:
        if isinstance(error, FigureProblem):
            raise
        if time.monotonic() >= until_s:
            raise FigureProblem(late) from None
        raise FigureProblem("--sli-prometheus: the server did not answer like Prometheus") from None
    if not values:
        raise FigureProblem("--sli-prometheus: the query has no result")
    return max(values)


class _Opener(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens URLs by connections that can be cut, each in whatever state it is."""

    def __init__(self) -> None:
        urllib.request.HTTPSHandler.__init__(self)
        self._copies: list[socket.socket] = []
        self._over = False

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(partial(self._connection, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(partial(self._connection, http.client.HTTPSConnection), req)

    def _connection(
        self, kind: type[http.client.HTTPConnection], host: str, **how: Any
    ) -> http.client.HTTPConnection:
        connection = kind(host, **how)
        connect = connection.connect

        def connected() -> None:
            connect()  # urllib hands the socket to the answer, and forgets it: a copy is kept
            self._copies.append(socket.socket(fileno=os.dup(connection.sock.fileno())))
            if self._over:
                raise TimeoutError("timed out")

        connection.connect = connected  # type: ignore[method-assign]
        return connection

    def cut(self) -> None:
        self._over = True
        for copy in self._copies:
            with suppress(OSError):  # the server has ended it
                copy.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        for copy in self._copies:
            copy.close()


@contextmanager
def _cut_after(seconds: float) -> Iterator[urllib.request.OpenerDirector]:
    """Yield what opens URLs, and cut the connections after a time: each byte renews a timeout."""
    cutting = _Opener()
    timer = threading.Timer(seconds, cutting.cut)
    timer.daemon = True
    timer.start()
    try:
        yield urllib.request.build_opener(cutting)
    finally:
        timer.cancel()
        timer.join()
        cutting.end()


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise FigureProblem(f"{name} printed {clean(text)[:60]!r}, which is no number") from None
    if not isfinite(number) or number < 0:
        raise FigureProblem(f"{name} printed {clean(text)[:60]}, which is not a number")
    return number


class AnyCanary(Protocol):
    """A canary: on a real cluster, or what it would measure on a simulated one."""

    problem: str  # why nothing is known

    def start(self) -> None: ...

    def percentiles_s(self, percent: float) -> Mapping[int, float]:
        """In seconds, of each broker whose figure is known."""
        ...


class CanaryFigure:
    """Let a canary write from the first time that its figure is needed."""

    def __init__(self, canary: AnyCanary) -> None:
        self._canary = canary

    def __call__(self, objective: Objective) -> Figure:
        percent = objective.percent
        if percent is None:
            return Figure(None, not_measured_by_canary(objective))
        self._canary.start()
        brokers = {
            broker: round(seconds * 1000, 1) if objective.unit == "ms" else round(seconds, 4)
            for broker, seconds in self._canary.percentiles_s(percent).items()
        }
        return Figure(None, "" if brokers else self._canary.problem, brokers)
