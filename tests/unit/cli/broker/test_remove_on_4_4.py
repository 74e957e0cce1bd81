"""`ktui broker remove` on Kafka 4.4, which refuses every list that names a cordoned broker."""

from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import OwnerUnknown
from ktui.execution import RunRefused
from ktui.execution.run.states import State
from ktui.ops.broker.runs import made_run
from ktui.simulated import layout
from ktui.simulated.layout import MIB, TopicSpec
from support.cli.broker_sandbox import RemovalSandbox

WAITS, LEFT = 3, 130


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    sandbox = RemovalSandbox(tmp_path, monkeypatch)
    sandbox.cluster(version="4.4")
    return sandbox


def stages(sandbox: RemovalSandbox, *words: str, exit_code: int = 0) -> list[str]:
    """Remove broker 3 until it is empty, and return the lines about its stages."""
    result = sandbox.remove("--until-empty", *words)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return [line for line in result.stdout.splitlines() if line[1:3] == "/6"]


def places(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(line.split(":")[0] for line in lines))


def create_on_3(sandbox: RemovalSandbox) -> None:
    new = TopicSpec(name="new", replicas=((3, 1, 2),), bytes_each=MIB)
    sandbox.do(layout.CreateTopic(new))


def test_with_the_cordon_first_nothing_lands_on_the_broker_while_it_is_drained(
    sandbox: RemovalSandbox,
) -> None:
    landed: list[Any] = []
    sandbox.meanwhile = lambda run: landed.extend(sandbox.added(9)) if run == "drain-3" else None

    stages(sandbox, "--cordon-first")

    assert landed
    assert all(3 not in replicas for replicas in landed)
    assert (sandbox.on_broker(), sandbox.engines) == ([], ["demote-3", "drain-3"])


def test_what_lands_on_the_broker_before_its_cordon_is_drained_after_it(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.meanwhile = lambda run: create_on_3(sandbox) if run == "drain-3" else None

    lines = stages(sandbox)

    assert places(lines) == ["1/6 demote", "2/6 drain", "3/6 cordon", "4/6 empty", "5/6 stop"]
    assert lines[-3].startswith("2/6 drain: run drain-3-2: 1 partition")
    assert (sandbox.on_broker(), sandbox.settings) == ([], {"3": "*"})


def test_a_demote_that_a_cordon_has_cut_off_is_called_off_and_the_broker_is_drained(
    sandbox: RemovalSandbox,
) -> None:
    sandbox.do(layout.CreateTopic(TopicSpec(name="led", replicas=((3, 1, 2),) * 6, bytes_each=1)))
    before = sandbox.layout
    sandbox.until_s = 0.5
    stages(sandbox, "--partitions", "1", exit_code=LEFT)
    sandbox.until_s = 10_000.0
    sandbox.cordon(3, "*")

    lines = stages(sandbox)

    assert lines[0].startswith("1/6 demote: the rest of run demote-3 is called off: broker 3")
    assert sandbox.on_broker() == []
    demote = made_run(sandbox.state, "demote-3")
    assert demote is not None
    assert {State.STOPPED} <= {track.state for track in demote.tracks.values()}

    sandbox.call("uncordon", "3")
    assert sandbox.remove("--undo").exit_code == 0
    assert sandbox.layout == before


def test_a_cordon_that_was_lifted_for_the_drain_is_set_again_before_the_stop(
    sandbox: RemovalSandbox,
) -> None:
    def lifted(run: str) -> None:
        if run == "drain-3":
            sandbox.call("uncordon", "3")

    sandbox.meanwhile = lifted

    lines = stages(sandbox, "--cordon-first")

    assert lines[-3].startswith("2/6 cordon: cordoned.log.dirs: not set -> *")
    assert (sandbox.on_broker(), sandbox.settings) == ([], {"3": "*"})


class TestUndo:
    """The cordon goes first, for Kafka refuses the lists of the way back under it."""

    def test_the_cordon_is_lifted_before_a_run_is_rolled_back(
        self, sandbox: RemovalSandbox
    ) -> None:
        before = sandbox.layout
        stages(sandbox)
        seen: list[dict[str, str]] = []
        sandbox.meanwhile = lambda _run: seen.append(sandbox.settings)

        preview = sandbox.remove("--undo", "--dry-run").stdout.splitlines()
        result = sandbox.remove("--undo")

        assert preview == [
            "cordoned.log.dirs: * -> not set",
            "undo run drain-3: 4 partitions put back as before",
            "undo run demote-3: 1 partition put back as before",
            "nothing was sent",
        ]
        assert result.exit_code == 0, (result.output, result.exception)
        assert seen == [{}, {}]
        assert (sandbox.layout, sandbox.settings) == (before, {})


@pytest.mark.parametrize("version", ["4.3", "4.4"])
def test_no_cordon_is_set_on_a_cluster_that_cannot_be_owned(
    sandbox: RemovalSandbox, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    sandbox.cluster(version=version)

    async def unknown(_claim: GroupClaim, *, take_over: bool) -> OwnerUnknown:
        return OwnerUnknown(f"the topic of the claim cannot be created ({take_over=})")

    monkeypatch.setattr(GroupClaim, "claim", unknown)

    error = sandbox.remove("--no-demote", "--cordon-first").exception

    assert isinstance(error, RunRefused)
    assert "the topic of the claim cannot be created" in str(error)
    assert (sandbox.settings, sandbox.engines) == ({}, [])
