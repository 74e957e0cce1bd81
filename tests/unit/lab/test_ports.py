"""Ports for a lab: free ones are found, requested ones are checked."""

from __future__ import annotations

import socket

import pytest

from ktui.lab import readiness
from ktui.lab.layout import LabError, WrongInput


def test_chosen_ports_are_consecutive_and_free() -> None:
    found = readiness.choose(6)
    assert found == list(range(found[0], found[0] + 6))
    assert all(readiness.is_free(port) for port in found)


def test_a_taken_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not readiness.is_free(server.getsockname()[1])


def test_requested_ports_are_consecutive_from_the_first() -> None:
    first, *_ = readiness.choose(3)
    assert readiness.from_first(first, 3) == [first, first + 1, first + 2]


def test_a_taken_port_among_the_requested_ones_is_named() -> None:
    first, second, _ = readiness.choose(3)
    with (
        socket.create_server(("127.0.0.1", second)),
        pytest.raises(LabError, match=f"127.0.0.1:{second} is taken"),
    ):
        readiness.from_first(first, 3)


@pytest.mark.parametrize("first", [-1, 0, 1023, 65534, 70000])
def test_ports_out_of_range_are_refused(first: int) -> None:
    with pytest.raises(WrongInput, match="must lie between 1024 and 65535"):
        readiness.from_first(first, 3)


def test_a_lack_of_free_ports_is_reported_with_the_option_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "is_free", lambda _port: False)
    with pytest.raises(LabError, match=r"no 6 free ports in a row .*--ports"):
        readiness.choose(6)
