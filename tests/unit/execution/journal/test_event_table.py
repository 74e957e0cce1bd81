"""Events are chained: each hash stands for all that went before."""

from __future__ import annotations

import hashlib

from ktui.execution.journal.tables import GENESIS, chain_hash


def test_a_hash_is_sha256_over_the_previous_hash_the_number_the_time_and_the_body() -> None:
    expected = hashlib.sha256(GENESIS + b"1\n2026-01-01T00:00:00.000000Z\n{}").digest()

    assert chain_hash(GENESIS, 1, b"2026-01-01T00:00:00.000000Z", b"{}") == expected


def test_the_hash_differs_with_every_part_of_an_event() -> None:
    hashes = {
        chain_hash(GENESIS, 1, b"10:00", b"{}"),
        chain_hash(b"\1" * 32, 1, b"10:00", b"{}"),
        chain_hash(GENESIS, 2, b"10:00", b"{}"),
        chain_hash(GENESIS, 1, b"10:01", b"{}"),
        chain_hash(GENESIS, 1, b"10:00", b"[]"),
    }

    assert len(hashes) == 5
