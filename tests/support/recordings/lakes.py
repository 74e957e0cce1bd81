"""A lake's manifest that knows recordings, as the pipeline leaves it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.manifest import Manifest, SegmentRead


def read_into_lake(files: Iterable[Path], lake: Path) -> Path:
    """Let a lake know files, as the pipeline does."""
    read = tuple(
        SegmentRead(
            str(file),
            file.stat().st_size,
            file.stat().st_mtime_ns // 1_000_000,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files
    )
    lake.mkdir(parents=True, exist_ok=True)
    (lake / manifests.NAME).write_bytes(manifests.encode(Manifest(version=1, segments=read)))
    return lake
