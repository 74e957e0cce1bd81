"""What `ktui cancel` is asked for: exactly one kind, and of what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from ktui.cli.context.claim import take_over_option
from ktui.cli.context.errors import BadInput
from ktui.cli.options import common
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.cancel_kind import CancelKind

F = TypeVar("F", bound=Callable[..., Any])

REMOVE_CANCEL = "--remove-cancel"
_KINDS = ("--stop", "--rollback", "--trim")

_OPTIONS = (
    click.option(
        "--stop",
        is_flag=True,
        help="Cancel what is in flight (KIP-455), and begin nothing more of it.",
    ),
    click.option(
        "--rollback",
        is_flag=True,
        help="Back to the original replicas, in their order, and their leader (KIP-236).",
    ),
    click.option(
        "--trim",
        is_flag=True,
        help="Stop, and drop what is beyond the original number of replicas.",
    ),
    common.topics_option("Only this topic; may be repeated."),
    common.partitions_option("Only this partition; may be repeated."),
    click.option(
        "--all",
        "everything",
        is_flag=True,
        help="All of it; of a run that has not ended, it also shuts the cluster's cancel gate.",
    ),
    click.option(
        REMOVE_CANCEL, is_flag=True, help="Open the cancel gate that --all has shut (KIP-236)."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be done, and ask for nothing."),
    take_over_option,
)


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be called off, and how."""

    kind: CancelKind
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    everything: bool
    """Whether --all was given."""
    dry_run: bool
    json: bool
    take_over: bool = False
    """Whether the cluster is taken from another state directory."""

    @property
    def scope_words(self) -> str:
        """Give the scope as it stands on a command line; empty where none was given."""
        words = [f"--topic {topic}" for topic in self.topics]
        words += [f"--partition {tp.topic}:{tp.partition}" for tp in self.partitions]
        return "--all" if self.everything else " ".join(words)


def cancel_options(function: F) -> F:
    """Add what says what is to become of what."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def taken(values: dict[str, Any], *, json: bool) -> CancelRequest | None:
    """Take what is wanted out of all that was given; None where the gate is to be opened.

    Raises:
        BadInput: not exactly one thing is wanted, or its scope contradicts itself.
    """
    kinds = [kind for kind in CancelKind if values.pop(kind.value)]
    opens, everything = values.pop("remove_cancel"), values.pop("everything")
    topics, partitions = values.pop("topics"), values.pop("partitions")
    dry_run, take_over = values.pop("dry_run"), values.pop("take_over")
    if opens:
        _check_alone(kinds or everything or topics or partitions or dry_run or take_over)
        return None
    if len(kinds) != 1:
        which = "exclude each other" if kinds else "say what is to become of it"
        raise BadInput(f"{', '.join(_KINDS)} {which}: give one of them, or {REMOVE_CANCEL}")
    if everything and (topics or partitions):
        raise BadInput("--all is everything: give it without --topic and --partition, or only them")
    return CancelRequest(
        kind=kinds[0],
        topics=topics,
        partitions=partitions,
        everything=everything,
        dry_run=dry_run,
        json=json,
        take_over=take_over,
    )


def check_scope_given(wanted: CancelRequest) -> None:
    """See that it is said of what something is to be called off.

    Raises:
        BadInput: it is not.
    """
    if not wanted.scope_words:
        raise BadInput("say of what: --topic T, --partition T:P, or --all for everything")


def _check_alone(others: object) -> None:
    if others:
        raise BadInput(f"{REMOVE_CANCEL} goes alone: it opens the cancel gate, and cancels nothing")
