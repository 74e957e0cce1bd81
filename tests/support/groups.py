"""Groups of tests: the tests of a group run in sequence in one process and share fixtures.

With pytest-xdist each process has its own session fixtures. A group keeps the tests of one lab, or
of one Spark, together, so that each is started once.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from support.kafka.labs import BEFORE_43

_REASSIGN = frozenset({"reassign_lab", "secured_reassign_lab", "dirs_reassign_lab"})
CLUSTERS = _REASSIGN | {
    *("lab", "secured_lab", "ssl_lab", "ten_lab", "jbod_lab", "lab_of", "old_lab"),
}
"""The fixtures that are real clusters."""
_LONGEST_FIRST = (
    "runs",
    "spark",
    "spark cluster",
    "labs",
    "lab",
    "secured labs",
    "reassign lab",
    "old lab",
)


_LOG_DIRS = "test_log_dirs.py"
"""The files whose tests share a cluster of their own, which then runs for no other test."""


def arrange(items: list[pytest.Item]) -> None:
    """Put tests into their groups, and the groups that take longest first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: (_rank(item), item.path.name == _LOG_DIRS))


def _rank(item: pytest.Item) -> int:
    group = group_of(item)
    if group in _LONGEST_FIRST:
        return _LONGEST_FIRST.index(group)
    place = item.path.parts
    return len(_LONGEST_FIRST) + (1 if "tui" in place and "unit" not in place else 2)


def group_of(item: pytest.Item) -> str:
    """Return the group of a test; tests that share nothing are grouped by their file."""
    fixtures: Collection[str] = getattr(item, "fixturenames", ())
    if not CLUSTERS.isdisjoint(fixtures) or _is_contract_on_kafka(item):
        return _lab_group(item, fixtures)
    if "kafka/lab" in item.path.parent.as_posix():
        return "labs"
    if "standalone" in fixtures:
        return "spark cluster"
    if "spark" in fixtures:
        return "spark"
    return item.nodeid.partition("::")[0]


def ends_between(item: pytest.Item, nextitem: pytest.Item) -> bool:
    """Return whether a test is the last of a group that shares a cluster or a Spark."""
    group = group_of(item)
    return group in _LONGEST_FIRST and group != group_of(nextitem)


def _is_contract_on_kafka(item: pytest.Item) -> bool:
    """Whether this is a contract test in its variant for the real cluster, not the simulated."""
    return item.path.parent.name == "contract" and item.get_closest_marker("kafka") is not None


def _lab_group(item: pytest.Item, fixtures: Collection[str]) -> str:
    if not {"secured_lab", "ssl_lab"}.isdisjoint(fixtures):
        return "secured labs"
    if not _REASSIGN.isdisjoint(fixtures):
        return "reassign lab"
    if "old_lab" in fixtures or BEFORE_43 in item.name:
        return "old lab"
    return "runs" if item.path.parent.name == "runs" else "lab"
