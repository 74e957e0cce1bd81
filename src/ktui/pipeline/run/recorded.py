"""What is recorded, and how much, before Spark is started for it."""

from __future__ import annotations

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.ingest.segments import Found, recorded_bytes
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.files import LocalFiles, local_path
from ktui.pipeline.lake.lake import read_manifest
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.sizing import is_small
from ktui.pipeline.run.run import PipelineRequest, nothing_recorded
from ktui.recording.segments import files_under


def check_recorded(request: PipelineRequest) -> None:
    """Check that a run has a lake or recordings to begin with, as far as this machine shows.

    Raises:
        PipelineProblem: there is no lake yet, and a place is missing or nothing is recorded there.
    """
    lake = local_path(request.lake)
    if lake is None or (lake / manifests.NAME).exists():
        return
    for place in request.recordings:
        path = local_path(place)
        if path is None or path.is_file():
            return
        if not path.exists():
            raise PipelineProblem(f"{place}: no such file or folder")
        if any(files_under(path)):
            return
    raise PipelineProblem(nothing_recorded(request, Found((), (), 0)))


def looks_small(request: PipelineRequest) -> bool:
    """Whether a run will be small, before Spark is there; not known of URIs, so False."""
    lake = local_path(request.lake)
    recorded = recorded_bytes(request.recordings)
    if lake is None or recorded is None:
        return False
    return is_small(recorded, read_manifest(LocalFiles(lake)) or Manifest())
