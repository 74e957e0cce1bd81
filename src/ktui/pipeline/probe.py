"""What an executor finds where it is. It runs there before anything else, on Python alone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

LIBRARIES = {"msgspec": "msgspec", "pyarrow": "pyarrow", "yaml": "pyyaml"}
"""What ktui's code imports in executors, and the packages that bring it."""


class Probed(NamedTuple):
    """What one executor lacks."""

    host: str
    python: str
    libraries: tuple[str, ...]
    """Packages."""
    paths: tuple[str, ...]
    """Paths that are not there."""


def probe(paths: Iterable[str]) -> Iterator[Probed]:
    """Look at the Python that runs this, and at some paths."""
    lacks = tuple(package for name, package in LIBRARIES.items() if find_spec(name) is None)
    unseen = tuple(path for path in paths if not Path(path).exists())
    yield Probed(socket.gethostname(), sys.executable, lacks, unseen)
