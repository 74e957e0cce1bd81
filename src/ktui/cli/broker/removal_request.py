"""One call of a removal: the broker, its cluster, and how the removal goes."""

from __future__ import annotations

import shlex
from contextlib import aclosing

import msgspec

from ktui.cli.context.cluster import Target
from ktui.cli.options.common import state_option
from ktui.cli.plan.make_options import EXCLUDE
from ktui.cli.start.options import StartOptions
from ktui.cluster.ports import ClusterDescription
from ktui.cluster.text import clean
from ktui.execution.broker.removal import RemovalFile
from ktui.planning.check.findings import Allowances

WAITS = 3
"""The exit code of a removal that waits for the operator."""
CLAIM = "ktui broker remove"
"""The name in an ownership claim, where a run would be."""
_STAGES = ("cordon", "demote", "drain", "empty", "stop", "unregister")


class RemoveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a removal does, beside how its runs go."""

    demote: bool = True
    cordon: bool = True
    rack_aware: bool | None = None
    """None for where all brokers have racks."""
    exclude: tuple[str, ...] = ()
    """The topics that stay where they are, as names or shell patterns."""
    until_empty: bool = False
    """Whether to end once the broker may be stopped."""
    unregister: bool = False
    """Whether to unregister the broker without asking."""
    yes: bool = False
    """Whether to begin without asking."""


class RemovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and the cluster at that moment."""

    broker: int
    target: Target
    how: StartOptions
    """How the runs of the removal go."""
    options: RemoveOptions
    allowed: Allowances
    """What the plans of its runs may do."""
    file: RemovalFile
    """Where the removal is remembered."""
    cluster: ClusterDescription
    """The brokers, read for this call."""

    @property
    def again(self) -> str:
        """The command that goes on with the removal."""
        left_out = shlex.join((EXCLUDE, ",".join(self.options.exclude)))
        excludes = f" {left_out}" if self.options.exclude else ""
        return f"ktui broker remove {self.broker}{excludes}{state_option(self.how.state)}"


class Stopped(Exception):
    """The removal goes no further now: it waits, or one of its runs does.

    Args:
        code: the exit code.
        words: why, and how to go on; empty if that was said.
    """

    def __init__(self, code: int, words: str = "") -> None:
        self.code = code
        super().__init__(words)


def stage_line(stage: str, words: str) -> str:
    """Return a line about a stage: "3/6 drain: ..."."""
    return clean(f"{_STAGES.index(stage) + 1}/{len(_STAGES)} {stage}: {words}")


async def read_cluster(target: Target) -> ClusterDescription:
    """Read the brokers of a cluster.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    async with aclosing(target.cluster.reader()) as reader:
        return await reader.describe_cluster()
