"""Insights as a person reads them."""

from __future__ import annotations

from ktui.cli.runs import moment
from ktui.insights.insights import ClusterInsights, Insights
from ktui.insights.sections import NOTHING, Section, sections
from ktui.quantities import as_count


def insights_text(insights: Insights) -> str:
    """Give all clusters, one after another; without any, how to get there."""
    if not insights.clusters:
        return NOTHING
    made = f"made {moment(insights.made_at)} by ktui {insights.version}"
    return "\n\n".join([made, *map(_cluster, insights.clusters)])


def _cluster(of: ClusterInsights) -> str:
    span = f", {moment(of.began)} to {moment(of.ended)}" if of.began is not None else ""
    told = f"{as_count(of.runs, 'run')}, {as_count(of.moves, 'move')}{span}"
    return "\n\n".join([f"cluster {of.cluster_id}: {told}", *map(_section, sections(of))])


def _section(section: Section) -> str:
    more = [section.more] if section.more else []
    return "\n".join([section.title, *section.lines(), *more])
