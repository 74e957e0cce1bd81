"""The labs on which argument lists and flows are played."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ktui.cli.lab.command import connect
from ktui.lab.down import down
from ktui.lab.layout import Lab, Security
from ktui.lab.up import LabRequest, up
from support.reassign_tool.flows import Where
from support.reassign_tool.recording import VERSION

REQUESTS = {
    Where.PLAIN: LabRequest(brokers=3, version=VERSION),
    Where.SECURED: LabRequest(brokers=2, version=VERSION, security=Security.SASL_SSL),
    Where.LOG_DIRS: LabRequest(brokers=3, version=VERSION, log_dirs=2),
}


@contextmanager
def lab_for(request: LabRequest) -> Iterator[Lab]:
    """Run a lab in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="ktui-reassign-") as folder:
        lab = up(Path(folder) / "lab", request, connect, click.echo)
        try:
            yield lab
        finally:
            down(lab, keep=False)


def state_of(lab: Lab) -> Path:
    """Return the state directory of all flows on a lab: another one would not own the cluster."""
    return lab.folder.with_name(f"{lab.folder.name}-state")
