"""The wishes of an operator, held against the cluster: topics, racks and weights."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.plan.make_options import EXCLUDE, RACK_AWARE, WEIGHT, MakeOptions
from ktui.planning.intents.arguments import check_patterns
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.layout_warnings import without_rack
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.wishes import Wishes
from ktui.planning.names import join_named, join_some


def wishes_of(options: MakeOptions, layout: Layout, named_by: str) -> Wishes:
    """Return the wishes that options make on a cluster.

    Args:
        options: the options.
        layout: the cluster.
        named_by: the option or argument that names topics.

    Raises:
        BadInput: a pattern matches no topic, or racks are to be kept that brokers do not have.
    """
    check_names(named_by, options.topics, layout)
    check_names(EXCLUDE, options.exclude, layout)
    unracked = without_rack(layout)
    if options.rack_aware and unracked:
        raise BadInput(
            f"{RACK_AWARE}: no rack is known of {join_named('broker', unracked)}. Set broker.rack "
            "there, or leave the option out"
        )
    return Wishes(
        topics=options.topics,
        exclude=options.exclude,
        internal=options.internal,
        max_moves=options.max_moves,
        max_bytes=options.max_bytes,
        max_leader_changes=options.max_leader_changes,
        rack_aware=not unracked if options.rack_aware is None else options.rack_aware,
        keep_order=options.keep_order,
    )


def weighted(layout: Layout, options: MakeOptions) -> Layout:
    """Return a layout with the weights of the options.

    Raises:
        BadInput: the cluster does not have one of the brokers.
    """
    known = layout.known - layout.unregistered
    if unknown := sorted(options.weights.keys() - known):
        has = join_some(sorted(known), most=12)
        raise BadInput(f"{WEIGHT}: the cluster has no {join_named('broker', unknown)}, only {has}")
    return msgspec.structs.replace(layout, weights=options.weights)


def check_names(named_by: str, patterns: Sequence[str], layout: Layout) -> None:
    """Check that each name or shell pattern of an option matches a topic.

    Raises:
        BadInput: one does not; names the option and the closest topics.
    """
    try:
        check_patterns(layout, patterns)
    except CannotMake as problem:
        raise BadInput(f"{named_by}: {problem}") from None
