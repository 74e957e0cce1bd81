"""The table of `ktui list`: what is not known is a question mark, never a made-up figure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ktui.cli.list import _print_table
from ktui.cluster.partition import PartitionState
from support.observations import a_move, an_observation, folded


def table(
    capsys: pytest.CaptureFixture[str], *states: PartitionState, down: Sequence[int] = ()
) -> list[list[str]]:
    progress = folded([an_observation(states, down=down)])
    assert progress.last is not None
    _print_table(progress.last, list(progress.timelines.values()), filtered=False)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_partition_that_may_not_be_described_is_not_called_leaderless(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (_, row) = table(capsys, a_move(described=False, isr=(), leader=None))

    assert row[:6] == ["orders-0", "4,2,3,1", "4", "1", "?", "?"]


def test_a_partition_without_a_leader_is(capsys: pytest.CaptureFixture[str]) -> None:
    (_, row) = table(capsys, a_move(isr=(1,), leader=None))

    assert row[4:6] == ["1", "none"]


def test_a_target_that_is_down_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    (header, row) = table(capsys, a_move(), down=[4])

    assert header[-1] == "TROUBLE"
    assert " ".join(row).endswith("broker 4 is down")
