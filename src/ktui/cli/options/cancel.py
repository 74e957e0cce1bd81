"""The options of `ktui cancel`: exactly one kind of cancel, and its scope."""

from __future__ import annotations

from typing import Any

from ktui.cli.context.claim import take_over_option
from ktui.cli.context.option import add_option, all_of
from ktui.cli.context.terminal import BadInput
from ktui.cli.options import common
from ktui.execution.run.states import CancelKind
from ktui.ops.cancel import CancelRequest

REMOVE_CANCEL = "--remove-cancel"
_KINDS = ("--stop", "--rollback", "--trim")

cancel_options = all_of(
    add_option("--stop", "Cancel what is in flight (KIP-455), and submit no further steps."),
    add_option(
        "--rollback", "Restore the original replicas, their order and their leader (KIP-236)."
    ),
    add_option("--trim", "Stop, and drop replicas beyond the original number."),
    common.topics_option("Only this topic; may be repeated."),
    common.partitions_option("Only this partition; may be repeated."),
    common.brokers_option(
        "Only partitions that hold, gain or lose a replica on this broker now; may be repeated."
    ),
    add_option(
        "--all",
        "Every partition. Unless the run has ended, also shut the cluster's cancel gate.",
        "everything",
    ),
    add_option(REMOVE_CANCEL, "Open the cancel gate that --all has shut (KIP-236)."),
    add_option("--dry-run", "Show what would be done, and change nothing."),
    take_over_option,
)


def read_cancel_request(values: dict[str, Any]) -> CancelRequest | None:
    """Pop the cancel's options from `values`; None if the gate is to be opened."""
    kinds = [kind for kind in CancelKind if values.pop(kind.value)]
    opens, everything = values.pop("remove_cancel"), values.pop("everything")
    topics, partitions = values.pop("topics"), values.pop("partitions")
    brokers = values.pop("brokers")
    dry_run, take_over = values.pop("dry_run"), values.pop("take_over")
    scoped = topics or partitions or brokers
    if opens:
        _check_alone(kinds or everything or scoped or dry_run or take_over)
        return None
    if len(kinds) != 1:
        names = ", ".join(_KINDS)
        what = f"{names} exclude each other" if kinds else f"none of {names} was given"
        raise BadInput(f"{what}. Give one of them, or {REMOVE_CANCEL}")
    if everything and scoped:
        raise BadInput(
            "--all already covers every partition. Give either --all, or --topic, --partition and "
            "--broker"
        )
    return CancelRequest(
        kind=kinds[0],
        topics=topics,
        partitions=partitions,
        brokers=brokers,
        everything=everything,
        dry_run=dry_run,
        take_over=take_over,
    )


def check_scope_given(request: CancelRequest) -> None:
    """Check that a cancel has a scope."""
    if not request.scope_words:
        raise BadInput(
            "no scope was given. Give --topic T, --partition T:P, --broker ID, or --all for every "
            "partition"
        )


def _check_alone(others: object) -> None:
    if others:
        raise BadInput(
            f"{REMOVE_CANCEL} cannot be combined with other cancel options: it opens the cancel "
            "gate, and cancels nothing. Give it alone"
        )
