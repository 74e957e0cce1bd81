"""The hash chain over a journal's events: none can be changed, or left out, unseen."""

from __future__ import annotations

import hashlib

GENESIS = bytes(32)
"""What the first event is chained to."""


def link(previous: bytes, seq: int, at: bytes, body: bytes) -> bytes:
    """Give the hash of an event: SHA-256 over the hash before it, its number, time and body.

    Args:
        previous: the hash of the event before it, 32 bytes.
        seq: its number.
        at: its time as it is stored, which holds no line break.
        body: its JSON as it is stored.
    """
    return hashlib.sha256(b"%b%d\n%b\n%b" % (previous, seq, at, body)).digest()
