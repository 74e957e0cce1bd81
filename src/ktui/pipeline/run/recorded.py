"""What is recorded, and how much, before Spark is started for it."""

from __future__ import annotations

from collections.abc import Collection

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.ingest.segments import Found, WholeSegment, new_files, settled
from ktui.pipeline.lake import manifest as manifests
from ktui.pipeline.lake.files import LocalFiles, local_path
from ktui.pipeline.lake.lake import read_manifest
from ktui.pipeline.lake.manifest import Manifest
from ktui.pipeline.lake.sizing import ends_soon
from ktui.pipeline.run.run import PipelineRequest, nothing_recorded


def check_recorded(request: PipelineRequest, here: Collection[WholeSegment] | None) -> None:
    """Check that a run has a lake or recordings to begin with, as far as this machine shows.

    Raises:
        PipelineProblem: there is no lake yet, and a place is missing or nothing is recorded there.
    """
    lake = local_path(request.lake)
    if lake is None or (lake / manifests.NAME).exists():
        return
    for place in request.recordings:
        path = local_path(place)
        if path is not None and not path.exists():
            raise PipelineProblem(f"{place}: no such file or folder")
    if here is not None and not here:
        raise PipelineProblem(nothing_recorded(request, Found((), (), 0)))


def reads_little(request: PipelineRequest, here: Collection[WholeSegment] | None) -> bool:
    """Whether a run's JVM will end soon, before Spark is there; not known of URIs, so False."""
    lake = local_path(request.lake)
    if lake is None or here is None:
        return False
    before = read_manifest(LocalFiles(lake)) or Manifest()
    new = new_files(here, settled(before.segments))
    return ends_soon(sum(file.length for file in new))
