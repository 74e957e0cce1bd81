"""Ports of 127.0.0.1 for a lab."""

from __future__ import annotations

import random
import socket

from ktui.lab.errors import LabError, WrongInput
from ktui.lab.layout import HOST

_LOWEST, _HIGHEST = 20_000, 32_000
"""Below where systems take the ports of outgoing connections from: one of those could otherwise
sit on a broker's port while the broker is down."""
_TRIES = 200
_LOWEST_OF_USERS, _HIGHEST_OF_ALL = 1024, 65535


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose(count: int) -> list[int]:
    """Find free ports that follow each other.

    Raises:
        LabError: none were found.
    """
    for _ in range(_TRIES):
        first = random.randrange(_LOWEST, _HIGHEST - count)  # noqa: S311 - not a secret
        ports = list(range(first, first + count))
        if all(is_free(port) for port in ports):
            return ports
    raise LabError(
        f"no {count} free ports in a row on {HOST} between {_LOWEST} and {_HIGHEST}",
        fix="Name the first one to take with --ports.",
    )


def from_first(first: int, count: int) -> list[int]:
    """Give the ports from `first` on.

    Raises:
        WrongInput: there are no such ports.
        LabError: one is taken.
    """
    ports = list(range(first, first + count))
    if first < _LOWEST_OF_USERS or ports[-1] > _HIGHEST_OF_ALL:
        raise WrongInput(
            f"--ports {first}: a lab of this size takes the ports {ports[0]} to {ports[-1]}",
            fix=f"They must lie between {_LOWEST_OF_USERS} and {_HIGHEST_OF_ALL}.",
        )
    check(ports)
    return ports


def check(ports: list[int]) -> None:
    """Make sure that all are free.

    Raises:
        LabError: one is taken.
    """
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise LabError(
            f"{HOST}:{taken[0]} is taken by another program",
            fix=f"The lab would take {ports[0]} to {ports[-1]}. A new lab may have others: see "
            "--ports; without it, free ones are found.",
        )
