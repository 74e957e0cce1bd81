"""The canary's figure is the percentile that the objective names, by broker, in its unit."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import KafkaException, Producer

from ktui.execution.host.figures import CanaryFigure
from ktui.execution.throttle.objective import Figure
from ktui.kafka.canary import Canary
from ktui.kafka.connection.connection import Connection
from ktui.planning.throttle_rates import parse_objective


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
