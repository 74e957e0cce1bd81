"""Ship ktui's own code to a Spark cluster, so that executors need only the libraries."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

from pyspark import SparkContext

from ktui.durable import write_output

PACKAGE = "ktui.zip"
JOB = "ktui_job.py"
_CODE = Path(__file__).parents[2]


def package(folder: Path) -> tuple[Path, Path]:
    """Write the files for spark-submit: ktui's code, for --py-files, and the program.

    Returns:
        The paths of the code and of the program.

    Raises:
        OSError: the files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    code = io.BytesIO()
    _zipped(code)
    write_output(folder / PACKAGE, code.getvalue())
    program = _CODE / "cli" / "pipeline" / "spark_submit.py"
    write_output(folder / JOB, program.read_bytes())
    return folder / PACKAGE, folder / JOB


@contextmanager
def shipped(context: SparkContext) -> Iterator[None]:
    """Within the block, serve ktui's code to all executors, also to those that join later."""
    if not _CODE.is_dir():  # ktui runs from the zip that spark-submit has sent already
        yield
        return
    with TemporaryDirectory(prefix="ktui-") as folder:
        # a name that --py-files cannot have: executors keep all such files in one folder
        path = Path(folder) / f"ktui-{uuid.uuid4().hex[:8]}.zip"
        _zipped(path)
        context.addPyFile(str(path))
        yield


def _zipped(zipped: Path | BinaryIO) -> None:
    with ZipFile(zipped, "w", ZIP_DEFLATED, strict_timestamps=False) as archive:
        for file in sorted(_CODE.rglob("*.py")):
            archive.write(file, file.relative_to(_CODE.parent))
