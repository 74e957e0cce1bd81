"""The labs on which argument lists and flows are played."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import click

from ktui.cli.context.claim import claim_request, release_cluster
from ktui.cli.context.cluster import choose_cluster
from ktui.cli.lab.command import connect
from ktui.execution.host.state_dir import StateDir
from ktui.lab.layout import Lab, Security
from ktui.lab.security import ADMIN
from ktui.lab.up import LabRequest, down, up
from support.reassign_tool.flows import Where

REQUESTS = {
    Where.PLAIN: LabRequest(brokers=3),
    Where.SECURED: LabRequest(brokers=2, security=Security.SASL_SSL),
    Where.LOG_DIRS: LabRequest(brokers=3, log_dirs=2),
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


@asynccontextmanager
async def state_dir_on(lab: Lab, folder: Path) -> AsyncIterator[Path]:
    """A state directory for one flow. In the end it gives up the cluster, which it may own."""
    yield folder
    config = lab.client_file(ADMIN) if lab.layout.passwords else None
    cluster = choose_cluster(lab.bootstrap_servers, config, None)
    async with aclosing(cluster.reader()) as reader:
        cluster_id = (await reader.describe_cluster()).cluster_id
    claim = claim_request(cluster, StateDir(folder), cluster_id, "a flow")
    if claim is not None:
        assert await release_cluster(claim) is None
