"""Run argument lists and flows with Apache's tool, and record its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from pathlib import Path

from msgspec.structs import replace

from ktui.lab.layout import Lab, ProgressReport
from support.reassign_tool.cases import argument_lists
from support.reassign_tool.files import write_files
from support.reassign_tool.flows import FLOWS, Where
from support.reassign_tool.labs import REQUESTS, lab_for
from support.reassign_tool.programs import ApacheTool, apaches_help
from support.reassign_tool.recording import (
    Header,
    RecordedFlow,
    RecordedList,
    Recording,
    file_of,
    load,
    save,
)
from support.reassign_tool.stage import Stage


def record_missing(version: str, report: ProgressReport) -> Recording:
    """Record what a version's recording does not have, on clusters of that version; keep it."""
    recording = Recording(Header(jar="", help=""), (), ())
    if file_of(version).exists():
        recording = load(version)
    for where, request in REQUESTS.items():
        there = {each.name for each in recording.lists} | {flow.name for flow in recording.flows}
        if _missing(where, there):
            with lab_for(replace(request, version=version)) as lab:
                files = write_files(lab.folder.with_name("files"))
                header, lists, flows = asyncio.run(_record(lab, files, where, there))
            recording = Recording(header, (*recording.lists, *lists), (*recording.flows, *flows))
            save(recording, file_of(version))
            done = f"{len(recording.lists)} argument lists, {len(recording.flows)} flows"
            report(f"{done} with the tool of {version}")
    return recording


def _missing(where: Where, there: Container[str]) -> list[str]:
    names = [case.name for case in argument_lists() if where is Where.PLAIN]
    names += [flow.name for flow in FLOWS if flow.where is where]
    return [name for name in names if name not in there]


async def _record(
    lab: Lab, files: Path, where: Where, there: Container[str]
) -> tuple[Header, list[RecordedList], list[RecordedFlow]]:
    lists = []
    missing = _missing(where, there)
    with ApacheTool(lab.layout, files) as tool:
        header = Header(jar=_jar(lab), help=apaches_help(tool))
        async with Stage(lab, files, tool, header.help) as stage:
            for case in argument_lists():
                if case.name in missing:
                    outcome = await stage.play_list(case)
                    assert outcome.answer is not None
                    lists.append(RecordedList(case.words, outcome.answer, outcome.state))
            flows = [
                RecordedFlow(flow.name, await stage.play(flow))
                for flow in FLOWS
                if flow.name in missing
            ]
    return header, lists, flows


def _jar(lab: Lab) -> str:
    wanted = f"kafka-tools-{lab.layout.kafka_version}.jar"
    return next(jar.name for jar in map(Path, lab.layout.class_path) if jar.name == wanted)
