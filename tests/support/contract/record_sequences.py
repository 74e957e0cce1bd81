"""Play all sequences on real Kafka, and record the outcomes.

`python -m support.contract.record_sequences VERSION...`; `make contract-record` runs it. See
CONTRIBUTING.md.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from ktui.cli.lab.command import connect
from ktui.lab.down import down
from ktui.lab.up import LabRequest, up
from support.contract.real_sequences import play_on
from support.contract.real_stage import without_leader_rebalance
from support.contract.sequence_maker import make
from support.contract.sequences import SEED, VERSIONS, Recording, file_of, save


@click.command()
@click.argument("versions", nargs=-1)
@click.option("--into", type=click.Path(path_type=Path), help="Another folder, to compare two.")
def main(versions: tuple[str, ...], into: Path | None) -> None:
    """Record the named versions of Kafka, or all that are supported, one after the other."""
    for version in versions or VERSIONS:
        path = file_of(version) if into is None else into / file_of(version).name
        save(_record(version), path)
        click.echo(f"{path}: {path.stat().st_size} bytes")


def _record(version: str) -> Recording:
    with tempfile.TemporaryDirectory(prefix="ktui-sequences-") as folder:
        lab = up(Path(folder) / "lab", LabRequest(version=version), connect, click.echo)
        try:
            without_leader_rebalance(lab)
            played = asyncio.run(play_on(lab, make(SEED), click.echo))
        finally:
            down(lab, keep=False)
    return Recording(kafka_version=version, seed=SEED, played=tuple(played))


if __name__ == "__main__":
    main()
