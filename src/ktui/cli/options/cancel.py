"""The options of `ktui cancel`: exactly one kind of cancel, and its scope."""

from __future__ import annotations

from typing import Any

from ktui.cli.context.claim import take_over_option
from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cli.options.common import scope_options
from ktui.execution.run.states import CancelKind
from ktui.ops.cancel import CancelRequest

REMOVE_CANCEL = "--remove-cancel"
_KINDS = ("--stop", "--rollback", "--trim")

cancel_options = Grouped(
    "chosen",
    dict,
    add_option("--stop", "Cancel what is in flight (KIP-455), and submit no further steps."),
    add_option(
        "--rollback", "Restore the original replicas, their order and their leader (KIP-236)."
    ),
    add_option("--trim", "Stop, and drop replicas beyond the original number."),
    scope_options,
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
    """Return the cancel that its options ask for; None if the gate is to be opened."""
    kinds = [kind for kind in CancelKind if values[kind.value]]
    scope, everything = values["scope"], values["everything"]
    dry_run, take_over = values["dry_run"], values["take_over"]
    if values["remove_cancel"]:
        if kinds or everything or any(scope) or dry_run or take_over:
            raise BadInput(
                f"{REMOVE_CANCEL} cannot be combined with other cancel options: it opens the "
                "cancel gate, and cancels nothing. Give it alone"
            )
        return None
    if len(kinds) != 1:
        names = ", ".join(_KINDS)
        what = f"{names} exclude each other" if kinds else f"none of {names} was given"
        raise BadInput(f"{what}. Give one of them, or {REMOVE_CANCEL}")
    if everything and any(scope):
        raise BadInput(
            "--all already covers every partition. Give either --all, or --topic, --partition and "
            "--broker"
        )
    return CancelRequest(
        kind=kinds[0],
        **scope._asdict(),
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
