"""`ktui plan placement FILE` places topics by rules that are kept as a file."""

from pathlib import Path

import pytest

from support.cli.start_sandbox import PlanSandbox, cluster, made, refused

TWO_RACKS = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}


@pytest.fixture(autouse=True)
def six(plan_sandbox: PlanSandbox) -> None:
    """Six brokers on two racks; broker 6 is empty."""
    plan_sandbox.cluster(cluster(racks=TWO_RACKS))


def _file(folder: Path, text: str) -> str:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_topic_follows_the_first_rule_that_it_matches(tmp_path: Path) -> None:
    rules = _file(
        tmp_path,
        """
rules:
  - topics: payments
    strategy: static
    lists: {0: [6, 5, 4]}
  - topics: "*"
    strategy: in-rack
""",
    )

    found = made("placement", rules)

    assert found.pop("payments-0") == (6, 5, 4)
    assert found
    assert all(tp.startswith("orders-") for tp in found)
    assert all(len({TWO_RACKS[broker] for broker in each}) == 1 for each in found.values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: []", "rules.yaml:1: rules: expected a list"),
        ("rule: 1", "unknown key"),
        (
            "rules:\n  - topics: a\n    strategy: rack",
            "rules.yaml:3: rules.0.strategy: 'rack' is not a strategy. Use any, balanced-leaders,",
        ),
        ("rules:\n  - {topics: a, strategy: static}", "rules.0: a static rule has the replicas"),
        (
            "rules:\n  - {topics: a, strategy: any, lists: {0: [1]}}",
            "rules.0.lists: only a static rule has lists",
        ),
        ("rules:\n  - {topics: a, strategy: static, lists: {0: []}}", "rules.0.lists"),
        ("- a", "the file: expected a mapping"),
    ],
)
def test_a_file_that_is_none_of_rules_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    assert words in refused("placement", _file(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in refused("placement", str(tmp_path / "none.yaml"))


def test_a_static_rule_for_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    text = "rules:\n  - {topics: orders, strategy: static, lists: {99: [1, 2, 3]}}"

    assert "Topic orders has no partition 99" in refused("placement", _file(tmp_path, text))
