"""The environment variables that hold secrets: no command of an operator gets them."""

from __future__ import annotations

import os

_NAMES: set[str] = set()


def mark_secret(name: str) -> None:
    """Take a variable out of the environment of the commands that this process runs from now on."""
    _NAMES.add(name)


def without_secrets() -> dict[str, str]:
    """Return the environment of this process without the variables that hold secrets."""
    return {name: value for name, value in os.environ.items() if name not in _NAMES}
