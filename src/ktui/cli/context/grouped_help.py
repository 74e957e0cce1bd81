"""Help in groups: what an operator looks for stands first, and what belongs together, together."""

from __future__ import annotations

import click

FIRST = "Options that matter first"
WHAT = "What to do"
CONNECTION = "Connection and state"
GROUPS = {
    FIRST: """--bootstrap-server --context --name --throttle --slo --pace --replicas --partitions
        --until --dry-run""",
    WHAT: "",
    "How much at once": """--leader-movements --replica-movements --per-broker --per-leader
        --cuts-per-minute --bytes-in-flight --bytes-per-broker --per-rack --extra-replicas
        --cut-together --shape --mode --order --internal""",
    "When": "--start-at --window --while --by --within --rate",
    "Throttle": """--budget --canary --sli-command --sli-prometheus --on-foreign-throttle
        --throttle-leaders --allow-slow""",
    "In trouble": """--on-stall --stall-timeout --on-foreign-change --stop-on-failure
        --urgent-first --most-under-min-isr --most-offline""",
    "Output, records and notices": "--on-event --metrics-file --record --poll --headless --json -o",
    CONNECTION: """--command-config --concurrent --take-over --no-ownership --yes --state-dir
        --help""",
}
"""The options under each heading, in the order of the help; all others stand under WHAT."""
_PLACES = {
    option: (heading, place)
    for heading, options in GROUPS.items()
    for place, option in enumerate(options.split())
}


class GroupedCommand(click.Command):
    """A command with more options than one reads: its help has them in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[int, tuple[str, str]]]] = {each: [] for each in GROUPS}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                heading, place = min(
                    (_PLACES[each] for each in option.opts if each in _PLACES), default=(WHAT, 0)
                )
                groups[heading].append((place, record))
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl([each for _, each in sorted(records, key=lambda of: of[0])])
