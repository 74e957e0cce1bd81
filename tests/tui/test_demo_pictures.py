"""The documentation's pictures can be drawn anew from the demo at any time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

SCRIPT = Path(__file__).parents[2] / "scripts" / "draw_demo.py"


def words_of(picture: Path) -> str:
    text = "".join(ET.parse(picture).getroot().itertext())  # noqa: S314 - drawn by ourselves
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_pictures_are_drawn_from_the_demo_and_stay_small(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)
    watch, demo = words_of(tmp_path / "watch.svg"), words_of(tmp_path / "demo.svg")

    for words in ("SIMULATED", "STALLED", "broker 5 is down", "done"):
        assert words in watch
    for words in ("SIMULATED", "under way", "adding", "retiring", "replicas", "done"):
        assert words in demo
    assert all(picture.stat().st_size < 300_000 for picture in tmp_path.iterdir())
