"""The documentation's pictures can be drawn again from the demo at any time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

SCRIPT = Path(__file__).parents[3] / "scripts" / "draw_demo.py"
SHOWN = {
    "demo": ("SIMULATED", "adding", "60 MB/s", "replicas", "ENDED", "done"),
    "run": ("batch", "throttle", "60 MB/s", "step 1/2", "5 of 5 under way (P)"),
    "partition": ("steps of run", "in flight", "leader", "lag"),
    "watch": ("SIMULATED", "STALLED", "broker 5 is down", "done"),
    "rehearsal": ("SIMULATED x10", "ROLLING BACK", "broker 4 down", "break it"),
    "cancel": ("roll back", "what is sent", "replicas after", "cancel gate"),
}
"""Words of each picture."""


def words_of(picture: Path) -> str:
    text = "".join(ET.parse(picture).getroot().itertext())  # noqa: S314 - drawn by ourselves
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_pictures_are_drawn_from_the_demo_and_stay_small(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)

    shown = {picture.stem: words_of(picture) for picture in tmp_path.iterdir()}
    assert shown.keys() == SHOWN.keys()
    for name, words in SHOWN.items():
        assert [each for each in words if each not in shown[name]] == []
    assert all(picture.stat().st_size < 300_000 for picture in tmp_path.iterdir())
