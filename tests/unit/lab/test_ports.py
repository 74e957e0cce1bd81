"""Ports for a lab: free ones are found, asked-for ones are checked."""

from __future__ import annotations

import socket

import pytest

from ktui.lab import ports
from ktui.lab.errors import LabError, WrongInput


def test_the_ports_found_follow_each_other_and_are_free() -> None:
    found = ports.choose(6)
    assert found == list(range(found[0], found[0] + 6))
    assert all(ports.is_free(port) for port in found)


def test_a_taken_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_asked_for_ports_are_taken_from_the_first_on() -> None:
    first, *_ = ports.choose(3)
    assert ports.from_first(first, 3) == [first, first + 1, first + 2]


def test_a_taken_port_among_the_asked_for_is_named() -> None:
    first, second, _ = ports.choose(3)
    with (
        socket.create_server(("127.0.0.1", second)),
        pytest.raises(LabError, match=f"127.0.0.1:{second} is taken"),
    ):
        ports.from_first(first, 3)


@pytest.mark.parametrize("first", [-1, 0, 1023, 65534, 70000])
def test_ports_that_do_not_exist_are_refused(first: int) -> None:
    with pytest.raises(WrongInput, match="must lie between 1024 and 65535"):
        ports.from_first(first, 3)


def test_when_nothing_is_free_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _port: False)
    with pytest.raises(LabError, match=r"no 6 free ports in a row .*--ports"):
        ports.choose(6)
