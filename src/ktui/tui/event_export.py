"""Writes events to a file of JSON lines, one event each, for another program to read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ktui.progress.timeline import Event

SEVERITIES = ("news", "warning", "trouble")


def write_events(events: Sequence[Event], folders: Sequence[Path], now: datetime) -> Path:
    """Write to a new file in the first folder that takes it, and give its path.

    Raises:
        OSError: no folder takes it; the last one's reason.
    """
    text = b"".join(_line(event) for event in events)
    for folder in folders[:-1]:
        try:
            return _write(folder, text, now)
        except OSError:
            continue
    folders[-1].mkdir(parents=True, exist_ok=True)
    return _write(folders[-1], text, now)


def _write(folder: Path, text: bytes, now: datetime) -> Path:
    stem = f"ktui-events-{now.astimezone():%Y%m%d-%H%M%S}"
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = folder / f"{stem}{suffix}.jsonl"
        try:
            with path.open("xb") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{folder / stem}.jsonl and its like are there already")


def _line(event: Event) -> bytes:
    tp = event.tp
    record = {
        "schema_version": 1,
        "at": event.at.astimezone(UTC),
        "severity": SEVERITIES[event.severity],
        "topic": None if tp is None else tp.topic,
        "partition": None if tp is None else tp.partition,
        "broker": event.broker,
        "what": event.what,
    }
    return msgspec.json.encode(record) + b"\n"
