"""Limits and a throttle as the options of `ktui start` that ask for just them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.pacing.limits import Limits, default_limits, limit_text

Options = dict[str, str | int | None]
"""Values by option, without dashes; None lifts a limit."""
_OF_BROKERS = "brokers"
"""The limits of single brokers are no options of a new run."""


def limit_options(limits: Limits) -> Options:
    """Return the options that a new run needs for these limits, beside those of single brokers.

    Named are all that differ from what Kafka's own tool does, and from the defaults of `ktui start`
    with these named.
    """
    chosen = _by_option(limits)
    named = {name: value for name, value in chosen.items() if value != _KAFKAS[name]}
    defaults = _by_option(default_limits(named))
    return {
        name: value for name, value in chosen.items() if name in named or value != defaults[name]
    }


def options_text(limits: Mapping[str, str | int | None], throttle: str) -> str:
    """Format limits by option, and a throttle as `--throttle` takes it, for a command line."""
    named = {name: limit_text(name, value) for name, value in limits.items()}
    if throttle != "none":
        named["throttle"] = throttle
    return " ".join(f"--{name} {value}" for name, value in named.items())


def _by_option(limits: Limits) -> Options:
    fields = msgspec.to_builtins(limits)
    return {name.replace("_", "-"): fields[name] for name in fields if name != _OF_BROKERS}


_KAFKAS = _by_option(Limits())
