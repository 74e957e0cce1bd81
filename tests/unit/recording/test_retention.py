"""Which segments go when recordings are pruned, and which stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.recording.stored import Choice, KeptFor, Retention, StoredSegment, choose_segments

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


def segment(session: str, number: int, days_old: float, size: int = 10) -> StoredSegment:
    path = Path("/recordings") / session / f"{number:06}.jsonl.gz"
    return StoredSegment(path, size, NOW_MS - round(days_old * DAY_MS))


OLD, OLDER, NEW = segment("b", 0, 40), segment("a", 0, 50), segment("c", 0, 1)


def chosen(*segments: StoredSegment, **needed: KeptFor) -> Choice:
    days = Retention(older_than_s=30 * 86_400)
    return choose_segments(segments, days, NOW_MS, lambda each: needed.get(each.session.name))


def test_the_oldest_goes_first_and_what_is_young_stays() -> None:
    choice = chosen(NEW, OLD, OLDER)

    assert choice.going == (OLDER, OLD)
    assert choice.staying[KeptFor.YOUNG] == (NEW,)
    assert not choice.beyond_limits


@pytest.mark.parametrize("reason", [KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD])
def test_what_is_needed_stays_with_the_reason_however_old(reason: KeptFor) -> None:
    choice = chosen(OLD, OLDER, a=reason)

    assert choice.going == (OLD,)
    assert choice.staying[reason] == (OLDER,)
    assert choice.beyond_limits


def test_to_keep_a_size_the_oldest_go_until_the_rest_fits() -> None:
    small = Retention(keep_bytes=15)

    choice = choose_segments([NEW, OLD, OLDER], small, NOW_MS, lambda _: None)

    assert choice.going == (OLDER, OLD)


def test_what_is_needed_counts_to_the_size_that_is_kept() -> None:
    live = segment("live", 0, 60, size=100)

    choice = choose_segments(
        [NEW, OLD, live],
        Retention(keep_bytes=105),
        NOW_MS,
        lambda each: KeptFor.LIVE if each is live else None,
    )

    assert choice.going == (OLD, NEW)


def test_either_limit_alone_lets_a_segment_go() -> None:
    both = Retention(older_than_s=30 * 86_400, keep_bytes=1_000)

    choice = choose_segments([NEW, OLD], both, NOW_MS, lambda _: None)

    assert choice.going == (OLD,)


def test_a_copied_session_goes_by_its_numbers_whatever_times_its_files_have_got() -> None:
    first, second = segment("a", 0, 35), segment("a", 1, 45)

    assert chosen(second, first).going == (first, second)
