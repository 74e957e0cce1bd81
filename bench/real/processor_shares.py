"""Limit the processor time of each broker of a lab, as if each ran on a machine of its own.

By control groups of Linux, version 1, which only root may make.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from bench.machine import CPU_GROUPS
from ktui.lab import nodes
from ktui.lab.layout import Lab

_PERIOD_US = 20_000
"""A broker that has used up its share stands still for less than this, in microseconds."""
_LEFT_WITHIN_S = 10.0


class ProcessorShares:
    """The control groups of the brokers of a lab.

    Args:
        share: of one core, for each broker; None leaves them without a limit.
    """

    def __init__(self, share: float | None) -> None:
        self._quota_us = None if share is None else round(share * _PERIOD_US)
        self._folder = CPU_GROUPS / f"ktui-bench-{os.getpid()}"

    def limit(self, lab: Lab) -> None:
        """Limit all brokers that run now; one that is started again is limited by another call."""
        if self._quota_us is None:
            return
        for broker, process in nodes.running(lab).items():
            if lab.node(broker).is_controller:
                continue
            group = self._folder / str(broker)
            group.mkdir(parents=True, exist_ok=True)
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(self._quota_us))
            (group / "cgroup.procs").write_text(str(process.pid))

    def remove(self) -> None:
        """Remove the groups, once their brokers have ended.

        Raises:
            TimeoutError: some have not; not a `SystemExit`, which would hide an error before it.
        """
        if self._folder.exists():
            for group in (*self._folder.glob("[0-9]*"), self._folder):
                if not nodes.wait_for(partial(_removed, group), seconds=_LEFT_WITHIN_S):
                    raise TimeoutError(f"{group} still has processes, and is left behind")


def _removed(group: Path) -> bool:
    """Remove a group if it can be: the kernel lets go of it a moment after its last process."""
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def wanted_share() -> float | None:
    """Return the share of a core for each broker, by `KTUI_BENCH_SHARE`; None without it."""
    return float(os.environ.get("KTUI_BENCH_SHARE", "0")) or None


@contextmanager
def processor_shares(share: float | None) -> Iterator[ProcessorShares]:
    """Yield what limits the brokers of a lab that ends within the block.

    Raises:
        SystemExit: this machine has no such groups, or this user may not make them.
    """
    allowed = (CPU_GROUPS / "cpu.cfs_quota_us").exists() and os.access(CPU_GROUPS, os.W_OK)
    if share is not None and not allowed:
        sys.exit(f"not recorded: limiting brokers needs {CPU_GROUPS} (cgroup v1), and root")
    shares = ProcessorShares(share)
    try:
        yield shares
    finally:
        shares.remove()
