"""The cluster that a verb is told to work on, where it is a simulated one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ktui.cli.config import Context
from ktui.cluster.ports import ClusterReader


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """What `choose_cluster` gives, without a connection."""

    reader: Callable[[], ClusterReader]
    writer: Callable[[], Any] | None = None
    name: str = "prod-eu"
    context: Context = Context()
    theme: str | None = None
    unverified: tuple[str, ...] = ()
