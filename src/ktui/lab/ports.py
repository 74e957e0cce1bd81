"""The choice of ports on 127.0.0.1 for a lab."""

from __future__ import annotations

import random
import socket

from ktui.lab.errors import LabError, WrongInput
from ktui.lab.layout import HOST

_LOWEST, _HIGHEST = 20_000, 32_000
"""Below the range from which systems assign ports to outgoing connections. Otherwise such a
connection could occupy a broker's port while the broker is down."""
_TRIES = 200
_LOWEST_UNPRIVILEGED, _HIGHEST_PORT = 1024, 65535


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose(count: int) -> list[int]:
    """Find `count` free ports in a row.

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
        fix="Name the first port to use with --ports.",
    )


def from_first(first: int, count: int) -> list[int]:
    """Return `count` ports from `first` on.

    Raises:
        WrongInput: the ports are out of range.
        LabError: a port is taken.
    """
    ports = list(range(first, first + count))
    if first < _LOWEST_UNPRIVILEGED or ports[-1] > _HIGHEST_PORT:
        raise WrongInput(
            f"--ports {first}: a lab of this size needs the ports {ports[0]} to {ports[-1]}",
            fix=f"They must lie between {_LOWEST_UNPRIVILEGED} and {_HIGHEST_PORT}.",
        )
    check(ports)
    return ports


def check(ports: list[int]) -> None:
    """Check that all ports are free.

    Raises:
        LabError: a port is taken.
    """
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise LabError(
            f"{HOST}:{taken[0]} is taken by another program",
            fix=f"The lab needs {ports[0]} to {ports[-1]}. For a new lab, name other ports with "
            "--ports, or leave --ports out to use free ones.",
        )
