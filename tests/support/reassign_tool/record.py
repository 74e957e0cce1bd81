"""Run all argument lists and flows with Apache's tool, and record its answers.

`python -m support.reassign_tool.record`; `make reassign-record` runs it. See CONTRIBUTING.md.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ktui.lab.layout import Lab
from support.reassign_tool.cases import argument_lists
from support.reassign_tool.files import write_files
from support.reassign_tool.flows import FLOWS, Where
from support.reassign_tool.labs import REQUESTS, lab_for
from support.reassign_tool.programs import ApacheTool, apaches_help
from support.reassign_tool.recording import (
    RECORDED,
    VERSION,
    Header,
    RecordedFlow,
    RecordedList,
    Recording,
    save,
)
from support.reassign_tool.stage import Stage


@click.command()
@click.option("--into", type=click.Path(path_type=Path), default=RECORDED, help="Another file.")
def main(into: Path) -> None:
    """Record the tool of Kafka 4.3.1, on a cluster in the clear and on a secured one."""
    header, lists, flows = Header(jar="", help=""), [], []
    for where, request in REQUESTS.items():
        with lab_for(request) as lab:
            files = write_files(lab.folder.with_name("files"))
            header, some_lists, some_flows = asyncio.run(_record(lab, files, where))
        lists += some_lists
        flows += some_flows
    save(Recording(header, tuple(lists), tuple(flows)), into)
    click.echo(f"{into}: {len(lists)} argument lists, {len(flows)} flows")


async def _record(
    lab: Lab, files: Path, where: Where
) -> tuple[Header, list[RecordedList], list[RecordedFlow]]:
    lists, flows = [], []
    with ApacheTool(lab.layout, files) as tool:
        header = Header(jar=_jar(lab), help=apaches_help(tool))
        async with Stage(lab, files, tool, header.help) as stage:
            for case in argument_lists() if where is Where.PLAIN else ():
                click.echo(case.name)
                outcome = await stage.play_list(case)
                assert outcome.answer is not None
                lists.append(RecordedList(case.words, outcome.answer, outcome.state))
            for flow in FLOWS:
                if flow.where is where:
                    click.echo(flow.name)
                    flows.append(RecordedFlow(flow.name, await stage.play(flow)))
    return header, lists, flows


def _jar(lab: Lab) -> str:
    return next(
        name
        for name in (Path(jar).name for jar in lab.layout.class_path)
        if name == f"kafka-tools-{VERSION}.jar"
    )


if __name__ == "__main__":
    main()
