"""`ktui record prune`: remove old recordings."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import click
import msgspec

from ktui.cli.context.config import load_config
from ktui.cli.context.errors import FAILED, BadInput
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.record.pruning import (
    Pruned,
    PruneRequest,
    amount,
    given_limits,
    prune,
    read_lakes,
    recording_folders,
)
from ktui.cluster.clock import SystemClock
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import Unreadable, expand_home
from ktui.recording.milliseconds import wall_ms
from ktui.recording.retention import KeptFor
from ktui.recording.stored import StoredSegment

BEYOND_LIMITS = 3
"""The exit code if segments beyond the limits stay, because something needs them."""
_REASONS = {
    KeptFor.LIVE: "because a recorder is writing their session",
    KeptFor.RUN: "because their run is not over",
    KeptFor.UNREAD: "because no lake has read all of their session",
    KeptFor.YOUNG: "within the limits",
}


class AmountJson(msgspec.Struct, frozen=True):
    """A number of segments, and their size."""

    segments: int
    bytes: int


class FileJson(msgspec.Struct, frozen=True):
    """One segment, and what became of it."""

    path: str
    bytes: int
    kept_for: KeptFor | None
    """Null for a removed one."""


class PrunedJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui record prune --json`."""

    schema_version: int = SCHEMA_VERSION
    dry_run: bool
    removed: AmountJson
    """In a dry run, what would be removed."""
    kept: dict[KeptFor, AmountJson]
    files: tuple[FileJson, ...]
    problems: tuple[str, ...]
    """Why files that should go are still there."""


@click.command("prune", short_help="Remove old recordings.")
@click.option(
    "--older-than",
    metavar="TIME",
    help="Remove segments whose last line is older than this, such as 30d.",
)
@click.option(
    "--keep",
    metavar="SIZE",
    help="Remove the oldest segments until all together have no more than this, such as 20GB.",
)
@click.option(
    "--lake",
    "lakes",
    metavar="DIR",
    multiple=True,
    help="The folder of a lake that reads the recordings; may be repeated. Default: `lake` in the "
    "state directory.",
)
@click.option(
    "--recordings",
    "folders",
    metavar="DIR",
    multiple=True,
    help="A folder with recordings; may be repeated. Default: those of the state directory.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Also remove what no lake has read, and what unfinished runs need.",
)
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@common.json_option
@common.state_dir_option
def command(  # noqa: PLR0913 - an option each
    *,
    older_than: str | None,
    keep: str | None,
    lakes: tuple[str, ...],
    folders: tuple[str, ...],
    force: bool,
    dry_run: bool,
    json: bool,
    state: StateDir,
) -> None:
    """Remove the oldest recordings: what is too old, or too much.

    The limits are --older-than and --keep, or those of config.yaml. A recording stays while a
    recorder is writing it, its run is not over, or no lake has read it.

    Exit code 1 if a file could not be removed, 3 if recordings beyond the limits stay because
    something needs them.
    """
    config = load_config().recordings
    given = given_limits(older_than, keep)
    limits = given or config.limits
    if limits is None:
        raise BadInput(
            "prune needs a limit. Give --older-than 30d, --keep 20GB, or both; or put "
            "`recordings:` with `older_than:` or `keep:` into config.yaml"
        )
    request = PruneRequest(
        tuple(map(_folder, folders)) or recording_folders(state),
        limits,
        read_lakes(lakes or config.lakes, state),
        force=force or (given is None and config.force),
        dry_run=dry_run,
    )
    pruned = prune(request, wall_ms(SystemClock().now()))
    click.echo(encode(_json(pruned, dry_run=dry_run)) if json else _text(pruned, dry_run=dry_run))
    for problem in pruned.removal.problems:
        print_note(str(problem))
    if pruned.removal.problems:
        sys.exit(FAILED)
    if pruned.choice.beyond_limits:
        sys.exit(BEYOND_LIMITS)


def _folder(place: str) -> Path:
    try:
        folder = expand_home(place).absolute()
    except Unreadable as why:
        raise BadInput(f"--recordings {clean(place)}: {why}") from None
    if not folder.is_dir():
        raise BadInput(f"--recordings {clean(place)}: there is no such folder")
    return folder


def _text(pruned: Pruned, *, dry_run: bool) -> str:
    return "\n".join(_lines(pruned, dry_run=dry_run))


def _lines(pruned: Pruned, *, dry_run: bool) -> Iterator[str]:
    yield f"{'would remove' if dry_run else 'removed'} {amount(pruned.removal.removed)}"
    for reason, words in _REASONS.items():
        kept = pruned.choice.staying[reason]
        if kept:
            yield f"{'would keep' if dry_run else 'kept'} {amount(kept)}, {words}"
    if pruned.choice.staying[KeptFor.UNREAD]:
        yield "`ktui pipeline run` reads recordings into the lake; --force removes them unread"


def _amount_json(segments: Collection[StoredSegment]) -> AmountJson:
    return AmountJson(len(segments), sum(each.size for each in segments))


def _json(pruned: Pruned, *, dry_run: bool) -> PrunedJson:
    removed, staying = pruned.removal.removed, pruned.choice.staying
    return PrunedJson(
        dry_run=dry_run,
        removed=_amount_json(removed),
        kept={reason: _amount_json(kept) for reason, kept in staying.items()},
        files=(
            *(FileJson(str(each.path), each.size, None) for each in removed),
            *(
                FileJson(str(each.path), each.size, reason)
                for reason, kept in staying.items()
                for each in kept
            ),
        ),
        problems=tuple(map(str, pruned.removal.problems)),
    )
