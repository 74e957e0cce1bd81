"""Checks that a benchmark measures what its title names; a failed one ends the program."""

from __future__ import annotations

import json
import subprocess
from typing import Any

MOST_LEFT_OUT = 0.02
"""Share of the measurements that may be missing from the figures."""


def check_count(what: str, found: float, expected: float) -> None:
    """Check that there is exactly as much of something as is said to be measured.

    Raises:
        SystemExit: there is more or less.
    """
    if found != expected:
        raise SystemExit(f"not measured: {found:,} {what}, and {expected:,} were expected")


def check_left_out(what: str, left_out: int, of: int) -> None:
    """Check that no more than a few measurements are missing from the figures.

    Raises:
        SystemExit: more than `MOST_LEFT_OUT` of them are missing.
    """
    if left_out > of * MOST_LEFT_OUT:
        raise SystemExit(f"not measured: {left_out:,} of {of:,} {what}")


def printed_at_end(process: subprocess.Popen[str], what: str) -> Any:
    """End the input of a process, and return the JSON that it prints before it ends.

    Raises:
        SystemExit: its exit code is not 0.
    """
    printed, _ = process.communicate()
    check_count(f"as the exit code of the {what}", process.wait(), 0)
    return json.loads(printed)
