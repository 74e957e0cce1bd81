"""Whatever is recorded: limits are kept to, nothing that is needed goes, and never too much."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ktui.recording.stored import Choice, KeptFor, Retention, StoredSegment, choose_segments

NOW_MS = 1_000_000
NEEDED = [None, None, KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD]

Session = tuple[list[tuple[int, int]], KeptFor | None]
sessions = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 100), st.integers(0, NOW_MS)), max_size=5),
        st.sampled_from(NEEDED),
    ),
    max_size=5,
)
limits = st.builds(
    Retention,
    older_than_s=st.none() | st.integers(0, NOW_MS // 1_000),
    keep_bytes=st.none() | st.integers(0, 1_000),
)


@given(sessions, limits)
def test_segments_go_oldest_first_and_only_beyond_the_limits(
    recorded: list[Session], allowed: Retention
) -> None:
    needed = {Path(f"/{n}"): reason for n, (_, reason) in enumerate(recorded)}
    segments = [
        StoredSegment(Path(f"/{n}/{number:06}.jsonl.gz"), size, modified_ms)
        for n, (files, _) in enumerate(recorded)
        for number, (size, modified_ms) in enumerate(files)
    ]

    choice = choose_segments(segments, allowed, NOW_MS, lambda each: needed[each.session])

    staying = [each for kept in choice.staying.values() for each in kept]
    assert sorted([*choice.going, *staying], key=_path) == sorted(segments, key=_path)
    assert all(needed[each.session] is None for each in choice.going)
    for reason in (KeptFor.LIVE, KeptFor.RUN, KeptFor.UNREAD):
        assert all(needed[each.session] is reason for each in choice.staying[reason])
    _assert_limits_hold(choice, segments, allowed)
    _assert_no_more_went(choice.going, segments, allowed)
    for session in needed:
        going = [each.path for each in choice.going if each.session == session]
        kept = [each.path for each in staying if each.session == session]
        assert going == sorted(going)
        assert not (going and kept) or max(going) < min(kept)


def _assert_limits_hold(choice: Choice, segments: list[StoredSegment], allowed: Retention) -> None:
    """What may go and stays is within both limits."""
    young = choice.staying[KeptFor.YOUNG]
    left = sum(each.size for kept in choice.staying.values() for each in kept)
    if allowed.keep_bytes is not None and young:
        assert left <= allowed.keep_bytes
    if allowed.older_than_s is not None:
        for each in young:
            before = [e for e in segments if e.session == each.session and e.path <= each.path]
            last_ms = max(e.modified_ms for e in before)
            assert NOW_MS - last_ms <= allowed.older_than_s * 1_000


def _assert_no_more_went(
    going: tuple[StoredSegment, ...], segments: list[StoredSegment], allowed: Retention
) -> None:
    """Each segment that went was too old, or there was too much before it went."""
    left = sum(each.size for each in segments)
    for each in going:
        too_old = allowed.older_than_s is not None and (
            NOW_MS - each.modified_ms > allowed.older_than_s * 1_000
        )
        too_much = allowed.keep_bytes is not None and left > allowed.keep_bytes
        assert too_old or too_much
        left -= each.size


def _path(segment: StoredSegment) -> Path:
    return segment.path
