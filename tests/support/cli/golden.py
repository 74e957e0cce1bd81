"""Golden files of what verbs print as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "unit" / "cli" / "plan" / "golden"


def assert_golden(name: str, output: str, plan_file: str) -> None:
    """Compare a JSON object with its golden file, apart from paths and estimated seconds."""
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    assert without_seconds(json.loads(output.replace(plan_file, "plan.json"))) == expected


def without_seconds(value: Any, key: str = "") -> Any:
    """Leave out how long it takes, which other tests hold."""
    if key in {"time_s", "copying_s", "waiting_s", "after_s", "ends_at"} and value is not None:
        return "estimated"
    if isinstance(value, dict):
        return {name: without_seconds(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [without_seconds(part) for part in value]
    return value
