"""Jars that tests need and PySpark does not have, through Maven."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from ktui.lab.java import find_maven

_LIMIT_S = 900.0
"""Seconds: longer than fetching takes on a slow line."""


def maven_jars(name: str, artifacts: Iterable[str], excluded: Iterable[str]) -> list[Path]:
    """Fetch artifacts through Maven, once for each user, and return all jars.

    Args:
        name: of the folder in the user's cache that keeps them.
        artifacts: as group:name:version, or group:name:version:classifier.
        excluded: what they would need, but is left out, as group:name; `*` for all.
    """
    pom = _pom(artifacts, excluded)
    folder = platformdirs.user_cache_path("ktui") / "tests" / name
    kept = folder / "pom.xml"
    if not kept.exists() or kept.read_text() != pom:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=name, dir=folder.parent) as scratch:
            fetched = Path(scratch) / "jars"
            fetched.mkdir()
            (fetched / "pom.xml").write_text(pom)
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime")
            subprocess.run(
                [find_maven(), "--quiet", "--batch-mode", *goal, f"-DoutputDirectory={fetched}"],
                cwd=fetched,
                check=True,
                timeout=_LIMIT_S,
            )
            fetched.rename(folder)
    return sorted(folder.glob("*.jar"))


def _pom(artifacts: Iterable[str], excluded: Iterable[str]) -> str:
    names = ("groupId", "artifactId", "version", "classifier")

    def tags(coordinates: str) -> str:
        parts = zip(names, coordinates.split(":"), strict=False)
        return "".join(f"<{name}>{part}</{name}>" for name, part in parts)

    without = "".join(f"<exclusion>{tags(each)}</exclusion>" for each in excluded)
    needed = "".join(
        f"<dependency>{tags(each)}<exclusions>{without}</exclusions></dependency>"
        for each in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ktui</groupId><artifactId>tests</artifactId><version>1</version>"
        f"<dependencies>{needed}</dependencies></project>\n"
    )
