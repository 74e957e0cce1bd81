"""What a person got wrong on the command line."""

from __future__ import annotations


class BadInput(Exception):
    """Nothing was sent: the message names what is wrong and the fix."""
