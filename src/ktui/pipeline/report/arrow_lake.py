"""A lake read through Arrow: a report needs neither Java nor Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import dataset, fs

from ktui.inputfile import Unreadable, from_home
from ktui.pipeline import manifest as manifests
from ktui.pipeline.lake_links import check_links
from ktui.pipeline.manifest import Manifest
from ktui.pipeline.problem import PipelineProblem

_BY = dataset.HivePartitioning(pa.schema([("cluster_id", pa.string())]))


class ArrowLake:
    """One whole version of a lake; later ones do not change it.

    Args:
        files: the lake's folder.
        manifest: the version.
    """

    def __init__(self, files: fs.FileSystem, manifest: Manifest) -> None:
        self.manifest = manifest
        self._files = files

    @classmethod
    def open(cls, place: str) -> ArrowLake:
        """Open the lake at a path or URI, as it is now.

        Raises:
            PipelineProblem: there is none, or it cannot be read from here.
        """
        try:
            files, path = fs.FileSystem.from_uri(place) if "://" in place else _local(place)
            folder = fs.SubTreeFileSystem(path, files)
            with folder.open_input_file(manifests.NAME) as file:
                content = file.read()
            found = manifests.decode(content)
            if isinstance(files, fs.LocalFileSystem):
                check_links(Path(path), found)
            return cls(folder, found)
        except FileNotFoundError:
            fix = f"Make one of recordings: ktui pipeline run --lake {place}"
            raise PipelineProblem(f"{place}: no lake. {fix}") from None
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise PipelineProblem(manifests.unreadable(place, error)) from None
        except (OSError, pa.ArrowException) as error:
            raise PipelineProblem(f"{place}: the lake cannot be read: {error}") from None

    def dataset(self, table: str) -> dataset.Dataset | None:
        """Give a table's files; None where it has no rows."""
        parts = self.manifest.tables.get(table, {}).values()
        paths = [file.path for part in parts for file in part.files]
        if not paths:
            return None
        return dataset.dataset(paths, filesystem=self._files, format="parquet", partitioning=_BY)


def _local(place: str) -> tuple[fs.FileSystem, str]:
    try:
        return fs.LocalFileSystem(), str(from_home(place).absolute())
    except Unreadable as why:
        raise PipelineProblem(f"{place}: {why}") from None
