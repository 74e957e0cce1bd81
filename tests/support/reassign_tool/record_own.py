"""Play the flows in which ktui differs on purpose, and record what it does in those steps.

`python -m support.reassign_tool.record_own`; `make reassign-record-own` runs it. Read the changes
before they are kept: nothing else says that they are right.
"""

import asyncio
from pathlib import Path

import click
import msgspec

from ktui.lab.layout import Lab
from support.reassign_tool.flows import FLOWS, Where
from support.reassign_tool.ktui_flows import play_with_ktui
from support.reassign_tool.own_outcomes import OWN, RECORDED, RecordedOwn, own_of
from support.reassign_tool.recording import write_files
from support.reassign_tool.stage import REQUESTS, lab_for


@click.command()
def main() -> None:
    """Record ktui where it differs, on the clusters on which Apache's tool was recorded."""
    rows: list[RecordedOwn] = []
    for where, request in REQUESTS.items():
        with lab_for(request) as lab:
            files = write_files(lab.folder.with_name("files"))
            rows += asyncio.run(_record(lab, files, where))
    RECORDED.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    click.echo(f"{RECORDED}: {len(rows)} flows")


async def _record(lab: Lab, files: Path, where: Where) -> list[RecordedOwn]:
    rows: list[RecordedOwn] = []
    different = {each.flow for each in OWN}
    for flow in FLOWS:
        if flow.where is where and flow.name in different:
            click.echo(flow.name)
            outcomes = await play_with_ktui(lab, files, lab.folder.with_name("state"), flow)
            steps = {number: outcomes[number - 1] for number in own_of(flow).steps}
            rows.append(RecordedOwn(flow.name, steps))
    return rows


if __name__ == "__main__":
    main()
