"""A probe of what an executor has. It runs there before anything else, and on Python alone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

LIBRARIES = {"msgspec": "msgspec", "pyarrow": "pyarrow", "yaml": "pyyaml"}
"""The modules that ktui's code imports in executors, and the package of each."""


class ProbeResult(NamedTuple):
    """The libraries and paths that one executor lacks."""

    host: str
    python: str
    libraries: tuple[str, ...]
    paths: tuple[str, ...]


def probe(paths: Iterable[str]) -> Iterator[ProbeResult]:
    """Check the Python that runs this function, and whether some paths exist for it."""
    lacks = tuple(package for name, package in LIBRARIES.items() if find_spec(name) is None)
    unseen = tuple(path for path in paths if not Path(path).exists())
    yield ProbeResult(socket.gethostname(), sys.executable, lacks, unseen)
