"""The summary at the head of the report, in a few sentences and figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ktui.cluster.text import clean, marked
from ktui.pipeline.lake.records import ReportFacts, RunRecord, Span
from ktui.pipeline.report.figures.figure import as_time
from ktui.pipeline.report.figures.lanes import outcome
from ktui.quantities import UNKNOWN, as_bytes, as_count, as_duration, as_rate

DONE = "done"
_MOST_IDLE = 3


class ReportSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the page."""

    title: str
    words: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]


def summary(facts: ReportFacts) -> ReportSummary:
    """Sum up a run or a cluster."""
    return ReportSummary(
        title=_title(facts),
        words=tuple(_words(facts)),
        figures=_figures(facts),
    )


def _words(facts: ReportFacts) -> Iterator[str]:
    yield _when(facts)
    if facts.moves:
        yield _what(facts)
    if facts.of_run:
        run = facts.runs[0]
        # whether it kept its objective and its time; nothing where it promised nothing
        if promises := " ".join(filter(None, (_objective(run), _by(run)))):
            yield promises
    if facts.moves:
        yield _stalls(facts)
    if facts.moves and facts.gaps:
        total, gaps = as_duration(_seconds(facts.gaps)), as_count(len(facts.gaps), "gap")
        but = "Nothing is known of that time but a run's own events."
        yield f"Not recorded: {total} in {gaps}. {but}"
    if facts.idle:
        yield _idle(facts)


def _title(facts: ReportFacts) -> str:
    if facts.of_run:
        return marked(f"Run {clean(facts.runs[0].run)}", facts.cluster_id)
    return f"Cluster {_cluster(facts)}"


def _cluster(facts: ReportFacts) -> str:
    return marked(clean(facts.cluster_id), facts.cluster_id)


def _when(facts: ReportFacts) -> str:
    if not facts.moves:
        return "No partition has moved."
    began, ended = facts.span
    lasted = as_duration((ended - began) / 1000)
    when = f"from {as_time(began)} to {as_time(ended)} UTC, {lasted}"
    if not facts.of_run:
        runs = f" in {as_count(len(facts.runs), 'run')} and outside of them" if facts.runs else ""
        return f"What was recorded of cluster {_cluster(facts)}{runs}, {when}."
    run = facts.runs[0]
    went_on = "" if run.ended is not None else " It had not ended when the recording did."
    plan = "A plan that was not recorded" if run.plan is None else clean(run.plan)
    return f"{plan} on cluster {_cluster(facts)}, {when}.{went_on}"


def _what(facts: ReportFacts) -> str:
    counts = Counter(map(outcome, facts.moves))
    outcomes = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
    copied, least = _copied(facts), "At least " if _copied_unseen(facts) else ""
    much = f" {least}{as_bytes(copied)} were copied." if copied else ""
    moves = f"{as_count(len(facts.moves), 'move')} of partitions: {outcomes}."
    return f"{moves}{much}{_never_begun(facts)}"


def _never_begun(facts: ReportFacts) -> str:
    if not facts.of_run:
        return ""
    left = facts.runs[0].partitions - len({move.key for move in facts.moves})
    return f" Of the plan, {as_count(left, 'partition')} never began." if left > 0 else ""


def _stalls(facts: ReportFacts) -> str:
    stood = [one.stall for one in facts.stalls]
    if not stood:
        return "No move stood still for 30 seconds."
    total = as_duration(sum(one.ended - one.began for one in stood) / 1000)
    which = as_count(len({one.key for one in stood}), "partition")
    return f"{which} stood still, {as_count(len(stood), 'time')}, {total} in all."


def _idle(facts: ReportFacts) -> str:
    times = ", ".join(f"{as_time(since)} to {as_time(to)}" for since, to in facts.idle[:_MOST_IDLE])
    more = len(facts.idle) - _MOST_IDLE
    rest = f", and {as_count(more, 'time')} more" if more > 0 else ""
    total = as_duration(_seconds(facts.idle))
    return f"No move is known for {total}, which figures over time leave out: {times}{rest} UTC."


def _seconds(spans: Sequence[Span]) -> float:
    return sum(to - since for since, to in spans) / 1000


def _objective(run: RunRecord) -> str:
    if run.objective is None:
        return ""
    objective = clean(run.objective)
    if not run.windows or run.kept is None:
        return f"Nothing was measured of {objective}."
    share = f"({run.kept / run.windows:.0%})"
    return f"Held {objective} in {run.kept:,} of {as_count(run.windows, 'window')} {share}."


def _by(run: RunRecord) -> str:
    if run.by is None:
        return ""
    by = f"{as_time(run.by)} UTC"
    if run.late_ms is None:
        return f"It was to be done by {by}."
    off = as_duration(abs(run.late_ms) / 1000)
    if run.late_ms > 0:
        return f"Done {off} late: it was to be done by {by}."
    return f"Done {off} before {by}."


def _copied(facts: ReportFacts) -> int | None:
    known = [move.bytes for move in facts.moves if move.bytes is not None]
    return sum(known) if known else None


def _copied_unseen(facts: ReportFacts) -> bool:
    """Whether a move was to bring a partition onto a broker and no size of it was seen there."""
    unseen = (move for move in facts.moves if move.bytes is None and move.original is not None)
    return any(set(move.target or ()) - set(move.original or ()) for move in unseen)


def median_rate(facts: ReportFacts) -> float | None:
    """Return the median of the moves' median rates of one replica, in bytes a second."""
    rates = [m.rate_bytes_p50 for m in facts.moves if m.rate_bytes_p50 is not None]
    return statistics.median(rates) if rates else None


def _figures(facts: ReportFacts) -> tuple[tuple[str, str], ...]:
    began, ended = facts.span
    copied = _copied(facts)
    least = "≥ " if copied is not None and _copied_unseen(facts) else ""
    done = sum(outcome(move) == DONE for move in facts.moves)
    figures = [
        ("took", as_duration((ended - began) / 1000) if facts.moves else UNKNOWN),
        ("moves", f"{len(facts.moves):,}"),
        ("done", f"{done:,}"),
        ("copied", f"{least}{as_bytes(copied)}"),
        ("median rate of a replica", as_rate(median_rate(facts))),
        ("stalls", f"{len(facts.stalls):,}"),
    ]
    if facts.of_run:
        run = facts.runs[0]
        figures += [
            ("batches", f"{run.batches:,}"),
            ("changes of limits", f"{run.limit_changes:,}"),
        ]
        if run.rate_changes:
            figures.append(("changes of the rate", f"{run.rate_changes:,}"))
    else:
        figures.append(("runs", f"{len(facts.runs):,}"))
    return tuple(figures)
