"""Plans that are made of what an operator wants, on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from support.kafka.slow_topic import filled_topic

LISTS = ((1, 2, 3), (1, 3, 5), (1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 4, 1))
"""Much on brokers 1 to 3, little on 4 and 5; brokers 1 and 4 share a rack."""
EACH = 256 * 1024
INTENTIONS = {
    "drain": ("drain", "1"),
    "fill": ("fill", "4,5"),
    "swap": ("swap", "3", "5"),
    "replication-factor": ("replication-factor", "2"),
    "spread": ("spread", "--by", "replicas", "--no-rack-aware"),
    "shed": ("shed", "1", "--free", str(EACH)),
    "leaders": ("leaders",),
    "demote": ("demote", "1"),
    "rack-repair": ("rack-repair",),
    "placement": ("placement", "rules.yaml"),
}
RULES = "rules:\n  - topics: '*'\n    strategy: cross-rack\n"
ALLOWED = ("--allow-replication-factor-change",)


@pytest.fixture(scope="module")
def topic(lab: Lab) -> Iterator[str]:
    connection = Connection.to(lab.bootstrap_servers)
    with filled_topic(connection, "made-plans", LISTS, bytes_each=EACH) as name:
        yield name


@pytest.mark.parametrize("intention", INTENTIONS)
def test_the_check_accepts_the_plan_that_each_intention_makes(
    lab: Lab, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intention: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text(RULES)
    named = (topic,) if intention == "replication-factor" else ("--topics", topic)

    made = _plan(lab, *INTENTIONS[intention], *named, "--json")
    whole = json.loads(made.stdout)
    Path("plan.json").write_text(json.dumps(whole["plan"]))
    checked = _plan(lab, "check", "plan.json", *ALLOWED, "--json")

    assert (made.exit_code, checked.exit_code) == (0, 0), made.stderr + checked.stderr
    found = json.loads(checked.stdout)
    assert not [each for each in found["findings"] if each["severity"] == "problem"]
    assert found["summary"]["partitions"] == len(whole["plan"]["partitions"]) > 0
    assert found["summary"]["replica_movements"] == _to_copy(whole["plan"])


def _plan(lab: Lab, *words: str) -> Result:
    return CliRunner().invoke(ktui, ["plan", *words, "--bootstrap-server", lab.bootstrap_servers])


def _to_copy(plan: Any) -> int:
    """Count the replicas that come to a broker without one, by the lists that the topic has."""
    return sum(len({*row["replicas"]} - {*LISTS[row["partition"]]}) for row in plan["partitions"])
