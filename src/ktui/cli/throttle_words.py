"""The throttle of a run in words."""

from __future__ import annotations

from ktui.planning.throttle_rates import ThrottleRates


def throttle_in_words(rates: ThrottleRates, *, leaders: bool) -> str:
    """Say it: "50 MB/s into each broker, 20 MB/s into broker 3"; "none" where there is none.

    Args:
        rates: those wanted.
        leaders: whether what leaders send is throttled, too.
    """
    return f"{rates.words}, leaders too" if rates and leaders else rates.words
