"""docs/ describe every key of a scenario file and every scenario shipped with ktui."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from ktui.pacing.limits import CHOICES, NUMBERS, SHAPES, Mode, Order
from ktui.simulated.scenario.faults import CALLS, FAULTS
from ktui.simulated.scenario.file import (
    BrokerPart,
    ClusterPart,
    PlanPart,
    RatesPart,
    ScenarioPart,
    SnapshotPart,
    TidePart,
    TopicStartPart,
)
from ktui.simulated.scenario.library import load_scenario, shipped_names

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "scenarios.md").read_text(encoding="utf-8")
PARTS = (
    ScenarioPart,
    ClusterPart,
    BrokerPart,
    TidePart,
    TopicStartPart,
    PlanPart,
    SnapshotPart,
    RatesPart,
)
KEYS = sorted({field.encode_name for part in PARTS for field in msgspec.structs.fields(part)})
LIMITS = (*NUMBERS, *CHOICES, *SHAPES, *Mode, *Order)
WORDS = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))


@pytest.mark.parametrize(
    "key", [*KEYS, *NUMBERS, *CHOICES, *FAULTS, *sorted(CALLS), *SHAPES, *Mode, *Order]
)
def test_the_docs_explain_every_scenario_key(key: str) -> None:
    assert key in WORDS


@pytest.mark.parametrize("name", shipped_names())
def test_the_docs_list_every_shipped_scenario(name: str) -> None:
    assert f"| `{name}` |" in (DOCS / "demo.md").read_text(encoding="utf-8")


def test_the_documented_example_can_be_loaded(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    path = tmp_path / "example.yaml"
    path.write_text(example[1], encoding="utf-8")

    scenario = load_scenario(path)

    assert scenario.plan is not None
    assert len(scenario.spec.topics) == 101
