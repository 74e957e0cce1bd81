"""A figure of the operator's own, and the canary's."""

import json
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any, ClassVar, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import KafkaException, Producer

from ktui.execution.host.figures import (
    CanaryFigure,
    FigureProblem,
    OwnFigure,
    ask_command,
    ask_prometheus,
    own_figure,
)
from ktui.execution.run.options import RunOptions
from ktui.execution.throttle.objective import Figure
from ktui.kafka.canary import Canary
from ktui.kafka.connection.connection import Connection
from ktui.planning.throttle_rates import parse_objective


def _printing(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


class _Prometheus(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        answer = self.answers[parse_qs(url.query)["query"][0]]
        body = answer if isinstance(answer, bytes) else json.dumps({"data": answer}).encode()
        self.send_response(200 if url.path == "/api/v1/query" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    _Prometheus.answers = {
        "one": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "143.5"]}]},
        "two": {"resultType": "vector", "result": [{"value": [1, "7"]}, {"value": [1, "9"]}]},
        "scalar": {"resultType": "scalar", "result": [1, "0.25"]},
        "none": {"resultType": "vector", "result": []},
        "nan": {"resultType": "scalar", "result": [1, "NaN"]},
        "odd": [1, 2],
        "page": b"<html>not found</html>",
        "deep": b"[" * 100_000,
    }
    server = HTTPServer(("127.0.0.1", 0), _Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_it_is_the_number_in_the_last_line_that_a_command_prints() -> None:
    assert ask_command(_printing("print('p99 of the last 10 s:'); print(' 143.5 '); print()")) == (
        143.5
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('143 ms')", "printed '143 ms', which is no number"),
        ("print('nan')", "printed nan, which is not a number"),
        ("print(-1)", "printed -1, which is not a number"),
        ("pass", "printed '', which is no number"),
        ("import sys; sys.exit('no metrics')", "ended with exit code 1: no metrics"),
        ("print('\\x1b[2J')", "printed '"),
    ],
)
def test_a_command_without_a_number_is_no_figure(code: str, words: str) -> None:
    with pytest.raises(FigureProblem) as problem:
        ask_command(_printing(code))

    assert words in str(problem.value)
    assert str(problem.value).isprintable()


def test_a_command_that_hangs_is_killed() -> None:
    with pytest.raises(FigureProblem, match=r"took longer than 0\.2 s and was killed"):
        ask_command("/bin/sleep 60", timeout_s=0.2)


@pytest.mark.parametrize(("query", "figure"), [("one", 143.5), ("two", 9.0), ("scalar", 0.25)])
def test_it_is_the_highest_value_that_prometheus_answers(
    prometheus: str, query: str, figure: float
) -> None:
    assert ask_prometheus(prometheus, query) == figure


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("none", "the query has no result"),
        ("nan", "which is not a number"),
        ("odd", "the server did not answer like Prometheus"),
        ("page", "the server did not answer like Prometheus"),
        ("deep", "the server did not answer like Prometheus"),
    ],
)
def test_an_answer_without_a_value_is_no_figure(prometheus: str, query: str, words: str) -> None:
    with pytest.raises(FigureProblem, match=words):
        ask_prometheus(prometheus, query)


def test_a_prometheus_that_does_not_answer_is_no_figure(prometheus: str) -> None:
    with pytest.raises(FigureProblem, match="--sli-prometheus: "):
        ask_prometheus("http://127.0.0.1:1", "one")
    with pytest.raises(FigureProblem, match="it answers 404"):
        ask_prometheus(f"{prometheus}elsewhere", "one")


ENDLESS = -1  # a byte now and then, for as long as somebody listens


