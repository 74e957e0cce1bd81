"""`ktui pipeline report`: write a one-page report on a run or a cluster."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ktui.cli.pipeline.group import lake_of
from ktui.durable import find_place, write_output
from ktui.execution.host.state_dir import StateDir
from ktui.pipeline.lake.manifest import PipelineProblem
from ktui.pipeline.report.lake import ArrowLake, choose_subject, damage_as_problem, trace_provenance
from ktui.pipeline.report.load import load_facts
from ktui.pipeline.report.page import page
from ktui.quantities import as_bytes, as_count


def write_report(
    *,
    lake: str | None,
    state: StateDir,
    run: str | None,
    cluster: str | None,
    output: Path,
    show: bool,
) -> None:
    """Carry out `ktui pipeline report`, given the values of its options."""
    place = lake_of(lake, state)
    tables = ArrowLake.open(place)
    with damage_as_problem(place):
        subject = choose_subject(tables, run, cluster)
        facts = load_facts(tables, subject)
        text = page(facts, trace_provenance(tables, place, subject, facts)).encode()
    write_output(output, text)
    line = f"{output}: {as_count(len(facts.moves), 'move')}, {as_bytes(len(text))}"
    # The line would be part of a page that goes through standard output.
    click.echo(line, err=find_place(output).own_stream is not None)
    if show and not webbrowser.open(output.absolute().as_uri()):
        raise PipelineProblem(f"--open: no browser was found. Open {output} yourself")
