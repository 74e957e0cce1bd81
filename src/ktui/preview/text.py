"""A preview in words, for `plan check`, `start --dry-run` and the screen."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.pacing.limits import Limits, Mode
from ktui.planning.check.findings import Finding, FindingKind
from ktui.planning.plan import join_named
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.preview.preview import BrokerPreview, PlanPreview, ShapeCost, sizes_phrase
from ktui.quantities import as_bytes
from ktui.speed.answer import Bottleneck, Bound, how_long_text

_HEADINGS = ("BROKER", "GAINS", "LOSES", "IN", "OUT", "ROOM NOW", "AFTER", "AT PEAK")
_SEEN_BY_MONITORS = "until they are dropped, monitors see the extra replicas as a higher factor"


def lines(preview: PlanPreview) -> list[str]:
    """Return figures, brokers and shapes, separated by empty lines; at most 80 columns wide."""
    blocks = [figures(preview)]
    if room := room_lines(preview):
        blocks.append(room)
    if preview.moves:
        blocks += [shape_lines(preview), [f"time  {time_text(preview)}", *throttle_lines(preview)]]
    return [line for block in blocks for line in ("", *block)][1:]


def figures(preview: PlanPreview) -> list[str]:
    """Return the figures of the plan, one per line."""
    summary = preview.summary
    rows = [
        ("partitions in the plan", f"{summary.partitions:,}"),
        ("already at their target", f"{summary.at_target:,}"),
        ("replica movements", f"{summary.replica_movements:,}"),
        ("leader movements", f"{summary.leader_movements:,}"),
    ]
    if summary.unknown:
        rows.insert(1, ("not on this cluster", f"{summary.unknown:,}"))
    rows += [
        (f"replication factor from {change.before} to {change.after}", f"{change.partitions:,}")
        for change in summary.replication_factor_changes
    ]
    if summary.replica_movements:
        rows.append(("to be copied", as_bytes(preview.bytes_to_copy)))
    if preview.how_long is not None and preview.moves:
        waves = preview.limits.mode is Mode.WAVE
        rows.append(("waves" if waves else "batches, about", f"{preview.how_long.batches:,}"))
    names, values = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [f"{name:<{names}}  {value:>{values}}" for name, value in rows]


def room_lines(preview: PlanPreview) -> list[str]:
    """Show what brokers get and lose, and the room on their disks; empty if nothing is copied."""
    rows = [_broker(each) for each in preview.brokers if each.copies]
    return _table([_HEADINGS, *rows]) if rows else []


def time_text(preview: PlanPreview) -> str:
    """Return how long the plan takes: `about 41 min (35 to 52), by 3 earlier runs`."""
    if preview.how_long is None:
        return f"unknown: {sizes_phrase(preview.sizes_unknown)} not known"
    never = any(each.kind is FindingKind.NEVER_ENDS for each in preview.findings)
    down = any(each.kind is FindingKind.BROKER_DOWN for each in preview.findings)
    takes = f"{'with all its brokers up, ' if down else ''}{how_long_text(preview.how_long)}"
    return takes + (", where the throttle lets it end" if never else "")


def throttle_lines(preview: PlanPreview) -> list[str]:
    """Return the throttle of the run, and those that brokers have already and keep."""
    rates = preview.throttle
    words = rates.with_leaders(throttled=preview.throttle_leaders)
    already = tuple(
        BrokerRate(each.broker, each.throttle_bytes_s)
        for each in preview.brokers
        if each.throttle_bytes_s is not None and rates.of(each.broker) is None
    )
    return [
        *([f"throttle  {words}"] if rates else []),
        *([f"throttled already: {ThrottleRates(brokers=already).words}"] if already else []),
    ]


def finding_text(finding: Finding) -> str:
    """Return a finding with its severity: `warning: ...`."""
    return f"{finding.severity}: {finding.sentence}"


def _broker(load: BrokerPreview) -> Sequence[str]:
    return (
        str(load.broker),
        f"{load.gains:,}",
        f"{load.loses:,}",
        as_bytes(load.bytes_in),
        as_bytes(load.bytes_out),
        as_bytes(load.room_bytes),
        room_text(load.room_after_bytes),
        room_text(load.room_at_peak_bytes),
    )


def room_text(room: int | None) -> str:
    """Format the room on a disk; a negative figure is lacking."""
    return as_bytes(room) if room is None or room >= 0 else f"-{as_bytes(-room)}"


def shape_lines(preview: PlanPreview) -> list[str]:
    """Show both shapes side by side; without R, they are the same."""
    in_force = preview.in_force
    seen = [_SEEN_BY_MONITORS] if in_force.peak_extra_replicas else []
    if preview.limits.replicas is None:
        return [*_side_by_side(["all at once"], [in_force]), *seen]
    others = [cost for cost in preview.shapes if cost is not in_force]
    names = [f"{in_force.shape}, chosen", *(cost.shape for cost in others)]
    return [*_side_by_side(names, [in_force, *others]), *seen]


def _side_by_side(names: Sequence[str], costs: Sequence[ShapeCost]) -> list[str]:
    rows = [
        ("shape", *names),
        ("reassignments sent", *(f"{cost.alters:,}" for cost in costs)),
        ("elections sent", *(f"{cost.elections:,}" for cost in costs)),
        ("leader epoch bumps", *(f"{cost.leader_epoch_bumps:,}" for cost in costs)),
        ("extra replicas at peak", *(f"{cost.peak_extra_replicas:,}" for cost in costs)),
        ("most replicas of a partition", *(f"{cost.most_replicas:,}" for cost in costs)),
    ]
    return _table(rows, "<")


AS_FAST = 1.01  # times the least time, from which on a run is slower: what rounds to 1%
NO_FASTER = "no order of steps is faster"


def how_much_longer(times: float) -> str:
    """Compare a time with the least time: "this run takes 6% longer"."""
    if times >= 2:  # noqa: PLR2004 - from there on a factor says more
        return f"this run takes {times:.1f} times as long"
    if times < AS_FAST:
        return NO_FASTER
    return f"this run takes {times - 1:.0%} longer"


def why_no_less(bound: Bound, limits: Limits) -> str:
    """Name the bottleneck: "as broker 4 gets 1.9 GiB"."""
    size = as_bytes(bound.bytes)
    match bound.bottleneck:
        case Bottleneck.RECEIVER:
            return f"as broker {bound.broker} gets {size}"
        case Bottleneck.SENDER:
            sends = limits.most_at("per_leader", bound.broker)
            return f"as broker {bound.broker} sends {size}, with S {sends}"
        case Bottleneck.BROKER | Bottleneck.BROKERS:
            return _why_in_turn(bound, limits)
        case Bottleneck.PARTITION:
            return f"as {bound.partition} copies {size}"
        case Bottleneck.PARTITIONS:
            return f"with P {limits.partitions}"
        case Bottleneck.REPLICAS:
            return f"with M {limits.replica_movements}"


def _why_in_turn(bound: Bound, limits: Limits) -> str:
    size = as_bytes(bound.bytes)
    if bound.bottleneck is Bottleneck.BROKER:
        most = as_bytes(limits.most_at("bytes_per_broker", bound.broker))
        return f"as broker {bound.broker} takes part in {size}, with W {most}"
    names, at_once = join_named("broker", bound.brokers), len(bound.brokers) // 2 * 2
    most = as_bytes(limits.bytes_per_broker)
    return f"as {names} exchange {size}, {at_once} at a time, with W {most}"


def _table(rows: Sequence[Sequence[str]], side: str = ">") -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