@pytest.fixture
def serving() -> Iterator[Callable[[list[bytes | int]], str]]:
    """Return what begins a server that gives one answer: its parts, and what comes now and then."""
    over, sockets, threads = threading.Event(), [], []

    def begin(parts: list[bytes | int]) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def serve() -> None:
            with suppress(OSError), listening.accept()[0] as client:
                client.recv(4096)
                for part in parts:
                    if isinstance(part, bytes):
                        client.sendall(part)
                    while part == ENDLESS and not over.wait(0.05):
                        client.sendall(b"1")

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield begin
    over.set()
    for thread in threads:
        thread.join()
    for listening in sockets:
        listening.close()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([b"SSH-2.0-OpenSSH\r\n"], id="not HTTP"),
        pytest.param([HEAD + b"x: " + b"y" * 70_000], id="a long line"),
        pytest.param([HEAD + b"Content-Length: 100\r\n\r\n{"], id="cut"),
        pytest.param([HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{"], id="a cut chunk"),
        pytest.param([b""], id="nothing"),
    ],
)
def test_an_answer_that_is_not_whole_or_not_http_is_no_figure(
    serving: Callable[[list[bytes | int]], str], parts: list[bytes | int]
) -> None:
    with pytest.raises(FigureProblem, match="--sli-prometheus: "):
        ask_prometheus(serving(parts), "one")


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([HEAD[:9], ENDLESS], id="status"),
        pytest.param([HEAD + b"x: ", ENDLESS], id="headers"),
        pytest.param([HEAD + b"Content-Length: 9999999\r\n\r\n", ENDLESS], id="body"),
        pytest.param([HEAD + b"Transfer-Encoding: chunked\r\n\r\n", ENDLESS], id="chunks"),
    ],
)
def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time(
    serving: Callable[[list[bytes | int]], str], parts: list[bytes | int]
) -> None:
    with pytest.raises(FigureProblem, match=r"no whole answer within 0\.5 s"):
        ask_prometheus(serving(parts), "one", timeout_s=0.5)


def test_a_figure_is_asked_for_again_after_a_failure_of_an_unknown_kind() -> None:
    answers: Queue[float | Exception] = Queue()
    asked: Queue[None] = Queue()

    def ask() -> float:
        asked.put(None)
        answer = answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    figure, objective = OwnFigure(ask, every_s=0.0), parse_objective("p99<1s")
    figure(objective)
    asked.get()
    answers.put(KeyError("odd"))
    asked.get()
    assert figure(objective) == Figure(None, "no figure: KeyError('odd')")
    answers.put(143.5)
    asked.get()
    assert figure(objective) == Figure(143.5)


def test_a_figure_counts_until_the_next_one_fails() -> None:
    answers: list[float | None] = [143.5, None]

    def ask() -> float:
        answer = answers.pop(0)
        if answer is None:
            raise FigureProblem("no metrics")
        return answer

    figure = OwnFigure(ask)
    figure.look()
    assert figure.latest == Figure(143.5)
    figure.look()
    assert figure.latest == Figure(None, "no metrics")


def test_a_run_without_a_command_and_a_query_has_none() -> None:
    assert own_figure(RunOptions())(parse_objective("p99<1s")).value is None


class _Measured(Canary):
    """A canary that has measured these percentiles, in seconds."""

    def __init__(self, measured: dict[int, float]) -> None:
        super().__init__(Connection.to("localhost:9092"), "drain")
        self._measured = measured

    def start(self) -> None:
        """Write nothing."""

    def percentiles_s(self, percent: float) -> dict[int, float]:
        assert percent == 99.0
        return self._measured


class _Silent:
    """A producer whose records are never acknowledged."""

    def produce(self, *_: object, **__: object) -> None:
        """Keep the record."""


def test_it_is_that_of_each_broker_in_the_unit_of_the_objective() -> None:
    figure = CanaryFigure(_Measured({1: 0.06342, 4: 0.212}))

    assert figure(parse_objective("p99<150ms")) == Figure(None, "", {1: 63.4, 4: 212.0})
    assert figure(parse_objective("p99<0.15s")) == Figure(None, "", {1: 0.0634, 4: 0.212})


def test_before_it_has_measured_there_is_none_with_the_reason() -> None:
    assert CanaryFigure(_Measured({}))(parse_objective("p99<150ms")) == Figure(
        None, "the canary has not written for long enough", {}
    )
    assert CanaryFigure(_Measured({}))(parse_objective("lag<5")).value is None


def test_the_words_of_a_server_in_its_reason_control_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = Canary(Connection.to("localhost:9092"), "drain")

    def leaders() -> list[int]:
        canary._stop.set()
        raise KafkaException("it said \x1b[2J")

    monkeypatch.setattr(canary, "_leaders", leaders)

    canary._serve()

    assert canary.problem.startswith("the canary: ")
    assert canary.problem.isprintable()


def test_a_broker_that_acknowledges_nothing_has_the_time_that_its_records_have_waited() -> None:
    canary = Canary(Connection.to("localhost:9092"), "drain")
    for _ in range(20):
        canary._produce(cast("Producer", _Silent()), b"", 0, 4)

    assert canary.percentiles_s(99.0).keys() == {4}
