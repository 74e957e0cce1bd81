"""The wishes of an operator, held against the cluster: topics, racks and weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cli.plan.make_options import EXCLUDE, RACK_AWARE, WEIGHT, MakeOptions
from ktui.planning.intents.layout import Layout
from ktui.planning.intents.layout_warnings import without_rack
from ktui.planning.intents.wishes import Wishes
from ktui.planning.names import closest_names, join_all, join_named, join_some, shortened


def wishes_of(options: MakeOptions, layout: Layout, named_by: str) -> Wishes:
    """Return the wishes that options make on a cluster.

    Args:
        options: the options.
        layout: the cluster.
        named_by: the option or argument that names topics.

    Raises:
        BadInput: a pattern matches no topic, or racks are to be kept that brokers do not have.
    """
    topics = {tp.topic for tp in layout.partitions}
    _check_patterns(named_by, options.topics, topics)
    _check_patterns(EXCLUDE, options.exclude, topics)
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
    if unknown := sorted(options.weights.keys() - layout.known):
        has = join_some(sorted(layout.known), most=12)
        raise BadInput(f"{WEIGHT}: the cluster has no {join_named('broker', unknown)}, only {has}")
    return msgspec.structs.replace(layout, weights=options.weights)


def _check_patterns(named_by: str, patterns: Sequence[str], topics: Collection[str]) -> None:
    for pattern in patterns:
        if any(fnmatchcase(topic, pattern) for topic in topics):
            continue
        near = join_all(map(shortened, closest_names(pattern, sorted(topics))), "or")
        hint = f"; did you mean {near}?" if near else ""
        raise BadInput(f"{named_by}: no topic matches {shortened(pattern)!r}{hint}")
