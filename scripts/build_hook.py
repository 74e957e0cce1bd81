"""Write the manual pages into a wheel while it is built."""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface):  # type: ignore[misc] # hatchling is only where a wheel is built
    """The pages follow from the help of the verbs, so no copy of them can go stale in the tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        subprocess.run(  # noqa: S603 - a script of this tree
            [sys.executable, root / "scripts" / "man_pages.py", self._folder.name],
            # and all that was installed for the build, which pip keeps in a folder of its own
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), *sys.path))},
            check=True,
        )
        build_data["shared_data"][self._folder.name] = "share/man/man1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()
