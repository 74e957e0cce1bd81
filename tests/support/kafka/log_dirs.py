"""Log dirs that fail on a running broker."""

from __future__ import annotations

from pathlib import Path

SOON = {"replica.high.watermark.checkpoint.interval.ms": "500"}
"""Settings of a lab whose brokers write to each log dir twice a second, and so notice a failure."""


def break_log_dir(path: Path) -> None:
    """Put a file in the place of a log dir: its broker can neither read nor write there.

    Permissions would not do, for they do not bind root. Open segments stay usable, so the failure
    shows when the broker next opens a file.
    """
    path.rename(path.with_name(f"{path.name}.broken"))
    path.touch()
