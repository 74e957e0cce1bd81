"""What an objective allows: the rate into each broker, and why it moved last."""

from __future__ import annotations

import enum

import msgspec


class RateCause(enum.StrEnum):
    """Why a rate moved last, or stays."""

    OVER = "over"
    """Down: the figure was too high."""
    FAR_OVER = "far_over"
    """Down at once: the figure was more than twice as high."""
    UNDER = "under"
    """Up: the figure was below the band."""
    IN_BAND = "in_band"
    """Stays: the figure was in the band."""
    UNUSED = "unused"
    """Stays: too little of the rate was in use."""
    NO_FIGURE = "no_figure"
    """Down to the least rate: there was no figure."""


class RateReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a rate moved last, or stays, with the facts that decided it."""

    cause: RateCause
    figure: float | None = None
    """The mean of the windows' figures, or one that was far over; None if there was none."""
    of: int | None = None
    """The broker whose figure it was; None for one of all brokers."""
    used: float | None = None
    """The share of the rate that was in use; None while unknown."""
    aim: float = 1.0
    """The part of the objective that the mean stays below, so that single windows are below it."""


class HeldBroker(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an objective allows for one broker."""

    broker: int
    rate: int | None = None
    """Bytes a second into the broker; None for one that only sends."""
    figure: float | None = None
    """Its own figure in the last window; None if there was none."""
    why: RateReason | None = None
    """Why the rate moved last or stays; None while it has not been decided yet."""
