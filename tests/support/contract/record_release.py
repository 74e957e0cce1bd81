"""Record a release of Kafka, and show what it does differently: `make kafka VERSION=4.5.0`.

See CONTRIBUTING.md.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from ktui.cli.lab import connect
from ktui.lab.java import fetch
from ktui.lab.layout import LabError
from ktui.lab.up import LabRequest, down, up
from ktui.simulated.layout import VERSIONS as SIMULATED
from support.contract import release_page
from support.contract.real_stage import play_on, without_leader_rebalance
from support.contract.sequence_maker import make
from support.contract.sequence_runner import SimulatedStage, batches, play
from support.contract.sequences import RECORDED, SEED, Played, Recording, file_of, load, save
from support.contract.surroundings import Surroundings, surroundings_of
from support.reassign_tool.stage import record_missing

_ROOT = Path(__file__).parents[3]


@click.command()
@click.argument("version")
@click.option("--against", help="The version to compare with; by default the newest one before.")
def main(version: str, against: str | None) -> None:
    """Record what no recording has yet, run the contract's tests, and write the page."""
    try:
        fetch(version, click.echo)
        old = _recorded(against or newest_before(version))
        new = _recorded(version)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    simulated = asyncio.run(_simulated(version))
    text = release_page.page(old, new, simulated, _contract(version))
    path = _ROOT / "build" / f"kafka-{version}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    click.echo(f"{text}\n{path}")


def newest_before(version: str) -> str:
    """Return the newest recorded version that is older.

    Raises:
        click.UsageError: there is none.
    """
    known = {
        path.name.removeprefix("kafka-").removesuffix(".json.gz") for path in RECORDED.iterdir()
    }
    older = [each for each in known if _parts(each) < _parts(version)]
    if not older:
        raise click.UsageError(f"no version before {version} is recorded: name one with --against")
    return max(older, key=_parts)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _recorded(version: str) -> release_page.Version:
    """Return the recordings of a version, after recording what they do not have."""
    known = load(version) if file_of(version).exists() else None
    sequences, surroundings = _sequences(version, known)
    answers = record_missing(version, click.echo)
    return release_page.Version(version, sequences, surroundings, answers)


def _sequences(version: str, known: Recording | None) -> tuple[tuple[Played, ...], Surroundings]:
    there = {one.sequence.name: one for one in known.played} if known else {}
    missing = [
        sequence
        for sequence in make(SEED)
        if sequence.name not in there or there[sequence.name].sequence != sequence
    ]
    if known and known.surroundings and not missing:
        return known.played, known.surroundings
    with tempfile.TemporaryDirectory(prefix="ktui-sequences-") as folder:
        lab = up(Path(folder) / "lab", LabRequest(version=version), connect, click.echo)
        try:
            surroundings = surroundings_of(lab)
            without_leader_rebalance(lab)
            found = asyncio.run(play_on(lab, missing, click.echo))
            there |= {one.sequence.name: one for one in found}
        finally:
            down(lab, keep=False)
    played = tuple(there[sequence.name] for sequence in make(SEED))
    recording = Recording(
        kafka_version=version, seed=SEED, played=played, surroundings=surroundings
    )
    save(recording, file_of(version))
    return played, surroundings


async def _simulated(version: str) -> release_page.Simulated:
    """Play all sequences on the simulated cluster of this minor release, or of the newest one."""
    minor = version.rpartition(".")[0]
    known = minor if minor in SIMULATED else SIMULATED[-1]
    found: dict[str, Played] = {}
    for together in batches(make(SEED)):
        stage = SimulatedStage(known)
        found |= {one.sequence.name: one for one in await play(stage, together)}
        await stage.aclose()
    return release_page.Simulated(known, found)


def _contract(version: str) -> list[str]:
    """Run the contract's tests; return pytest's summary, and a line for each that failed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/contract", "-m", "kafka", "-q", "-rfE", "--tb=no"],
        cwd=_ROOT,
        env={**os.environ, "KTUI_TEST_KAFKA": version},
        capture_output=True,
        text=True,
        check=False,
    )
    *lines, summary = done.stdout.splitlines() or [f"pytest ended with {done.returncode}"]
    return [summary, *(line for line in lines if line.startswith(("FAILED", "ERROR")))]


if __name__ == "__main__":
    main()
